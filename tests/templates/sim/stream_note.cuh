/* stream_note.cuh - records the steps of workers. */
#ifndef SPC_TEST_STREAM_NOTE_CUH
#define SPC_TEST_STREAM_NOTE_CUH

#include "stream_args.h"

/* Returns where this lane records a step, or NULL. Lane n % 32 records step n,
 * so all lanes must see the same ring. */
SPC_DEVICE unsigned *kept(const stream_args *args, int worker, int n)
{
    if (n % 32 != spc_lane() || n >= args->room)
        return (unsigned *)0;
    return args->steps + 2 * ((long long)worker * args->room + n);
}

SPC_DEVICE void note(const stream_args *args, int worker, int n, spc_b8 step)
{
    unsigned *to = kept(args, worker, n);
    if (to) {
        to[0] = step.x;
        to[1] = step.y;
    }
}

/* Records a later read of a step. */
SPC_DEVICE void note_again(const stream_args *args, int worker, int n,
                           spc_b8 step)
{
    unsigned *to = kept(args, worker, n);
    if (to && (to[0] != step.x || to[1] != step.y))
        to[1] |= STREAM_CHANGED;
}

/* A worker without a first tile may end before its share is complete. */
SPC_DEVICE void note_end(const stream_args *args, int worker, int taken,
                         int filled, const spc_share *share)
{
    stream_result *to = args->results + worker;
    if (spc_lane() == 0) {
        to->taken = taken;
        to->filled = filled;
        to->count = share && filled > 0 ? share->count : -1;
        to->rest = share && filled > 0 ? share->rest : -1;
    }
}

#endif
