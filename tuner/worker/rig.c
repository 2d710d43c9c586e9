/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c - loads, verifies and times candidates on a device. */
#include "tuner/worker/rig.h"

#include "base/clock.h"
#include "base/error.h"
#include "plan/plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slot {
    spc_plan *plan; /* NULL: nothing is loaded here */
    spc__tested tested;
    char artefact[65];
} slot;

struct spc__rig {
    spc_ctx *ctx;
    spc__bed *bed;
    slot *slots;
    int slot_count;
};

/*
 * Time limit in seconds to confirm a finalist on the given scenes; the awkward
 * ones have as much again.
 */
static const double confirm_s = 0.02;

/* ---- building ------------------------------------------------------------ */

spc_status spc__rig_create(spc__rig **out, spc_ctx *ctx,
                           const spc__sample *sample, spc_error *error)
{
    spc__rig *rig = calloc(1, sizeof(*rig));

    *out = NULL;
    if (rig == NULL)
        return spc__fail_memory(error, sizeof(*rig));
    rig->ctx = ctx;
    if (spc__bed_create(&rig->bed, ctx, sample) != SPC_OK) {
        *error = *spc__error_of(ctx);
        spc__rig_free(rig);
        return error->status;
    }
    *out = rig;
    return SPC_OK;
}

void spc__rig_free(spc__rig *rig)
{
    if (rig == NULL)
        return;
    for (int i = 0; i < rig->slot_count; i++)
        spc__rig_unload(rig, i);
    spc__bed_free(rig->bed);
    free(rig->slots);
    free(rig);
}

/* ---- slots --------------------------------------------------------------- */

static bool reserve_slot(spc__rig *rig, int number)
{
    if (number < rig->slot_count)
        return true;
    int count = 2 * number + 16;
    slot *slots = realloc(rig->slots, (size_t)count * sizeof(*slots));
    if (slots == NULL)
        return false;
    memset(slots + rig->slot_count, 0,
           (size_t)(count - rig->slot_count) * sizeof(*slots));
    rig->slots = slots;
    rig->slot_count = count;
    return true;
}

bool spc__rig_has(const spc__rig *rig, int number)
{
    return number < rig->slot_count && rig->slots[number].plan != NULL;
}

void spc__rig_unload(spc__rig *rig, int number)
{
    if (number >= rig->slot_count)
        return;
    slot *at = &rig->slots[number];
    spc__gate_leave(&at->tested, rig->bed);
    spc_plan_free(at->plan);
    if (at->artefact[0] != '\0')
        spc__ctx_unload(rig->ctx, at->artefact);
    memset(at, 0, sizeof(*at));
}

