/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sim.c - the emulation of CUDA: primitives compared with their
 * definitions, schedules, and broken kernels. test_primitives.c compares it
 * with a GPU.
 */
#include "harness/sim_harness.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "golden/recorded.h"
#include "harness/suite.h"
#include "templates/sim/primitives_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#else
#define ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#else
#define TSAN 0
#endif

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

#define assert_says(words)                                                     \
    ck_assert_msg(strstr(error.text, (words)) != NULL,                         \
                  "'%s' does not say '%s'", error.text, (words))

/* ---- a device with one module on it ---------------------------------- */

typedef struct harness {
    spc__device *device;
    spc__module *module;
    unsigned *in, *out, *flags;
} harness;

enum { WORDS = 1 << 16 };

/*
 * The memory has exactly WORDS words, so that accesses past its end are
 * detected.
 */
static void harness_open(harness *r, const char *schedule, const char *async,
                         int threads, const char *template_name,
                         const char *bug)
{
    void *memory[3];

    r->device = open_device(schedule, async, threads);
    const spc__artefact *artefact = build(r->device, template_name, bug);
    assert_ok(ops->module_load(r->device, &r->module, artefact->code,
                               artefact->code_bytes, &error));
    for (int i = 0; i < 3; i++)
        assert_ok(ops->alloc(r->device, &memory[i], WORDS * 4, &error));
    r->in = memory[0];
    r->out = memory[1];
    r->flags = memory[2];
    for (int i = 0; i < WORDS; i++)
        r->in[i] = (unsigned)i * 2654435761u;
}

static void harness_close(harness *r)
{
    ops->dealloc(r->device, r->in);
    ops->dealloc(r->device, r->out);
    ops->dealloc(r->device, r->flags);
    ops->module_unload(r->device, r->module);
    ops->close(r->device);
}

static spc_status launch(harness *r, const char *name,
                         const spc__launch *geometry, int n)
{
    spc__kernel *kernel;
    primitive_args args = {r->in, r->out, r->flags, n};

    assert_ok(ops->kernel_get(r->device, r->module, name,
                              geometry->shared_bytes, &kernel, &error));
    memset(r->flags, 0, WORDS * 4);
    return ops->launch(r->device, kernel, geometry, &args, sizeof(args), NULL,
                       &error);
}

/* ---- primitives by definition ---------------------------------------- */

static void expect_lanes(const uint32_t *in, uint32_t *out)
{
    uint32_t ballot = 0, any = 0, least = in[0];
    for (int l = 0; l < 32; l++) {
        least = in[l] < least ? in[l] : least;
        ballot |= (in[l] >> 2 & 1u) << l;
        any |= in[l] & 1u << l;
    }
    for (int l = 0; l < 32; l++) {
        out[l] = in[in[32 + l] % 32];
        out[32 + l] = in[l < 5 ? l : l - 5];
        out[64 + l] = in[l ^ 11];
        out[96 + l] = in[l ^ 16] & 0x3fffffffu;
        out[128 + l] = ballot;
        out[160 + l] = any;
        out[224 + l] = least;
        out[192 + l] = 0;
        for (int m = 0; m < 32; m++)
            out[192 + l] |= (uint32_t)((in[m] & 3) == (in[l] & 3)) << m;
    }
}

static void expect_bits(const uint32_t *in, uint32_t *out)
{
    for (int i = 0; i < 64; i++) {
        uint32_t ones = 0, first = 0, zeros = 32, turned = 0;
        for (int b = 31; b >= 0; b--)
            if (in[i] >> b & 1) {
                ones++;
                first = (uint32_t)b + 1;
                zeros = zeros == 32 ? 31 - (uint32_t)b : zeros;
                turned |= 0x80000000u >> b;
            }
        out[i] = ones;
        out[64 + i] = first;
        out[128 + i] = zeros;
        out[192 + i] = turned;
    }
}

static void expect_atomics(const uint32_t *in, uint32_t *out)
{
    for (int l = 0; l < 32; l++) {
        uint32_t a = in[l], v = in[32 + l], *now = out + 256 + l;
        float sum = as_float(a & 0x3fffffffu) + as_float(v & 0x3fffffffu);
        for (int i = 0; i < 8; i++)
            out[32 * i + l] = a;
        out[64 + l] = a & 0x3fffffffu;
        now[0] = now[32] = a + v;
        now[64] = golden_float(sum);
        now[96] = a | v;
        now[128] = (uint32_t)((int)a < (int)v ? (int)a : (int)v);
        now[160] = (uint32_t)((int)a > (int)v ? (int)a : (int)v);
        now[192] = v;
        now[224] = a;
    }
}

/* Converts without the code of base/dtype.h. The NaNs are those of a GPU:
 * 0x7fff as binary16, 0x7fffffff as fp32, 0x7fffe000 as tf32. */
static uint32_t single_of(uint16_t bits)
{
    float v = spc__half_to_float(bits);
    return isnan(v) ? 0x7fffffffu : golden_float(v);
}

static uint32_t half_of(uint32_t bits)
{
    float v = as_float(bits);
    return isnan(v) ? 0x7fff : spc__half_from_float(v);
}

/* Rounds to the nearest multiple of an ulp of tf32, in double precision. */
static uint32_t tf32_of(uint32_t bits)
{
    double v = as_float(bits);
    int exponent;
    if (isnan(v))
        return 0x7fffe000u;
    if (isinf(v) || v == 0)
        return bits;
    frexp(v, &exponent);
    if (exponent < -125)
        exponent = -125; /* subnormal numbers share one ulp */
    v = ldexp(nearbyint(ldexp(v, 11 - exponent)), exponent - 11);
    return golden_float((float)v);
}

