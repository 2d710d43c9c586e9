/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h - internals of the sim device: fibers, warps, blocks, launches.
 *
 * A worker is an operating-system thread with memory for fibers and for the
 * shared memory of its blocks. It runs one block at a time, the blocks of one
 * cluster, or all blocks of a cooperative launch. Fibers switch directly to one
 * another. When the worker's blocks have ended, or the launch has failed, the
 * last fiber switches to the worker's own context. Suspended fibers of a failed
 * launch are abandoned.
 *
 *   device_sim.c    the device: options, modules, memory
 *   sim_launch.c    workers, blocks, faults
 *   sim_schedule.c  the choice of the next fiber; barriers and collectives
 *   sim_memory.c    asynchronous copies and barriers in shared memory
 *   sim_phases.c    what warps know about the phases of these barriers
 *   sim_matrix.c    what the last lane of a collective computes
 *   sim_fiber.c     stacks and the switch between two of them
 */
#ifndef SPC_RUNTIME_SIM_H
#define SPC_RUNTIME_SIM_H

#include "base/pool.h"
#include "device/architecture.h"
#include "spc/status.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPC_SIM_RUNTIME
#include "templates/shared/spc_device.cuh"

#if defined(__SANITIZE_ADDRESS__)
#define SPC__SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPC__SIM_ASAN 1
#endif
#endif
#ifndef SPC__SIM_ASAN
#define SPC__SIM_ASAN 0
#endif
/* The build defines it for ThreadSanitizer. These files themselves are not
 * instrumented, since every switch would look like a race. */
#ifndef SPC__SIM_TSAN
#define SPC__SIM_TSAN 0
#endif

enum {
    SPC__SIM_MAX_BLOCK = 1024,
    SPC__SIM_WARPS = SPC__SIM_MAX_BLOCK / 32,
    SPC__SIM_BARRIERS = 16,
    SPC__SIM_CANARY = 256, /* bytes after a block's shared memory */
    /* Limits of deferred operations in flight. */
    SPC__SIM_COPIES = 1024,  /* pending cp.async of a thread */
    SPC__SIM_PRODUCTS = 128, /* pending wgmma of a warp */
    SPC__SIM_BULKS = 256,    /* pending bulk copies of a block */
    SPC__SIM_CLUSTER = 8,    /* blocks of a cluster */
    SPC__SIM_MBARS = 512,    /* tracked barriers in shared memory */
    SPC__SIM_SETS = 4        /* sets of fibers for the race checker */
};

typedef enum spc__sim_order {
    SPC__SIM_FORWARD,
    SPC__SIM_REVERSE,
    SPC__SIM_RANDOM
} spc__sim_order;

typedef struct spc__sim_options {
    spc__sim_order order;
    uint64_t seed;
    bool deferred;
    const spc__architecture *target;
    int threads;
} spc__sim_options;

/* A cp.async of one thread, kept until that thread waits. */
typedef struct spc__sim_copy {
    void *to;
    const void *from;
    int bytes, valid, group;
} spc__sim_copy;

/* The runtime's data of a thread. */
typedef struct spc__sim_fiber {
    spc__sim_copy *copies;      /* in order of issue; memory of the worker */
    int copy_first, copy_count; /* first element and length of a ring */
    int group;                  /* commit groups so far */
    char *stack_low;
    size_t stack_bytes;
    void *fake_stack; /* for AddressSanitizer */
    void *race_fiber; /* for ThreadSanitizer: an element of the array below */
    void *race_fibers[SPC__SIM_SETS];
    void *context; /* a ucontext_t, if swapcontext is used */
} spc__sim_fiber;

/* A warp's part of a wgmma, kept until the warp waits. */
typedef struct spc__sim_product {
    uint32_t a[4][32];
    float *d[32];
    uint64_t b;
    int n, accumulate, group;
    int op;
} spc__sim_product;

typedef struct spc__sim_bulk {
    void *to;
    const void *from;
    int bytes;
    spc_u64 *bar;
} spc__sim_bulk;

typedef struct spc__sim_warp {
    spc_sim_warp exchange; /* first, because kernels access it */
    struct spc__sim_block *block;
    spc_sim_thread *lanes[32];
    int index;
    uint32_t members; /* lanes that exist */
    uint32_t ready;   /* lanes that may run */
    uint32_t yielded; /* lanes that become ready when no other lane is */
    uint32_t arrived; /* lanes that have arrived at the current collective */
    uint32_t held;    /* lanes that wait at a block or named barrier */
    uint32_t done;
    /* The source position and the lane at which the current wait began. */
    const spc_sim_place *place;
    int op, first;
    spc__sim_product *products; /* in order of issue; memory of the worker */
    int product_count;
    int product_group;
    /* Tokens of the race checker: two used alternately, one for reads by
     * wgmma. */
    char *sync;
} spc__sim_warp;

