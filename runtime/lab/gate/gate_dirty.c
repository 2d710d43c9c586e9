/*
 * gate_dirty.c - does a run take as long over the result of another draw, and
 * over a workspace of which nothing is left, as it takes over its own?
 *
 * Runs are timed over their own result, since that is how runs follow each
 * other fastest. Who looks at all that it sees (gate_repeat.c), finds it as it
 * was and leaves it, is right, and its time is one that no program sees. So one
 * that may win is timed run by run, behind a run of the same operands and
 * behind one of another draw, which leaves another result, and inputs and
 * weights elsewhere; then the workspace is filled, too, in which results of any
 * number of draws could lie. With the last-level cache flushed in between both
 * take as long, whatever is where. Where flushing takes too long, on the host,
 * whose processors count what a run takes of them, and for who goes by the
 * clock, the same is done without: then a cache may explain a part of what
 * differs, if not this much.
 */
#include "gate_launch.h"

#include "clock.h"
#include "error.h"
#include <math.h>
#include <time.h>

/* Of either kind, in one try. */
enum { SAMPLES = 4, TRIES = 4, SLOW_US = 100000, POISON = 0xff };
static const double limit_s = 1;
/* What is not believed. Caches of a GPU may explain a factor of two, those of a
 * processor that others use as well rather more. */
static const double cold_ratio = 1.5, warm_ratio = 3, host_ratio = 4;
/* The clock of a processor's time was seen to stand still for a run of 3 us. */
static const double host_least_us = 5;

typedef struct timing {
    const spc__gate *g;
    int s;
    spc__draw before; /* the draw of the run that is not timed */
} timing;

static spc_status run(const timing *t, spc__draw draw, void *stream)
{
    return spc__bed_execute(t->g->bed, t->g->tested->plan, t->s, draw,
                            spc__gate_packed(t->g, draw), stream);
}

static spc_status run_before(void *payload, void *stream)
{
    const timing *t = payload;
    const spc__bed *bed = t->g->bed;
    spc_status status = run(t, t->before, stream);

    if (t->before == SPC__REAL || status != SPC_OK || bed->workspace.bytes == 0)
        return status;
    return bed->ops->fill(bed->ctx->device, bed->workspace.data, POISON,
                          bed->workspace.bytes, stream,
                          spc__error_of(bed->ctx));
}

static spc_status run_timed(void *payload, void *stream)
{
    return run(payload, SPC__REAL, stream);
}

/* Microseconds of processors that this process has had: others on the host take
 * time from a long run, and from all of them. */
static double processor_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* The least but one: the clock may have stood still for the least. */
static double second_of(const double *samples, int count)
{
    double least = HUGE_VAL, second = HUGE_VAL;

    for (int i = 0; i < count; i++) {
        second = fmin(second, fmax(least, samples[i]));
        least = fmin(least, samples[i]);
    }
    return count > 1 ? second : least;
}

/*
 * Of devices that have run when a call returns: one sample, as the clock of a
 * processor was seen to stand still for milliseconds where many wait for it.
 * Behind a run of its own all runs are such, and their mean is read once,
 * behind the last.
 */
static spc_status measure_host(timing *t, double *samples, int *count)
{
    uint64_t start = spc__now_ns();
    spc_status status = run_before(t, NULL);
    double first = processor_us(), single[SAMPLES];
    int runs = 0, timed = 0;

    *count = 0;
    while (timed < SAMPLES && status == SPC_OK) {
        if (timed > 0 && (double)(spc__now_ns() - start) > limit_s * 1e9)
            break;
        if (timed > 0 && (status = run_before(t, NULL)) != SPC_OK)
            break;
        double before = processor_us();
        status = run_timed(t, NULL);
        single[timed] = processor_us() - before;
        runs += timed++ > 0 ? 2 : 1;
    }
    if (status != SPC_OK)
        return status;
    *count = 1;
    samples[0] = t->before == SPC__REAL ? (processor_us() - first) / runs
                                        : second_of(single, timed);
    return SPC_OK;
}

/* The least of some samples; 0 where they cannot be had, which is noted. */
static double least_of(const spc__gate *g, int s, spc__draw before, bool cold)
{
    spc__bed *bed = g->bed;
    timing t = {g, s, before};
    spc__measure what = {run_timed, &t, SAMPLES, limit_s, cold, run_before};
    double samples[SAMPLES], least = HUGE_VAL;
    int count = 0;

    spc_status status =
        bed->ops->runs_on_host_cores
            ? measure_host(&t, samples, &count)
            : bed->ops->measure(bed->ctx->device, &what, samples, &count,
                                spc__error_of(bed->ctx));
    if (status != SPC_OK) {
        spc__gate_failed(g, SPC__TRIAL_FAULT);
        return 0;
    }
    for (int i = 0; i < count; i++)
        least = fmin(least, samples[i]);
    return bed->ops->runs_on_host_cores ? fmax(least, host_least_us) : least;
}

static double ratio_of(const spc__gate *g, bool cold)
{
    if (g->bed->ops->runs_on_host_cores)
        return host_ratio;
    return cold ? cold_ratio : warm_ratio;
}

/* The least time of each kind so far: what else is done on the machine makes
 * some samples longer, and none shorter. On a host that happens to all samples
 * of a try; a GPU shows in one that nothing is to be seen. */
static bool is_suspicious(const spc__gate *g, int s, bool cold, double *own,
                          double *other)
{
    int tries = g->bed->ops->runs_on_host_cores ? 2 : 1;

    for (int i = 0; i < TRIES; i++) {
        *own = fmin(*own, least_of(g, s, SPC__REAL, cold));
        *other = fmin(*other, least_of(g, s, SPC__WIDE, cold));
        if (*own > SLOW_US) /* it has long samples, and time for one try */
            return *other > *own * ratio_of(g, cold);
        if (i + 1 >= tries && !(*other > *own * ratio_of(g, cold)))
            return false;
    }
    return g->out->status == SPC__TRIAL_OK;
}

static void compare(const spc__gate *g, int s, bool cold)
{
    double own = HUGE_VAL, other = HUGE_VAL;

    if (is_suspicious(g, s, cold, &own, &other))
        spc__gate_wrong(
            g,
            "skips: scene '%.40s': a run takes %.4g us over its "
            "own result and %.4g us over that of other inputs and a "
            "workspace that is filled",
            spc__gate_scene(g, s), own, other);
}

void spc__gate_time_dirty(const spc__gate *g, int s)
{
    if (!spc__sample_has(g->bed->sample, s, SPC__WIDE))
        return;
    compare(g, s, false);
    if (g->out->status == SPC__TRIAL_OK && !g->bed->ops->runs_on_host_cores)
        compare(g, s, true);
}
