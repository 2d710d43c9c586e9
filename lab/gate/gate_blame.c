/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_blame.c - finds what a candidate did wrong: a write to a read-only
 * array, or the cause of a wrong result.
 */
#include "lab/gate/gate_launch.h"

#include "base/dtype.h"
#include "base/error.h"
#include "operators/epilogue.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- read-only arrays ---------------------------------------------------- */

/* Two arrays of every scene; weights, bias, scale and the scales of tensors. */
enum { WATCHED = 2 * SPC__SAMPLE_SCENES + 4 };

/* An array with the digest that it must still have. */
typedef struct watched {
    const char *name;
    const spc__guarded *array;
    uint64_t digest;
} watched;

static int list_vector(watched *list, int count, const char *name,
                       const spc__guarded *array, const float *values)
{
    if (values != NULL)
        list[count++] =
            (watched){name, array, spc__digest_host(values, array->bytes)};
    return count;
}

/* Lists the arrays of a data set that no kernel may write to, with their
 * digests. */
static int list_read_only(const spc__gate *g, int dataset, watched *list)
{
    const spc__fixture *fixture = g->fixture;
    const spc__sample *sample = fixture->sample;
    int count = 0;

    for (int s = 0; s < sample->scene_count; s++) {
        /* Awkward scenes share one array for all data sets: it holds the data
         * set that was loaded last. */
        int array = s < sample->given ? dataset : 0;
        if (!spc__fixture_is_loaded(fixture, s, (spc__dataset)dataset))
            continue;
        list[count++] = (watched){"in", &fixture->in[s][array],
                                  fixture->in_digest[s][dataset]};
        if (sample->scenes[s].residual[dataset] != NULL)
            list[count++] = (watched){"residual", &fixture->residual[s][array],
                                      fixture->residual_digest[s][dataset]};
    }
    list[count++] = (watched){"weights",
                              dataset == SPC__REAL ? &g->tested->packed
                                                   : &fixture->packed[dataset],
                              g->packed_digest[dataset]};
    count = list_vector(list, count, "bias", &fixture->bias[dataset],
                        fixture->sample->bias[dataset]);
    count = list_vector(list, count, "scale", &fixture->scale[dataset],
                        fixture->sample->scale[dataset]);
    return list_vector(list, count, "a tensor's scale",
                       &fixture->scales[dataset],
                       &fixture->sample->scales[dataset].in);
}

/* Digests the arrays and their zones, with one wait for the device. */
static spc_status digest_list(const spc__gate *g, const watched *list,
                              int count, uint64_t *digests)
{
    spc__digester *digester = g->fixture->digester;
    spc_status status = spc__digester_begin(digester);

    for (int i = 0; i < count && status == SPC_OK; i++) {
        const spc__guarded *array = list[i].array;
        status = spc__digester_add(digester, array->data, array->bytes);
        if (status == SPC_OK)
            status = spc__gate_add_zones(g, array);
    }
    return status == SPC_OK ? spc__digester_end(digester, digests) : status;
}

void spc__gate_read_only(const spc__gate *g, int dataset)
{
    watched list[WATCHED];
    uint64_t digests[3 * WATCHED];
    int count = list_read_only(g, dataset, list);

    if (digest_list(g, list, count, digests) != SPC_OK) {
        spc__gate_failed(g);
        return;
    }
    for (int i = 0; i < count && g->out->status == SPC__TRIAL_OK; i++) {
        if (digests[3 * i] != list[i].digest)
            spc__gate_wrong(g, "read-only: %s is written to", list[i].name);
        else
            spc__gate_zones_hold(g, list[i].name, list[i].array,
                                 &digests[3 * i + 1]);
    }
    /* Later candidates need the arrays that this one has overwritten. */
    if (g->out->status == SPC__TRIAL_WRONG &&
        spc__fixture_refill(g->fixture) != SPC_OK)
        spc__gate_failed(g);
}

void spc__gate_weights_hold(const spc__gate *g)
{
    bool held;

    if (g->out->status != SPC__TRIAL_OK && g->out->status != SPC__TRIAL_WRONG)
        return;
    if (spc__fixture_mend_weights(&held, g->fixture) != SPC_OK)
        spc__gate_failed(g);
    else if (!held || g->tested->spoils)
        spc__gate_wrong(
            g,
            "read-only: the launch wrote to packed weights, or next to them");
}

