/*
 * spc_device.cuh - the primitive layer: everything that templates use of a GPU.
 *
 * Templates consist of plain C and these primitives. They use no inline PTX, no
 * threadIdx and no __shared__. When NVRTC compiles them the primitives are PTX
 * (this file). When the host's C compiler compiles them they are the emulation
 * (spc_sim.h), which is tested against golden vectors recorded on a real GPU.
 *
 * Code must stay in the common subset of C11 and CUDA C++: no references, no
 * templates, no designated initialisers, and casts from void *.
 *
 * A kernel is declared with
 *     SPC_KERNEL(name, args_type, threads, min_blocks) { ... args->... }
 * and takes one struct, by value on the device. Dynamic shared memory is one
 * array of bytes, spc_shared(), aligned to 1024 bytes. Kernels divide it
 * themselves.
 */
#ifndef SPC_DEVICE_CUH
#define SPC_DEVICE_CUH

#include "spc_abi.h"

typedef unsigned char spc_u8;
typedef unsigned short spc_u16; /* also the bits of a binary16 */
typedef unsigned int spc_u32;

#ifndef __CUDACC__
#include "spc_sim.h"
#else

#define SPC_DEVICE static __device__ __forceinline__
#define SPC_ALIGN(n) __align__(n)
/* Before a loop of constant length whose body indexes registers. */
#define SPC_UNROLL _Pragma("unroll")
/* Placed before a loop with a large body, so that the code holds only one copy
 * of the body. */
#define SPC_ROLLED _Pragma("unroll 1")

#define SPC_KERNEL(name, args_type, threads, min_blocks)                       \
    static __device__ __forceinline__ void name##_body(const args_type *args); \
    extern "C" __global__ void __launch_bounds__(threads, min_blocks)          \
        name(const __grid_constant__ args_type args)                           \
    {                                                                          \
        name##_body(&args);                                                    \
    }                                                                          \
    static __device__ __forceinline__ void name##_body(const args_type *args)

/* 8 and 16 bytes that move as one access. */
typedef struct SPC_ALIGN(8) spc_b8 {
    spc_u32 x, y;
} spc_b8;
typedef struct SPC_ALIGN(16) spc_b16 {
    spc_u32 x, y, z, w;
} spc_b16;

/* ---- thread and block indices -------------------------------------------- */

SPC_DEVICE int spc_thread(void) { return (int)threadIdx.x; }
SPC_DEVICE int spc_threads(void) { return (int)blockDim.x; }
SPC_DEVICE int spc_lane(void) { return (int)(threadIdx.x & 31u); }
/* Returns the warp's number as a value that the compiler knows to be uniform.
 * All 32 lanes must take part, so it must not be called inside a divergent
 * branch. */
SPC_DEVICE int spc_warp(void)
{
    return __shfl_sync(0xffffffffu, (int)(threadIdx.x >> 5), 0);
}
SPC_DEVICE int spc_block_x(void) { return (int)blockIdx.x; }
SPC_DEVICE int spc_block_y(void) { return (int)blockIdx.y; }
SPC_DEVICE int spc_grid_x(void) { return (int)gridDim.x; }

SPC_DEVICE spc_u8 *spc_shared(void)
{
    extern __shared__ __align__(1024) spc_u8 spc_shared_bytes[];
    return spc_shared_bytes;
}

/*
 * Arguments are loaded line by line at their first use, each time with a long
 * latency. A kernel with many arguments requests all of its `bytes` at once, one
 * line per warp.
 */
SPC_DEVICE void spc_fetch_args(const void *args, int bytes)
{
    for (int at = 64 * spc_warp(); at < bytes; at += 2 * spc_threads()) {
        int word = *(const int *)((const char *)args + at);
        asm volatile("" ::"r"(word));
    }
}

/* ---- barriers ------------------------------------------------------------- */

SPC_DEVICE void spc_sync_block(void) { __syncthreads(); }
SPC_DEVICE void spc_sync_warp(void) { __syncwarp(); }
/* Barrier `id` (1..15) among `threads` threads (a multiple of 32). */
SPC_DEVICE void spc_sync_named(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Makes this thread's earlier global accesses visible to all threads. */
SPC_DEVICE void spc_fence_global(void) { __threadfence(); }

/*
 * A barrier of all blocks of a cooperative launch, in two halves. Work that a
 * block does between the halves hides the wait. `counter` is a zeroed word in
 * global memory that only this kernel uses. It counts arrivals and never
 * decreases. `*round` is the caller's count of barriers, from 0.
 */
SPC_DEVICE void spc_arrive_grid(spc_u32 *counter)
{
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter)
                     : "memory");
}

