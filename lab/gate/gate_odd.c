/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_odd.c - one launch on scenes of many sizes; and operands that are
 * infinite or NaN, which must reach exactly the outputs that see them.
 */
#include "lab/gate/gate_launch.h"

#include "base/dtype.h"
#include "base/error.h"
#include "operators/epilogue.h"
#include "operators/operands.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAN_BYTE = 0xff, NUMBER_BYTE = 0x3c };

/* ---- sizes --------------------------------------------------------------- */

/* Enqueues the launch of one size and the digests of its result, without
 * waiting: there are many sizes, and each is small. */
static spc_status enqueue_size(const spc__gate *g, int s)
{
    spc__fixture *fixture = g->fixture;
    spc_status status = spc__fixture_set(fixture, g->tested->plan, s);

    if (status == SPC_OK)
        status = spc__fixture_load(fixture, s, SPC__COUNT);
    if (status == SPC_OK)
        status = spc__fixture_fill_out(fixture, NAN_BYTE);
    if (status == SPC_OK)
        status = spc__fixture_execute(fixture, g->tested->plan, s, SPC__COUNT,
                                      spc__gate_packed(g, SPC__COUNT), NULL);
    if (status == SPC_OK)
        status = spc__digester_add(fixture->digester, fixture->out.data,
                                   fixture->out.bytes);
    return status == SPC_OK ? spc__gate_add_zones(g, &fixture->out) : status;
}

/*
 * Runs a failed launch once more to find its fault. The result may also be
 * correct, as an epilogue rounds.
 */
static void look_closer(const spc__gate *g, int s)
{
    spc__gate_setting at = {.s = s,
                            .dataset = SPC__COUNT,
                            .out_byte = NAN_BYTE,
                            .previous = SPC__COUNT,
                            .work_byte = NAN_BYTE};

    if (spc__fixture_set(g->fixture, g->tested->plan, s) != SPC_OK)
        spc__gate_failed(g);
    else
        spc__gate_test_launch(g, &at);
}

void spc__gate_test_sizes(const spc__gate *g)
{
    const spc__sample *sample = g->fixture->sample;
    int first = sample->given + SPC__AWKWARD;
    int count = sample->scene_count - first;
    uint64_t digests[3 * SPC__ODD_SIZES];
    spc_status status = spc__digester_begin(g->fixture->digester);

    for (int i = 0; i < count && status == SPC_OK; i++)
        status = enqueue_size(g, first + i);
    if (status == SPC_OK)
        status = spc__digester_end(g->fixture->digester, digests);
    if (status != SPC_OK) {
        spc__gate_failed(g);
        return;
    }
    for (int i = 0; i < count; i++) {
        int s = first + i;
        g->tested->first[s][SPC__COUNT] = digests[3 * i];
        if (g->out->status == SPC__TRIAL_OK &&
            digests[3 * i] != sample->scenes[s].digest[SPC__COUNT])
            look_closer(g, s);
        if (g->out->status == SPC__TRIAL_OK)
            spc__gate_zones_hold(g, "out", &g->fixture->out,
                                 &digests[3 * i + 1]);
    }
}

/* ---- operands that are NaN ----------------------------------------------- */

/*
 * Bytes on the device, their value during a launch, and their original value.
 */
typedef struct patch {
    char *device;
    const void *other, *right;
    size_t bytes;
} patch;

/* limit for a small scene; if more are needed, none is applied */
enum { PATCHES = 1024 };

typedef struct odd_launch {
    const spc__gate *g;
    spc__gate_setting at;
    spc__odd odd;
    patch patches[PATCHES];
    int count;
    /* Rows of inputs that are NaN, and infinite of either sign. */
    char *none, *infinite[2];
} odd_launch;

static void add_patch(odd_launch *l, const spc__guarded *array,
                      const void *host, size_t from, const void *other,
                      size_t bytes)
{
    if (l->count < PATCHES)
        l->patches[l->count] = (patch){array->data + from, other,
                                       (const char *)host + from, bytes};
    /* Also counts patches beyond the limit, so that run_odd() notices: applying
     * only some would not give the expected results. */
    l->count++;
}

static const spc__sample_scene *scene_of(const odd_launch *l)
{
    return &l->g->fixture->sample->scenes[l->at.s];
}

