/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_sim.c - runs CUDA kernels on the processor, to verify them.
 *
 * The device renders the same templates as cuda. The system's C compiler
 * compiles them with the host versions of the primitives
 * (templates/shared/spc_sim.h). Environment variables choose how it runs them:
 *
 *   SPC_SIM_SCHEDULE=forward|reverse|random:SEED   the order of threads
 *   SPC_SIM_ASYNC=eager|deferred                   asynchronous copies, wgmma
 *   SPC_SIM_TARGET=sm_90a                          the GPU whose limits it has
 *
 * A launch returns when it is done, and streams are ignored. Times are those of
 * the emulation, so they do not predict times on a GPU.
 */
#include "device/host_device.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/pool.h"
#include "base/text/names.h"
#include "device/sim.h"
#include "device/sim_gemm.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const spc__device_ops spc__device_sim; /* device_table.c */

enum {
    MULTIPROCESSORS = 4,
    REGISTERS_SM = 65536,
    SHARED_RESERVED = 1024, /* reserved in every block by the system */
    FRESH_BYTE = 0xcd       /* content of new memory */
};

struct spc__kernel {
    spc__host_kernel head;
    spc__sim_kernel sim;
};

/* Odd, and far from any multiple of the constants that distinguish blocks. */
#define LAUNCH_STEP 0xd1342543de82ef95u

typedef struct sim_device {
    spc__host_device host; /* its lock also guards the workers */
    spc__sim_options options;
    char flags[192];
    spc__pool *pool;        /* threads of launches; NULL: not needed yet */
    spc__sim_worker *idle;  /* workers that no launch uses */
    atomic_ullong launches; /* launches begun so far */
} sim_device;

static sim_device *self(spc__device *device)
{
    return (sim_device *)device;
}

/* ---- options --------------------------------------------------------- */

enum { MOST_TARGETS = 16 };

