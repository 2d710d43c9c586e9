/*
 * spc_sim.h - the host half of spc_device.cuh: CUDA kernels as C11, one fiber
 * for each CUDA thread.
 *
 * Primitives that affect only this thread are defined here, inline, so that the
 * sanitizers report the template's line. Primitives that wait or need other
 * threads go through a table of functions of the runtime
 * (runtime/device/sim_*.c), which switches fibers. Nothing is included, which
 * keeps a compilation near 100 ms.
 *
 * A thread finds its record through its stack. Stacks are slots of SPC_SIM_SLOT
 * bytes at multiples of their size, and the record is near the slot's top. The
 * compiled kernel therefore has neither globals nor thread-local storage.
 *
 *   slot                                                           slot + SLOT
 *   | guard page | ... stack grows this way <--- | record | colour |
 *
 * The colour, 0 to 255 times 128 bytes by slot number, spreads the tops of the
 * stacks over the sets of the caches.
 */
#ifndef SPC_SIM_H
#define SPC_SIM_H

#if defined(__SANITIZE_THREAD__)
#define SPC_SIM_RACES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPC_SIM_RACES 1
#endif
#endif

#define SPC_DEVICE static inline __attribute__((unused))
#define SPC_ALIGN(n) __attribute__((aligned(n)))
#define SPC_UNROLL
#define SPC_ROLLED
#define SPC_SIM_EXPORT __attribute__((visibility("default")))

/* For functions that pass values between the lanes of a warp. A shuffle moves
 * registers and does not order memory, so the race checker must not see it. */
#ifdef SPC_SIM_RACES
#define SPC_SIM_QUIET static __attribute__((unused, no_sanitize_thread))
#else
#define SPC_SIM_QUIET SPC_DEVICE
#endif

/* 8 and 16 bytes that move as one access. */
typedef struct SPC_ALIGN(8) spc_b8 {
    spc_u32 x, y;
} spc_b8;
typedef struct SPC_ALIGN(16) spc_b16 {
    spc_u32 x, y, z, w;
} spc_b16;

/* ---- between compiled kernels and the runtime ------------------------ */

/* Changes with any layout below. The runtime refuses other versions. */
#define SPC_SIM_VERSION 2

#define SPC_SIM_SLOT ((spc_u64)1 << 17)
#define SPC_SIM_RECORD 256

/*
 * The first shared-memory address. The system uses the first KB, as on sm_90.
 */
#define SPC_SIM_SHARED_BASE 1024

/* The content of undefined memory: NaN as binary16, 3.4e38 as fp32, out of
 * range as an index. */
#define SPC_SIM_POISON 0x7f

/* A call of a primitive in a template. */
typedef struct spc_sim_place {
    const char *primitive, *file;
    int line;
} spc_sim_place;

/* The operation that the last lane to arrive performs for its warp. */
enum spc_sim_op {
    SPC_SIM_EXCHANGE, /* nothing: lanes read each other's operands */
    SPC_SIM_SYNC,     /* orders memory */
    SPC_SIM_ORDERED,  /* as EXCHANGE; earlier reads are complete */
    SPC_SIM_BALLOT,
    SPC_SIM_OR,
    SPC_SIM_MIN,
    SPC_SIM_MATCH,
    SPC_SIM_MMA_F16,
    SPC_SIM_MMA_BF16,
    SPC_SIM_MMA_TF32,
    SPC_SIM_WGMMA_F16,
    SPC_SIM_WGMMA_BF16,
    SPC_SIM_WGMMA_TF32,
    SPC_SIM_WGMMA_COMMIT,
    SPC_SIM_WGMMA_WAIT,
    SPC_SIM_MMA_I8,
    SPC_SIM_WGMMA_I8,
    SPC_SIM_WGMMA_ROWS_F16,
    SPC_SIM_WGMMA_ROWS_BF16
};

/*
 * The operands of one collective, for all lanes. Matrices are stored so that
 * the registers of the lanes form row-major 8x8 blocks: with g = lane / 4 and t
 * = lane % 4, register a[i] of an f16 fragment is columns 2t and 2t + 1 of row
 * g of block i.
 */
typedef struct spc_sim_exchange {
    union {
        spc_u32 word[32];
        spc_b16 row[32];
        struct {
            spc_u32 a[4][32];
            union {
                spc_u16 f16[16][8]; /* [k][n]; bf16 as well */
                spc_u32 tf32[8][8];
            } b;
            float d[16][8]; /* [m][n] */
        } mma;
        struct {
            spc_u32 a[4][32];
            spc_u32 b[8][8];
            int d[16][8];
        } mma_i8; /* b[k / 4][n] */
        struct {
            spc_u32 a[4][32];
            float *d[32]; /* int for int8 */
            spc_u64 b[32];
            int accumulate[32];
            int n[32];
        } wgmma;
    } in;
    spc_u32 out[32];
} spc_sim_exchange;

/* Two alternating exchanges. A lane that writes the next one has left the one
 * before the last. */
typedef struct spc_sim_warp {
    spc_sim_exchange exchange[2];
} spc_sim_warp;

struct spc_sim_api;

/* The record of a thread. */
typedef struct spc_sim_thread {
    void *sp; /* while it is not running */
    const struct spc_sim_api *api;
    spc_sim_warp *warp;
    const spc_sim_place *place; /* the call where it waits, or NULL */
    spc_u8 *shared;
    int shared_bytes;
    int lane;
    int turn; /* the number of the next exchange */
    int thread, threads;
    int block_x, block_y, grid_x, grid_y;
    int deferred;    /* asynchronous copies arrive as late as possible */
    int cooperative; /* spc_sync_grid may be used */
    int cluster;     /* blocks of a cluster; their shared memory is */
    int stride;      /* this many bytes apart */
    const void *polled;
    spc_u32 polled_value;
    void *fiber; /* the runtime's part */
} spc_sim_thread;

