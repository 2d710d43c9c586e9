/* rig.c - loading, verifying and timing candidates on a device. */
#include "rig.h"

#include "error.h"
#include "map.h"
#include "plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slot {
    spc_plan *plan; /* NULL: nothing is loaded here */
    void *weights;  /* packed */
    char artefact[65];
} slot;

typedef struct stage { /* one scene, on the device */
    spc_map *map;
    void *in;
    void *out;
    size_t out_bytes;
} stage;

struct spc__rig {
    spc_ctx *ctx;
    const spc__subject *subject;
    const spc__device_ops *ops;
    stage stages[SPC__SCENES_MAX];
    void *weights; /* canonical */
    void *bias;
    void *workspace;
    size_t workspace_bytes;
    slot *slots;
    int slot_count;
    void *host; /* as large as the largest output */
};

/* ---- building ------------------------------------------------------------ */

static spc_status upload(void **out, spc_ctx *ctx, const void *from,
                         size_t bytes)
{
    spc_status status = spc_alloc(out, ctx, bytes > 0 ? bytes : 1);

    return status != SPC_OK || bytes == 0
               ? status
               : spc_copy_to_device(ctx, *out, from, bytes);
}

static spc_status build_stage(spc__rig *rig, int s)
{
    const spc__subject *subject = rig->subject;
    const spc__subject_scene *scene = &subject->scenes[s];
    size_t element = spc__subject_element_bytes(subject);
    size_t rows = (size_t)scene->rows;
    stage *to = &rig->stages[s];
    spc_scene *copy = NULL;
    spc_status status;

    to->out_bytes = rows * (size_t)subject->conv.cout * element;
    if ((status = spc_scene_create(&copy, scene->coords, scene->rows, "",
                                   spc__error_of(rig->ctx))) != SPC_OK ||
        (status = spc_map_create_from_scene(&to->map, rig->ctx, &subject->conv,
                                            copy)) != SPC_OK ||
        (status = upload(&to->in, rig->ctx, scene->in,
                         rows * (size_t)subject->conv.cin * element)) != SPC_OK)
        goto done;
    status = spc_alloc(&to->out, rig->ctx, to->out_bytes + 1);
done:
    spc_scene_free(copy);
    return status;
}

static spc_status build(spc__rig *rig)
{
    const spc__subject *subject = rig->subject;
    const spc_conv *conv = &subject->conv;
    size_t most = 1;
    spc_status status = SPC_OK;

    for (int s = 0; s < subject->scene_count && status == SPC_OK; s++) {
        status = build_stage(rig, s);
        if (rig->stages[s].out_bytes > most)
            most = rig->stages[s].out_bytes;
    }
    if (status == SPC_OK)
        status = upload(&rig->weights, rig->ctx, subject->weights,
                        (size_t)spc__conv_offsets(conv) * (size_t)conv->cin *
                            (size_t)conv->cout *
                            spc__subject_element_bytes(subject));
    if (status == SPC_OK && subject->bias != NULL)
        status = upload(&rig->bias, rig->ctx, subject->bias,
                        (size_t)conv->cout * sizeof(float));
    if (status == SPC_OK && (rig->host = malloc(most)) == NULL)
        status = spc__fail_memory(spc__error_of(rig->ctx), most);
    return status;
}

