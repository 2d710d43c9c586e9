/*
 * doubt.c - times that no kernel can have.
 *
 * The floor bounds what the device could do. A time below it says that the
 * measurement went wrong, or that the kernel did not do its work; neither may
 * win.
 */
#include "search.h"

#include "error.h"
#include "floor.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In microseconds; 0 where nothing is known of the device. */
static double floor_of(const spc__run *run, int s)
{
    const spc__problem_key *key = &run->places[s].key;
    int64_t rows = spc_scene_rows(run->scenes[s]);
    double entries = (double)rows * spc__conv_offsets(run->conv);
    spc__floor floor;

    spc__floor_compute(&floor, run->conv, rows, llround(key->density * entries),
                       &run->ctx->info);
    return floor.us;
}

/* The first scene on which the candidate is below it; -1: none. */
static int doubtful_scene(const spc__run *run, const spc__entry *entry)
{
    for (int s = 0; s < run->scene_count; s++)
        if (entry->timings[s].median_us < floor_of(run, s))
            return s;
    return -1;
}

bool spc__entry_is_doubtful(const spc__run *run, const spc__entry *entry)
{
    return entry->state == SPC__TIMED && doubtful_scene(run, entry) >= 0;
}

/* All samples once more, with nobody else in turn. */
static spc_status measure_alone(spc__run *run, spc__entry *entry)
{
    for (int s = 0; s < run->scene_count; s++) {
        free(entry->timings[s].all);
        entry->timings[s].all = NULL;
        entry->timings[s].count = entry->timings[s].room = 0;
    }
    return spc__sample_rounds(run, &entry, 1, spc__effort_of(run)->final,
                              false);
}

static void reject(spc__run *run, spc__entry *entry, int s)
{
    spc__outcome outcome;

    memset(&outcome, 0, sizeof(outcome));
    outcome.status = SPC__TRIAL_WRONG;
    snprintf(outcome.note, sizeof(outcome.note),
             "below the floor: not believed, %.4g us on scene '%.40s' where "
             "%.4g us is the least that the device could need",
             entry->timings[s].median_us, spc_scene_name(run->scenes[s]),
             floor_of(run, s));
    spc__entry_fail(run, entry, &outcome);
}

spc_status spc__run_doubt(spc__run *run, spc__entry *const *list, int count)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < count && status == SPC_OK; i++) {
        if (!spc__entry_is_doubtful(run, list[i]))
            continue;
        status = measure_alone(run, list[i]);
        if (status == SPC_OK && spc__entry_is_doubtful(run, list[i]))
            reject(run, list[i], doubtful_scene(run, list[i]));
    }
    return status;
}
