/*
 * device_cpu.c - the machine's own processor as a device.
 *
 * Templates are rendered to C, compiled for one of a few instruction sets by
 * the system's compiler, and loaded as shared objects. A kernel is
 *
 *     void name(const args_t *args, unsigned x, unsigned y);
 *
 * and is called for every x in [0, grid_x * block) and y in [0, grid_y): a
 * block of the launch is `block` calls, one after another, on one thread. The
 * pool hands out blocks as threads become free. Memory is the host's, the
 * stream means nothing, and a launch returns when it is done.
 */
#include "device.h"

#include "clock.h"
#include "cpu_module.h"
#include "cpu_pool.h"
#include "error.h"
#include "parallel.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const spc__device_ops spc__device_cpu; /* device_table.c */

typedef void (*kernel_fn)(const void *args, unsigned x, unsigned y);

struct spc__kernel {
    kernel_fn run;
    spc__kernel *next;
};

struct spc__module {
    spc__object *object;
    spc__kernel *kernels; /* freed with the module */
};

typedef struct cpu_device {
    const spc__device_ops *ops;
    const struct isa *isa;
    int threads;
    spc__pool *pool;
    pthread_mutex_t lock; /* of the compiler and the modules' kernels */
    spc__compiler *compiler;
} cpu_device;

static cpu_device *self(spc__device *device)
{
    return (cpu_device *)device;
}

/* ---- instruction sets ---------------------------------------------------- */

static bool has_avx512(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq");
#else
    return false;
#endif
}

static bool has_avx2(void)
{
#if defined(__x86_64__)
    /* Not every compiler's __builtin_cpu_supports knows f16c. */
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
#else
    return false;
#endif
}

static bool has_portable(void)
{
    return true;
}

/* Best first. Named features, not -march=native: the same target is the same
 * code on every machine that has it. */
static const struct isa {
    const char *name;
    bool (*present)(void);
    int vector_bytes;
    const char *options;
} isas[] = {
    {"avx512", has_avx512, 64,
     "-mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c "
     "-ffp-contract=fast"},
    {"avx2", has_avx2, 32, "-mavx2 -mfma -mf16c -ffp-contract=fast"},
    {"portable", has_portable, 16, "-ffp-contract=fast"},
};

enum { ISAS = sizeof(isas) / sizeof(*isas) };

static const struct isa *best_isa(void)
{
    const struct isa *best = &isas[0];
    while (!best->present())
        best++;
    return best;
}

/* The machine's best, unless $SPC_CPU_ISA names another. */
static spc_status choose_isa(const struct isa **out, spc_error *error)
{
    const char *wanted = getenv("SPC_CPU_ISA");

    *out = best_isa();
    if (wanted == NULL || *wanted == '\0')
        return SPC_OK;
    for (int i = 0; i < ISAS; i++) {
        if (strcmp(isas[i].name, wanted) != 0)
            continue;
        *out = &isas[i];
        if (isas[i].present())
            return SPC_OK;
        return spc__fail(error, SPC_EINVAL,
                         "SPC_CPU_ISA asks for %s, which this processor lacks; "
                         "its best is %s",
                         wanted, best_isa()->name);
    }
    return spc__fail(error, SPC_EINVAL,
                     "SPC_CPU_ISA is '%.40s'; avx512, avx2 and portable are "
                     "right",
                     wanted);
}

/* ---- facts --------------------------------------------------------------- */

static void describe(spc_device_info *out, const struct isa *isa, int threads)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    memset(out, 0, sizeof(*out));
    snprintf(out->id, sizeof(out->id), "cpu");
    snprintf(out->name, sizeof(out->name), "cpu %s", isa->name);
    snprintf(out->target, sizeof(out->target), "%s", isa->name);
    out->multiprocessors = threads;
    if (pages > 0 && page > 0)
        out->memory_bytes = (size_t)pages * (size_t)page;
}

static int cpu_list(spc_device_info *out, int capacity)
{
    const struct isa *isa;
    if (choose_isa(&isa, NULL) != SPC_OK)
        isa = best_isa(); /* opening the device tells */
    if (capacity > 0)
        describe(out, isa, spc__cpu_count());
    return 1;
}

static void cpu_info(const spc__device *device, spc_device_info *out)
{
    const cpu_device *cpu = (const cpu_device *)device;
    describe(out, cpu->isa, cpu->threads);
}

static void cpu_target(const spc__device *device, spc__attrs *out)
{
    const cpu_device *cpu = (const cpu_device *)device;
    out->count = 0;
    spc__attrs_set_text(out, "device", "cpu");
    spc__attrs_set_text(out, "target", cpu->isa->name);
    spc__attrs_set_text(out, "isa", cpu->isa->name);
    spc__attrs_set_number(out, "vector_bytes", cpu->isa->vector_bytes);
}

/* ---- opening ------------------------------------------------------------- */

static void cpu_close(spc__device *device)
{
    cpu_device *cpu = self(device);
    spc__pool_free(cpu->pool);
    spc__compiler_close(cpu->compiler);
    pthread_mutex_destroy(&cpu->lock);
    free(cpu);
}

