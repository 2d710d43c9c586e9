/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vehicle.c - a network under the conditions of a vehicle: frames of differing
 * size, dropouts, empty frames, bursts, some beyond the capacity, while another
 * thread runs a second network on its own stream and a third copies memory.
 * Prints times, what was allocated, and whether every result repeats.
 *
 *     vehicle [--device D] [--database FILE] [--network NAME|FILE.lua]
 *             [--dtype f16|f32] [--scenes FOLDER] [--frames 10000]
 *             [--voxels 60000] [--points 200000] [--check 5] [--hog MB]
 *
 * The network takes points (it states voxel, low and high). FOLDER has scans
 * with one float32 for each channel of a point. The result of every --check
 * frames is compared with the first of the same scan.
 */
#define _POSIX_C_SOURCE 200809L
#include <spc.h>
#include <spc/lab.h>

#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SCANS = 64, GENERATED = 8, BLOCK = 64 << 20 };

/* ---- options ------------------------------------------------------------- */

static struct {
    const char *device, *database, *network, *dtype, *scenes;
    long long frames, voxels, points, check, hog;
} options = {.frames = 10000,
             .voxels = 60000,
             .points = 200000,
             .check = 5,
             .dtype = "f16"};

static const struct {
    const char *name;
    const char **text;
    long long *number;
} words[] = {
    {"--device", &options.device, NULL},
    {"--database", &options.database, NULL},
    {"--network", &options.network, NULL},
    {"--dtype", &options.dtype, NULL},
    {"--scenes", &options.scenes, NULL},
    {"--frames", NULL, &options.frames},
    {"--voxels", NULL, &options.voxels},
    {"--points", NULL, &options.points},
    {"--check", NULL, &options.check},
    {"--hog", NULL, &options.hog},
};

static void need(bool good, const char *what, const char *which)
{
    if (good)
        return;
    fprintf(stderr, "vehicle: %s %s\n", what, which);
    exit(2);
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0, count = sizeof(words) / sizeof(*words);
        while (k < count && strcmp(words[k].name, argv[i]) != 0)
            k++;
        need(k < count && i + 1 < argc,
             "unknown option, or no value:", argv[i]);
        if (words[k].text != NULL)
            *words[k].text = argv[i + 1];
        else
            *words[k].number = atoll(argv[i + 1]);
        need(words[k].text != NULL || *words[k].number >= 0,
             "expected a number:", argv[i + 1]);
    }
    need(options.network != NULL, "which", "--network?");
    need(options.frames > 0 && options.voxels > 0 && options.points > 0 &&
             options.check > 0,
         "--frames, --voxels, --points and --check", "must be at least 1");
}

/* ---- counting ------------------------------------------------------------ */

/* Allocations of this thread, on the host where the linker wraps malloc, and
 * on the device through the context's hook. */
static _Thread_local long long host_allocations, device_allocations;

#ifdef VEHICLE_WRAPS_MALLOC
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    host_allocations++;
    return __real_malloc(bytes);
}
void *__wrap_calloc(size_t count, size_t bytes)
{
    host_allocations++;
    return __real_calloc(count, bytes);
}
void *__wrap_realloc(void *old, size_t bytes)
{
    host_allocations++;
    return __real_realloc(old, bytes);
}
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    host_allocations++;
    return __real_posix_memalign(out, alignment, bytes);
}
#endif

/* The driver, if the device is cuda: libspc does not make streams. */
static struct {
    int (*init)(unsigned);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*alloc)(unsigned long long *out, size_t bytes);
    int (*free)(unsigned long long memory);
    int (*stream_create)(void **out, unsigned flags);
    void *context;
} driver;

static void open_driver(void)
{
    static const char *const names[] = {
        "cuInit",          "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent", "cuMemAlloc_v2",
        "cuMemFree_v2",    "cuStreamCreate"};
    void *symbols[6], *library = dlopen("libcuda.so.1", RTLD_NOW);

    need(library != NULL, "no driver:", "libcuda.so.1");
    for (int i = 0; i < 6; i++)
        need((symbols[i] = dlsym(library, names[i])) != NULL,
             "the driver has no", names[i]);
    memcpy(&driver, symbols, sizeof(symbols));
    need(driver.init(0) == 0 && driver.retain(&driver.context, 0) == 0,
         "the driver does not start", "");
}

