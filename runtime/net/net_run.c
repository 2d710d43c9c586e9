/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_run.c - runs a planned network, and answers queries about its parts.
 *
 * A run performs the same steps for every scene; only the numbers on the device
 * differ. So it can be captured once and replayed.
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "base/plural.h"
#include "base/sized.h"
#include "context/ctx.h"
#include "coords/map.h"
#include "coords/points/points.h"
#include "operators/feature.h"
#include "plan/plan.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- addresses ----------------------------------------------------------- */

void *spc__net_data(const spc_net_plan *plan, const spc_net_buffers *buffers,
                    int tensor)
{
    const spc__net_position *position;

    if (tensor == SPC_NO_TENSOR)
        return NULL;
    if (plan->net->tensors[tensor].node < 0) /* the caller's input, which is
                                              * only read */
        return (void *)(uintptr_t)(plan->voxels != NULL
                                       ? spc_voxels_features(plan->voxels)
                                       : buffers->features);
    position = &plan->positions[tensor];
    /* A tensor may be a part of a wider row, as in a concatenation, so it
     * begins at a channel. */
    return (char *)buffers->memory + plan->pieces[position->piece].offset +
           (size_t)position->channel *
               spc__net_element(&plan->net->tensors[tensor]);
}

/* The elements from row to row, or 0 for rows without gaps. */
static int64_t pitch_of(const spc_net_plan *plan, int tensor)
{
    if (tensor == SPC_NO_TENSOR || plan->positions[tensor].piece < 0)
        return 0;
    /* A dense tensor has no rows with gaps between them. */
    return plan->net->tensors[tensor].dense ? 0 : plan->positions[tensor].pitch;
}

static void *workspace(const spc__net_work *work, const spc_net_buffers *b)
{
    return work->bytes > 0 ? (char *)b->memory + work->workspace : NULL;
}

/* ---- works --------------------------------------------------------------- */

static spc_status run_voxels(const spc_net_plan *plan,
                             const spc__net_work *work,
                             const spc_net_buffers *b, void *stream)
{
    (void)work;
    return spc_voxels_update(plan->voxels, b->points, b->count, b->rows,
                             stream);
}

/* If points are turned into voxels, the rows are the voxels, and only the
 * device knows their number. */
spc_net_buffers spc__net_rows(const spc_net_plan *plan,
                              const spc_net_buffers *b)
{
    if (plan->voxels == NULL)
        return *b;
    return (spc_net_buffers){
        .bytes = sizeof(spc_net_buffers),
        .coords = spc_voxels_coords(plan->voxels),
        .count = spc_voxels_device_count(plan->voxels),
    };
}

/* The mask is in the work's workspace, which no other work uses. */
static spc_status run_masked(const spc_net_plan *plan,
                             const spc__net_work *work,
                             const spc_net_buffers *b, void *stream)
{
    const void *numbers = spc__net_data(plan, b, work->in);
    uint8_t *mask = workspace(work, b);
    spc_status status =
        spc_coords_mask_above(mask, plan->sets[work->set], &numbers,
                              plan->net->tensors[work->in].dtype,
                              plan->net->sets[work->set].above, stream);

    return status == SPC_OK ? spc_coords_update_regrouped(plan->sets[work->set],
                                                          mask, stream)
                            : status;
}

/* Fills a set in a run. */
static spc_status fill_set(const spc_net_plan *plan, const spc__net_work *work,
                           const spc_net_buffers *b, void *stream)
{
    if (work->in != SPC_NO_TENSOR)
        return run_masked(plan, work, b, stream);
    if (plan->net->sets[work->set].cloud)
        return spc__net_fill_cloud(plan, work->set, b, stream);
    /* Only the input's set is filled from rows. Every other set is derived, and
     * its coordinates are NULL. */
    spc_net_buffers rows = spc__net_rows(plan, b);
    return work->set == 0 ? spc_coords_update(plan->sets[0], rows.coords,
                                              rows.count, rows.rows, stream)
                          : spc_coords_update(plan->sets[work->set], NULL, NULL,
                                              0, stream);
}

