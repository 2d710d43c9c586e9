/*
 * coords.h - a coordinate set: the occupied voxels of one level, on the device.
 *
 * Keys in ascending order, each voxel once, whatever the caller's rows were:
 * equal rows are merged, rows out of range left out, and a status on the device
 * says so. How many voxels there are stands on the device too; the host knows
 * it after spc_coords_check. All maps of a level share its set.
 *
 * All arrays live on the device and are sized for the capacity; those by
 * position run to rows_padded, a multiple of SPC_ROW_PAD.
 */
#ifndef SPC_RUNTIME_COORDS_H
#define SPC_RUNTIME_COORDS_H

#include "context/ctx.h"
#include "coords/keys.h"
#include "coords/root.h"
#include "operators/geometry.h"

typedef struct spc__indexer spc__indexer; /* indexer.h */

/* What zones are filled with. */
enum { SPC__COORDS_ZONE = 0xff };

struct spc_coords {
    spc_ctx *ctx;
    const spc__indexer *indexer;
    void *work; /* the indexer's own */
    int users;  /* this handle, maps, and sets derived from it */
    spc_index_key key;
    spc__guard guard;
    spc_duplicates duplicates;
    size_t zone_bytes; /* before and behind each array, its maps' too: 0, or a
                          multiple of 256 */
    int capacity, rows_padded;
    int rows;       /* as of the last check, or as the caller said */
    int asked;      /* rows that it was to be made of, as of the last check */
    bool checked;   /* `rows` is what is on the device */
    bool filled;    /* a filling was enqueued; till then the arrays are zeros */
    bool in_flight; /* and may still be running, on a stream of the caller's */
    bool by_itself; /* made to be filled without a map: what that needs is there
                       from the beginning */
    /* Of a set of outputs: the inputs and the rule. Its rows are in ascending
     * order. */
    spc_coords *from;
    spc_geometry rule;
    spc__derivation
        by; /* how kernels derive it; the root lives as long as `from` */
    struct spc__regroup *regroup; /* of a set made of others (regroup.h) */
    int32_t *data; /* [capacity][4]: of outputs and regrouped sets, or a copy of
                      the caller's; or NULL */
    void *keys;
    int *order;
    int *count;
    int32_t *stats; /* [SPC_INDEX_STATS] */
    int *twins;     /* where features of equal rows are added up */
    int *twin_begin;
};

/*
 * A set of exactly these rows: the key layout fits their extent and the guard
 * bands that `guard` asks for. `host` holds the same coordinates as `coords`
 * (device). Nothing is built yet.
 */
spc_status spc__coords_create_exact(spc_coords **out, spc_ctx *ctx,
                                    const int32_t *host, int64_t rows,
                                    const spc__guard *guard, spc_error *error);

/* As spc_coords_reserve, for an extent that was computed: it may be one voxel.
 */
spc_status spc__coords_reserve(spc_coords **out, spc_ctx *ctx,
                               const spc_coords_options *options,
                               spc_error *error);

/* An empty set within these bounds, for `regroup`; its data is there. */
typedef struct spc__regrouped_bounds {
    int64_t capacity;
    int32_t low[4], high[4];
    spc__guard guard;
    bool merges; /* it keeps account of equal rows */
} spc__regrouped_bounds;

spc_status spc__coords_create_regrouped(spc_coords **out, spc_ctx *ctx,
                                        struct spc__regroup *regroup,
                                        const spc__regrouped_bounds *bounds,
                                        spc_error *error);

/* Is it made of other sets, and not of the caller's rows? */
static inline bool spc__coords_is_derived(const spc_coords *coords)
{
    return coords->from != NULL || coords->regroup != NULL;
}

/* On the device: how many rows the caller gave, with those that are no voxels,
 * or how many were derived. Clouds of points have no keys, and all rows. */
static inline const int *spc__coords_row_count(const spc_coords *coords)
{
    return spc__coords_is_derived(coords) || coords->keys == NULL
               ? coords->count
               : coords->stats + SPC_INDEX_ROWS;
}

/* Do these rows (host) fit the keys of a map of this geometry? SPC_ERANGE names
 * the axis at fault. */
spc_status spc__coords_fit(const spc_geometry *geometry, const int32_t *host,
                           int64_t rows, spc_error *error);

/* Copies coordinates to the host, waiting for them. */
spc_status spc__coords_fetch(int32_t **out, spc_ctx *ctx, const int32_t *coords,
                             int64_t rows, void *stream, spc_error *error);

/* Copies coordinates to the device, as the set's own. */
spc_status spc__coords_adopt(spc_coords *coords, const int32_t *host,
                             spc_error *error);

/* Builds from the given rows (device) and reports what was wrong with them:
 * SPC_EDUPLICATE and SPC_ERANGE name rows. `host` (may be NULL) is what the
 * sentences name coordinates from. */
spc_status spc__coords_build_checked(spc_coords *coords, const int32_t *rows,
                                     const int32_t *host, void *stream,
                                     spc_error *error);

/* One more user of the set; spc_coords_free takes one away. */
spc_coords *spc__coords_share(spc_coords *coords);

/* Reads count and stats: the number of voxels, and what is wrong. */
spc_status spc__coords_inspect(spc_coords *coords, const int32_t *host,
                               void *stream, spc_error *error);

/* The guard bands that a map of this geometry needs of the set it searches. */
void spc__guard_for(spc__guard *out, const spc_geometry *geometry,
                    bool inverse);
void spc__guard_widen(spc__guard *guard, const spc__guard *by);

/* Every filling of a set goes through these two, which note that it is filled:
 * from rows of the caller, and a set of outputs from its inputs or, with
 * `rows`, from what its root is made of. */
struct spc__source;
spc_status spc__coords_build(spc_coords *coords,
                             const struct spc__source *source, void *stream,
                             spc_error *error);
spc_status spc__coords_derive_set(spc_coords *coords,
                                  const struct spc__source *rows, void *stream,
                                  spc_error *error);

/*
 * The stream on which the caller fills a set or map may be one that does not
 * wait for the default stream, nor that for it, and the caller may have
 * destroyed it since. So what reads them on the default stream calls this
 * first: if they are in flight, it waits for the whole device. A check waits
 * for their stream and ends the flight. What a graph replays is not seen here:
 * the caller waits for it.
 */
spc_status spc__coords_land(const spc_ctx *ctx, bool in_flight,
                            spc_error *error);

/* SPC_ESTATE: the set was never filled. */
spc_status spc__coords_need_filled(const spc_coords *coords, spc_error *error);

/* Fills a set of outputs from the rows that its root (`by`) is made of, which
 * need not be filled before where sets are filled by kernels. */
spc_status spc__coords_derive(spc_coords *coords, const int32_t *from,
                              const int32_t *count, int64_t rows, void *stream);

/* As the kernels see the set. */
void spc__coords_args(spc_index_set *out, const spc_coords *coords,
                      int bin_bits, int *begins, int *shares);

/* "batch", "x", "y", "z". */
extern const char *const spc__field_names[4];

/* Device memory of the set's context. */
spc_status spc__coords_alloc(void *out, const spc_coords *coords, size_t bytes,
                             spc_error *error);
void spc__coords_dealloc(const spc_coords *coords, void *memory);

#endif
