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

/* "0.1,0.1,0.2", exactly `count` numbers. */
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
static spc_status read_grid(spc_onnx_options *out, const network_args *args)
{
    double range[6];

    if (args->voxel == NULL && args->range == NULL)
        return SPC_OK;
    if (args->voxel == NULL || args->range == NULL ||
        !read_numbers(out->voxel, 3, args->voxel) ||
        !read_numbers(range, 6, args->range))
        return cli_fail(SPC_EINVAL, "a grid is --voxel X,Y,Z and --range "
                                    "X,Y,Z,X,Y,Z, such as --voxel "
                                    "0.075,0.075,0.2 --range "
                                    "-54,-54,-5,54,54,3");
    memcpy(out->low, range, sizeof(out->low));
    memcpy(out->high, range + 3, sizeof(out->high));
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

/* `int8` uses the ranges of the file; *out stays NULL without them. */
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

/* The layout of kernels of one offset in the file, which shapes do not show. */
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
        (status = read_grid(&options, args)) != SPC_OK)
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
static spc_status read_weights(spc_net *net, const cli *self,
                               const network_args *args, spc_error *error)
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
    if (status == SPC_OK && self != NULL)
        say_unread(self, net, weights, &use);
    spc_weights_free(weights);
    return status == SPC_OK ? status : cli_fail(status, "%s", error->text);
}

spc_status network_read(spc_net **out, const cli *self,
                        const network_args *args, spc_dtype dtype)
{
    spc_error error = {0};
    spc_status status;

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