SPC_DEVICE void spc_wait_grid(spc_u32 *counter, spc_u32 *round)
{
    if (threadIdx.x == 0) {
        spc_u32 want = (*round + 1) * gridDim.x, seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(counter)
                         : "memory");
        } while (seen < want);
    }
    *round += 1;
    __syncthreads();
}

/* ---- warp collectives (all 32 lanes take part) ---------------------------- */

SPC_DEVICE int spc_shfl(int v, int lane)
{
    return __shfl_sync(0xffffffffu, v, lane);
}
SPC_DEVICE int spc_shfl_up(int v, int by)
{
    return __shfl_up_sync(0xffffffffu, v, (unsigned)by);
}
SPC_DEVICE int spc_shfl_xor(int v, int bits)
{
    return __shfl_xor_sync(0xffffffffu, v, bits);
}
SPC_DEVICE float spc_shfl_xor_f32(float v, int bits)
{
    return __shfl_xor_sync(0xffffffffu, v, bits);
}
SPC_DEVICE spc_u32 spc_ballot(int condition)
{
    return __ballot_sync(0xffffffffu, condition);
}
/* OR over the warp. */
SPC_DEVICE spc_u32 spc_warp_or(spc_u32 v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(0xffffffffu, v);
#else
    for (int bits = 16; bits > 0; bits >>= 1)
        v |= __shfl_xor_sync(0xffffffffu, v, bits);
    return v;
#endif
}
/* The minimum over the warp. */
SPC_DEVICE spc_u32 spc_warp_min(spc_u32 v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(0xffffffffu, v);
#else
    for (int bits = 16; bits > 0; bits >>= 1)
        v = min(v, __shfl_xor_sync(0xffffffffu, v, bits));
    return v;
#endif
}
/* The lanes that hold the same value as this one. */
SPC_DEVICE spc_u32 spc_match(spc_u32 v)
{
    return __match_any_sync(0xffffffffu, v);
}

/* ---- bits ------------------------------------------------------------------ */

SPC_DEVICE int spc_popc(spc_u32 v) { return __popc(v); }
SPC_DEVICE int spc_ffs(spc_u32 v) { return __ffs((int)v); } /* 1..32, 0: none */
SPC_DEVICE int spc_clz(spc_u32 v) { return __clz((int)v); }
/* 1 << n; 0 for n >= 32. */
SPC_DEVICE spc_u32 spc_bit(spc_u32 n)
{
    spc_u32 v;
    asm("shl.b32 %0, %1, %2;" : "=r"(v) : "r"(1u), "r"(n));
    return v;
}
SPC_DEVICE spc_u32 spc_brev(spc_u32 v) { return __brev(v); }

/* ---- atomics (global or shared memory, relaxed, return the old value) ----- */

SPC_DEVICE int spc_atomic_add(int *p, int v) { return atomicAdd(p, v); }
SPC_DEVICE spc_u32 spc_atomic_add_u32(spc_u32 *p, spc_u32 v)
{
    return atomicAdd(p, v);
}
SPC_DEVICE float spc_atomic_add_f32(float *p, float v)
{
    return atomicAdd(p, v);
}
SPC_DEVICE spc_u32 spc_atomic_or(spc_u32 *p, spc_u32 v)
{
    return atomicOr(p, v);
}
SPC_DEVICE int spc_atomic_min(int *p, int v) { return atomicMin(p, v); }
SPC_DEVICE int spc_atomic_max(int *p, int v) { return atomicMax(p, v); }
SPC_DEVICE spc_u32 spc_atomic_cas(spc_u32 *p, spc_u32 expected, spc_u32 v)
{
    return atomicCAS(p, expected, v);
}
SPC_DEVICE spc_u64 spc_atomic_cas_u64(spc_u64 *p, spc_u64 expected, spc_u64 v)
{
    return atomicCAS(p, expected, v);
}
/* Loads a word that other threads change with these atomics. */
SPC_DEVICE spc_u32 spc_load_relaxed(const spc_u32 *p)
{
    return *(const volatile spc_u32 *)p;
}
SPC_DEVICE spc_u64 spc_load_relaxed_u64(const spc_u64 *p)
{
    return *(const volatile spc_u64 *)p;
}

/* Flag words between blocks. A thread that acquires a released store also sees
 * all earlier stores of that thread. */
SPC_DEVICE spc_u32 spc_load_acquire(const spc_u32 *p)
{
    spc_u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(v)
                 : "l"(p)
                 : "memory");
    return v;
}
SPC_DEVICE void spc_store_release(spc_u32 *p, spc_u32 v)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v)
                 : "memory");
}

/* ---- global memory ---------------------------------------------------------- */