static void expect_numbers(const uint32_t *in, uint32_t *out)
{
    for (int i = 0; i < 512; i++) {
        uint32_t v = in[i], w = in[(i + 7) & 511];
        float a = as_float(v & 0x3fffffffu), b = as_float(w & 0x3fffffffu);
        out[i] = single_of((uint16_t)v);
        out[512 + i] = half_of(w);
        out[1024 + i] = half_of(v) | half_of(w) << 16;
        out[1536 + i] = tf32_of(v);
        out[2048 + i] = golden_float(fmaf(a, b, as_float(v ^ w) * 0.0f + 1.0f));
    }
}

static uint16_t element(const uint32_t *in, int row, int column)
{
    return (uint16_t)(in[4 * row + column / 2] >> 16 * (column % 2));
}

static void expect_moves(const uint32_t *in, uint32_t *out)
{
    for (int l = 0; l < 32; l++) {
        int g = l / 4, t = l % 4;
        out[128 + l] = in[l];
        out[160 + l] = in[32 + l];
        out[192 + l] = in[32 + l];
        out[224 + l] = in[l];
        memcpy(out + 4 * l, in + 4 * (l ^ 1), 16);
        for (int i = 0; i < 4; i++) {
            /* Lane 8i + r passes row 31 - (8i + r) as row r of matrix i. */
            int row = 31 - (8 * i + g);
            out[256 + 32 * i + l] = in[4 * row + t];
            out[384 + 32 * i + l] = element(in, 8 * i + 2 * t, g) |
                                    (uint32_t)element(in, 8 * i + 2 * t + 1, g)
                                        << 16;
        }
        out[512 + l] =
            element(in, 2 * t, g) | (uint32_t)element(in, 2 * t + 1, g) << 16;
    }
}

static void expect_copies(const uint32_t *in, uint32_t *out)
{
    static const int sizes[] = {16, 8, 4};
    unsigned char *to = (unsigned char *)out;
    for (int i = 0; i < 3; i++)
        for (int l = 0; l < 32; l++) {
            unsigned char *row = to + 512 * i + 16 * l;
            int valid = l < sizes[i] ? l : sizes[i];
            memset(row, 0xab, 16);
            memset(row, 0, (size_t)sizes[i]);
            memcpy(row, in + 4 * l, (size_t)valid);
        }
}

static void expect_bulk(const uint32_t *in, uint32_t *out)
{
    for (int i = 0; i < 4; i++)
        for (int t = 0; t < 64; t++)
            memcpy(out + 128 * i + 2 * t, in + 128 * i + 2 * (63 - t), 8);
}

/* PTX ISA, fragments of mma.m16n8k16 (f16) and m16n8k8 (tf32): lane 4g + t. */
static double a_element(const uint32_t *a, int f16, int m, int k)
{
    int g = m % 8, high = m / 8;
    if (!f16)
        return as_float(a[4 * (4 * g + k % 4) + high + 2 * (k / 4)] & ~0x1fffu);
    uint32_t word = a[4 * (4 * g + k % 8 / 2) + high + 2 * (k / 8)];
    return spc__half_to_float((uint16_t)(word >> 16 * (k % 2)));
}

static double b_element(const uint32_t *b, int f16, int k, int n)
{
    if (!f16)
        return as_float(b[2 * (4 * n + k % 4) + k / 4] & ~0x1fffu);
    uint32_t word = b[2 * (4 * n + k % 8 / 2) + k / 8];
    return spc__half_to_float((uint16_t)(word >> 16 * (k % 2)));
}

static void expect_mma(const uint32_t *in, uint32_t *out, int f16)
{
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            int at = 4 * (4 * (m % 8) + n / 2) + 2 * (m / 8) + n % 2;
            double sum = as_float(in[192 + at]);
            for (int k = 0; k < (f16 ? 16 : 8); k++)
                sum +=
                    a_element(in, f16, m, k) * b_element(in + 128, f16, k, n);
            out[at] = golden_float((float)sum);
        }
}

/* Returns the position of an element of B, by the strides that primitives.cuh
 * uses for each size. */
static int image_byte(int tf32, int size, int per_core, int k, int n)
{
    static const int by_n_first[] = {32, 64, 128, 256};
    int packed = tf32;
    for (int i = 0; i < 4; i++)
        packed ^= size == by_n_first[i];
    int leading = packed ? size * 16 : 128, stride = packed ? 128 : 256;
    return n / 8 * stride + k / per_core * leading + n % 8 * 16 +
           k % per_core * (16 / per_core);
}

static double image_element(const uint32_t *image, int f16, int size, int k,
                            int n)
{
    int byte = image_byte(!f16, size, f16 ? 8 : 4, k, n);
    uint32_t word = image[byte / 4];
    if (!f16)
        return as_float(word);
    return spc__half_to_float((uint16_t)(word >> 8 * (byte % 4)));
}

/* The position if core matrices are 8 rows of k by 8 columns. */
static double rows_element(const uint32_t *image, bool k_first, int size, int k,
                           int n)
{
    int leading = k_first ? 128 : size * 16, stride = k_first ? 256 : 128;
    int byte = n / 8 * stride + k / 8 * leading + k % 8 * 16 + n % 8 * 2;
    return spc__half_to_float((uint16_t)(image[byte / 4] >> 8 * (byte % 4)));
}

/* The position in swizzled rows of 64 columns. */
static double swizzled_element(const uint32_t *image, int k, int n)
{
    int byte = n / 64 * 2048 + k * 128 + (n / 8 % 8 ^ k % 8) * 16 + n % 8 * 2;
    return spc__half_to_float((uint16_t)(image[byte / 4] >> 8 * (byte % 4)));
}

