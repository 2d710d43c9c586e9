/*
 * index_search.cuh - the search: every row by the searcher that was chosen.
 *
 * Part of index.cu.lua, which defines map_key, index_shared and the constants.
 */
#ifndef SPC_INDEX_SEARCH_CUH
#define SPC_INDEX_SEARCH_CUH

/* Positions past the rows: no neighbours, whatever was found. */
SPC_DEVICE void search_nothing(const spc_index_args *args, int p,
                               unsigned *mask)
{
    for (int w = 0; w < WORDS; w++)
        mask[w * SORT_THREADS] = 0;
    for (int k = 0; args->index && k < OFFSETS; k++)
        args->index[(long long)k * args->set.rows_padded + p] = -1;
}

/* Every warp has a word of its own: nothing needs waiting for. Those past the
 * grid's are an earlier, larger grid's. */
SPC_DEVICE void store_pairs(const spc_index_args *args, int pairs)
{
    int warp = spc_block_x() * SORT_WARPS + spc_warp();
    int warps = spc_grid_x() * SORT_WARPS;

    for (int i = warps + spc_block_x() * SORT_THREADS + spc_thread();
         i < args->pair_words; i += spc_grid_x() * SORT_THREADS)
        args->pairs[i] = 0;

    for (int bits = 16; bits > 0; bits >>= 1)
        pairs += spc_shfl_xor(pairs, bits);
    if (spc_lane() == 0)
        args->pairs[warp] = pairs;
}

/* The map of positions begin..end, and their digests if a sorted order is wanted
 * in the same launch. */
SPC_DEVICE void search(const spc_index_args *args, index_shared *s,
                       const index_extent *e, int begin, int end)
{
    int sorted = (args->stages & SPC_INDEX_SORT) != 0, pairs = 0;
    unsigned *mask = s->u.search.mask + spc_thread(); /* this thread's own */

    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int p = first + spc_lane();
        for (int w = 0; w < WORDS; w++)
            mask[w * SORT_THREADS] = 0;
        if (first < e->rows)
            search_row(args, s, e, p, mask);
        if (p >= e->rows)
            search_nothing(args, p, mask);
        for (int w = 0; w < WORDS; w++) {
            args->mask[(long long)w * args->set.rows_padded + p] =
                mask[w * SORT_THREADS];
            pairs += spc_popc(mask[w * SORT_THREADS]);
        }
        if (sorted)
            keep_digest(args, s, s->u.search.digits, p, p < e->rows, mask,
                        SORT_THREADS);
    }
    store_pairs(args, pairs);
    if (sorted)
        sort_count_store(s->u.search.digits, sort_table(args->tables, 0));
}

#endif
