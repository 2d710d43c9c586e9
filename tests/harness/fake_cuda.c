/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cuda.c - a double of the CUDA driver on host memory. It is libcuda.so.1
 * for tests of the host code.
 *
 * It has the calls of cuda_driver.h, and is as strict as the driver about
 * contexts, handles, memory ranges and calls during a capture. Launches are
 * recorded and do nothing, except that the launch that builds a map returns the
 * results that the test has set.
 */
#include "harness/fake_cuda.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In this file the functions have the names of cuda_driver.h. Their symbols
 * have the driver's names, so this also checks the list of names. */
#define X(member, symbol, params)                                              \
    __attribute__((visibility("default")))                                     \
    CUresult member params __asm__(symbol);
SPC__CUDA_MAP(X)
#undef X

__attribute__((visibility("default"))) extern fake_cuda the_fake_cuda;

enum { DEPTH = 16, SHARED_SM = 233472 };
enum { SHARED_BLOCK = 232448, SHARED_FIRST = 49152, RESERVED = 1024 };

typedef enum kind {
    MEMORY,
    MODULE,
    STREAM,
    EVENT,
    GRAPH,
    GRAPH_EXEC,
    FUNCTION /* a function of a module */
} kind;

/* Every handle except memory is the address of one of these. */
typedef struct object {
    struct object *next;
    kind kind;
    struct CUctx_st *context;
    char *memory;
    size_t bytes;
    /* of a function */
    struct object *module;
    char name[24];
    int shared_limit;
    /* of a graph, and of a stream that is being captured */
    int launches;
    bool capturing, spoiled;
    CUgraphNode open[FAKE_OPEN]; /* nodes on which the next one depends */
    int open_count;
    /*
     * of a stream: how many works were enqueued, and how many of them waited
     * for
     */
    int works, waited;
    /* of an event */
    double at_us;
} object;

struct CUctx_st {
    int device;
    int retained;
    object *objects;
};

static struct CUctx_st primary[FAKE_DEVICES] = {{0, 0, NULL}, {1, 0, NULL}};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static double now_us;
static bool told_to_fail; /* the current call fails on request */

static _Thread_local CUcontext stack[DEPTH];
static _Thread_local int depth;
static _Thread_local object
    *captured; /* the stream that this thread is capturing */

/* ---- calls ------------------------------------------------------------ */

/* The requirements of each call, except for an initialised driver. */
static const struct rule {
    bool early;   /* works before cuInit */
    bool context; /* needs a current context */
    bool unsafe;  /* invalidates a capture */
} rules[FAKE_CALLS] = {
    [FAKE_Init] = {.early = true},
    [FAKE_DriverGetVersion] = {.early = true},
    [FAKE_GetErrorName] = {.early = true},
    [FAKE_GetErrorString] = {.early = true},
    [FAKE_CtxGetDevice] = {.context = true},
    [FAKE_CtxSynchronize] = {.context = true, .unsafe = true},
    [FAKE_MemAlloc] = {.context = true, .unsafe = true},
    [FAKE_MemFree] = {.context = true, .unsafe = true},
    [FAKE_MemHostAlloc] = {.context = true, .unsafe = true},
    [FAKE_MemFreeHost] = {.context = true, .unsafe = true},
    [FAKE_MemcpyHtoDAsync] = {.context = true},
    [FAKE_MemcpyDtoHAsync] = {.context = true},
    [FAKE_MemsetD8Async] = {.context = true},
    [FAKE_StreamCreate] = {.context = true},
    [FAKE_StreamDestroy] = {.context = true},
    [FAKE_StreamSynchronize] = {.context = true, .unsafe = true},
    [FAKE_StreamBeginCapture] = {.context = true},
    [FAKE_StreamEndCapture] = {.context = true},
    [FAKE_StreamGetCaptureInfo] = {.context = true},
    [FAKE_StreamUpdateCaptureDependencies] = {.context = true},
    [FAKE_GraphInstantiate] = {.context = true},
    [FAKE_GraphLaunch] = {.context = true},
    [FAKE_EventCreate] = {.context = true},
    [FAKE_EventRecord] = {.context = true},
    [FAKE_EventQuery] = {.unsafe = true},
    [FAKE_ModuleLoadData] = {.context = true},
    [FAKE_ModuleUnload] = {.context = true},
    [FAKE_OccupancyMaxActiveBlocksPerMultiprocessor] = {.context = true},
    [FAKE_OccupancyMaxActiveClusters] = {.context = true},
    [FAKE_LaunchKernelEx] = {.context = true},
};

/* Contexts form a stack for each thread, as in the driver. */
static CUcontext current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

