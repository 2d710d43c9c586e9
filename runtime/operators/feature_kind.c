/* SPDX-License-Identifier: Apache-2.0 */
/* feature_kind.c - the kernels of an operator on features, their numbers of
 * threads, and their workspace. */
#include "operators/feature_kind.h"

#include "base/dtype.h"
#include "operators/feature.h"

#include "templates/shared/spc_abi.h"

#include "templates/shared/index_abi.h"

#include "templates/shared/feature_abi.h"

typedef spc__feature_sizes sizes;

enum { WARP = 32 };

/* ---- sizes --------------------------------------------------------------- */

size_t spc__feature_natural(const spc_feature *f, int64_t elements)
{
    size_t bytes = (size_t)elements * spc__dtype_of(f->dtype)->bytes, at = 16;

    while (bytes % at != 0)
        at /= 2;
    return at;
}

/* One thread for each piece of an output row. */
static int64_t by_pieces(const spc_feature *f, const sizes *s)
{
    int64_t outputs = spc__feature_outputs(f);
    int64_t bytes = outputs * (int64_t)spc__dtype_of(f->dtype)->bytes;

    return s->rows * (bytes / (int64_t)spc__feature_natural(f, outputs));
}

static int64_t by_warps(const spc_feature *f, const sizes *s)
{
    (void)f;
    return s->rows * WARP;
}

static int64_t by_rows(const spc_feature *f, const sizes *s)
{
    (void)f;
    return s->rows;
}

static int64_t by_elements(const spc_feature *f, const sizes *s)
{
    return s->rows * f->channels;
}

static int64_t by_parts(const spc_feature *f, const sizes *s)
{
    (void)f;
    return s->batches * SPC_FEATURE_PARTS * SPC_FEATURE_THREADS;
}

/* Counts the pieces of all rows. */
static int64_t by_row_parts(const spc_feature *f, const sizes *s)
{
    (void)f;
    (void)s;
    return SPC_FEATURE_PARTS * SPC_FEATURE_THREADS;
}

/* One thread for each sum over rows. */
static int64_t by_sums(const spc_feature *f, const sizes *s)
{
    (void)s;
    return 2 * (int64_t)f->channels;
}

static int64_t by_channels(const spc_feature *f, const sizes *s)
{
    return s->batches * ((f->channels + WARP - 1) / WARP) * SPC_FEATURE_THREADS;
}

static int64_t by_groups(const spc_feature *f, const sizes *s)
{
    return s->batches * f->groups * WARP;
}

static int64_t layer_cells(const spc_feature *f)
{
    return (int64_t)f->shape[0] * f->shape[1] * f->shape[2];
}

static int64_t by_cells(const spc_feature *f, const sizes *s)
{
    return s->batches * layer_cells(f);
}

/* ---- kernels ------------------------------------------------------------- */

#define OP(name) (1u << SPC_FEATURE_##name)

/* Bytes that a block of global pooling keeps for every warp. A block that sums
 * two values keeps twice as much. */
enum {
    PART_BYTES = SPC_FEATURE_THREADS / WARP * WARP * 8 * sizeof(float),
    PAIR_BYTES = 2 * PART_BYTES,
    JOIN_BYTES = SPC_FEATURE_THREADS / WARP * WARP * sizeof(float)
};

static const spc__feature_kind kinds[] = {
    {"feature_pool",
     OP(POOL) | OP(UNPOOL),
     SPC_FORWARD,
     false,
     {{"spc_pool", true, by_pieces, 0}}},
    {"feature_slices",
     OP(SLICE) | OP(UNSLICE),
     SPC_FORWARD,
     false,
     {{"spc_slices", true, by_pieces, 0}}},
    {"feature_rows",
     OP(ADD) | OP(ACT) | OP(ACTGRAD) | OP(GROUPSUM) | OP(GROUPMEAN) |
         OP(REPEAT) | OP(AFFINE),
     SPC_FORWARD,
     false,
     {{"spc_rows", true, by_pieces, 0}}},
    {"feature_norm",
     OP(LAYERNORM),
     SPC_FORWARD,
     false,
     {{"spc_norm", true, by_warps, 0}}},
    {"feature_batch",
     OP(GLOBAL),
     SPC_FORWARD,
     false,
     {{"spc_part", true, by_parts, PART_BYTES},
      {"spc_join", false, by_channels, JOIN_BYTES}}},
    {"feature_batch",
     OP(GROUPNORM),
     SPC_FORWARD,
     false,
     {{"spc_part", true, by_parts, 0},
      {"spc_join", false, by_groups, 0},
      {"spc_apply", true, by_pieces, 0}}},
    {"feature_bev",
     OP(BEV),
     SPC_FORWARD,
     false,
     {{"spc_place", false, by_rows, 0}, {"spc_dense", true, by_cells, 0}}},
    /* Gradients. */
    {"feature_pool",
     OP(POOL) | OP(UNPOOL),
     SPC_DGRAD,
     false,
     {{"spc_pool", true, by_pieces, 0}}},
    {"feature_pool",
     OP(POOL) | OP(UNPOOL),
     SPC_DGRAD,
     true,
     {{"spc_count", false, by_rows, 0}, {"spc_pool", true, by_pieces, 0}}},
    {"feature_rows",
     OP(GROUPMEAN) | OP(AFFINE),
     SPC_DGRAD,
     false,
     {{"spc_rows", true, by_pieces, 0}}},
    {"feature_norm",
     OP(LAYERNORM),
     SPC_DGRAD,
     false,
     {{"spc_norm", true, by_warps, 0}}},
    {"feature_norm",
     OP(AFFINE),
     SPC_WGRAD,
     false,
     {{"spc_channels", true, by_row_parts, PAIR_BYTES},
      {"spc_sums", false, by_sums, 0}}},
    {"feature_norm",
     OP(LAYERNORM),
     SPC_WGRAD,
     false,
     {{"spc_moments", true, by_warps, 0},
      {"spc_channels", true, by_row_parts, PAIR_BYTES},
      {"spc_sums", false, by_sums, 0}}},
    {"feature_batch",
     OP(GLOBAL),
     SPC_DGRAD,
     false,
     {{"spc_spread", true, by_warps, 0}}},
    {"feature_batch",
     OP(GLOBAL),
     SPC_DGRAD,
     true,
     {{"spc_part", true, by_parts, PART_BYTES},
      {"spc_join", false, by_channels, JOIN_BYTES},
      {"spc_find", false, by_elements, 0},
      {"spc_spread", true, by_warps, 0}}},
    {"feature_batch",
     OP(GROUPNORM),
     SPC_DGRAD,
     false,
     {{"spc_part", true, by_parts, 0},
      {"spc_join", false, by_groups, 0},
      {"spc_part_back", true, by_parts, 0},
      {"spc_join_back", false, by_groups, 0},
      {"spc_apply", true, by_pieces, 0}}},
    {"feature_batch",
     OP(GROUPNORM),
     SPC_WGRAD,
     false,
     {{"spc_part", true, by_parts, 0},
      {"spc_join", false, by_groups, 0},
      {"spc_channels", true, by_row_parts, PAIR_BYTES},
      {"spc_sums", false, by_sums, 0}}},
    {"feature_bev",
     OP(BEV),
     SPC_DGRAD,
     false,
     {{"spc_fetch", true, by_elements, 0}}},
};

