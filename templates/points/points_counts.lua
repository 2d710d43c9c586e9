%-- The number of triplets that a warp has of each offset. For kernels of points that walk
%-- one list per row, in ascending order of the offset. Rows are outputs (points_mma) or
%-- inputs (points_inputs). Shared memory has a count for each warp and offset at
%-- `counts_at`.
%
%function counts_bytes(problem) return ring_warps * problem.offsets * 4 end
%
%-- Writes the functions counts_of, count_steps and next_of_block.
%function write_counts()
/*
 * ---- triplets of each offset in a warp ------------------------------------------
 */

SPC_DEVICE int *counts_of(int warp)
{
    return (int *)(spc_shared() + $(counts_at)) + warp * $(problem.offsets);
}

/* Raises the warp's counts to the numbers of triplets of each offset in the list at
 * position p, if these are larger. */
SPC_DEVICE void count_list(int *counts, const spc_triplets_view *all, int p)
{
    int end = spc_load_int(all->first + p + 1), last = -1, run = 0;

    for (int t = spc_load_int(all->first + p); t < end; t++) {
        int k = spc_load_int(all->list + 2ll * t + 1);
        run = k == last ? run + 1 : 1;
        last = k;
        if (counts[k] < run)
            spc_atomic_max(counts + k, run);
    }
}

/* Counts the steps of each offset for every warp; p is the warp's first
 * position. */
SPC_DEVICE void count_steps(const spc_triplets_view *all, int p)
{
    int *counts = counts_of(spc_warp());

    for (int k = spc_lane(); k < $(problem.offsets); k += 32)
        counts[k] = 0;
    spc_sync_warp();
    if (spc_lane() < $(16 * config.m))
        count_list(counts, all, p + spc_lane());
    spc_sync_block();
}

/* The next offset after k that some warp has, or one past the last. */
SPC_DEVICE int next_of_block(int k)
{
    const int *counts = counts_of(0);

    for (k++; k < $(problem.offsets); k++)
        if (counts[k] | counts[$(problem.offsets) + k] | counts[$(2 * problem.offsets) + k] |
            counts[$(3 * problem.offsets) + k])
            break;
    return k;
}

%end