static void *hook_alloc(size_t bytes, void *stream, void *payload)
{
    unsigned long long out = 0;

    (void)stream;
    (void)payload;
    device_allocations++;
    if (driver.context == NULL)
        return aligned_alloc(256, (bytes + 255) / 256 * 256);
    return driver.alloc(&out, bytes) == 0 ? (void *)(uintptr_t)out : NULL;
}

static void hook_free(void *memory, size_t bytes, void *stream, void *payload)
{
    (void)bytes;
    (void)stream;
    (void)payload;
    if (driver.context == NULL)
        free(memory);
    else
        driver.free((uintptr_t)memory);
}

/* ---- a network ----------------------------------------------------------- */

typedef struct model {
    spc_ctx *ctx;
    spc_net *net;
    spc_net_plan *plan;
    spc_net_buffers device;
    spc_net_output output;
    size_t channels, bytes; /* of the output */
    spc_net_input input;
    void *stream;
} model;

static _Thread_local spc_error error;

static void check(spc_status status, const spc_ctx *ctx)
{
    if (status == SPC_OK)
        return;
    fprintf(stderr, "vehicle: %s\n", spc_error_text(&error, ctx));
    exit(spc_status_exit_code(status));
}

static void *memory(model *m, size_t bytes)
{
    void *out = NULL;

    check(spc_memory_alloc(&out, m->ctx, bytes), m->ctx);
    return out;
}

static spc_ctx *open_context(void)
{
    spc_ctx_options where = SPC_CTX_OPTIONS_INIT;
    spc_ctx *out = NULL;

    if (driver.context != NULL)
        driver.set_current(driver.context);
    where.device = options.device;
    where.database = options.database;
    where.memory.alloc = hook_alloc;
    where.memory.free = hook_free;
    check(spc_ctx_create(&out, &where, &error), NULL);
    return out;
}

static void open_net(model *m)
{
    size_t length = strlen(options.network);
    spc_net_info info;

    if (length > 4 && strcmp(options.network + length - 4, ".lua") == 0) {
        check(
            spc_net_load(&m->net, options.network,
                         strcmp(options.dtype, "f32") == 0 ? SPC_F32 : SPC_F16,
                         &error),
            NULL);
        check(spc_net_init_params(m->net, 1, &error), NULL);
    } else
        check(spc_net_open(&m->net, m->ctx, options.network), m->ctx);
    spc_net_describe(&info, m->net);
    m->input = *info.input;
    m->channels = (size_t)info.input->channels;
    need(info.input->voxel[0] > 0 && !info.input->cloud,
         "no grid, so that it takes no points:", info.name);
}

/* Plans and captures: all that allocates happens here. */
static void open_model(model *m)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    spc_net_info info;

    *m = (model){.device = SPC_NET_BUFFERS_INIT};
    m->ctx = open_context();
    open_net(m);
    o.capacity = options.voxels;
    o.points = options.points;
    o.flags = SPC_PLAN_JIT;
    check(spc_net_plan_create(&m->plan, m->ctx, m->net, &o), m->ctx);
    m->device.points =
        memory(m, m->channels * (size_t)options.points * sizeof(float));
    m->device.count = memory(m, sizeof(int32_t));
    m->device.memory = memory(m, spc_net_plan_memory_bytes(m->plan));
    /* The stream is non-blocking, so copies on the default stream do not delay
     * it. */
    if (driver.context != NULL)
        need(driver.stream_create(&m->stream, 1) == 0, "no stream", "");
    check(spc_net_plan_capture(m->plan, &m->device), m->ctx);
    spc_net_describe(&info, m->net);
    check(spc_net_plan_output_at(&m->output, m->plan, info.outputs - 1),
          m->ctx);
    need(m->output.dense, "the last output is not dense:", m->output.name);
    m->bytes = (size_t)(m->output.batches * m->output.elements) *
               (m->output.dtype == SPC_F32 ? 4 : 2);
}