static double both_element(const uint32_t *image, bool k_first, int size, int k,
                           int n, bool swizzled)
{
    return swizzled ? swizzled_element(image, k, n)
                    : rows_element(image, k_first, size, k, n);
}

/* Operands of wgmma that are in shared memory in row layout. */
typedef enum in_rows { NOTHING, ONLY_B, BOTH } in_rows;

static double wgmma_a(const uint32_t *in, int f16, in_rows rows, int size,
                      int m, int k)
{
    return rows == BOTH ? both_element(in, false, 64, k, m, size != 128)
                        : a_element(in + 128 * (m / 16), f16, m % 16, k);
}

static double wgmma_b(const uint32_t *in, int f16, in_rows rows, int size,
                      int k, int n)
{
    if (rows == NOTHING)
        return image_element(in, f16, size, k, n);
    return both_element(in, size == 128, size, k, n,
                        rows == BOTH && size != 128);
}

static void expect_wgmma(const uint32_t *in, uint32_t *out, int f16,
                         in_rows rows, int size)
{
    for (int m = 0; m < 64; m++)
        for (int n = 0; n < size; n++) {
            int lane = 4 * (m % 8) + n % 8 / 2, warp = m / 16;
            int at = size / 2 * (32 * warp + lane) + 4 * (n / 8) +
                     2 * (m / 8 % 2) + n % 2;
            double sum = 0;
            for (int k = 0; k < (f16 ? 16 : 8); k++)
                sum += wgmma_a(in, f16, rows, size, m, k) *
                       wgmma_b(in + 512, f16, rows, size, k, n);
            out[at] = golden_float((float)(2 * sum));
        }
}

/* Fragments of mma.m16n8k32 (s8): a register has four neighbours along k. */
static int64_t a_byte(const uint32_t *a, int m, int k)
{
    int lane = 4 * (m % 8) + k % 16 / 4;
    return (int8_t)(a[4 * lane + m / 8 + 2 * (k / 16)] >> 8 * (k % 4));
}

static int64_t b_byte(const uint32_t *b, int k, int n)
{
    return (int8_t)(b[2 * (4 * n + k % 16 / 4) + k / 16] >> 8 * (k % 4));
}

static void expect_mma_i8(const uint32_t *in, uint32_t *out)
{
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            int at = 4 * (4 * (m % 8) + n / 2) + 2 * (m / 8) + n % 2;
            int64_t sum = (int32_t)in[192 + at];
            for (int k = 0; k < 32; k++)
                sum += a_byte(in, m, k) * b_byte(in + 128, k, n);
            out[at] = (uint32_t)sum;
        }
}

static void expect_wgmma_i8(const uint32_t *in, uint32_t *out, int size)
{
    const int8_t *image = (const int8_t *)(in + 512);
    for (int m = 0; m < 64; m++)
        for (int n = 0; n < size; n++) {
            int lane = 4 * (m % 8) + n % 8 / 2, warp = m / 16;
            int at = size / 2 * (32 * warp + lane) + 4 * (n / 8) +
                     2 * (m / 8 % 2) + n % 2;
            int64_t sum = 0;
            for (int k = 0; k < 32; k++)
                sum += a_byte(in + 128 * warp, m % 16, k) *
                       image[image_byte(0, size, 16, k, n)];
            out[at] = (uint32_t)(2 * sum);
        }
}

/* Converts like cvt.rni.sat.s8.f32: NaN becomes 0. */
static int byte_of(uint32_t bits)
{
    double v = nearbyint((double)as_float(bits));
    return isnan(v) ? 0 : v < -128 ? -128 : v > 127 ? 127 : (int)v;
}

static void expect_bytes(const uint32_t *in, uint32_t *out)
{
    unsigned char *moved = (unsigned char *)(out + 1280);
    for (int i = 0; i < 256; i++) {
        uint32_t word = in[i] * 0xc2b2ae35u;
        uint32_t normal = (word & 0x807fffffu) | (64 + (word >> 23 & 127))
                                                     << 23;
        int8_t byte = (int8_t)(in[i] * 0x9e3779b1u >> 8 * (i & 3));
        out[i] = (uint32_t)byte_of(in[i]);
        out[256 + i] = 0;
        for (int j = 0; j < 4; j++)
            out[256 + i] |= (uint32_t)(byte_of(in[(i + 61 * j) & 255]) & 0xff)
                            << 8 * j;
        out[512 + i] = golden_float(byte);
        out[768 + i] = golden_float((float)(int32_t)(in[i] * 0x85ebca6bu));
        out[1024 + i] = golden_float((float)(1 / (double)as_float(normal)));
    }
    for (int l = 0; l < 32; l++)
        moved[31 - l] = ((const unsigned char *)in)[5 * l];
}

