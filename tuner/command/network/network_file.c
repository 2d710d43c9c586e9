/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_file.c - reads a network from its file, and its weights from theirs.
 */
#include "command/network/network.h"

#include "base/number.h"
#include "base/plural.h"
#include "spc_import.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool ends_with(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

bool network_is_stored(const network_args *args)
{
    return !ends_with(args->file, ".onnx") && !ends_with(args->file, ".lua") &&
           strchr(args->file, '/') == NULL && access(args->file, F_OK) != 0;
}

/* Reads exactly `count` numbers, as in "0.1,0.1,0.2". */
static bool read_numbers(double *out, int count, const char *text)
{
    char copy[256];
    int found = 0;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return false;
    for (char *rest = copy; rest != NULL && found < count; found++) {
        const char *word = strsep(&rest, ",");
        if (!spc__number_read(&out[found], word))
            return false;
        if (found == count - 1 && rest != NULL)
            return false;
    }
    return found == count;
}

/* Reads the grid that turns points into voxels. */
static spc_status read_grid(double voxel[3], double low[3], double high[3],
                            const network_args *args)
{
    double range[6];

    if (args->voxel == NULL && args->range == NULL)
        return SPC_OK;
    if (args->voxel == NULL || args->range == NULL ||
        !read_numbers(voxel, 3, args->voxel) ||
        !read_numbers(range, 6, args->range))
        return cli_fail(SPC_EINVAL, "a grid is --voxel X,Y,Z and --range "
                                    "X,Y,Z,X,Y,Z, such as --voxel "
                                    "0.075,0.075,0.2 --range "
                                    "-54,-54,-5,54,54,3");
    memcpy(low, range, 3 * sizeof(*low));
    memcpy(high, range + 3, 3 * sizeof(*high));
    return SPC_OK;
}

static bool states_ranges(const spc_onnx *onnx)
{
    spc_onnx_range r;

    for (int i = 0; spc_onnx_range_at(&r, onnx, i) == SPC_OK; i++)
        if (r.int8)
            return true;
    return false;
}

/* `int8` uses the ranges of the file; without ranges, *out stays NULL. */
static spc_status build_onnx(spc_net **out, const cli *self,
                             const network_args *args,
                             const spc_onnx_options *options,
                             const spc_onnx *onnx, spc_error *error)
{
    if (options->int8 && !states_ranges(onnx))
        return SPC_OK;
    if (self != NULL && !args->int8 && states_ranges(onnx))
        cli_say(self, "%s states ranges for int8: --int8 works by them",
                args->file);
    return spc_onnx_build(out, onnx, options, error);
}

/* Returns the layout of kernels of one offset in the file, which shapes do not
 * show. */
