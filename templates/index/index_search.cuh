/*
 * index_search.cuh - the search: processes every row with the chosen searcher.
 *
 * Part of index.cu.lua, which defines map_key, index_shared and the constants.
 */
#ifndef SPC_INDEX_SEARCH_CUH
#define SPC_INDEX_SEARCH_CUH

/* Clears the masks of a warp without rows. */
SPC_DEVICE void mask_nothing(const spc_index_args *args, int p, int plain)
{
    for (int w = 0; w < WORDS; w++)
        args->mask[(long long)w * args->set.rows_padded + p] = 0;
    for (int k = 0; plain && k < OFFSETS; k++)
        args->index[(long long)k * args->set.rows_padded + p] = -1;
}

/*
 * Every warp stores into its own word, so it need not wait. Words past the
 * grid's last warp may be left from an earlier, larger grid, and are cleared.
 */
SPC_DEVICE void store_pairs(const spc_index_args *args, int pairs)
{
    int warp = spc_block_x() * SORT_WARPS + spc_warp();
    int warps = spc_grid_x() * SORT_WARPS;

    SPC_ROLLED
    for (int i = warps + sort_grid_thread();
         i < args->pair_words; i += spc_grid_x() * SORT_THREADS)
        args->pairs[i] = 0;

    for (int bits = 16; bits > 0; bits >>= 1)
        pairs += spc_shfl_xor(pairs, bits);
    if (spc_lane() == 0)
        args->pairs[warp] = pairs;
}

/*
 * Searches the map of positions begin..end. Computes digests if the same launch
 * makes a sorted order. If `plain`, also writes the entries in coordinate order.
 */
SPC_DEVICE void search(const spc_index_args *args, index_shared *s,
                       const index_extent *e, int begin, int end, int plain)
{
    int sorted = (args->stages & SPC_INDEX_SORT) != 0, pairs = 0;

    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int p = first + spc_lane();
        row_mask mask = {0};
        mask.valid = p < e->rows;
        if (first < e->rows) {
            search_row(args, s, e, p, &mask, plain);
            if (WORDS == 1 || OFFSETS % 32)
                close_word(args, s, &mask, p);
        } else {
            mask_nothing(args, p, plain);
        }
        pairs += mask.pairs;
        if (sorted)
            keep_digest(args, s->u.search.digits, p, mask.valid,
                        gray_rank(mask.code));
    }
    store_pairs(args, pairs);
    if (sorted)
        sort_count_store(s->u.search.digits, sort_table(args->tables, 0));
}

#endif