/* Patches marked rows: all elements, or one, become infinite or NaN. */
static void add_inputs(odd_launch *l)
{
    const spc__fixture *fixture = l->g->fixture;
    const spc_conv *conv = &fixture->sample->conv;
    const spc__sample_scene *scene = scene_of(l);
    spc__operand as = spc__operand_of(conv, SPC_OPERAND_IN, scene->rows_in);
    size_t element = spc__dtype_of(as.dtype)->bytes;

    for (int64_t row = 0; row < as.rows; row++) {
        int64_t first = 0, columns = as.columns;
        const void *other = l->none;
        if (!spc__odd_marks(row, as.rows))
            continue;
        if (l->odd == SPC__ODD_INFINITE) {
            while (spc__odd_infinite(conv, row, as.rows, (int)first) == 0)
                first++;
            columns = conv->groups == 1 ? 1 : as.columns;
            other = l->infinite[spc__odd_infinite(conv, row, as.rows,
                                                  (int)first) < 0];
        }
        add_patch(l, &fixture->in[l->at.s][0], scene->in[SPC__COUNT],
                  (size_t)(row * as.pitch + first) * element, other,
                  (size_t)columns * element);
    }
}

/* Adds a patch for each element of the residual that becomes NaN. */
static void add_residuals(odd_launch *l)
{
    const spc__fixture *fixture = l->g->fixture;
    const spc_conv *conv = &fixture->sample->conv;
    const spc__sample_scene *scene = scene_of(l);
    spc__operand as =
        spc__operand_of(conv, SPC_OPERAND_RESIDUAL, scene->rows_out);
    size_t element = spc__dtype_of(as.dtype)->bytes;

    for (int64_t row = 0; as.present && row < as.rows; row++)
        for (int c = 0; c < as.columns; c++)
            if (spc__odd_residual(conv, row, c))
                add_patch(l, &fixture->residual[l->at.s][0],
                          scene->residual[SPC__COUNT],
                          (size_t)(row * as.pitch + c) * element, l->none,
                          element);
}

/* Adds patches for one weight, bias and scale, and for residuals. */
static void add_others(odd_launch *l)
{
    const spc__fixture *fixture = l->g->fixture;
    const spc__sample *sample = fixture->sample;
    const spc_conv *conv = &sample->conv;
    int64_t weight = spc__odd_weight(conv);
    size_t element = spc__dtype_of(conv->dtype)->bytes;
    int bias = spc__odd_bias(conv), scale = spc__odd_scale(conv);

    if (weight >= 0)
        add_patch(l, &fixture->weights[SPC__COUNT], sample->weights[SPC__COUNT],
                  (size_t)weight * element, l->none, element);
    if (bias >= 0)
        add_patch(l, &fixture->bias[SPC__COUNT], sample->bias[SPC__COUNT],
                  (size_t)bias * sizeof(float), l->none, sizeof(float));
    if (scale >= 0)
        add_patch(l, &fixture->scale[SPC__COUNT], sample->scale[SPC__COUNT],
                  (size_t)scale * sizeof(float), l->none, sizeof(float));
    add_residuals(l);
}

/* Writes the infinities and NaN, or restores the original values if `right` is
 * set. */
static spc_status write_patches(const odd_launch *l, bool right)
{
    const spc__gate *g = l->g;
    const spc__fixture *fixture = g->fixture;
    spc_status status = SPC_OK;

    for (int i = 0; i < l->count && status == SPC_OK; i++) {
        const patch *p = &l->patches[i];
        status = fixture->ops->copy_in(fixture->ctx->device, p->device,
                                       right ? p->right : p->other, p->bytes,
                                       NULL, spc__error_of(fixture->ctx));
    }
    if (status != SPC_OK || l->odd != SPC__ODD_OTHERS)
        return status;
    /* The packed weights contain the changed weight too. */
    return spc_plan_pack((void *)spc__gate_packed(g, SPC__COUNT),
                         g->tested->plan, fixture->weights[SPC__COUNT].data,
                         SPC_KRSC, NULL);
}

static double got_of(const odd_launch *l, int64_t i)
{
    return spc__sample_element(l->g->fixture->sample, l->at.s, l->at.dataset,
                               l->g->fixture->host, i)
        .got;
}

/* True if element i is correct. */
static bool is_right(const odd_launch *l, int64_t i, unsigned char must)
{
    const spc__gate *g = l->g;
    double got = got_of(l, i);

    if (must == SPC__ODD_RIGHT)
        return spc__gate_is_right(g, &l->at, i);
    /* NaN is allowed for an infinity too: a kernel that splits a number into
     * parts, or pads with zeros, turns an infinity into NaN (odd.h). */
    if (must == SPC__ODD_ANY || isnan(got))
        return true;
    return must == SPC__ODD_RIGHT_OR_NONE
               ? spc__gate_is_right(g, &l->at, i)
               : isinf(got) && must != SPC__ODD_NONE &&
                     (got > 0) == (must == SPC__ODD_PLUS);
}