static spc_status read_matrices(spc_onnx_options *out, const network_args *args)
{
    spc_error error = {0};
    spc_engine engine = SPC_ENGINE_SPCONV2;

    if (args->from != NULL &&
        spc_engine_parse(&engine, args->from, &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    if (engine != SPC_ENGINE_SPCONV2 && engine != SPC_ENGINE_SPCONV1 &&
        engine != SPC_ENGINE_SPCTUNE)
        return cli_fail(SPC_EINVAL,
                        "'%s' has kernels of spconv's form, not of %s: --from "
                        "spconv2 (the default) multiplies by those of one "
                        "offset as [cin][cout], spconv1 and spctune as "
                        "[cout][cin]",
                        args->file, args->from);
    out->plain_matrices = engine != SPC_ENGINE_SPCONV2;
    return SPC_OK;
}

/* Reads a network and its weights from an ONNX file. */
static spc_status read_onnx(spc_net **out, const cli *self,
                            const network_args *args, spc_dtype dtype,
                            bool int8, spc_error *error)
{
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    spc_onnx *onnx = NULL;
    spc_status status;

    if (args->weights.count > 0 || args->prefix != NULL)
        return cli_fail(SPC_EINVAL, "'%s' holds its weights: drop %s",
                        args->file,
                        args->weights.count > 0 ? "--weights" : "--prefix");
    options.dtype = dtype;
    options.axes = args->axes;
    options.int8 = int8;
    if ((status = read_matrices(&options, args)) != SPC_OK ||
        (status = read_grid(options.voxel, options.low, options.high, args)) !=
            SPC_OK)
        return status;
    status = spc_onnx_open(&onnx, args->file, error);
    if (status == SPC_OK)
        status = build_onnx(out, self, args, &options, onnx, error);
    spc_onnx_free(onnx);
    return status == SPC_OK ? status : cli_fail(status, "%s", error->text);
}

/*
 * Reports unread arrays: a checkpoint may be for another network with the same
 * names.
 */
static void say_unread(const cli *self, const spc_net *net,
                       const spc_weights *weights, const spc_weights_use *use)
{
    const spc_array *first;
    int count = spc_weights_unread_count(&first, net, weights, use);

    if (count > 0)
        cli_say(self,
                "%s: %d of %s %s to no layer of this network, such as "
                "'%s'",
                first->file, count,
                spc__count(spc_weights_count(weights), "array"),
                spc__either(count, "belongs", "belong"), first->name);
}

/* Takes the layers' weights from files by their names. */
/* Opens the files of weights, and reads how they are to be used. */
static spc_status open_weights(spc_weights **out, spc_weights_use *use,
                               const network_args *args,
                               const char *const *paths, int count,
                               spc_error *error)
{
    spc_status status = SPC_OK;

    use->axes = args->axes;
    use->prefix = args->prefix;
    if (args->from != NULL)
        status = spc_engine_parse(&use->engine, args->from, error);
    return status == SPC_OK ? spc_weights_open(out, paths, count, error)
                            : status;
}

static spc_status read_weights(spc_net *net, const cli *self,
                               const network_args *args, spc_error *error)
{
    spc_weights_use use = SPC_WEIGHTS_USE_INIT;
    spc_weights *weights = NULL;
    spc_status status = open_weights(&weights, &use, args, args->weights.at,
                                     args->weights.count, error);

    if (status == SPC_OK)
        status = spc_weights_fill_net(net, weights, &use, error);
    if (status == SPC_OK && self != NULL)
        say_unread(self, net, weights, &use);
    spc_weights_free(weights);
    return status == SPC_OK ? status : cli_fail(status, "%s", error->text);
}

/* ---- like another network ------------------------------------------------ */

typedef struct likeness {
    spc_weights *weights;
    spc_weights_use use;
    int found; /* number of layers found */
} likeness;

static bool find_layer(int *cin, int *cout, const char *layer, void *payload)
{
    likeness *like = payload;
    spc_kernel_shape shape;

    if (!spc_weights_find_layer(&shape, like->weights, &like->use, layer))
        return false;
    *cin = shape.cin;
    *cout = shape.cout;
    like->found++;
    return true;
}

static spc_status load_like(spc_net **out, likeness *like,
                            const network_args *args, spc_dtype dtype,
                            spc_error *error)
{
    spc_net_like how = SPC_NET_LIKE_INIT;
    spc_status status = read_grid(how.voxel, how.low, how.high, args);

    if (status != SPC_OK)
        return status;
    how.find = find_layer;
    how.payload = like;
    status = spc_net_load_like(out, args->like, dtype, &how, error);
    if (status == SPC_OK && like->found == 0)
        status = cli_fail(SPC_ENOTFOUND,
                          "'%s' has the weights of no layer of '%s': do "
                          "--prefix and --from describe its names and kernels?",
                          args->file, args->like);
    else if (status != SPC_OK)
        status = cli_fail(status, "%s%s", error->text,
                          args->voxel == NULL && status == SPC_EINVAL
                              ? " (--voxel X,Y,Z --range X,Y,Z,X,Y,Z)"
                              : "");
    return status;
}

/* Builds the network of a file of weights: a network in Lua describes it except
 * for its numbers. */
static spc_status read_like(spc_net **out, const cli *self,
                            const network_args *args, spc_dtype dtype,
                            spc_error *error)
{
    likeness like = {.use = SPC_WEIGHTS_USE_INIT};
    spc_net_info info;
    spc_status status;

    if (args->weights.count > 0)
        return cli_fail(SPC_EINVAL,
                        "with --like '%s' is the file of weights: "
                        "drop --weights",
                        args->file);
    status =
        open_weights(&like.weights, &like.use, args, &args->file, 1, error);
    if (status != SPC_OK)
        return cli_fail(status, "%s", error->text);
    status = load_like(out, &like, args, dtype, error);
    if (status == SPC_OK) {
        status = spc_weights_fill_net(*out, like.weights, &like.use, error);
        if (status != SPC_OK)
            cli_fail(status, "%s", error->text);
    }
    if (status == SPC_OK && self != NULL) {
        spc_net_describe(&info, *out);
        cli_say(self, "like %s: %d channels, %s, a shape of %dx%dx%d voxels",
                args->like, info.input->channels,
                spc__count(info.layers, "layer"), info.input->shape[0],
                info.input->shape[1], info.input->shape[2]);
        say_unread(self, *out, like.weights, &like.use);
    }
    spc_weights_free(like.weights);
    return status;
}

spc_status network_read(spc_net **out, const cli *self,
                        const network_args *args, spc_dtype dtype)
{
    spc_error error = {0};
    spc_status status;

    *out = NULL;
    if (args->like != NULL) {
        status = read_like(out, self, args, dtype, &error);
        if (status != SPC_OK) {
            spc_net_free(*out);
            *out = NULL;
        }
        return status;
    }
    if (ends_with(args->file, ".onnx"))
        return read_onnx(out, self, args, dtype, false, &error);
    if (args->weights.count == 0 &&
        (args->from != NULL || args->axes != NULL || args->prefix != NULL))
        return cli_fail(SPC_EINVAL,
                        "--from, --axes and --prefix describe a file of "
                        "weights: --weights FILE is missing");
    if (args->voxel != NULL || args->range != NULL)
        return cli_fail(SPC_EINVAL,
                        "'%s' states its own grid: drop --voxel and "
                        "--range, which are for ONNX files",
                        args->file);
    if (spc_net_load(out, args->file, dtype, &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    status = args->weights.count > 0 ? read_weights(*out, self, args, &error)
                                     : SPC_OK;
    if (status != SPC_OK) {
        spc_net_free(*out);
        *out = NULL;
    }
    return status;
}

spc_status network_read_stated(spc_net **out, const network_args *args)
{
    spc_error error = {0};

    *out = NULL;
    return ends_with(args->file, ".onnx")
               ? read_onnx(out, NULL, args, SPC_F16, true, &error)
               : SPC_OK;
}

int network_whole_layers(const spc_net *net)
{
    spc_net_param p;
    int count = 0;

    for (int i = 0; spc_net_param_at(&p, net, i) == SPC_OK; i++)
        count += p.which == SPC_OPERAND_WEIGHTS && p.conv != NULL &&
                 p.conv->dtype == SPC_I8;
    return count;
}
