/*
 * index_search.cuh - the search: processes every row with the chosen searcher.
 *
 * Part of index.cu.lua, which defines map_key, index_shared and the constants.
 */
#ifndef SPC_INDEX_SEARCH_CUH
#define SPC_INDEX_SEARCH_CUH

#if !HALF
/* Clears the masks of a warp without rows. */
SPC_DEVICE void mask_nothing(const spc_index_args *args, int p, int plain)
{
    for (int w = 0; w < WORDS; w++)
        args->mask[(long long)w * args->set.rows_padded + p] = 0;
    for (int k = 0; plain && k < OFFSETS; k++)
        args->index[(long long)k * args->set.rows_padded + p] = -1;
}
#endif

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

#if HALF
/* Clears the masks before the launch's first barrier, as far as the set can need. */
SPC_DEVICE void clear_masks(const spc_index_args *args)
{
    int rows = args->stages & SPC_INDEX_BUILD ? rows_asked(args)
                                              : *args->set.count;
    index_extent e = extent_of(args, rows);

    for (int w = 0; w < WORDS; w++)
        for (int p = sort_grid_thread(); p < e.padded;
             p += spc_grid_x() * SORT_THREADS)
            args->mask[(long long)w * args->set.rows_padded + p] = 0;
}

/* Completes the rows of positions begin..end, whose masks are final. */
SPC_DEVICE void finish_half(const spc_index_args *args, index_shared *s,
                            const index_extent *e, int begin, int end)
{
    int sorted = (args->stages & SPC_INDEX_SORT) != 0, pairs = 0;

    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int p = first + spc_lane();
        spc_u32 code = 0;
        for (int w = 0; w < WORDS; w++) {
            spc_u32 word =
                args->mask[(long long)w * args->set.rows_padded + p];
#if FOURS
            keep_four(args, (row_mask *)0, p, w, word);
#endif
            pairs += spc_popc(word);
            if (sorted)
                code |= code_of_word(s, w, word);
        }
        if (sorted)
            keep_digest(args, s->u.search.digits, p, p < e->rows,
                        gray_rank(code));
    }
    store_pairs(args, pairs);
    if (sorted)
        sort_count_store(s->u.search.digits, sort_table(args->tables, 0));
}

/* Searches half of the map of positions begin..end. Other rows find the other
 * half, so a barrier follows. */
SPC_DEVICE void search_half(const spc_index_args *args, index_shared *s,
                            const index_extent *e, grid_barrier *barrier,
                            int begin, int end)
{
    for (int first = begin + 32 * spc_warp(); first < end && first < e->rows;
         first += SORT_THREADS) {
        int p = first + spc_lane();
        row_mask mask = {0};
        mask.valid = p < e->rows;
        mask.near = rows_near(args, at_most(p, e->rows - 1), e->rows);
        search_row(args, s, e, p, &mask, 0);
        keep_middle(args, s, &mask, p);
    }
    grid_sync(barrier); /* all rows have their masks */
    finish_half(args, s, e, begin, end);
}
#else
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

#endif