/* Fills a set and the layouts of its rows. */
static spc_status run_set(const spc_net_plan *plan, const spc__net_work *work,
                          const spc_net_buffers *b, void *stream)
{
    spc_status status = fill_set(plan, work, b, stream);

    /* Linear layers read this set in a layout of its rows, which depends on the
     * number of rows just found. */
    return status == SPC_OK ? spc__net_lay_rows(plan, work->set, stream)
                            : status;
}

/* Fills a map in a run, and the set of the input with it if the map does so. */
static spc_status run_map(const spc_net_plan *plan, const spc__net_work *work,
                          const spc_net_buffers *b, void *stream)
{
    spc_net_buffers rows = spc__net_rows(plan, b);
    spc_status status;

    if (!work->fills)
        return spc_map_update(plan->maps[work->map], NULL, NULL, 0, stream);
    status = spc_map_update(plan->maps[work->map], rows.coords, rows.count,
                            rows.rows, stream);
    return status == SPC_OK ? spc__net_lay_rows(plan, work->set, stream)
                            : status;
}

/* Scale of an I8 tensor, else NULL. */
static const float *scale_of(const spc_net_plan *plan, int tensor)
{
    return tensor != SPC_NO_TENSOR && plan->net->tensors[tensor].dtype == SPC_I8
               ? plan->scales + tensor
               : NULL;
}

/* Runs a convolution. */
static spc_status run_conv(const spc_net_plan *plan, const spc__net_work *work,
                           const spc_net_buffers *b, void *stream)
{
    spc_buffers buffers = {
        .bytes = sizeof(spc_buffers),
        .in = spc__net_data(plan, b, work->in),
        .out = spc__net_data(plan, b, work->out),
        .weights = work->packed,
        .bias = work->bias,
        .workspace = workspace(work, b),
        .scale = work->scale,
        .residual = spc__net_data(plan, b, work->add),
        .in_scale = scale_of(plan, work->in),
        .out_scale = scale_of(plan, work->out),
        .residual_scale = scale_of(plan, work->add),
    };

    /* A linear layer reads a layout of rows, which was bound when the network
     * was planned. */
    if (work->map < 0)
        return spc__plan_execute_bound(work->conv_plan, work->rows, &buffers,
                                       stream);
    return spc_plan_execute(work->conv_plan, plan->maps[work->map], &buffers,
                            stream);
}

/* Runs an operator on features. Its output may be a part of wider rows. */
static spc_status run_feature(const spc_net_plan *plan,
                              const spc__net_work *work,
                              const spc_net_buffers *b, void *stream)
{
    bool mapped = spc__feature_takes_map(&work->feature);
    size_t element = spc__net_element(&plan->net->tensors[work->out]);
    spc_feature_buffers buffers = {
        .bytes = sizeof(spc_feature_buffers),
        .in = spc__net_data(plan, b, work->in),
        .in_pitch = pitch_of(plan, work->in),
        .add = spc__net_data(plan, b, work->add),
        .add_pitch = pitch_of(plan, work->add),
        .out = (char *)spc__net_data(plan, b, work->out) +
               (size_t)work->channel * element,
        .out_pitch = pitch_of(plan, work->out),
        .index = spc__net_data(plan, b, work->index),
        .scale = work->scale,
        .shift = work->bias,
        .workspace = workspace(work, b),
    };

    return spc_feature_plan_execute(
        work->feature_plan, mapped ? NULL : plan->sets[work->set],
        mapped ? plan->maps[work->map] : NULL, &buffers, stream);
}

/* Runs the gather of a regrouped set's features. */
static spc_status run_gather(const spc_net_plan *plan,
                             const spc__net_work *work,
                             const spc_net_buffers *b, void *stream)
{
    const spc__net_node *node = &plan->net->nodes[work->node];
    const spc__net_tensor *out = &plan->net->tensors[work->out];
    spc_gather how = {out->dtype, out->channels, node->slices};
    const void *in[SPC__NET_SOURCES] = {NULL};

    for (int i = 0; i < node->ins; i++)
        in[i] = spc__net_data(plan, b, node->in[i]);
    return spc_coords_gather_features(spc__net_data(plan, b, work->out),
                                      plan->sets[work->set], in, &how, stream);
}

