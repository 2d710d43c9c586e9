/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_cpu.c - the processor of the machine as a device.
 *
 * Templates are rendered to C, compiled for one of a few instruction sets by
 * the system's compiler, and loaded as shared objects. A kernel is
 *
 *     void name(const args_t *args, unsigned x, unsigned y);
 *
 * and is called for every x in [0, grid_x * block) and y in [0, grid_y). A
 * block of the launch is `block` consecutive calls on one thread. The pool
 * hands out blocks as threads become free. Memory is the host's, streams are
 * ignored, and a launch returns when it is done.
 */
#include "device/host_device.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/pool.h"
#include "base/text/names.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const spc__device_ops spc__device_cpu; /* device_table.c */

typedef void (*kernel_fn)(const void *args, unsigned x, unsigned y);

struct spc__kernel {
    spc__host_kernel head;
    kernel_fn run;
};

/* Memory that is overwritten to evict a run's data from the caches. */
typedef struct flush {
    char *memory; /* NULL until a cold run is measured */
    int64_t chunks;
} flush;

typedef struct cpu_device {
    spc__host_device host;
    const struct isa *isa;
    spc__pool *pool;
    flush flush;
} cpu_device;

static cpu_device *self(spc__device *device)
{
    return (cpu_device *)device;
}

/* ---- instruction sets ---------------------------------------------------- */

/* The four parts of AVX-512 for which the kernels are compiled. */
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

/* AVX2 with the two extensions that came with it, products with sums and
 * f16. */
static bool has_avx2(void)
{
#if defined(__x86_64__)
    /* Some compilers' __builtin_cpu_supports does not know f16c. */
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

/* Best first. Each row names its features instead of using -march=native, so
 * that one target gives the same code on every machine. */
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

/* The best instruction set that this machine has. Rows are in descending order
 * of preference. */
static const struct isa *best_isa(void)
{
    const struct isa *best = &isas[0];
    /* The last row is always present, so this ends. */
    while (!best->present())
        best++;
    return best;
}

/* Chooses the machine's best, unless $SPC_CPU_ISA names another. */
static spc_status choose_isa(const struct isa **out, spc_error *error)
{
    static const char name[] = "SPC_CPU_ISA";
    const char *wanted = getenv(name), *names[ISAS + 1] = {NULL};

    *out = best_isa();
    if (wanted == NULL || *wanted == '\0')
        return SPC_OK;
    for (int i = 0; i < ISAS; i++)
        names[i] = isas[i].name;
    int index = spc__name_index(names, wanted);
    if (index < 0)
        return spc__fail_unknown(error, name, spc__span_of(wanted), names);
    *out = &isas[index];
    if (isas[index].present())
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%s: this processor lacks it; its best is %s", name,
                     wanted, best_isa()->name);
}

/* ---- facts --------------------------------------------------------------- */

/* Returns the bytes of last-level cache that these threads can reach. sysconf
 * may add up the caches of all cores in the package. The kernel reports the
 * cache of one core, and at most one cache for each thread counts. */
static int64_t reachable_cache(int threads)
{
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    int64_t all = sysconf(_SC_LEVEL3_CACHE_SIZE);
    long kilobytes = 0;

    if (file != NULL && fscanf(file, "%ldK", &kilobytes) != 1)
        kilobytes = 0;
    if (file != NULL)
        fclose(file);
    /* A guess if the system does not report it, at most 512 MiB: the buffer
     * that flushes the cache is twice as large. */
    if (all <= 0)
        all = 32 << 20;
    if (kilobytes > 0 && kilobytes * INT64_C(1024) * threads < all)
        all = kilobytes * INT64_C(1024) * threads;
    return all < 512 << 20 ? all : 512 << 20;
}

/* Adds the private caches of each core, which may hold other lines. */
static int64_t all_caches(int threads)
{
    long own = sysconf(_SC_LEVEL1_DCACHE_SIZE) + sysconf(_SC_LEVEL2_CACHE_SIZE);

    return reachable_cache(threads) + (own > 0 ? own : 4 << 20) * threads;
}

/* Describes the processor in the words of a device. */
static void describe(spc_device_info *out, const struct isa *isa, int threads)
{
    memset(out, 0, sizeof(*out));
    snprintf(out->id, sizeof(out->id), "cpu");
    snprintf(out->name, sizeof(out->name), "cpu %s", isa->name);
    snprintf(out->target, sizeof(out->target), "%s", isa->name);
    out->multiprocessors = threads;
    out->memory_bytes = spc__host_memory();
    out->cache_bytes = (size_t)all_caches(threads);
}