static spc_status cpu_open(spc__device **out, int ordinal,
                           const spc__device_options *options, spc_error *error)
{
    const struct isa *isa;
    spc_status status;

    *out = NULL;
    if (ordinal > 0)
        return spc__fail(error, SPC_ENODEVICE,
                         "there is no device cpu:%d; the machine is one "
                         "device, \"cpu\"",
                         ordinal);
    if ((status = choose_isa(&isa, error)) != SPC_OK)
        return status;
    cpu_device *cpu = calloc(1, sizeof(*cpu));
    if (cpu == NULL)
        return spc__fail_memory(error, sizeof(*cpu));
    cpu->ops = &spc__device_cpu;
    cpu->isa = isa;
    cpu->threads = options != NULL ? options->threads : 0;
    if (cpu->threads <= 0)
        cpu->threads = spc__cpu_count();
    if ((status = spc__pool_create(&cpu->pool, cpu->threads, error)) !=
        SPC_OK) {
        free(cpu);
        return status;
    }
    pthread_mutex_init(&cpu->lock, NULL);
    *out = (spc__device *)cpu;
    return SPC_OK;
}

/* ---- memory -------------------------------------------------------------- */

static spc_status cpu_alloc(spc__device *device, void **out, size_t bytes,
                            spc_error *error)
{
    /* 256: what packed weights and workspaces are promised. */
    if (posix_memalign(out, 256, bytes > 0 ? bytes : 1) == 0)
        return SPC_OK;
    *out = NULL;
    return spc__fail_memory(error, bytes);
}

static void cpu_dealloc(spc__device *device, void *memory)
{
    free(memory);
}

static spc_status cpu_copy(spc__device *device, void *to, const void *from,
                           size_t bytes, void *stream, spc_error *error)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
    return SPC_OK;
}

static spc_status cpu_fill(spc__device *device, void *to, int byte,
                           size_t bytes, void *stream, spc_error *error)
{
    if (bytes > 0)
        memset(to, byte, bytes);
    return SPC_OK;
}

static spc_status cpu_sync(spc__device *device, void *stream, spc_error *error)
{
    return SPC_OK;
}

/* ---- code ---------------------------------------------------------------- */

static spc_status cpu_compiler(spc__device *device, spc__compiler **out,
                               const char **options, spc_error *error)
{
    cpu_device *cpu = self(device);
    spc_status status = SPC_OK;

    pthread_mutex_lock(&cpu->lock);
    if (cpu->compiler == NULL)
        status = spc__hostcc_open(&cpu->compiler, error);
    *out = cpu->compiler;
    *options = cpu->isa->options;
    pthread_mutex_unlock(&cpu->lock);
    return status;
}

static spc_status cpu_module_load(spc__device *device, spc__module **out,
                                  const void *code, size_t bytes,
                                  spc_error *error)
{
    spc__module *module = calloc(1, sizeof(*module));
    spc_status status;

    *out = NULL;
    if (module == NULL)
        return spc__fail_memory(error, sizeof(*module));
    if ((status = spc__object_load(&module->object, code, bytes, error)) !=
        SPC_OK) {
        free(module);
        return status;
    }
    *out = module;
    return SPC_OK;
}

static void cpu_module_unload(spc__device *device, spc__module *module)
{
    if (module == NULL)
        return;
    while (module->kernels != NULL) {
        spc__kernel *kernel = module->kernels;
        module->kernels = kernel->next;
        free(kernel);
    }
    spc__object_unload(module->object);
    free(module);
}

static spc_status cpu_kernel_get(spc__device *device, spc__module *module,
                                 const char *name, size_t shared_bytes,
                                 spc__kernel **out, spc_error *error)
{
    cpu_device *cpu = self(device);
    void *symbol = spc__object_find(module->object, name);

    *out = NULL;
    if (symbol == NULL)
        return spc__fail(error, SPC_ENOTFOUND,
                         "the compiled code has no kernel '%s'", name);
    spc__kernel *kernel = malloc(sizeof(*kernel));
    if (kernel == NULL)
        return spc__fail_memory(error, sizeof(*kernel));
    memcpy(&kernel->run, &symbol, sizeof(symbol)); /* as POSIX has it */
    pthread_mutex_lock(&cpu->lock);
    kernel->next = module->kernels;
    module->kernels = kernel;
    pthread_mutex_unlock(&cpu->lock);
    *out = kernel;
    return SPC_OK;
}

static int cpu_occupancy(spc__device *device, spc__kernel *kernel,
                         unsigned block, size_t shared_bytes)
{
    return 1;
}

/* ---- launching ----------------------------------------------------------- */

typedef struct run {
    kernel_fn kernel;
    const void *args;
    const spc__launch *launch;
} run;

static void run_block(void *payload, int64_t i)
{
    const run *r = payload;
    unsigned first = (unsigned)(i % r->launch->grid_x) * r->launch->block;
    unsigned y = (unsigned)(i / r->launch->grid_x);

    for (unsigned t = 0; t < r->launch->block; t++)
        r->kernel(r->args, first + t, y);
}