typedef spc_status (*runner)(const spc_net_plan *plan,
                             const spc__net_work *work,
                             const spc_net_buffers *b, void *stream);

/* Indexed by spc_net_step_kind. */
static const runner runners[] = {run_voxels, run_set,     run_map,
                                 run_conv,   run_feature, run_gather};

/* Examples: "layer 'conv1'", "set 2", "map 3". */
static void name_work(char *out, size_t bytes, const spc_net_plan *plan,
                      const spc__net_work *work)
{
    if (work->node >= 0)
        snprintf(out, bytes, "layer '%.80s'",
                 plan->net->nodes[work->node].name);
    else if (work->kind == SPC_NET_VOXELS)
        snprintf(out, bytes, "the points");
    else if (work->kind == SPC_NET_MAP)
        snprintf(out, bytes, "map %d", work->map);
    else
        snprintf(out, bytes, "set %d", work->set);
}

spc_status spc__net_work_run(spc_net_plan *plan, int i,
                             const spc_net_buffers *buffers, void *stream)
{
    const spc__net_work *work = &plan->works[i];
    spc_status status = runners[work->kind](plan, work, buffers, stream);
    char name[104];

    if (status == SPC_OK)
        return status;
    name_work(name, sizeof(name), plan, work);
    return spc__fail_prefix(spc__error_of(plan->ctx), "%s: ", name);
}

/* ---- a whole run --------------------------------------------------------- */

/* Name of a buffer that is NULL although it must be read; NULL if all are
 * set. */
static const char *missing_buffer(const spc_net_plan *plan,
                                  const spc_net_buffers *b)
{
    if (b->rows <= 0 && b->count == NULL)
        return NULL;
    if (plan->voxels != NULL)
        return b->points == NULL ? "points" : NULL;
    if (b->coords == NULL && !(plan->net->sets[0].cloud && b->points != NULL))
        return plan->net->sets[0].cloud ? "points" : "coords";
    return b->features == NULL ? "features" : NULL;
}

/* Checks a count on the host before anything runs. */
static spc_status check_rows(const spc_net_plan *plan, const spc_net_buffers *b,
                             spc_error *error)
{
    bool of_points = plan->voxels != NULL;
    int64_t most = of_points ? plan->options.points : plan->options.capacity;

    if (b->count != NULL || (b->rows >= 0 && b->rows <= most))
        return SPC_OK;
    if (b->rows < 0)
        return spc__fail(error, SPC_EINVAL, "buffers of %lld rows",
                         (long long)b->rows);
    return spc__fail(
        error, SPC_ECAPACITY,
        "the input: %lld %s for a plan of %lld: `%s` of %lld would "
        "have fitted",
        (long long)b->rows, of_points ? "points" : "rows", (long long)most,
        of_points ? "points" : "capacity", (long long)b->rows);
}

spc_status spc__net_check_buffers(const spc_net_plan *plan,
                                  const spc_net_buffers *b, spc_error *error)
{
    const char *missing = missing_buffer(plan, b);

    if (missing != NULL)
        return spc__fail(error, SPC_EINVAL, "buffer `%s` is NULL", missing);
    if (plan->memory_bytes > 0 && b->memory == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "buffer `memory` is NULL: %zu bytes are needed",
                         plan->memory_bytes);
    if ((uintptr_t)b->memory % 256 != 0)
        return spc__fail(error, SPC_EINVAL,
                         "buffer `memory` is at %p: it must be 256-byte "
                         "aligned",
                         b->memory);
    return check_rows(plan, b, error);
}

