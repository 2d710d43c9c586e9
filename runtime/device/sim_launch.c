/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_launch.c - workers, blocks, and the end of a launch that fails.
 *
 * Blocks are handed out in order (backwards in the reverse schedule) to as many
 * workers as the device has threads. The blocks of a cluster stay together. A
 * cooperative launch has one worker, which holds all blocks at once.
 */
#include "base/error.h"
#include "device/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if SPC__SIM_ASAN
#include <sanitizer/asan_interface.h>
#endif

enum {
    ARENA_ALIGN = 1024,
    MOST_FIBERS = 16384,
    MOST_CLUSTER = SPC__SIM_CLUSTER
};

/* ---- faults ---------------------------------------------------------- */

/* Records a failure, which ends the launch. */
static void record(spc__sim_launch *launch, spc_status status, const char *text)
{
    /* The first failure is kept: the others are often its consequences. */
    pthread_mutex_lock(&launch->lock);
    if (!atomic_load(&launch->failed))
        spc__fail(&launch->error, status, "%s", text);
    atomic_store(&launch->failed, true);
    pthread_mutex_unlock(&launch->lock);
}

_Noreturn void spc__sim_fault(spc_sim_thread *self, const char *format, ...)
{
    spc__sim_launch *launch = spc__sim_launch_of(self);
    char text[800];
    va_list arguments;

    int length = snprintf(
        text, sizeof(text),
        "kernel '%s', block (%d, %d), thread %d: ", launch->kernel->name,
        self->block_x, self->block_y, self->thread);
    va_start(arguments, format);
    vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
    va_end(arguments);
    record(launch, SPC_EDEVICE, text);
    /* The fiber's stack is abandoned. The worker then ends the launch. */
    spc__sim_fiber_leave(self, &spc__sim_block_of(self)->worker->main);
    __builtin_unreachable(); /* an abandoned fiber never resumes */
}

/* Reports a wrong use of a primitive, with the place in the kernel. */
static void api_fault(spc_sim_thread *self, const spc_sim_place *place,
                      const char *what, const void *address)
{
    if (address)
        spc__sim_fault(self, "%s at %s:%d: address %p %s", place->primitive,
                       place->file, place->line, (void *)address, what);
    spc__sim_fault(self, "%s at %s:%d %s", place->primitive, place->file,
                   place->line, what);
}

static const spc_sim_api api = {
    .gather = spc__sim_gather,
    .barrier = spc__sim_barrier_wait,
    .yield = spc__sim_yield,
    .fence = spc__sim_fence,
    .cluster_sync = spc__sim_cluster_sync,
    .copy = spc__sim_copy_issue,
    .copy_commit = spc__sim_copy_commit,
    .copy_wait = spc__sim_copy_wait,
    .mbar_init = spc__sim_mbar_init,
    .mbar_arrive = spc__sim_mbar_arrive,
    .mbar_wait = spc__sim_mbar_wait,
    .bulk_copy = spc__sim_bulk_copy,
    .fault = api_fault,
};

/* ---- memory of a worker ---------------------------------------------- */

static void free_stacks(spc__sim_worker *worker)
{
    for (int i = 0; worker->fibers && i < worker->slots; i++)
        spc__sim_fiber_release(&worker->fibers[i]);
    free(worker->fibers);
    free(worker->copies);
    worker->copies = NULL;
    spc__sim_stacks_unmap(worker->stacks, worker->slots);
    worker->fibers = NULL;
    worker->stacks = NULL;
    worker->slots = 0;
}

/* Makes sure that there is a stack for each thread. Stacks are kept for later
 * launches. */
static bool have_stacks(spc__sim_worker *worker, int slots)
{
    if (worker->slots >= slots)
        return true;
    /* Frees the old stacks first, so that only one set of stacks exists at a
     * time. */
    free_stacks(worker);
    worker->fibers = calloc((size_t)slots, sizeof(*worker->fibers));
    worker->stacks = spc__sim_stacks_map(slots);
    if (!worker->fibers || !worker->stacks) {
        spc__sim_stacks_unmap(worker->stacks, slots);
        worker->stacks = NULL;
        return false;
    }
    worker->slots = slots;
    return true;
}