static void expect(const golden_case *c, const uint32_t *in, uint32_t *out)
{
    static const struct {
        const char *kernel;
        void (*expect)(const uint32_t *in, uint32_t *out);
    } plain[] = {
        {"lanes", expect_lanes},     {"bits", expect_bits},
        {"atomics", expect_atomics}, {"numbers", expect_numbers},
        {"moves", expect_moves},     {"copies", expect_copies},
        {"bulk", expect_bulk},       {"bytes", expect_bytes},
        {"mma_i8", expect_mma_i8},
    };
    int size = 0, f16 = strstr(c->kernel, "_f16") != NULL;
    for (int i = 0; i < LENGTH(plain); i++)
        if (strcmp(plain[i].kernel, c->kernel) == 0)
            plain[i].expect(in, out);
    bool i8 = strstr(c->kernel, "_i8") != NULL;
    if (strncmp(c->kernel, "mma", 3) == 0 && !i8)
        expect_mma(in, out, f16);
    if (sscanf(c->kernel, "wgmma_%d", &size) == 1 && i8)
        expect_wgmma_i8(in, out, size);
    else if (size > 0)
        expect_wgmma(in, out, f16, NOTHING, size);
    else if (sscanf(c->kernel, "wgmma_rows_%d", &size) == 1)
        expect_wgmma(in, out, f16, ONLY_B, size);
    else if (sscanf(c->kernel, "wgmma_both_%d", &size) == 1)
        expect_wgmma(in, out, f16, BOTH, size);
}

static void run_case(const golden_case *c, const char *async, uint32_t *out)
{
    harness r;
    spc__launch geometry = {
        1, 1, (unsigned)c->threads, GOLDEN_SHARED, false, false, 0};
    harness_open(&r, "random:7", async, 1, "primitives", NULL);
    golden_fill(r.in, c);
    memset(r.out, 0, GOLDEN_WORDS * 4);
    assert_ok(launch(&r, c->kernel, &geometry, 0));
    memcpy(out, r.out, GOLDEN_WORDS * 4);
    harness_close(&r);
}

static uint32_t got[GOLDEN_WORDS], want[GOLDEN_WORDS], input[GOLDEN_WORDS];

START_TEST(every_primitive_does_what_the_ptx_isa_says)
{
    const golden_case *c = &golden_cases[_i / 2];
    golden_fill(input, c);
    expect(c, input, want);
    run_case(c, _i % 2 ? "deferred" : "eager", got);
    assert_agree(c, got, want, "the definition");
}
END_TEST

START_TEST(every_primitive_has_a_host_half)
{
    spc__buf cuda = SPC__BUF_INIT, sim = SPC__BUF_INIT;
    spc__library *library;
    assert_ok(spc__library_open(&library, NULL, NULL, &error));
    spc__buf_puts(&cuda, spc__library_header(library, "spc_device.cuh"));
    spc__buf_puts(&sim, spc__library_header(library, "spc_sim.h"));
    spc__buf_puts(&sim, spc__library_header(library, "spc_host_math.h"));
    int count = 0;
    for (char *p = cuda.data; (p = strstr(p, "SPC_DEVICE ")) != NULL; p++) {
        char name[64];
        char *open = strchr(p, '('), *start = open;
        while (start > p && start[-1] != ' ' && start[-1] != '*')
            start--;
        if (strncmp(start, "spc_", 4) != 0 ||
            strncmp(start, "spc_wgmma_##", 12) == 0 ||
            strncmp(start, "spc_wgmma_rows_##", 17) == 0 ||
            strncmp(start, "spc_wgmma_both_##", 17) == 0)
            continue;
        snprintf(name, sizeof(name), "%.*s(", (int)(open - start), start);
        ck_assert_msg(strstr(sim.data, name) != NULL, "%s has none", name);
        count++;
    }
    ck_assert_int_gt(count, 60);
    spc__buf_release(&cuda);
    spc__buf_release(&sim);
    spc__library_close(library);
}
END_TEST

/* ---- whole kernels, every schedule ----------------------------------- */

static const char *const schedules[] = {"forward", "reverse", "random:1",
                                        "random:2"};
static const char *const asyncs[] = {"eager", "deferred"};

static const struct whole {
    const char *kernel;
    spc__launch geometry;
    int words; /* words of the result */
} wholes[] = {
    {"rotate", {3, 1, 128, 512, false, false, 0}, 384},
    {"rotate", {1, 1, 1024, 4096, false, false, 0}, 1024},
    {"rotate_warp", {2, 1, 96, 512, false, false, 0}, 192},
    {"ring", {1, 1, 128, 6144, false, false, 0}, 128},
    {"product", {1, 1, 128, 512, false, false, 0}, 1024},
    {"producer", {1, 1, 128, 1088, false, false, 0}, 128},
    {"chain", {40, 1, 64, 16, false, false, 0}, 40},
    {"meet", {6, 1, 64, 0, false, true, 0}, 384},
    {"cluster", {8, 3, 128, 2048, false, false, 4}, 8 * 3 * 96},
    {"rounds", {1, 1, 128, 1088, false, false, 0}, 128},
};

static unsigned rotated(const harness *r, int threads, int by, int at)
{
    int block = at / threads * threads;
    return r->in[block + (at % threads + 4 * by) % threads] + 4;
}

static unsigned whole_value(const harness *r, const struct whole *w, int i)
{
    unsigned sum = 0;
    if (strcmp(w->kernel, "rotate") == 0)
        return rotated(r, (int)w->geometry.block, 33, i);
    if (strcmp(w->kernel, "rotate_warp") == 0)
        return rotated(r, 32, 5, i);
    if (strcmp(w->kernel, "product") == 0)
        return 32;
    for (int j = 0; strcmp(w->kernel, "ring") == 0 && j < 8; j++) {
        const unsigned *row = r->in + 512 * j + 4 * i;
        sum = 3 * sum + (row[0] ^ row[1] ^ row[2] ^ row[3]);
    }
    for (int j = 0; strcmp(w->kernel, "producer") == 0 && i >= 32 && j < 32;
         j++)
        sum = 3 * sum + r->in[32 * j + i % 32];
    for (int j = 0; strcmp(w->kernel, "rounds") == 0 && j < 48; j++)
        if (i < 64 && (j / 4 % 2 == 1 || j / 8 % 2 == i / 32))
            sum = 3 * sum + r->in[32 * j + i % 32];
    for (int j = 0; strcmp(w->kernel, "chain") == 0 && j <= i; j++)
        sum += r->in[j];
    return sum;
}