typedef struct spc_sim_api {
    /* Waits for all lanes of the warp; the last one carries out `op`. */
    void (*gather)(spc_sim_thread *self, int op, const spc_sim_place *place);
    void (*barrier)(spc_sim_thread *self, int id, int threads,
                    const spc_sim_place *place);
    /* Lets all other threads run before this thread checks again. */
    void (*yield)(spc_sim_thread *self, const spc_sim_place *place);
    void (*fence)(spc_sim_thread *self);
    /* Waits for all threads of the cluster that have not ended. */
    void (*cluster_sync)(spc_sim_thread *self, const spc_sim_place *place);
    void (*copy)(spc_sim_thread *self, void *to, const void *from, int bytes,
                 int valid);
    void (*copy_commit)(spc_sim_thread *self);
    void (*copy_wait)(spc_sim_thread *self, int groups);
    void (*mbar_init)(spc_sim_thread *self, spc_u64 *bar, int count);
    void (*mbar_arrive)(spc_sim_thread *self, spc_u64 *bar, int bytes,
                        const spc_sim_place *place);
    void (*mbar_wait)(spc_sim_thread *self, spc_u64 *bar, int parity,
                      const spc_sim_place *place);
    void (*bulk_copy)(spc_sim_thread *self, void *to, const void *from,
                      int bytes, spc_u64 *bar, const spc_sim_place *place);
    /* Ends the launch; does not return. `address` may be NULL. */
    void (*fault)(spc_sim_thread *self, const spc_sim_place *place,
                  const char *what, const void *address);
} spc_sim_api;

/* The record in the slot that contains `address`. */
SPC_DEVICE spc_sim_thread *spc_sim_thread_of(spc_u64 address)
{
    spc_u64 slot = address & ~(SPC_SIM_SLOT - 1);
    return (spc_sim_thread *)(slot + SPC_SIM_SLOT - SPC_SIM_RECORD -
                              (slot / SPC_SIM_SLOT & 255) * 128);
}

#ifndef SPC_SIM_RUNTIME /* ---- the rest is for kernels                        \
                           ----------------------- */

#define SPC_SIM_HERE(name)                                                     \
    __extension__({                                                            \
        static const spc_sim_place spc_sim_here = {name, __FILE__, __LINE__};  \
        &spc_sim_here;                                                         \
    })

SPC_SIM_EXPORT extern const int spc_sim_version;
const int spc_sim_version = SPC_SIM_VERSION;

/*
 * NAME_sim gives the runtime the size of the arguments and the largest block.
 */
#define SPC_KERNEL(name, args_type, threads, min_blocks)                       \
    static void name##_body(const args_type *args);                            \
    SPC_SIM_EXPORT extern const int name##_sim[2];                             \
    const int name##_sim[2] = {(int)sizeof(args_type), (threads)};             \
    SPC_SIM_EXPORT void name(const args_type *args);                           \
    void name(const args_type *args)                                           \
    {                                                                          \
        name##_body(args);                                                     \
    }                                                                          \
    static void name##_body(const args_type *args)

#define spc_sim_self() spc_sim_thread_of((spc_u64)__builtin_frame_address(0))

SPC_DEVICE void spc_sim_check_aligned(const void *p, int bytes,
                                      const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    if (__builtin_expect(((spc_u64)p & (spc_u64)(bytes - 1)) != 0, 0))
        self->api->fault(self, place, "is misaligned", p);
}

SPC_DEVICE void spc_sim_check_shared(const void *p, int bytes, int align,
                                     const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_u64 offset = (spc_u64)p - (spc_u64)self->shared;
    if (__builtin_expect(offset > (spc_u64)self->shared_bytes ||
                             offset + (spc_u64)bytes >
                                 (spc_u64)self->shared_bytes,
                         0))
        self->api->fault(self, place, "is outside the block's shared memory",
                         p);
    spc_sim_check_aligned(p, align, place);
}

/* ---- thread and block indices ---------------------------------------- */

#define spc_thread() (spc_sim_self()->thread)
#define spc_threads() (spc_sim_self()->threads)
#define spc_lane() (spc_sim_self()->lane)
/* A collective, as on the GPU, where a shuffle makes the value uniform. On the
 * GPU a call by only some of the lanes hangs; here it is reported. */
#define spc_warp()                                                             \
    ((int)spc_sim_shuffle((spc_u32)(spc_sim_self()->thread >> 5), 0,           \
                          SPC_SIM_HERE("spc_warp")))
#define spc_block_x() (spc_sim_self()->block_x)
#define spc_block_y() (spc_sim_self()->block_y)
#define spc_grid_x() (spc_sim_self()->grid_x)
#define spc_shared() (spc_sim_self()->shared)

/* ---- barriers -------------------------------------------------------- */

SPC_DEVICE void spc_sim_barrier(int id, int threads, const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    self->api->barrier(self, id, threads, place);
}

#define spc_sync_block()                                                       \
    spc_sim_barrier(0, spc_sim_self()->threads, SPC_SIM_HERE("spc_sync_block"))
#define spc_sync_named(id, threads)                                            \
    spc_sim_barrier(id, threads, SPC_SIM_HERE("spc_sync_named"))

/* The exchange of this thread's next collective. */
SPC_SIM_QUIET spc_sim_exchange *spc_sim_turn(spc_sim_thread *self)
{
    self->turn ^= 1;
    return &self->warp->exchange[self->turn];
}

SPC_SIM_QUIET void spc_sim_sync_warp(const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_turn(self);
    self->api->gather(self, SPC_SIM_SYNC, place);
}
#define spc_sync_warp() spc_sim_sync_warp(SPC_SIM_HERE("spc_sync_warp"))

SPC_DEVICE void spc_fence_global(void)
{
    spc_sim_thread *self = spc_sim_self();
    self->api->fence(self);
}

/* Reading an unchanged word a second time lets the other threads run. */
SPC_DEVICE spc_u32 spc_sim_acquire(const spc_u32 *p, const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_u32 v = __atomic_load_n(p, __ATOMIC_ACQUIRE);
    if (self->polled == p && self->polled_value == v) {
        self->api->yield(self, place);
        v = __atomic_load_n(p, __ATOMIC_ACQUIRE);
    }
    self->polled = p;
    self->polled_value = v;
    return v;
}
#define spc_load_acquire(p) spc_sim_acquire(p, SPC_SIM_HERE("spc_load_acquire"))