/* In a graph, sets and maps run side by side. */
static spc_status run_all(spc_net_plan *plan, const spc_net_buffers *buffers,
                          bool in_graph, void *stream)
{
    spc_status status =
        spc__net_check_buffers(plan, buffers, spc__error_of(plan->ctx));

    if (status != SPC_OK)
        return status;
    /* Counts that a check read belong to the run before. */
    plan->checked = false;
    if (in_graph) {
        status = spc__net_run_branches(plan, buffers, stream);
        return status == SPC_OK ? spc__net_run_layers(plan, buffers, stream)
                                : status;
    }
    for (int i = 0; i < plan->work_count && status == SPC_OK; i++)
        status = spc__net_work_run(plan, i, buffers, stream);
    return status;
}

spc_status spc_net_plan_execute(spc_net_plan *plan,
                                const spc_net_buffers *buffers, void *stream)
{
    spc_status status =
        spc__need(plan != NULL ? spc__error_of(plan->ctx) : NULL, __func__,
                  "plan", plan, "buffers", buffers, NULL);

    if (status == SPC_OK)
        status = SPC__TAKE(spc_net_buffers, buffers, spc__error_of(plan->ctx));
    if (status == SPC_OK)
        status = run_all(plan, buffers, false, stream);
    if (status == SPC_OK)
        plan->ran = true;
    return status;
}

/* "set 2, of layer 'conv2'": the first layer with that set. */
static void name_set(char out[120], const spc_net_plan *plan, int set)
{
    snprintf(out, 120, set == 0 ? "the input" : "set %d", set);
    for (int i = 0; i < plan->net->node_count && set > 0; i++) {
        const spc__net_node *node = &plan->net->nodes[i];
        if (plan->net->tensors[node->out].set != set)
            continue;
        snprintf(out, 120, "set %d, of layer '%s'", set, node->name);
        break;
    }
}

/* The multiple of the plan's capacity that an inner set holds; 0 if its
 * capacity does not come from such a multiple. */
static double growth_of(const spc_net_plan *plan, int set, const char **word,
                        double *scale)
{
    const spc__net_set *s = &plan->net->sets[set];
    bool regrouped = s->kind == SPC__NET_REGROUPED;

    *word = regrouped ? "room" : "growth";
    *scale = 1;
    if (set == 0 || s->cloud || plan->sets[set]->asked < 0)
        return 0;
    if (regrouped || plan->options.growth == 0)
        return regrouped ? s->room : 0;
    return spc__net_set_times(scale, s, plan->options.growth);
}

/* The smallest integer n with n * times >= rows. */
static double least(double rows, double times)
{
    double least = ceil(rows / times);

    return floor(least * times) < rows ? least + 1 : least;
}

/* The smallest factor, in hundredths, for which `count` gives `rows`, rounded
 * as the plan does it. */
static double least_times(double rows, double count)
{
    double hundredths = ceil(100 * rows / count);

    while (floor(hundredths / 100 * count) < rows)
        hundredths++;
    return hundredths / 100;
}

/* A caller cannot set the capacity of an inner set, so the message names the
 * plan's capacity and the factor, which can be changed. */
static spc_status fail_capacity(const spc_net_plan *plan, const char *where,
                                const spc_coords *set, double times,
                                const char *word, double scale)
{
    double now = (double)plan->options.capacity, asked = set->asked;
    char more[64] = "";

    if (scale > 1)
        snprintf(more, sizeof(more), " times %g of its axes of stride 1",
                 scale);
    return spc__fail(spc__error_of(plan->ctx), SPC_ECAPACITY,
                     "%s of network '%s': %s for a set of %d, which is %s %g "
                     "times the plan's capacity of %.0f%s: none were stored; "
                     "%s %.12g or a capacity of %.0f would have fitted",
                     where, plan->net->name, spc__count(set->asked, "row"),
                     set->capacity, word, times, now, more, word,
                     least_times(asked, now * scale),
                     least(asked, times * scale));
}

/* Names the set that failed and, if it was full, the option that gives it
 * room. */
static spc_status fail_set(spc_net_plan *plan, int set)
{
    spc_error *error = spc__error_of(plan->ctx);
    const char *word;
    char where[120];
    double scale, times = growth_of(plan, set, &word, &scale);

    name_set(where, plan, set);
    if (error->status == SPC_ECAPACITY && times > 0)
        return fail_capacity(plan, where, plan->sets[set], times, word, scale);
    return spc__fail_prefix(error, "%s: ", where);
}