/* Records the call and holds the lock until `end`. */
static CUresult begin(int call)
{
    fake_cuda *fake = &the_fake_cuda;

    pthread_mutex_lock(&lock);
    fake->calls++;
    fake->count[call]++;
    /* The test selects the failing call by number or by name. The failure comes
     * before any other check, like an internal error of a driver. */
    told_to_fail = fake->calls == fake->fail_at || call == fake->fail_call;
    if (told_to_fail) {
        fake->failed = call;
        return fake->fail_with;
    }
    if (!initialised && !rules[call].early)
        return FAKE_NOT_INITIALIZED;
    if (rules[call].context && current() == NULL)
        return FAKE_INVALID_CONTEXT;
    /* The driver refuses the call, and the capture that it interrupts is
     * lost. */
    if (rules[call].unsafe && captured != NULL) {
        captured->spoiled = true;
        return FAKE_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

/* Every path of a call must end here, where the lock is released. */
static CUresult end(CUresult result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

/* True if the call has its effect. Calls that end something have their effect
 * even if the test makes them report an error. */
static bool does_it(CUresult result)
{
    return result == CUDA_SUCCESS || told_to_fail;
}

/* ---- objects ---------------------------------------------------------- */

/* Returns the test's count of objects of a kind. NULL for functions, which end
 * with their module. */
static int *live_count(kind of)
{
    fake_live *live = &the_fake_cuda.live;
    int *const counts[] = {
        [MEMORY] = &live->memory,  [MODULE] = &live->modules,
        [STREAM] = &live->streams, [EVENT] = &live->events,
        [GRAPH] = &live->graphs,   [GRAPH_EXEC] = &live->graph_execs,
        [FUNCTION] = NULL,
    };

    return counts[of];
}

static void add_live(kind of, int count)
{
    int *live = live_count(of);

    if (live != NULL)
        *live += count;
}

/* Adds an object to the current context, which frees it at its end. Calls
 * abort() if the double itself runs out of memory. */
static object *add(kind of)
{
    object *it = calloc(1, sizeof(*it));

    if (it == NULL)
        abort();
    it->kind = of;
    it->context = current();
    it->next = it->context->objects;
    it->context->objects = it;
    add_live(of, 1);
    return it;
}

/* Returns the context's object of that kind, or NULL if the handle is not
 * one. */
static object *find(kind of, const void *handle, CUcontext context)
{
    object *it = context != NULL ? context->objects : NULL;

    while (it != NULL && (it->kind != of || (const void *)it != handle))
        it = it->next;
    return it;
}

/* Returns the allocation of the current context that contains the whole
 * range. */
static object *find_memory(CUdeviceptr address, size_t bytes)
{
    const char *at = (const char *)(uintptr_t)address;

    for (object *it = current() ? current()->objects : NULL; it; it = it->next)
        if (it->kind == MEMORY && at >= it->memory &&
            at + bytes <= it->memory + it->bytes)
            return it;
    return NULL;
}

static void drop(object *it)
{
    object **at = &it->context->objects;

    while (*at != it)
        at = &(*at)->next;
    *at = it->next;
    add_live(it->kind, -1);
    free(it->memory);
    free(it);
}

/* Frees the functions of a module that is unloaded. Reads the next object
 * first, because drop() frees this one. */
static void drop_functions(object *module)
{
    for (object *next, *it = module->context->objects; it; it = next) {
        next = it->next;
        if (it->module == module)
            drop(it);
    }
}

/* Frees a context's objects, as a driver does when a context ends. */
static void reclaim(CUcontext context)
{
    while (context->objects != NULL) {
        /* The code under test forgot to free this object. */
        if (context->objects->kind != FUNCTION)
            the_fake_cuda.reclaimed++;
        drop(context->objects);
    }
}

/* ---- the driver, devices ---------------------------------------------- */

/* Reads a setting such as "cuInit=803". Tests of the command use it, because
 * the command runs in another process. */
static void read_environment(fake_cuda *fake)
{
    const char *text = getenv("SPC_FAKE_CUDA_FAILS");
    const char *code = text != NULL ? strchr(text, '=') : NULL;

    for (int i = 0; i < FAKE_CALLS && code != NULL; i++)
        if (strncmp(fake_symbols[i], text, (size_t)(code - text)) == 0 &&
            fake_symbols[i][code - text] == '\0') {
            fake->fail_call = i;
            fake->fail_with = atoi(code + 1);
        }
}

CUresult Init(unsigned flags)
{
    read_environment(&the_fake_cuda);
    CUresult result = begin(FAKE_Init);

    if (result == CUDA_SUCCESS)
        initialised = true;
    return end(result);
}

CUresult DriverGetVersion(int *version)
{
    CUresult result = begin(FAKE_DriverGetVersion);

    if (result == CUDA_SUCCESS)
        *version = the_fake_cuda.version;
    return end(result);
}

static const struct {
    CUresult value;
    const char *name, *text;
} errors[] = {
    {FAKE_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {FAKE_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "not initialised"},
    {FAKE_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device is detected"},
    {FAKE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {FAKE_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE",
     "uncorrectable ECC error encountered"},
    {FAKE_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY",
     "system not yet initialized"},
    {FAKE_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {FAKE_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid ordinal"},
    {FAKE_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid context"},
    {FAKE_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "not found"},
    {FAKE_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal address"},
    {FAKE_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified failure"},
    {FAKE_TOO_MANY_BLOCKS, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "too many blocks"},
    {FAKE_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "not permitted during a capture"},
    {FAKE_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "the capture was spoiled"},
};

/* Returns the name or the text of an error. An unknown code is invalid and
 * gives NULL. */
static CUresult describe(int call, CUresult error, const char **text)
{
    CUresult result = begin(call);

    if (result == CUDA_SUCCESS) {
        *text = NULL;
        result = FAKE_INVALID_VALUE;
        for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
            if (errors[i].value == error) {
                *text =
                    call == FAKE_GetErrorName ? errors[i].name : errors[i].text;
                result = CUDA_SUCCESS;
            }
    }
    return end(result);
}

CUresult GetErrorName(CUresult e, const char **text)
{
    return describe(FAKE_GetErrorName, e, text);
}

CUresult GetErrorString(CUresult e, const char **text)
{
    return describe(FAKE_GetErrorString, e, text);
}

static CUresult check_device(CUdevice d)
{
    return d >= 0 && d < the_fake_cuda.devices ? CUDA_SUCCESS
                                               : FAKE_INVALID_DEVICE;
}

CUresult DeviceGetCount(int *count)
{
    CUresult result = begin(FAKE_DeviceGetCount);

    if (result == CUDA_SUCCESS)
        *count = the_fake_cuda.devices;
    return end(result);
}

CUresult DeviceGet(CUdevice *device, int ordinal)
{
    CUresult result = begin(FAKE_DeviceGet);

    if (result == CUDA_SUCCESS &&
        (result = check_device(ordinal)) == CUDA_SUCCESS)
        *device = ordinal;
    return end(result);
}

CUresult DeviceGetName(char *name, int len, CUdevice d)
{
    CUresult result = begin(FAKE_DeviceGetName);

    if (result == CUDA_SUCCESS && (result = check_device(d)) == CUDA_SUCCESS)
        snprintf(name, (size_t)len, "%s", the_fake_cuda.name);
    return end(result);
}

CUresult DeviceTotalMem(size_t *bytes, CUdevice d)
{
    CUresult result = begin(FAKE_DeviceTotalMem);

    if (result == CUDA_SUCCESS && (result = check_device(d)) == CUDA_SUCCESS)
        *bytes = the_fake_cuda.memory_bytes;
    return end(result);
}

CUresult DeviceGetAttribute(int *value, int attribute, CUdevice d)
{
    const struct {
        int attribute, value;
    } known[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
         the_fake_cuda.multiprocessors},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, the_fake_cuda.memory_khz},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, the_fake_cuda.bus_bits},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, (int)the_fake_cuda.l2_bytes},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, the_fake_cuda.major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, the_fake_cuda.minor},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, SHARED_SM},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
         the_fake_cuda.shared_block},
    };
    CUresult result = begin(FAKE_DeviceGetAttribute);

    if (result == CUDA_SUCCESS && (result = check_device(d)) == CUDA_SUCCESS) {
        result = FAKE_INVALID_VALUE;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            if (known[i].attribute == attribute) {
                *value = known[i].value;
                result = CUDA_SUCCESS;
            }
    }
    return end(result);
}

/* ---- contexts --------------------------------------------------------- */

CUresult DevicePrimaryCtxRetain(CUcontext *context, CUdevice d)
{
    CUresult result = begin(FAKE_DevicePrimaryCtxRetain);

    if (result == CUDA_SUCCESS && (result = check_device(d)) == CUDA_SUCCESS) {
        primary[d].retained++;
        the_fake_cuda.retained++;
        *context = &primary[d];
    }
    return end(result);
}

CUresult DevicePrimaryCtxRelease(CUdevice d)
{
    CUresult result = begin(FAKE_DevicePrimaryCtxRelease);

    if (does_it(result)) {
        /* One release too many is an error of the code under test. */
        if (check_device(d) != CUDA_SUCCESS || primary[d].retained == 0)
            return end(FAKE_INVALID_CONTEXT);
        the_fake_cuda.retained--;
        /* The last release frees everything that is left in the context. */
        if (--primary[d].retained == 0)
            reclaim(&primary[d]);
    }
    return end(result);
}

CUresult DevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active)
{
    CUresult result = begin(FAKE_DevicePrimaryCtxGetState);

    if (result == CUDA_SUCCESS && (result = check_device(d)) == CUDA_SUCCESS) {
        *flags = 0;
        *active = primary[d].retained > 0;
    }
    return end(result);
}

CUresult CtxGetCurrent(CUcontext *context)
{
    CUresult result = begin(FAKE_CtxGetCurrent);

    if (result == CUDA_SUCCESS)
        *context = current();
    return end(result);
}

/* True if a primary context has no references. Other contexts are freed when
 * they are destroyed. */
static bool is_ended(CUcontext context)
{
    return context >= primary && context < primary + FAKE_DEVICES &&
           context->retained == 0;
}

CUresult CtxGetDevice(CUdevice *d)
{
    CUresult result = begin(FAKE_CtxGetDevice);

    if (result == CUDA_SUCCESS && is_ended(current()))
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result == CUDA_SUCCESS)
        *d = current()->device;
    return end(result);
}

CUresult CtxPushCurrent(CUcontext context)
{
    CUresult result = begin(FAKE_CtxPushCurrent);

    if (result == CUDA_SUCCESS && (context == NULL || depth == DEPTH))
        result = FAKE_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        stack[depth++] = context;
    return end(result);
}

CUresult CtxPopCurrent(CUcontext *context)
{
    CUresult result = begin(FAKE_CtxPopCurrent);

    if (depth == 0)
        return end(FAKE_INVALID_CONTEXT);
    if (does_it(result))
        *context = stack[--depth];
    return end(result);
}

/* Creates a context of the test, like one of a program that uses the
 * library. */
static CUcontext context_create(int device)
{
    CUcontext context = calloc(1, sizeof(*context));

    if (context == NULL)
        abort();
    context->device = device;
    stack[depth++] = context;
    return context;
}

static void context_destroy(CUcontext context)
{
    pthread_mutex_lock(&lock);
    if (current() == context)
        depth--;
    reclaim(context);
    free(context);
    pthread_mutex_unlock(&lock);
}

static int context_depth(void)
{
    return depth;
}

/* ---- streams and events ----------------------------------------------- */

/* Enqueues work on a stream. If the stream is being captured, adds `launches`
 * nodes to the capture. */
static CUresult enqueue(CUstream stream, int launches)
{
    object *it = find(STREAM, stream, current());

    if (stream != NULL && it == NULL)
        return FAKE_INVALID_HANDLE;
    if (it == NULL)
        /* This is work on the default stream. The test counts launches on other
         * streams that do not wait for it. */
        the_fake_cuda.pending++;
    /* A capture records the launch; the next launch depends on it. */
    else if (it->capturing) {
        it->launches += launches;
        it->open[0] = (CUgraphNode)(uintptr_t)it->launches;
        it->open_count = 1;
    } else
        it->works++;
    return CUDA_SUCCESS;
}

/* Counts the works on other streams that were not waited for. */
static int count_loose(void)
{
    int count = 0;

    for (object *it = current() ? current()->objects : NULL; it; it = it->next)
        count += it->kind == STREAM ? it->works - it->waited : 0;
    return count;
}

static bool is_capturing(CUstream stream)
{
    const object *it = find(STREAM, stream, current());

    return it != NULL && it->capturing;
}

/* Notes the node of a captured launch. Nodes are numbers from 1. */
static void note_node(fake_launch *out, CUstream stream)
{
    const object *it = find(STREAM, stream, current());

    out->captured = is_capturing(stream);
    if (!out->captured)
        return;
    out->node = (size_t)it->launches + 1;
    out->after_count = it->open_count;
    for (int i = 0; i < it->open_count; i++)
        out->after[i] = (size_t)(uintptr_t)it->open[i];
}

CUresult StreamCreate(CUstream *stream, unsigned flags)
{
    CUresult result = begin(FAKE_StreamCreate);

    if (result == CUDA_SUCCESS)
        *stream = (CUstream)add(STREAM);
    return end(result);
}

CUresult StreamDestroy(CUstream stream)
{
    CUresult result = begin(FAKE_StreamDestroy);
    object *it = find(STREAM, stream, current());

    if (does_it(result) && it != NULL) {
        /* A stream may be destroyed in the middle of its capture. */
        if (captured == it)
            captured = NULL;
        drop(it);
    }
    return end(it == NULL ? FAKE_INVALID_HANDLE : result);
}

CUresult StreamSynchronize(CUstream stream)
{
    if (the_fake_cuda.on_wait != NULL)
        the_fake_cuda.on_wait();
    CUresult result = begin(FAKE_StreamSynchronize);
    object *it = find(STREAM, stream, current());

    if (result == CUDA_SUCCESS && stream != NULL && it == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && stream == NULL)
        the_fake_cuda.pending = 0;
    else if (result == CUDA_SUCCESS)
        it->waited = it->works;
    return end(result);
}

CUresult CtxSynchronize(void)
{
    CUresult result = begin(FAKE_CtxSynchronize);

    if (result == CUDA_SUCCESS) {
        the_fake_cuda.pending = 0;
        for (object *it = current()->objects; it; it = it->next)
            it->waited = it->works;
    }
    return end(result);
}

CUresult StreamBeginCapture(CUstream stream, int mode)
{
    CUresult result = begin(FAKE_StreamBeginCapture);
    object *it = find(STREAM, stream, current());

    if (result == CUDA_SUCCESS && (it == NULL || it->capturing))
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        it->capturing = true;
        it->spoiled = false;
        it->launches = it->open_count = 0;
        captured = it;
    }
    return end(result);
}

CUresult StreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUresult result = begin(FAKE_StreamEndCapture);
    object *it = find(STREAM, stream, current());

    /* Like the driver, gives NULL for an invalidated capture. */
    *graph = NULL;
    if (it == NULL || !it->capturing)
        return end(FAKE_INVALID_HANDLE);
    /* An invalidated capture ends too; otherwise the stream could never be used
     * again. */
    it->capturing = false;
    captured = NULL;
    if (result == CUDA_SUCCESS && it->spoiled)
        result = FAKE_CAPTURE_INVALIDATED;
    if (result == CUDA_SUCCESS) {
        object *made = add(GRAPH);
        made->launches = it->launches;
        *graph = (CUgraph)made;
    }
    return end(result);
}

