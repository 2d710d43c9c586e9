/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_host.h - shared by the files of the cpu device's indexer.
 */
#ifndef SPC_RUNTIME_INDEX_HOST_H
#define SPC_RUNTIME_INDEX_HOST_H

#include "coords/index/indexer.h"
#include "coords/map.h"

enum {
    SPC__HOST_DIGIT_BITS = 11,
    SPC__HOST_CHUNK_ROWS = 4096,
    SPC__HOST_SORT_CHUNKS = 64 /* maximum; each chunk counts each digit */
};

/* Scratch memory of a sort. */
typedef struct spc__host_scratch {
    uint64_t *keys[2]; /* double-buffered; also digests */
    int *rows[2];
    int *counts; /* [chunks of the sort][digits] */
} spc__host_scratch;

/* Scratch memory of a coordinate set. */
typedef struct spc__host_set {
    spc__host_scratch s;
    int32_t *proposed; /* proposed outputs: [capacity of the inputs *
                        * fan-out][4] */
} spc__host_set;

static inline int spc__host_at_most(int value, int limit)
{
    return value < limit ? value : limit;
}

static inline int spc__host_chunks(int rows)
{
    return (rows + SPC__HOST_CHUNK_ROWS - 1) / SPC__HOST_CHUNK_ROWS;
}

/* Rows of a chunk in loops over all entries of a map's index. */
int spc__host_wide_rows(const spc_map *map);

/*
 * Calls body(payload, i) for each i in [0, chunks) on the threads of the
 * context's device, as spc__pool_run_until does. Starts no thread and allocates
 * nothing. Returns false if the context's flag ended the loop early.
 */
bool spc__host_spread(const spc_ctx *ctx, int64_t chunks,
                      void (*body)(void *payload, int64_t i), void *payload);

/* ---- sorting ---------------------------------------------------------- */

int spc__host_passes(int bits);

/* Sorts `rows` rows by keys of `bits` bits. The input is in keys[n & 1] for n
 * passes, so the result is always in keys[0] and order[0]. */
bool spc__host_sort(const spc_ctx *ctx, const spc__host_scratch *s,
                    uint64_t *keys[2], int *order[2], int rows, int bits);

/* ---- sets (contracts: spc__indexer) ------------------------------------- */

/* Unpacks the coordinates of a key. */
void spc__host_unpack(int32_t out[4], const spc_index_key *layout,
                      uint64_t key);

spc_status spc__host_set_build(spc_coords *c, const spc__source *source,
                               void *stream, spc_error *error);
spc_status spc__host_set_derive(spc_coords *c, const spc__source *rows,
                                void *stream, spc_error *error);
spc_status spc__host_set_merge(const spc_coords *c, void *features,
                               spc_dtype dtype, int channels, void *stream,
                               spc_error *error);

/* ---- maps ---------------------------------------------------------------- */

/* Fills the index and masks of the plain layout and sets *pairs to the number
 * of pairs. Returns false if the context's flag ended it early. */
bool spc__host_search(spc_map *map, int64_t *pairs);

/* Fills the row order, masks and index of the padding after the last row. */
void spc__host_pad(const spc__map_layout *layout, const spc_map *map, int begin,
                   int end);

spc_status spc__host_map_tile(const spc_map *map, const spc__map_layout *layout,
                              const spc__map_tiles *tiles, void *stream,
                              spc_error *error);
spc_status spc__host_map_fill(const spc_map *map, const spc__map_layout *layout,
                              void *stream, spc_error *error);
spc_status spc__host_map_list(const spc_map *map, const spc__map_pairs *pairs,
                              void *stream, spc_error *error);

#endif
