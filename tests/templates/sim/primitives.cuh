/*
 * primitives.cuh - one kernel for each group of primitives.
 *
 * Compiled twice: by nvcc into the recorder of the golden vectors, and by the
 * host's compiler into the emulation. Inputs and outputs are words; in_words,
 * out_words and the meaning of each word are in primitives.h.
 */
#ifndef SPC_TEST_PRIMITIVES_CUH
#define SPC_TEST_PRIMITIVES_CUH

#include "spc_device.cuh"

#include "primitives_args.h"

SPC_KERNEL(lanes, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;
    int lane = spc_lane();
    spc_u32 v = in[lane];

    out[lane] = (spc_u32)spc_shfl((int)v, (int)(in[32 + lane] & 31u));
    out[32 + lane] = (spc_u32)spc_shfl_up((int)v, 5);
    out[64 + lane] = (spc_u32)spc_shfl_xor((int)v, 11);
    out[96 + lane] =
        spc_f32_bits(spc_shfl_xor_f32(spc_bits_f32(v & 0x3fffffffu), 16));
    out[128 + lane] = spc_ballot((v & 4u) != 0);
    out[160 + lane] = spc_warp_or(v & (1u << lane));
    out[192 + lane] = spc_match(v & 3u);
    out[224 + lane] = spc_warp_min(v);
}

SPC_KERNEL(bits, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;

    for (int i = spc_lane(); i < 64; i += 32) {
        out[i] = (spc_u32)spc_popc(in[i]);
        out[64 + i] = (spc_u32)spc_ffs(in[i]);
        out[128 + i] = (spc_u32)spc_clz(in[i]);
        out[192 + i] = spc_brev(in[i]);
    }
}

/* Each atomic has a word of its own, so that the order does not matter. Stores
 * old values, then new ones. */
SPC_KERNEL(atomics, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;
    int lane = spc_lane();
    spc_u32 v = in[32 + lane], a = in[lane];
    spc_u32 *cell = out + 256 + lane;

    for (int i = 0; i < 8; i++)
        cell[32 * i] = a;
    cell[64] = a & 0x3fffffffu;
    out[lane] = (spc_u32)spc_atomic_add((int *)cell, (int)v);
    out[32 + lane] = spc_atomic_add_u32(cell + 32, v);
    float addend = spc_bits_f32(v & 0x3fffffffu);
    out[64 + lane] =
        spc_f32_bits(spc_atomic_add_f32((float *)(cell + 64), addend));
    out[96 + lane] = spc_atomic_or(cell + 96, v);
    out[128 + lane] = (spc_u32)spc_atomic_min((int *)(cell + 128), (int)v);
    out[160 + lane] = (spc_u32)spc_atomic_max((int *)(cell + 160), (int)v);
    out[192 + lane] = spc_atomic_cas(cell + 192, a, v);
    out[224 + lane] = spc_atomic_cas(cell + 224, a + 1u, v);
}

SPC_KERNEL(numbers, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;

    for (int i = spc_lane(); i < 512; i += 32) {
        spc_u32 v = in[i], w = in[(i + 7) & 511];
        out[i] = spc_f32_bits(spc_f16_to_f32((spc_u16)v));
        out[512 + i] = spc_f32_to_f16(spc_bits_f32(w));
        out[1024 + i] = spc_pack_f16(spc_bits_f32(v), spc_bits_f32(w));
        out[1536 + i] = spc_f32_to_tf32(spc_bits_f32(v));
        float a = spc_bits_f32(v & 0x3fffffffu);
        float b = spc_bits_f32(w & 0x3fffffffu);
        float c = spc_bits_f32(v ^ w) * 0.0f + 1.0f;
        out[2048 + i] = spc_f32_bits(spc_fma(a, b, c));
    }
}

/* int8: from fp32, four in a word, and back; integers to fp32, reciprocals of
 * normal numbers, and moves of single bytes. */
SPC_KERNEL(bytes, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;

    for (int i = spc_lane(); i < 256; i += 32) {
        float v[4];
        for (int j = 0; j < 4; j++)
            v[j] = spc_bits_f32(in[(i + 61 * j) & 255]);
        out[i] = (spc_u32)spc_f32_to_i8(v[0]);
        out[256 + i] = spc_pack_i8(v[0], v[1], v[2], v[3]);
        out[512 + i] = spc_f32_bits(spc_i8_to_f32(in[i] * 0x9e3779b1u, i & 3));
        out[768 + i] =
            spc_f32_bits(spc_int_to_f32((int)(in[i] * 0x85ebca6bu)));
        spc_u32 word = in[i] * 0xc2b2ae35u;
        spc_u32 normal = (word & 0x807fffffu) | (64 + (word >> 23 & 127)) << 23;
        out[1024 + i] = spc_f32_bits(spc_reciprocal(spc_bits_f32(normal)));
    }
    spc_store1((spc_u8 *)(out + 1280) + (31 - spc_lane()),
               spc_load1((const spc_u8 *)in + 5 * spc_lane()));
}