/* Loads of data that the kernel never writes. */
SPC_DEVICE int spc_load_int(const int *p) { return __ldg(p); }
SPC_DEVICE spc_u32 spc_load4(const void *p)
{
    return __ldg((const unsigned *)p);
}
SPC_DEVICE spc_b8 spc_load8(const void *p)
{
    uint2 v = __ldg((const uint2 *)p);
    spc_b8 r;
    r.x = v.x;
    r.y = v.y;
    return r;
}
SPC_DEVICE spc_b16 spc_load16(const void *p)
{
    uint4 v = __ldg((const uint4 *)p);
    spc_b16 r;
    r.x = v.x;
    r.y = v.y;
    r.z = v.z;
    r.w = v.w;
    return r;
}
/* Returns the pointer, but hides its origin from the compiler. A later addition to
 * it is then one instruction, instead of one for each part. */
SPC_DEVICE const void *spc_base(const void *p)
{
    asm("" : "+l"(p));
    return p;
}
/*
 * Loads 1, 2 or 4 words. If `row` is negative nothing is read and the words stay
 * unchanged. The compiler keeps these loads at their place, because ptxas orders
 * ld.global (but not ld.global.nc) with stores. Not for memory that this thread
 * writes.
 */
SPC_DEVICE void spc_load4_into(spc_u32 *v, const void *p, int row)
{
    asm volatile("{\n.reg .pred p;\nsetp.ge.s32 p, %2, 0;\n"
                 "@p ld.global.b32 %0, [%1];\n}"
                 : "+r"(v[0])
                 : "l"(p), "r"(row));
}
SPC_DEVICE void spc_load8_into(spc_u32 *v, const void *p, int row)
{
    asm volatile("{\n.reg .pred p;\nsetp.ge.s32 p, %3, 0;\n"
                 "@p ld.global.v2.b32 {%0,%1}, [%2];\n}"
                 : "+r"(v[0]), "+r"(v[1])
                 : "l"(p), "r"(row));
}
SPC_DEVICE void spc_load16_into(spc_u32 *v, const void *p, int row)
{
    asm volatile("{\n.reg .pred p;\nsetp.ge.s32 p, %5, 0;\n"
                 "@p ld.global.v4.b32 {%0,%1,%2,%3}, [%4];\n}"
                 : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3])
                 : "l"(p), "r"(row));
}
SPC_DEVICE spc_u8 spc_load1(const void *p)
{
    return __ldg((const unsigned char *)p);
}
SPC_DEVICE spc_u16 spc_load2(const void *p)
{
    return __ldg((const unsigned short *)p);
}
SPC_DEVICE float spc_load_f32(const float *p) { return __ldg(p); }
SPC_DEVICE void spc_store1(void *p, spc_u8 v) { *(unsigned char *)p = v; }
SPC_DEVICE void spc_store2(void *p, spc_u16 v) { *(unsigned short *)p = v; }
SPC_DEVICE void spc_store4(void *p, spc_u32 v) { *(unsigned *)p = v; }
SPC_DEVICE void spc_store8(void *p, spc_b8 v)
{
    *(uint2 *)p = make_uint2(v.x, v.y);
}
SPC_DEVICE void spc_store16(void *p, spc_b16 v)
{
    *(uint4 *)p = make_uint4(v.x, v.y, v.z, v.w);
}

/* ---- shared memory ------------------------------------------------------------ */

/* Vectors in shared memory, aligned to 16 bytes. */
SPC_DEVICE spc_b16 spc_shared_load16(const void *p)
{
    uint4 v = *(const uint4 *)p;
    spc_b16 r;
    r.x = v.x;
    r.y = v.y;
    r.z = v.z;
    r.w = v.w;
    return r;
}
SPC_DEVICE spc_b8 spc_shared_load8(const void *p)
{
    uint2 v = *(const uint2 *)p;
    spc_b8 r;
    r.x = v.x;
    r.y = v.y;
    return r;
}
SPC_DEVICE void spc_shared_store8(void *p, spc_b8 v)
{
    *(uint2 *)p = make_uint2(v.x, v.y);
}
SPC_DEVICE void spc_shared_store16(void *p, spc_b16 v)
{
    *(uint4 *)p = make_uint4(v.x, v.y, v.z, v.w);
}
SPC_DEVICE spc_u32 spc_shared_address(const void *p)
{
    return (spc_u32)__cvta_generic_to_shared(p);
}

/* ---- asynchronous copies, global to shared (sm_80) ----------------------------- */

#if __CUDA_ARCH__ >= 800
/* Copies 16 (8, 4) bytes. Only `valid` bytes are read and the rest is zeroed.
 * Nothing is read if valid is 0. */
SPC_DEVICE void spc_copy_async16(void *to, const void *from, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     spc_shared_address(to)),
                 "l"(from), "r"(valid)
                 : "memory");
}
/* The same, through the multiprocessor's L1 cache, for data that other blocks on
 * the multiprocessor read as well. */
