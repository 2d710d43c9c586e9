%-- Workers that record the steps of their streams.
%include "without_parameters.lua"
%template = without_parameters("the steps of spc_stream.cuh")
#include "spc_stream.cuh"

#include "stream_note.cuh"

/*
 * Takes `depth` steps at a time and reads those `lag` steps back again. It
 * continues as far past the end as a kernel that has loaded one bundle and
 * looks ahead to the next.
 */
SPC_DEVICE void follow(spc_stream *s, const stream_args *args, int worker,
                       const spc_share *share)
{
    const spc_map_view *map = &args->map;
    int taken = 0, place = 0, again = 0, again_place = 0;

    do {
        spc_stream_fill(s, map, taken + args->depth, map->tile_rows,
                        map->mask_words, map->centre);
        for (int i = 0; i < args->depth; i++)
            note(args, worker, taken + i, spc_stream_step(s, place + i));
        taken += args->depth;
        place += args->depth;
        if (place == SPC_STREAM_STEPS)
            place = 0;
        for (; again < taken - args->lag; again++) {
            note_again(args, worker, again, spc_stream_step(s, again_place));
            if (++again_place == SPC_STREAM_STEPS)
                again_place = 0;
        }
    } while (taken < args->room && taken - 2 * args->depth < s->filled);
    note_end(args, worker, taken, s->filled, share);
}

SPC_KERNEL(dealt, stream_args, 1024, 1)
{
    int warps = spc_threads() / 32;
    int worker = spc_block_x() * warps + spc_warp();
    spc_stream stream;

    spc_stream_start(&stream, spc_shared() + spc_warp() * SPC_STREAM_BYTES,
                     worker, spc_grid_x() * warps);
    follow(&stream, args, worker, (const spc_share *)0);
}

SPC_KERNEL(shared, stream_args, 1024, 1)
{
    int warps = spc_threads() / 32;
    spc_stream stream;

    spc_stream_start_shared(&stream,
                            spc_shared() + spc_warp() * SPC_STREAM_BYTES,
                            spc_warp(), warps);
    follow(&stream, args, spc_block_x() * warps + spc_warp(),
           (const spc_share *)0);
}

/* One warp follows the stream, the other balances. */
SPC_KERNEL(balanced, stream_args, 64, 1)
{
    spc_share *share = (spc_share *)(spc_shared() + SPC_STREAM_BYTES);
    spc_u64 *ready = (spc_u64 *)(share + 1);
    spc_stream stream;

    if (spc_thread() == 0) {
        spc_mbar_init(ready, 32);
        spc_mbar_fence();
    }
    spc_sync_block();
    if (spc_warp() == 1) {
        spc_balance(share, &args->map, args->map.mask_words);
        spc_mbar_arrive(ready);
        return;
    }
    spc_stream_start_balanced(&stream, spc_shared(), share, ready);
    follow(&stream, args, spc_block_x(), share);
}