static void expect_meeting(const harness *r, int n, unsigned *out)
{
    static unsigned next[WORDS];
    memcpy(out, r->in, (size_t)n * 4);
    for (int step = 1; step < 64; step *= 2) {
        for (int i = 0; i < n; i++)
            next[i] = out[i] + out[(i + step * 37) % n];
        memcpy(out, next, (size_t)n * 4);
    }
}

/* Each cluster of four blocks adds up its blocks' numbers in three rounds. */
static void expect_cluster(const harness *r, int n, unsigned *out)
{
    static unsigned last[WORDS];
    memcpy(out, r->in, (size_t)n * 4);
    for (int round = 0; round < 3; round++) {
        memcpy(last, out, (size_t)n * 4);
        for (int i = 0; i < n; i++) {
            const unsigned *cluster = last + i / (4 * 96) * (4 * 96);
            for (int b = 0; b < 4; b++)
                out[i] = 3 * out[i] + cluster[b * 96 + (i % 96 + 37 * b) % 96];
        }
    }
}

/* Counts the words that differ from the expected result. */
static int count_wrong(const harness *r, const struct whole *w)
{
    static unsigned values[WORDS];
    int wrong = 0;
    if (strcmp(w->kernel, "meet") == 0)
        expect_meeting(r, w->words, values);
    else if (strcmp(w->kernel, "cluster") == 0)
        expect_cluster(r, w->words, values);
    else
        for (int i = 0; i < w->words; i++)
            values[i] = whole_value(r, w, i);
    for (int i = 0; i < w->words; i++)
        wrong += r->out[i] != values[i];
    return wrong;
}

START_TEST(a_whole_kernel_is_right_under_every_schedule)
{
    const struct whole *w = &wholes[_i];
    for (int s = 0; s < LENGTH(schedules); s++)
        for (int a = 0; a < LENGTH(asyncs); a++)
            for (int threads = 1; threads <= 2; threads++) {
                harness r;
                harness_open(&r, schedules[s], asyncs[a], threads, "pipeline",
                             "none");
                memset(r.out, 0xee, WORDS * 4);
                assert_ok(launch(&r, w->kernel, &w->geometry, 0));
                ck_assert_msg(count_wrong(&r, w) == 0,
                              "%s, %s, %s, %d threads: %d words wrong",
                              w->kernel, schedules[s], asyncs[a], threads,
                              count_wrong(&r, w));
                harness_close(&r);
            }
}
END_TEST

/* ---- broken kernels -------------------------------------------------- */

/*
 * Runs body() in a child process. Returns its output on stderr, which the
 * caller frees, and its wait status. Sanitizers end the process in which they
 * find an error.
 */
static char *run_in_child(void (*body)(int i), int i, int *status)
{
    int ends[2];
    spc__buf text = SPC__BUF_INIT;
    char chunk[4096];
    ssize_t bytes;

    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        body(i);
        _exit(0);
    }
    close(ends[1]);
    while ((bytes = read(ends[0], chunk, sizeof(chunk))) > 0)
        spc__buf_append(&text, chunk, (size_t)bytes);
    close(ends[0]);
    waitpid(child, status, 0);
    spc__buf_puts(&text, "");
    return spc__buf_detach(&text);
}

/* A bug shows in the result of some schedule or as a deadlock. A bug between
 * threads shows as a race. */
static const struct wrong {
    const char *bug;
    int whole;
    bool only_deferred; /* the bug needs late copies to show */
    bool only_race;     /* no schedule shows the bug */
    bool race;
} wrongs[] = {
    {"no_barrier", 0, false, false, true},
    {"early_barrier", 0, false, false, true},
    {"no_warp_sync", 2, false, false, true},
    {"wait_one_late", 3, true, false, false},
    {"no_commit", 3, true, false, false},
    {"wgmma_no_wait", 4, true, false, false},
    {"bulk_no_wait", 5, false, false, false},
    {"grid_race", 6, false, true, true},
    {"no_cluster_sync", 8, false, false, true},
    {"skips_phase", 9, false, false, false},
};

/* Counts the schedules under which the result is wrong. */
static int wrong_results(const struct wrong *b, const char *async)
{
    const struct whole *w = &wholes[b->whole];
    int wrong = 0;
    for (int s = 0; s < LENGTH(schedules); s++) {
        harness r;
        harness_open(&r, schedules[s], async, 1, "pipeline", b->bug);
        memset(r.out, 0xee, WORDS * 4);
        wrong += launch(&r, w->kernel, &w->geometry, 0) != SPC_OK ||
                 count_wrong(&r, w) > 0;
        harness_close(&r);
    }
    return wrong;
}

static void report_wrong(int i)
{
    int eager = wrong_results(&wrongs[i], "eager");
    int deferred = wrong_results(&wrongs[i], "deferred");
    fprintf(stderr, "eager %d deferred %d\n", eager, deferred);
}

/* Finds the line of the template with "races:" and the bug's name. */
static int racing_line(const char *bug)
{
    char line[256];
    int number = 0, found = 0;
    FILE *file = fopen(SPC_TEST_DATA "/templates/sim/pipeline.cu.lua", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file)) {
        const char *races = strstr(line, "races:");
        number++;
        if (races && strstr(races, bug))
            found = number;
    }
    fclose(file);
    return found;
}

