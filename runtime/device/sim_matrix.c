/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_matrix.c - the computation that the last lane of a collective does for
 * its warp.
 *
 * A tile of a product is 16 rows by 8 columns. Products of 16-bit numbers and
 * of tf32 are exact in fp32. A fused and an unfused multiply-add therefore
 * agree, and every machine gives the same sums: k in rising order, one rounding
 * for each step.
 */
#include "device/sim.h"

#include <string.h>

typedef float floats8 __attribute__((vector_size(32)));
typedef uint32_t words8 __attribute__((vector_size(32)));
typedef uint16_t halves8 __attribute__((vector_size(16)));

#define ALWAYS static inline __attribute__((always_inline))

/* One version uses AVX2; the plain one is for all other machines. */
#if defined(__x86_64__)
#define FAST __attribute__((target("avx2,fma")))
#define HAVE_FAST                                                              \
    (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#else
#define FAST
#define HAVE_FAST 0
#endif

/* ---- conversions ----------------------------------------------------- */

/* Like spc_f16_to_f32, eight at a time. */
ALWAYS void widen(float *to, const uint16_t *from)
{
    halves8 half;
    memcpy(&half, from, sizeof(half));
    words8 word = __builtin_convertvector(half, words8);
    /* The bits of an f16, shifted to the exponent and mantissa of an f32 and
     * multiplied by 2^112, have the right value, also for denormals. Infinities
     * and NaN need an exponent of all ones. */
    words8 rest = (word & 0x7fff) << 13;
    words8 special = (words8)(rest >= 0x0f800000);
    words8 scaled = (words8)((floats8)rest * 0x1p112f);
    words8 bits = (scaled & ~special) | ((rest | 0x70000000) & special) |
                  (word & 0x8000) << 16;
    memcpy(to, &bits, sizeof(bits));
}

/* A bfloat16 is the upper half of an fp32. */
ALWAYS void widen_bf16(float *to, const uint16_t *from)
{
    halves8 half;
    memcpy(&half, from, sizeof(half));
    words8 word = __builtin_convertvector(half, words8) << 16;
    memcpy(to, &word, sizeof(word));
}

ALWAYS void widen_as(float *to, const uint16_t *from, bool bf16)
{
    if (bf16)
        widen_bf16(to, from);
    else
        widen(to, from);
}

/* The matrix units ignore the lower 13 bits of a tf32 operand. */
ALWAYS void narrow_tf32(float *to, const uint32_t *from, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t bits = from[i] & 0xffffe000u;
        memcpy(&to[i], &bits, sizeof(bits));
    }
}

/* Unpacks a[4] of 32 lanes to rows of 16: blocks (0,0), (8,0), (0,8), (8,8). */
ALWAYS void unpack_a_short(float to[16][16], const uint32_t (*a)[32], bool bf16)
{
    for (int i = 0; i < 4; i++)
        for (int g = 0; g < 8; g++)
            widen_as(&to[8 * (i & 1) + g][8 * (i >> 1)],
                     (const uint16_t *)&a[i][4 * g], bf16);
}

/* Like unpack_a_short, with blocks of 8 rows by 4. */
ALWAYS void unpack_a_tf32(float to[16][16], const uint32_t (*a)[32])
{
    for (int i = 0; i < 4; i++)
        for (int g = 0; g < 8; g++)
            narrow_tf32(&to[8 * (i & 1) + g][4 * (i >> 1)], &a[i][4 * g], 4);
}

/* Four rows at a time. Their sums are independent and stay in registers. */
ALWAYS void multiply(float (*d)[8], float (*a)[16], float (*b)[8], int depth)
{
    for (int m = 0; m < 16; m += 4) {
        floats8 s0, s1, s2, s3, row;
        memcpy(&s0, d[m], sizeof(s0));
        memcpy(&s1, d[m + 1], sizeof(s1));
        memcpy(&s2, d[m + 2], sizeof(s2));
        memcpy(&s3, d[m + 3], sizeof(s3));
        for (int k = 0; k < depth; k++) {
            memcpy(&row, b[k], sizeof(row));
            s0 += a[m][k] * row;
            s1 += a[m + 1][k] * row;
            s2 += a[m + 2][k] * row;
            s3 += a[m + 3][k] * row;
        }
        memcpy(d[m], &s0, sizeof(s0));
        memcpy(d[m + 1], &s1, sizeof(s1));
        memcpy(d[m + 2], &s2, sizeof(s2));
        memcpy(d[m + 3], &s3, sizeof(s3));
    }
}

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
typedef int ints8 __attribute__((vector_size(32)));
#define MIX(x, y, ...) __builtin_shuffle(x, y, (ints8){__VA_ARGS__})
#else
#define MIX(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#endif

