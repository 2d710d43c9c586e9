/*
 * index_binary.cuh - the binary searcher: a separate search for each offset,
 * bounded by the bins.
 *
 * Part of index.cu.lua; a searcher (index_runs.cuh).
 */
#ifndef SPC_INDEX_BINARY_CUH
#define SPC_INDEX_BINARY_CUH

SPC_DEVICE void open_searcher(const spc_index_args *args)
{
    (void)args;
}

SPC_DEVICE void ready_searcher(const spc_index_args *args,
                               const index_extent *e, grid_barrier *barrier)
{
    (void)args;
    (void)e;
    (void)barrier;
}

SPC_DEVICE void find_keys(const spc_index_args *args, const index_shared *s,
                          const index_extent *e, const map_key *want,
                          spc_u32 asked, int *at)
{
    const map_key *keys = (const map_key *)args->in.keys;

    SPC_UNROLL
    for (int i = 0; i < BATCH * RUN; i++) {
        int place = -1;
        if (asked >> i & 1u) {
            place = lower_bound(&args->in, s, want[i], 0);
            if (place >= e->rows_in || keys[place] != want[i])
                place = -1;
        }
        at[i] = place;
    }
}

#include "index_each.cuh"

#endif