/* Points that were left out already explain SPC_ERANGE. */
static spc_status check_voxels(spc_net_plan *plan, void *stream)
{
    spc_status status =
        plan->voxels != NULL
            ? spc_voxels_check(&plan->points, plan->voxels, stream)
            : SPC_OK;

    return status == SPC_OK
               ? status
               : spc__fail_prefix(spc__error_of(plan->ctx), "the points: ");
}

/* The sets and maps of a network that one step reads, except those of
 * points. */
typedef struct read_list {
    spc_coords **sets;
    spc_map **maps;
    int64_t *pairs; /* number of pairs of each map */
    int set_count, map_count;
} read_list;

static spc_status read_all(spc_net_plan *plan, read_list *list, void *stream,
                           spc_error *error)
{
    for (int i = 0; i < plan->net->set_count; i++)
        if (plan->sets[i] != NULL && !plan->net->sets[i].cloud)
            list->sets[list->set_count++] = plan->sets[i];
    for (int i = 0; i < plan->net->map_count; i++)
        if (plan->maps[i] != NULL && !spc__map_is_of_points(plan->maps[i]))
            list->maps[list->map_count++] = plan->maps[i];
    spc_status status =
        spc__inspect(list->sets, list->set_count, list->maps, list->pairs,
                     list->map_count, &plan->counters, stream, error);
    for (int i = 0; i < list->map_count && status == SPC_OK; i++)
        list->maps[i]->in_flight = false;
    return status;
}

static spc_status check_set(spc_net_plan *plan, int i, void *stream)
{
    spc_error error = {0};

    if (plan->net->sets[i].cloud)
        return spc_points_check(spc__points_of(plan->sets[i]), stream);
    return spc__coords_verdict(plan->sets[i], NULL, &error) == SPC_OK
               ? SPC_OK
               : spc__ctx_fail(plan->ctx, &error);
}

/* Checks sets before maps, since a set's error often causes that of its map. */
static spc_status check_read(spc_net_plan *plan, const read_list *list,
                             void *stream)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < plan->net->set_count; i++)
        if (plan->sets[i] != NULL && check_set(plan, i, stream) != SPC_OK)
            return fail_set(plan, i);
    for (int i = 0; i < list->map_count; i++)
        list->maps[i]->pairs = list->pairs[i];
    for (int i = 0; i < plan->net->map_count && status == SPC_OK; i++)
        if (plan->maps[i] != NULL && spc__map_is_of_points(plan->maps[i]))
            status = spc_map_check(plan->maps[i], stream);
    return status;
}

static spc_status check_indexing(spc_net_plan *plan, void *stream)
{
    size_t sets = (size_t)plan->net->set_count,
           maps = (size_t)plan->net->map_count,
           bytes = sets * sizeof(spc_coords *) +
                   maps * (sizeof(spc_map *) + sizeof(int64_t));
    char *memory = spc__scratch_take(&plan->lists, bytes + 1);
    spc_error error = {0};
    spc_status status;

    if (memory == NULL) {
        spc__fail_memory(&error, bytes);
        return spc__ctx_fail(plan->ctx, &error);
    }
    read_list list = {.pairs = (int64_t *)memory,
                      .sets = (spc_coords **)(memory + maps * sizeof(int64_t))};
    list.maps = (spc_map **)(list.sets + sets);
    if ((status = read_all(plan, &list, stream, &error)) != SPC_OK)
        spc__ctx_fail(plan->ctx, &error);
    else
        status = check_read(plan, &list, stream);
    return status;
}

