/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jax_calls.c - runs layers from programs of XLA, through its foreign function
 * interface. jax.py compiles this file where JAX is installed, against the
 * header that comes with it.
 *
 * A program names a call by its number, not by addresses: a call whose kernel
 * map has ended is an error with a sentence. libspc is used through pointers to
 * its functions, which jax.py has loaded.
 */
#include "xla/ffi/api/c_api.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, WGRAD = 2 /* SPC_WGRAD */ };

/* spc_buffers of spc/plan.h; jax.py compares the sizes. */
typedef struct buffers {
    size_t bytes;
    const void *in;
    void *out;
    const void *weights, *bias;
    void *workspace;
    const void *scale, *grad;
    const void *in_scale, *out_scale, *residual_scale;
} buffers;

/* A pass of a layer on a map. */
typedef struct call {
    void *ctx, *plan, *map;
    size_t packed_bytes, work_bytes; /* sizes of memory; the first is a multiple
                                      * of ALIGNMENT */
    int pass, krsc;
    bool on_cuda;
} call;

typedef struct library {
    int (*execute)(const void *plan, const void *map, const buffers *buffers,
                   void *stream);
    int (*pack)(void *packed, const void *plan, const void *weights, int layout,
                void *stream);
    const char *(*error)(void *ctx);
} library;

static library spc;
static call **calls; /* calls by number; NULL: the call has ended */
static int64_t call_count;
/* Held while a call is added, run or ended: programs run on several threads, a
 * map serves one of them at a time, and a call must not end while it runs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- for jax.py ---------------------------------------------------------- */

size_t spc_jax_buffers_bytes(void)
{
    return sizeof(buffers);
}

void spc_jax_use(const library *functions)
{
    spc = *functions;
}

/* Adds a call and returns its number, or -1 if memory is short. */
int64_t spc_jax_add(const call *made)
{
    call *copy = malloc(sizeof *copy), **more = NULL;
    int64_t number = -1;

    pthread_mutex_lock(&lock);
    if (copy != NULL)
        more = realloc(calls, ((size_t)call_count + 1) * sizeof *calls);
    if (more != NULL) {
        *copy = *made;
        calls = more;
        number = call_count++;
        calls[number] = copy;
        copy = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(copy);
    return number;
}

/* Waits for running executions of the call. */
void spc_jax_end(int64_t number)
{
    pthread_mutex_lock(&lock);
    free(calls[number]);
    calls[number] = NULL;
    pthread_mutex_unlock(&lock);
}

/* ---- handlers ------------------------------------------------------------ */

static XLA_FFI_Error *fail(const XLA_FFI_CallFrame *frame,
                           XLA_FFI_Error_Code code, const char *message)
{
    XLA_FFI_Error_Create_Args args = {
        .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
        .message = message,
        .errc = code,
    };

    return frame->api->XLA_FFI_Error_Create(&args);
}

/* XLA asks a handler for its version by a call frame that has only an
 * extension. */
static bool answer_metadata(const XLA_FFI_CallFrame *frame)
{
    XLA_FFI_Extension_Base *at = frame->extension_start;

    while (at != NULL && at->type != XLA_FFI_Extension_Metadata)
        at = at->next;
    if (at == NULL)
        return false;
    XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)at)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return true;
}

/* Returns the attribute "number", the only one, or -1 if it is missing. */
static int64_t number_of(const XLA_FFI_CallFrame *frame)
{
    if (frame->attrs.size != 1 ||
        frame->attrs.types[0] != XLA_FFI_AttrType_SCALAR)
        return -1;
    const XLA_FFI_Scalar *scalar = frame->attrs.attrs[0];
    return scalar->dtype == XLA_FFI_DataType_S64 ? *(int64_t *)scalar->value
                                                 : -1;
}

static void *data_of(void *buffer)
{
    return ((XLA_FFI_Buffer *)buffer)->data;
}

/* Arguments: inputs, and weights or for WGRAD the gradient of the outputs.
 * Results: outputs, and memory for packed weights and the workspace. */
static int run(const call *c, const XLA_FFI_CallFrame *frame, void *stream)
{
    void **args = frame->args.args, **rets = frame->rets.rets;
    uintptr_t scratch = (uintptr_t)data_of(rets[1]);
    buffers b = {
        .bytes = sizeof b,
        .in = data_of(args[0]),
        .out = data_of(rets[0]),
    };
    int status = 0;

    scratch = (scratch + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (c->work_bytes > 0)
        b.workspace = (void *)(scratch + c->packed_bytes);
    if (c->pass == WGRAD) {
        b.grad = data_of(args[1]);
    } else {
        b.weights = (void *)scratch;
        status = spc.pack((void *)scratch, c->plan, data_of(args[1]), c->krsc,
                          stream);
    }
    return status == 0 ? spc.execute(c->plan, c->map, &b, stream) : status;
}

static XLA_FFI_Error *stream_of(void **out, const XLA_FFI_CallFrame *frame)
{
    XLA_FFI_Stream_Get_Args args = {
        .struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE,
        .ctx = frame->ctx,
    };
    XLA_FFI_Error *error = frame->api->XLA_FFI_Stream_Get(&args);

    *out = args.stream;
    return error;
}

static XLA_FFI_Error *execute(const XLA_FFI_CallFrame *frame, bool on_cuda,
                              void *stream)
{
    int64_t number = number_of(frame);

    if (number < 0 || number >= call_count || calls[number] == NULL)
        return fail(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                    "the kernel map of this layer has ended: keep the map as "
                    "long as programs that were compiled with it run");
    const call *c = calls[number];
    if (c->on_cuda != on_cuda)
        return fail(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                    "the kernel map is on another kind of device than the "
                    "program: make it with the device of the program");
    if (run(c, frame, stream) != 0)
        return fail(frame, XLA_FFI_Error_Code_INTERNAL, spc.error(c->ctx));
    return NULL;
}

static XLA_FFI_Error *handle(const XLA_FFI_CallFrame *frame, bool on_cuda)
{
    XLA_FFI_Error *error = NULL;
    void *stream = NULL;

    if (answer_metadata(frame))
        return NULL;
    if (on_cuda && (error = stream_of(&stream, frame)) != NULL)
        return error;
    pthread_mutex_lock(&lock);
    error = execute(frame, on_cuda, stream);
    pthread_mutex_unlock(&lock);
    return error;
}

XLA_FFI_Error *spc_jax_cpu(XLA_FFI_CallFrame *frame)
{
    return handle(frame, false);
}

XLA_FFI_Error *spc_jax_cuda(XLA_FFI_CallFrame *frame)
{
    return handle(frame, true);
}