CUresult StreamGetCaptureInfo(CUstream stream, int *state,
                              unsigned long long *id, CUgraph *graph,
                              const CUgraphNode **nodes, size_t *count)
{
    CUresult result = begin(FAKE_StreamGetCaptureInfo);
    const object *it = find(STREAM, stream, current());

    (void)id;
    (void)graph;
    if (result == CUDA_SUCCESS && it == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        *state = it->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : 0;
        *nodes = it->open;
        *count = (size_t)it->open_count;
    }
    return end(result);
}

CUresult StreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes,
                                         size_t count, unsigned flags)
{
    CUresult result = begin(FAKE_StreamUpdateCaptureDependencies);
    object *it = find(STREAM, stream, current());

    if (result == CUDA_SUCCESS &&
        (it == NULL || !it->capturing || count > FAKE_OPEN ||
         flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES))
        result = FAKE_INVALID_VALUE;
    /* A node can depend only on existing nodes of this graph. */
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        if ((uintptr_t)nodes[i] == 0 ||
            (uintptr_t)nodes[i] > (uintptr_t)it->launches)
            result = FAKE_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        memcpy(it->open, nodes, count * sizeof(*nodes));
        it->open_count = (int)count;
    }
    return end(result);
}

CUresult GraphInstantiate(CUgraphExec *exec, CUgraph graph,
                          unsigned long long flags)
{
    CUresult result = begin(FAKE_GraphInstantiate);
    object *it = find(GRAPH, graph, current());

    if (result == CUDA_SUCCESS && it == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        object *made = add(GRAPH_EXEC);
        made->launches = it->launches;
        *exec = (CUgraphExec)made;
    }
    return end(result);
}

