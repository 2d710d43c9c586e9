/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doubt.c - handles times below the floor.
 *
 * The floor bounds what the device could do. A time below it means that the
 * time or the floor was measured wrong: ceilings measured on a busy device make
 * floors too high. The time is measured again. The second measurement is
 * accepted, since the kernel's results are correct, and reported once.
 */
#include "tuner/search/doubt.h"

#include "context/ctx.h"
#include "lab/floor.h"

/* In microseconds; 0 for an unknown device. */
static double floor_of(const spc__meter *meter, int s)
{
    spc__floor floor;

    if (meter->works[s].conv == NULL) /* nothing was measured in this run */
        return 0;
    spc__floor_compute(&floor, &meter->works[s], &meter->request->ctx->info);
    return floor.warm_us;
}

/* The first scene on which the candidate is below the floor, or -1. */
static int doubtful_scene(const spc__meter *meter, const spc__entry *entry)
{
    for (int s = 0; s < meter->request->scene_count; s++)
        if (entry->timings[s].median_us < floor_of(meter, s))
            return s;
    return -1;
}

bool spc__doubt_is_due(const spc__meter *meter, const spc__entry *entry)
{
    return entry->state == SPC__TIMED && !entry->doubted &&
           doubtful_scene(meter, entry) >= 0;
}

/* Warns once a run: a wrong floor would doubt every fast candidate. */
static void report(spc__meter *meter, const spc__entry *entry, int s)
{
    const spc__request *request = meter->request;

    if (meter->has_doubted)
        return;
    meter->has_doubted = true;
    spc__log_printf(&request->ctx->log, SPC_LOG_WARNING,
                    "'%s %s' takes %.4g us on scene '%.40s', below the floor "
                    "of %.4g us: the floor or the measurement is wrong; "
                    "'spctune devices --measure' measures the ceilings again",
                    entry->trial.template_name, entry->config,
                    entry->timings[s].median_us,
                    spc_scene_name(request->scenes[s]), floor_of(meter, s));
}

spc_status spc__doubt(spc__meter *meter, spc__entry *const *list, int count)
{
    int goal = spc__request_effort(meter->request)->final;
    spc_status status = SPC_OK;

    for (int i = 0; i < count && status == SPC_OK; i++) {
        if (!spc__doubt_is_due(meter, list[i]))
            continue;
        /* a copy, as even a list of one is reordered */
        spc__entry *entry = list[i];
        entry->doubted = true;
        status = spc__meter_again(meter, &entry, 1, goal);
        int s = entry->state == SPC__TIMED ? doubtful_scene(meter, entry) : -1;
        if (status == SPC_OK && s >= 0)
            report(meter, entry, s);
    }
    return status;
}