/* Makes sure that the blocks have shared memory. */
static bool have_arena(spc__sim_worker *worker, int blocks, int shared_bytes)
{
    /* Blocks begin at multiples of 1024 bytes, since swizzled tiles must. */
    size_t stride = ((size_t)shared_bytes + SPC__SIM_CANARY + ARENA_ALIGN - 1) /
                    ARENA_ALIGN * ARENA_ALIGN;
    worker->arena_stride = stride;
    if (worker->arena_bytes >= stride * (size_t)blocks)
        return true;
    if (worker->arena)
        munmap(worker->arena, worker->arena_bytes);
    worker->arena_bytes = stride * (size_t)blocks;
    worker->arena = mmap(NULL, worker->arena_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (worker->arena != MAP_FAILED)
        return true;
    worker->arena = NULL;
    worker->arena_bytes = 0;
    return false;
}

static void free_blocks(spc__sim_worker *worker)
{
    for (int i = 0; i < worker->block_capacity; i++)
        free(worker->blocks[i].tokens);
    free(worker->blocks);
}

/* Makes sure that there are records of blocks. */
static bool have_blocks(spc__sim_worker *worker, int blocks)
{
    if (worker->block_capacity >= blocks)
        return true;
    free_blocks(worker);
    free(worker->products);
    worker->products = NULL;
    worker->blocks = calloc((size_t)blocks, sizeof(*worker->blocks));
    worker->block_capacity = worker->blocks ? blocks : 0;
    return worker->blocks != NULL;
}

/* Reserves memory for deferred operations. Only the used part is touched. */
static bool have_queues(spc__sim_worker *worker)
{
    if (!worker->launch->options->deferred)
        return true;
    /* malloc() of this size maps pages only when they are touched. */
    if (!worker->copies)
        worker->copies = malloc((size_t)worker->slots * SPC__SIM_COPIES *
                                sizeof(*worker->copies));
    if (!worker->products)
        worker->products =
            malloc((size_t)worker->block_capacity * SPC__SIM_WARPS *
                   SPC__SIM_PRODUCTS * sizeof(*worker->products));
    return worker->copies && worker->products;
}

/* A launch that holds all its blocks at once may have more than a cluster. */
static bool have_phases(spc__sim_worker *worker, int blocks)
{
    if (worker->launch->cooperative) {
        free(worker->phases);
        worker->phases = NULL;
        return true;
    }
    if (!worker->phases)
        worker->phases = spc__sim_phases_create();
    if (worker->phases)
        spc__sim_phases_reset(worker->phases, blocks);
    return worker->phases != NULL;
}

spc__sim_worker *spc__sim_worker_create(void)
{
    return calloc(1, sizeof(spc__sim_worker));
}

void spc__sim_worker_free(spc__sim_worker *worker)
{
    if (!worker)
        return;
    free_blocks(worker);
    free(worker->products);
    free_stacks(worker);
    if (worker->arena)
        munmap(worker->arena, worker->arena_bytes);
    free(worker->phases);
    free(worker->main_fiber.context);
    free(worker);
}

/* ---- a block's life -------------------------------------------------- */

/* The first function of each fiber: runs the kernel for one thread. */
static void fiber_main(spc_sim_thread *self)
{
    spc__sim_fiber_enter(self);
    /* Orders this fiber after the worker's setup of the block (start_block). */
    spc__sim_acquire(spc__sim_block_of(self)->tokens);
    spc__sim_launch *launch = spc__sim_launch_of(self);
    launch->kernel->entry(launch->args);
    spc__sim_schedule_end(self);
}

/* Shared memory starts undefined and ends with a canary. */
static void start_shared(spc__sim_worker *worker, spc__sim_block *block)
{
    int bytes = worker->launch->shared_bytes;
#if SPC__SIM_ASAN
    /* Poison from an earlier launch with less shared memory may be in the
     * way. */
    ASAN_UNPOISON_MEMORY_REGION(block->shared, worker->arena_stride);
#endif
    memset(block->shared, SPC_SIM_POISON, (size_t)bytes + SPC__SIM_CANARY);
#if SPC__SIM_ASAN
    ASAN_POISON_MEMORY_REGION(block->shared + bytes,
                              worker->arena_stride - (size_t)bytes);
#endif
}

/* Reports writes right after a block's shared memory. With the address
 * sanitizer, that one does so. */
static void check_canary(spc__sim_worker *worker, spc__sim_block *block)
{
#if !SPC__SIM_ASAN
    spc__sim_launch *launch = worker->launch;
    const unsigned char *end = block->shared + launch->shared_bytes;
    for (int i = 0; i < SPC__SIM_CANARY; i++) {
        if (end[i] == SPC_SIM_POISON)
            continue;
        char text[256];
        snprintf(text, sizeof(text),
                 "kernel '%s', block (%d, %d): byte %d after its %d bytes of "
                 "shared memory was written",
                 launch->kernel->name, block->x, block->y, i,
                 launch->shared_bytes);
        record(launch, SPC_EDEVICE, text);
        return;
    }
#endif
}

/* Returns the set of race fibers for the next block. Big blocks use fewer sets,
 * because each set needs memory. A cooperative launch needs only one. Clusters,
 * which are bigger still, also use one. */
static int race_set(const spc__sim_worker *worker)
{
    int sets = SPC__SIM_MAX_BLOCK / worker->launch->threads;
    sets = sets < 2 ? 2 : sets > SPC__SIM_SETS ? SPC__SIM_SETS : sets;
    return worker->launch->cooperative || worker->launch->cluster > 1
               ? 0
               : (int)(worker->blocks_run % (unsigned)sets);
}

/* Sets up a thread's record and its fiber. */
static bool start_thread(spc__sim_block *block, int slot, int index)
{
    spc__sim_worker *worker = block->worker;
    const spc__sim_launch *launch = worker->launch;
    spc__sim_warp *warp = &block->warps[index / 32];
    /* The record is at the end of the thread's own stack, so kernels find it
     * from the stack pointer. */
    spc_sim_thread *thread = spc_sim_thread_of((uintptr_t)worker->stacks +
                                               (size_t)slot * SPC_SIM_SLOT);
    spc__sim_fiber *fiber = &worker->fibers[slot];

    *thread = (spc_sim_thread){
        .api = &api,
        .warp = &warp->exchange,
        .shared = block->shared,
        .shared_bytes = launch->shared_bytes,
        .lane = index % 32,
        .thread = index,
        .threads = launch->threads,
        .block_x = block->x,
        .block_y = block->y,
        .grid_x = launch->grid_x,
        .grid_y = launch->grid_y,
        .deferred = launch->options->deferred,
        .cooperative = launch->cooperative,
        .cluster = launch->cluster,
        .stride = (int)worker->arena_stride,
        .fiber = fiber,
    };
    fiber->copies = worker->copies + (size_t)slot * SPC__SIM_COPIES;
    fiber->copy_first = fiber->copy_count = 0;
    fiber->group = 0;
    warp->lanes[index % 32] = thread;
    warp->members |= 1u << index % 32;
    return spc__sim_fiber_start(thread, race_set(worker), fiber_main);
}

/* Empties the record of a warp. */
static void reset_warp(spc__sim_block *block, int index)
{
    spc__sim_warp *warp = &block->warps[index];
    warp->block = block;
    warp->index = index;
    warp->members = warp->yielded = warp->arrived = 0;
    warp->held = warp->done = 0;
    warp->place = NULL;
    warp->products = block->worker->products +
                     ((size_t)(block - block->worker->blocks) * SPC__SIM_WARPS +
                      (size_t)index) *
                         SPC__SIM_PRODUCTS;
    warp->product_count = warp->product_group = 0;
}

/* Gives the block's barriers new tokens, as the race checker would otherwise
 * connect two blocks that used the same. */
static bool give_tokens(spc__sim_block *block)
{
    if (!spc__sim_tokens_renew(&block->tokens,
                               3 + 2 * SPC__SIM_BARRIERS + 3 * SPC__SIM_WARPS))
        return false;
    char *next = block->tokens + 1; /* the first token is for the start of
                                     * the block */
    for (int i = 0; i < SPC__SIM_BARRIERS; i++, next += 2)
        block->barriers[i].sync = next;
    for (int i = 0; i < SPC__SIM_WARPS; i++, next += 3)
        block->warps[i].sync = next;
    block->cluster_sync = next;
    return true;
}

/* Starts block `number` of the grid as the worker's block `at`. */
static bool start_block(spc__sim_worker *worker, int at, int number)
{
    spc__sim_launch *launch = worker->launch;
    spc__sim_block *block = &worker->blocks[at];

    block->worker = worker;
    block->x = number % launch->grid_x;
    block->y = number / launch->grid_x;
    block->threads = block->live = launch->threads;
    block->warp_count = (launch->threads + 31) / 32;
    block->shared = worker->arena + (size_t)at * worker->arena_stride;
    block->bulk_count = 0;
    block->ready = 0;
    memset(block->barriers, 0, sizeof(block->barriers));
    if (!give_tokens(block))
        return false;
    start_shared(worker, block);
    /* Warps are reset before any thread starts, since starting one writes to
     * its warp. */
    for (int w = 0; w < block->warp_count; w++)
        reset_warp(block, w);
    for (int i = 0; i < launch->threads; i++)
        if (!start_thread(block, at * launch->threads + i, i))
            return false;
    /* Marks lanes ready only when all have started, because a ready fiber may
     * run at once. */
    for (int w = 0; w < block->warp_count; w++) {
        block->warps[w].ready = block->warps[w].members;
        block->ready |= 1u << w;
    }
    spc__sim_release(block->tokens);
    return true;
}

/* Renews stacks and shared memory, so that the race checker does not connect
 * one block's accesses with another's. */
static bool renew(spc__sim_worker *worker)
{
#if SPC__SIM_TSAN
    if (!spc__sim_stacks_renew(worker->stacks, worker->slots))
        return false;
    return mmap(worker->arena, worker->arena_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) == worker->arena;
#else
    return true;
#endif
}

/* Starts blocks that run together: one, a cluster, or a cooperative grid. */
static bool start_blocks(spc__sim_worker *worker, int first, int count)
{
    spc__sim_launch *launch = worker->launch;
    if (!have_stacks(worker, count * launch->threads) ||
        !have_arena(worker, count, launch->shared_bytes) ||
        !have_blocks(worker, count) || !have_queues(worker) ||
        !have_phases(worker, count) || !renew(worker))
        return false;
    worker->block_count = worker->live_blocks = count;
    worker->idle_rounds = 0;
    worker->cluster_arrived = worker->cluster_phase = 0;
    worker->blocks_run++;
    /* The seed depends on the block and not on the worker, so a schedule is the
     * same with any number of threads. */
    worker->random = launch->seed + 0x632be59bd9b4e019u * (uint64_t)(first + 1);
    for (int i = 0; i < count; i++)
        if (!start_block(worker, i, first + i))
            return false;
    return true;
}

/* After a fault: ends the block's threads before the launch ends. */
static void forget(spc__sim_worker *worker, spc__sim_block *block)
{
    for (int i = 0; i < block->threads; i++)
        spc__sim_fiber_forget(block->warps[i / 32].lanes[i % 32], &worker->main,
                              &worker->launch->end);
}

/* Runs such blocks to their end and checks their final state. */
static void run_blocks(spc__sim_worker *worker, int first, int count)
{
    spc__sim_launch *launch = worker->launch;
    if (!start_blocks(worker, first, count)) {
        record(launch, SPC_ENOMEM, "cannot map the stacks of a block");
        return;
    }
    spc__sim_fiber_switch(&worker->main, spc__sim_schedule_first(worker));
    if (worker->polling)
        atomic_fetch_sub(&launch->polling, 1);
    worker->polling = false;
    for (int i = 0; i < count; i++)
        if (atomic_load(&launch->failed))
            forget(worker, &worker->blocks[i]);
        else
            check_canary(worker, &worker->blocks[i]);
}

/* ---- a launch -------------------------------------------------------- */

typedef struct crew {
    spc__sim_launch *launch;
    spc__sim_worker *(*take)(void *pool);
    void (*give)(void *pool, spc__sim_worker *worker);
    void *pool;
} crew;

/* Runs blocks until all are done or one failed. */
static void run_all(spc__sim_worker *worker)
{
    spc__sim_launch *launch = worker->launch;
    int total = launch->grid_x * launch->grid_y / launch->cluster;
    if (launch->cooperative) {
        run_blocks(worker, 0, total);
        return;
    }
    while (!atomic_load(&launch->failed)) {
        int number = atomic_fetch_add(&launch->next_block, 1);
        if (number >= total)
            return;
        if (launch->options->order == SPC__SIM_REVERSE)
            number = total - 1 - number;
        run_blocks(worker, number * launch->cluster, launch->cluster);
    }
}

/* The work of one thread of the pool in a launch. */
static void work(void *payload, int64_t i)
{
    crew *c = payload;
    spc__sim_worker *worker = c->take(c->pool);
    if (!worker) {
        record(c->launch, SPC_ENOMEM, "out of memory for a worker");
        /* Other workers count the workers that may still make progress. */
        atomic_fetch_sub(&c->launch->workers, 1);
        return;
    }
    worker->launch = c->launch;
    worker->main.fiber = &worker->main_fiber;
    if (spc__sim_fiber_adopt(&worker->main))
        run_all(worker);
    else
        record(c->launch, SPC_ENOMEM, "out of memory for a context");
    atomic_fetch_sub(&c->launch->workers, 1);
    worker->launch = NULL;
    c->give(c->pool, worker);
}

/* Refuses a launch that a GPU would refuse, or that has too many threads. */
static spc_status check(const spc__sim_launch *launch, spc_error *error)
{
    const spc__sim_kernel *kernel = launch->kernel;
    long long blocks = (long long)launch->grid_x * launch->grid_y;
    if (launch->grid_x < 1 || launch->grid_y < 1 || blocks > 0x7fffffff)
        return spc__fail(error, SPC_EINVAL,
                         "kernel '%s': a grid of %d x %d blocks; both must be "
                         "at least 1",
                         kernel->name, launch->grid_x, launch->grid_y);
    if (launch->threads < 1 || launch->threads > kernel->max_threads)
        return spc__fail(error, SPC_EINVAL,
                         "kernel '%s': blocks of %d threads; it is compiled "
                         "for 1 to %d",
                         kernel->name, launch->threads, kernel->max_threads);
    if (launch->cluster < 1 || launch->cluster > MOST_CLUSTER ||
        launch->grid_x % launch->cluster != 0 ||
        (launch->cluster > 1 && launch->cooperative))
        return spc__fail(error, SPC_EINVAL,
                         "kernel '%s': clusters of %d blocks in rows of %d: "
                         "expected 1 to %d, and whole clusters",
                         kernel->name, launch->cluster, launch->grid_x,
                         MOST_CLUSTER);
    if (launch->cooperative && blocks * launch->threads > MOST_FIBERS)
        return spc__fail(error, SPC_EDEVICE,
                         "kernel '%s': a cooperative launch of %lld threads; "
                         "the sim device holds %d",
                         kernel->name, blocks * launch->threads, MOST_FIBERS);
    return SPC_OK;
}

/* A worker for each thread of the pool that has blocks to run. A cooperative
 * grid is run by one, since all its blocks wait for each other. */
static int count_workers(const spc__sim_launch *launch)
{
    int workers = spc__pool_helpers(launch->pool) + 1;
    int clusters = launch->grid_x * launch->grid_y / launch->cluster;

    if (launch->cooperative)
        return 1;
    return workers < clusters ? workers : clusters;
}

spc_status spc__sim_launch_run(spc__sim_launch *launch,
                               spc__sim_worker *(*take)(void *pool),
                               void (*give)(void *pool,
                                            spc__sim_worker *worker),
                               void *pool, spc_error *error)
{
    crew c = {launch, take, give, pool};
    spc_status status = check(launch, error);
    if (status != SPC_OK)
        return status;

    int workers = count_workers(launch);
    atomic_init(&launch->next_block, 0);
    atomic_init(&launch->workers, workers);
    atomic_init(&launch->polling, 0);
    atomic_init(&launch->progress, 0);
    atomic_init(&launch->failed, false);
    if (pthread_mutex_init(&launch->lock, NULL) != 0)
        return spc__fail(error, SPC_ENOMEM, "cannot make a lock");
    /* All workers must run at the same time, as a block may wait for one of
     * another worker. Otherwise, this thread runs all blocks. */
    if (workers == 1 ||
        !spc__pool_run_together(launch->pool, workers, work, &c)) {
        atomic_store(&launch->workers, 1);
        work(&c, 0);
    }
    /* Orders everything after the launch behind all of its threads. */
    spc__sim_acquire(&launch->end);
    if (atomic_load(&launch->failed))
        status =
            spc__fail(error, launch->error.status, "%s", launch->error.text);
    pthread_mutex_destroy(&launch->lock);
    return status;
}