spc_status spc__rig_create(spc__rig **out, spc_ctx *ctx,
                           const spc__subject *subject, spc_error *error)
{
    spc__rig *rig = calloc(1, sizeof(*rig));

    *out = NULL;
    if (rig == NULL)
        return spc__fail_memory(error, sizeof(*rig));
    rig->ctx = ctx;
    rig->subject = subject;
    rig->ops = spc__device_ops_of(ctx->device);
    if (build(rig) != SPC_OK) {
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
    for (int s = 0; s < rig->subject->scene_count; s++) {
        spc_map_free(rig->stages[s].map);
        spc_dealloc(rig->ctx, rig->stages[s].in);
        spc_dealloc(rig->ctx, rig->stages[s].out);
    }
    spc_dealloc(rig->ctx, rig->weights);
    spc_dealloc(rig->ctx, rig->bias);
    spc_dealloc(rig->ctx, rig->workspace);
    free(rig->slots);
    free(rig->host);
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
    spc_plan_free(at->plan);
    spc_dealloc(rig->ctx, at->weights);
    if (at->artefact[0] != '\0')
        spc__ctx_unload(rig->ctx, at->artefact);
    memset(at, 0, sizeof(*at));
}

/* The workspace is shared: candidates run one after the other. */
static spc_status reserve_workspace(spc__rig *rig, size_t bytes)
{
    if (bytes <= rig->workspace_bytes)
        return SPC_OK;
    spc_dealloc(rig->ctx, rig->workspace);
    rig->workspace = NULL;
    rig->workspace_bytes = 0;
    spc_status status = spc_alloc(&rig->workspace, rig->ctx, bytes);
    if (status == SPC_OK)
        rig->workspace_bytes = bytes;
    return status;
}

static spc_status bind(spc__rig *rig, slot *to, const spc__rig_code *code)
{
    const spc_conv *conv = &rig->subject->conv;
    spc_ctx *ctx = rig->ctx;
    spc__code loaded;
    spc__buf config = SPC__BUF_INIT;
    spc_status status;

    if ((status = spc__ctx_load(&loaded, ctx, code->artefact, code->code,
                                code->code_bytes, &code->launch)) != SPC_OK)
        return status;
    snprintf(to->artefact, sizeof(to->artefact), "%s", code->artefact);
    spc__attrs_format(&config, &code->config);
    status = spc__plan_create_from(&to->plan, ctx, conv, &loaded,
                                   code->template_name, spc__buf_text(&config));
    spc__buf_release(&config);
    for (int s = 0; s < rig->subject->scene_count && status == SPC_OK; s++) {
        spc_map *map = rig->stages[s].map;
        if ((status = spc_map_prepare(map, to->plan, NULL)) == SPC_OK)
            status =
                reserve_workspace(rig, spc_plan_workspace_bytes(to->plan, map));
    }
    if (status == SPC_OK)
        status =
            spc_alloc(&to->weights, ctx, spc_plan_weights_bytes(to->plan) + 1);
    if (status == SPC_OK)
        status = spc_plan_pack_weights(to->plan, to->weights, rig->weights,
                                       SPC_KRSC, NULL);
    return status == SPC_OK ? spc_synchronize(ctx) : status;
}

/* ---- running ------------------------------------------------------------- */

/* Notes a failure, and whether the device survived it. */
static void note_failure(spc__outcome *out, spc__rig *rig,
                         spc__trial_status status)
{
    snprintf(out->note, sizeof(out->note), "%.190s",
             spc__error_of(rig->ctx)->text);
    out->status = status;
    out->dead = spc_synchronize(rig->ctx) != SPC_OK;
}

void spc__rig_load(spc__outcome *out, spc__rig *rig, int number,
                   const spc__rig_code *code)
{
    memset(out, 0, sizeof(*out));
    if (spc__rig_has(rig, number))
        return;
    if (!reserve_slot(rig, number)) {
        spc__fail_memory(spc__error_of(rig->ctx), sizeof(slot));
        note_failure(out, rig, SPC__TRIAL_LAUNCH);
    } else if (bind(rig, &rig->slots[number], code) != SPC_OK) {
        note_failure(out, rig, SPC__TRIAL_LAUNCH);
        spc__rig_unload(rig, number);
    }
}

struct run {
    spc__rig *rig;
    const slot *slot;
    int scene;
};

static spc_status enqueue(void *payload, void *stream)
{
    const struct run *run = payload;
    const spc__rig *rig = run->rig;
    const stage *on = &rig->stages[run->scene];
    spc_buffers buffers = {on->in, on->out, run->slot->weights, rig->bias,
                           rig->workspace};
    spc_status status = spc__ctx_check_cancel(rig->ctx);

    if (status != SPC_OK)
        return status;
    return spc_plan_execute(run->slot->plan, on->map, &buffers, stream);
}

static void verify_scene(spc__outcome *out, spc__rig *rig, int number, int s)
{
    spc_ctx *ctx = rig->ctx;
    const stage *on = &rig->stages[s];
    struct run run = {rig, &rig->slots[number], s};

    /* All ones is not a number in every type: what is not written shows. */
    if (rig->ops->fill(ctx->device, on->out, 0xff, on->out_bytes, NULL,
                       spc__error_of(ctx)) != SPC_OK ||
        enqueue(&run, NULL) != SPC_OK) {
        note_failure(out, rig, SPC__TRIAL_LAUNCH);
        return;
    }
    if (spc_synchronize(ctx) != SPC_OK ||
        spc_copy_to_host(ctx, rig->host, on->out, on->out_bytes) != SPC_OK) {
        note_failure(out, rig, SPC__TRIAL_FAULT);
        return;
    }
    spc__worst worst = spc__subject_compare(rig->subject, s, rig->host);
    if (worst.error > out->error)
        out->error = worst.error;
    if (worst.error > 1 && out->status == SPC__TRIAL_OK) {
        out->status = SPC__TRIAL_WRONG;
        snprintf(out->note, sizeof(out->note),
                 "scene %d, row %lld, channel %d is %.9g and must be %.9g: "
                 "%.3g times the tolerance",
                 s + 1, (long long)worst.row, worst.channel, worst.got,
                 worst.reference, worst.error);
    }
}

void spc__rig_verify(spc__outcome *out, spc__rig *rig, int number,
                     const spc__rig_code *code)
{
    spc__rig_load(out, rig, number, code);
    for (int s = 0; s < rig->subject->scene_count; s++)
        if (out->status == SPC__TRIAL_OK || out->status == SPC__TRIAL_WRONG)
            verify_scene(out, rig, number, s);
    if (out->status != SPC__TRIAL_OK)
        spc__rig_unload(rig, number);
}

void spc__rig_time(spc__outcome *out, spc__rig *rig, int number,
                   const spc__rig_order *order)
{
    struct run run = {rig, &rig->slots[number], order->scene};
    spc__measure measure = {enqueue, &run, order->samples, order->limit_s,
                            order->cold};

    memset(out, 0, sizeof(*out));
    if (measure.samples > SPC__SAMPLES_MAX)
        measure.samples = SPC__SAMPLES_MAX;
    if (rig->ops->measure(rig->ctx->device, &measure, out->samples, &out->count,
                          spc__error_of(rig->ctx)) != SPC_OK)
        note_failure(out, rig, SPC__TRIAL_FAULT);
}