/* Returns the variable's value, or NULL if it is not set or empty. */
static const char *option(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Reads the order in which threads run. */
static spc_status choose_schedule(spc__sim_options *out, spc_error *error)
{
    /* By spc__sim_order. */
    static const char *const names[] = {"forward", "reverse", "random:SEED",
                                        NULL};
    static const char name[] = "SPC_SIM_SCHEDULE", random[] = "random:";
    const char *value = option(name);
    int index =
        value != NULL ? spc__name_index(names, value) : SPC__SIM_FORWARD;

    if (index < 0 && strncmp(value, random, strlen(random)) == 0 &&
        spc__scan_unsigned(&out->seed, spc__span_of(value + strlen(random)),
                           UINT64_MAX))
        index = SPC__SIM_RANDOM;
    else if (index < 0 || index == SPC__SIM_RANDOM)
        return spc__fail_unknown(error, name, spc__span_of(value), names);
    out->order = index;
    return SPC_OK;
}

/* Reads when asynchronous copies are carried out: at once or as late as
 * possible. */
static spc_status choose_async(spc__sim_options *out, spc_error *error)
{
    static const char *const names[] = {"eager", "deferred", NULL};
    static const char name[] = "SPC_SIM_ASYNC";
    const char *value = option(name);
    int index = value != NULL ? spc__name_index(names, value) : 0;

    out->deferred = index == 1;
    return index >= 0
               ? SPC_OK
               : spc__fail_unknown(error, name, spc__span_of(value), names);
}

/* Reads which GPU to simulate. */
static spc_status choose_target(spc__sim_options *out, spc_error *error)
{
    static const char name[] = "SPC_SIM_TARGET";
    const char *value = option(name), *names[MOST_TARGETS + 1] = {NULL};

    for (int i = 0; i < MOST_TARGETS && spc__architectures[i].name; i++)
        names[i] = spc__architectures[i].name;
    int index = value != NULL ? spc__name_index(names, value) : 0;
    if (index < 0)
        return spc__fail_unknown(error, name, spc__span_of(value), names);
    out->target = &spc__architectures[index];
    return SPC_OK;
}

/* Reads the options, which are environment variables. */
static spc_status choose_options(spc__sim_options *out, spc_error *error)
{
    spc_status status;

    memset(out, 0, sizeof(*out));
    if ((status = choose_schedule(out, error)) != SPC_OK ||
        (status = choose_async(out, error)) != SPC_OK)
        return status;
    return choose_target(out, error);
}

/* ---- facts ----------------------------------------------------------- */

/* Describes the simulated GPU in the words of a device. */
static void describe(spc_device_info *out, const spc__sim_options *options)
{
    memset(out, 0, sizeof(*out));
    snprintf(out->id, sizeof(out->id), "sim");
    snprintf(out->name, sizeof(out->name), "sim %s", options->target->name);
    snprintf(out->target, sizeof(out->target), "%s", options->target->name);
    out->multiprocessors = MULTIPROCESSORS;
    out->memory_bytes = spc__host_memory();
    out->emulates = true;
}

static int sim_list(spc_device_info *out, int capacity)
{
    spc__sim_options options;

    if (choose_options(&options, NULL) != SPC_OK)
        options.target = &spc__architectures[0]; /* opening the device will
                                                  * report the error */
    if (capacity > 0)
        describe(out, &options);
    return 1;
}

static void sim_info(const spc__device *device, spc_device_info *out)
{
    describe(out, &((const sim_device *)device)->options);
}

/* The limits of the simulated GPU, which templates read. */
static void sim_target(const spc__device *device, spc__attrs *out)
{
    const spc__architecture *target =
        ((const sim_device *)device)->options.target;

    out->count = 0;
    spc__attrs_set_text(out, "device", "sim");
    spc__attrs_set_text(out, "templates", "cuda");
    spc__attrs_set_text(out, "target", target->name);
    spc__attrs_set_number(out, "sm", target->sm);
    spc__attrs_set_number(out, "shared_block", target->shared_block);
    spc__attrs_set_number(out, "shared_sm", target->shared_sm);
    spc__attrs_set_number(out, "registers_sm", REGISTERS_SM);
    spc__attrs_set_number(out, "max_threads", SPC__SIM_MAX_BLOCK);
    spc__attrs_set_number(out, "multiprocessors", MULTIPROCESSORS);
}

/* ---- opening --------------------------------------------------------- */

/* CUDA code reads the same bytes as several types, hence no strict aliasing.
 * Contraction is off because it would make sums differ between machines. At -Og
 * a candidate compiles in half the time of -O1 and a third of that of -O2, and
 * is hardly slower, because most time is spent on fiber switches and
 * products. */
static void choose_flags(sim_device *sim)
{
    bool fma = false;
    const char *sanitize = "";
#if defined(__x86_64__)
    fma = __builtin_cpu_supports("fma");
#endif
#ifdef SPC_SANITIZE
    sanitize = " -g -fno-omit-frame-pointer -fsanitize=" SPC_SANITIZE;
#endif
    snprintf(sim->flags, sizeof(sim->flags),
             "-Og -fno-strict-aliasing -ffp-contract=off%s%s",
             fma ? " -mfma" : "", sanitize);
    sim->host.flags = sim->flags;
}

static void sim_close(spc__device *device)
{
    sim_device *sim = self(device);

    /* No launch runs any more, so all workers are here. */
    while (sim->idle != NULL) {
        spc__sim_worker *worker = sim->idle;
        sim->idle = worker->next;
        spc__sim_worker_free(worker);
    }
    spc__pool_free(sim->pool);
    spc__host_release(&sim->host);
    free(sim);
}

/* Opens the device. Workers are made by the first launches. */
static spc_status sim_open(spc__device **out, int ordinal,
                           const spc__device_options *options, spc_error *error)
{
    sim_device *sim = calloc(1, sizeof(*sim));
    spc_status status;

    *out = NULL;
    if (sim == NULL)
        return spc__fail_memory(error, sizeof(*sim));
    if ((status = choose_options(&sim->options, error)) != SPC_OK ||
        (status = spc__host_init(&sim->host, &spc__device_sim, ordinal, options,
                                 error)) != SPC_OK) {
        free(sim);
        return status;
    }
    sim->options.threads = sim->host.threads;
    choose_flags(sim);
    *out = (spc__device *)sim;
    return SPC_OK;
}

/* ---- memory ---------------------------------------------------------- */

static spc_status sim_alloc(spc__device *device, void **out, size_t bytes,
                            spc_error *error)
{
    spc_status status = spc__host_alloc(device, out, bytes, error);

    /* Kernels that read uninitialised memory then give wrong results every
     * time. */
    if (status == SPC_OK)
        memset(*out, FRESH_BYTE, bytes);
    return status;
}

/* ---- code ------------------------------------------------------------ */

/* Loads a module and checks the version of its interface. */
static spc_status sim_module_load(spc__device *device, spc__module **out,
                                  const void *code, size_t bytes,
                                  spc_error *error)
{
    spc_status status = spc__host_module_load(device, out, code, bytes, error);

    if (status != SPC_OK)
        return status;
    /* Code from a database may have been compiled for other records of threads
     * and blocks. */
    const int *version = spc__object_find((*out)->object, "spc_sim_version");
    if (version != NULL && *version == SPC_SIM_VERSION)
        return SPC_OK;
    spc__host_module_unload(device, *out);
    *out = NULL;
    return spc__fail(error, SPC_EFORMAT,
                     "the compiled code was not made for this version of the "
                     "sim device (%d)",
                     SPC_SIM_VERSION);
}

/* Finds a kernel and the facts that the compiler left next to it. */
static spc_status find_kernel(spc__sim_kernel *out, spc__module *module,
                              const char *name, spc_error *error)
{
    char facts_name[sizeof(out->name) + 8];
    int length = snprintf(out->name, sizeof(out->name), "%s", name);

    snprintf(facts_name, sizeof(facts_name), "%s_sim", out->name);
    void *entry = spc__object_find(module->object, name);
    const int *facts = spc__object_find(module->object, facts_name);
    if (entry == NULL || facts == NULL || length >= (int)sizeof(out->name))
        return spc__host_fail_kernel(name, error);
    memcpy(&out->entry, &entry, sizeof(entry)); /* the conversion that POSIX
                                                   recommends for dlsym() */
    out->args_bytes = facts[0];
    out->max_threads =
        facts[1] < SPC__SIM_MAX_BLOCK ? facts[1] : SPC__SIM_MAX_BLOCK;
    return SPC_OK;
}

/* Refuses more shared memory than a block of the simulated GPU can have, as a
 * GPU would. */
static spc_status check_shared(const sim_device *sim, const char *kernel,
                               size_t shared_bytes, spc_error *error)
{
    const spc__architecture *target = sim->options.target;
    if (shared_bytes <= (size_t)target->shared_block)
        return SPC_OK;
    return spc__fail(error, SPC_EDEVICE,
                     "kernel '%s' asks for %zu bytes of shared memory; %s has "
                     "%d for a block",
                     kernel, shared_bytes, target->name, target->shared_block);
}

/* Finds a kernel in a module. The module keeps it. */
static spc_status sim_kernel_get(spc__device *device, spc__module *module,
                                 const char *name, size_t shared_bytes,
                                 spc__kernel **out, spc_error *error)
{
    sim_device *sim = self(device);
    spc_status status = check_shared(sim, name, shared_bytes, error);

    *out = NULL;
    if (status != SPC_OK)
        return status;
    spc__kernel *kernel = calloc(1, sizeof(*kernel));
    if (kernel == NULL)
        return spc__fail_memory(error, sizeof(*kernel));
    status = find_kernel(&kernel->sim, module, name, error);
    if (status != SPC_OK) {
        free(kernel);
        return status;
    }
    spc__host_keep(device, module, &kernel->head);
    *out = kernel;
    return SPC_OK;
}

/* Limits are threads, blocks and shared memory. Registers are not known
 * here. */
static int resident_blocks(spc__device *device, unsigned block,
                           size_t shared_bytes)
{
    const spc__architecture *target = self(device)->options.target;
    int blocks = target->blocks_sm;

    if (block == 0)
        return 0;
    if (blocks > target->threads_sm / (int)block)
        blocks = target->threads_sm / (int)block;
    size_t fitting =
        (size_t)target->shared_sm / (shared_bytes + SHARED_RESERVED);
    return (size_t)blocks > fitting ? (int)fitting : blocks;
}

static spc_status sim_occupancy(spc__device *device, int *out,
                                spc__kernel *kernel, unsigned block,
                                size_t shared_bytes, spc_error *error)
{
    *out = resident_blocks(device, block, shared_bytes);
    return SPC_OK;
}

/* ---- running --------------------------------------------------------- */

/* Takes an idle worker or makes one. Returns NULL if memory ran out. */
static spc__sim_worker *take_worker(void *pool)
{
    sim_device *sim = pool;

    pthread_mutex_lock(&sim->host.lock);
    spc__sim_worker *worker = sim->idle;
    if (worker != NULL)
        sim->idle = worker->next;
    pthread_mutex_unlock(&sim->host.lock);
    /* Creates the worker without the lock, since that takes long. */
    return worker != NULL ? worker : spc__sim_worker_create();
}

/* Gives a worker back for the next launch. */
static void give_worker(void *pool, spc__sim_worker *worker)
{
    sim_device *sim = pool;

    pthread_mutex_lock(&sim->host.lock);
    worker->next = sim->idle;
    sim->idle = worker;
    pthread_mutex_unlock(&sim->host.lock);
}

/* Starts the threads at the first launch that needs them, and again in a forked
 * process, which does not inherit them. */
static spc__pool *threads_for(sim_device *sim, const spc__launch *launch)
{
    int threads =
        sim->options.threads > 0 ? sim->options.threads : spc__cpu_count();

    /* One worker runs all of these, so no thread is needed. */
    if (threads == 1 || launch->cooperative ||
        (uint64_t)launch->grid_x * launch->grid_y == 1)
        return NULL;
    pthread_mutex_lock(&sim->host.lock);
    if (spc__pool_helpers(sim->pool) == 0) {
        spc__pool_free(sim->pool);
        /* the pool is NULL if this fails */
        spc__pool_create(&sim->pool, threads, NULL);
    }
    spc__pool *pool = sim->pool;
    pthread_mutex_unlock(&sim->host.lock);
    return pool;
}

/* Refuses a cooperative launch whose blocks could not all run at once, as a GPU
 * would. */
static spc_status check_cooperative(spc__device *device, spc__kernel *kernel,
                                    const spc__launch *launch, spc_error *error)
{
    uint64_t blocks = (uint64_t)launch->grid_x * launch->grid_y;
    int resident =
        resident_blocks(device, launch->block, launch->shared_bytes) *
        MULTIPROCESSORS;
    if (!launch->cooperative || blocks <= (uint64_t)resident)
        return SPC_OK;
    return spc__fail(error, SPC_EDEVICE,
                     "kernel '%s': a cooperative launch of %llu blocks; %d "
                     "are resident at once",
                     kernel->sim.name, (unsigned long long)blocks, resident);
}

/* Runs a kernel and returns when it has ended. */
static spc_status sim_launch(spc__device *device, spc__kernel *kernel,
                             const spc__launch *launch, const void *args,
                             size_t args_bytes, void *stream, spc_error *error)
{
    sim_device *sim = self(device);
    spc_status status =
        check_shared(sim, kernel->sim.name, launch->shared_bytes, error);

    if (status != SPC_OK ||
        (status = check_cooperative(device, kernel, launch, error)) != SPC_OK)
        return status;
    if (args_bytes != (size_t)kernel->sim.args_bytes)
        return spc__fail(error, SPC_EINVAL,
                         "kernel '%s' takes %d bytes of arguments, not %zu",
                         kernel->sim.name, kernel->sim.args_bytes, args_bytes);
    /* A copy of the exact size, so that a kernel that reads past it is
     * detected. */
    void *copy = malloc(args_bytes);
    if (copy == NULL)
        return spc__fail_memory(error, args_bytes);
    memcpy(copy, args, args_bytes);
    spc__sim_launch run = {
        .kernel = &kernel->sim,
        .options = &sim->options,
        .pool = threads_for(sim, launch),
        /* Each launch gets another schedule, so that repeated launches try more
         * of them. */
        .seed = sim->options.seed +
                LAUNCH_STEP * atomic_fetch_add(&sim->launches, 1),
        .args = copy,
        .grid_x = (int)launch->grid_x,
        .grid_y = (int)launch->grid_y,
        .threads = (int)launch->block,
        .shared_bytes = (int)launch->shared_bytes,
        .cooperative = launch->cooperative,
        .cluster = launch->cluster > 0 ? (int)launch->cluster : 1,
    };
    status = spc__sim_launch_run(&run, take_worker, give_worker, sim, error);
    free(copy);
    return status;
}

/* Measures wall-clock time. There is no cache worth flushing. */
static spc_status sim_measure(spc__device *device, const spc__measure *measure,
                              double *samples, int *count, spc_error *error)
{
    uint64_t begin = spc__now_ns();

    *count = 0;
    while (*count < measure->samples) {
        spc_status status = measure->before != NULL
                                ? measure->before(measure->payload, NULL)
                                : SPC_OK;
        uint64_t start = spc__now_ns();
        if (status == SPC_OK)
            status = measure->enqueue(measure->payload, NULL);
        if (status != SPC_OK)
            return status;
        uint64_t end = spc__now_ns();
        samples[(*count)++] = (double)(end - start) * 1e-3;
        if ((double)(end - begin) * 1e-9 > measure->limit_s)
            break;
    }
    return SPC_OK;
}

const spc__device_ops spc__device_sim = {
    .name = "sim",
    .is_emulation = true,
    .runs_on_host_cores = true,
    .index_block = 128, /* few, as fibers are expensive */
    .list = sim_list,
    .open = sim_open,
    .close = sim_close,
    .info = sim_info,
    .target = sim_target,
    .alloc = sim_alloc,
    .dealloc = spc__host_dealloc,
    .copy_in = spc__host_copy,
    .copy_out = spc__host_copy,
    .collect = spc__host_collect,
    .fill = spc__host_fill,
    .sync = spc__host_sync,
    .compiler = spc__host_compiler,
    .module_load = sim_module_load,
    .module_unload = spc__host_module_unload,
    .kernel_get = sim_kernel_get,
    .occupancy = sim_occupancy,
    .launch = sim_launch,
    .has_gemm = spc__sim_has_gemm,
    .gemm = spc__sim_gemm,
    .measure = sim_measure,
    .graph_create = spc__host_graph_create,
    .graph_launch = spc__host_graph_launch,
    .graph_free = spc__host_graph_free,
};