/* Transposes by swapping first pairs, then quads, then halves. */
ALWAYS void transpose(float (*tile)[8])
{
    floats8 r[8], p[8];
    memcpy(r, tile, sizeof(r));
    for (int i = 0; i < 8; i += 2) {
        p[i] = MIX(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        p[i + 1] = MIX(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 8; i++) {
        int low = i & ~2;
        r[i] = i & 2 ? MIX(p[low], p[low + 2], 2, 3, 10, 11, 6, 7, 14, 15)
                     : MIX(p[low], p[low + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    }
    for (int i = 0; i < 4; i++) {
        p[i] = MIX(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        p[i + 4] = MIX(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    memcpy(tile, p, sizeof(p));
}

/* ---- mma.sync -------------------------------------------------------- */

ALWAYS void mma(spc_sim_exchange *e, int op)
{
    float a[16][16], b[16][8];
    bool bf16 = op == SPC_SIM_MMA_BF16;
    if (op != SPC_SIM_MMA_TF32) {
        unpack_a_short(a, e->in.mma.a, bf16);
        for (int k = 0; k < 16; k++)
            widen_as(b[k], e->in.mma.b.f16[k], bf16);
        multiply(e->in.mma.d, a, b, 16);
    } else {
        unpack_a_tf32(a, e->in.mma.a);
        narrow_tf32(b[0], e->in.mma.b.tf32[0], 64);
        multiply(e->in.mma.d, a, b, 8);
    }
}

/* Unpacks the bytes of a word as signed numbers. */
ALWAYS void unpack_bytes(int8_t to[4], uint32_t word)
{
    memcpy(to, &word, 4);
}

/* A row of a is in the registers of four lanes. i / 2 is the half of k. */
ALWAYS void unpack_a_i8(int8_t to[16][32], const uint32_t (*a)[32])
{
    for (int i = 0; i < 4; i++)
        for (int lane = 0; lane < 32; lane++)
            unpack_bytes(
                &to[8 * (i & 1) + lane / 4][16 * (i >> 1) + lane % 4 * 4],
                a[i][lane]);
}

/* Sums wrap around as on the device. Unsigned arithmetic avoids the undefined
 * overflow of int. */
ALWAYS void multiply_i8(int32_t (*d)[8], int8_t (*a)[32], int8_t (*b)[32])
{
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            /* 32 products of bytes cannot overflow. */
            int32_t sum = 0;
            for (int k = 0; k < 32; k++)
                sum += a[m][k] * b[n][k];
            d[m][n] = (int32_t)((uint32_t)d[m][n] + (uint32_t)sum);
        }
}

/* A product of two tiles of i8. */
static void mma_i8(spc_sim_exchange *e)
{
    int8_t a[16][32], b[8][32];
    unpack_a_i8(a, e->in.mma_i8.a);
    for (int k = 0; k < 8; k++)
        for (int n = 0; n < 8; n++)
            unpack_bytes(&b[n][4 * k], e->in.mma_i8.b[k][n]);
    multiply_i8(e->in.mma_i8.d, a, b);
}

/* ---- wgmma ----------------------------------------------------------- */

/* Unpacks columns 8j .. 8j + 7 of B: two core matrices, each 8 columns by 16
 * contiguous bytes of k. */
ALWAYS void unpack_b(float (*b)[8], const unsigned char *core, int leading,
                     int op)
{
    for (int half = 0; half < 2; half++, core += leading) {
        float transposed[8][8];
        if (op != SPC_SIM_WGMMA_TF32) {
            for (int n = 0; n < 8; n++)
                widen_as(transposed[n], (const uint16_t *)(core + 16 * n),
                         op == SPC_SIM_WGMMA_BF16);
            transpose(transposed);
            memcpy(b[8 * half], transposed, sizeof(transposed));
        } else {
            /* Only four of the eight columns have numbers, and the others must
             * not be uninitialised. */
            memset(transposed, 0, sizeof(transposed));
            for (int n = 0; n < 8; n++)
                narrow_tf32(transposed[n], (const uint32_t *)(core + 16 * n),
                            4);
            transpose(transposed);
            memcpy(b[4 * half], transposed, sizeof(transposed) / 2);
        }
    }
}

static bool is_bf16(int op)
{
    return op == SPC_SIM_WGMMA_BF16 || op == SPC_SIM_WGMMA_ROWS_BF16;
}

/* True if B has rows of 64 columns whose 16-byte pieces are swizzled. */
ALWAYS bool is_swizzled(const spc__sim_product *p)
{
    return p->b >> 62 != 0;
}

/* Like unpack_b, for core matrices of 8 rows of k by 16 bytes of columns. */
ALWAYS void unpack_b_rows(float (*b)[8], const unsigned char *core, int leading,
                          bool bf16)
{
    for (int k = 0; k < 16; k++)
        widen_as(b[k], (const uint16_t *)(core + k / 8 * leading + k % 8 * 16),
                 bf16);
}

/* Unpacks piece j of swizzled rows. */
ALWAYS void unpack_b_swizzled(float (*b)[8], const unsigned char *rows,
                              int stride, int j, bool bf16)
{
    for (int k = 0; k < 16; k++)
        widen_as(b[k],
                 (const uint16_t *)(rows + k / 8 * stride + k % 8 * 128 +
                                    (j ^ k) % 8 * 16),
                 bf16);
}

/* A lane's four accumulators are two pairs of neighbours, eight rows apart.
 * Each has four bytes, whatever the type. */
ALWAYS void load_tile(void *tile, const spc__sim_product *p, int j)
{
    char *to = tile;
    /* Without `accumulate`, the product starts from zero. */
    memset(to, 0, 16 * 8 * 4);
    for (int lane = 0; lane < 32 && p->accumulate; lane++)
        for (int i = 0; i < 2; i++)
            memcpy(to + ((8 * i + lane / 4) * 8 + 2 * (lane % 4)) * 4,
                   p->d[lane] + 4 * j + 2 * i, 8);
}

ALWAYS void store_tile(const spc__sim_product *p, int j, const void *tile)
{
    const char *from = tile;
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 2; i++)
            memcpy(p->d[lane] + 4 * j + 2 * i,
                   from + ((8 * i + lane / 4) * 8 + 2 * (lane % 4)) * 4, 8);
}

/* `b` is the address in the descriptor. The strides are in bytes. */
ALWAYS void wgmma(const spc__sim_product *p, const unsigned char *b,
                  int leading, int stride)
{
    float a[16][16], columns[16][8], tile[16][8];
    bool tf32 = p->op == SPC_SIM_WGMMA_TF32;
    if (!tf32)
        unpack_a_short(a, p->a, is_bf16(p->op));
    else
        unpack_a_tf32(a, p->a);
    for (int j = 0; j < p->n / 8; j++) {
        const unsigned char *core = b + (size_t)j * (size_t)stride;
        if (is_swizzled(p))
            unpack_b_swizzled(columns, b + (ptrdiff_t)(j / 8) * leading, stride,
                              j, is_bf16(p->op));
        else if (p->op >= SPC_SIM_WGMMA_ROWS_F16)
            unpack_b_rows(columns, core, leading, is_bf16(p->op));
        else
            unpack_b(columns, core, leading, p->op);
        load_tile(tile, p, j);
        multiply(tile, a, columns, tf32 ? 8 : 16);
        store_tile(p, j, tile);
    }
}

/* Like wgmma, for bytes. A core matrix is 8 columns by 16 of k. */
static void wgmma_i8(const spc__sim_product *p, const unsigned char *b,
                     int leading, int stride)
{
    int8_t a[16][32], columns[8][32];
    int32_t tile[16][8];
    unpack_a_i8(a, p->a);
    for (int j = 0; j < p->n / 8; j++, b += stride) {
        for (int n = 0; n < 8; n++) {
            memcpy(columns[n], b + 16 * n, 16);
            memcpy(columns[n] + 16, b + leading + 16 * n, 16);
        }
        load_tile(tile, p, j);
        multiply_i8(tile, a, columns);
        store_tile(p, j, tile);
    }
}

/* ---- dispatch by processor ------------------------------------------- */

FAST static void mma_f16_fast(spc_sim_exchange *e)
{
    mma(e, SPC_SIM_MMA_F16);
}

FAST static void mma_bf16_fast(spc_sim_exchange *e)
{
    mma(e, SPC_SIM_MMA_BF16);
}

FAST static void mma_tf32_fast(spc_sim_exchange *e)
{
    mma(e, SPC_SIM_MMA_TF32);
}

FAST static void wgmma_fast(const spc__sim_product *p, const unsigned char *b,
                            int leading, int stride)
{
    wgmma(p, b, leading, stride);
}

static void mma_plain(spc_sim_exchange *e, int op)
{
    mma(e, op);
}

static void wgmma_plain(const spc__sim_product *p, const unsigned char *b,
                        int leading, int stride)
{
    wgmma(p, b, leading, stride);
}

/* A product of two tiles of floating-point numbers. */
static void run_mma(spc_sim_exchange *e, int op)
{
    /* The type is a constant in each fast version, so the compiler specialises
     * it. */
    if (!HAVE_FAST)
        mma_plain(e, op);
    else if (op == SPC_SIM_MMA_F16)
        mma_f16_fast(e);
    else if (op == SPC_SIM_MMA_BF16)
        mma_bf16_fast(e);
    else
        mma_tf32_fast(e);
}

/* The descriptor's fields count units of 16 bytes. Its address comes from
 * spc_shared_address. A read past the block's shared memory is reported as a
 * fault instead of crashing. */
static void run_wgmma(spc_sim_thread *self, const spc__sim_product *p,
                      const void *caller)
{
    int start = (int)(p->b & 0x3fff) * 16 - SPC_SIM_SHARED_BASE;
    int leading = (int)(p->b >> 16 & 0x3fff) * 16;
    int stride = (int)(p->b >> 32 & 0x3fff) * 16;
    bool swizzled = is_swizzled(p) && p->op >= SPC_SIM_WGMMA_ROWS_F16;
    int pieces = swizzled ? p->n / 64 : p->n / 8, piece = swizzled ? 1024 : 128;
    int to_piece = swizzled ? leading : stride;
    int to_half = swizzled ? stride : leading;
    /* The last byte that any piece reads, by the larger of the two strides. */
    int last = start + (pieces - 1) * to_piece + to_half + piece;
    if ((p->b >> 49 & 0x1fff) != 0 || (is_swizzled(p) && !swizzled) ||
        (swizzled && start % 1024 != 0))
        spc__sim_fault(
            self, "a wgmma descriptor with an invalid swizzle or base offset");
    if (start < 0 || last > self->shared_bytes)
        spc__sim_fault(self,
                       "wgmma reads bytes %d to %d of %d bytes of shared "
                       "memory",
                       start, last, self->shared_bytes);
    const unsigned char *b = self->shared + start;
    for (int j = 0; j < pieces; j++) {
        spc__sim_reads(b + j * to_piece, (size_t)piece, caller);
        spc__sim_reads(b + j * to_piece + to_half, (size_t)piece, caller);
    }
    /* The lanes that wait for this product acquire it (spc__sim_gather). */
    spc__sim_release(&spc__sim_warp_of(self)->sync[2]);
    if (p->op == SPC_SIM_WGMMA_I8)
        wgmma_i8(p, b, leading, stride);
    else if (HAVE_FAST)
        wgmma_fast(p, b, leading, stride);
    else
        wgmma_plain(p, b, leading, stride);
}

/* The A registers of a wgmma are read at issue, which the compiler ensures on
 * the device. Its accumulators change when it runs. A deferred one runs at the
 * wait. */
static void issue_wgmma(spc_sim_thread *self, const spc_sim_exchange *e, int op,
                        const void *caller)
{
    spc__sim_warp *warp = spc__sim_warp_of(self);
    spc__sim_product now, *p = &now;
    for (int lane = 1; lane < 32; lane++)
        if (e->in.wgmma.b[lane] != e->in.wgmma.b[0] ||
            e->in.wgmma.accumulate[lane] != e->in.wgmma.accumulate[0])
            spc__sim_fault(
                self, "lanes 0 and %d give wgmma different descriptors", lane);
    if (self->deferred) {
        if (warp->product_count == SPC__SIM_PRODUCTS)
            spc__sim_fault(self, "more than %d wgmma are under way",
                           SPC__SIM_PRODUCTS);
        p = &warp->products[warp->product_count++];
    }
    /* Copies the operands at issue, when a GPU reads its registers. */
    memcpy(p->a, e->in.wgmma.a, sizeof(p->a));
    memcpy(p->d, e->in.wgmma.d, sizeof(p->d));
    p->b = e->in.wgmma.b[0];
    p->accumulate = e->in.wgmma.accumulate[0];
    p->n = e->in.wgmma.n[0];
    p->group = warp->product_group;
    p->op = op;
    if (!self->deferred)
        run_wgmma(self, p, caller);
}

/* Carries out the products of all but the last `groups` groups. */
static void wait_wgmma(spc_sim_thread *self, int groups, const void *caller)
{
    spc__sim_warp *warp = spc__sim_warp_of(self);
    int due = 0;
    while (due < warp->product_count &&
           /* Groups complete in order, so the first one that is not due ends
            * the loop. */
           warp->products[due].group < warp->product_group - groups)
        run_wgmma(self, &warp->products[due++], caller);
    warp->product_count -= due;
    if (due > 0)
        memmove(warp->products, warp->products + due,
                (size_t)warp->product_count * sizeof(*warp->products));
}

/* ---- votes ----------------------------------------------------------- */

/* The reductions and votes of a warp. */
static void vote(spc_sim_exchange *e, uint32_t members, int op)
{
    uint32_t all = op == SPC_SIM_MIN ? 0xffffffffu : 0;
    for (int lane = 0; lane < 32; lane++) {
        uint32_t word = e->in.word[lane];
        /* A block whose size is not a multiple of 32 has a warp with fewer
         * lanes. */
        if (!(members & 1u << lane))
            continue;
        if (op == SPC_SIM_MIN)
            all = word < all ? word : all;
        else
            all |= op == SPC_SIM_OR ? word : (word & 1u) << lane;
    }
    for (int lane = 0; lane < 32; lane++)
        e->out[lane] = all;
}

/* For each lane, the lanes that have the same word. */
static void match(spc_sim_exchange *e, uint32_t members)
{
    for (int lane = 0; lane < 32; lane++) {
        e->out[lane] = 0;
        for (int other = 0; other < 32; other++)
            e->out[lane] |= (uint32_t)(e->in.word[other] == e->in.word[lane])
                            << other;
        e->out[lane] &= members;
    }
}

void spc__sim_complete(spc_sim_thread *self, int op, const spc_sim_place *place,
                       const void *caller)
{
    spc__sim_warp *warp = spc__sim_warp_of(self);
    spc_sim_exchange *e = &warp->exchange.exchange[self->turn];
    /* Operations on matrices, which are the last of the list, divide their work
     * among all lanes. */
    if (op >= SPC_SIM_MMA_F16 && warp->members != 0xffffffffu)
        spc__sim_fault(self, "%s at %s:%d needs a warp of 32 threads",
                       place->primitive, place->file, place->line);
    switch (op) {
    case SPC_SIM_BALLOT:
    case SPC_SIM_OR:
    case SPC_SIM_MIN:
        vote(e, warp->members, op);
        break;
    case SPC_SIM_MATCH:
        match(e, warp->members);
        break;
    case SPC_SIM_MMA_F16:
    case SPC_SIM_MMA_BF16:
    case SPC_SIM_MMA_TF32:
        run_mma(e, op);
        break;
    case SPC_SIM_MMA_I8:
        mma_i8(e);
        break;
    case SPC_SIM_WGMMA_F16:
    case SPC_SIM_WGMMA_BF16:
    case SPC_SIM_WGMMA_TF32:
    case SPC_SIM_WGMMA_I8:
    case SPC_SIM_WGMMA_ROWS_F16:
    case SPC_SIM_WGMMA_ROWS_BF16:
        issue_wgmma(self, e, op, caller);
        break;
    case SPC_SIM_WGMMA_COMMIT:
        warp->product_group++;
        break;
    case SPC_SIM_WGMMA_WAIT:
        wait_wgmma(self, (int)e->in.word[self->lane], caller);
        break;
    default:
        break;
    }
}
