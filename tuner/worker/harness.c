/* SPDX-License-Identifier: Apache-2.0 */
/* harness.c - loads, verifies and times candidates on a device. */
#include "tuner/worker/harness.h"

#include "base/clock.h"
#include "base/error.h"
#include "plan/plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slot {
    spc_plan *plan; /* NULL: the slot is empty */
    spc__tested tested;
    char artefact[65];
} slot;

struct spc__harness {
    spc_ctx *ctx;
    spc__fixture *fixture;
    slot *slots;
    int slot_count;
};

/*
 * Time limit in seconds to confirm a finalist on the given scenes. The awkward
 * scenes have the same limit again.
 */
static const double confirm_s = 0.02;

/* ---- building ------------------------------------------------------------ */

spc_status spc__harness_create(spc__harness **out, spc_ctx *ctx,
                               const spc__sample *sample, spc_error *error)
{
    spc__harness *harness = calloc(1, sizeof(*harness));

    *out = NULL;
    if (harness == NULL)
        return spc__fail_memory(error, sizeof(*harness));
    harness->ctx = ctx;
    if (spc__fixture_create(&harness->fixture, ctx, sample) != SPC_OK) {
        *error = *spc__error_of(ctx);
        spc__harness_free(harness);
        return error->status;
    }
    *out = harness;
    return SPC_OK;
}

void spc__harness_free(spc__harness *harness)
{
    if (harness == NULL)
        return;
    for (int i = 0; i < harness->slot_count; i++)
        spc__harness_unload(harness, i);
    spc__fixture_free(harness->fixture);
    free(harness->slots);
    free(harness);
}

/* ---- slots --------------------------------------------------------------- */

/* Makes room for slot `number`; false without memory. New slots are zero, which
 * means empty. */
static bool reserve_slot(spc__harness *harness, int number)
{
    if (number < harness->slot_count)
        return true;
    int count = 2 * number + 16;
    slot *slots = realloc(harness->slots, (size_t)count * sizeof(*slots));
    if (slots == NULL)
        return false;
    memset(slots + harness->slot_count, 0,
           (size_t)(count - harness->slot_count) * sizeof(*slots));
    harness->slots = slots;
    harness->slot_count = count;
    return true;
}

bool spc__harness_has(const spc__harness *harness, int number)
{
    return number < harness->slot_count && harness->slots[number].plan != NULL;
}

void spc__harness_unload(spc__harness *harness, int number)
{
    if (number >= harness->slot_count)
        return;
    slot *at = &harness->slots[number];
    /* The plan before the code that it runs. */
    spc__gate_leave(&at->tested, harness->fixture);
    spc_plan_free(at->plan);
    if (at->artefact[0] != '\0')
        spc__ctx_unload(harness->ctx, at->artefact);
    memset(at, 0, sizeof(*at));
}

/* Loads code, and makes a plan of it. On failure the slot keeps what it has,
 * for spc__harness_unload(). */
static spc_status bind(spc__harness *harness, slot *to,
                       const spc__harness_code *code)
{
    spc_ctx *ctx = harness->ctx;
    spc__code loaded;
    spc__buf config = SPC__BUF_INIT;
    spc_status status;

    if ((status = spc__ctx_load(&loaded, ctx, code->artefact, code->code,
                                code->code_bytes, &code->launch)) != SPC_OK)
        return status;
    /* Notes this before making the plan, so that a failure also unloads the
     * code. */
    snprintf(to->artefact, sizeof(to->artefact), "%s", code->artefact);
    spc__attrs_format(&config, &code->config);
    status = spc__plan_create_from(&to->plan, ctx,
                                   &harness->fixture->sample->conv, &loaded,
                                   code->template_name, spc__buf_text(&config));
    spc__buf_release(&config);
    return status;
}

static double seconds_since(uint64_t start_ns)
{
    return (double)(spc__now_ns() - start_ns) * 1e-9;
}

/* ---- running ------------------------------------------------------------- */

/*
 * True for failures that no candidate can cause: a kernel allocates nothing,
 * opens nothing, and cannot take the device away.
 */
static spc_status trouble_of(spc_status status)
{
    return status == SPC_ENOMEM || status == SPC_EIO ||
                   status == SPC_ENODEVICE || status == SPC_EINTERRUPTED
               ? status
               : SPC_OK;
}

/* The cause may be more specific than the call that reported it. */
static spc__trial_status status_for(spc_status cause, spc__trial_status status)
{
    return cause == SPC_ETIMEOUT    ? SPC__TRIAL_TIMEOUT
           : cause == SPC_ECAPACITY ? SPC__TRIAL_CONSTRAINT
                                    : status;
}

/*
 * Notes a failure, and whether the device survived it. Does not wait after a
 * timeout, as the kernel may never end.
 */
static void note_failure(spc__outcome *out, spc__harness *harness,
                         spc__trial_status status)
{
    spc_status cause = spc__error_of(harness->ctx)->status;

    snprintf(out->note, sizeof(out->note), "%.190s",
             spc__error_of(harness->ctx)->text);
    out->status = status_for(cause, status);
    out->trouble = trouble_of(cause);
    out->dead =
        cause == SPC_ETIMEOUT || spc_ctx_synchronize(harness->ctx) != SPC_OK;
}

/*
 * Builds maps that a candidate has written to again, and prepares them for all
 * loaded candidates, including this one: it is unloaded next.
 */
static void remake_maps(spc__outcome *out, spc__harness *harness)
{
    spc_status status = spc__fixture_remake_maps(harness->fixture);

    for (int i = 0; i < harness->slot_count && status == SPC_OK; i++)
        if (harness->slots[i].plan != NULL)
            status =
                spc__fixture_prepare(harness->fixture, harness->slots[i].plan);
    if (status != SPC_OK)
        out->dead = true;
}