CUresult GraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUresult result = begin(FAKE_GraphLaunch);
    object *it = find(GRAPH_EXEC, exec, current());

    if (result == CUDA_SUCCESS && it == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        the_fake_cuda.replayed = stream;
        result = enqueue(stream, it->launches);
    }
    if (result == CUDA_SUCCESS)
        /* Only launches advance the clock, so that times in tests are exact. */
        now_us += it->launches * the_fake_cuda.launch_us;
    return end(result);
}

/* Destroys an object. Refuses stale handles and handles of other contexts. */
static CUresult destroy(int call, kind of, const void *handle)
{
    CUresult result = begin(call);
    object *it = find(of, handle, current());

    if (it == NULL)
        return end(FAKE_INVALID_HANDLE);
    if (does_it(result))
        drop(it);
    return end(result);
}

CUresult GraphExecDestroy(CUgraphExec exec)
{
    return destroy(FAKE_GraphExecDestroy, GRAPH_EXEC, exec);
}

CUresult GraphDestroy(CUgraph graph)
{
    return destroy(FAKE_GraphDestroy, GRAPH, graph);
}

CUresult EventCreate(CUevent *event, unsigned flags)
{
    CUresult result = begin(FAKE_EventCreate);

    if (result == CUDA_SUCCESS)
        *event = (CUevent)add(EVENT);
    return end(result);
}

CUresult EventDestroy(CUevent event)
{
    return destroy(FAKE_EventDestroy, EVENT, event);
}

CUresult EventRecord(CUevent event, CUstream stream)
{
    CUresult result = begin(FAKE_EventRecord);
    object *it = find(EVENT, event, current());

    if (result == CUDA_SUCCESS && it == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        it->at_us = now_us;
    return end(result);
}

CUresult EventQuery(CUevent event)
{
    CUresult result = begin(FAKE_EventQuery);

    if (result == CUDA_SUCCESS && find(EVENT, event, current()) == NULL)
        result = FAKE_INVALID_HANDLE;
    /* The kernel never ends. */
    if (result == CUDA_SUCCESS && the_fake_cuda.hangs)
        result = CUDA_ERROR_NOT_READY;
    return end(result);
}

CUresult EventElapsedTime(float *ms, CUevent start, CUevent end_)
{
    CUresult result = begin(FAKE_EventElapsedTime);
    object *from = find(EVENT, start, current());
    object *to = find(EVENT, end_, current());

    if (result == CUDA_SUCCESS && (from == NULL || to == NULL))
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        *ms = (float)(1e-3 * (to->at_us - from->at_us));
    return end(result);
}

/* ---- memory ----------------------------------------------------------- */

CUresult MemAlloc(CUdeviceptr *memory, size_t bytes)
{
    CUresult result = begin(FAKE_MemAlloc);
    void *taken = NULL;

    /* Like the driver, refuses an allocation of 0 bytes. */
    if (result == CUDA_SUCCESS && bytes == 0)
        result = FAKE_INVALID_VALUE;
    /* The driver promises an alignment of 256 bytes. */
    if (result == CUDA_SUCCESS && (bytes > the_fake_cuda.memory_bytes ||
                                   posix_memalign(&taken, 256, bytes) != 0))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        object *it = add(MEMORY);
        it->memory = taken;
        it->bytes = bytes;
        *memory = (CUdeviceptr)(uintptr_t)taken;
    }
    return end(result);
}

