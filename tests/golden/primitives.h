/*
 * primitives.h - the cases of the golden vectors: kernels, sizes and inputs.
 *
 * The recorder (CUDA C++) and the test (C) share this file. Inputs come from a
 * seeded generator, so the file of vectors holds outputs only.
 */
#ifndef SPC_GOLDEN_PRIMITIVES_H
#define SPC_GOLDEN_PRIMITIVES_H

#include <stdint.h>
#include <string.h>

enum { GOLDEN_WORDS = 16384, GOLDEN_SHARED = 16384 };

typedef enum golden_input {
    GOLDEN_ANY,     /* random words */
    GOLDEN_NUMBERS, /* fp32 and binary16 bit patterns at limits */
    GOLDEN_HALVES,  /* pairs of binary16 whole numbers from -4 to 4 */
    GOLDEN_SINGLES, /* fp32 whole numbers from -4 to 4 */
    GOLDEN_MMA_F16, /* random A and B as binary16, D as fp32 */
    GOLDEN_MMA_TF32,
    GOLDEN_EIGHTHS /* fp32 multiples of 1/8 around the int8 range */
} golden_input;

typedef struct golden_case {
    const char *kernel;
    const char *name; /* tells several inputs of a kernel apart */
    golden_input input;
    int threads, in_words, out_words;
    int exact; /* false: the order of roundings may differ */
} golden_case;

#define GOLDEN_WGMMA(n)                                                        \
    {"wgmma_" #n "_f16",                                                       \
     "wgmma_" #n "_f16",                                                       \
     GOLDEN_HALVES,                                                            \
     128,                                                                      \
     512 + 8 * (n),                                                            \
     64 * (n),                                                                 \
     1},                                                                       \
        {"wgmma_" #n "_i8", "wgmma_" #n "_i8", GOLDEN_ANY, 128,                \
         512 + 8 * (n),     64 * (n),          1},                             \
    {                                                                          \
        "wgmma_" #n "_tf32", "wgmma_" #n "_tf32", GOLDEN_SINGLES, 128,         \
            512 + 8 * (n), 64 * (n), 1                                         \
    }

#define GOLDEN_WGMMA_ROWS(n)                                                   \
    {                                                                          \
        "wgmma_rows_" #n "_f16", "wgmma_rows_" #n "_f16", GOLDEN_HALVES, 128,  \
            512 + 8 * (n), 64 * (n), 1                                         \
    }

#define GOLDEN_WGMMA_BOTH(n)                                                   \
    {                                                                          \
        "wgmma_both_" #n "_f16", "wgmma_both_" #n "_f16", GOLDEN_HALVES, 128,  \
            512 + 8 * (n), 64 * (n), 1                                         \
    }

static const golden_case golden_cases[] = {
    {"lanes", "lanes", GOLDEN_ANY, 32, 64, 256, 1},
    {"bits", "bits", GOLDEN_NUMBERS, 32, 64, 256, 1},
    {"atomics", "atomics", GOLDEN_ANY, 32, 64, 512, 1},
    {"numbers", "numbers", GOLDEN_NUMBERS, 32, 512, 2560, 1},
    {"moves", "moves", GOLDEN_ANY, 32, 128, 544, 1},
    {"copies", "copies", GOLDEN_ANY, 32, 128, 384, 1},
    {"bytes", "bytes", GOLDEN_EIGHTHS, 32, 256, 1288, 1},
    {"mma_i8", "mma_i8", GOLDEN_ANY, 32, 320, 128, 1},
    {"bulk", "bulk", GOLDEN_ANY, 64, 512, 512, 1},
    {"mma_f16", "mma_f16_whole", GOLDEN_HALVES, 32, 320, 128, 1},
    {"mma_f16", "mma_f16_random", GOLDEN_MMA_F16, 32, 320, 128, 0},
    {"mma_sums_f16", "mma_sums_f16", GOLDEN_HALVES, 32, 320, 128, 1},
    {"mma_tf32", "mma_tf32_whole", GOLDEN_SINGLES, 32, 320, 128, 1},
    {"mma_tf32", "mma_tf32_random", GOLDEN_MMA_TF32, 32, 320, 128, 0},
    GOLDEN_WGMMA(16),
    GOLDEN_WGMMA(32),
    GOLDEN_WGMMA(48),
    GOLDEN_WGMMA(64),
    GOLDEN_WGMMA(96),
    GOLDEN_WGMMA(128),
    GOLDEN_WGMMA(192),
    GOLDEN_WGMMA(256),
    GOLDEN_WGMMA_ROWS(64),
    GOLDEN_WGMMA_ROWS(128),
    GOLDEN_WGMMA_ROWS(256),
    GOLDEN_WGMMA_BOTH(64),
    GOLDEN_WGMMA_BOTH(128),
    GOLDEN_WGMMA_BOTH(256),
};