/* Lists the one cpu device. */
static int cpu_list(spc_device_info *out, int capacity)
{
    const struct isa *isa;
    if (choose_isa(&isa, NULL) != SPC_OK)
        isa = best_isa(); /* opening the device will report the error */
    if (capacity > 0)
        describe(out, isa, spc__cpu_count());
    return 1;
}

static void cpu_info(const spc__device *device, spc_device_info *out)
{
    const cpu_device *cpu = (const cpu_device *)device;
    describe(out, cpu->isa, cpu->host.threads);
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

static spc__pool *cpu_pool(spc__device *device)
{
    return self(device)->pool;
}

/* ---- opening ------------------------------------------------------------- */

static void cpu_close(spc__device *device)
{
    cpu_device *cpu = self(device);
    spc__pool_free(cpu->pool);
    spc__host_release(&cpu->host);
    free(cpu->flush.memory);
    free(cpu);
}

/* Opens the device: the instruction set, then the threads. */
static spc_status cpu_open(spc__device **out, int ordinal,
                           const spc__device_options *options, spc_error *error)
{
    cpu_device *cpu = calloc(1, sizeof(*cpu));
    spc_status status;

    *out = NULL;
    if (cpu == NULL)
        return spc__fail_memory(error, sizeof(*cpu));
    if ((status = choose_isa(&cpu->isa, error)) != SPC_OK ||
        (status = spc__host_init(&cpu->host, &spc__device_cpu, ordinal, options,
                                 error)) != SPC_OK) {
        free(cpu);
        return status;
    }
    cpu->host.flags = cpu->isa->options;
    status = spc__pool_create(&cpu->pool, cpu->host.threads, error);
    if (status == SPC_OK)
        *out = (spc__device *)cpu;
    else
        cpu_close((spc__device *)cpu);
    return status;
}

/* ---- code ---------------------------------------------------------------- */

/* Finds a kernel in a module. The module keeps it. */
static spc_status cpu_kernel_get(spc__device *device, spc__module *module,
                                 const char *name, size_t shared_bytes,
                                 spc__kernel **out, spc_error *error)
{
    void *symbol = spc__object_find(module->object, name);

    *out = NULL;
    if (symbol == NULL)
        return spc__host_fail_kernel(name, error);
    spc__kernel *kernel = malloc(sizeof(*kernel));
    if (kernel == NULL)
        return spc__fail_memory(error, sizeof(*kernel));
    memcpy(&kernel->run, &symbol, sizeof(symbol)); /* the conversion that POSIX
                                                      recommends for dlsym() */
    spc__host_keep(device, module, &kernel->head);
    *out = kernel;
    return SPC_OK;
}

static spc_status cpu_occupancy(spc__device *device, int *out,
                                spc__kernel *kernel, unsigned block,
                                size_t shared_bytes, spc_error *error)
{
    *out = 1;
    return SPC_OK;
}

/* ---- launching ----------------------------------------------------------- */

typedef struct run {
    kernel_fn kernel;
    const void *args;
    const spc__launch *launch;
} run;

/* Reads the rounding mode and the handling of denormals. They belong to the
 * thread, which may be the caller's, so a kernel must not change them for later
 * code. */
static unsigned read_arithmetic(void)
{
#if defined(__x86_64__)
    return _mm_getcsr() & ~(unsigned)_MM_EXCEPT_MASK;
#else
    return (unsigned)fegetround();
#endif
}

/* Restores the modes of arithmetic that a kernel may have changed, such as
 * rounding. */
static void write_arithmetic(unsigned mode)
{
#if defined(__x86_64__)
    _mm_setcsr(mode);
#else
    fesetround((int)mode);
#endif
}

/* Runs the threads of a block one after the other. Kernels for this device
 * never wait for each other. */
static void run_block(void *payload, int64_t i)
{
    const run *r = payload;
    /* Neighbouring blocks in x follow each other, as they share rows. */
    unsigned first = (unsigned)(i % r->launch->grid_x) * r->launch->block;
    unsigned y = (unsigned)(i / r->launch->grid_x);
    unsigned arithmetic = read_arithmetic();

    for (unsigned t = 0; t < r->launch->block; t++)
        r->kernel(r->args, first + t, y);
    /* Writing the register is slow, so it is done only if needed. */
    if (read_arithmetic() != arithmetic)
        write_arithmetic(arithmetic);
}

/* Runs a kernel and returns when it has ended. */
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

static void flush_chunk(void *payload, int64_t i)
{
    const flush *f = payload;
    memset(f->memory + i * FLUSH_CHUNK, (int)(i & 0x7f), FLUSH_CHUNK);
}

/* Twice the last-level cache, so that every core's private cache is overwritten
 * too. It is created once, because page faults on so much memory take longer
 * than most runs. */
static spc_status flush_create(flush *out, int threads, spc_error *error)
{
    if (out->memory != NULL)
        return SPC_OK;
    out->chunks = 2 * reachable_cache(threads) / FLUSH_CHUNK + 1;
    out->memory = malloc((size_t)out->chunks * FLUSH_CHUNK);
    if (out->memory == NULL)
        return spc__fail_memory(error, (size_t)out->chunks * FLUSH_CHUNK);
    return SPC_OK;
}

/* Measures the nanoseconds of `runs` runs. */
static spc_status time_runs(const spc__measure *measure, int runs, uint64_t *ns)
{
    spc_status status = SPC_OK;
    uint64_t start = spc__now_ns();
    for (int i = 0; i < runs && status == SPC_OK; i++)
        status = measure->enqueue(measure->payload, NULL);
    *ns = spc__now_ns() - start;
    return status;
}

/* The clock resolves some tens of nanoseconds. Short warm runs are therefore
 * timed in groups, cold runs one by one. */
static int runs_of_sample(const spc__measure *measure, uint64_t once_ns)
{
    uint64_t runs = SAMPLE_NS / (once_ns + 1) + 1;
    if (measure->cold || measure->before != NULL)
        return 1;
    return runs < MOST_RUNS ? (int)runs : MOST_RUNS;
}

/* Times runs on the host's clock. Short runs are repeated within a sample. */
static spc_status cpu_measure(spc__device *device, const spc__measure *measure,
                              double *samples, int *count, spc_error *error)
{
    cpu_device *cpu = self(device);
    uint64_t start = spc__now_ns(), ns;
    spc_status status = SPC_OK;

    *count = 0;
    if (measure->cold)
        status = flush_create(&cpu->flush, cpu->host.threads, error);
    if (status == SPC_OK)
        status = time_runs(measure, 1, &ns); /* a warm-up of pages, caches and
                                              * clocks */
    /* Times a warm run again, as the first run may take many times as long. */
    if (status == SPC_OK && !measure->cold)
        status = time_runs(measure, 1, &ns);
    int runs = status == SPC_OK ? runs_of_sample(measure, ns) : 0;
    while (status == SPC_OK && *count < measure->samples) {
        /* At least one sample, however slow the run is. */
        if (*count > 0 &&
            (double)(spc__now_ns() - start) * 1e-9 > measure->limit_s)
            break;
        if (measure->before != NULL)
            status = measure->before(measure->payload, NULL);
        /* Flushes after `before`, because its data must not remain in the
         * caches either. */
        if (measure->cold)
            spc__pool_run(cpu->pool, cpu->flush.chunks, flush_chunk,
                          &cpu->flush);
        if (status == SPC_OK)
            status = time_runs(measure, runs, &ns);
        if (status == SPC_OK)
            samples[(*count)++] = (double)ns * 1e-3 / runs;
    }
    /* If the run already recorded a failure, keep its sentence. */
    if (status != SPC_OK && error != NULL && error->status != status)
        spc__fail(error, status, "the run to be measured fails: %s",
                  spc_status_text(status));
    return status;
}

/* ---- the table ----------------------------------------------------------- */

const spc__device_ops spc__device_cpu = {
    .name = "cpu",
    .runs_on_host_cores = true,
    .measures_alone = true,
    .builds_maps_on_host = true,
    .list = cpu_list,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .target = cpu_target,
    .pool = cpu_pool,
    .alloc = spc__host_alloc,
    .dealloc = spc__host_dealloc,
    .copy_in = spc__host_copy,
    .copy_out = spc__host_copy,
    .collect = spc__host_collect,
    .fill = spc__host_fill,
    .sync = spc__host_sync,
    .compiler = spc__host_compiler,
    .module_load = spc__host_module_load,
    .module_unload = spc__host_module_unload,
    .kernel_get = cpu_kernel_get,
    .occupancy = cpu_occupancy,
    .launch = cpu_launch,
    .measure = cpu_measure,
    .graph_create = spc__host_graph_create,
    .graph_launch = spc__host_graph_launch,
    .graph_free = spc__host_graph_free,
};