/* Waits for all work on the device. */
CUresult MemFree(CUdeviceptr memory)
{
    CUresult result = begin(FAKE_MemFree);
    object *it = find_memory(memory, 1);

    if (it == NULL || (uintptr_t)it->memory != memory)
        return end(FAKE_INVALID_VALUE);
    if (does_it(result)) {
        drop(it);
        the_fake_cuda.pending = 0;
    }
    return end(result);
}

/* Allocates host memory. Here it does not belong to a context. */
CUresult MemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    CUresult result = begin(FAKE_MemHostAlloc);

    (void)flags;
    if (result == CUDA_SUCCESS && (*memory = malloc(bytes)) == NULL)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    return end(result);
}

CUresult MemFreeHost(void *memory)
{
    CUresult result = begin(FAKE_MemFreeHost);

    if (does_it(result))
        free(memory);
    return end(result);
}

/* Copies within one allocation, as work on a stream. */
static CUresult check_range(CUdeviceptr memory, size_t bytes, CUstream stream)
{
    if (find_memory(memory, bytes) == NULL)
        return FAKE_INVALID_VALUE;
    return enqueue(stream, 0);
}

CUresult MemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                         CUstream stream)
{
    CUresult result = begin(FAKE_MemcpyHtoDAsync);

    if (result == CUDA_SUCCESS)
        result = check_range(to, bytes, stream);
    if (result == CUDA_SUCCESS)
        memcpy((void *)(uintptr_t)to, from, bytes);
    return end(result);
}

CUresult MemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                         CUstream stream)
{
    CUresult result = begin(FAKE_MemcpyDtoHAsync);

    if (result == CUDA_SUCCESS)
        result = check_range(from, bytes, stream);
    if (result == CUDA_SUCCESS)
        memcpy(to, (void *)(uintptr_t)from, bytes);
    return end(result);
}

/* libspc does not call this function; other libraries of the process do. */
__attribute__((visibility("default"))) CUresult
MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                CUstream stream) __asm__("cuMemcpyDtoDAsync_v2");

CUresult MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                         CUstream stream)
{
    if (current() == NULL)
        return FAKE_INVALID_CONTEXT;
    if (find_memory(from, bytes) == NULL)
        return FAKE_INVALID_VALUE;
    CUresult result = check_range(to, bytes, stream);
    if (result == CUDA_SUCCESS)
        the_fake_cuda.copies++;
    if (result == CUDA_SUCCESS && !is_capturing(stream))
        memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return result;
}

CUresult MemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes,
                       CUstream stream)
{
    CUresult result = begin(FAKE_MemsetD8Async);

    if (result == CUDA_SUCCESS)
        result = check_range(to, bytes, stream);
    if (result == CUDA_SUCCESS)
        the_fake_cuda.bytes_set += bytes;
    /* During a capture this only adds a node. */
    if (result == CUDA_SUCCESS && !is_capturing(stream))
        memset((void *)(uintptr_t)to, byte, bytes);
    return end(result);
}

/* ---- modules and functions -------------------------------------------- */

/* The kernels that every module has, and the sizes of their parameters. */
static const struct {
    const char *name;
    size_t bytes;
} kernels[] = {
    {"spc_conv", sizeof(spc_conv_args)},
    {"spc_sum", sizeof(spc_conv_args)},
    {"spc_pack", sizeof(spc_pack_args)},
    {"spc_index", sizeof(spc_index_args)},
    {"spc_layout", sizeof(spc_index_args)},
    {"spc_pairs", sizeof(spc_index_args)},
    {"spc_derive", sizeof(spc_derive_args)},
    {"spc_merge", sizeof(spc_merge_args)},
    {"spc_rows", sizeof(spc_rows_args)},
    {"spc_regroup", sizeof(spc_regroup_args)},
    {"spc_regroup_rows", sizeof(spc_regroup_args)},
    {"spc_mask", sizeof(spc_mask_args)},
    {"spc_gather", sizeof(spc_gather_args)},
    {"spc_spread", sizeof(spc_gather_args)},
    {"spc_rows_1", sizeof(spc_feature_args)},
    {"spc_place", sizeof(spc_feature_args)},
    {"spc_dense", sizeof(spc_feature_args)},
    {"spc_dense_1", sizeof(spc_feature_args)},
    {"spc_voxel_list", sizeof(spc_voxelise_args)},
    {"spc_voxel_fill", sizeof(spc_voxelise_args)},
    {"spc_points_place", sizeof(spc_place_args)},
    {"spc_pick", sizeof(spc_place_args)},
    {"spc_cells", sizeof(spc_cells_args)},
    {"spc_sort_points", sizeof(spc_sort_points_args)},
    {"spc_radius_limits", sizeof(spc_radius_args)},
    {"spc_radius_count", sizeof(spc_radius_args)},
    {"spc_radius_write", sizeof(spc_radius_args)},
    {"spc_offsets_count", sizeof(spc_by_offset_args)},
    {"spc_offsets_sum", sizeof(spc_by_offset_args)},
    {"spc_offsets_write", sizeof(spc_by_offset_args)},
    {"spc_bundle", sizeof(spc_bundle_args)},
    {"spc_bundle_tiles", sizeof(spc_bundle_args)},
    {"spc_pool", sizeof(spc_feature_args)},
    {"spc_pool_1", sizeof(spc_feature_args)},
    {"spc_norm", sizeof(spc_feature_args)},
    {"spc_norm_1", sizeof(spc_feature_args)},
    {"spc_empty", sizeof(spc_measure_args)},
    {"spc_read", sizeof(spc_measure_args)},
    {"spc_read2", sizeof(spc_measure_args)},
    {"spc_write", sizeof(spc_measure_args)},
    {"spc_copy", sizeof(spc_measure_args)},
    {"spc_gather8", sizeof(spc_measure_args)},
    {"spc_gather16", sizeof(spc_measure_args)},
    {"spc_f16_256", sizeof(spc_measure_args)},
    {"spc_tf32_256", sizeof(spc_measure_args)},
    {"spc_f32_fma", sizeof(spc_measure_args)},
};

