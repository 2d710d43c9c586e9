/*
 * gate_odd.c - scenes of many sizes, one launch each; and inputs that are no
 * number, which show in the rows that see them and in no other.
 */
#include "gate_launch.h"

#include "dtype.h"
#include "epilogue.h"
#include "error.h"
#include "operands.h"
#include <math.h>

enum { NAN_BYTE = 0xff, NUMBER_BYTE = 0x3c };

/* ---- sizes --------------------------------------------------------------- */

static spc_status enqueue_size(const spc__gate *g, int s)
{
    spc__bed *bed = g->bed;
    spc_status status = spc__bed_set(bed, g->tested->plan, s);

    if (status == SPC_OK)
        status = spc__bed_load(bed, s, SPC__COUNT);
    if (status == SPC_OK)
        status = spc__bed_fill_out(bed, NAN_BYTE);
    if (status == SPC_OK)
        status = spc__bed_execute(bed, g->tested->plan, s, SPC__COUNT,
                                  spc__gate_packed(g, SPC__COUNT), NULL);
    if (status == SPC_OK)
        status =
            spc__digester_add(bed->digester, bed->out.data, bed->out.bytes);
    return status == SPC_OK ? spc__gate_add_zones(g, &bed->out) : status;
}

/* What is not as it must be, is run once more, to see what is wrong with it;
 * or it may be, where an epilogue rounds. */
static void look_closer(const spc__gate *g, int s)
{
    spc__gate_setting at = {s, SPC__COUNT, NAN_BYTE, SPC__COUNT, NAN_BYTE};

    if (spc__bed_set(g->bed, g->tested->plan, s) != SPC_OK)
        spc__gate_failed(g, SPC__TRIAL_LAUNCH);
    else
        spc__gate_test_launch(g, &at);
}

void spc__gate_test_sizes(const spc__gate *g)
{
    const spc__sample *sample = g->bed->sample;
    int first = sample->given + SPC__AWKWARD;
    int count = sample->scene_count - first;
    uint64_t digests[3 * SPC__SIZES];
    spc_status status = spc__digester_begin(g->bed->digester);

    for (int i = 0; i < count && status == SPC_OK; i++)
        status = enqueue_size(g, first + i);
    if (status == SPC_OK)
        status = spc__digester_end(g->bed->digester, digests);
    if (status != SPC_OK) {
        spc__gate_failed(g, SPC__TRIAL_FAULT);
        return;
    }
    for (int i = 0; i < count; i++) {
        int s = first + i;
        g->tested->first[s][SPC__COUNT] = digests[3 * i];
        if (g->out->status == SPC__TRIAL_OK &&
            digests[3 * i] != sample->scenes[s].digest[SPC__COUNT])
            look_closer(g, s);
        if (g->out->status == SPC__TRIAL_OK)
            spc__gate_zones_hold(g, "out", &g->bed->out, &digests[3 * i + 1]);
    }
}

/* ---- inputs that are no number ------------------------------------------- */

/* Whole numbers are all numbers, and a gradient of weights sees every row. */
static bool has_no_numbers(const spc_conv *conv)
{
    return !spc__conv_in_is_whole(conv) && !spc__conv_out_is_whole(conv) &&
           conv->pass != SPC_WGRAD;
}

/* The marked rows on the device: all ones. */
static spc_status mark_rows(const spc__gate *g, int s)
{
    const spc__bed *bed = g->bed;
    const spc__sample_scene *scene = &bed->sample->scenes[s];
    spc__operand in =
        spc__operand_of(&bed->sample->conv, SPC_IN, scene->rows_in);
    size_t element = spc__dtype_of(in.dtype)->bytes;
    spc_status status = SPC_OK;

    for (int64_t row = 0; row < in.rows && status == SPC_OK; row++)
        if (spc__sample_marks(row, in.rows))
            status = bed->ops->fill(bed->ctx->device,
                                    bed->in[s][0].data +
                                        (size_t)(row * in.pitch) * element,
                                    NAN_BYTE, (size_t)in.columns * element,
                                    NULL, spc__error_of(bed->ctx));
    return status;
}

/* Is element `column` of a row that sees one no number, and that of another
 * what it must be? An activation may make a number of what is none. */
static bool is_right(const spc__gate *g, const spc__gate_setting *at,
                     int64_t row, int column)
{
    const spc__sample *sample = g->bed->sample;
    int64_t i = row * sample->conv.cout + column;

    if (!sample->scenes[at->s].sees[row])
        return spc__gate_is_right(g, at, i);
    return sample->conv.activation != SPC_ACT_NONE ||
           isnan(spc__result_value(g->bed->host, &sample->conv, i));
}

static void judge_rows(const spc__gate *g, const spc__gate_setting *at)
{
    const spc__sample_scene *scene = &g->bed->sample->scenes[at->s];
    const spc_conv *conv = &g->bed->sample->conv;

    for (int64_t row = 0; row < scene->rows_out; row++)
        for (int c = 0; c < conv->cout; c++) {
            if (is_right(g, at, row, c))
                continue;
            spc__gate_wrong(g,
                            "no number: scene '%.40s', row %lld, channel %d is "
                            "%.9g, where it sees %s input that is no number",
                            spc__gate_scene(g, at->s), (long long)row, c,
                            (double)spc__result_value(g->bed->host, conv,
                                                      row * conv->cout + c),
                            scene->sees[row] ? "an" : "no");
            return;
        }
}

void spc__gate_test_no_numbers(const spc__gate *g, int s)
{
    spc__gate_setting at = {s, SPC__COUNT, NUMBER_BYTE, SPC__COUNT, NAN_BYTE};
    uint64_t digests[SPC__RUN_DIGESTS];

    if (!has_no_numbers(&g->bed->sample->conv))
        return;
    if (spc__bed_load(g->bed, s, SPC__COUNT) != SPC_OK ||
        mark_rows(g, s) != SPC_OK)
        spc__gate_failed(g, SPC__TRIAL_FAULT);
    else if (!spc__gate_run(g, &at, digests))
        return;
    else if (spc__bed_fetch(g->bed) != SPC_OK)
        spc__gate_failed(g, SPC__TRIAL_FAULT);
    else
        judge_rows(g, &at);
    if (spc__bed_reload(g->bed, s, SPC__COUNT) != SPC_OK &&
        g->out->status == SPC__TRIAL_OK)
        spc__gate_failed(g, SPC__TRIAL_FAULT);
}
