/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_harness.h - runs one candidate of a convolution template directly:
 * renders, compiles, loads, packs and launches it on a view of
 * relation_harness.h. It serves tests of templates without a context or a
 * database, on devices that use host memory.
 */
#ifndef SPC_TESTS_KERNEL_HARNESS_H
#define SPC_TESTS_KERNEL_HARNESS_H

#include "base/dtype.h"
#include "base/error.h"
#include "base/random.h"
#include "compiler/artefact.h"
#include "compiler/template.h"
#include "context/ctx.h"
#include "device/device.h"
#include "harness/relation_harness.h"
#include "templates/shared/spc_abi.h"
#include <stdlib.h>
#include <string.h>

typedef struct harness {
    spc__library *library;
    spc__device *device;
    const spc__device_ops *ops;
    spc__compiler *compiler;
    const char *options;
    spc__attrs target;
    spc_error error;
} harness;

static inline spc_status harness_open(harness *r, const char *device,
                                      int threads)
{
    spc__device_options options = {.threads = threads};
    spc_status status;

    memset(r, 0, sizeof(*r));
    if ((status = spc__library_open(&r->library, NULL, NULL, &r->error)) !=
            SPC_OK ||
        (status = spc__device_open(&r->device, device, &options, &r->error)) !=
            SPC_OK)
        return status;
    r->ops = spc__device_ops_of(r->device);
    r->ops->target(r->device, &r->target);
    return r->ops->compiler(r->device, &r->compiler, &r->options, &r->error);
}

static inline void harness_close(harness *r)
{
    spc__device_close(r->device);
    spc__library_close(r->library);
}

/* ---- data ---------------------------------------------------------------- */

/* Inputs, weights and bias, each as stored and as floats. */
typedef struct harness_data {
    float *in, *weights, *bias;
    void *in_stored, *weights_stored;
    size_t element_bytes;
} harness_data;

static inline void harness_store(void *stored, float *values, size_t n,
                                 bool half)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = spc__half_from_float(values[i]);
        if (half) {
            ((uint16_t *)stored)[i] = bits;
            values[i] = spc__half_to_float(bits);
        } else {
            ((float *)stored)[i] = values[i];
        }
    }
}

static inline void harness_fill(float *values, size_t n, spc__random *random)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(2 * spc__random_unit(random) - 1);
}

/* Fills an array with multiples of `unit` from -2 to 2. */
static inline void harness_fill_whole(float *values, size_t n, float unit,
                                      spc__random *random)
{
    for (size_t i = 0; i < n; i++)
        values[i] = unit * (float)((int)spc__random_below(random, 5) - 2);
}

/* Makes the data. With `whole`, sums of products are exact in any order. f32
 * inputs have one bit more than tf32 holds. */
static inline void harness_data_create(harness_data *data, const spc_conv *conv,
                                       int64_t rows, bool whole)
{
    size_t in = (size_t)rows * (size_t)conv->cin;
    size_t weights = (size_t)spc__conv_offsets(conv) *
                     (size_t)spc__conv_group_in(conv) * (size_t)conv->cout;
    bool half = conv->dtype == SPC_F16;
    spc__random random;

    data->element_bytes = half ? 2 : 4;
    data->in = malloc(in * 4 + 1);
    data->weights = malloc(weights * 4);
    data->bias = malloc((size_t)conv->cout * 4);
    data->in_stored = malloc(in * data->element_bytes + 1);
    data->weights_stored = malloc(weights * data->element_bytes);
    spc__random_init(&random, 1);
    if (whole) {
        harness_fill_whole(data->in, in, conv->dtype == SPC_F32 ? 4097 : 1,
                           &random);
        harness_fill_whole(data->weights, weights, 1, &random);
        harness_fill_whole(data->bias, (size_t)conv->cout, 1, &random);
    } else {
        harness_fill(data->in, in, &random);
        harness_fill(data->weights, weights, &random);
        harness_fill(data->bias, (size_t)conv->cout, &random);
    }
    harness_store(data->in_stored, data->in, in, half);
    harness_store(data->weights_stored, data->weights, weights, half);
}

static inline void harness_data_free(harness_data *data)
{
    free(data->in);
    free(data->weights);
    free(data->bias);
    free(data->in_stored);
    free(data->weights_stored);
}

/* ---- candidates ---------------------------------------------------------- */

