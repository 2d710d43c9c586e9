/*
 * index_each.cuh - for searchers that look for each offset separately: computes
 * the keys of a batch, and from their positions the short form.
 *
 * The searcher has defined
 *
 *   find_keys  the positions, among the sorted keys, of those keys `want` whose
 *              bit of `asked` is set; -1 for all others, and for keys that
 *              belong to no voxel
 *
 * Part of index.cu.lua, which defines map_key, index_shared and the constants.
 */
#ifndef SPC_INDEX_EACH_CUH
#define SPC_INDEX_EACH_CUH

/* A row, in the form that the search of its inputs needs. */
typedef struct index_row {
#if INVERSE
    spc_b16 voxel;
#else
    map_key own;
#endif
} index_row;

SPC_DEVICE index_row row_at(const spc_index_args *args, int p)
{
    index_row row;

#if INVERSE
    row.voxel =
        unpack_key(&args->set.key, ((const row_key *)args->set.keys)[p]);
#else
    row.own = own_key(args, p);
#endif
    return row;
}

/* The key of offset `l` of a run. Returns false if no voxel can exist there. */
SPC_DEVICE int offset_key(const spc_index_args *args, const index_shared *s,
                          const index_row *row, int run, int l, map_key *out)
{
#if INVERSE
    (void)s;
    (void)l; /* runs of one offset */
    return input_key(args, &row->voxel, run, out);
#else
    *out = row->own + s->u.search.run[run] + (map_key)l;
    return 1;
#endif
}

/* Keeps the first position found in each run; the others follow it. */
SPC_DEVICE void gather_runs(const int *at, index_batch *found)
{
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        found->first[j] = 0;
        found->bits[j] = 0;
        /* Downwards, so that the first present offset is stored last. */
        SPC_UNROLL
        for (int l = RUN - 1; l >= 0; l--) {
            if (at[j * RUN + l] >= 0) {
                found->first[j] = at[j * RUN + l];
                found->bits[j] |= 1u << l;
            }
        }
    }
}

SPC_DEVICE void search_row(const spc_index_args *args, index_shared *s,
                           const index_extent *e, int p, row_mask *mask,
                           int plain)
{
    int valid = p < e->rows, at[BATCH * RUN];
    index_row row = row_at(args, valid ? p : e->rows - 1);

    for (int batch = 0; batch < SEARCHED; batch++) {
        map_key want[BATCH * RUN];
        spc_u32 asked = 0;
        index_batch found;
        SPC_UNROLL
        for (int i = 0; i < BATCH * RUN; i++) {
            int run = batch * BATCH + i / RUN, l = i % RUN;
            want[i] = 0;
#if HALF
            if (run >= MIDDLE)
                continue;
#endif
            if (valid && l < run_length(run) &&
                offset_key(args, s, &row, run, l, &want[i]))
                asked |= 1u << i;
        }
        find_keys(args, s, e, want, asked, at);
        gather_runs(at, &found);
        write_found(args, s, e, mask, p, batch, &found, plain);
    }
}

#endif