/* Returns 0 if there is no such kernel. */
static size_t parameter_bytes(const char *name)
{
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
        if (strcmp(kernels[i].name, name) == 0)
            return kernels[i].bytes;
    return 0;
}

CUresult ModuleLoadData(CUmodule *module, const void *image)
{
    CUresult result = begin(FAKE_ModuleLoadData);

    if (result == CUDA_SUCCESS)
        *module = (CUmodule)add(MODULE);
    return end(result);
}

CUresult ModuleUnload(CUmodule module)
{
    CUresult result = begin(FAKE_ModuleUnload);
    object *it = find(MODULE, module, current());

    if (it == NULL)
        return end(FAKE_INVALID_HANDLE);
    if (does_it(result)) {
        drop_functions(it);
        drop(it);
    }
    return end(result);
}

/* Returns the same function for a second request of the same name. */
static object *find_function(object *module, const char *name)
{
    object *it = module->context->objects;

    while (it != NULL && (it->module != module || strcmp(it->name, name) != 0))
        it = it->next;
    return it;
}

CUresult ModuleGetFunction(CUfunction *function, CUmodule module,
                           const char *name)
{
    CUresult result = begin(FAKE_ModuleGetFunction);
    object *from = find(MODULE, module, current());

    if (result == CUDA_SUCCESS && from == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && parameter_bytes(name) == 0)
        result = CUDA_ERROR_NOT_FOUND;
    if (result == CUDA_SUCCESS) {
        object *it = find_function(from, name);
        if (it == NULL) {
            it = add(FUNCTION);
            it->module = from;
            /* More shared memory requires a call of FuncSetAttribute. */
            it->shared_limit = SHARED_FIRST;
            snprintf(it->name, sizeof(it->name), "%s", name);
        }
        *function = (CUfunction)it;
    }
    return end(result);
}

CUresult FuncGetAttribute(int *value, int attribute, CUfunction function)
{
    CUresult result = begin(FAKE_FuncGetAttribute);
    object *it = find(FUNCTION, function, current());

    if (result == CUDA_SUCCESS && it == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        *value = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                     ? it->shared_limit
                 : attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
                                                                        : 0;
    return end(result);
}

CUresult FuncSetAttribute(CUfunction function, int attribute, int value)
{
    CUresult result = begin(FAKE_FuncSetAttribute);
    object *it = find(FUNCTION, function, current());
    bool limit = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

    if (result == CUDA_SUCCESS && it == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS &&
        /* The other attribute is a percentage. */
        (value < 0 || value > (limit ? SHARED_BLOCK : 100)))
        result = FAKE_INVALID_VALUE;
    if (result == CUDA_SUCCESS && limit)
        it->shared_limit = value;
    return end(result);
}

/* Returns how many blocks fit into one multiprocessor. The system takes
 * RESERVED bytes of shared memory for each. */
static int resident(int threads, size_t shared_bytes)
{
    int by_threads = 2048 / threads;
    int by_shared = (int)(SHARED_SM / (shared_bytes + RESERVED));

    return by_threads < by_shared ? by_threads : by_shared;
}

CUresult OccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                   CUfunction function,
                                                   int threads, size_t shared)
{
    CUresult result = begin(FAKE_OccupancyMaxActiveBlocksPerMultiprocessor);

    if (result == CUDA_SUCCESS && find(FUNCTION, function, current()) == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && (threads < 1 || threads > 1024))
        result = FAKE_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *blocks = resident(threads, shared);
    return end(result);
}

static bool read_attributes(fake_launch *out, const CUlaunchConfig *config);

CUresult OccupancyMaxActiveClusters(int *clusters, CUfunction function,
                                    const CUlaunchConfig *config)
{
    CUresult result = begin(FAKE_OccupancyMaxActiveClusters);
    fake_launch launch = {0};

    if (result == CUDA_SUCCESS && find(FUNCTION, function, current()) == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS &&
        (!read_attributes(&launch, config) || launch.cluster < 2 ||
         config->gridDimX % launch.cluster != 0))
        result = FAKE_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *clusters = the_fake_cuda.multiprocessors *
                    resident((int)config->blockDimX, config->sharedMemBytes) /
                    (int)launch.cluster;
    return end(result);
}

/* ---- launches --------------------------------------------------------- */

/* True if `count` words of four bytes lie in one allocation. NULL is fine for 0
 * words. */
static bool is_words(const void *memory, long long count)
{
    return count == 0 ||
           find_memory((CUdeviceptr)(uintptr_t)memory, 4 * (size_t)count);
}

static bool table_is_sound(const spc_map_view *map)
{
    return is_words(map->index, map->offsets * (long long)map->rows_padded) &&
           is_words(map->tile_order, map->tiles) &&
           is_words(map->tile_mask, (long long)map->tiles * map->mask_words) &&
           is_words(map->tile_begin, map->tile_rows ? map->offsets : 0);
}

static bool pairs_are_sound(const spc_pairs_view *pairs, long long rows)
{
    return is_words(pairs->in, pairs->capacity) &&
           is_words(pairs->out, pairs->capacity) &&
           is_words(pairs->place, pairs->capacity) &&
           is_words(pairs->first, rows) &&
           is_words(pairs->begin, pairs->offsets + 1);
}

/* Maps of points have neither a table nor masks. */
static bool triplets_are_sound(const spc_conv_args *args)
{
    const spc_triplets_view *t = &args->triplets;
    long long rows = args->map.rows_padded;

    return is_words(args->map.order, rows) && is_words(t->first, rows + 1) &&
           is_words(t->list, 2LL * t->capacity);
}

/* Kernels that read pairs may do without a table. */
static bool view_is_sound(const spc_conv_args *args)
{
    const spc_map_view *map = &args->map;
    const spc_pairs_view *pairs = &args->pairs;
    long long rows = map->rows_padded;

    if (args->triplets.first != NULL)
        return triplets_are_sound(args);
    return is_words(map->order, rows) &&
           is_words(map->mask, map->mask_words * rows) &&
           (pairs->begin == NULL || pairs_are_sound(pairs, rows)) &&
           ((pairs->begin != NULL && map->index == NULL) ||
            table_is_sound(map));
}

