/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coords.h - a coordinate set: the occupied voxels of one level, on the device.
 *
 * Keys are in ascending order and unique. Equal rows of the caller are merged,
 * rows out of range are left out, and a status on the device reports both. The
 * number of voxels is also on the device; the host reads it in
 * spc_coords_check. All maps of a level share its set.
 *
 * All arrays are on the device. Arrays indexed by position have rows_padded
 * elements, a multiple of SPC_ROW_PAD. The arrays of sets and maps have room
 * for `reserved` rows; the capacity is at most `reserved`
 * (spc_coords_set_capacity).
 */
#ifndef SPC_RUNTIME_COORDS_H
#define SPC_RUNTIME_COORDS_H

#include "context/ctx.h"
#include "coords/keys.h"
#include "coords/root.h"
#include "operators/geometry.h"
#include "templates/shared/spc_abi.h"

typedef struct spc__indexer spc__indexer; /* indexer.h */

/* The byte that zones are filled with. */
enum { SPC__COORDS_ZONE = 0xff };

struct spc_coords {
    spc_ctx *ctx;
    const spc__indexer *indexer;
    void *work; /* private to the indexer */
    int users;  /* references: this handle, maps, and derived sets */
    spc_index_key key;
    spc__guard guard;
    spc_duplicates duplicates;
    size_t zone_bytes; /* guard zone around each array of sets and maps: 0 or a
                        * multiple of 256 */
    int capacity, rows_padded;     /* the numbers as kernels see them */
    int reserved, reserved_padded; /* upper bounds of these numbers */
    const char *fixed; /* why the capacity cannot change; NULL: it can */
    int rows;       /* at the last check, or as given by the caller */
    int asked;      /* rows that the caller gave, as of the last check */
    bool checked;   /* `rows` agrees with the device */
    bool filled;    /* a fill was enqueued; until then the arrays are zero */
    bool in_flight; /* the fill may still be running on the caller's stream */
    /* can be filled without a map, for which memory is allocated at creation */
    bool by_itself;
    /* For a set of outputs: its inputs and rule. Its rows are in ascending
     * order. */
    spc_coords *from;
    spc_geometry rule;
    /* how kernels derive the set; `from` keeps the root alive */
    spc__derivation by;
    struct spc__regroup *regroup; /* data of a regrouped set (regroup.h) */
    int32_t *data; /* [capacity][4]: rows of outputs and regrouped sets, or a
                    * copy of the caller's; may be NULL */
    void *keys;
    int *order;
    int32_t *stats; /* [SPC_INDEX_STATS], then the number of voxels */
    int *count;     /* points to the last statistic */
    int32_t seen[SPC_INDEX_STATS + 1]; /* the statistics, as of the last
                                          check */
    int *twins;     /* first row of each group of equal rows, for merging
                       features */
    int *twin_begin;
};

/*
 * Creates a set for exactly these rows: the key layout fits their extent and
 * the guard bands in `guard`. `host` and `coords` (device) hold the same
 * coordinates. Builds nothing yet.
 */
spc_status spc__coords_create_exact(spc_coords **out, spc_ctx *ctx,
                                    const int32_t *host, int64_t rows,
                                    const spc__guard *guard, spc_error *error);

/* Like spc_coords_create_reserved, but accepts an extent of one voxel, because
 * this extent was computed. */
spc_status spc__coords_reserve(spc_coords **out, spc_ctx *ctx,
                               const spc_coords_options *options,
                               spc_error *error);

/* Creates an empty set within these bounds for `regroup` and allocates its
 * data. */
typedef struct spc__regrouped_bounds {
    int64_t capacity;
    int32_t low[4], high[4];
    spc__guard guard;
    bool merges; /* records which rows are equal */
} spc__regrouped_bounds;

spc_status spc__coords_create_regrouped(spc_coords **out, spc_ctx *ctx,
                                        struct spc__regroup *regroup,
                                        const spc__regrouped_bounds *bounds,
                                        spc_error *error);

/* True if the set is made from other sets and not from the caller's rows. */
static inline bool spc__coords_is_derived(const spc_coords *coords)
{
    return coords->from != NULL || coords->regroup != NULL;
}

/* Returns the device address of the number of rows before merging: rows given
 * by the caller, including invalid ones, or rows derived. A cloud of points has
 * no keys; this is then its number of rows. */
static inline const int *spc__coords_row_count(const spc_coords *coords)
{
    return spc__coords_is_derived(coords) || coords->keys == NULL
               ? coords->count
               : coords->stats + SPC_INDEX_ROWS;
}

/* Checks that these rows (host) fit the keys of a map of this geometry.
 * SPC_ERANGE names the axis that does not fit. */