static void assert_race(const char *report, const char *bug)
{
    char line[64];
    snprintf(line, sizeof(line), "pipeline.cu.lua:%d", racing_line(bug));
    ck_assert_msg(strstr(report, "ThreadSanitizer: data race") != NULL,
                  "%s is no race: %s", bug, report);
    ck_assert_msg(strstr(report, line) != NULL, "%s is not at %s: %s", bug,
                  line, report);
}

START_TEST(a_missing_barrier_or_wait_shows)
{
    const struct wrong *b = &wrongs[_i];
    int status, eager = -1, deferred = -1;
    char *text = run_in_child(report_wrong, _i, &status);
    char *last = strstr(text, "eager ");
    ck_assert_msg(last != NULL, "%s: no result: %s", b->bug, text);
    sscanf(last, "eager %d deferred %d", &eager, &deferred);
    ck_assert_msg(b->only_race || deferred > 0, "%s shows nowhere: %s", b->bug,
                  text);
    ck_assert_msg(b->only_race || b->only_deferred == (eager == 0),
                  "%s shows in %d schedules with eager copies", b->bug, eager);
    if (TSAN && b->race)
        assert_race(text, b->bug);
    free(text);
}
END_TEST

/* Errors that stop a launch, and their messages. */
static const struct misuse {
    const char *bug;
    const char *says[3];
} misuses[] = {
    {"outside_primitive",
     {"spc_shared_store16 at pipeline.cu.lua:", "outside the block's shared",
      "thread 127:"}},
    {"misaligned", {"spc_load16 at pipeline.cu.lua:", "misaligned", "thread"}},
    {"divergent",
     {"divergence: it is in spc_s", "waits in spc_s", "spc_shfl at "}},
    {"early_exit",
     {"deadlock: it waits in spc_sync_block at pipeline.cu.lua:", "has ended",
      "block (0, 0)"}},
    {"two_barriers",
     {"deadlock: it waits in spc_sync_named at pipeline.cu.lua:",
      "in spc_sync_named", "thread"}},
    {"never_arrives",
     {"deadlock: it waits in spc_mbar_wait at pipeline.cu.lua:", "", ""}},
    {"spins",
     {"deadlock: it waits in spc_load_acquire at pipeline.cu.lua:", "", ""}},
    {"bad_named", {"barrier 3 for 100 threads", "multiple of 32", ""}},
};

START_TEST(a_misuse_ends_the_launch_with_one_sentence)
{
    const struct misuse *m = &misuses[_i];
    spc__launch geometry = {1, 1, 128, 4096, false, false, 0};
    for (int s = 0; s < LENGTH(schedules); s++) {
        harness r;
        harness_open(&r, schedules[s], "eager", 1, "pipeline", m->bug);
        ck_assert_int_eq(launch(&r, "misuse", &geometry, 4096), SPC_EDEVICE);
        assert_says("kernel 'misuse'");
        for (int i = 0; i < 3; i++)
            assert_says(m->says[i]);
        /* The device must still work. */
        assert_ok(launch(&r, "rotate", &geometry, 0));
        ck_assert_int_eq(count_wrong(&r, &wholes[0]) > 256, 0);
        harness_close(&r);
    }
}
END_TEST

static void run_ahead(int schedule)
{
    const struct whole *w = &wholes[9];
    harness r;

    harness_open(&r, schedules[schedule], "deferred", 1, "pipeline",
                 "runs_ahead");
    ck_assert_int_eq(launch(&r, w->kernel, &w->geometry, 0), SPC_EDEVICE);
    fprintf(stderr, "%s\n", error.text);
    harness_close(&r);
}

/*
 * In most schedules each wait is over before the next phase ends. If the phase
 * ends first, the wait itself finds that the barrier is ahead. The next copy
 * also races with the reads of the last one. ThreadSanitizer reports that
 * before the kernel is stopped, so the kernel runs in a child process.
 */
START_TEST(a_phase_that_may_end_before_a_wait_for_the_last_is_named)
{
    int status;
    char *text = run_in_child(run_ahead, _i, &status);
    const char *said = strstr(text, "kernel 'rounds'");

    ck_assert_msg(said != NULL, "the kernel was not stopped: %s", text);
    if (strstr(said, "it ends phase") == NULL)
        ck_assert_msg(strstr(said, "the barrier is a phase ahead of the warp"),
                      "%s", said);
    else
        ck_assert_msg(strstr(said, "is ordered after the wait of warp"),
                      "%s", said);
    free(text);
}
END_TEST

/*
 * If copies complete at once, the barrier is never behind when it is checked.
 */
START_TEST(a_wait_that_another_phase_may_end_is_named)
{
    const struct whole *w = &wholes[9];
    harness r;

    harness_open(&r, schedules[_i], "eager", 1, "pipeline", "skips_phase");
    ck_assert_int_eq(launch(&r, w->kernel, &w->geometry, 0), SPC_EDEVICE);
    assert_says("kernel 'rounds'");
    assert_says("spc_mbar_wait at pipeline.cu.lua:");
    assert_says("no earlier wait of its warp is ordered after phase");
    harness_close(&r);
}
END_TEST

static void run_outside(int i)
{
    static const char *const bugs[] = {"outside_plain", "outside_global"};
    static const int n[] = {4096, WORDS};
    spc__launch geometry = {1, 1, 128, 4096, false, false, 0};
    harness r;
    harness_open(&r, "forward", "eager", 1, "pipeline", bugs[i]);
    spc_status status = launch(&r, "misuse", &geometry, n[i]);
    fprintf(stderr, "status %d: %s\n", status, error.text);
}