static bool conv_is_sound(const spc_conv_args *args)
{
    return view_is_sound(args) && is_words(args->in, 1) &&
           is_words(args->out, 1) && is_words(args->weights, 1) &&
           (args->bias == NULL || is_words(args->bias, 1)) &&
           (args->workspace == NULL || is_words(args->workspace, 1));
}

/* Checks the arrays of a set of voxels. */
static bool set_is_sound(const spc_index_set *set)
{
    long long rows = set->rows_padded, words = 128LL << set->share_shift;

    return is_words(set->begins, words + 1) &&
           is_words(set->shares, SPC_INDEX_SHARES) &&
           is_words(set->keys, rows + SPC_INDEX_SLACK) &&
           is_words(set->order, rows) && is_words(set->count, 1);
}

/* Checks the arrays that are read only if the set is built. */
static bool build_is_sound(const spc_index_args *args)
{
    return is_words(args->coords, 4LL * args->source_rows) &&
           is_words(args->stats, SPC_INDEX_STATS) &&
           is_words(args->bins, 128LL << args->set.share_shift);
}

/* Checks the tables of tiles. The list ends at the first order without rows. */
static bool tiles_are_sound(const spc_index_args *args, unsigned grid)
{
    long long table = SPC_SORT_TABLE((long long)grid, 1 << SPC_SORT_DIGIT);

    for (int i = 0; i < SPC_INDEX_TILES && args->tile[i].rows != 0; i++) {
        const spc_index_tiles *tile = &args->tile[i];
        if (!is_words(tile->table, table) ||
            !is_words(tile->scratch, tile->capacity) ||
            !is_words(tile->of, args->set.rows_padded) ||
            !is_words(tile->order, tile->capacity) ||
            !is_words(tile->mask, tile->capacity) ||
            !is_words(tile->begin, 1) || args->unit % tile->rows != 0)
            return false;
    }
    return true;
}

/* Checks the arrays that are written if a map is searched. */
static bool map_is_sound(const spc_index_args *args, unsigned grid)
{
    long long rows = args->set.rows_padded;

    return is_words(args->first, 4 * rows) && is_words(args->mask, rows) &&
           is_words(args->pairs, grid) &&
           (args->index == NULL || is_words(args->index, rows)) &&
           (args->sorted.index == NULL ||
            (is_words(args->sorted.index, rows) &&
             is_words(args->sorted.order, rows) &&
             is_words(args->sorted.mask, rows))) &&
           tiles_are_sound(args, grid);
}

/* Checks the arguments of a launch that indexes. Each stage has arrays of its
 * own. */
static bool index_is_sound(const spc_index_args *args, unsigned grid)
{
    long long rows = args->set.rows_padded;
    long long table = SPC_SORT_TABLE((long long)grid, 1 << SPC_SORT_DIGIT);

    return set_is_sound(&args->set) && set_is_sound(&args->in) &&
           is_words(args->keys_a, rows) && is_words(args->keys_b, rows) &&
           is_words(args->rows_a, 2 * rows) &&
           is_words(args->rows_b, 2 * rows) &&
           is_words(args->tables, 3 * table) &&
           is_words(args->sync, sizeof(*args->sync) / 4) &&
           (!(args->stages & SPC_INDEX_BUILD) || build_is_sound(args)) &&
           (!(args->stages & ~SPC_INDEX_BUILD) || map_is_sound(args, grid));
}

/* Checks the arguments of the kernel that lists pairs. */
static bool list_is_sound(const spc_index_args *args, unsigned grid)
{
    const spc_index_by_offset *pairs = &args->by_offset;
    long long rows = args->set.rows_padded;

    return set_is_sound(&args->set) && is_words(args->mask, rows) &&
           is_words(args->first, 4 * rows) && is_words(pairs->in, rows) &&
           is_words(pairs->out, rows) && is_words(pairs->place, rows) &&
           is_words(pairs->first, rows) && is_words(pairs->begin, 2) &&
           is_words(pairs->counts, grid);
}

static bool derive_is_sound(const spc_derive_args *args)
{
    return set_is_sound(&args->in) && is_words(args->table, args->slots) &&
           (args->rows == NULL || args->source != NULL ||
            is_words(args->rows, 4LL * args->source_rows)) &&
           is_words(args->coords, 4LL * args->capacity) &&
           is_words(args->count, 1) &&
           is_words(args->sync, sizeof(*args->sync) / 4);
}

static bool regroup_is_sound(const spc_regroup_args *args)
{
    long long slots = (long long)args->rows * args->children;

    for (int s = 0; s < args->sources; s++)
        if (!is_words(args->source[s].keys, 1) ||
            !is_words(args->source[s].order, 1) ||
            !is_words(args->source[s].count, 1))
            return false;
    return (args->mask == NULL || is_words(args->mask, slots / 4)) &&
           is_words(args->at, args->rows) && is_words(args->of, slots) &&
           is_words(args->list, 4LL * args->capacity) &&
           is_words(args->slot, args->capacity) &&
           is_words(args->data, 4LL * args->capacity) &&
           is_words(args->begin, args->capacity + 1LL) &&
           is_words(args->slots, args->capacity);
}

static bool mask_is_sound(const spc_mask_args *args)
{
    long long slots = (long long)args->first[args->sources] * args->children;
    int bytes = args->half ? 2 : 4;

    for (int s = 0; s < args->sources; s++) {
        long long rows = args->first[s + 1] - args->first[s];
        if (!is_words(args->in[s], rows * args->children * bytes / 4) ||
            !is_words(args->count[s], 1))
            return false;
    }
    return is_words(args->mask, slots / 4);
}

static bool voxelise_is_sound(const spc_voxelise_args *args)
{
    long long rows = args->mean ? 1 : args->most;

    return is_words(args->points, (long long)args->capacity * args->pitch) &&
           is_words(args->list, 4LL * args->capacity) &&
           is_words(args->stats, SPC_VOXELISE_STATS) &&
           is_words(args->twins, args->capacity) &&
           is_words(args->twin_begin, args->capacity + 1LL) &&
           is_words(args->coords, 4LL * args->room) &&
           is_words(args->points_of, args->room) &&
           is_words(args->features, args->room * rows * args->columns *
                                        (args->half ? 2 : 4) / 4);
}