spc_status spc_net_plan_check(spc_net_plan *plan, void *stream)
{
    spc_status points,
        status = spc__need(plan != NULL ? spc__error_of(plan->ctx) : NULL,
                           __func__, "plan", plan, NULL);

    if (status != SPC_OK)
        return status;
    if (!plan->ran)
        return spc__fail(
            spc__error_of(plan->ctx), SPC_ESTATE,
            "the network was never run: call spc_net_plan_execute or "
            "spc_net_plan_replay first");
    /* Points that were left out are an error, but everything else of the run is
     * valid. The check therefore continues and reports them last. */
    points = check_voxels(plan, stream);
    if (points != SPC_OK && points != SPC_ERANGE)
        return points;
    status = check_indexing(plan, stream);
    plan->checked = status == SPC_OK;
    return status == SPC_OK ? points : status;
}

/* ---- capturing ----------------------------------------------------------- */

static spc_status enqueue(void *payload, void *stream)
{
    spc_net_plan *plan = payload;

    return run_all(plan, &plan->captured, true, stream);
}

spc_status spc_net_plan_capture(spc_net_plan *plan,
                                const spc_net_buffers *buffers)
{
    spc_status status =
        spc__need(plan != NULL ? spc__error_of(plan->ctx) : NULL, __func__,
                  "plan", plan, "buffers", buffers, NULL);

    if (status == SPC_OK)
        status = SPC__TAKE(spc_net_buffers, buffers, spc__error_of(plan->ctx));
    if (status == SPC_OK)
        status =
            spc__net_check_buffers(plan, buffers, spc__error_of(plan->ctx));
    if (status != SPC_OK)
        return status;
    const spc__device_ops *ops = spc__device_ops_of(plan->ctx->device);
    ops->graph_free(plan->ctx->device, plan->graph);
    plan->graph = NULL;
    /* A copy: a device without graphs enqueues the works again in each
     * replay. */
    plan->captured = *buffers;
    return ops->graph_create(plan->ctx->device, &plan->graph, enqueue, plan,
                             spc__error_of(plan->ctx));
}

spc_status spc_net_plan_replay(spc_net_plan *plan, void *stream)
{
    spc_status status =
        spc__need(plan != NULL ? spc__error_of(plan->ctx) : NULL, __func__,
                  "plan", plan, NULL);

    if (status != SPC_OK)
        return status;
    if (plan->graph == NULL)
        return spc__fail(
            spc__error_of(plan->ctx), SPC_ESTATE,
            "nothing was captured: spc_net_plan_capture comes first");
    plan->checked = false;
    status = spc__device_ops_of(plan->ctx->device)
                 ->graph_launch(plan->ctx->device, plan->graph, stream,
                                spc__error_of(plan->ctx));
    if (status == SPC_OK)
        plan->ran = true;
    return status;
}

/* ---- queries ------------------------------------------------------------- */

size_t spc_net_plan_memory_bytes(const spc_net_plan *plan)
{
    return plan != NULL ? plan->memory_bytes : 0;
}

size_t spc_net_plan_weights_bytes(const spc_net_plan *plan)
{
    return plan != NULL ? plan->weights_bytes : 0;
}

/* Shape of a dense plane: channels and the two axes of the plane. */
static void describe_plane(int64_t out[3], const spc__net_node *node)
{
    const spc_feature *f = &node->feature;

    if (node->kind != SPC__NODE_FEATURE || !spc__feature_has_planes(f))
        return;
    const int *axes = spc__bev_axes[f->order];
    out[0] = (int64_t)f->channels * f->shape[axes[0]];
    out[1] = f->shape[axes[1]];
    out[2] = f->shape[axes[2]];
}

spc_status spc_net_plan_output_at(spc_net_output *out, const spc_net_plan *plan,
                                  int i)
{
    if (out == NULL || plan == NULL)
        return SPC_EINVAL;
    if (i < 0 || i >= plan->net->out_count)
        return spc__fail(spc__error_of(plan->ctx), SPC_EINVAL,
                         "there is no output %d: the network has %d", i,
                         plan->net->out_count);
    const spc__net_out *output = &plan->net->outs[i];
    const spc__net_tensor *t = &plan->net->tensors[output->tensor];
    const spc_coords *set = plan->sets[t->set];

    *out = (spc_net_output){
        .name = output->name,
        .offset = plan->pieces[plan->positions[output->tensor].piece].offset,
        .dtype = t->dtype,
        .dense = t->dense,
        .elements = t->elements,
        .batches = t->dense ? spc_coords_batches(set) : 0,
        .set = set,
        .cloud = plan->net->sets[t->set].cloud
                     ? spc__points_of(plan->sets[t->set])
                     : NULL,
    };
    describe_plane(out->plane, &plan->net->nodes[t->node]);
    return SPC_OK;
}

