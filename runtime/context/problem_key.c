/* SPDX-License-Identifier: Apache-2.0 */
/*
 * problem_key.c - the key of a layer's records in the database.
 */
#include "context/problem_key.h"

#include "base/text/names.h"
#include "context/ctx.h"
#include "operators/conv.h"
#include "operators/epilogue.h"
#include <math.h>
#include <stdio.h>

/*
 * The weights by which problems are compared, in octaves. They reflect how much
 * each feature changes the best configuration. Channels set the shape of the
 * tiles, rows only their number, and density the useful part of a tile's work.
 * The ratio of rows in to rows out shows how often inputs are read again. It
 * replaces the rows in, so that a layer with equal rows on both sides does not
 * count them twice. Buckets are half octaves. A choice of the same bucket costs
 * 2 % in the median, one an octave away 3 %. Farther ones cost up to 80 %
 * (docs/dev/experiments.md, tuning).
 */
static const double rows_weight = 1, ratio_weight = 0.5, density_weight = 0.5,
                    channels_weight = 2, half_octave = 0.5;

/* Writes the family of layers that may replace each other: they differ only in
 * channels, epilogue and gaps between rows. Layers with groups have separate
 * kernels and form a family with groups of equal size. */
static void set_family(spc__attrs *out, const spc__attrs *layer,
                       const spc_conv *conv)
{
    static const char *const channels[] = {"cin", "cout", "groups", NULL};

    out->count = 0;
    for (int i = 0; i < layer->count; i++)
        if (spc__name_index(channels, layer->at[i].name) < 0 &&
            !spc__epilogue_may_differ(layer->at[i].name))
            out->at[out->count++] = layer->at[i];
    if (conv->groups == 1)
        return;
    spc__attrs_set_number(out, "group_in", spc__conv_group_in(conv));
    spc__attrs_set_number(out, "group_out", spc__conv_group_out(conv));
}

static double octaves(int64_t count)
{
    return count > 0 ? log2((double)count) : 0;
}

/* The features of a scene, in octaves. */
typedef struct scene_values {
    double rows, ratio, density;
} scene_values;

/* The numbers by which scenes are compared. */
static scene_values values_of(int64_t rows_in, int64_t rows_out, double density)
{
    double rows = octaves(rows_out);

    return (scene_values){rows, octaves(rows_in) - rows,
                          /* A density of 0 is infinitely far from any other. */
                          density > 0 ? log2(density) : -INFINITY};
}

spc__scene_buckets spc__scene_buckets_of(int64_t rows_in, int64_t rows_out,
                                         double density)
{
    scene_values values = values_of(rows_in, rows_out, density);

    return (spc__scene_buckets){
        spc__feature_bucket(values.rows, half_octave),
        spc__feature_bucket(values.ratio, half_octave),
        spc__feature_bucket(values.density, half_octave)};
}

/* The order of the features is part of the database's keys. */
void spc__problem_key_init(spc__problem_key *out, const spc_ctx *ctx,
                           const spc_conv *conv, int64_t rows_in,
                           int64_t rows_out, double density)
{
    scene_values scene = values_of(rows_in, rows_out, density);

    spc__conv_layer(&out->layer, conv);
    set_family(&out->family, &out->layer, conv);
    out->feature_count = 0;
    spc__feature_add(out, "rows", scene.rows, rows_weight, half_octave);
    spc__feature_add(out, "ratio", scene.ratio, ratio_weight, half_octave);
    spc__feature_add(out, "density", scene.density, density_weight, half_octave);
    /* Width 0: channels have no bucket, as the layer itself is part of the
     * key. */
    spc__feature_add(out, "cin", octaves(conv->cin), channels_weight, 0);
    spc__feature_add(out, "cout", octaves(conv->cout), channels_weight, 0);
    snprintf(out->device, sizeof(out->device), "%s", ctx->info.name);
    snprintf(out->target, sizeof(out->target), "%s", ctx->info.target);
}

void spc__problem_key_scene(double *rows_in, double *rows_out, double *density,
                            const spc__problem_key *key)
{
    double rows = spc__feature_value(key, "rows");

    *rows_out = round(exp2(rows));
    *rows_in = round(exp2(rows + spc__feature_value(key, "ratio")));
    *density = exp2(spc__feature_value(key, "density"));
}