typedef struct harness_kernel {
    spc__attrs launch;
    spc__artefact artefact;
    spc__module *module;
    spc__kernel *conv, *pack;
    spc__kernel *first; /* NULL: no kernel runs before it */
    spc__kernel *sum;   /* NULL: the convolution is a single kernel */
    void *packed;
} harness_kernel;

/* Renders, compiles, loads and packs. If `config` is NULL, uses the default. */
static inline spc_status harness_build(harness_kernel *out, harness *r,
                                       const char *name, const spc_conv *conv,
                                       const spc__attrs *config,
                                       const harness_data *data, bool rsck)
{
    spc__template *tpl = spc__library_find(r->library, name);
    spc__attrs problem = {0}, chosen = {0};
    spc__buf source = SPC__BUF_INIT;
    spc_error *error = &r->error;
    spc_status status;

    memset(out, 0, sizeof(*out));
    if (tpl == NULL)
        return spc__fail(error, SPC_ENOTFOUND, "no template '%s'", name);
    spc__conv_attrs(&problem, conv);
    if (config != NULL)
        chosen = *config;
    else if ((status = spc__template_default(&chosen, tpl, &problem, &r->target,
                                             error)) != SPC_OK)
        return status;
    if ((status = spc__template_launch(&out->launch, tpl, &problem, &r->target,
                                       &chosen, error)) != SPC_OK ||
        (status = spc__template_render(&source, tpl, &problem, &r->target,
                                       &chosen, error)) != SPC_OK)
        goto done;
    spc__compile_job job = {
        spc__buf_text(&source), name, "", r->options, r->library, NULL};
    if ((status = spc__compile(&out->artefact, r->compiler, &job, NULL,
                               error)) != SPC_OK ||
        (status =
             r->ops->module_load(r->device, &out->module, out->artefact.code,
                                 out->artefact.code_bytes, error)) != SPC_OK ||
        (status = r->ops->kernel_get(
             r->device, out->module, "spc_conv",
             (size_t)spc__attrs_number(&out->launch, "shared", 0), &out->conv,
             error)) != SPC_OK ||
        (spc__attrs_number(&out->launch, "first_block", 0) > 0 &&
         (status = r->ops->kernel_get(r->device, out->module, "spc_first", 0,
                                      &out->first, error)) != SPC_OK) ||
        (spc__attrs_number(&out->launch, "sum_block", 0) > 0 &&
         (status = r->ops->kernel_get(r->device, out->module, "spc_sum", 0,
                                      &out->sum, error)) != SPC_OK) ||
        (status = r->ops->kernel_get(r->device, out->module, "spc_pack", 0,
                                     &out->pack, error)) != SPC_OK ||
        (status = r->ops->alloc(
             r->device, &out->packed,
             (size_t)spc__attrs_number(&out->launch, "packed_bytes", 0),
             error)) != SPC_OK)
        goto done;
    int64_t cin = spc__conv_group_in(conv), cout = conv->cout;
    int64_t offsets = spc__conv_offsets(conv);
    spc_pack_args args = {
        data->weights_stored, out->packed, cin, 1, offsets * cin, 0};
    void *other = NULL;
    if (rsck) { /* the weights in the other layout */
        size_t bytes = data->element_bytes;
        char *to = other = malloc((size_t)(offsets * cin * cout) * bytes);
        for (int64_t k = 0; k < offsets; k++)
            for (int64_t ci = 0; ci < cin; ci++)
                for (int64_t co = 0; co < cout; co++, to += bytes)
                    memcpy(to,
                           (const char *)data->weights_stored +
                               (size_t)((co * offsets + k) * cin + ci) * bytes,
                           bytes);
        args = (spc_pack_args){other, out->packed, cin * cout, cout, 1, 0};
    }
    int64_t threads = spc__attrs_number(&out->launch, "pack_threads", 0);
    spc__launch launch = {
        .grid_x = (unsigned)((threads + 255) / 256), .grid_y = 1, .block = 256};
    status = r->ops->launch(r->device, out->pack, &launch, &args, sizeof(args),
                            NULL, error);
    free(other);
done:
    spc__buf_release(&source);
    return status;
}

static inline void harness_kernel_free(harness *r, harness_kernel *kernel)
{
    if (kernel->module != NULL)
        r->ops->module_unload(r->device, kernel->module);
    r->ops->dealloc(r->device, kernel->packed);
    spc__artefact_release(&kernel->artefact);
}