typedef struct spc__sim_barrier {
    int expected, arrived;
    int phase;
    uint32_t waiting[SPC__SIM_WARPS];
    char *sync; /* tokens of the race checker, for two phases */
} spc__sim_barrier;

typedef struct spc__sim_block {
    struct spc__sim_worker *worker;
    int x, y;
    int threads, warp_count, live;
    uint32_t ready; /* warps with a ready lane */
    unsigned char *shared;
    char *tokens; /* new for every block: a release in one block must not
                   * match an acquire in another */
    /* tokens for two phases; all blocks use those of the first block */
    char *cluster_sync;
    spc__sim_bulk bulks[SPC__SIM_BULKS]; /* ordered by issue */
    int bulk_count;
    spc__sim_barrier barriers[SPC__SIM_BARRIERS];
    spc__sim_warp warps[SPC__SIM_WARPS];
} spc__sim_block;

typedef struct spc__sim_kernel {
    char name[64];
    void (*entry)(const void *args);
    int args_bytes, max_threads;
} spc__sim_kernel;

typedef struct spc__sim_launch {
    const spc__sim_kernel *kernel;
    const spc__sim_options *options;
    spc__pool *pool; /* its threads are the workers; NULL: the caller is the
                      * only worker */
    uint64_t seed;   /* seed of this launch; each launch has its own order */
    const void *args;
    int grid_x, grid_y, threads;
    int shared_bytes;
    bool cooperative;
    int cluster;           /* blocks of one cluster; 1: no clusters */
    atomic_int next_block; /* next block or cluster to run */
    atomic_int workers;    /* workers with blocks to run */
    atomic_int polling;    /* workers that have polled for a long time */
    atomic_llong progress; /* grows with any progress */
    atomic_bool failed;
    pthread_mutex_t lock; /* guards the error */
    spc_error error;
    char end, fence; /* the race checker's tokens */
} spc__sim_launch;

typedef struct spc__sim_phases spc__sim_phases; /* sim_phases.c */

typedef struct spc__sim_worker {
    struct spc__sim_worker *next; /* next worker in the device's pool */
    spc__sim_launch *launch;
    char *stacks; /* slots of SPC_SIM_SLOT */
    int slots;
    spc__sim_fiber *fibers; /* one for each slot */
    /* Only for deferred operations. The worker allocates them before fibers
     * run, because the race checker records the allocating thread. */
    spc__sim_copy *copies;
    spc__sim_product *products;
    spc__sim_phases *phases; /* NULL in a launch that holds all blocks at
                              * once */
    unsigned char *arena;    /* shared memory of the blocks */
    size_t arena_bytes, arena_stride;
    spc__sim_block *blocks;
    int block_capacity, block_count, live_blocks;
    uint64_t random;
    int idle_rounds;
    bool polling; /* counted in launch->polling */
    long long seen_progress;
    uint64_t idle_since_ns;
    spc_sim_thread main; /* the worker's own context */
    spc__sim_fiber main_fiber;
    unsigned blocks_run; /* successive blocks use other race fibers */
    int cluster_arrived, cluster_phase; /* state of the barrier of its
                                           cluster */
} spc__sim_worker;

static inline spc__sim_warp *spc__sim_warp_of(const spc_sim_thread *thread)
{
    return (spc__sim_warp *)thread->warp;
}

static inline spc__sim_block *spc__sim_block_of(const spc_sim_thread *thread)
{
    return spc__sim_warp_of(thread)->block;
}

static inline spc__sim_launch *spc__sim_launch_of(const spc_sim_thread *thread)
{
    return spc__sim_block_of(thread)->worker->launch;
}

/* ---- sim_fiber.c ----------------------------------------------------- */

/* Maps memory for `slots` stacks with a guard page each, aligned so that the
 * colour of every slot is defined. Returns NULL on failure. */
char *spc__sim_stacks_map(int slots);
void spc__sim_stacks_unmap(char *stacks, int slots);
/* Replaces the memory, so that the race checker has no history of it. */
bool spc__sim_stacks_renew(char *stacks, int slots);

/* Prepares `thread`, whose record is in its slot, to run entry(thread) at the
 * first switch to it. */
bool spc__sim_fiber_start(spc_sim_thread *thread, int race_set,
                          void (*entry)(spc_sim_thread *thread));
/* Records the stack that the caller runs on. */
bool spc__sim_fiber_adopt(spc_sim_thread *thread);
void spc__sim_fiber_release(spc__sim_fiber *fiber);
/* The first call on a new fiber. */
void spc__sim_fiber_enter(spc_sim_thread *thread);
void spc__sim_fiber_switch(spc_sim_thread *from, spc_sim_thread *to);
/* Switches away from a fiber that has ended. */
void spc__sim_fiber_leave(spc_sim_thread *from, spc_sim_thread *to);