int spc_net_plan_step_count(const spc_net_plan *plan)
{
    return plan != NULL ? plan->work_count : 0;
}

/* Describes a layer of the last run: sizes, and the bytes that it wrote. */
static void describe_layer(spc_net_step *out, const spc_net_plan *plan,
                           const spc__net_work *work)
{
    const spc__net_tensor *t = &plan->net->tensors[work->out];
    int from = plan->net->tensors[work->in].set;

    out->name = plan->net->nodes[work->node].name;
    out->set_in = from;
    if (work->kind == SPC_NET_CONV && work->map < 0) {
        /* a linear layer has one pair for each row */
        out->pairs = spc_coords_rows(plan->sets[from]);
        out->density = 1;
    }
    out->rows_in = spc_coords_rows(plan->sets[from]);
    out->rows_out = t->dense ? spc_coords_batches(plan->sets[work->set])
                             : spc_coords_rows(plan->sets[work->set]);
    out->bytes =
        (size_t)out->rows_out * (size_t)t->elements * spc__net_element(t);
    if (work->kind != SPC_NET_CONV)
        return;
    /* Merged layers write the channels of all of them. */
    out->bytes = out->bytes / (size_t)t->elements * (size_t)work->conv.cout;
    out->match = spc_plan_match(work->conv_plan);
}

/* Describes a map after a run. */
static void describe_map(spc_net_step *out, const spc_map *map)
{
    out->rows_in = spc_map_rows_in(map);
    out->rows_out = spc_map_rows_out(map);
    out->pairs = spc_map_pairs(map);
    out->density = spc_map_density(map);
}

/* Removes the comma before the geometry, which follows other words in the text
 * of a layer. */
static void write_geometry(char *out, size_t bytes, const spc_geometry *g)
{
    char text[256];

    spc__geometry_format(text, sizeof(text), g);
    snprintf(out, bytes, "%s", text + (text[0] == ','));
}

/* The layer as text, or the geometry of a map as text of a layer. */
static void write_text(char *out, size_t bytes, const spc_net_plan *plan,
                       const spc__net_work *work)
{
    out[0] = '\0';
    if (work->kind == SPC_NET_CONV)
        spc_conv_format(out, bytes, &work->conv);
    else if (work->kind == SPC_NET_FEATURE)
        spc_feature_format(out, bytes, &work->feature);
    else if (work->kind == SPC_NET_MAP)
        write_geometry(out, bytes, &plan->net->maps[work->map].geometry);
}

spc_status spc_net_plan_step_at(spc_net_step *out, const spc_net_plan *plan,
                                int i)
{
    const spc__net_work *work;

    if (out == NULL || plan == NULL)
        return SPC_EINVAL;
    if (i < 0 || i >= plan->work_count)
        return spc__fail(spc__error_of(plan->ctx), SPC_EINVAL,
                         "there is no step %d: a run has %d", i,
                         plan->work_count);
    work = &plan->works[i];
    memset(out, 0, sizeof(*out));
    out->kind = work->kind;
    out->kernel = work->kernel;
    out->set = work->set;
    out->map = work->map;
    if (work->map >= 0)
        describe_map(out, plan->maps[work->map]);
    if (work->node >= 0) {
        describe_layer(out, plan, work);
    } else {
        out->name = work->kind == SPC_NET_MAP   ? "map"
                    : work->kind == SPC_NET_SET ? "set"
                                                : "voxels";
        out->rows_out = spc_coords_rows(plan->sets[work->set]);
        if (work->kind == SPC_NET_VOXELS)
            out->rows_in = plan->points.points;
    }
    write_text(out->text, sizeof(out->text), plan, work);
    return SPC_OK;
}