typedef struct harness_run {
    harness *r;
    const harness_kernel *kernel;
    spc_conv_args args;
    spc__launch launch, first, sum;
} harness_run;

/* Returns the grid: the blocks of a persistent kernel, or one block (or
 * cluster) for each tile. A test may request fewer blocks of a persistent
 * kernel. */
static inline unsigned harness_grid(const harness *r, const spc__attrs *launch,
                                    int tiles)
{
    int per_block = (int)spc__attrs_number(launch, "tiles_per_block", 1);
    int cluster = (int)spc__attrs_number(launch, "cluster", 1);
    int blocks = (tiles + per_block - 1) / per_block * cluster;
    int most = (int)spc__attrs_number(launch, "blocks_per_sm", 1) *
               (int)spc__attrs_number(&r->target, "multiprocessors", 1);

    const char *grid = spc__attrs_text(launch, "grid", "tiles");

    if (strcmp(grid, "steps") == 0 ||
        (strcmp(grid, "persistent") == 0 && most < blocks))
        return (unsigned)(most < cluster ? cluster : most / cluster * cluster);
    return (unsigned)blocks;
}

static inline size_t harness_workspace_bytes(const harness_run *run)
{
    const spc__attrs *launch = &run->kernel->launch;
    int64_t rows = spc__attrs_number(launch, "workspace_row_bytes", 0);
    int64_t block = spc__attrs_number(launch, "workspace_block_bytes", 0);

    return (size_t)(rows * run->args.map.rows_padded +
                    block * run->launch.grid_x * run->launch.grid_y);
}

/* Returns how many blocks the summing kernel has. They are few if each walks
 * over several tiles. */
static inline unsigned harness_sum_grid(const spc__attrs *launch, int tiles)
{
    bool walks = spc__attrs_number(launch, "sum_blocks_per_sm", 0) > 0;

    return (unsigned)(walks && tiles > 3 ? 3 : tiles);
}

static inline harness_run
harness_prepare(harness *r, const harness_kernel *kernel, const spc_conv *conv,
                const spc_map_view *view, const harness_data *data, void *out)
{
    const spc__attrs *launch = &kernel->launch;
    harness_run run = {.r = r, .kernel = kernel};

    run.args.in = data->in_stored;
    run.args.out = out;
    run.args.weights = kernel->packed;
    run.args.bias = conv->bias ? data->bias : NULL;
    run.args.map = *view;
    run.launch = (spc__launch){
        .grid_x = harness_grid(r, launch, view->tiles),
        .grid_y = (unsigned)spc__attrs_number(launch, "grid_y", 1),
        .block = (unsigned)spc__attrs_number(launch, "block", 1),
        .shared_bytes = (size_t)spc__attrs_number(launch, "shared", 0),
        .cluster = (unsigned)spc__attrs_number(launch, "cluster", 1),
    };
    int first_rows = (int)spc__attrs_number(launch, "first_rows", 1);
    run.first = (spc__launch){
        .grid_x = (unsigned)((view->rows_padded + first_rows - 1) / first_rows),
        .grid_y = 1,
        .block = (unsigned)spc__attrs_number(launch, "first_block", 0),
    };
    run.sum = (spc__launch){
        .grid_x = harness_sum_grid(launch, view->tiles),
        .grid_y = (unsigned)spc__attrs_number(launch, "sum_grid_y", 1),
        .block = (unsigned)spc__attrs_number(launch, "sum_block", 0),
    };
    return run;
}

static inline spc_status harness_enqueue(void *payload, void *stream)
{
    harness_run *run = payload;
    const spc__device_ops *ops = run->r->ops;
    spc_status status = SPC_OK;

    if (run->kernel->first != NULL)
        status =
            ops->launch(run->r->device, run->kernel->first, &run->first,
                        &run->args, sizeof(run->args), stream, &run->r->error);
    if (status == SPC_OK)
        status =
            ops->launch(run->r->device, run->kernel->conv, &run->launch,
                        &run->args, sizeof(run->args), stream, &run->r->error);
    if (status == SPC_OK && run->kernel->sum != NULL)
        status =
            ops->launch(run->r->device, run->kernel->sum, &run->sum, &run->args,
                        sizeof(run->args), stream, &run->r->error);
    return status;
}

#endif