/*
 * Checks that the documented accesses of the kernel stay inside its arrays.
 */
static bool is_sound(const fake_launch *launch)
{
    if (strcmp(launch->kernel, "spc_conv") == 0 ||
        strcmp(launch->kernel, "spc_sum") == 0)
        return conv_is_sound(&launch->args.conv);
    if (strcmp(launch->kernel, "spc_derive") == 0)
        return derive_is_sound(&launch->args.derive);
    if (strcmp(launch->kernel, "spc_pack") == 0)
        return is_words(launch->args.pack.weights, 1) &&
               is_words(launch->args.pack.packed, 1);
    if (strncmp(launch->kernel, "spc_regroup", 11) == 0)
        return regroup_is_sound(&launch->args.regroup);
    if (strncmp(launch->kernel, "spc_voxel_", 10) == 0)
        return voxelise_is_sound(&launch->args.voxelise);
    if (strcmp(launch->kernel, "spc_mask") == 0)
        return mask_is_sound(&launch->args.mask);
    if (strcmp(launch->kernel, "spc_pairs") == 0)
        return list_is_sound(&launch->args.index, launch->grid[0]);
    if (strcmp(launch->kernel, "spc_index") == 0 ||
        strcmp(launch->kernel, "spc_layout") == 0)
        return index_is_sound(&launch->args.index, launch->grid[0]);
    return true;
}

/* Notes the attributes of a launch. Returns false for an attribute that the
 * library does not use. */
static bool read_attributes(fake_launch *out, const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *at = &config->attrs[i];
        if (at->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            out->cooperative = at->value.cooperative != 0;
        else if (at->id ==
                 CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            out->pdl = at->value.programmaticStreamSerializationAllowed != 0;
        else if (at->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
                 at->value.clusterDim.y == 1 && at->value.clusterDim.z == 1)
            out->cluster = at->value.clusterDim.x;
        else
            return false;
    }
    return true;
}

/* Checks the driver's limits on a launch. */
static CUresult check_launch(const CUlaunchConfig *c, const object *function,
                             bool cooperative)
{
    if (c->gridDimX < 1 || c->gridDimY < 1 || c->gridDimY > 65535 ||
        c->gridDimZ != 1 || c->blockDimX < 1 || c->blockDimX > 1024 ||
        c->blockDimY != 1 || c->blockDimZ != 1 ||
        c->sharedMemBytes > (unsigned)function->shared_limit)
        return FAKE_INVALID_VALUE;
    int most = the_fake_cuda.multiprocessors *
               resident((int)c->blockDimX, c->sharedMemBytes);
    /* Blocks that wait for each other must all be resident. */
    if (cooperative && c->gridDimX * c->gridDimY > (unsigned)most)
        return FAKE_TOO_MANY_BLOCKS;
    return CUDA_SUCCESS;
}

/* Writes what the host reads back after a launch: the statistics that the test
 * has set. */
static void run_kernel(const fake_launch *launch)
{
    const spc_index_args *index = &launch->args.index;

    now_us += the_fake_cuda.launch_us;
    if (strcmp(launch->kernel, "spc_index") != 0)
        return;
    if (index->stages & SPC_INDEX_BUILD) {
        memcpy(index->stats, the_fake_cuda.stats, sizeof(the_fake_cuda.stats));
        *index->set.count = index->source ? *index->source : index->source_rows;
    }
    if (index->stages & SPC_INDEX_SEARCH)
        index->pairs[0] = the_fake_cuda.pairs;
}

/* Checks and records a launch. Only the last FAKE_LAUNCHES are kept. */
static CUresult launch(const CUlaunchConfig *config, const object *function,
                       void **params)
{
    fake_cuda *fake = &the_fake_cuda;
    fake_launch it = {
        .grid = {config->gridDimX, config->gridDimY},
        .block = config->blockDimX,
        .shared_bytes = config->sharedMemBytes,
        .stream = config->hStream,
        .unwaited = config->hStream != NULL ? fake->pending : 0,
        .loose = config->hStream == NULL ? count_loose() : 0,
    };
    CUresult result;

    if (!read_attributes(&it, config))
        return FAKE_INVALID_VALUE;
    if ((result = check_launch(config, function, it.cooperative)) !=
        CUDA_SUCCESS)
        return result;
    if (it.cluster > 8 || (it.cluster > 0 && it.grid[0] % it.cluster != 0))
        return FAKE_INVALID_CLUSTER;
    memcpy(it.kernel, function->name, sizeof(it.kernel));
    memcpy(&it.args, params[0], parameter_bytes(it.kernel));
    if (!is_sound(&it))
        return FAKE_ILLEGAL_ADDRESS;
    note_node(&it, config->hStream);
    if ((result = enqueue(config->hStream, 1)) != CUDA_SUCCESS)
        return result;
    if (!it.captured)
        run_kernel(&it);
    fake->launch[fake->launches++ % FAKE_LAUNCHES] = it;
    return CUDA_SUCCESS;
}

CUresult LaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                        void **params, void **extra)
{
    CUresult result = begin(FAKE_LaunchKernelEx);
    object *it = find(FUNCTION, function, current());

    if (result == CUDA_SUCCESS && it == NULL)
        result = FAKE_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        result = launch(config, it, params);
    return end(result);
}

/* ---- the driver's state: an H200 without errors -------------------------- */

fake_cuda the_fake_cuda = {
    .devices = 1,
    .version = 13000,
    .name = "NVIDIA H200",
    .major = 9,
    .multiprocessors = 132,
    .shared_block = SHARED_BLOCK,
    .memory_khz = 3200000,
    .bus_bits = 6144,
    .memory_bytes = (size_t)139 << 30,
    .l2_bytes = (size_t)60 << 20,
    .launch_us = 10,
    .stats = {SPC_INDEX_NO_ROW, SPC_INDEX_NO_ROW, SPC_INDEX_NO_ROW,
              SPC_INDEX_NO_ROW, [SPC_INDEX_DUPLICATE_ROW] = SPC_INDEX_NO_ROW},
    .pairs = 7,
    .fail_call = -1,
    .fail_with = FAKE_LAUNCH_FAILED,
    .failed = -1,
    .context_create = context_create,
    .context_destroy = context_destroy,
    .context_depth = context_depth,
};