bool spc__feature_counts(const spc_feature *f)
{
    if (f->pass != SPC_DGRAD)
        return false;
    switch (f->op) {
    case SPC_FEATURE_POOL:
        return f->reduction == SPC_REDUCE_MEAN;
    case SPC_FEATURE_UNPOOL:
        return !f->index;
    default:
        return f->op == SPC_FEATURE_GLOBAL && f->reduction == SPC_REDUCE_MAX;
    }
}

const spc__feature_kind *spc__feature_kind_of(const spc_feature *f)
{
    bool counts = spc__feature_counts(f);
    const spc__feature_kind *at = kinds;

    while (!(at->ops >> f->op & 1) || at->pass != f->pass ||
           at->counts != counts)
        at++;
    return at;
}

/* ---- workspace ----------------------------------------------------------- */

/* Each array of a workspace starts at a multiple of 256 bytes. */
static size_t padded(int64_t bytes)
{
    return ((size_t)bytes + 255) / 256 * 256;
}

/* The partial results of spc_part and spc_channels, by batch element or over
 * all rows. */
static size_t parts_bytes(const spc_feature *f, const sizes *s)
{
    int64_t by_batch = s->batches * SPC_FEATURE_PARTS * 4, of_batch = 0;
    int64_t of_rows = f->pass == SPC_WGRAD
                          ? SPC_FEATURE_PARTS * 2 * 4 * (int64_t)f->channels
                          : 0;

    if (f->op == SPC_FEATURE_GLOBAL &&
        (f->pass == SPC_FORWARD || spc__feature_counts(f)))
        of_batch = by_batch * f->channels;
    if (f->op == SPC_FEATURE_GROUPNORM)
        of_batch = by_batch * 2 * f->groups;
    return padded(of_batch > of_rows ? of_batch : of_rows);
}

/* Values passed between kernels. For a group: its mean and 1 / sqrt, in a
 * gradient also two means of gradients. For a row: the same. Otherwise
 * maxima. */
static size_t moments_bytes(const spc_feature *f, const sizes *s)
{
    switch (f->op) {
    case SPC_FEATURE_GROUPNORM:
        return padded(s->batches * f->groups * 8 *
                      (f->pass == SPC_DGRAD ? 2 : 1));
    case SPC_FEATURE_LAYERNORM:
        return f->pass == SPC_WGRAD ? padded(s->rows * 8) : 0;
    case SPC_FEATURE_GLOBAL:
        return spc__feature_counts(f) ? padded(s->batches * f->channels * 4)
                                      : 0;
    default:
        return 0;
    }
}

static size_t cells_bytes(const spc_feature *f, const sizes *s)
{
    if (f->op == SPC_FEATURE_BEV && f->pass == SPC_FORWARD)
        return padded(s->batches * layer_cells(f) * 4);
    if (!spc__feature_counts(f))
        return 0;
    return f->op == SPC_FEATURE_GLOBAL ? padded(s->batches * f->channels * 4)
                                       : padded(s->seen * 4);
}

/* Counts start at 0; a minimum starts at a large value. */
static int empty_cell(const spc_feature *f)
{
    if (f->op == SPC_FEATURE_BEV)
        return 0xff;
    return f->op == SPC_FEATURE_POOL ? 0 : 0x7f;
}

void spc__feature_room_of(spc__feature_room *out, const spc_feature *f,
                          const sizes *s)
{
    out->moments = parts_bytes(f, s);
    out->cells = out->moments + moments_bytes(f, s);
    out->cells_bytes = cells_bytes(f, s);
    out->bytes = out->cells + out->cells_bytes;
    out->empty = empty_cell(f);
}