SPC_DEVICE void spc_copy_near16(void *to, const void *from, int valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(
                     spc_shared_address(to)),
                 "l"(from), "r"(valid)
                 : "memory");
}
SPC_DEVICE void spc_copy_async8(void *to, const void *from, int valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(
                     spc_shared_address(to)),
                 "l"(from), "r"(valid)
                 : "memory");
}
SPC_DEVICE void spc_copy_async4(void *to, const void *from, int valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     spc_shared_address(to)),
                 "l"(from), "r"(valid)
                 : "memory");
}
SPC_DEVICE void spc_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until at most n of this thread's groups are under way. */
#define spc_copy_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#else
SPC_DEVICE void spc_copy_async16(void *to, const void *from, int valid)
{
    uint4 v = make_uint4(0, 0, 0, 0);
    if (valid)
        v = *(const uint4 *)from;
    *(uint4 *)to = v;
}
#define spc_copy_near16 spc_copy_async16
SPC_DEVICE void spc_copy_async8(void *to, const void *from, int valid)
{
    uint2 v = make_uint2(0, 0);
    if (valid)
        v = *(const uint2 *)from;
    *(uint2 *)to = v;
}
/* Here, copies of 8 and 16 bytes have either all bytes valid or none. */
SPC_DEVICE void spc_copy_async4(void *to, const void *from, int valid)
{
    unsigned v = 0;
    if (valid >= 4)
        v = *(const unsigned *)from;
    else if (valid >= 2)
        v = *(const unsigned short *)from;
    if (valid == 1 || valid == 3)
        v |= (unsigned)((const unsigned char *)from)[valid - 1] << 8 * (valid - 1);
    *(unsigned *)to = v;
}
SPC_DEVICE void spc_copy_commit(void) {}
#define spc_copy_wait(n) ((void)0)
#endif

/* ---- matrix fragments ------------------------------------------------------------ */

/* Loads four (two) 8x8 matrices of 16-bit elements. Lane l gives the address of row
 * l % 8 of matrix l / 8. */
SPC_DEVICE void spc_ldmatrix4(spc_u32 *r, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(spc_shared_address(row))
                 : "memory");
}
SPC_DEVICE void spc_ldmatrix4_trans(spc_u32 *r, const void *row)
{
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"(spc_shared_address(row))
        : "memory");
}
/* Transposes an 8x8 matrix of 16-bit elements in the accumulator layout. */
SPC_DEVICE spc_u32 spc_movmatrix(spc_u32 v)
{
    spc_u32 r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                 : "=r"(r)
                 : "r"(v));
    return r;
}

/*
 * d[4] += a[4] * b[2], one 16x8 tile of a warp (PTX ISA, mma.m16n8k16 and
 * m16n8k8; fp32 accumulation). bf16 (k16) and tf32 (k8) need sm_80.
 */
SPC_DEVICE void spc_mma_f16(float *d, const spc_u32 *a, const spc_u32 *b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#endif
}
/*
 * As spc_mma_f16 with sums in fp16. d[2] holds the four sums, two in a word. The
 * hardware decides how it adds the products of a step; the result is rounded to fp16.
 */
SPC_DEVICE void spc_mma_f16_sums(spc_u32 *d, const spc_u32 *a, const spc_u32 *b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
                 "{%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
#else
    SPC_UNROLL
    for (int i = 0; i < 2; i++) /* the halves of k */
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 "
                     "{%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                     : "+r"(d[0]), "+r"(d[1])
                     : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
}
/*
 * The first half of k only: a[2] and half the words of b, which are a lane's
 * parts of a product of 16 x 8 by 8 x 8 (mma.m16n8k8).
 */
SPC_DEVICE void spc_mma_k8_f16(float *d, const spc_u32 *a, spc_u32 b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}
/*
 * The same for int8, with k 32 and int32 accumulation (PTX ISA, mma.m16n8k32). A
 * register holds four neighbours along k. Sums wrap around.
 */
SPC_DEVICE void spc_mma_i8(int *d, const spc_u32 *a, const spc_u32 *b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
#else
    SPC_UNROLL
    for (int i = 0; i < 4; i++) /* rows g and g + 8, the halves of k */
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 "
                     "{%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+r"(d[i % 2 * 2]), "+r"(d[i % 2 * 2 + 1])
                     : "r"(a[i]), "r"(b[i / 2]));
#endif
}
#if __CUDA_ARCH__ >= 800
SPC_DEVICE void spc_mma_tf32(float *d, const spc_u32 *a, const spc_u32 *b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
}
/* As spc_mma_f16, for bfloat16. */
SPC_DEVICE void spc_mma_bf16(float *d, const spc_u32 *a, const spc_u32 *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
}
/* As spc_mma_k8_f16, for bfloat16. */
SPC_DEVICE void spc_mma_k8_bf16(float *d, const spc_u32 *a, spc_u32 b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}
/* Rounds to the nearest tf32, as the matrix units expect. One instruction. From
 * sm_90 on ties go to even, before that away from zero. */
