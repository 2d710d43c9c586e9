/* SPDX-License-Identifier: Apache-2.0 */
/* served.c - a network as an operator of another runtime (served.h). */
#include "served.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#if defined(__GNUC__)
__attribute__((__format__(__printf__, 3, 4)))
#endif
static spc_status
fail(spc_error *error, spc_status status, const char *format, ...)
{
    va_list args;

    error->status = status;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return status;
}

/* Reports a failure whose message is in the context. */
static spc_status done(spc_status status, const spc_ctx *ctx, spc_error *error)
{
    return status == SPC_OK
               ? SPC_OK
               : fail(error, status, "%s", spc_error_text(NULL, ctx));
}

size_t served_dtype_bytes(spc_dtype dtype)
{
    return dtype == SPC_I8 ? 1 : dtype == SPC_F16 || dtype == SPC_BF16 ? 2 : 4;
}

/* ---- copies on the device ------------------------------------------------ */

/* Copies in stream order. Returns the driver's error, or 0. */
static int copy(served *s, void *to, const void *from, size_t bytes,
                void *stream)
{
    if (s->driver_copy != NULL)
        return s->driver_copy((uintptr_t)to, (uintptr_t)from, bytes, stream);
    memcpy(to, from, bytes);
    return 0;
}

/* On cuda this is the driver's function. libspc has already loaded the
 * driver. */
static spc_status find_copy(served *s, spc_error *error)
{
    spc_device_info info;
    spc_status status = spc_ctx_device(&info, s->ctx);

    if (status != SPC_OK || strncmp(info.id, "cuda", 4) != 0)
        return done(status, s->ctx, error);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = driver ? dlsym(driver, "cuMemcpyDtoDAsync_v2") : NULL;
    if (symbol == NULL)
        return fail(error, SPC_ENODEVICE,
                    "the driver has no cuMemcpyDtoDAsync_v2");
    /* ISO C has no cast from an object pointer to a function pointer. */
    memcpy(&s->driver_copy, &symbol, sizeof(symbol));
    return SPC_OK;
}

/* ---- open and release ---------------------------------------------------- */

static spc_status open_net(served *s, const served_options *o, spc_error *error)
{
    spc_ctx_options where = SPC_CTX_OPTIONS_INIT;
    spc_net_info info;
    spc_status status;

    where.device = o->device && *o->device ? o->device : NULL;
    where.database = o->database && *o->database ? o->database : NULL;
    where.need_database = true;
    /* SQLite would create a missing database. */
    FILE *file = where.database ? fopen(where.database, "rb") : stdin;
    if (file == NULL)
        return fail(error, SPC_ENOTFOUND, "cannot open the database '%.300s'",
                    where.database);
    if (file != stdin)
        fclose(file);
    if ((status = spc_ctx_create(&s->ctx, &where, error)) != SPC_OK)
        return status;
    if ((status = spc_net_open(&s->net, s->ctx, o->network)) != SPC_OK)
        return done(status, s->ctx, error);
    spc_net_describe(&info, s->net);
    if (info.input == NULL || info.input->cloud)
        return fail(error, SPC_EINVAL,
                    "the network '%s' takes clouds of points; the operator "
                    "takes voxels with features",
                    o->network);
    s->channels = info.input->channels;
    s->dtype = info.input->dtype;
    return SPC_OK;
}

static spc_status make_plan(served *s, const served_options *o,
                            spc_error *error)
{
    spc_net_options options = SPC_NET_OPTIONS_INIT;

    if (o->capacity < 1 || o->capacity > INT32_MAX || o->batches < 1 ||
        o->batches > INT32_MAX)
        return fail(error, SPC_EINVAL,
                    "the capacity is %" PRId64 " and the number of batch "
                    "elements %" PRId64 "; both must be 1 to %d",
                    o->capacity, o->batches, INT32_MAX);
    s->capacity = options.capacity = o->capacity;
    options.high[0] = (int32_t)(o->batches - 1);
    for (int i = 0; i < 3; i++) {
        if (o->low[i] < INT32_MIN || o->high[i] > INT32_MAX ||
            o->low[i] > o->high[i])
            return fail(error, SPC_EINVAL,
                        "the extent along axis %d is %" PRId64 " to %" PRId64,
                        i, o->low[i], o->high[i]);
        options.low[i + 1] = (int32_t)o->low[i];
        options.high[i + 1] = (int32_t)o->high[i];
    }
    return done(spc_net_plan_create(&s->plan, s->ctx, s->net, &options), s->ctx,
                error);
}

static spc_status find_output(served *s, const char *name, spc_error *error)
{
    spc_net_info info;
    char names[200] = "";
    size_t used = 0;

    spc_net_describe(&info, s->net);
    for (int i = 0; i < info.outputs; i++) {
        spc_status status = spc_net_plan_output_at(&s->output, s->plan, i);
        if (status != SPC_OK)
            return done(status, s->ctx, error);
        bool last = i + 1 == info.outputs;
        if (name && *name ? strcmp(s->output.name, name) == 0 : last)
            return SPC_OK;
        if (used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                     i > 0 ? ", " : "", s->output.name);
    }
    return fail(error, SPC_ENOTFOUND,
                "the network has no output '%.60s'; its outputs are: %s",
                name ? name : "", names);
}

