/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_gen.c - generated scenes: the table of generators, their options, the
 * shell and the uniform scene.
 *
 * All values are integers, or doubles computed by + - * / sqrt and floor, which
 * IEEE 754 defines to the last bit; the build forbids fused multiply-add here.
 * Hence the same specification is the same scene everywhere.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/text/words.h"
#include <stdlib.h>
#include <string.h>

/* ---- arithmetic ---------------------------------------------------------- */

/* Taylor series to the last bit, for at most an eighth of a turn. */
static void small_sincos(double *cosine, double *sine, double turns)
{
    static const double two_pi = 6.283185307179586;
    double x = turns * two_pi;
    double square = x * x;
    double c = 0, s = 0;

    for (int n = 16; n >= 2; n -= 2) {
        c = (1 - c) * square / ((double)n * (n - 1));
        s = (1 - s) * square / ((double)n * (n + 1));
    }
    *cosine = 1 - c;
    *sine = x * (1 - s);
}

void spc__scene_sincos(double *cosine, double *sine, double turns)
{
    double whole =
        turns < 0 ? (double)(int64_t)(turns - 1) : (double)(int64_t)turns;
    double rest = turns - whole; /* [0, 1] */
    int quarter = (int)(rest * 4 + 0.5);
    double c, s;

    small_sincos(&c, &s, rest - quarter * 0.25);
    switch (quarter & 3) {
    case 0:
        *cosine = c, *sine = s;
        break;
    case 1:
        *cosine = -s, *sine = c;
        break;
    case 2:
        *cosine = -c, *sine = -s;
        break;
    default:
        *cosine = s, *sine = -c;
    }
}

/*
 * Volatile, because GCC 12 sometimes vectorises a plain (double)(float)value
 * without the rounding.
 */
double spc__scene_float(double value)
{
    volatile float stored = (float)value;
    return stored;
}

double spc__scene_noise(spc__random *random)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += spc__random_unit(random);
    return (sum - 2) * 1.7320508075688772;
}

/* ---- shell --------------------------------------------------------------- */

enum { SHELL_R };

/*
 * With d = 2 * (p - centre), an integer: |d|^2 <= r^2, and |d| >= r - 2.5, that
 * is 4 |d|^2 >= (2r - 5)^2 where 2r > 5.
 */
static bool in_shell(int64_t r, int64_t square)
{
    int64_t inner = 2 * r > 5 ? 2 * r - 5 : 0;
    return square <= r * r && 4 * square >= inner * inner;
}

/* Generates a spherical shell. Twice the coordinates are compared, so that the
 * centre of an even cube is a whole number. */
static spc_status shell(spc__voxels *out, const spc__scene_values *values,
                        spc_error *error)
{
    int64_t r = values->at[SHELL_R];
    for (int64_t x = 0; x < r; x++) {
        spc_status status = spc__voxels_reserve(out, r * r, error);
        if (status != SPC_OK)
            return status;
        int64_t dx = 2 * x - (r - 1);
        for (int64_t y = 0; y < r; y++) {
            int64_t dy = 2 * y - (r - 1);
            if (dx * dx + dy * dy > r * r)
                continue;
            for (int64_t z = 0; z < r; z++) {
                int64_t dz = 2 * z - (r - 1);
                if (in_shell(r, dx * dx + dy * dy + dz * dz))
                    spc__voxels_push(out, 0, (int32_t)x, (int32_t)y,
                                     (int32_t)z);
            }
        }
    }
    return SPC_OK;
}

/* ---- uniform ------------------------------------------------------------- */

enum { UNIFORM_N, UNIFORM_EXTENT, UNIFORM_SEED, UNIFORM_BATCH };

/*
 * A keyed permutation of [0, total): a Feistel network on the next even
 * number of bits, walked until it lands inside (Black and Rogaway 2002).
 * Distinct numbers give distinct voxels, so no list of used ones is needed.
 */
typedef struct shuffle {
    uint64_t key;
    uint64_t total;
    int half_bits;
} shuffle;

/* A Feistel network: a permutation of the numbers with 2 * half_bits bits,
 * whatever its round function is. */
static uint64_t feistel(const shuffle *s, uint64_t value)
{
    uint64_t mask = ((uint64_t)1 << s->half_bits) - 1;
    uint64_t left = value >> s->half_bits, right = value & mask;

    for (uint64_t round = 0; round < 6; round++) {
        spc__random mix;
        spc__random_init(&mix, s->key + (round << 32) + right);
        uint64_t next = left ^ (spc__random_u64(&mix) >> 16 & mask);
        left = right;
        right = next;
    }
    return left << s->half_bits | right;
}

static uint64_t shuffled(const shuffle *s, uint64_t value)
{
    do
        value = feistel(s, value);
    while (value >= s->total);
    return value;
}

/* Generates distinct voxels as the first n cells of a permutation of all cells,
 * so that no set of earlier voxels is needed. */
