/*
 * index_groups.cuh - groups of 32 bins, which are counted together with the
 * bins. Every block sums all groups itself, in shared memory, and adds the
 * earlier bins of a key's own group. The sort therefore needs no separate step
 * for sums.
 *
 * Part of index_keys.cuh, which defines bin_of and bin_count.
 */
#ifndef SPC_INDEX_GROUPS_CUH
#define SPC_INDEX_GROUPS_CUH

#define GROUP_BINS (1 << SPC_INDEX_GROUP_BITS)

SPC_DEVICE int group_count(const spc_index_set *set)
{
    return bin_count(set) >> SPC_INDEX_GROUP_BITS;
}

SPC_DEVICE int is_grouped(const spc_index_set *set)
{
    return group_count(set) <= SPC_INDEX_GROUPS;
}

SPC_DEVICE unsigned *groups_of(const spc_index_args *args)
{
    return args->bins + bin_count(&args->set);
}

SPC_DEVICE int *most_keys(const spc_index_args *args)
{
    return (int *)(groups_of(args) + SPC_INDEX_GROUPS);
}

/* A block first counts locally and then adds its counts, because in dense parts of
 * a scan many keys fall into few groups. */
SPC_DEVICE void clear_groups(const spc_index_args *args, index_shared *s)
{
    int count = group_count(&args->set);

    for (int i = spc_thread(); i < count; i += SORT_THREADS)
        s->u.groups.of[i] = 0;
    spc_sync_block();
}

SPC_DEVICE void add_groups(const spc_index_args *args, const index_shared *s)
{
    unsigned *to = groups_of(args);
    int count = group_count(&args->set);

    spc_sync_block(); /* the block has counted all its keys */
    for (int i = spc_thread(); i < count; i += SORT_THREADS) {
        int own = s->u.groups.of[i];
        /* A block has keys of few groups, and atomics are slow. */
        if (own)
            spc_atomic_add_u32(&to[i], (spc_u32)own);
    }
}

/*
 * Computes from the groups where the shares of a set of this many rows begin.
 */
SPC_DEVICE void share_groups(const spc_index_args *args, index_shared *s,
                             int rows)
{
    int shift = args->set.share_shift - SPC_INDEX_GROUP_BITS;

    for (int i = spc_thread(); i <= SPC_INDEX_SHARES; i += SORT_THREADS) {
        int last = i >= SPC_INDEX_SHARES - 1;
        int end = last ? rows : s->u.groups.of[(i + 1) << shift];
        int begin = i < SPC_INDEX_SHARES ? s->u.groups.of[i << shift] : rows;
        s->share[i] = begin;
        if (spc_block_x() == 0 && i < SPC_INDEX_SHARES)
            args->set.shares[i] = end - begin;
    }
    spc_sync_block();
}

/* Computes where groups and shares begin. Every block does this itself, and a
 * thread sums four groups at a time. */
SPC_DEVICE void sum_groups(const spc_index_args *args, index_shared *s,
                           int rows)
{
    int count = group_count(&args->set), all = 0;

    for (int first = 0; first < count; first += 4 * SORT_THREADS) {
        int g = first + 4 * spc_thread(), sum;
        spc_b16 own = {0, 0, 0, 0};
        if (g < count)
            own = *(const spc_b16 *)(groups_of(args) + g);
        sum = sort_block_sum((int)(own.x + own.y + own.z + own.w),
                             s->u.groups.sums) +
              all;
        if (g < count) {
            s->u.groups.of[g] = sum;
            s->u.groups.of[g + 1] = sum += (int)own.x;
            s->u.groups.of[g + 2] = sum += (int)own.y;
            s->u.groups.of[g + 3] = sum += (int)own.z;
        }
        all += s->u.groups.sums[SORT_WARPS];
    }
    spc_sync_block();
    share_groups(args, s, rows);
}

/* Computes where bins begin in their shares, for a later search of the set. Each
 * warp takes a group. */
SPC_DEVICE void begin_bins(const spc_index_args *args, const index_shared *s)
{
    int shift = args->set.share_shift - SPC_INDEX_GROUP_BITS;

    for (int g = spc_block_x() * SORT_WARPS + spc_warp();
         g < group_count(&args->set); g += spc_grid_x() * SORT_WARPS) {
        int bin = g * GROUP_BINS + spc_lane(), count = (int)args->bins[bin];
        args->set.begins[bin] = s->u.groups.of[g] - s->share[g >> shift] +
                                sort_warp_sum(count) - count;
    }
}

/* Keys in the group of a row's bin that are in earlier bins. Eight lanes read
 * the group. */
SPC_DEVICE int sum_before(const spc_index_args *args, int bin)
{
    int part = spc_lane() & 7, left = (bin & (GROUP_BINS - 1)) - 4 * part;
    const unsigned *group = args->bins + (bin & ~(GROUP_BINS - 1));
    spc_b16 count = ((const spc_b16 *)group)[part];
    int sum = (int)((left > 0 ? count.x : 0) + (left > 1 ? count.y : 0) +
                    (left > 2 ? count.z : 0) + (left > 3 ? count.w : 0));

    for (int bits = 4; bits > 0; bits >>= 1)
        sum += spc_shfl_xor(sum, bits);
    return sum;
}

/* The same for each lane of a warp, four rows at a time. */
SPC_DEVICE int keys_before(const spc_index_args *args, int bin)
{
    int lane = spc_lane(), before = 0;

    SPC_ROLLED
    for (int some = 0; some < 8; some += 4) {
        SPC_UNROLL
        for (int i = some; i < some + 4; i++) {
            int sum = sum_before(args, spc_shfl(bin, 4 * i + (lane >> 3)));
            sum = spc_shfl(sum, (lane & 3) * 8);
            if (lane >> 2 == i)
                before = sum;
        }
    }
    return before;
}

#endif
