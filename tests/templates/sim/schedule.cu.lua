%-- Warps that record the steps that one of them schedules.
%include "without_parameters.lua"
%template = without_parameters("the steps of spc_schedule.cuh")
#include "spc_schedule.cuh"

#include "stream_note.cuh"

/* Delays this warp now and then, by amounts that differ, so that others
 * overtake it. */
SPC_DEVICE void dawdle(const stream_args *args, int n)
{
    unsigned v = (args->pace + spc_warp() * 7919u + n / 16u) * 2654435761u;
    for (unsigned i = v >> 29; i > 4; i--)
        spc_sync_warp();
}

/* Reads each step once, like a warp that loads weights. */
SPC_DEVICE void read_once(spc_schedule *schedule, const stream_args *args,
                          int worker)
{
    spc_reader reader = {0, 0};
    int taken = 0;

    for (; taken < args->room; taken++) {
        int place = reader.place;
        spc_b8 step = spc_read_step(&reader, schedule);
        note(args, worker, taken, step);
        if (step.y & SPC_STEP_END)
            break;
        spc_step_done(schedule, place);
        dawdle(args, taken);
    }
    note_end(args, worker, taken + 1, taken, (const spc_share *)0);
}

/* Reads `depth` steps ahead of the one that it processes. */
SPC_DEVICE void read_ahead(spc_schedule *schedule, const stream_args *args,
                           int worker, const spc_share *share)
{
    spc_reader reader = {0, 0};
    int taken = 0, done = 0, place = 0;

    for (; taken < args->depth; taken++)
        note(args, worker, taken, spc_read_step(&reader, schedule));
    for (; done < args->room; done++, taken++) {
        spc_b8 step = spc_shared_load8(&schedule->step[place]);
        note_again(args, worker, done, step);
        if (step.y & SPC_STEP_END)
            break;
        dawdle(args, done);
        note(args, worker, taken, spc_read_step(&reader, schedule));
        note_again(args, worker, done,
                   spc_shared_load8(&schedule->step[place]));
        spc_step_done(schedule, place);
        if (++place == SPC_STREAM_STEPS)
            place = 0;
    }
    note_end(args, worker, taken, done, share);
}

/* Reading warps, the last of which reads each step once; one warp that
 * schedules; one that balances. */
SPC_KERNEL(scheduled, stream_args, 1024, 1)
{
    spc_schedule *schedule = (spc_schedule *)spc_shared();
    spc_share *share = (spc_share *)(schedule + 1);
    int readers = spc_threads() / 32 - 2;
    int worker = spc_block_x() * readers + spc_warp();

    if (spc_thread() == 0) {
        spc_schedule_init(schedule, readers);
        spc_mbar_fence();
    }
    spc_sync_block();
    if (spc_warp() == readers) {
        spc_schedule_steps(schedule, &args->map, args->map.tile_rows,
                           args->map.mask_words, args->map.centre, share);
    } else if (spc_warp() == readers + 1) {
        spc_balance(share, &args->map, args->map.mask_words);
        spc_mbar_arrive(&schedule->dealt);
    } else if (spc_warp() == readers - 1) {
        read_once(schedule, args, worker);
    } else {
        read_ahead(schedule, args, worker, share);
    }
}