static spc_status cpu_launch(spc__device *device, spc__kernel *kernel,
                             const spc__launch *launch, const void *args,
                             size_t args_bytes, void *stream, spc_error *error)
{
    run r = {kernel->run, args, launch};
    if (launch->block == 0)
        return spc__fail(error, SPC_EINVAL, "a launch of 0 threads a block");
    spc__pool_run(self(device)->pool, (int64_t)launch->grid_x * launch->grid_y,
                  run_block, &r);
    return SPC_OK;
}

/* ---- measuring ----------------------------------------------------------- */

enum { FLUSH_CHUNK = 1 << 20, SAMPLE_NS = 200000, MOST_RUNS = 1000 };

typedef struct flush {
    char *memory;
    int64_t chunks;
} flush;

static void flush_chunk(void *payload, int64_t i)
{
    const flush *f = payload;
    memset(f->memory + i * FLUSH_CHUNK, (int)(i & 0x7f), FLUSH_CHUNK);
}

/* The bytes of last-level cache within reach of so many threads. sysconf may
 * add up those of all cores of the package; the kernel knows the one that a
 * core has, and no more than one a thread is of interest. */
static int64_t reachable_cache(int threads)
{
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    int64_t all = sysconf(_SC_LEVEL3_CACHE_SIZE);
    long kilobytes = 0;

    if (file != NULL && fscanf(file, "%ldK", &kilobytes) != 1)
        kilobytes = 0;
    if (file != NULL)
        fclose(file);
    if (all <= 0)
        all = 32 << 20;
    if (kilobytes > 0 && kilobytes * INT64_C(1024) * threads < all)
        all = kilobytes * INT64_C(1024) * threads;
    return all < 512 << 20 ? all : 512 << 20;
}

/* Twice that, so that every thread's own cache is overrun, too. */
static spc_status flush_create(flush *out, int threads, spc_error *error)
{
    out->chunks = 2 * reachable_cache(threads) / FLUSH_CHUNK + 1;
    out->memory = malloc((size_t)out->chunks * FLUSH_CHUNK);
    if (out->memory == NULL)
        return spc__fail_memory(error, (size_t)out->chunks * FLUSH_CHUNK);
    return SPC_OK;
}

/* Nanoseconds of `runs` runs. */
static spc_status time_runs(const spc__measure *measure, int runs, uint64_t *ns)
{
    spc_status status = SPC_OK;
    uint64_t start = spc__now_ns();
    for (int i = 0; i < runs && status == SPC_OK; i++)
        status = measure->enqueue(measure->payload, NULL);
    *ns = spc__now_ns() - start;
    return status;
}

/* The clock resolves some tens of nanoseconds: short runs are timed in bundles,
 * but cold ones alone. */
static int runs_of_sample(const spc__measure *measure, uint64_t once_ns)
{
    uint64_t runs = SAMPLE_NS / (once_ns + 1) + 1;
    if (measure->cold)
        return 1;
    return runs < MOST_RUNS ? (int)runs : MOST_RUNS;
}

static spc_status cpu_measure(spc__device *device, const spc__measure *measure,
                              double *samples, int *count, spc_error *error)
{
    spc__pool *pool = self(device)->pool;
    uint64_t start = spc__now_ns(), ns;
    flush f = {NULL, 0};
    spc_status status = SPC_OK;

    *count = 0;
    if (measure->cold)
        status = flush_create(&f, self(device)->threads, error);
    if (status == SPC_OK)
        status = time_runs(measure, 1, &ns); /* pages, caches, clocks */
    if (status == SPC_OK && !measure->cold)
        status = time_runs(measure, 1, &ns);
    int runs = status == SPC_OK ? runs_of_sample(measure, ns) : 0;
    while (status == SPC_OK && *count < measure->samples) {
        if (*count > 0 &&
            (double)(spc__now_ns() - start) * 1e-9 > measure->limit_s)
            break;
        spc__pool_run(pool, f.chunks, flush_chunk, &f);
        status = time_runs(measure, runs, &ns);
        if (status == SPC_OK)
            samples[(*count)++] = (double)ns * 1e-3 / runs;
    }
    free(f.memory);
    /* The run may have worded its own failure; its sentence stays then. */
    if (status != SPC_OK && error != NULL && error->status != status)
        spc__fail(error, status, "the run to be measured fails: %s",
                  spc_status_text(status));
    return status;
}

/* ---- the table ----------------------------------------------------------- */

const spc__device_ops spc__device_cpu = {
    .name = "cpu",
    .list = cpu_list,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .target = cpu_target,
    .alloc = cpu_alloc,
    .dealloc = cpu_dealloc,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .fill = cpu_fill,
    .sync = cpu_sync,
    .compiler = cpu_compiler,
    .module_load = cpu_module_load,
    .module_unload = cpu_module_unload,
    .kernel_get = cpu_kernel_get,
    .occupancy = cpu_occupancy,
    .launch = cpu_launch,
    .measure = cpu_measure,
};
