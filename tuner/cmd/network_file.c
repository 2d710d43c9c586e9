/* network_file.c - a network from its file, and its weights from theirs. */
#include "network.h"

#include "spc_import.h"
#include <string.h>

static bool ends_with(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

static spc_status read_onnx(spc_net **out, const network_args *args,
                            spc_dtype dtype, spc_error *error)
{
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    spc_onnx *onnx = NULL;
    spc_status status;

    if (args->weights.count > 0)
        return cli_fail(SPC_EINVAL, "'%s' holds its weights: drop --weights",
                        args->file);
    options.dtype = dtype;
    options.axes = args->axes;
    status = spc_onnx_open(&onnx, args->file, error);
    if (status == SPC_OK)
        status = spc_onnx_build(out, onnx, &options, error);
    spc_onnx_free(onnx);
    return status == SPC_OK ? status : cli_fail(status, "%s", error->text);
}

static spc_status read_weights(spc_net *net, const network_args *args,
                               spc_error *error)
{
    spc_weights_use use = SPC_WEIGHTS_USE_INIT;
    spc_weights *weights = NULL;
    spc_status status = SPC_OK;

    use.axes = args->axes;
    use.prefix = args->prefix;
    if (args->from != NULL)
        status = spc_engine_parse(&use.engine, args->from, error);
    if (status == SPC_OK)
        status = spc_weights_open(&weights, args->weights.at,
                                  args->weights.count, error);
    if (status == SPC_OK)
        status = spc_weights_fill_net(net, weights, &use, error);
    spc_weights_free(weights);
    return status == SPC_OK ? status : cli_fail(status, "%s", error->text);
}

spc_status network_read(spc_net **out, const network_args *args,
                        spc_dtype dtype)
{
    spc_error error = {0};
    spc_status status;

    if (ends_with(args->file, ".onnx"))
        return read_onnx(out, args, dtype, &error);
    if (args->weights.count == 0 &&
        (args->from != NULL || args->axes != NULL || args->prefix != NULL))
        return cli_fail(SPC_EINVAL,
                        "--from, --axes and --prefix say how weights are kept: "
                        "--weights FILE is missing");
    if (spc_net_load(out, args->file, dtype, &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    status =
        args->weights.count > 0 ? read_weights(*out, args, &error) : SPC_OK;
    if (status != SPC_OK) {
        spc_net_free(*out);
        *out = NULL;
    }
    return status;
}