START_TEST(a_plain_access_outside_is_caught)
{
    int status;
    char *text = run_in_child(run_outside, _i, &status);
    if (ASAN) {
        ck_assert_msg(strstr(text, "AddressSanitizer") != NULL, "%s", text);
        ck_assert_msg(strstr(text, "pipeline.cu.lua:") != NULL, "%s", text);
    } else if (_i == 0) {
        ck_assert_msg(strstr(text, "4096 bytes of shared memory was written") !=
                          NULL,
                      "%s", text);
    }
    free(text);
}
END_TEST

/* ---- the device ------------------------------------------------------ */

static const struct setting {
    const char *name, *value, *says;
} settings[] = {
    {"SPC_SIM_SCHEDULE", "sideways",
     "unknown SPC_SIM_SCHEDULE 'sideways' (forward, reverse, "},
    {"SPC_SIM_SCHEDULE",
     "random:", "'random:' (forward, reverse, random:SEED)"},
    {"SPC_SIM_SCHEDULE", "random:1x", "'random:1x' (forward, reverse"},
    {"SPC_SIM_ASYNC", "late", "'late' (eager, deferred)"},
    {"SPC_SIM_TARGET", "sm_1", "sm_90a"},
};

START_TEST(a_bad_setting_is_refused_with_what_would_be_right)
{
    spc__device *device;
    unsetenv("SPC_SIM_SCHEDULE");
    unsetenv("SPC_SIM_ASYNC");
    setenv(settings[_i].name, settings[_i].value, 1);
    ck_assert_int_eq(ops->open(&device, -1, NULL, &error), SPC_EINVAL);
    ck_assert_ptr_null(device);
    assert_says(settings[_i].name);
    assert_says(settings[_i].says);
}
END_TEST

START_TEST(there_is_one_sim_device)
{
    spc_device_info info;
    spc__device *device;
    ck_assert_int_eq(ops->list(&info, 1), 1);
    ck_assert_str_eq(info.id, "sim");
    ck_assert_str_eq(info.target, "sm_90a");
    ck_assert_int_eq(ops->open(&device, 1, NULL, &error), SPC_ENODEVICE);
    assert_says("sim:1");
}
END_TEST

START_TEST(a_target_brings_its_limits)
{
    spc__attrs target;
    setenv("SPC_SIM_TARGET", "sm_86", 1);
    spc__device *device = open_device("forward", "eager", 1);
    ops->target(device, &target);
    ck_assert_str_eq(spc__attrs_text(&target, "target", ""), "sm_86");
    ck_assert_int_eq(spc__attrs_number(&target, "sm", 0), 86);
    ck_assert_int_eq(spc__attrs_number(&target, "shared_block", 0), 101376);
    ops->close(device);
}
END_TEST

static const struct refused {
    spc__launch geometry;
    size_t args_bytes;
    spc_status status;
    const char *says;
} refusals[] = {
    {{0, 1, 128, 0, false, false, 0},
     sizeof(primitive_args),
     SPC_EINVAL,
     "0 x 1 blocks"},
    {{1, 1, 256, 0, false, false, 0},
     sizeof(primitive_args),
     SPC_EINVAL,
     "1 to 128"},
    {{1, 1, 128, 300000, false, false, 0},
     sizeof(primitive_args),
     SPC_EDEVICE,
     "232448"},
    {{1, 1, 128, 0, false, false, 0}, 8, SPC_EINVAL, "bytes of arguments"},
    {{6, 1, 128, 0, false, false, 4},
     sizeof(primitive_args),
     SPC_EINVAL,
     "clusters of 4 blocks in rows of 6"},
    {{9, 1, 128, 0, false, false, 9},
     sizeof(primitive_args),
     SPC_EINVAL,
     "1 to 8"},
    {{500, 1, 128, 0, false, true, 0},
     sizeof(primitive_args),
     SPC_EDEVICE,
     "are resident"},
};

START_TEST(an_impossible_launch_is_refused)
{
    harness r;
    spc__kernel *kernel;
    primitive_args args = {0};
    const struct refused *c = &refusals[_i];
    harness_open(&r, "forward", "eager", 1, "pipeline", "none");
    assert_ok(
        ops->kernel_get(r.device, r.module, "misuse", 0, &kernel, &error));
    ck_assert_int_eq(ops->launch(r.device, kernel, &c->geometry, &args,
                                 c->args_bytes, NULL, &error),
                     c->status);
    assert_says(c->says);
    harness_close(&r);
}
END_TEST

START_TEST(an_unknown_kernel_and_foreign_code_are_refused)
{
    harness r;
    spc__kernel *kernel;
    spc__module *module;
    harness_open(&r, "forward", "eager", 1, "pipeline", "none");
    ck_assert_int_eq(
        ops->kernel_get(r.device, r.module, "nothing", 0, &kernel, &error),
        SPC_ENOTFOUND);
    assert_says("'nothing'");
    ck_assert_int_ne(ops->module_load(r.device, &module, "no code", 7, &error),
                     SPC_OK);
    harness_close(&r);
}
END_TEST

START_TEST(a_block_outside_the_cluster_is_refused)
{
    harness r;
    spc__launch geometry = {.grid_x = 4,
                            .grid_y = 1,
                            .block = 128,
                            .shared_bytes = 2048,
                            .cluster = 4};
    harness_open(&r, "forward", "eager", 1, "pipeline", "outside_cluster");
    ck_assert_int_eq(launch(&r, "cluster", &geometry, 0), SPC_EDEVICE);
    assert_says("spc_cluster_load16 at pipeline.cu.lua:");
    assert_says("the cluster does not have");
    harness_close(&r);
}
END_TEST

