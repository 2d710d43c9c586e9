/*
 * points_offsets.cuh - the triplets of a map of points, grouped by offset.
 *
 * Each warp has consecutive positions. Its counts of the triplets of each
 * offset are converted to start positions. The counts therefore match what is
 * written, and the order is that of the positions.
 *
 * Part of points.cu.lua, which defines lanes_below.
 */
#ifndef SPC_POINTS_OFFSETS_CUH
#define SPC_POINTS_OFFSETS_CUH

SPC_DEVICE int warp_begin(const spc_by_offset_args *args, int warp)
{
    return (int)((long long)args->rows_padded * warp / args->warps);
}

SPC_DEVICE int *clear_counters(const spc_by_offset_args *args)
{
    int *counters = (int *)spc_shared() + spc_warp() * args->offsets;

    for (int k = spc_lane(); k < args->offsets; k += 32)
        counters[k] = 0;
    spc_sync_warp();
    return counters;
}

/* Counts the triplets of each offset at the positions of each warp. */
SPC_KERNEL(spc_offsets_count, spc_by_offset_args, SPC_POINTS_THREADS, 1)
{
    int warp = spc_block_x() * SPC_POINTS_WARPS + spc_warp();
    int *counters = clear_counters(args);
    int end = args->first[warp_begin(args, warp + 1)];

    for (int t = args->first[warp_begin(args, warp)] + spc_lane(); t < end; t += 32)
        spc_atomic_add(counters + args->list[2ll * t + 1], 1);
    spc_sync_warp();
    for (int k = spc_lane(); k < args->offsets; k += 32)
        args->counts[(long long)k * args->warps + warp] = counters[k];
}

/* Executed by one block: converts counts to start positions for each offset and
 * warp. */
SPC_KERNEL(spc_offsets_sum, spc_by_offset_args, SPC_POINTS_THREADS, 1)
{
    int *sums = (int *)spc_shared();
    int entries = args->offsets * args->warps, sum = 0, warp = spc_warp();

    for (int at = 0; at < entries; at += SPC_POINTS_THREADS) {
        int i = at + spc_thread(), own = i < entries ? args->counts[i] : 0, upto = own;
        for (int by = 1; by < 32; by *= 2) {
            int below = spc_shfl_up(upto, by);
            if (spc_lane() >= by)
                upto += below;
        }
        if (spc_lane() == 31)
            sums[warp] = upto;
        spc_sync_block();
        int before = sum, all = 0;
        for (int w = 0; w < SPC_POINTS_WARPS; w++) {
            before += w < warp ? sums[w] : 0;
            all += sums[w];
        }
        spc_sync_block(); /* all have read the sums */
        if (i < entries) {
            args->counts[i] = before + upto - own;
            if (i % args->warps == 0)
                args->begin[i / args->warps] = before + upto - own;
        }
        sum += all;
    }
    if (spc_thread() == 0)
        args->begin[args->offsets] = sum;
}

SPC_KERNEL(spc_offsets_write, spc_by_offset_args, SPC_POINTS_THREADS, 1)
{
    int warp = spc_block_x() * SPC_POINTS_WARPS + spc_warp();
    int *counters = clear_counters(args);

    for (int k = spc_lane(); k < args->offsets; k += 32)
        counters[k] = args->counts[(long long)k * args->warps + warp];
    spc_sync_warp();
    for (int p = warp_begin(args, warp); p < warp_begin(args, warp + 1); p++) {
        int row = args->order[p], begin = args->first[p], end = args->first[p + 1];
        if (row >= 0 && spc_lane() == 0)
            args->first_of_row[row] = begin;
        for (int at = begin; at < end; at += 32) {
            int t = at + spc_lane(), some = t < end;
            int k = some ? args->list[2ll * t + 1] : -1;
            spc_u32 peers = spc_match((spc_u32)k);
            int to = some ? counters[k] + spc_popc(peers & lanes_below()) : 0;
            spc_sync_warp();
            if (some) {
                args->in[to] = args->list[2ll * t];
                args->out[to] = row;
                args->place[to] = t;
                if ((peers & lanes_below()) == 0)
                    /* The lowest lane of each offset adds for all, after every
                     * lane has read the old value. */
                    counters[k] += spc_popc(peers);
            }
            spc_sync_warp();
        }
    }
}

#endif