SPC_DEVICE spc_u32 spc_f32_to_tf32(float v)
{
    spc_u32 r;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
#else
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
#endif
    return r;
}
#endif

/* ---- numbers ----------------------------------------------------------------------- */

SPC_DEVICE float spc_f16_to_f32(spc_u16 v)
{
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v));
    return r;
}
SPC_DEVICE spc_u16 spc_f32_to_f16(float v)
{
    spc_u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}
/* Two binary16 numbers, `low` in the lower half. */
SPC_DEVICE spc_u32 spc_pack_f16(float low, float high)
{
#if __CUDA_ARCH__ >= 800
    spc_u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
#else
    return (spc_u32)spc_f32_to_f16(low) | (spc_u32)spc_f32_to_f16(high) << 16;
#endif
}
SPC_DEVICE float spc_bits_f32(spc_u32 v) { return __uint_as_float(v); }
SPC_DEVICE spc_u32 spc_f32_bits(float v) { return __float_as_uint(v); }
SPC_DEVICE float spc_fma(float a, float b, float c) { return fmaf(a, b, c); }
/* Rounds the product separately, so the compiler cannot fuse it with an
 * addition. */
SPC_DEVICE float spc_mul_rn(float a, float b) { return __fmul_rn(a, b); }
SPC_DEVICE float spc_add_rn(float a, float b) { return __fadd_rn(a, b); }
/* bfloat16 is the upper half of an fp32. Rounds to nearest, ties to even. */
SPC_DEVICE float spc_bf16_to_f32(spc_u16 v)
{
    return __uint_as_float((spc_u32)v << 16);
}
SPC_DEVICE spc_u16 spc_f32_to_bf16(float v)
{
#if __CUDA_ARCH__ >= 800
    spc_u16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
#else
    spc_u32 bits = __float_as_uint(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (spc_u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}
SPC_DEVICE spc_u32 spc_pack_bf16(float low, float high)
{
#if __CUDA_ARCH__ >= 800
    spc_u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
#else
    return (spc_u32)spc_f32_to_bf16(low) | (spc_u32)spc_f32_to_bf16(high) << 16;
#endif
}
/*
 * int8: rounds to the nearest integer from -128 to 127, ties to even, NaN to 0.
 * Also packs four of them, the first in the lowest byte, and extracts byte i of
 * such a word.
 */
SPC_DEVICE int spc_f32_to_i8(float v)
{
    int r;
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(r) : "f"(v));
    return r;
}
SPC_DEVICE spc_u32 spc_pack_i8(float v0, float v1, float v2, float v3)
{
    spc_u32 r;
    asm("{\n.reg .b32 high;\n"
        "cvt.pack.sat.s8.s32.b32 high, %4, %3, 0;\n"
        "cvt.pack.sat.s8.s32.b32 %0, %2, %1, high;\n}"
        : "=r"(r)
        : "r"(__float2int_rn(v0)), "r"(__float2int_rn(v1)),
          "r"(__float2int_rn(v2)), "r"(__float2int_rn(v3)));
    return r;
}
SPC_DEVICE float spc_i8_to_f32(spc_u32 v, int i)
{
    return (float)(signed char)(v >> 8 * i);
}
/* Converts an integer to the nearest float, ties to even. Also 1 / v, rounded
 * to nearest. */
SPC_DEVICE float spc_int_to_f32(int v) { return __int2float_rn(v); }
SPC_DEVICE float spc_reciprocal(float v) { return __frcp_rn(v); }
/*
 * For epilogues. Within 2 units in the last place: exp(v), exp(v) - 1 for v < 88,
 * a / b for 2^-126 <= |b| <= 2^126 (0 for larger b and finite a). erf(v) within
 * 2^-21.
 */
SPC_DEVICE float spc_exp(float v) { return expf(v); }
SPC_DEVICE float spc_expm1(float v) { return expm1f(v); }
SPC_DEVICE float spc_erf(float v) { return erff(v); }
SPC_DEVICE float spc_divide(float a, float b) { return __fdividef(a, b); }

/* ---- barriers in memory and bulk copies (sm_90) --------------------------------------- */

#if __CUDA_ARCH__ >= 900
/*
 * An mbarrier is a spc_u64 in shared memory. One thread initialises it with the
 * number of arrivals of a phase, then calls spc_mbar_fence() and passes a block
 * barrier.
 */
SPC_DEVICE void spc_mbar_init(spc_u64 *bar, int count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(
                     spc_shared_address(bar)),
                 "r"(count)
                 : "memory");
}
SPC_DEVICE void spc_mbar_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
SPC_DEVICE void spc_mbar_arrive(spc_u64 *bar)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(
                     spc_shared_address(bar))
                 : "memory");
}
/* Arrives, and adds `bytes` to the bytes that bulk copies must bring in this
 * phase. */
