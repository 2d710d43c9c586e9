/*
 * points_limits.cuh - for a search with inputs and outputs exchanged: finds the
 * last of the nearest points that an output sees.
 *
 * Of points at equal distance those visited first count, in the order of the
 * sorted points. A distance and a position therefore determine for each point
 * whether it counts.
 *
 * Part of points.cu.lua, which has the search.
 */
#ifndef SPC_POINTS_LIMITS_CUH
#define SPC_POINTS_LIMITS_CUH

/* The position among the sorted points of the point that was visited as number
 * `at`. */
SPC_DEVICE int place_of_met(const query *q, int at)
{
    int place = -1;

    if (q->staged < 0)
        return at;
    for (int column = 0; column < q->columns; column++) {
        int begin = spc_shfl(q->begin, column);
        int count = spc_shfl(q->end, column) - begin;
        if (place < 0 && at < count)
            place = begin + at;
        at -= count;
    }
    return place;
}

SPC_KERNEL(spc_radius_limits, spc_radius_args, SPC_POINTS_THREADS, 4)
{
    int begin = block_begin(args, spc_block_x());
    int end = block_begin(args, spc_block_x() + 1);
    int outputs = args->out.begin[*args->out.cells];
    int last = warp_begin_of(begin, end, spc_warp() + 1);
    int p = warp_begin_of(begin, end, spc_warp());
    query q;

    begin_asking(args, &q, p);
    for (; p < last && p < outputs; p++) {
        spc_b8 limit;
        ask(args, &q, p);
        keep_nearest(args, &q);
        limit.x = q.limit;
        limit.y = 0x7fffffffu;
        if (q.limit != 0xffffffffu)
            limit.y = (spc_u32)place_of_met(&q, last_that_ties(args, &q));
        if (spc_lane() == 0)
            spc_store8(args->limits + 2ll * q.row, limit);
    }
}

#endif
