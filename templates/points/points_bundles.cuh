/*
 * points_bundles.cuh - the triplets of a map of points, grouped by bundles.
 *
 * A warp takes one bundle of outputs at a time. Its triplets come ordered by
 * output, and each is moved to the next position of its offset. The triplets of
 * an offset therefore stay in the order of their outputs.
 *
 * Part of points.cu.lua, which defines begin_offsets and take_place.
 */
#ifndef SPC_POINTS_BUNDLES_CUH
#define SPC_POINTS_BUNDLES_CUH

/* The triplets of a bundle: where those of each output begin, by lane, and where
 * the bundle begins. */
typedef struct bundle {
    int first, begin, end;
} bundle;

SPC_DEVICE bundle bundle_at(const spc_bundle_args *args, int position)
{
    bundle b;

    b.first = args->first[position + (spc_lane() & (SPC_BUNDLE - 1))];
    b.begin = spc_shfl(b.first, 0);
    b.end = args->first[position + SPC_BUNDLE];
    return b;
}

/* The number of the output in the bundle that has triplet t. */
SPC_DEVICE int output_of(const bundle *b, int t)
{
    int output = 0;

    SPC_UNROLL
    for (int by = SPC_BUNDLE / 2; by > 0; by /= 2)
        output += t >= spc_shfl(b->first, output + by) ? by : 0;
    return output;
}

SPC_DEVICE void count_bundle(const spc_bundle_args *args, const bundle *b, int *offsets)
{
    spc_sync_warp(); /* all lanes have read those of the previous bundle */
    for (int k = spc_lane(); k < args->offsets; k += 32)
        offsets[k] = 0;
    spc_sync_warp();
    for (int t = b->begin + spc_lane(); t < b->end; t += 32)
        spc_atomic_add(offsets + args->list[2ll * t + 1], 1);
    spc_sync_warp();
}

/* The cost of the bundle, from its number of triplets of each offset. */
SPC_DEVICE int cost_of_bundle(const spc_bundle_args *args, const int *offsets)
{
    int cost = 0;

    for (int k = spc_lane(); k < args->offsets; k += 32)
        if (offsets[k] > 0)
            cost += SPC_BUNDLE_OFFSET + (offsets[k] + 15) / 16 * SPC_BUNDLE_STEP;
    for (int by = 1; by < 32; by *= 2)
        cost += spc_shfl_xor(cost, by);
    return cost;
}

SPC_DEVICE void write_bundle(const spc_bundle_args *args, const bundle *b, int *offsets)
{
    int *to = args->to + 2ll * b->begin;

    for (int at = b->begin; at < b->end; at += 32) {
        int t = at + spc_lane(), output = output_of(b, t), some = t < b->end;
        spc_b8 entry = {0, 0};
        if (some)
            entry = spc_load8(args->list + 2ll * t);
        int place = take_place(offsets, some, entry.y);
        /* One word holds the offset and the output, so a triplet stays 8
         * bytes. */
        entry.y = entry.y * SPC_BUNDLE + (spc_u32)output;
        if (some)
            spc_store8(to + 2ll * place, entry);
    }
}

SPC_KERNEL(spc_bundle, spc_bundle_args, SPC_POINTS_THREADS, 1)
{
    int *offsets = (int *)spc_shared() + spc_warp() * args->offsets;
    int warp = spc_block_x() * SPC_POINTS_WARPS + spc_warp();

    for (int at = warp; at < args->rows_padded / SPC_BUNDLE; at += args->warps) {
        bundle b = bundle_at(args, at * SPC_BUNDLE);
        count_bundle(args, &b, offsets);
        int cost = cost_of_bundle(args, offsets);
        if (spc_lane() == 0)
            args->costs[at] = cost;
        spc_sync_warp();
        begin_offsets(offsets, args->offsets);
        write_bundle(args, &b, offsets);
    }
}

/* ---- tiles by their cost -------------------------------------------------- */

/* The cost of the most costly bundle of the tile; 0 if the tile has no row. */
SPC_DEVICE int cost_of_tile(const spc_bundle_args *args, int tile)
{
    const int *costs = args->costs + tile * (SPC_BUNDLE_TILE / SPC_BUNDLE);
    int cost = 0;

    if (args->order[tile * SPC_BUNDLE_TILE] < 0)
        return -1;
    for (int i = 0; i < SPC_BUNDLE_TILE / SPC_BUNDLE; i++)
        cost = costs[i] > cost ? costs[i] : cost;
    return cost;
}

/* The maximum over all threads of the block. */
SPC_DEVICE int most_of_threads(int *shared, int own)
{
    shared[spc_thread()] = own;
    spc_sync_block();
    for (int i = 0; i < SPC_POINTS_THREADS; i++)
        own = shared[i] > own ? shared[i] : own;
    spc_sync_block(); /* the caller may reuse the memory */
    return own;
}

/* Replaces the counts for each level, highest first, and thread by the sums of all
 * earlier counts. A thread handles consecutive counts. */
SPC_DEVICE void sum_levels(int *counts)
{
    int *own = counts + spc_thread() * SPC_BUNDLE_LEVELS, sum = 0, warp = spc_warp();

    spc_sync_block();
    for (int i = 0; i < SPC_BUNDLE_LEVELS; i++)
        sum += own[i];
    spc_sync_block();
    int upto = sum;
    for (int by = 1; by < 32; by *= 2) {
        int below = spc_shfl_up(upto, by);
        upto += spc_lane() >= by ? below : 0;
    }
    int *warps = counts + SPC_POINTS_THREADS * SPC_BUNDLE_LEVELS;
    if (spc_lane() == 31)
        warps[warp] = upto;
    spc_sync_block();
    for (int w = 0; w < warp; w++)
        upto += warps[w];
    upto -= sum;
    for (int i = 0; i < SPC_BUNDLE_LEVELS; i++) {
        int count = own[i];
        own[i] = upto;
        upto += count;
    }
    spc_sync_block();
}

/* Executed by one block, whose threads have consecutive tiles. Tiles of the same level keep
 * their order. */
SPC_KERNEL(spc_bundle_tiles, spc_bundle_args, SPC_POINTS_THREADS, 1)
{
    int *counts = (int *)spc_shared(), tiles = args->rows_padded / SPC_BUNDLE_TILE, most = 0;
    int begin = (int)((long long)tiles * spc_thread() / SPC_POINTS_THREADS);
    int end = (int)((long long)tiles * (spc_thread() + 1) / SPC_POINTS_THREADS);

    for (int t = begin; t < end; t++) {
        int cost = cost_of_tile(args, t);
        most = cost > most ? cost : most;
        /* Entries past the last tile stay -1, which ends the kernel's list. */
        args->tiles[t] = -1;
    }
    most = most_of_threads(counts, most);
    int *own = counts + spc_thread();
    for (int i = 0; i < SPC_BUNDLE_LEVELS; i++)
        own[i * SPC_POINTS_THREADS] = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int t = begin; t < end; t++) {
            int cost = cost_of_tile(args, t);
            if (cost < 0)
                break; /* later tiles have no row, either */
            /* Levels instead of exact costs: a counting sort needs a count for
             * each level and thread. */
            int level = (int)((long long)cost * SPC_BUNDLE_LEVELS / (most + 1));
            int *count = own + (SPC_BUNDLE_LEVELS - 1 - level) * SPC_POINTS_THREADS;
            if (pass == 1)
                args->tiles[*count] = t;
            ++*count;
        }
        if (pass == 0)
            sum_levels(counts);
    }
}

#endif