SPC_DEVICE void spc_mbar_expect(spc_u64 *bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(
                     spc_shared_address(bar)),
                 "r"(bytes)
                 : "memory");
}
/* Waits until the phase of this parity (0 first) has completed. */
SPC_DEVICE void spc_mbar_wait(spc_u64 *bar, int parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(spc_shared_address(bar)),
                 "r"(parity)
                 : "memory");
}
/* Copies `bytes` (a multiple of 16) of contiguous global memory; called by one
 * thread. */
SPC_DEVICE void spc_bulk_copy(void *to, const void *from, int bytes,
                              spc_u64 *bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes [%0], [%1], %2, [%3];" ::"r"(spc_shared_address(to)),
                 "l"(from), "r"(bytes), "r"(spc_shared_address(bar))
                 : "memory");
}
/* Makes earlier ordinary stores to shared memory visible to wgmma and bulk
 * copies after the next barrier. */
SPC_DEVICE void spc_fence_async(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/*
 * Clusters are consecutive blocks in x that are launched together. The first
 * function is a barrier of all their threads that have not ended; it orders
 * accesses to shared and global memory. The second reads 16 bytes of the shared
 * memory of the cluster's block `block`, at the address that `p` has in this
 * block. It must be between two barriers, so that the other block exists.
 */
SPC_DEVICE void spc_cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
}
SPC_DEVICE spc_b16 spc_cluster_load16(const void *p, int block)
{
    spc_b16 v;
    asm volatile("{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %4, %5;\n"
                 "ld.shared::cluster.v4.b32 {%0,%1,%2,%3}, [at];\n}"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(spc_shared_address(p)), "r"(block)
                 : "memory");
    return v;
}

/* The same barrier without the wait for memory. It makes visible only the
 * initialisation of mbarriers, after spc_mbar_fence. */
SPC_DEVICE void spc_cluster_start(void)
{
    asm volatile("barrier.cluster.arrive.relaxed;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
}
/*
 * An arrival at the mbarrier of the cluster's block `block`, at the address
 * that `bar` has in this block. Also a wait for arrivals from all blocks of a
 * cluster, which makes their earlier stores to shared memory visible. The
 * barriers of other blocks may be used after spc_cluster_start.
 */
SPC_DEVICE void spc_cluster_arrive(spc_u64 *bar, int block)
{
    asm volatile("{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [at];\n}"
                 ::"r"(spc_shared_address(bar)),
                 "r"(block)
                 : "memory");
}
SPC_DEVICE void spc_cluster_wait(spc_u64 *bar, int parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 "
                 "done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(spc_shared_address(bar)),
                 "r"(parity)
                 : "memory");
}

/* Programmatic dependent launch: waits for the kernels before this one; lets
 * the next kernel start. No effect if the launch did not request it. */
SPC_DEVICE void spc_depend_wait(void)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
SPC_DEVICE void spc_depend_launch(void)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#else
/* Before sm_90 there are no mbarriers. The function exists because shared code
 * may contain calls to it. */
SPC_DEVICE void spc_mbar_wait(spc_u64 *bar, int parity)
{
    (void)bar;
    (void)parity;
}
SPC_DEVICE void spc_depend_wait(void) {}
SPC_DEVICE void spc_depend_launch(void) {}
#endif

/* ---- warpgroup matrix products (sm_90a) -------------------------------------------------- */

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

#define spc_registers_raise(n)                                                 \
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))
#define spc_registers_lower(n)                                                 \
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))

/*
 * The descriptor of a matrix in shared memory without swizzle. Core matrices
 * have 8 rows of 16 bytes, in 128 contiguous bytes. `leading` is the distance in
 * bytes between consecutive core matrices along K, `stride` along N.
 */
SPC_DEVICE spc_u64 spc_wgmma_descriptor(const void *p, int leading, int stride)
{
    return (spc_u64)((spc_shared_address(p) & 0x3ffffu) >> 4) |
           (spc_u64)(leading >> 4) << 16 | (spc_u64)(stride >> 4) << 32;
}
/*
 * The descriptor of rows with swizzle. Rows have 128 bytes, which are 64
 * neighbouring columns of 16 bits, and are contiguous. Piece j of 16 bytes of
 * row r is at j ^ r % 8. `leading` is the distance between groups of 64
 * columns, `stride` between groups of 8 rows. `p` is a multiple of 1024.
 */
SPC_DEVICE spc_u64 spc_wgmma_swizzled(const void *p, int leading, int stride)
{
    return spc_wgmma_descriptor(p, leading, stride) | 1ull << 62;
}
SPC_DEVICE void spc_wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
SPC_DEVICE void spc_wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
#define spc_wgmma_wait(n)                                                      \
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