static void set_shape(served *s)
{
    const spc_net_output *o = &s->output;
    int64_t count = 1;

    if (o->dense && o->plane[0] > 0) {
        s->dims = 4;
        memcpy(s->shape,
               (int64_t[]){o->batches, o->plane[0], o->plane[1], o->plane[2]},
               sizeof(s->shape));
    } else {
        s->dims = 2;
        s->shape[0] = o->dense ? o->batches : spc_coords_capacity(o->set);
        s->shape[1] = o->elements;
    }
    for (int i = 0; i < s->dims; i++)
        count *= s->shape[i];
    s->out_bytes = (size_t)count * served_dtype_bytes(o->dtype);
}

static spc_status allocate(served *s, spc_error *error)
{
    size_t features = (size_t)s->capacity * (size_t)s->channels *
                      served_dtype_bytes(s->dtype);
    spc_status status = spc_memory_alloc(&s->buffers.memory, s->ctx,
                                         spc_net_plan_memory_bytes(s->plan));

    if (status == SPC_OK)
        status = spc_memory_alloc(&s->staged_features, s->ctx, features);
    if (status == SPC_OK)
        status = spc_memory_alloc(&s->staged_coords, s->ctx,
                                  16 * (size_t)s->capacity);
    return done(status, s->ctx, error);
}

spc_status served_open(served *out, const served_options *options,
                       spc_error *error)
{
    spc_status status;

    *out = (served){.buffers = SPC_NET_BUFFERS_INIT};
    if (options->network == NULL || *options->network == '\0')
        return fail(error, SPC_EINVAL, "no network was named");
    if ((status = open_net(out, options, error)) != SPC_OK ||
        (status = find_copy(out, error)) != SPC_OK ||
        (status = make_plan(out, options, error)) != SPC_OK ||
        (status = find_output(out, options->output, error)) != SPC_OK)
        return status;
    set_shape(out);
    return allocate(out, error);
}

void served_release(served *s)
{
    if (s->ctx != NULL) {
        spc_memory_free(s->ctx, s->buffers.memory);
        spc_memory_free(s->ctx, s->staged_features);
        spc_memory_free(s->ctx, s->staged_coords);
    }
    spc_net_plan_free(s->plan);
    spc_net_free(s->net);
    spc_ctx_free(s->ctx);
    *s = (served){.buffers = SPC_NET_BUFFERS_INIT};
}

/* ---- a frame ------------------------------------------------------------- */

static spc_status copied(int failed, spc_error *error)
{
    return failed == 0 ? SPC_OK
                       : fail(error, SPC_EDEVICE,
                              "a copy on the device failed with error %d of "
                              "the driver",
                              failed);
}

static int stage(served *s, const served_frame *frame, void *stream)
{
    size_t row = (size_t)s->channels * served_dtype_bytes(s->dtype);
    int failed = 0;

    s->buffers.features = frame->features;
    s->buffers.coords = frame->coords;
    if (frame->rows == s->capacity && (uintptr_t)frame->features % 16 == 0)
        return 0;
    s->buffers.features = s->staged_features;
    s->buffers.coords = s->staged_coords;
    if (frame->rows > 0)
        failed = copy(s, s->staged_features, frame->features,
                      row * (size_t)frame->rows, stream);
    if (frame->rows > 0 && failed == 0)
        failed = copy(s, s->staged_coords, frame->coords,
                      16 * (size_t)frame->rows, stream);
    return failed;
}

static int copy_results(served *s, const served_frame *frame, void *stream)
{
    const spc_net_output *o = &s->output;
    int failed = copy(s, frame->out, (char *)s->buffers.memory + o->offset,
                      s->out_bytes, stream);

    if (frame->out_coords != NULL && failed == 0) {
        const int32_t *data = spc_coords_data(o->set);
        /* NULL: use the rows of the frame. */
        failed = data != NULL ? copy(s, frame->out_coords, data,
                                     16 * (size_t)s->shape[0], stream)
                              : copy(s, frame->out_coords, s->buffers.coords,
                                     16 * (size_t)s->capacity, stream);
    }
    if (frame->out_count != NULL && failed == 0)
        failed = copy(s, frame->out_count, spc_coords_device_count(o->set),
                      sizeof(int32_t), stream);
    return failed;
}

spc_status served_run(served *s, const served_frame *frame, void *stream,
                      spc_error *error)
{
    spc_status status;

    if (frame->rows > s->capacity)
        return fail(error, SPC_ECAPACITY,
                    "the frame has %" PRId64 " rows, but the capacity is "
                    "%" PRId64,
                    frame->rows, s->capacity);
    if ((status = copied(stage(s, frame, stream), error)) != SPC_OK)
        return status;
    s->buffers.count = frame->count;
    s->buffers.rows = frame->count != NULL ? 0 : frame->rows;
    status = spc_net_plan_execute(s->plan, &s->buffers, stream);
    if (status != SPC_OK)
        return done(status, s->ctx, error);
    return copied(copy_results(s, frame, stream), error);
}
