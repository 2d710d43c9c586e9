/*
 * doubt.c - times that no kernel can have.
 *
 * The floor bounds what the device could do. A time below it says that the
 * measurement went wrong, or that the kernel did not do its work; neither may
 * win.
 */
#include "doubt.h"

#include "floor.h"
#include <stdio.h>
#include <string.h>

/* In microseconds; 0 where nothing is known of the device. */
static double floor_of(const spc__meter *meter, int s)
{
    spc__floor floor;

    if (meter->works[s].conv == NULL) /* nothing was measured in this run */
        return 0;
    spc__floor_compute(&floor, &meter->works[s], &meter->request->ctx->info);
    return floor.warm_us;
}

/* The first scene on which the candidate is below it; -1: none. */
static int doubtful_scene(const spc__meter *meter, const spc__entry *entry)
{
    for (int s = 0; s < meter->request->scene_count; s++)
        if (entry->timings[s].median_us < floor_of(meter, s))
            return s;
    return -1;
}

bool spc__doubt_is_due(const spc__meter *meter, const spc__entry *entry)
{
    return entry->state == SPC__TIMED && doubtful_scene(meter, entry) >= 0;
}

static void reject(const spc__meter *meter, spc__entry *entry, int s)
{
    const char *name = spc_scene_name(meter->request->scenes[s]);
    spc__outcome outcome;

    memset(&outcome, 0, sizeof(outcome));
    outcome.status = SPC__TRIAL_WRONG;
    snprintf(outcome.note, sizeof(outcome.note),
             "below the floor: not believed, %.4g us on scene '%.40s' where "
             "%.4g us is the least that the device could need",
             entry->timings[s].median_us, name, floor_of(meter, s));
    spc__meter_fail(entry, &outcome);
}

spc_status spc__doubt(spc__meter *meter, spc__entry *const *list, int count)
{
    int goal = spc__request_effort(meter->request)->final;
    spc_status status = SPC_OK;

    for (int i = 0; i < count && status == SPC_OK; i++) {
        if (!spc__doubt_is_due(meter, list[i]))
            continue;
        spc__entry *entry = list[i]; /* the list of one is shuffled, too */
        status = spc__meter_again(meter, &entry, 1, goal);
        if (status == SPC_OK && spc__doubt_is_due(meter, entry))
            reject(meter, entry, doubtful_scene(meter, entry));
    }
    return status;
}