START_TEST(a_grid_barrier_needs_a_cooperative_launch)
{
    harness r;
    spc__launch geometry = {2, 1, 64, 0, false, false, 0};
    harness_open(&r, "forward", "eager", 1, "pipeline", "none");
    ck_assert_int_eq(launch(&r, "meet", &geometry, 0), SPC_EDEVICE);
    assert_says("spc_arrive_grid at pipeline.cu.lua:");
    assert_says("cooperative");
    harness_close(&r);
}
END_TEST

START_TEST(workers_that_all_wait_are_a_deadlock)
{
    harness r;
    spc__launch geometry = {3, 1, 32, 64, false, false, 0};
    harness_open(&r, "forward", "eager", 2, "pipeline", "spins");
    ck_assert_int_eq(launch(&r, "misuse", &geometry, 0), SPC_EDEVICE);
    assert_says("deadlock: it waits in spc_load_acquire");
    harness_close(&r);
}
END_TEST

START_TEST(many_blocks_run_in_one_launch)
{
    harness r;
    spc__launch geometry = {.grid_x = TSAN ? 500 : 48000,
                            .grid_y = 1,
                            .block = 32,
                            .shared_bytes = 128};
    harness_open(&r, "forward", "eager", 2, "pipeline", "none");
    assert_ok(launch(&r, "switches", &geometry, 1));
    harness_close(&r);
}
END_TEST

/* A switch takes 10 ns. The bound also allows for an implementation by ucontext
 * on a busy machine. */
START_TEST(a_switch_takes_tens_of_nanoseconds)
{
    harness r;
    spc__launch geometry = {8, 1, 128, 0, false, false, 0};
    int rounds = 2000;
    harness_open(&r, "forward", "eager", 1, "pipeline", "none");
    assert_ok(launch(&r, "switches", &geometry, 1));
    uint64_t start = spc__now_ns();
    assert_ok(launch(&r, "switches", &geometry, rounds));
    double ns = (double)(spc__now_ns() - start) / (8.0 * 128 * rounds);
    printf("sim: %.1f ns a switch\n", ns);
    if (!ASAN && !TSAN)
        ck_assert_double_lt(ns, 500);
    harness_close(&r);
}
END_TEST

static spc_status count_run(void *payload, void *stream)
{
    ++*(int *)payload;
    return SPC_OK;
}

START_TEST(measuring_runs_as_often_as_asked)
{
    double samples[16];
    int count = 0, runs = 0;
    spc__measure measure = {count_run, &runs, 16, 1.0, false, NULL};
    spc__device *device = open_device("forward", "eager", 1);
    assert_ok(ops->measure(device, &measure, samples, &count, &error));
    ck_assert_int_eq(count, 16);
    ck_assert_int_eq(runs, 16);
    ops->close(device);
}
END_TEST

/* Runs in the process that the tests are forked from. */
static void build_whole(void)
{
    spc__device *device = open_device("forward", "eager", 1);
    build(device, "primitives", NULL);
    build(device, "pipeline", "none");
    ops->close(device);
}

static Suite *suite(void)
{
    Suite *s = suite_create("sim");
    TCase *tc = tcase_create("primitives");
    tcase_set_timeout(tc, 300);
    tcase_add_unchecked_fixture(tc, build_whole, NULL);
    tcase_add_loop_test(tc, every_primitive_does_what_the_ptx_isa_says, 0,
                        2 * GOLDEN_CASES);
    tcase_add_test(tc, every_primitive_has_a_host_half);
    suite_add_tcase(s, tc);

    tc = tcase_create("kernels");
    tcase_set_timeout(tc, 300);
    tcase_add_unchecked_fixture(tc, build_whole, NULL);
    tcase_add_loop_test(tc, a_whole_kernel_is_right_under_every_schedule, 0,
                        LENGTH(wholes));
    tcase_add_loop_test(tc, a_missing_barrier_or_wait_shows, 0, LENGTH(wrongs));
    tcase_add_loop_test(tc, a_misuse_ends_the_launch_with_one_sentence, 0,
                        LENGTH(misuses));
    tcase_add_loop_test(
        tc, a_phase_that_may_end_before_a_wait_for_the_last_is_named, 0,
        LENGTH(schedules));
    tcase_add_loop_test(tc, a_wait_that_another_phase_may_end_is_named, 0,
                        LENGTH(schedules));
    tcase_add_loop_test(tc, a_plain_access_outside_is_caught, 0, 2);
    suite_add_tcase(s, tc);

    tc = tcase_create("device");
    tcase_set_timeout(tc, 300);
    tcase_add_unchecked_fixture(tc, build_whole, NULL);
    tcase_add_loop_test(tc, a_bad_setting_is_refused_with_what_would_be_right,
                        0, LENGTH(settings));
    tcase_add_test(tc, there_is_one_sim_device);
    tcase_add_test(tc, a_target_brings_its_limits);
    tcase_add_loop_test(tc, an_impossible_launch_is_refused, 0,
                        LENGTH(refusals));
    tcase_add_test(tc, an_unknown_kernel_and_foreign_code_are_refused);
    tcase_add_test(tc, a_grid_barrier_needs_a_cooperative_launch);
    tcase_add_test(tc, a_block_outside_the_cluster_is_refused);
    tcase_add_test(tc, workers_that_all_wait_are_a_deadlock);
    tcase_add_test(tc, many_blocks_run_in_one_launch);
    tcase_add_test(tc, a_switch_takes_tens_of_nanoseconds);
    tcase_add_test(tc, measuring_runs_as_often_as_asked);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    int status = run_suite(suite());
    forget_builds();
    return status;
}
