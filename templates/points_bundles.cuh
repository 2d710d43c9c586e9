/*
 * points_bundles.cuh - the triplets of a map of points once more, by bundles.
 *
 * A warp has a bundle of outputs at a time, and puts its triplets, which come by
 * output, where the next of their offset goes: so those of an offset stay in
 * the order of their outputs.
 *
 * Part of points.cu.lua, which defines begin_offsets and take_place.
 */
#ifndef SPC_POINTS_BUNDLES_CUH
#define SPC_POINTS_BUNDLES_CUH

/* Of a bundle: where triplets of each output begin, by lane, and where all do. */
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

/* Which output of the bundle has triplet t. */
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
    spc_sync_warp(); /* nobody looks at those of the last one */
    for (int k = spc_lane(); k < args->offsets; k += 32)
        offsets[k] = 0;
    spc_sync_warp();
    for (int t = b->begin + spc_lane(); t < b->end; t += 32)
        spc_atomic_add(offsets + args->list[2ll * t + 1], 1);
    spc_sync_warp();
    begin_offsets(offsets, args->offsets);
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
        write_bundle(args, &b, offsets);
    }
}

#endif