static spc_status bind(spc__rig *rig, slot *to, const spc__rig_code *code)
{
    spc_ctx *ctx = rig->ctx;
    spc__code loaded;
    spc__buf config = SPC__BUF_INIT;
    spc_status status;

    if ((status = spc__ctx_load(&loaded, ctx, code->artefact, code->code,
                                code->code_bytes, &code->launch)) != SPC_OK)
        return status;
    snprintf(to->artefact, sizeof(to->artefact), "%s", code->artefact);
    spc__attrs_format(&config, &code->config);
    status =
        spc__plan_create_from(&to->plan, ctx, &rig->bed->sample->conv, &loaded,
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
static void note_failure(spc__outcome *out, spc__rig *rig,
                         spc__trial_status status)
{
    spc_status cause = spc__error_of(rig->ctx)->status;

    snprintf(out->note, sizeof(out->note), "%.190s",
             spc__error_of(rig->ctx)->text);
    out->status = status_for(cause, status);
    out->trouble = trouble_of(cause);
    out->dead = cause == SPC_ETIMEOUT || spc_synchronize(rig->ctx) != SPC_OK;
}

/*
 * Builds maps that a candidate has written to again, and prepares them for all
 * loaded candidates, including this one: it is unloaded next.
 */
static void remake_maps(spc__outcome *out, spc__rig *rig)
{
    spc_status status = spc__bed_remake_maps(rig->bed);

    for (int i = 0; i < rig->slot_count && status == SPC_OK; i++)
        if (rig->slots[i].plan != NULL)
            status = spc__bed_prepare(rig->bed, rig->slots[i].plan);
    if (status != SPC_OK)
        out->dead = true;
}

/*
 * Turns a verdict of the gate into the outcome; false for a failure. A failed
 * call has left its cause in the context.
 */
static bool takes(spc__outcome *out, spc__rig *rig, const spc__verdict *verdict)
{
    out->status = verdict->status;
    out->dead = verdict->dead;
    if (verdict->error > out->error)
        out->error = verdict->error;
    memcpy(out->note, verdict->note, sizeof(out->note));
    if (verdict->spoilt)
        remake_maps(out, rig);
    if (verdict->status == SPC__TRIAL_FAULT) {
        spc_status cause = spc__error_of(rig->ctx)->status;
        out->trouble = trouble_of(cause);
        out->status = status_for(cause, verdict->status);
    }
    return verdict->status == SPC__TRIAL_OK;
}

static void begin(spc__outcome *out, spc__rig *rig)
{
    memset(out, 0, sizeof(*out));
    spc__error_clear(spc__error_of(rig->ctx));
}

void spc__rig_load(spc__outcome *out, spc__rig *rig, int number,
                   const spc__rig_code *code)
{
    begin(out, rig);
    if (spc__rig_has(rig, number))
        return;
    if (!reserve_slot(rig, number)) {
        spc__fail_memory(spc__error_of(rig->ctx), sizeof(slot));
        note_failure(out, rig, SPC__TRIAL_LAUNCH);
        return;
    }
    slot *to = &rig->slots[number];
    spc__trial_status fate = SPC__TRIAL_OK;
    if (bind(rig, to, code) != SPC_OK)
        fate = SPC__TRIAL_LAUNCH;
    else if (spc__gate_enter(&to->tested, rig->bed, to->plan) != SPC_OK)
        fate = SPC__TRIAL_FAULT; /* its kernel that packs weights has run */
    if (fate != SPC__TRIAL_OK) {
        note_failure(out, rig, fate);
        spc__rig_unload(rig, number);
    }
}

void spc__rig_verify(spc__outcome *out, spc__rig *rig, int number,
                     const spc__rig_code *code)
{
    spc__verdict verdict;

    spc__rig_load(out, rig, number, code);
    if (out->status != SPC__TRIAL_OK)
        return;
    uint64_t start = spc__now_ns();
    spc__gate_verify(&verdict, rig->bed, &rig->slots[number].tested);
    out->gate_s = seconds_since(start);
    if (!takes(out, rig, &verdict))
        spc__rig_unload(rig, number);
}

void spc__rig_confirm(spc__outcome *out, spc__rig *rig, int number)
{
    spc__verdict verdict;

    begin(out, rig);
    uint64_t start = spc__now_ns();
    spc__gate_confirm(&verdict, rig->bed, &rig->slots[number].tested,
                      confirm_s);
    out->gate_s = seconds_since(start);
    if (!takes(out, rig, &verdict))
        spc__rig_unload(rig, number);
}

struct run {
    const spc__bed *bed;
    const spc__tested *tested;
    int scene;
};

static spc_status enqueue(void *payload, void *stream)
{
    const struct run *run = payload;

    return spc__bed_execute(run->bed, run->tested->plan, run->scene, SPC__REAL,
                            run->tested->packed.data, stream);
}

static spc_status enqueue_layout(void *payload, void *stream)
{
    const struct run *run = payload;
    spc_status status = spc__ctx_check_cancel(run->bed->ctx);

    return status == SPC_OK
               ? spc__plan_relayout(run->tested->plan,
                                    run->bed->maps[run->scene], stream)
               : status;
}

void spc__rig_time(spc__outcome *out, spc__rig *rig, int number,
                   const spc__rig_order *order)
{
    spc__tested *tested = &rig->slots[number].tested;
    struct run run = {rig->bed, tested, order->scene};
    spc__measure measure = {order->layout ? enqueue_layout : enqueue,
                            &run,
                            order->samples,
                            order->limit_s,
                            order->cold,
                            NULL};
    spc__verdict verdict;

    begin(out, rig);
    if (measure.samples > SPC__SAMPLES_MAX)
        measure.samples = SPC__SAMPLES_MAX;
    spc__gate_before_timing(&verdict, rig->bed, tested, order->scene);
    if (!takes(out, rig, &verdict))
        return;
    if (rig->bed->ops->measure(rig->ctx->device, &measure, out->samples,
                               &out->count,
                               spc__error_of(rig->ctx)) != SPC_OK) {
        note_failure(out, rig, SPC__TRIAL_FAULT);
        return;
    }
    if (out->count == 0 || order->layout) /* it was not run */
        return;
    spc__gate_after_timing(&verdict, rig->bed, tested, order->scene);
    takes(out, rig, &verdict);
}

/* ---- probing the device -------------------------------------------------- */

/*
 * Uses the gate's own kernel, which the fixture has from its start: to compile
 * another may take longer than any probe waits.
 */
static spc_status digest_little(spc__rig *rig)
{
    spc__digester *digester = rig->bed->digester;
    uint64_t digest;
    spc_status status = spc__digester_begin(digester);

    if (status == SPC_OK)
        status = spc__digester_add(digester, rig->bed->out.data, 1);
    return status == SPC_OK ? spc__digester_end(digester, &digest) : status;
}

void spc__rig_probe(spc__outcome *out, spc__rig *rig)
{
    begin(out, rig);
    if (digest_little(rig) != SPC_OK || spc_synchronize(rig->ctx) != SPC_OK)
        note_failure(out, rig, SPC__TRIAL_FAULT);
}