static void close_model(model *m)
{
    spc_memory_free(m->ctx, (void *)m->device.points);
    spc_memory_free(m->ctx, (void *)m->device.count);
    spc_memory_free(m->ctx, m->device.memory);
    spc_net_plan_free(m->plan);
    spc_net_free(m->net);
    spc_ctx_free(m->ctx);
}

/* ---- scans --------------------------------------------------------------- */

typedef struct scan {
    float *points;
    int32_t count; /* may be above --points: the device must say so */
    /* Status of its first run. SPC_ECAPACITY is not a mistake here, but it must
     * be reported each time. */
    spc_status status;
    uint64_t sum;
    double median;
} scan;

static scan scans[3 * SCANS + 2]; /* whole frames, with a dropout, in a burst */
static int scan_count, file_count;

static uint64_t state = 88172645463325252u;

static double drawn(void) /* 0 to 1 */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static scan *new_scan(const model *m, int64_t count)
{
    scan *out = &scans[scan_count++];

    out->count = (int32_t)(count < options.points ? count : options.points);
    out->points = calloc(m->channels * (size_t)out->count + 1, sizeof(float));
    need(out->points != NULL, "no memory", "for a scan");
    return out;
}

/* A street: a ground with walls along it, denser near the sensor. */
static void generate_scan(const model *m, int64_t count)
{
    scan *s = new_scan(m, count);

    for (int32_t i = 0; i < s->count; i++) {
        float *p = s->points + m->channels * (size_t)i;
        double near = drawn() * drawn(), wall = drawn();
        for (int d = 0; d < 3; d++) {
            double size = m->input.high[d] - m->input.low[d];
            double at = d == 0   ? near
                        : d == 1 ? 0.5 + 0.5 * near * sin(40 * wall)
                                 : 0.3 * wall * wall;
            p[d] = (float)(m->input.low[d] + size * at);
        }
        for (size_t c = 3; c < m->channels; c++)
            p[c] = (float)drawn();
    }
}

static void read_scans(const model *m)
{
    DIR *folder = options.scenes ? opendir(options.scenes) : NULL;
    const struct dirent *entry;
    char path[4096];

    need(options.scenes == NULL || folder != NULL, "cannot open",
         options.scenes);
    while (folder && (entry = readdir(folder)) && scan_count < SCANS / 2) {
        spc_point_rows rows = {0};
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", options.scenes, entry->d_name);
        if (spc_point_rows_load(&rows, path, (int)m->channels, &error) !=
            SPC_OK) {
            fprintf(stderr, "left out: %s\n", error.text);
            continue;
        }
        scan *s = new_scan(m, rows.rows);
        memcpy(s->points, rows.values,
               m->channels * (size_t)s->count * sizeof(float));
        spc_point_rows_release(&rows);
        file_count++;
    }
    if (folder != NULL)
        closedir(folder);
}

/* The kinds of frames: a sector is missing, two scans at once, no points, more
 * than the capacity. */
static void spoil_scans(const model *m)
{
    int whole = scan_count;

    for (int i = 0; i < whole; i++) {
        const scan *from = &scans[i], *other = &scans[(i + 1) % whole];
        scan *out = new_scan(m, from->count);
        int32_t kept = 0;
        size_t row = m->channels * sizeof(float);
        for (int32_t p = 0; p < from->count; p++)
            if (p % 1000 < 550)
                memcpy(out->points + m->channels * (size_t)kept++,
                       from->points + m->channels * (size_t)p, row);
        out->count = kept;
        out = new_scan(m, (int64_t)from->count + other->count);
        memcpy(out->points, from->points, row * (size_t)from->count);
        memcpy(out->points + m->channels * (size_t)from->count, other->points,
               row * (size_t)(out->count - from->count));
    }
    new_scan(m, 0);
    new_scan(m, options.points)->count++;
}

/* ---- a frame ------------------------------------------------------------- */

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

typedef struct times {
    double frame, enqueue, check;
    long long host, device; /* allocations */
    spc_status status;
} times;