/*
 * Turns a verdict of the gate into the outcome; false for a failure. A failed
 * call has left its cause in the context.
 */
static bool takes(spc__outcome *out, spc__harness *harness,
                  const spc__verdict *verdict)
{
    out->status = verdict->status;
    out->dead = verdict->dead;
    if (verdict->error > out->error)
        out->error = verdict->error;
    memcpy(out->note, verdict->note, sizeof(out->note));
    if (verdict->spoilt)
        remake_maps(out, harness);
    if (verdict->status == SPC__TRIAL_FAULT) {
        spc_status cause = spc__error_of(harness->ctx)->status;
        out->trouble = trouble_of(cause);
        out->status = status_for(cause, verdict->status);
    }
    return verdict->status == SPC__TRIAL_OK;
}

/* An old error in the context would be taken for this request's. */
static void begin(spc__outcome *out, spc__harness *harness)
{
    memset(out, 0, sizeof(*out));
    spc__error_clear(spc__error_of(harness->ctx));
}

void spc__harness_load(spc__outcome *out, spc__harness *harness, int number,
                       const spc__harness_code *code)
{
    begin(out, harness);
    if (spc__harness_has(harness, number))
        return;
    if (!reserve_slot(harness, number)) {
        spc__fail_memory(spc__error_of(harness->ctx), sizeof(slot));
        note_failure(out, harness, SPC__TRIAL_LAUNCH);
        return;
    }
    slot *to = &harness->slots[number];
    spc__trial_status fate = SPC__TRIAL_OK;
    if (bind(harness, to, code) != SPC_OK)
        fate = SPC__TRIAL_LAUNCH;
    else if (spc__gate_enter(&to->tested, harness->fixture, to->plan) != SPC_OK)
        fate = SPC__TRIAL_FAULT; /* its packing kernel has run */
    if (fate != SPC__TRIAL_OK) {
        note_failure(out, harness, fate);
        spc__harness_unload(harness, number);
    }
}

void spc__harness_verify(spc__outcome *out, spc__harness *harness, int number,
                         const spc__harness_code *code)
{
    spc__verdict verdict;

    spc__harness_load(out, harness, number, code);
    if (out->status != SPC__TRIAL_OK)
        return;
    uint64_t start = spc__now_ns();
    spc__gate_verify(&verdict, harness->fixture,
                     &harness->slots[number].tested);
    out->gate_s = seconds_since(start);
    if (!takes(out, harness, &verdict))
        spc__harness_unload(harness, number);
}

void spc__harness_confirm(spc__outcome *out, spc__harness *harness, int number)
{
    spc__verdict verdict;

    begin(out, harness);
    uint64_t start = spc__now_ns();
    spc__gate_confirm(&verdict, harness->fixture,
                      &harness->slots[number].tested, confirm_s);
    out->gate_s = seconds_since(start);
    if (!takes(out, harness, &verdict))
        spc__harness_unload(harness, number);
}

struct run {
    const spc__fixture *fixture;
    const spc__tested *tested;
    int scene;
};

static spc_status enqueue(void *payload, void *stream)
{
    const struct run *run = payload;

    return spc__fixture_execute(run->fixture, run->tested->plan, run->scene,
                                SPC__REAL, run->tested->packed.data, stream);
}

/* Builds the layout of the map that the candidate reads, instead of running
 * it. */
static spc_status enqueue_layout(void *payload, void *stream)
{
    const struct run *run = payload;
    spc_status status = spc__ctx_check_cancel(run->fixture->ctx);

    return status == SPC_OK
               ? spc__plan_relayout(run->tested->plan,
                                    run->fixture->maps[run->scene], stream)
               : status;
}

void spc__harness_time(spc__outcome *out, spc__harness *harness, int number,
                       const spc__harness_order *order)
{
    spc__tested *tested = &harness->slots[number].tested;
    struct run run = {harness->fixture, tested, order->scene};
    spc__measure measure = {order->layout ? enqueue_layout : enqueue,
                            &run,
                            order->samples,
                            order->limit_s,
                            order->cold,
                            NULL};
    spc__verdict verdict;

    begin(out, harness);
    if (measure.samples > SPC__SAMPLES_MAX)
        measure.samples = SPC__SAMPLES_MAX;
    spc__gate_before_timing(&verdict, harness->fixture, tested, order->scene);
    if (!takes(out, harness, &verdict))
        return;
    if (harness->fixture->ops->measure(harness->ctx->device, &measure,
                                       out->samples, &out->count,
                                       spc__error_of(harness->ctx)) != SPC_OK) {
        note_failure(out, harness, SPC__TRIAL_FAULT);
        return;
    }
    if (out->count == 0 || order->layout) /* the kernel did not run */
        return;
    spc__gate_after_timing(&verdict, harness->fixture, tested, order->scene);
    takes(out, harness, &verdict);
}

/* ---- probing the device -------------------------------------------------- */

/*
 * Uses the gate's own kernel, which the fixture has from its start: to compile
 * another may take longer than any probe waits.
 */
static spc_status digest_little(spc__harness *harness)
{
    spc__digester *digester = harness->fixture->digester;
    uint64_t digest;
    spc_status status = spc__digester_begin(digester);

    if (status == SPC_OK)
        status = spc__digester_add(digester, harness->fixture->out.data, 1);
    return status == SPC_OK ? spc__digester_end(digester, &digest) : status;
}

void spc__harness_probe(spc__outcome *out, spc__harness *harness)
{
    begin(out, harness);
    if (digest_little(harness) != SPC_OK ||
        spc_ctx_synchronize(harness->ctx) != SPC_OK)
        note_failure(out, harness, SPC__TRIAL_FAULT);
}