/*
 * spc_wgmma_<n>_<type>(d, a, b, accumulate): one warpgroup computes d[n / 2]
 * (64 x n, fp32) = a[4] (registers) * b (descriptor, K-major) + d, without "+
 * d" if accumulate is 0. K is 16 for f16 and bf16, 8 for tf32.
 */
#define SPC_D8(o)                                                              \
    "+f"(d[o]), "+f"(d[o + 1]), "+f"(d[o + 2]), "+f"(d[o + 3]),                \
        "+f"(d[o + 4]), "+f"(d[o + 5]), "+f"(d[o + 6]), "+f"(d[o + 7])
#define SPC_D16(o) SPC_D8(o), SPC_D8(o + 8)
#define SPC_D32(o) SPC_D16(o), SPC_D16(o + 16)
#define SPC_D64(o) SPC_D32(o), SPC_D32(o + 32)
#define SPC_T8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define SPC_T16 SPC_T8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define SPC_T24 SPC_T16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define SPC_T32 SPC_T24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define SPC_T48                                                                \
    SPC_T32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define SPC_T64                                                                \
    SPC_T48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define SPC_T96                                                                \
    SPC_T64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
            ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define SPC_T128                                                               \
    SPC_T96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108"    \
            ",%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120"     \
            ",%121,%122,%123,%124,%125,%126,%127"

#define SPC_WGMMA(n, k, type, text, A0, A1, A2, A3, B, P, ...)                 \
    SPC_DEVICE void spc_wgmma_##n##_##type(float *d, const spc_u32 *a,         \
                                           spc_u64 b, int accumulate)          \
    {                                                                          \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"            \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k" #k             \
                     ".f32." #type "." #type " {" text "}, {" A0 "," A1        \
                     "," A2 "," A3 "}, " B ", p, 1, 1" SPC_TRANS_##type        \
                     ";\n}\n"                                                  \
                     : __VA_ARGS__                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),     \
                       "r"(accumulate));                                       \
    }
#define SPC_TRANS_f16 ", 0"
#define SPC_TRANS_bf16 ", 0"
#define SPC_TRANS_tf32 ""

#define SPC_WGMMA_SIZES(k, type)                                               \
    SPC_WGMMA(16, k, type, SPC_T8, "%8", "%9", "%10", "%11", "%12", "%13",     \
              SPC_D8(0))                                                       \
    SPC_WGMMA(32, k, type, SPC_T16, "%16", "%17", "%18", "%19", "%20", "%21",  \
              SPC_D16(0))                                                      \
    SPC_WGMMA(48, k, type, SPC_T24, "%24", "%25", "%26", "%27", "%28", "%29",  \
              SPC_D16(0), SPC_D8(16))                                          \
    SPC_WGMMA(64, k, type, SPC_T32, "%32", "%33", "%34", "%35", "%36", "%37",  \
              SPC_D32(0))                                                      \
    SPC_WGMMA(96, k, type, SPC_T48, "%48", "%49", "%50", "%51", "%52", "%53",  \
              SPC_D32(0), SPC_D16(32))                                         \
    SPC_WGMMA(128, k, type, SPC_T64, "%64", "%65", "%66", "%67", "%68", "%69", \
              SPC_D64(0))                                                      \
    SPC_WGMMA(192, k, type, SPC_T96, "%96", "%97", "%98", "%99", "%100",       \
              "%101", SPC_D64(0), SPC_D32(64))                                 \
    SPC_WGMMA(256, k, type, SPC_T128, "%128", "%129", "%130", "%131", "%132",  \
              "%133", SPC_D64(0), SPC_D64(64))

SPC_WGMMA_SIZES(16, f16)
SPC_WGMMA_SIZES(16, bf16)
SPC_WGMMA_SIZES(8, tf32)

/*
 * The same for 16-bit types with B stored in rows: spc_wgmma_rows_<n>_<type>. A
 * core matrix has 8 rows of K by 16 bytes of neighbouring columns. `leading` and
 * `stride` of the descriptor are along K and N as before.
 */
#define SPC_WGMMA_ROWS(n, type, text, A0, A1, A2, A3, B, P, ...)               \
    SPC_DEVICE void spc_wgmma_rows_##n##_##type(float *d, const spc_u32 *a,    \
                                                spc_u64 b, int accumulate)     \
    {                                                                          \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"            \
                     "wgmma.mma_async.sync.aligned.m64n" #n                    \
                     "k16.f32." #type "." #type " {" text "}, {" A0 "," A1     \
                     "," A2 "," A3 "}, " B ", p, 1, 1, 1;\n}\n"                \
                     : __VA_ARGS__                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),     \
                       "r"(accumulate));                                       \
    }
