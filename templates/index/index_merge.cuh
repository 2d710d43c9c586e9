/*
 * index_merge.cuh - of several equal rows a set keeps the first in the caller's
 * order.
 *
 * Rows out of range are already at the end of the sorted keys, and the count
 * alone excludes them. Equal rows are rare, so the cost of merging (three
 * barriers) is paid only if there are any.
 *
 * Part of index.cu.lua, which defines map_key, index_shared and the constants.
 */
#ifndef SPC_INDEX_MERGE_CUH
#define SPC_INDEX_MERGE_CUH

/*
 * The number of voxels in earlier blocks, which is where this block's voxels
 * begin. *total receives the number of all voxels. `counts` holds the count of
 * every block.
 */
SPC_DEVICE int sum_counts(const int *counts, index_shared *s, int *total)
{
    int before = 0, all = 0;

    for (int i = spc_thread(); i < spc_grid_x(); i += SORT_THREADS) {
        all += counts[i];
        before += i < spc_block_x() ? counts[i] : 0;
    }
    sort_block_sum(all, s->u.sort.sums);
    *total = s->u.sort.sums[SORT_WARPS];
    spc_sync_block();
    sort_block_sum(before, s->u.sort.sums);
    before = s->u.sort.sums[SORT_WARPS];
    spc_sync_block();
    return before;
}

SPC_DEVICE int begins_voxel(const map_key *keys, int p, int end)
{
    return p < end && (p == 0 || keys[p] != keys[p - 1]);
}

SPC_DEVICE int count_voxels(const map_key *keys, index_shared *s, int begin,
                            int end)
{
    int own = 0;

    for (int p = begin + spc_thread(); p < end; p += SORT_THREADS)
        own += begins_voxel(keys, p, end);
    sort_block_sum(own, s->u.sort.sums);
    return s->u.sort.sums[SORT_WARPS];
}

/* Moves the first row of each voxel of begin..end to its position. */
SPC_DEVICE void gather_voxels(const spc_index_args *args, index_shared *s,
                              int begin, int end, int place)
{
    const map_key *keys = (const map_key *)args->set.keys;

    for (int step = begin; step < end; step += SORT_THREADS) {
        int p = step + spc_thread(), first = begins_voxel(keys, p, end);
        int to = place + sort_block_sum(first, s->u.sort.sums);
        place += s->u.sort.sums[SORT_WARPS];
        if (first) {
            ((map_key *)args->keys_b)[to] = keys[p];
            args->rows_b[to] = args->set.order[p];
            if (args->twins)
                args->twin_begin[to] = p;
        }
        if (args->twins && p < end)
            args->twins[p] = args->set.order[p];
        spc_sync_block();
    }
}

/* The first of `rows` merged keys that is in this bin or a later one. */
SPC_DEVICE int bin_begin(const spc_index_args *args, int bin, int rows)
{
    const map_key *keys = (const map_key *)args->keys_b;
    int low = 0, high = rows;

    while (low < high) {
        int middle = (low + high) >> 1;
        if (bin_of(&args->set, keys[middle]) < bin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Searches the start of each bin separately. Most bins are empty, thousands in
 * a row if the key's range is larger than the scene. */
SPC_DEVICE void open_bins(const spc_index_args *args, int rows)
{
    int bins = SPC_INDEX_SHARES << args->set.share_shift;

    for (int bin = sort_grid_thread(); bin < bins;
         bin += spc_grid_x() * SORT_THREADS)
        args->set.begins[bin] = bin_begin(args, bin, rows);
}

/* From here on, the starts of bins do not depend on shares. */
SPC_DEVICE void close_shares(const spc_index_args *args, index_shared *s,
                             int rows)
{
    for (int i = spc_thread(); i < SPC_INDEX_SHARES; i += SORT_THREADS) {
        s->share[i] = 0;
        if (spc_block_x() == 0)
            args->set.shares[i] = 0;
    }
    if (spc_thread() == 0)
        s->share[SPC_INDEX_SHARES] = rows;
    spc_sync_block();
}

/* Merges equal rows among the first `rows` sorted keys and returns the number
 * of voxels left. */
SPC_DEVICE int merge_rows(const spc_index_args *args, index_shared *s,
                          grid_barrier *barrier, int rows)
{
    const map_key *keys = (const map_key *)args->set.keys;
    int per_block = share_of_block(rows, 32), *counts = args->tables, total;
    int begin = at_most(spc_block_x() * per_block, rows);
    int end = at_most(begin + per_block, rows);
    int own = count_voxels(keys, s, begin, end), place;

    if (spc_thread() == 0)
        counts[spc_block_x()] = own;
    grid_sync(barrier); /* the counts of all blocks are stored */
    place = sum_counts(counts, s, &total);
    gather_voxels(args, s, begin, end, place);
    if (args->twins && spc_block_x() == 0 && spc_thread() == 0)
        args->twin_begin[total] = rows;
    grid_sync(barrier); /* all voxels are gathered, the counts are read */
    if (spc_thread() == 0)
        /* The table must be clear for the next launch. */
        counts[spc_block_x()] = 0;
    for (int p = sort_grid_thread(); p < total;
         p += spc_grid_x() * SORT_THREADS) {
        ((map_key *)args->set.keys)[p] = ((const map_key *)args->keys_b)[p];
        args->set.order[p] = args->rows_b[p];
    }
    open_bins(args, total);
    close_shares(args, s, total);
    grid_sync(barrier);
    /* sum_counts has overwritten what open_search stored in shared memory
     * before. */
    open_search(args, s);
    return total;
}

/* ---- closing ---------------------------------------------------------- */

SPC_DEVICE void close_set(const spc_index_args *args, int rows)
{
    if (spc_block_x() == 0 && spc_thread() == 0)
        *args->set.count = rows;
}

/*
 * Clears the positions begin..end past the rows; for a set in ascending order,
 * also writes coordinates. Nothing of an earlier, larger set may remain,
 * because kernels that do not read a tile table rely on the order alone.
 */
SPC_DEVICE void finish_set(const spc_index_args *args, const index_extent *e,
                           int begin, int end)
{
    const map_key *keys = (const map_key *)args->set.keys;

    for (int p = begin + spc_thread(); p < end; p += SORT_THREADS) {
        if (p >= e->rows) {
            args->set.order[p] = -1;
        } else if (args->data) {
            args->set.order[p] = p;
            spc_store16(args->data + 4ll * p,
                        unpack_key(&args->set.key, keys[p]));
        }
    }
    for (int p = e->padded + sort_grid_thread();
         p < args->set.rows_padded; p += spc_grid_x() * SORT_THREADS)
        args->set.order[p] = -1;
}

#endif