spc_status spc__coords_fit(const spc_geometry *geometry, const int32_t *host,
                           int64_t rows, spc_error *error);

/* Copies coordinates to the host and waits for the copy. */
spc_status spc__coords_fetch(int32_t **out, spc_ctx *ctx, const int32_t *coords,
                             int64_t rows, void *stream, spc_error *error);

/* Copies coordinates to the device. The set owns the copy. */
spc_status spc__coords_adopt(spc_coords *coords, const int32_t *host,
                             spc_error *error);

/* Builds the set from the given rows (device) and reports errors in them: the
 * messages of SPC_EDUPLICATE and SPC_ERANGE name rows. Their coordinates are
 * read from `host`, which may be NULL. */
spc_status spc__coords_build_checked(spc_coords *coords, const int32_t *rows,
                                     const int32_t *host, void *stream,
                                     spc_error *error);

/* Rows with padding; at least one unit of it. */
static inline int spc__coords_padded(int rows)
{
    int padded = (rows + SPC_ROW_PAD - 1) / SPC_ROW_PAD * SPC_ROW_PAD;

    return padded > 0 ? padded : SPC_ROW_PAD;
}

/* Adds a reference, which spc_coords_free releases. */
spc_coords *spc__coords_share(spc_coords *coords);

/* Reads the number of voxels and the statistics and reports errors. */
spc_status spc__coords_inspect(spc_coords *coords, const int32_t *host,
                               void *stream, spc_error *error);
/* Reports the errors that were read last (spc__inspect). */
spc_status spc__coords_verdict(const spc_coords *coords, const int32_t *host,
                               spc_error *error);

/* Computes the guard bands that a map of this geometry needs in the set that it
 * searches. */
void spc__guard_for(spc__guard *out, const spc_geometry *geometry,
                    bool inverse);
void spc__guard_widen(spc__guard *guard, const spc__guard *by);

/*
 * Records that a fill changed the set: the last check no longer describes it,
 * and it is filled if `status` is SPC_OK. Every fill calls it:
 * spc__coords_build, which fills from the caller's rows; spc__coords_derive_set,
 * which fills a set of outputs from its inputs or, with `rows`, from the rows of
 * its root; the update of a submanifold map that also fills its set; and the
 * fills of regrouped sets and of clouds.
 */
void spc__coords_changed(spc_coords *coords, spc_status status);

struct spc__source;
spc_status spc__coords_build(spc_coords *coords,
                             const struct spc__source *source, void *stream,
                             spc_error *error);
spc_status spc__coords_derive_set(spc_coords *coords,
                                  const struct spc__source *rows, void *stream,
                                  spc_error *error);

/*
 * Waits for the device if a fill may be in flight.
 *
 * The caller may fill a set or map on a stream that does not synchronise with
 * the default stream, and may have destroyed that stream since. Code that reads
 * the set on the default stream therefore calls this first. spc_coords_check
 * waits for the fill's stream and clears in_flight. Fills replayed by a graph
 * are not seen here: the caller has to wait for them.
 */
spc_status spc__coords_land(const spc_ctx *ctx, bool in_flight,
                            spc_error *error);

/* Returns SPC_ESTATE if the set was never filled. */
spc_status spc__coords_need_filled(const spc_coords *coords, spc_error *error);

/* Fills a set of outputs from the rows of its root (`by`). If kernels fill the
 * sets, the root need not have been filled. */
spc_status spc__coords_derive(spc_coords *coords, const int32_t *from,
                              const int32_t *count, int64_t rows, void *stream);

/* Fills in the set as kernels see it. */
void spc__coords_args(spc_index_set *out, const spc_coords *coords,
                      int bin_bits, int *begins, int *shares);

/*
 * Finds the root of a set with known inputs and rule; the roots of the inputs
 * must be known already.
 *
 * Two floors combine: floor(floor(i / a) / b) is floor(i / (a b)) for either
 * sign of i. So do two footprints: i = o s - p + r and o = q t - u + v give i =
 * q (s t) - (p + s u) + (r + s v). With r < k and v < l, r + s v takes every
 * value from 0 to k - 1 + s (l - 1) if they leave no gaps: k >= s, or l = 1.
 * Outputs o outside the inner rule's bound can make a difference. This is
 * checked for every input coordinate over the extent of the root.
 */
void spc__coords_find_root(spc__derivation *out, const spc_coords *coords);

/* "batch", "x", "y", "z". */
extern const char *const spc__field_names[4];

/* Allocates device memory in the set's context. */
spc_status spc__coords_alloc(void *out, const spc_coords *coords, size_t bytes,
                             spc_error *error);
void spc__coords_dealloc(const spc_coords *coords, void *memory);

#endif