/* ---- cause of a wrong result --------------------------------------------- */

bool spc__gate_is_right(const spc__gate *g, const spc__gate_setting *at,
                        int64_t i)
{
    return spc__sample_element(g->fixture->sample, at->s, at->dataset,
                               g->fixture->host, i)
               .error <= 1;
}

/* True if each wrong element of the fetched result still has its old value. */
static bool is_left_alone(const spc__gate *g, const spc__gate_setting *at)
{
    const spc__sample *sample = g->fixture->sample;
    const spc__sample_scene *scene = &sample->scenes[at->s];
    spc__operand out = spc__sample_out(sample, at->s);
    size_t bytes = spc__dtype_of(out.dtype)->bytes;
    const void *host = g->fixture->host;
    char before[sizeof(float)];

    memset(before, at->out_byte, sizeof(before));
    for (int64_t i = 0; i < out.rows * out.columns; i++) {
        if (spc__gate_is_right(g, at, i))
            continue;
        if (at->out_byte < 0)
            memcpy(before, spc__element_at(scene->exact[at->previous], &out, i),
                   bytes);
        if (memcmp(before, spc__element_at(host, &out, i), bytes) != 0)
            return false;
    }
    return true;
}

/*
 * Launches once more, over the same or other contents. False if the result is
 * wrong or cannot be fetched.
 */
static bool succeeds(const spc__gate *g, const spc__gate_setting *at,
                     uint64_t *digest)
{
    const spc__sample_scene *scene = &g->fixture->sample->scenes[at->s];
    uint64_t digests[SPC__RUN_DIGESTS] = {0};
    spc__worst worst;

    if (at->out_byte < 0 &&
        spc_memory_upload(g->fixture->out.data, g->fixture->ctx,
                          scene->exact[at->previous],
                          g->fixture->out.bytes) != SPC_OK)
        return false;
    if (!spc__gate_run(g, at, digests) ||
        !spc__gate_compare(g, at, digests[SPC__RESULT], &worst))
        return false;
    *digest = digests[SPC__RESULT];
    return worst.error <= 1;
}

/*
 * Each trial changes one thing; the first that makes a difference is the cause.
 */
static const char *diagnose(const spc__gate *g, const spc__gate_setting *at,
                            uint64_t digest)
{
    bool left_alone = is_left_alone(g, at);
    bool may_differ = at->dataset == SPC__REAL && g->tested->atomics;
    spc__gate_setting other = *at;
    uint64_t again = digest;

    if (succeeds(g, &other, &again) || (again != digest && !may_differ))
        return "differs from run to run";
    other.out_byte = 0;
    if (succeeds(g, &other, &again))
        return "accumulates";
    if (left_alone)
        return at->out_byte < 0 ? "stale" : "unwritten";
    other = *at;
    other.work_byte = 0;
    if (succeeds(g, &other, &again))
        return "unwritten";
    return at->dataset == SPC__REAL ? "rounding" : "exact";
}

void spc__gate_untouched(const spc__gate *g, int dataset)
{
    spc__gate_read_only(g, dataset);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_weights_hold(g);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_maps_hold(g);
}

/*
 * Only packing depends on the layout of the weights, so the note names the
 * layout where it matters.
 */
static void name_layout(const spc__gate *g, spc__dataset dataset)
{
    size_t used = strlen(g->out->note);

    if (g->out->status == SPC__TRIAL_WRONG &&
        g->fixture->sample->conv.pass != SPC_WGRAD &&
        spc__fixture_layout(dataset) == SPC_RSCK)
        snprintf(g->out->note + used, sizeof(g->out->note) - used,
                 " (weights RSCK)");
}

/*
 * Overwritten inputs explain all later failures, so they are checked first. A
 * diagnosis may end in a fault, or show that two launches hid each other's
 * writes; the note then says that.
 */
void spc__gate_reject(const spc__gate *g, const spc__gate_setting *at,
                      uint64_t digest, const spc__worst *worst)
{
    spc__gate_untouched(g, at->dataset);
    if (g->out->status != SPC__TRIAL_OK)
        return;
    const char *test = diagnose(g, at, digest);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_maps_hold(g);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_wrong_at(g, test, at->s, worst);
    name_layout(g, at->dataset);
}