static spc_status uniform(spc__voxels *out, const spc__scene_values *values,
                          spc_error *error)
{
    int64_t n = values->at[UNIFORM_N], extent = values->at[UNIFORM_EXTENT];
    int64_t batches = values->at[UNIFORM_BATCH];
    int64_t total = extent * extent * extent;
    spc__random random;

    if (n > total || n * batches > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_EINVAL,
                         "gen:uniform: n=%lld distinct voxels in %lld batches "
                         "are too many for extent=%lld; at most extent^3 a "
                         "batch and 2^31 - 1 in all are possible",
                         (long long)n, (long long)batches, (long long)extent);
    spc_status status = spc__voxels_reserve(out, n * batches, error);
    if (status != SPC_OK)
        return status;
    spc__random_init(&random, (uint64_t)values->at[UNIFORM_SEED]);
    for (int64_t batch = 0; batch < batches; batch++) {
        shuffle s = {spc__random_u64(&random), (uint64_t)total, 1};
        while (s.half_bits < 31 && total > (int64_t)1 << 2 * s.half_bits)
            s.half_bits++;
        for (int64_t i = 0; i < n; i++) {
            int64_t cell = (int64_t)shuffled(&s, (uint64_t)i);
            spc__voxels_push(
                out, (int32_t)batch, (int32_t)(cell / extent / extent),
                (int32_t)(cell / extent % extent), (int32_t)(cell % extent));
        }
    }
    return SPC_OK;
}

/* ---- the table ----------------------------------------------------------- */

enum { MOST_OPTIONS = 4 };

#define AT(i) offsetof(spc__scene_values, at) + (i) * sizeof(int64_t)
#define SEED(i)                                                                \
    {                                                                          \
        "seed", AT(i), "1", SPC__INT64(0, INT64_MAX, "as a seed")              \
    }

static const struct generator {
    const char *name;
    spc_status (*run)(spc__voxels *out, const spc__scene_values *values,
                      spc_error *error);
    /* default voxel size; 0: the generator makes voxels and takes no @VOXEL */
    double voxel;
    int64_t otherwise[MOST_OPTIONS]; /* defaults of the options */
    spc__word options[MOST_OPTIONS + 1];
} generators[] = {
    {"shell",
     shell,
     0,
     {256},
     {{"r", AT(0), "256", SPC__INT64(1, 2048, "voxels")}}},
    {"lidar",
     spc__scene_street,
     0.05,
     {1, 64},
     {SEED(0), {"beams", AT(1), "64", SPC__INT64(1, 1024, "beams")}}},
    {"room",
     spc__scene_room,
     0.02,
     {1, 0},
     {SEED(0), {"n", AT(1), "100000", SPC__INT64(1, 100000000, "points")}}},
    {"uniform",
     uniform,
     0,
     {1000, 64, 1, 1},
     {{"n", AT(0), "1000", SPC__INT64(1, INT32_MAX, "voxels")},
      {"extent", AT(1), "64", SPC__INT64(1, 1 << 20, "voxels along an axis")},
      SEED(2),
      {"batch", AT(3), "1", SPC__INT64(1, 65536, "batch elements")}}},
};

enum { GENERATORS = sizeof(generators) / sizeof(*generators) };

/* Reads "shell,r=256". */
static spc_status read_options(spc__scene_values *values,
                               const struct generator **out, const char *text,
                               spc_error *error)
{
    const char *names[GENERATORS + 1] = {NULL};
    spc__span rest = spc__span_of(text), name = spc__scan_part(&rest, ',');

    for (int i = 0; i < GENERATORS; i++)
        names[i] = generators[i].name;
    int index = spc__name_find(names, name);
    if (index < 0)
        return spc__fail_unknown(error, "generator", name, names);
    *out = &generators[index];
    spc__word_list list = {.table = (*out)->options, .head = (*out)->name};
    memcpy(values->at, (*out)->otherwise, sizeof(values->at));
    spc_status status = spc__word_list_read(values, &list, text, rest, error);
    if (status != SPC_OK)
        spc__fail_prefix(error, "gen:%s: ", (*out)->name);
    return status;
}

spc_status spc__scene_generate(spc__voxels *out, const char *text,
                               spc_error *error)
{
    spc__scene_values values = {{0}, out->size[0] > 0};
    const struct generator *generator = NULL;
    spc_status status = read_options(&values, &generator, text, error);

    if (status != SPC_OK)
        return status;
    if (generator->voxel == 0 && values.has_voxel)
        return spc__fail(error, SPC_EINVAL,
                         "gen:%s makes voxels, which take no voxel size; drop "
                         "the @%g",
                         generator->name, out->size[0]);
    for (int a = 0; a < 3 && !values.has_voxel; a++)
        out->size[a] = generator->voxel;
    return generator->run(out, &values, error);
}