/* The sensor's copy waits and is not part of the time; all else is. */
static times run_frame(model *m, const scan *s)
{
    int64_t rows = s->count < options.points ? s->count : options.points;
    times t;

    check(spc_memory_upload((void *)m->device.points, m->ctx, s->points,
                            m->channels * (size_t)rows * sizeof(float)),
          m->ctx);
    check(spc_memory_upload((void *)m->device.count, m->ctx, &s->count,
                            sizeof(s->count)),
          m->ctx);
    long long host = host_allocations, device = device_allocations;
    double start = now_us();
    check(spc_net_plan_replay(m->plan, m->stream), m->ctx);
    double enqueued = now_us();
    t.status = spc_net_plan_check(m->plan, m->stream);
    double end = now_us();
    spc_status again = spc_net_plan_check(m->plan, m->stream);
    t.check = now_us() - end;
    t.frame = end - start;
    t.enqueue = enqueued - start;
    t.host = host_allocations - host;
    t.device = device_allocations - device;
    if (t.status != SPC_ECAPACITY)
        check(t.status, m->ctx);
    need(again == t.status &&
             (t.status == SPC_ECAPACITY || s->count <= options.points),
         "a frame beyond the capacity was not reported", "");
    return t;
}

static uint64_t sum_of(model *m, void *host)
{
    const uint64_t *words = host;
    uint64_t sum = 1;

    check(spc_memory_download(host, m->ctx,
                              (char *)m->device.memory + m->output.offset,
                              m->bytes),
          m->ctx);
    for (size_t i = 0; i < m->bytes / 8; i++)
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15u;
    return sum;
}

/* ---- other work on the device
 * ----------------------------------------------------------- */

static atomic_bool stop;
static atomic_llong second_runs, blocks;
static pthread_barrier_t ready;

/* A second network, on a stream and in a context of its own. */
static void *run_second(void *unused)
{
    model m;

    (void)unused;
    open_model(&m);
    run_frame(&m, &scans[file_count]); /* the smallest that was generated */
    pthread_barrier_wait(&ready);
    for (; !stop; second_runs++) {
        check(spc_net_plan_replay(m.plan, m.stream), m.ctx);
        check(spc_net_plan_check(m.plan, m.stream), m.ctx);
    }
    close_model(&m);
    return NULL;
}

/* Holds --hog MB of the device's memory, and copies through it. */
static void *run_hog(void *unused)
{
    spc_ctx *ctx = open_context();
    size_t bytes = (size_t)options.hog << 20, at = 0;
    size_t block = bytes < BLOCK ? bytes : BLOCK;
    char *held = NULL, *host = calloc(block + 1, 1);

    (void)unused;
    if (bytes > 0)
        check(spc_memory_alloc((void **)&held, ctx, bytes), ctx);
    pthread_barrier_wait(&ready);
    for (; !stop && bytes > 0; blocks++) {
        check(spc_memory_upload(held + at, ctx, host, block), ctx);
        check(spc_memory_download(host, ctx, held + at, block), ctx);
        at = at + 2 * block <= bytes ? at + block : 0;
    }
    spc_memory_free(ctx, held);
    spc_ctx_free(ctx);
    free(host);
    return NULL;
}

/* ---- the report ---------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value that this share of a sorted array is not above. */
static double share(const double *sorted, long long n, double part)
{
    long long i = (long long)ceil(part * (double)n) - 1;

    return sorted[i < 0 ? 0 : i];
}

static void print_times(const char *what, double *us, long long n)
{
    qsort(us, (size_t)n, sizeof(*us), ascending);
    printf("%-8s p50 %.1f us, p99 %.1f us, p99.9 %.1f us, worst %.1f us\n",
           what, share(us, n, 0.5), share(us, n, 0.99), share(us, n, 0.999),
           us[n - 1]);
}

/* Differences from the median of the same scan, whose size is the same. */
static void find_jitter(double *out, const double *frame, const int *which,
                        long long n)
{
    for (int s = 0; s < scan_count; s++) {
        long long count = 0;
        for (long long i = 0; i < n; i++)
            if (which[i] == s)
                out[count++] = frame[i];
        qsort(out, (size_t)count, sizeof(*out), ascending);
        scans[s].median = count > 0 ? share(out, count, 0.5) : 0;
    }
    for (long long i = 0; i < n; i++)
        out[i] = fabs(frame[i] - scans[which[i]].median);
}