#define SPC_WGMMA_ROWS_SIZES(type)                                             \
    SPC_WGMMA_ROWS(64, type, SPC_T32, "%32", "%33", "%34", "%35", "%36",       \
                   "%37", SPC_D32(0))                                          \
    SPC_WGMMA_ROWS(128, type, SPC_T64, "%64", "%65", "%66", "%67", "%68",      \
                   "%69", SPC_D64(0))                                          \
    SPC_WGMMA_ROWS(256, type, SPC_T128, "%128", "%129", "%130", "%131",        \
                   "%132", "%133", SPC_D64(0), SPC_D64(64))

SPC_WGMMA_ROWS_SIZES(f16)
SPC_WGMMA_ROWS_SIZES(bf16)

/*
 * The same with A in shared memory as well, 64 neighbouring columns of its
 * rows: spc_wgmma_both_<n>_<type>(d, a, b, accumulate) is d += transposed(A) *
 * B.
 */
#define SPC_WGMMA_BOTH(n, type, text, A, B, P, ...)                            \
    SPC_DEVICE void spc_wgmma_both_##n##_##type(float *d, spc_u64 a,           \
                                                spc_u64 b, int accumulate)     \
    {                                                                          \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"            \
                     "wgmma.mma_async.sync.aligned.m64n" #n                    \
                     "k16.f32." #type "." #type " {" text "}, " A ", " B       \
                     ", p, 1, 1, 1, 1;\n}\n"                                   \
                     : __VA_ARGS__                                             \
                     : "l"(a), "l"(b), "r"(accumulate));                       \
    }
#define SPC_WGMMA_BOTH_SIZES(type)                                             \
    SPC_WGMMA_BOTH(64, type, SPC_T32, "%32", "%33", "%34", SPC_D32(0))         \
    SPC_WGMMA_BOTH(128, type, SPC_T64, "%64", "%65", "%66", SPC_D64(0))        \
    SPC_WGMMA_BOTH(256, type, SPC_T128, "%128", "%129", "%130", SPC_D64(0),    \
                   SPC_D64(64))

SPC_WGMMA_BOTH_SIZES(f16)
SPC_WGMMA_BOTH_SIZES(bf16)

/* The same for int8, with k 32 and int32 accumulation. */
#define SPC_R8(o)                                                              \
    "+r"(d[o]), "+r"(d[o + 1]), "+r"(d[o + 2]), "+r"(d[o + 3]),                \
        "+r"(d[o + 4]), "+r"(d[o + 5]), "+r"(d[o + 6]), "+r"(d[o + 7])
#define SPC_R16(o) SPC_R8(o), SPC_R8(o + 8)
#define SPC_R32(o) SPC_R16(o), SPC_R16(o + 16)
#define SPC_R64(o) SPC_R32(o), SPC_R32(o + 32)
#define SPC_WGMMA_I8(n, text, A0, A1, A2, A3, B, P, ...)                       \
    SPC_DEVICE void spc_wgmma_##n##_i8(int *d, const spc_u32 *a, spc_u64 b,    \
                                       int accumulate)                         \
    {                                                                          \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"            \
                     "wgmma.mma_async.sync.aligned.m64n" #n                    \
                     "k32.s32.s8.s8 {" text "}, {" A0 "," A1 "," A2 "," A3     \
                     "}, " B ", p;\n}\n"                                       \
                     : __VA_ARGS__                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),     \
                       "r"(accumulate));                                       \
    }
SPC_WGMMA_I8(16, SPC_T8, "%8", "%9", "%10", "%11", "%12", "%13", SPC_R8(0))
SPC_WGMMA_I8(32, SPC_T16, "%16", "%17", "%18", "%19", "%20", "%21", SPC_R16(0))
SPC_WGMMA_I8(48, SPC_T24, "%24", "%25", "%26", "%27", "%28", "%29", SPC_R16(0),
             SPC_R8(16))
SPC_WGMMA_I8(64, SPC_T32, "%32", "%33", "%34", "%35", "%36", "%37", SPC_R32(0))
SPC_WGMMA_I8(96, SPC_T48, "%48", "%49", "%50", "%51", "%52", "%53", SPC_R32(0),
             SPC_R16(32))
SPC_WGMMA_I8(128, SPC_T64, "%64", "%65", "%66", "%67", "%68", "%69", SPC_R64(0))
SPC_WGMMA_I8(192, SPC_T96, "%96", "%97", "%98", "%99", "%100", "%101",
             SPC_R64(0), SPC_R32(64))
SPC_WGMMA_I8(256, SPC_T128, "%128", "%129", "%130", "%131", "%132", "%133",
             SPC_R64(0), SPC_R64(64))

#endif /* sm_90a */
#endif /* __CUDACC__ */
#endif
