/*
 * index_merge.cuh - a set keeps one of several equal rows: the first in the
 * caller's order.
 *
 * Rows that are out of range are at the end of the sorted keys already, and only
 * the count leaves them out. Equal rows are rare, so what merging costs (three
 * barriers) is paid only where there are any.
 *
 * Part of index.cu.lua, which defines map_key, index_shared and the constants.
 */
#ifndef SPC_INDEX_MERGE_CUH
#define SPC_INDEX_MERGE_CUH

/* Where this block's voxels begin among those of all blocks; *total is how many
 * there are. `counts` holds every block's. */
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

/* The first row of each voxel of begin..end, to its place. */
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

/* The first of `rows` merged keys that lies in this bin or behind it. */
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

/* Each bin is looked for by itself: most are empty, thousands in a row where a
 * key has room that the scene does not take. */
SPC_DEVICE void open_bins(const spc_index_args *args, int rows)
{
    int bins = SPC_INDEX_SHARES << args->set.share_shift;

    for (int bin = sort_grid_thread(); bin < bins;
         bin += spc_grid_x() * SORT_THREADS)
        args->set.begins[bin] = bin_begin(args, bin, rows);
}

/* Sums of bins are found without their shares from here on. */
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

/* Merges equal rows among the first `rows` sorted keys; returns how many voxels
 * are left. */
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
    grid_sync(barrier);
    place = sum_counts(counts, s, &total);
    gather_voxels(args, s, begin, end, place);
    if (args->twins && spc_block_x() == 0 && spc_thread() == 0)
        args->twin_begin[total] = rows;
    grid_sync(barrier);
    if (spc_thread() == 0)
        counts[spc_block_x()] = 0;
    for (int p = sort_grid_thread(); p < total;
         p += spc_grid_x() * SORT_THREADS) {
        ((map_key *)args->set.keys)[p] = ((const map_key *)args->keys_b)[p];
        args->set.order[p] = args->rows_b[p];
    }
    open_bins(args, total);
    close_shares(args, s, total);
    grid_sync(barrier);
    open_search(args, s);
    return total;
}

/* ---- closing ---------------------------------------------------------- */

SPC_DEVICE void close_set(const spc_index_args *args, int rows)
{
    if (spc_block_x() == 0 && spc_thread() == 0)
        *args->set.count = rows;
}

/* Positions begin..end: nothing past the rows; of a set in ascending order its
 * coordinates. Nor is anything left of a larger set that was there before: who
 * reads no tile table goes by the order alone. */
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