/* One frame in ten has a dropout, one in twenty is a burst; one in fifty is
 * empty, and one in a hundred beyond the capacity. */
static int draw_scan(void)
{
    int whole = (scan_count - 2) / 3, i = (int)(drawn() * whole);
    double kind = drawn();

    return kind < 0.01   ? scan_count - 1
           : kind < 0.03 ? scan_count - 2
           : kind < 0.13 ? whole + 2 * i
           : kind < 0.18 ? whole + 2 * i + 1
                         : i;
}

static int drive(model *m)
{
    size_t n = (size_t)options.frames;
    double *frame = malloc(n * sizeof(*frame)), *jitter = malloc(n * 8);
    double *enqueue = malloc(n * 8), *cost = malloc(n * 8);
    int *which = malloc(n * sizeof(*which));
    void *host = malloc(m->bytes + 8);
    long long on_host = 0, on_device = 0, wrong = 0, compared = 0, beyond = 0;

    need(frame && jitter && enqueue && cost && which && host, "no memory", "");
    for (size_t i = 0; i < n; i++) {
        scan *s = &scans[which[i] = draw_scan()];
        times t = run_frame(m, s);
        frame[i] = t.frame;
        enqueue[i] = t.enqueue;
        cost[i] = t.check;
        on_host += t.host;
        on_device += t.device;
        beyond += t.status != SPC_OK;
        wrong += t.status != s->status;
        if (t.status == SPC_OK && i % (size_t)options.check == 0) {
            wrong += sum_of(m, host) != s->sum;
            compared++;
        }
    }
    find_jitter(jitter, frame, which, options.frames);
    print_times("frame", frame, options.frames);
    print_times("enqueue", enqueue, options.frames);
    print_times("jitter", jitter, options.frames);
    print_times("check", cost, options.frames);
    printf("beside   %lld runs of a second network, %lld blocks copied\n",
           (long long)second_runs, (long long)blocks);
    printf("capacity %lld frames beyond it, each reported\n", beyond);
    printf("results  %lld compared, %lld differ from the first of the scan\n",
           compared, wrong);
#ifdef VEHICLE_WRAPS_MALLOC
    printf("memory   %lld allocations on the device, %lld on the host\n",
           on_device, on_host);
#else
    printf("memory   %lld allocations on the device\n", on_device);
#endif
    if (driver.context != NULL)
        puts("waits    none: the driver captured a frame as a graph, which "
             "refuses what waits");
    free(frame), free(jitter), free(enqueue), free(cost), free(which);
    free(host);
    return wrong > 0 || on_device > 0 || on_host > 0;
}

int main(int argc, char **argv)
{
    spc_device_info info[1];
    pthread_t second, hog;
    model m;

    read_options(argc, argv);
    if (options.device == NULL && spc_devices_list(info, 1) > 0)
        options.device = info[0].id;
    if (strncmp(options.device, "cuda", 4) == 0)
        open_driver();
    open_model(&m);
    read_scans(&m);
    for (int i = 0; i < GENERATED; i++)
        generate_scan(&m, options.points * (i + 1) / (GENERATED + 3));
    spoil_scans(&m);
    printf("%s on %s: %lld frames of %d scans, %d of files\n", options.network,
           options.device, options.frames, scan_count, file_count);
    void *host = malloc(m.bytes + 8);
    for (int i = 0; i < scan_count; i++) {
        scans[i].status = run_frame(&m, &scans[i]).status;
        scans[i].sum = sum_of(&m, host);
    }
    free(host);
    pthread_barrier_init(&ready, NULL, 3);
    pthread_create(&second, NULL, run_second, NULL);
    pthread_create(&hog, NULL, run_hog, NULL);
    pthread_barrier_wait(&ready);
    int status = drive(&m);
    stop = true;
    pthread_join(second, NULL);
    pthread_join(hog, NULL);
    close_model(&m);
    for (int i = 0; i < scan_count; i++)
        free(scans[i].points);
    return status;
}