/* Reports element i. */
static void note_wrong(const odd_launch *l, int64_t i, unsigned char must)
{
    static const char *const reasons[SPC__ODDS] = {
        "input that is NaN", "infinite input",
        "weight, bias, scale or residual that is NaN"};
    const spc_conv *conv = &l->g->fixture->sample->conv;

    spc__gate_wrong(l->g,
                    "non-finite: scene '%.40s', row %lld, channel %d is %.9g, "
                    "where it sees %s %s",
                    spc__gate_scene(l->g, l->at.s), (long long)(i / conv->cout),
                    (int)(i % conv->cout), got_of(l, i),
                    must <= SPC__ODD_RIGHT_OR_NONE ? "no"
                    : l->odd == SPC__ODD_OTHERS    ? "a"
                                                   : "an",
                    reasons[l->odd]);
}

/* Compares each element with the expected effect of the infinities and NaN. */
static void compare(const odd_launch *l)
{
    const unsigned char *must = scene_of(l)->odd[l->odd];
    spc__operand out = spc__sample_out(l->g->fixture->sample, l->at.s);

    for (int64_t i = 0; i < out.rows * out.columns; i++)
        if (!is_right(l, i, must[i])) {
            note_wrong(l, i, must[i]);
            return;
        }
}

/* Operands are restored even if the launch failed. */
static void run_odd(odd_launch *l)
{
    const spc__gate *g = l->g;
    uint64_t digests[SPC__RUN_DIGESTS];

    if (l->odd == SPC__ODD_OTHERS)
        add_others(l);
    else
        add_inputs(l);
    if (l->count == 0 || l->count > PATCHES)
        return;
    if (spc__fixture_load(g->fixture, l->at.s, SPC__COUNT) != SPC_OK ||
        write_patches(l, false) != SPC_OK)
        spc__gate_failed(g);
    else if (spc__gate_run(g, &l->at, digests)) {
        if (spc__fixture_fetch(g->fixture) != SPC_OK)
            spc__gate_failed(g);
        else
            compare(l);
    }
    /* The fixture's arrays serve all candidates after this one. */
    if (!g->out->dead && write_patches(l, true) != SPC_OK &&
        g->out->status == SPC__TRIAL_OK)
        spc__gate_failed(g);
}

/* Makes rows of NaN and of both infinities in the layer's type. */
static void make_numbers(odd_launch *l, char *rows, size_t bytes)
{
    static const float both[2] = {INFINITY, -INFINITY};
    const spc__dtype *type = spc__dtype_of(l->g->fixture->sample->conv.dtype);

    memset(rows, NAN_BYTE, bytes);
    l->none = rows;
    for (int i = 0; i < 2; i++) {
        l->infinite[i] = rows + (size_t)(i + 1) * bytes;
        for (size_t at = 0; at + type->bytes <= bytes; at += type->bytes)
            type->encode(l->infinite[i] + at, &both[i], 1);
    }
}

void spc__gate_test_no_numbers(const spc__gate *g, int s)
{
    const spc__sample *sample = g->fixture->sample;
    size_t bytes = spc__operand_of(&sample->conv, SPC_OPERAND_IN, 1).bytes + 16;
    odd_launch *l = calloc(1, sizeof(*l) + 3 * bytes);

    if (l == NULL) {
        spc__fail_memory(spc__error_of(g->fixture->ctx),
                         sizeof(*l) + 3 * bytes);
        spc__gate_failed(g);
        return;
    }
    l->g = g;
    l->at = (spc__gate_setting){.s = s,
                                .dataset = SPC__COUNT,
                                .out_byte = NUMBER_BYTE,
                                .previous = SPC__COUNT,
                                .work_byte = NAN_BYTE};
    make_numbers(l, (char *)(l + 1), bytes);
    for (int odd = 0; odd < SPC__ODDS; odd++) {
        l->odd = (spc__odd)odd;
        l->count = 0;
        if (sample->scenes[s].odd[odd] != NULL &&
            g->out->status == SPC__TRIAL_OK)
            run_odd(l);
    }
    free(l);
}