enum { GOLDEN_CASES = sizeof(golden_cases) / sizeof(*golden_cases) };

/* splitmix64 */
static inline uint64_t golden_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint32_t golden_float(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

/* Returns a whole number as binary16 or fp32. */
static inline uint32_t golden_half(int v)
{
    static const uint32_t of[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
    return v < 0 ? 0x8000u | of[-v] : of[v];
}

/* Returns bit patterns around every limit of binary16, then random ones. */
static inline uint32_t golden_number(int i, uint64_t r)
{
    static const uint32_t special[] = {
        0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x33000000,
        0x33000001, 0x33800000, 0x33c00000, 0x387fe000, 0x387fefff, 0x387ff000,
        0x38800000, 0x38801000, 0x38801001, 0x38803000, 0x3f800000, 0xbf801000,
        0x477fe000, 0x477fefff, 0x477ff000, 0x47800000, 0x7f7fffff, 0x7f800000,
        0xff800000, 0x7f800001, 0x7fc00000, 0xffffffff, 0x7fffffff, 0x7fbfffff,
        0x00000400, 0x000003ff, 0x00007c00, 0x0000fc00, 0x00007c01, 0x00007e00,
        0x00007bff, 0x00008001, 0x0000ffff, 0x3f800fff, 0x3f801000, 0x3f803000,
        0x7f7ff000, 0x7f7fefff, 0x00001000, 0x00000fff, 0x80000400, 0x3effffff};
    int count = (int)(sizeof(special) / sizeof(*special));
    if (i < count)
        return special[i];
    if (i % 2) /* an exponent in or near binary16's range */
        return (uint32_t)((r & 0x807fffffu) | (96 + (r >> 40) % 50) << 23);
    return (uint32_t)r;
}

/* Returns numbers around the limits of int8 and halfway between integers, then
 * random ones.
 */
static inline uint32_t golden_eighth(int i, uint64_t r)
{
    static const uint32_t special[] = {
        0x42fe0000, 0x42fdffff, 0x42ff0000, 0x42feffff, 0x42fd0000, 0x42fd0001,
        0xc3000000, 0xc3008000, 0xc2ff0000, 0xc2ff0001, 0xc2feffff, 0x3f000000,
        0x3f000001, 0x3effffff, 0xbf000000, 0xbf000001, 0x3fc00000, 0x40200000,
        0xbfc00000, 0xc0200000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001,
        0x7f7fffff, 0xff7fffff, 0x00000001, 0x80000000, 0x4f000000, 0xcf000000};
    int count = (int)(sizeof(special) / sizeof(*special));
    if (i < count)
        return special[i];
    return golden_float((float)((int)(r % 2561) - 1280) / 8);
}

static inline float golden_unit(uint64_t r)
{
    return (float)(int64_t)(r >> 40) / 8388608.0f - 1.0f;
}

/* Returns random binary16 numbers with magnitudes between 2^-6 and 2. */
static inline uint32_t golden_random_half(uint64_t r)
{
    return (uint32_t)((r & 0x83ffu) | (9 + (r >> 20) % 7) << 10);
}

static inline uint32_t golden_word(const golden_case *c, int i, uint64_t r)
{
    switch (c->input) {
    case GOLDEN_NUMBERS:
        return golden_number(i, r);
    case GOLDEN_HALVES:
        if (strncmp(c->kernel, "mma", 3) == 0 && i >= 192)
            return golden_float((float)(int)(r % 9) - 4.0f);
        return golden_half((int)(r % 9) - 4) | golden_half((int)(r / 9 % 9) - 4)
                                                   << 16;
    case GOLDEN_SINGLES:
        return golden_float((float)(int)(r % 9) - 4.0f);
    case GOLDEN_MMA_F16:
        if (i < 192)
            return golden_random_half(r) | golden_random_half(r >> 32) << 16;
        return golden_float(golden_unit(r));
    case GOLDEN_MMA_TF32:
        return golden_float(golden_unit(r));
    case GOLDEN_EIGHTHS:
        return golden_eighth(i, r);
    default:
        return (uint32_t)r;
    }
}

static inline void golden_fill(uint32_t *in, const golden_case *c)
{
    uint64_t state = 1;
    for (const char *p = c->name; *p; p++)
        state = state * 131 + (unsigned char)*p;
    for (int i = 0; i < c->in_words; i++)
        in[i] = golden_word(c, i, golden_random(&state));
}

/* Hashes words by FNV-1a, for outputs too long to list. */
static inline uint64_t golden_hash(const uint32_t *words, int count)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < count; i++)
        for (int byte = 0; byte < 4; byte++)
            hash = (hash ^ (words[i] >> 8 * byte & 255u)) * 0x100000001b3u;
    return hash;
}

/* Outputs up to this length are listed word by word. */
enum { GOLDEN_LISTED = 2560 };

#endif