/* Shared memory holds 32 rows of 16 bytes, then the bytes that were moved. */
SPC_KERNEL(moves, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;
    spc_u8 *shared = spc_shared();
    int lane = spc_lane();
    spc_u32 r[4];
    spc_b8 half;
    spc_b16 row = spc_load16(in + 4 * lane);

    spc_shared_store16(shared + 16 * lane, row);
    spc_sync_warp();
    row = spc_shared_load16(shared + 16 * (lane ^ 1));
    spc_store16(out + 4 * lane, row);
    half = spc_load8(in + 2 * lane);
    spc_store8(out + 128 + 2 * lane, half);
    spc_store4(out + 192 + lane, spc_load4(in + 32 + lane));
    out[224 + lane] = (spc_u32)spc_load_int((const int *)in + lane);
    spc_ldmatrix4(r, shared + 16 * (31 - lane));
    for (int i = 0; i < 4; i++)
        out[256 + 32 * i + lane] = r[i];
    spc_ldmatrix4_trans(r, shared + 16 * lane);
    for (int i = 0; i < 4; i++)
        out[384 + 32 * i + lane] = r[i];
    out[512 + lane] = spc_movmatrix(in[lane]);
}

/* Sizes 16, 8 and 4 with every count of valid bytes. */
SPC_KERNEL(copies, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;
    spc_u8 *shared = spc_shared();
    int lane = spc_lane();
    spc_b16 fill;

    fill.x = fill.y = fill.z = fill.w = 0xabababab;
    for (int i = 0; i < 3; i++)
        spc_shared_store16(shared + 512 * i + 16 * lane, fill);
    spc_sync_warp();
    spc_copy_async16(shared + 16 * lane, in + 4 * lane,
                     lane > 16 ? 16 : lane);
    spc_copy_commit();
    spc_copy_async8(shared + 512 + 16 * lane, in + 4 * lane,
                    lane > 8 ? 8 : lane);
    spc_copy_commit();
    spc_copy_async4(shared + 1024 + 16 * lane, in + 4 * lane,
                    lane > 4 ? 4 : lane);
    spc_copy_commit();
    spc_copy_wait(2);
    spc_store16(out + 4 * lane, spc_shared_load16(shared + 16 * lane));
    spc_copy_wait(0);
    for (int i = 1; i < 3; i++)
        spc_store16(out + 128 * i + 4 * lane,
                    spc_shared_load16(shared + 512 * i + 16 * lane));
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
SPC_KERNEL(mma_f16, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;
    int lane = spc_lane();
    float d[4];

    for (int i = 0; i < 4; i++)
        d[i] = spc_bits_f32(in[192 + 4 * lane + i]);
    spc_mma_f16(d, in + 4 * lane, in + 128 + 2 * lane);
    for (int i = 0; i < 4; i++)
        out[4 * lane + i] = spc_f32_bits(d[i]);
}

/* Adds in fp16, two numbers in a word. */
SPC_KERNEL(mma_sums_f16, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out, d[2];
    int lane = spc_lane();

    for (int i = 0; i < 2; i++)
        d[i] = spc_pack_f16(spc_bits_f32(in[192 + 4 * lane + 2 * i]),
                            spc_bits_f32(in[192 + 4 * lane + 2 * i + 1]));
    spc_mma_f16_sums(d, in + 4 * lane, in + 128 + 2 * lane);
    for (int i = 0; i < 4; i++)
        out[4 * lane + i] =
            spc_f32_bits(spc_f16_to_f32((spc_u16)(d[i / 2] >> 16 * (i % 2))));
}

SPC_KERNEL(mma_i8, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;
    int lane = spc_lane();
    int d[4];

    for (int i = 0; i < 4; i++)
        d[i] = (int)in[192 + 4 * lane + i];
    spc_mma_i8(d, in + 4 * lane, in + 128 + 2 * lane);
    for (int i = 0; i < 4; i++)
        out[4 * lane + i] = (spc_u32)d[i];
}

SPC_KERNEL(mma_tf32, primitive_args, 32, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;
    int lane = spc_lane();
    float d[4];

    for (int i = 0; i < 4; i++)
        d[i] = spc_bits_f32(in[192 + 4 * lane + i]);
    spc_mma_tf32(d, in + 4 * lane, in + 128 + 2 * lane);
    for (int i = 0; i < 4; i++)
        out[4 * lane + i] = spc_f32_bits(d[i]);
}
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/*
 * A ring of one slot: thread 0 copies 512 bytes twice, all threads read them.
 */
SPC_KERNEL(bulk, primitive_args, 64, 1)
{
    const spc_u32 *in = args->in;
    spc_u32 *out = args->out;
    spc_u8 *shared = spc_shared();
    spc_u64 *full = (spc_u64 *)(shared + 512);
    spc_u64 *empty = full + 1;
    int thread = spc_thread();

    if (thread == 0) {
        spc_mbar_init(full, 1);
        spc_mbar_init(empty, 64);
        spc_mbar_fence();
    }
    spc_sync_block();
    for (int i = 0; i < 4; i++) {
        if (thread == 0) {
            if (i > 0)
                spc_mbar_wait(empty, (i - 1) & 1);
            spc_mbar_expect(full, 512);
            spc_bulk_copy(shared, in + 128 * i, 512, full);
        }
        spc_mbar_wait(full, i & 1);
        spc_store8(out + 128 * i + 2 * thread,
                   spc_shared_load8(shared + 8 * (63 - thread)));
        spc_mbar_arrive(empty);
    }
}
#endif

/* Two products: the first adds to 0, the second to the first result. The input
 * has A's registers, then B's image: core matrices in the order (n, k) or (k,
 * n). */
#define PRIMITIVE_WGMMA_OF(name, n, leading, stride)                           \
    SPC_KERNEL(wgmma_##name, primitive_args, 128, 1)                           \
    {                                                                          \
        const spc_u32 *in = args->in;                                          \
        spc_u32 *out = args->out;                                              \
        spc_u8 *shared = spc_shared();                                         \
        int thread = spc_thread();                                             \
        spc_u32 a[4];                                                          \
        float d[(n) / 2];                                                      \
        SPC_UNROLL for (int i = 0; i < 4; i++) a[i] = in[4 * thread + i];      \
        for (int i = thread; i < 2 * (n); i += 128)                            \
            spc_shared_store16(shared + 16 * i, spc_load16(in + 512 + 4 * i)); \
        spc_fence_async();                                                     \
        spc_sync_block();                                                      \
        spc_u64 b = spc_wgmma_descriptor(shared, leading, stride);             \
        SPC_UNROLL for (int i = 0; i < (n) / 2; i++) d[i] = 3.0f;              \
        spc_wgmma_fence();                                                     \
        spc_wgmma_##name(d, a, b, 0);                                          \
        spc_wgmma_##name(d, a, b, 1);                                          \
        spc_wgmma_commit();                                                    \
        spc_wgmma_wait(0);                                                     \
        SPC_UNROLL for (int i = 0; i < (n) / 2; i++)                           \
            out[(n) / 2 * thread + i] = spc_f32_bits(d[i]);                    \
    }
#define PRIMITIVE_WGMMA(n, type, leading, stride)                              \
    PRIMITIVE_WGMMA_OF(n##_##type, n, leading, stride)

/* Products with both images in shared memory, A's after B's. */
#define PRIMITIVE_WGMMA_BOTH(n, descriptor, leading, stride, a_leading,        \
                             a_stride)                                         \
    SPC_KERNEL(wgmma_both_##n##_f16, primitive_args, 128, 1)                   \
    {                                                                          \
        const spc_u32 *in = args->in;                                          \
        spc_u32 *out = args->out;                                              \
        spc_u8 *shared = spc_shared();                                         \
        int thread = spc_thread();                                             \
        float d[(n) / 2];                                                      \
        for (int i = thread; i < 2 * (n); i += 128)                            \
            spc_shared_store16(shared + 16 * i, spc_load16(in + 512 + 4 * i)); \
        spc_shared_store16(shared + 32 * (n) + 16 * thread,                    \
                           spc_load16(in + 4 * thread));                       \
        spc_fence_async();                                                     \
        spc_sync_block();                                                      \
        spc_u64 b = descriptor(shared, leading, stride);                       \
        spc_u64 a = descriptor(shared + 32 * (n), a_leading, a_stride);        \
        SPC_UNROLL for (int i = 0; i < (n) / 2; i++) d[i] = 3.0f;              \
        spc_wgmma_fence();                                                     \
        spc_wgmma_both_##n##_f16(d, a, b, 0);                                  \
        spc_wgmma_both_##n##_f16(d, a, b, 1);                                  \
        spc_wgmma_commit();                                                    \
        spc_wgmma_wait(0);                                                     \
        SPC_UNROLL for (int i = 0; i < (n) / 2; i++)                           \
            out[(n) / 2 * thread + i] = spc_f32_bits(d[i]);                    \
    }

/* Products of int8. */
#define PRIMITIVE_WGMMA_I8(n, leading, stride)                                 \
    SPC_KERNEL(wgmma_##n##_i8, primitive_args, 128, 1)                         \
    {                                                                          \
        const spc_u32 *in = args->in;                                          \
        spc_u32 *out = args->out;                                              \
        spc_u8 *shared = spc_shared();                                         \
        int thread = spc_thread();                                             \
        spc_u32 a[4];                                                          \
        int d[(n) / 2];                                                        \
        SPC_UNROLL for (int i = 0; i < 4; i++) a[i] = in[4 * thread + i];      \
        for (int i = thread; i < 2 * (n); i += 128)                            \
            spc_shared_store16(shared + 16 * i, spc_load16(in + 512 + 4 * i)); \
        spc_fence_async();                                                     \
        spc_sync_block();                                                      \
        spc_u64 b = spc_wgmma_descriptor(shared, leading, stride);             \
        SPC_UNROLL for (int i = 0; i < (n) / 2; i++) d[i] = 3;                 \
        spc_wgmma_fence();                                                     \
        spc_wgmma_##n##_i8(d, a, b, 0);                                        \
        spc_wgmma_##n##_i8(d, a, b, 1);                                        \
        spc_wgmma_commit();                                                    \
        spc_wgmma_wait(0);                                                     \
        SPC_UNROLL for (int i = 0; i < (n) / 2; i++)                           \
            out[(n) / 2 * thread + i] = (spc_u32)d[i];                         \
    }

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
PRIMITIVE_WGMMA_I8(16, 128, 256)
PRIMITIVE_WGMMA_I8(32, 32 * 16, 128)
PRIMITIVE_WGMMA_I8(48, 128, 256)
PRIMITIVE_WGMMA_I8(64, 64 * 16, 128)
PRIMITIVE_WGMMA_I8(96, 128, 256)
PRIMITIVE_WGMMA_I8(128, 128 * 16, 128)
PRIMITIVE_WGMMA_I8(192, 128, 256)
PRIMITIVE_WGMMA_I8(256, 256 * 16, 128)
PRIMITIVE_WGMMA(16, f16, 128, 256)
PRIMITIVE_WGMMA(32, f16, 32 * 16, 128)
PRIMITIVE_WGMMA(48, f16, 128, 256)
PRIMITIVE_WGMMA(64, f16, 64 * 16, 128)
PRIMITIVE_WGMMA(96, f16, 128, 256)
PRIMITIVE_WGMMA(128, f16, 128 * 16, 128)
PRIMITIVE_WGMMA(192, f16, 128, 256)
PRIMITIVE_WGMMA(256, f16, 256 * 16, 128)
PRIMITIVE_WGMMA(16, tf32, 16 * 16, 128)
PRIMITIVE_WGMMA(32, tf32, 128, 256)
PRIMITIVE_WGMMA(48, tf32, 48 * 16, 128)
PRIMITIVE_WGMMA(64, tf32, 128, 256)
PRIMITIVE_WGMMA(96, tf32, 96 * 16, 128)
PRIMITIVE_WGMMA(128, tf32, 128, 256)
PRIMITIVE_WGMMA(192, tf32, 192 * 16, 128)
PRIMITIVE_WGMMA(256, tf32, 128, 256)
PRIMITIVE_WGMMA_OF(rows_64_f16, 64, 64 * 16, 128)
PRIMITIVE_WGMMA_OF(rows_128_f16, 128, 128, 256)
PRIMITIVE_WGMMA_OF(rows_256_f16, 256, 256 * 16, 128)
PRIMITIVE_WGMMA_BOTH(64, spc_wgmma_swizzled, 2048, 1024, 2048, 1024)
PRIMITIVE_WGMMA_BOTH(128, spc_wgmma_descriptor, 128, 256, 64 * 16, 128)
PRIMITIVE_WGMMA_BOTH(256, spc_wgmma_swizzled, 2048, 1024, 2048, 1024)
#endif

#endif