/* Reports to the race checker. They do nothing in other builds. */
bool spc__sim_tokens_renew(char **tokens, size_t count);
/* Abandons a suspended fiber that will not run again. */
void spc__sim_fiber_forget(spc_sim_thread *thread, spc_sim_thread *main,
                           void *token);
void spc__sim_release(void *token);
void spc__sim_acquire(void *token);
void spc__sim_reads(const void *p, size_t bytes, const void *caller);
void spc__sim_writes(void *p, size_t bytes, const void *caller);

/* ---- sim_schedule.c -------------------------------------------------- */

void spc__sim_gather(spc_sim_thread *self, int op, const spc_sim_place *place);
void spc__sim_barrier_wait(spc_sim_thread *self, int id, int threads,
                           const spc_sim_place *place);
void spc__sim_yield(spc_sim_thread *self, const spc_sim_place *place);
void spc__sim_cluster_sync(spc_sim_thread *self, const spc_sim_place *place);
/* Returns the fiber that a worker runs first. */
spc_sim_thread *spc__sim_schedule_first(spc__sim_worker *worker);
/* Ends `self`; does not return. */
void spc__sim_schedule_end(spc_sim_thread *self);
/* Records an event that other threads may wait for. */
void spc__sim_progress(spc__sim_launch *launch);

/* ---- sim_launch.c ---------------------------------------------------- */

/* Fails the launch with "kernel 'K', block (x, y), thread t: ..." and switches
 * to the worker's own context. */
_Noreturn void spc__sim_fault(spc_sim_thread *self, const char *format, ...)
    SPC_PRINTF(2, 3);

spc_status spc__sim_launch_run(spc__sim_launch *launch,
                               spc__sim_worker *(*take)(void *pool),
                               void (*give)(void *pool,
                                            spc__sim_worker *worker),
                               void *pool, spc_error *error);
spc__sim_worker *spc__sim_worker_create(void); /* NULL: no memory */
void spc__sim_worker_free(spc__sim_worker *worker);

/* ---- sim_memory.c ---------------------------------------------------- */

void spc__sim_fence(spc_sim_thread *self);
void spc__sim_copy_issue(spc_sim_thread *self, void *to, const void *from,
                         int bytes, int valid);
void spc__sim_copy_commit(spc_sim_thread *self);
void spc__sim_copy_wait(spc_sim_thread *self, int groups);
void spc__sim_mbar_init(spc_sim_thread *self, spc_u64 *bar, int count);
void spc__sim_mbar_arrive(spc_sim_thread *self, spc_u64 *bar, int bytes,
                          const spc_sim_place *place);
void spc__sim_mbar_wait(spc_sim_thread *self, spc_u64 *bar, int parity,
                        const spc_sim_place *place);
void spc__sim_bulk_copy(spc_sim_thread *self, void *to, const void *from,
                        int bytes, spc_u64 *bar, const spc_sim_place *place);

/* ---- sim_phases.c ---------------------------------------------------- */

spc__sim_phases *spc__sim_phases_create(void); /* NULL: no memory */
/* Called before a worker runs this many blocks. */
void spc__sim_phases_reset(spc__sim_phases *all, int blocks);
/* Numbers a barrier. Returns SPC__SIM_MBARS if it is not tracked. */
int spc__sim_phases_begin(const spc_sim_thread *self);
void spc__sim_phases_arrive(const spc_sim_thread *self, int bar);
/* Ends a phase. Faults if a thread may still wait for the previous phase. */
void spc__sim_phases_end(spc_sim_thread *self, int bar);
/* Returns the phase that a wait for this parity finds, or -1 for the one before
 * the first. Faults if it might be another phase under some schedule. */
int64_t spc__sim_phases_await(spc_sim_thread *self, int bar, int parity,
                              const spc_sim_place *place);
void spc__sim_phases_see(const spc_sim_thread *self, int bar, int64_t phase);
/* Records arriving at and leaving barrier `id` of the block, or the barrier of
 * the cluster. */
void spc__sim_phases_meet(const spc_sim_thread *self, int id, bool leaves);
void spc__sim_phases_meet_cluster(const spc_sim_thread *self, bool leaves);

/* ---- sim_matrix.c ---------------------------------------------------- */

/* Executes a collective. Called by `self`, the last lane of its warp to arrive,
 * for all lanes. `caller` is the address in the kernel, for the race
 * checker. */
void spc__sim_complete(spc_sim_thread *self, int op, const spc_sim_place *place,
                       const void *caller);

#endif