SPC_DEVICE void spc_store_release(spc_u32 *p, spc_u32 v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

SPC_DEVICE void spc_fetch_args(const void *args, int bytes)
{
    (void)args;
    (void)bytes;
}

SPC_DEVICE void spc_sim_arrive_grid(spc_u32 *counter,
                                    const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    if (!self->cooperative)
        self->api->fault(self, place, "needs a cooperative launch", 0);
    spc_sim_barrier(0, self->threads, place);
    if (self->thread == 0)
        __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
}
#define spc_arrive_grid(counter)                                               \
    spc_sim_arrive_grid(counter, SPC_SIM_HERE("spc_arrive_grid"))

SPC_DEVICE void spc_sim_wait_grid(spc_u32 *counter, spc_u32 *round,
                                  const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    if (self->thread == 0) {
        spc_u32 want = (*round + 1) * (spc_u32)self->grid_x;
        while (spc_sim_acquire(counter, place) < want) {
        }
    }
    *round += 1;
    spc_sim_barrier(0, self->threads, place);
}
#define spc_wait_grid(counter, round)                                          \
    spc_sim_wait_grid(counter, round, SPC_SIM_HERE("spc_wait_grid"))

SPC_DEVICE void spc_sim_cluster_sync(const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    self->api->cluster_sync(self, place);
}
#define spc_cluster_sync()                                                     \
    spc_sim_cluster_sync(SPC_SIM_HERE("spc_cluster_sync"))
#define spc_cluster_start()                                                    \
    spc_sim_cluster_sync(SPC_SIM_HERE("spc_cluster_start"))

/* The distance from this block's shared memory to that of the cluster's block
 * `block`. */
SPC_DEVICE long long spc_sim_cluster_offset(int block,
                                            const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    int there = block - self->block_x % self->cluster;
    if (block < 0 || block >= self->cluster)
        self->api->fault(self, place,
                         "asks for a block that the cluster "
                         "does not have",
                         0);
    return (long long)there * self->stride;
}
SPC_DEVICE spc_b16 spc_sim_cluster_load16(const void *p, int block,
                                          const spc_sim_place *place)
{
    spc_sim_check_shared(p, 16, 16, place);
    return *(const spc_b16 *)((const spc_u8 *)p +
                              spc_sim_cluster_offset(block, place));
}
#define spc_cluster_load16(p, block)                                           \
    spc_sim_cluster_load16(p, block, SPC_SIM_HERE("spc_cluster_load16"))

/* ---- warp collectives ------------------------------------------------ */

SPC_SIM_QUIET spc_u32 spc_sim_shuffle(spc_u32 v, int source,
                                      const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_exchange *e = spc_sim_turn(self);
    e->in.word[self->lane] = v;
    self->api->gather(self, SPC_SIM_EXCHANGE, place);
    return e->in.word[source & 31];
}

SPC_SIM_QUIET spc_u32 spc_sim_vote(spc_u32 v, int op,
                                   const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_exchange *e = spc_sim_turn(self);
    e->in.word[self->lane] = v;
    self->api->gather(self, op, place);
    return e->out[self->lane];
}

SPC_DEVICE spc_u32 spc_f32_bits(float v)
{
    spc_u32 r;
    __builtin_memcpy(&r, &v, sizeof(r));
    return r;
}
SPC_DEVICE float spc_bits_f32(spc_u32 v)
{
    float r;
    __builtin_memcpy(&r, &v, sizeof(r));
    return r;
}

SPC_DEVICE int spc_sim_lane_up(int by)
{
    int lane = spc_lane();
    return lane < by ? lane : lane - by;
}

#define spc_shfl(v, lane)                                                      \
    ((int)spc_sim_shuffle((spc_u32)(v), lane, SPC_SIM_HERE("spc_shfl")))
#define spc_shfl_up(v, by)                                                     \
    ((int)spc_sim_shuffle((spc_u32)(v), spc_sim_lane_up(by),                   \
                          SPC_SIM_HERE("spc_shfl_up")))
#define spc_shfl_xor(v, bits)                                                  \
    ((int)spc_sim_shuffle((spc_u32)(v), spc_lane() ^ (bits),                   \
                          SPC_SIM_HERE("spc_shfl_xor")))
#define spc_shfl_xor_f32(v, bits)                                              \
    spc_bits_f32(spc_sim_shuffle(spc_f32_bits(v), spc_lane() ^ (bits),         \
                                 SPC_SIM_HERE("spc_shfl_xor_f32")))
#define spc_ballot(condition)                                                  \
    spc_sim_vote((condition) != 0, SPC_SIM_BALLOT, SPC_SIM_HERE("spc_ballot"))
#define spc_warp_or(v) spc_sim_vote(v, SPC_SIM_OR, SPC_SIM_HERE("spc_warp_or"))
#define spc_warp_min(v)                                                        \
    spc_sim_vote(v, SPC_SIM_MIN, SPC_SIM_HERE("spc_warp_min"))
#define spc_match(v) spc_sim_vote(v, SPC_SIM_MATCH, SPC_SIM_HERE("spc_match"))

/* ---- bits ------------------------------------------------------------ */

SPC_DEVICE int spc_popc(spc_u32 v)
{
    return __builtin_popcount(v);
}
SPC_DEVICE int spc_ffs(spc_u32 v)
{
    return __builtin_ffs((int)v);
}
SPC_DEVICE int spc_clz(spc_u32 v)
{
    return v ? __builtin_clz(v) : 32;
}
SPC_DEVICE spc_u32 spc_bit(spc_u32 n) { return n < 32 ? 1u << n : 0; }
SPC_DEVICE spc_u32 spc_brev(spc_u32 v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}

/* ---- atomics --------------------------------------------------------- */

SPC_DEVICE int spc_atomic_add(int *p, int v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
SPC_DEVICE spc_u32 spc_atomic_add_u32(spc_u32 *p, spc_u32 v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
SPC_DEVICE float spc_atomic_add_f32(float *p, float v)
{
    spc_u32 *word = (spc_u32 *)p;
    spc_u32 old = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &old,
                                        spc_f32_bits(spc_bits_f32(old) + v), 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return spc_bits_f32(old);
}
SPC_DEVICE spc_u32 spc_atomic_or(spc_u32 *p, spc_u32 v)
{
    return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);
}
SPC_DEVICE int spc_atomic_min(int *p, int v)
{
    int old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (v < old && !__atomic_compare_exchange_n(
                          p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
SPC_DEVICE int spc_atomic_max(int *p, int v)
{
    int old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (v > old && !__atomic_compare_exchange_n(
                          p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
SPC_DEVICE spc_u32 spc_atomic_cas(spc_u32 *p, spc_u32 expected, spc_u32 v)
{
    __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return expected;
}
SPC_DEVICE spc_u64 spc_atomic_cas_u64(spc_u64 *p, spc_u64 expected, spc_u64 v)
{
    __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return expected;
}
SPC_DEVICE spc_u32 spc_load_relaxed(const spc_u32 *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
SPC_DEVICE spc_u64 spc_load_relaxed_u64(const spc_u64 *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* ---- global memory --------------------------------------------------- */

SPC_DEVICE int spc_load_int(const int *p)
{
    return *p;
}

SPC_DEVICE float spc_load_f32(const float *p)
{
    return *p;
}

SPC_DEVICE spc_u8 spc_load1(const void *p)
{
    return *(const spc_u8 *)p;
}
SPC_DEVICE void spc_store1(void *p, spc_u8 v)
{
    *(spc_u8 *)p = v;
}

SPC_DEVICE spc_u16 spc_sim_load2(const void *p, const spc_sim_place *place)
{
    spc_sim_check_aligned(p, 2, place);
    return *(const spc_u16 *)p;
}
SPC_DEVICE spc_u32 spc_sim_load4(const void *p, const spc_sim_place *place)
{
    spc_sim_check_aligned(p, 4, place);
    return *(const spc_u32 *)p;
}
SPC_DEVICE spc_b8 spc_sim_load8(const void *p, const spc_sim_place *place)
{
    spc_sim_check_aligned(p, 8, place);
    return *(const spc_b8 *)p;
}
SPC_DEVICE spc_b16 spc_sim_load16(const void *p, const spc_sim_place *place)
{
    spc_sim_check_aligned(p, 16, place);
    return *(const spc_b16 *)p;
}
SPC_DEVICE void spc_sim_store2(void *p, spc_u16 v, const spc_sim_place *place)
{
    spc_sim_check_aligned(p, 2, place);
    *(spc_u16 *)p = v;
}
SPC_DEVICE void spc_sim_store4(void *p, spc_u32 v, const spc_sim_place *place)
{
    spc_sim_check_aligned(p, 4, place);
    *(spc_u32 *)p = v;
}
SPC_DEVICE void spc_sim_store8(void *p, spc_b8 v, const spc_sim_place *place)
{
    spc_sim_check_aligned(p, 8, place);
    *(spc_b8 *)p = v;
}
SPC_DEVICE void spc_sim_store16(void *p, spc_b16 v, const spc_sim_place *place)
{
    spc_sim_check_aligned(p, 16, place);
    *(spc_b16 *)p = v;
}
#define spc_load2(p) spc_sim_load2(p, SPC_SIM_HERE("spc_load2"))
#define spc_load4(p) spc_sim_load4(p, SPC_SIM_HERE("spc_load4"))
#define spc_load8(p) spc_sim_load8(p, SPC_SIM_HERE("spc_load8"))
#define spc_load16(p) spc_sim_load16(p, SPC_SIM_HERE("spc_load16"))
SPC_DEVICE const void *spc_base(const void *p)
{
    return p;
}
/* If `row` is negative nothing is read, and the words stay unchanged. */
SPC_DEVICE void spc_sim_load_into(spc_u32 *v, const void *p, int words, int row,
                                  const spc_sim_place *place)
{
    if (row < 0)
        return;
    spc_sim_check_aligned(p, 4 * words, place);
    for (int i = 0; i < words; i++)
        v[i] = ((const spc_u32 *)p)[i];
}
#define spc_load4_into(v, p, row)                                              \
    spc_sim_load_into(v, p, 1, row, SPC_SIM_HERE("spc_load4_into"))
#define spc_load8_into(v, p, row)                                              \
    spc_sim_load_into(v, p, 2, row, SPC_SIM_HERE("spc_load8_into"))
#define spc_load16_into(v, p, row)                                             \
    spc_sim_load_into(v, p, 4, row, SPC_SIM_HERE("spc_load16_into"))
#define spc_store2(p, v) spc_sim_store2(p, v, SPC_SIM_HERE("spc_store2"))
#define spc_store4(p, v) spc_sim_store4(p, v, SPC_SIM_HERE("spc_store4"))
#define spc_store8(p, v) spc_sim_store8(p, v, SPC_SIM_HERE("spc_store8"))
#define spc_store16(p, v) spc_sim_store16(p, v, SPC_SIM_HERE("spc_store16"))

/* ---- shared memory --------------------------------------------------- */

SPC_DEVICE spc_b8 spc_sim_shared_load8(const void *p,
                                       const spc_sim_place *place)
{
    spc_sim_check_shared(p, 8, 8, place);
    return *(const spc_b8 *)p;
}
SPC_DEVICE void spc_sim_shared_store8(void *p, spc_b8 v,
                                      const spc_sim_place *place)
{
    spc_sim_check_shared(p, 8, 8, place);
    *(spc_b8 *)p = v;
}
SPC_DEVICE spc_b16 spc_sim_shared_load16(const void *p,
                                         const spc_sim_place *place)
{
    spc_sim_check_shared(p, 16, 16, place);
    return *(const spc_b16 *)p;
}
SPC_DEVICE void spc_sim_shared_store16(void *p, spc_b16 v,
                                       const spc_sim_place *place)
{
    spc_sim_check_shared(p, 16, 16, place);
    *(spc_b16 *)p = v;
}
SPC_DEVICE spc_u32 spc_sim_shared_address(const void *p,
                                          const spc_sim_place *place)
{
    spc_sim_check_shared(p, 0, 1, place);
    return SPC_SIM_SHARED_BASE +
           (spc_u32)((const spc_u8 *)p - spc_sim_self()->shared);
}
#define spc_shared_load8(p)                                                    \
    spc_sim_shared_load8(p, SPC_SIM_HERE("spc_shared_load8"))
#define spc_shared_store8(p, v)                                                \
    spc_sim_shared_store8(p, v, SPC_SIM_HERE("spc_shared_store8"))
#define spc_shared_load16(p)                                                   \
    spc_sim_shared_load16(p, SPC_SIM_HERE("spc_shared_load16"))
#define spc_shared_store16(p, v)                                               \
    spc_sim_shared_store16(p, v, SPC_SIM_HERE("spc_shared_store16"))
#define spc_shared_address(p)                                                  \
    spc_sim_shared_address(p, SPC_SIM_HERE("spc_shared_address"))

/* ---- asynchronous copies --------------------------------------------- */

/* Copies at once. If deferred, copies when the thread waits for it and not
 * before. */
SPC_DEVICE void spc_sim_copy(void *to, const void *from, int bytes, int valid,
                             const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_check_shared(to, bytes, bytes, place);
    if (valid > 0)
        spc_sim_check_aligned(from, bytes, place);
    if (self->deferred) {
        self->api->copy(self, to, from, bytes, valid);
    } else if (valid == bytes && bytes == 16) {
        *(spc_b16 *)to = *(const spc_b16 *)from;
    } else if (valid == bytes && bytes == 8) {
        *(spc_b8 *)to = *(const spc_b8 *)from;
    } else if (valid == bytes) {
        *(spc_u32 *)to = *(const spc_u32 *)from;
    } else {
        for (int i = 0; i < bytes; i++)
            ((spc_u8 *)to)[i] = i < valid ? ((const spc_u8 *)from)[i] : 0;
    }
}
SPC_DEVICE void spc_copy_commit(void)
{
    spc_sim_thread *self = spc_sim_self();
    if (self->deferred)
        self->api->copy_commit(self);
}
SPC_DEVICE void spc_copy_wait(int groups)
{
    spc_sim_thread *self = spc_sim_self();
    if (self->deferred)
        self->api->copy_wait(self, groups);
}
#define spc_copy_async16(to, from, valid)                                      \
    spc_sim_copy(to, from, 16, valid, SPC_SIM_HERE("spc_copy_async16"))
#define spc_copy_near16(to, from, valid)                                       \
    spc_sim_copy(to, from, 16, valid, SPC_SIM_HERE("spc_copy_near16"))
#define spc_copy_async8(to, from, valid)                                       \
    spc_sim_copy(to, from, 8, valid, SPC_SIM_HERE("spc_copy_async8"))
#define spc_copy_async4(to, from, valid)                                       \
    spc_sim_copy(to, from, 4, valid, SPC_SIM_HERE("spc_copy_async4"))

/* ---- matrix fragments ------------------------------------------------ */

/* The matrix whose row r is word[4 * r .. 4 * r + 3]: elements (2t, g) and (2t
 * + 1, g), which are elements (g, 2t) and (g, 2t + 1) of its transpose. */
SPC_SIM_QUIET spc_u32 spc_sim_transposed(const spc_u32 *word, int lane)
{
    const spc_u16 *element = (const spc_u16 *)word;
    int g = lane >> 2, t = lane & 3;
    return (spc_u32)element[16 * t + g] | (spc_u32)element[16 * t + 8 + g]
                                              << 16;
}

SPC_SIM_QUIET void spc_sim_ldmatrix(spc_u32 *r, spc_b16 row, int transpose,
                                    const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_exchange *e = spc_sim_turn(self);
    e->in.row[self->lane] = row;
    self->api->gather(self, SPC_SIM_ORDERED, place);
    for (int i = 0; i < 4; i++) {
        const spc_u32 *word = (const spc_u32 *)&e->in.row[8 * i];
        r[i] =
            transpose ? spc_sim_transposed(word, self->lane) : word[self->lane];
    }
}
#define SPC_SIM_LDMATRIX(r, p, transpose, place)                               \
    spc_sim_ldmatrix(r, spc_sim_shared_load16(p, place), transpose, place)
#define spc_ldmatrix4(r, row)                                                  \
    SPC_SIM_LDMATRIX(r, row, 0, SPC_SIM_HERE("spc_ldmatrix4"))
#define spc_ldmatrix4_trans(r, row)                                            \
    SPC_SIM_LDMATRIX(r, row, 1, SPC_SIM_HERE("spc_ldmatrix4_trans"))

SPC_SIM_QUIET spc_u32 spc_sim_movmatrix(spc_u32 v, const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_exchange *e = spc_sim_turn(self);
    e->in.word[self->lane] = v;
    self->api->gather(self, SPC_SIM_EXCHANGE, place);
    return spc_sim_transposed(e->in.word, self->lane);
}
#define spc_movmatrix(v) spc_sim_movmatrix(v, SPC_SIM_HERE("spc_movmatrix"))

/*
 * Sums run over k in rising order, and each step is rounded to fp32. The
 * hardware adds in another order and truncates, so comparisons need a
 * tolerance.
 */
SPC_SIM_QUIET void spc_sim_mma(float *d, const spc_u32 *a, const spc_u32 *b,
                               int op, const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_exchange *e = spc_sim_turn(self);
    int lane = self->lane, g = lane >> 2, t = lane & 3;
    for (int i = 0; i < 4; i++)
        e->in.mma.a[i][lane] = a[i];
    for (int i = 0; i < 2; i++) {
        if (op != SPC_SIM_MMA_TF32) {
            e->in.mma.b.f16[8 * i + 2 * t][g] = (spc_u16)b[i];
            e->in.mma.b.f16[8 * i + 2 * t + 1][g] = (spc_u16)(b[i] >> 16);
        } else {
            e->in.mma.b.tf32[4 * i + t][g] = b[i];
        }
        e->in.mma.d[8 * i + g][2 * t] = d[2 * i];
        e->in.mma.d[8 * i + g][2 * t + 1] = d[2 * i + 1];
    }
    self->api->gather(self, op, place);
    for (int i = 0; i < 2; i++) {
        d[2 * i] = e->in.mma.d[8 * i + g][2 * t];
        d[2 * i + 1] = e->in.mma.d[8 * i + g][2 * t + 1];
    }
}
#define spc_mma_f16(d, a, b)                                                   \
    spc_sim_mma(d, a, b, SPC_SIM_MMA_F16, SPC_SIM_HERE("spc_mma_f16"))
#define spc_mma_bf16(d, a, b)                                                  \
    spc_sim_mma(d, a, b, SPC_SIM_MMA_BF16, SPC_SIM_HERE("spc_mma_bf16"))
#define spc_mma_tf32(d, a, b)                                                  \
    spc_sim_mma(d, a, b, SPC_SIM_MMA_TF32, SPC_SIM_HERE("spc_mma_tf32"))
/* The other half of k is zero. */
SPC_SIM_QUIET void spc_sim_mma_k8(float *d, const spc_u32 *a, spc_u32 b, int op,
                                  const spc_sim_place *place)
{
    spc_u32 rows[4] = {a[0], a[1], 0, 0}, columns[2] = {b, 0};
    spc_sim_mma(d, rows, columns, op, place);
}
#define spc_mma_k8_f16(d, a, b)                                                \
    spc_sim_mma_k8(d, a, b, SPC_SIM_MMA_F16, SPC_SIM_HERE("spc_mma_k8_f16"))
#define spc_mma_k8_bf16(d, a, b)                                               \
    spc_sim_mma_k8(d, a, b, SPC_SIM_MMA_BF16, SPC_SIM_HERE("spc_mma_k8_bf16"))

/* Exact except for wrap-around, which the last lane takes care of. */
SPC_SIM_QUIET void spc_sim_mma_i8(int *d, const spc_u32 *a, const spc_u32 *b,
                                  const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_exchange *e = spc_sim_turn(self);
    int lane = self->lane, g = lane >> 2, t = lane & 3;
    for (int i = 0; i < 4; i++) {
        e->in.mma_i8.a[i][lane] = a[i];
        e->in.mma_i8.d[8 * (i / 2) + g][2 * t + i % 2] = d[i];
    }
    for (int i = 0; i < 2; i++)
        e->in.mma_i8.b[4 * i + t][g] = b[i];
    self->api->gather(self, SPC_SIM_MMA_I8, place);
    for (int i = 0; i < 4; i++)
        d[i] = e->in.mma_i8.d[8 * (i / 2) + g][2 * t + i % 2];
}
#define spc_mma_i8(d, a, b)                                                    \
    spc_sim_mma_i8(d, a, b, SPC_SIM_HERE("spc_mma_i8"))

/* ---- numbers --------------------------------------------------------- */

/* Nearest, ties to even; a NaN becomes 0x7fffe000, as recorded on an H200. */
SPC_DEVICE spc_u32 spc_f32_to_tf32(float v)
{
    spc_u32 bits = spc_f32_bits(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fffe000u;
    if ((bits & 0x7f800000u) != 0x7f800000u)
        bits += 0xfffu + (bits >> 13 & 1u);
    return bits & 0xffffe000u;
}

/* A multiplication changes the exponent's bias, which also normalises subnormal
 * numbers. */
SPC_DEVICE float spc_f16_to_f32(spc_u16 v)
{
    spc_u32 sign = (spc_u32)(v & 0x8000u) << 16;
    spc_u32 rest = (spc_u32)(v & 0x7fffu) << 13;
    if (rest > 0x0f800000u)
        return spc_bits_f32(0x7fffffffu); /* as the device has it */
    if (rest == 0x0f800000u)
        return spc_bits_f32(sign | 0x7f800000u);
    return spc_bits_f32(sign | spc_f32_bits(spc_bits_f32(rest) * 0x1p112f));
}

/*
 * To nearest even. Below 2^-14 adding 1/2 makes the adder round to units of
 * 2^-24, the spacing of subnormals. Every NaN becomes 0x7fff, as on the device.
 */
SPC_DEVICE spc_u16 spc_f32_to_f16(float v)
{
    spc_u32 bits = spc_f32_bits(v), rest = bits & 0x7fffffffu;
    spc_u32 sign = bits >> 16 & 0x8000u;
    if (rest > 0x7f800000u)
        return 0x7fff;
    if (rest >= 0x477ff000u)
        return (spc_u16)(sign | 0x7c00u);
    if (rest < 0x38800000u)
        return (spc_u16)(sign | (spc_f32_bits(spc_bits_f32(rest) + 0.5f) -
                                 0x3f000000u));
    return (spc_u16)(sign |
                     (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}
SPC_DEVICE spc_u32 spc_pack_f16(float low, float high)
{
    return (spc_u32)spc_f32_to_f16(low) | (spc_u32)spc_f32_to_f16(high) << 16;
}
/* Rounded to fp16 once per step; hardware may round more often. */
SPC_SIM_QUIET void spc_sim_mma_sums(spc_u32 *d, const spc_u32 *a,
                                    const spc_u32 *b,
                                    const spc_sim_place *place)
{
    float sums[4];
    for (int i = 0; i < 4; i++)
        sums[i] = spc_f16_to_f32((spc_u16)(d[i / 2] >> 16 * (i % 2)));
    spc_sim_mma(sums, a, b, SPC_SIM_MMA_F16, place);
    for (int i = 0; i < 2; i++)
        d[i] = spc_pack_f16(sums[2 * i], sums[2 * i + 1]);
}
#define spc_mma_f16_sums(d, a, b)                                              \
    spc_sim_mma_sums(d, a, b, SPC_SIM_HERE("spc_mma_f16_sums"))

/* The compiler flags of the emulation forbid fused operations. */
SPC_DEVICE float spc_mul_rn(float a, float b)
{
    return a * b;
}

SPC_DEVICE float spc_add_rn(float a, float b)
{
    return a + b;
}

SPC_DEVICE float spc_fma(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
SPC_DEVICE float spc_bf16_to_f32(spc_u16 v)
{
    return spc_bits_f32((spc_u32)v << 16);
}
SPC_DEVICE spc_u16 spc_f32_to_bf16(float v)
{
    spc_u32 bits = spc_f32_bits(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (spc_u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
SPC_DEVICE spc_u32 spc_pack_bf16(float low, float high)
{
    return (spc_u32)spc_f32_to_bf16(low) | (spc_u32)spc_f32_to_bf16(high) << 16;
}

SPC_DEVICE int spc_f32_to_i8(float v)
{
    if (v != v)
        return 0;
    if (v <= -128.0f || v >= 127.0f)
        return v < 0 ? -128 : 127;
    /* Next to 1.5 * 2^23 the last place is 1, so the sum is rounded to an
     * integer. */
    return (int)(spc_f32_bits(v + 12582912.0f) - spc_f32_bits(12582912.0f));
}
SPC_DEVICE spc_u32 spc_pack_i8(float v0, float v1, float v2, float v3)
{
    return (spc_u32)(spc_f32_to_i8(v0) & 0xff) |
           (spc_u32)(spc_f32_to_i8(v1) & 0xff) << 8 |
           (spc_u32)(spc_f32_to_i8(v2) & 0xff) << 16 |
           (spc_u32)spc_f32_to_i8(v3) << 24;
}
SPC_DEVICE float spc_i8_to_f32(spc_u32 v, int i)
{
    return (float)(signed char)(v >> 8 * i);
}
SPC_DEVICE float spc_int_to_f32(int v)
{
    return (float)v;
}
SPC_DEVICE float spc_reciprocal(float v)
{
    return 1.0f / v;
}

#include "spc_host_math.h"

/* ---- barriers in memory and bulk copies ------------------------------ */

SPC_DEVICE void spc_sim_mbar_init(spc_u64 *bar, int count,
                                  const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_check_shared(bar, 8, 8, place);
    self->api->mbar_init(self, bar, count);
}
SPC_DEVICE void spc_mbar_fence(void)
{
}
SPC_DEVICE void spc_sim_mbar_arrive(spc_u64 *bar, int bytes,
                                    const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_check_shared(bar, 8, 8, place);
    self->api->mbar_arrive(self, bar, bytes, place);
}
SPC_DEVICE void spc_sim_mbar_wait(spc_u64 *bar, int parity,
                                  const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_check_shared(bar, 8, 8, place);
    self->api->mbar_wait(self, bar, parity, place);
}
SPC_DEVICE void spc_sim_bulk_copy(void *to, const void *from, int bytes,
                                  spc_u64 *bar, const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_check_shared(to, bytes, 16, place);
    spc_sim_check_aligned(from, 16, place);
    spc_sim_check_shared(bar, 8, 8, place);
    if (bytes <= 0 || bytes % 16 != 0)
        self->api->fault(self, place, "needs a multiple of 16 bytes", 0);
    self->api->bulk_copy(self, to, from, bytes, bar, place);
}
#define spc_mbar_init(bar, count)                                              \
    spc_sim_mbar_init(bar, count, SPC_SIM_HERE("spc_mbar_init"))
#define spc_mbar_arrive(bar)                                                   \
    spc_sim_mbar_arrive(bar, 0, SPC_SIM_HERE("spc_mbar_arrive"))
#define spc_mbar_expect(bar, bytes)                                            \
    spc_sim_mbar_arrive(bar, bytes, SPC_SIM_HERE("spc_mbar_expect"))
#define spc_mbar_wait(bar, parity)                                             \
    spc_sim_mbar_wait(bar, parity, SPC_SIM_HERE("spc_mbar_wait"))
SPC_DEVICE void spc_sim_cluster_arrive(spc_u64 *bar, int block,
                                       const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_u8 *there = (spc_u8 *)bar + spc_sim_cluster_offset(block, place);
    spc_sim_check_shared(bar, 8, 8, place);
    self->api->mbar_arrive(self, (spc_u64 *)there, 0, place);
}
#define spc_cluster_arrive(bar, block)                                         \
    spc_sim_cluster_arrive(bar, block, SPC_SIM_HERE("spc_cluster_arrive"))
#define spc_cluster_wait(bar, parity)                                          \
    spc_sim_mbar_wait(bar, parity, SPC_SIM_HERE("spc_cluster_wait"))
#define spc_bulk_copy(to, from, bytes, bar)                                    \
    spc_sim_bulk_copy(to, from, bytes, bar, SPC_SIM_HERE("spc_bulk_copy"))

SPC_DEVICE void spc_fence_async(void)
{
}
SPC_DEVICE void spc_depend_wait(void)
{
}
SPC_DEVICE void spc_depend_launch(void)
{
}

/* ---- warpgroup matrix products --------------------------------------- */

#define spc_registers_raise(n) ((void)0)
#define spc_registers_lower(n) ((void)0)

#define spc_wgmma_descriptor(p, leading, stride)                               \
    ((spc_u64)((spc_shared_address(p) & 0x3ffffu) >> 4) |                      \
     (spc_u64)((leading) >> 4) << 16 | (spc_u64)((stride) >> 4) << 32)

#define spc_wgmma_swizzled(p, leading, stride)                                 \
    (spc_wgmma_descriptor(p, leading, stride) | 1ull << 62)

SPC_DEVICE void spc_wgmma_fence(void)
{
}

SPC_SIM_QUIET void spc_sim_wgmma_group(int op, int groups,
                                       const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_exchange *e = spc_sim_turn(self);
    e->in.word[self->lane] = (spc_u32)groups;
    self->api->gather(self, op, place);
}
#define spc_wgmma_commit()                                                     \
    spc_sim_wgmma_group(SPC_SIM_WGMMA_COMMIT, 0,                               \
                        SPC_SIM_HERE("spc_wgmma_commit"))
#define spc_wgmma_wait(n)                                                      \
    spc_sim_wgmma_group(SPC_SIM_WGMMA_WAIT, n, SPC_SIM_HERE("spc_wgmma_wait"))

/*
 * Computes a warp's 16 rows at a time: the four warps of a group share only B.
 */
SPC_SIM_QUIET void spc_sim_wgmma(int n, int op, float *d, const spc_u32 *a,
                                 spc_u64 b, int accumulate,
                                 const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    spc_sim_exchange *e = spc_sim_turn(self);
    int lane = self->lane;
    for (int i = 0; i < 4; i++)
        e->in.wgmma.a[i][lane] = a[i];
    e->in.wgmma.d[lane] = d;
    e->in.wgmma.b[lane] = b;
    e->in.wgmma.accumulate[lane] = accumulate != 0;
    e->in.wgmma.n[lane] = n;
    self->api->gather(self, op, place);
}
#define SPC_SIM_WGMMA(n, type, d, a, b, accumulate)                            \
    spc_sim_wgmma(n, SPC_SIM_WGMMA_##type, d, a, b, accumulate,                \
                  SPC_SIM_HERE("spc_wgmma_" #n "_" #type))
#define spc_wgmma_16_f16(d, a, b, c) SPC_SIM_WGMMA(16, F16, d, a, b, c)
#define spc_wgmma_32_f16(d, a, b, c) SPC_SIM_WGMMA(32, F16, d, a, b, c)
#define spc_wgmma_48_f16(d, a, b, c) SPC_SIM_WGMMA(48, F16, d, a, b, c)
#define spc_wgmma_64_f16(d, a, b, c) SPC_SIM_WGMMA(64, F16, d, a, b, c)
#define spc_wgmma_96_f16(d, a, b, c) SPC_SIM_WGMMA(96, F16, d, a, b, c)
#define spc_wgmma_128_f16(d, a, b, c) SPC_SIM_WGMMA(128, F16, d, a, b, c)
#define spc_wgmma_192_f16(d, a, b, c) SPC_SIM_WGMMA(192, F16, d, a, b, c)
#define spc_wgmma_256_f16(d, a, b, c) SPC_SIM_WGMMA(256, F16, d, a, b, c)
#define spc_wgmma_16_bf16(d, a, b, c) SPC_SIM_WGMMA(16, BF16, d, a, b, c)
#define spc_wgmma_32_bf16(d, a, b, c) SPC_SIM_WGMMA(32, BF16, d, a, b, c)
#define spc_wgmma_48_bf16(d, a, b, c) SPC_SIM_WGMMA(48, BF16, d, a, b, c)
#define spc_wgmma_64_bf16(d, a, b, c) SPC_SIM_WGMMA(64, BF16, d, a, b, c)
#define spc_wgmma_96_bf16(d, a, b, c) SPC_SIM_WGMMA(96, BF16, d, a, b, c)
#define spc_wgmma_128_bf16(d, a, b, c) SPC_SIM_WGMMA(128, BF16, d, a, b, c)
#define spc_wgmma_192_bf16(d, a, b, c) SPC_SIM_WGMMA(192, BF16, d, a, b, c)
#define spc_wgmma_256_bf16(d, a, b, c) SPC_SIM_WGMMA(256, BF16, d, a, b, c)
#define spc_wgmma_16_tf32(d, a, b, c) SPC_SIM_WGMMA(16, TF32, d, a, b, c)
#define spc_wgmma_32_tf32(d, a, b, c) SPC_SIM_WGMMA(32, TF32, d, a, b, c)
#define spc_wgmma_48_tf32(d, a, b, c) SPC_SIM_WGMMA(48, TF32, d, a, b, c)
#define spc_wgmma_64_tf32(d, a, b, c) SPC_SIM_WGMMA(64, TF32, d, a, b, c)
#define spc_wgmma_96_tf32(d, a, b, c) SPC_SIM_WGMMA(96, TF32, d, a, b, c)
#define spc_wgmma_128_tf32(d, a, b, c) SPC_SIM_WGMMA(128, TF32, d, a, b, c)
#define spc_wgmma_192_tf32(d, a, b, c) SPC_SIM_WGMMA(192, TF32, d, a, b, c)
#define spc_wgmma_256_tf32(d, a, b, c) SPC_SIM_WGMMA(256, TF32, d, a, b, c)
#define spc_wgmma_rows_64_f16(d, a, b, c)                                      \
    SPC_SIM_WGMMA(64, ROWS_F16, d, a, b, c)
#define spc_wgmma_rows_128_f16(d, a, b, c)                                     \
    SPC_SIM_WGMMA(128, ROWS_F16, d, a, b, c)
#define spc_wgmma_rows_256_f16(d, a, b, c)                                     \
    SPC_SIM_WGMMA(256, ROWS_F16, d, a, b, c)
#define spc_wgmma_rows_64_bf16(d, a, b, c)                                     \
    SPC_SIM_WGMMA(64, ROWS_BF16, d, a, b, c)
#define spc_wgmma_rows_128_bf16(d, a, b, c)                                    \
    SPC_SIM_WGMMA(128, ROWS_BF16, d, a, b, c)
#define spc_wgmma_rows_256_bf16(d, a, b, c)                                    \
    SPC_SIM_WGMMA(256, ROWS_BF16, d, a, b, c)
/* The address of column `column` of row k of a matrix stored in rows. */
SPC_DEVICE const spc_u8 *spc_sim_wgmma_at(spc_u64 from, int column, int k)
{
    const spc_u8 *p = spc_sim_self()->shared + (int)(from & 0x3fff) * 16 -
                      SPC_SIM_SHARED_BASE + column % 8 * 2;
    int leading = (int)(from >> 16 & 0x3fff) * 16;
    int stride = (int)(from >> 32 & 0x3fff) * 16;
    int piece = column / 8;
    if (from >> 62 == 0)
        return p + piece * stride + k / 8 * leading + k % 8 * 16;
    return p + piece / 8 * leading + k / 8 * stride + k % 8 * 128 +
           (piece ^ k) % 8 * 16;
}
/* A is read from shared memory when the product is issued. A lane's registers
 * hold two rows of k by two columns. */
SPC_DEVICE void spc_sim_wgmma_columns(spc_u32 *a, spc_u64 from,
                                      const spc_sim_place *place)
{
    int lane = spc_sim_self()->lane;
    int column = spc_warp() % 4 * 16 + lane / 4;
    for (int i = 0; i < 4; i++) {
        int k = i / 2 * 8 + lane % 4 * 2;
        const spc_u8 *low = spc_sim_wgmma_at(from, column + i % 2 * 8, k);
        const spc_u8 *high = spc_sim_wgmma_at(from, column + i % 2 * 8, k + 1);
        spc_sim_check_shared(low, 2, 2, place);
        spc_sim_check_shared(high, 2, 2, place);
        a[i] =
            *(const spc_u16 *)low | (spc_u32) * (const spc_u16 *)high << 16;
    }
}
SPC_DEVICE void spc_sim_wgmma_both(int n, int op, float *d, spc_u64 from,
                                   spc_u64 b, int accumulate,
                                   const spc_sim_place *place)
{
    spc_u32 a[4];
    spc_sim_wgmma_columns(a, from, place);
    spc_sim_wgmma(n, op, d, a, b, accumulate, place);
}
#define SPC_SIM_WGMMA_BOTH(n, type, d, a, b, accumulate)                       \
    spc_sim_wgmma_both(n, SPC_SIM_WGMMA_ROWS_##type, d, a, b, accumulate,      \
                       SPC_SIM_HERE("spc_wgmma_both_" #n "_" #type))
#define spc_wgmma_both_64_f16(d, a, b, c) SPC_SIM_WGMMA_BOTH(64, F16, d, a, b, c)
#define spc_wgmma_both_128_f16(d, a, b, c)                                     \
    SPC_SIM_WGMMA_BOTH(128, F16, d, a, b, c)
#define spc_wgmma_both_256_f16(d, a, b, c)                                     \
    SPC_SIM_WGMMA_BOTH(256, F16, d, a, b, c)
#define spc_wgmma_both_64_bf16(d, a, b, c)                                     \
    SPC_SIM_WGMMA_BOTH(64, BF16, d, a, b, c)
#define spc_wgmma_both_128_bf16(d, a, b, c)                                    \
    SPC_SIM_WGMMA_BOTH(128, BF16, d, a, b, c)
#define spc_wgmma_both_256_bf16(d, a, b, c)                                    \
    SPC_SIM_WGMMA_BOTH(256, BF16, d, a, b, c)
/* Sums are passed between the lanes and the runtime as bytes. */
#define spc_wgmma_16_i8(d, a, b, c)                                            \
    SPC_SIM_WGMMA(16, I8, (float *)(d), a, b, c)
#define spc_wgmma_32_i8(d, a, b, c)                                            \
    SPC_SIM_WGMMA(32, I8, (float *)(d), a, b, c)
#define spc_wgmma_48_i8(d, a, b, c)                                            \
    SPC_SIM_WGMMA(48, I8, (float *)(d), a, b, c)
#define spc_wgmma_64_i8(d, a, b, c)                                            \
    SPC_SIM_WGMMA(64, I8, (float *)(d), a, b, c)
#define spc_wgmma_96_i8(d, a, b, c)                                            \
    SPC_SIM_WGMMA(96, I8, (float *)(d), a, b, c)
#define spc_wgmma_128_i8(d, a, b, c)                                           \
    SPC_SIM_WGMMA(128, I8, (float *)(d), a, b, c)
#define spc_wgmma_192_i8(d, a, b, c)                                           \
    SPC_SIM_WGMMA(192, I8, (float *)(d), a, b, c)
#define spc_wgmma_256_i8(d, a, b, c)                                           \
    SPC_SIM_WGMMA(256, I8, (float *)(d), a, b, c)

#endif /* SPC_SIM_RUNTIME */
#endif
