/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - reads and plans networks for commands, and provides their inputs.
 */
#include "command/network/network.h"

#include "command/cli/idle.h"

#include "base/dtype.h"
#include "base/plural.h"
#include "command/cli/npy.h"
#include "command/database.h"
#include "command/layers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the network --------------------------------------------------------- */

spc_status network_dtype(spc_dtype *out, const char *name)
{
    static const struct {
        const char *name;
        spc_dtype dtype;
    } known[] = {{"f16", SPC_F16}, {"bf16", SPC_BF16}, {"f32", SPC_F32}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name != NULL ? name : "f16") == 0) {
            *out = known[i].dtype;
            return SPC_OK;
        }
    return cli_unknown("dtype", name, "f16|bf16|f32");
}

/* The type and the weights of a stored network are in the database. */
static spc_status open_stored(network *n)
{
    const network_args *args = n->args;
    spc_status status;

    if (args->dtype != NULL || args->weights.count > 0 || args->from != NULL ||
        args->axes != NULL || args->prefix != NULL || args->voxel != NULL ||
        args->range != NULL)
        return cli_fail(SPC_EINVAL,
                        "'%s' is a network of the database, which stores all "
                        "of it: drop the options for files",
                        args->file);
    status = spc_net_open(&n->net, n->ctx, args->file);
    if (status == SPC_ENOTFOUND)
        return cli_fail(status, "there is no file '%s', and %s", args->file,
                        spc_ctx_error(n->ctx));
    return status == SPC_OK ? status : cli_fail_ctx(status, n->ctx);
}

static spc_status read_file(network *n)
{
    spc_dtype dtype = SPC_F16;
    spc_status status = network_dtype(&dtype, n->args->dtype);

    return status == SPC_OK ? network_read(&n->net, n->self, n->args, dtype)
                            : status;
}

void network_say_notes(const cli *self, const char *file, const spc_net *net)
{
    for (int i = 0; spc_net_note_at(net, i) != NULL; i++)
        cli_say(self, "%s: %s", file, spc_net_note_at(net, i));
}

/* Reads the network, and draws the weights that no file has. */
static spc_status read_network(network *n)
{
    spc_error error = {0};
    spc_status status =
        network_is_stored(n->args) ? open_stored(n) : read_file(n);

    if (status != SPC_OK)
        return status;
    status = spc_net_init_params(n->net, n->args->seed, &error);
    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    spc_net_describe(&n->info, n->net);
    network_say_notes(n->self, n->args->file, n->net);
    return network_set_columns(n);
}

/* ---- scenes -------------------------------------------------------------- */

static spc_status load_scene_of(network *n, int i)
{
    spc_error error = {0};
    char *spec;
    spc_status status = network_file_spec(&spec, n, n->args->scenes.at[i]);

    if (status != SPC_OK)
        return status;
    status = spc_net_load_scene(&n->scenes[i], n->net, spec, &error);
    free(spec);
    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    scene_say_left_out(n->self, n->scenes[i]);
    return SPC_OK;
}

/* Loads all scenes, or the one of --coords. */
static spc_status load_scenes_of(network *n)
{
    int count = n->args->coords != NULL ? 1 : n->args->scenes.count;
    spc_status status = SPC_OK;

    if (n->args->coords != NULL && n->args->scenes.count > 0)
        return cli_fail(SPC_EINVAL,
                        "--coords are the scene: drop --scene, or them");
    if (count == 0)
        return cli_fail(SPC_EINVAL, "a scene is needed: --scene SPEC, such as "
                                    "scan.bin@0.05 or gen:lidar@0.1");
    n->scenes = calloc((size_t)count, sizeof(spc_scene *));
    if (n->scenes == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    n->scene_count = count;
    if (n->args->coords != NULL)
        return network_read_coords(n);
    for (int i = 0; i < count && status == SPC_OK; i++)
        status = load_scene_of(n, i);
    return status;
}

/* Returns the scene with the most voxels; plans are made for it. */
static const spc_scene *largest(const network *n)
{
    const spc_scene *most = n->scenes[0];

    for (int i = 1; i < n->scene_count; i++)
        if (spc_scene_rows(n->scenes[i]) > spc_scene_rows(most))
            most = n->scenes[i];
    return most;
}

spc_status network_need_voxels(const network *n)
{
    if (spc_scene_rows(largest(n)) > 0)
        return SPC_OK;
    return cli_fail(SPC_EINVAL,
                    "no scene has a voxel: there is nothing to measure");
}

/* Widens the plan's extent to hold the scene. */
static void widen(spc_net_options *o, const spc_scene *scene, bool first)
{
    const int32_t *coords = spc_scene_coords(scene);

    for (int64_t row = 0; row < spc_scene_rows(scene); row++)
        for (int a = 0; a < 4; a++) {
            int32_t at = coords[4 * row + a];
            bool begins = first && row == 0;
            o->low[a] = begins || at < o->low[a] ? at : o->low[a];
            o->high[a] = begins || at > o->high[a] ? at : o->high[a];
        }
}

/*
 * A single sweep has up to 1.7 times as many voxels on its second level. In a
 * small scattered scene each voxel may become 8, but then memory is cheap.
 */
static double growth_of(const network *n, int64_t capacity)
{
    enum { FEW = 4096 };

    if (n->args->growth > 0)
        return n->args->growth;
    return capacity <= FEW ? 0 : 2;
}

static int64_t capacity_of(const network *n)
{
    int64_t rows = spc_scene_rows(largest(n));

    if (n->args->capacity > 0)
        return n->args->capacity;
    /* a plan needs capacity for at least one voxel */
    return rows > 0 ? rows : 1;
}

spc_status network_fail(const network *n, spc_status status)
{
    const char *why = spc_ctx_error(n->ctx);

    if (status == SPC_ECAPACITY)
        return cli_fail(status,
                        "%s; --capacity N, now %lld, gives all levels more, "
                        "--growth X those of strided layers",
                        why, (long long)capacity_of(n));
    return cli_fail_ctx(status, n->ctx);
}

/* Plans for the extent of all scenes and the capacity of the largest, so that
 * one graph serves every scene. */
static spc_status make_plan(network *n, unsigned flags)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    const spc_scene *sample = largest(n);
    int64_t rows = spc_scene_rows(sample);

    for (int i = 0; i < n->scene_count; i++)
        widen(&o, n->scenes[i], i == 0);
    /* Batch elements count from 0, even if the scenes begin later. */
    o.low[0] = 0;
    o.capacity = capacity_of(n);
    o.growth = growth_of(n, o.capacity);
    o.keep = n->args->keep || n->calibrates;
    o.flags = flags;
    if (o.capacity < rows)
        return cli_fail(SPC_ECAPACITY, "--capacity %lld: a scene has %s",
                        (long long)o.capacity, spc__count(rows, "voxel"));
    if (n->clouds != NULL)
        o.points = network_point_rows(n);
    /* The device counts the sample's rows on each level. */
    o.sample_rows = n->args->absent ? 0 : rows;
    o.sample = o.sample_rows > 0 ? spc_scene_coords(sample) : NULL;
    spc_status status = spc_net_plan_create(&n->plan, n->ctx, n->net, &o);
    return status == SPC_OK ? status : network_fail(n, status);
}

/* ---- features ------------------------------------------------------------ */

/* Checks the shape, and that the numbers fit the input's type. */
static spc_status check_features(const network *n, const npy_table *t)
{
    int64_t rows = spc_scene_rows(n->scenes[0]);
    spc_error error = {0};
    char what[256];

    if (t->rows.count != rows || t->rows.columns != n->info.input->channels)
        return cli_fail(SPC_EINVAL,
                        "'%s' has the shape [%lld][%lld]: expected [%lld][%d]",
                        n->args->features, (long long)t->rows.count,
                        (long long)t->rows.columns, (long long)rows,
                        n->info.input->channels);
    snprintf(what, sizeof(what), "'%s'", n->args->features);
    spc_status status = spc__dtype_check(n->info.input->dtype, n->features,
                                         rows * t->rows.columns, what, &error);
    return status == SPC_OK ? status : cli_fail(status, "%s", error.text);
}

static spc_status read_features(network *n)
{
    npy_table t;
    spc_status status;

    if (n->args->features == NULL)
        return SPC_OK;
    if (n->scene_count != 1)
        return cli_fail(SPC_EINVAL, "--features are those of one scene");
    if ((status = npy_open(&t, n->args->features, "features")) == SPC_OK &&
        (status = npy_floats(&n->features, &t)) == SPC_OK)
        status = check_features(n, &t);
    npy_close(&t);
    return status;
}

/* Returns a uniform number in [-1, 1) from seed and index. */
static float drawn(uint64_t seed, uint64_t i)
{
    uint64_t bits = (seed * 0x9e3779b97f4a7c15u) ^ (i + 0x632be59bd9b4e019u);

    /* The finaliser of splitmix64. */
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    bits ^= bits >> 31;
    return (float)(bits >> 40) * 0x1p-23f - 1;
}

/* Uploads the features of scene i, from the file or drawn. Equal seeds give
 * equal features on every machine. */
static spc_status upload_features(network *n, int i)
{
    const spc__dtype *type = spc__dtype_of(n->info.input->dtype);
    size_t count =
        (size_t)spc_scene_rows(n->scenes[i]) * (size_t)n->info.input->channels;
    float *values = malloc((count + 1) * sizeof(*values));
    void *stored = malloc((count + 1) * type->bytes);
    spc_status status = SPC_OK;

    if (values == NULL || stored == NULL) {
        status = cli_fail(SPC_ENOMEM, "out of memory");
    } else {
        for (size_t j = 0; j < count; j++)
            values[j] =
                n->features != NULL ? n->features[j] : drawn(n->args->seed, j);
        type->encode(stored, values, count);
        status =
            spc_memory_upload(n->values, n->ctx, stored, count * type->bytes);
        if (status != SPC_OK)
            cli_fail_ctx(status, n->ctx);
    }
    free(values);
    free(stored);
    return status;
}

/* ---- the device ---------------------------------------------------------- */

/* Allocates one byte more, as an empty scene needs an address too. */
static spc_status take(void **out, network *n, size_t bytes)
{
    spc_status status = spc_memory_alloc(out, n->ctx, bytes + 1);

    return status == SPC_OK ? status : cli_fail_ctx(status, n->ctx);
}

/* Allocates the inputs for the plan's capacity, once for all scenes: a captured
 * graph keeps their addresses. */
static spc_status take_memory(network *n)
{
    size_t rows = (size_t)capacity_of(n);
    size_t element = spc__dtype_of(n->info.input->dtype)->bytes;
    void *count = NULL;
    spc_status status;

    if ((status = take(&n->coords, n, 16 * rows)) != SPC_OK ||
        (status = take(&n->values, n,
                       rows * (size_t)n->info.input->channels * element)) !=
            SPC_OK ||
        (status = take(&count, n, sizeof(int32_t))) != SPC_OK)
        return status;
    n->count = count;
    n->buffers = (spc_net_buffers)SPC_NET_BUFFERS_INIT;
    n->buffers.coords = n->coords;
    n->buffers.count = n->count;
    n->buffers.features = n->values;
    n->buffers.points = n->points_there;
    return take(&n->buffers.memory, n, spc_net_plan_memory_bytes(n->plan));
}

spc_status network_upload(network *n, int i)
{
    int32_t rows = (int32_t)spc_scene_rows(n->scenes[i]);
    spc_status status;

    if (n->clouds != NULL)
        return network_upload_points(n, i);
    if ((status = spc_memory_upload(n->coords, n->ctx,
                                    spc_scene_coords(n->scenes[i]),
                                    16 * (size_t)rows)) != SPC_OK ||
        (status = spc_memory_upload(n->count, n->ctx, &rows, sizeof(rows))) !=
            SPC_OK)
        return cli_fail_ctx(status, n->ctx);
    return upload_features(n, i);
}

/* ---- entry --------------------------------------------------------------- */

double network_clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* A stored network needs its database, so a database that does not open is an
 * error. */
static spc_status open_context(network *n)
{
    if (network_is_stored(n->args)) {
        if (!cli_has_database(n->self) &&
            n->self->globals.layer_files.count == 0)
            return cli_fail(SPC_ENOTFOUND,
                            "there is no file '%s', and no database that could "
                            "have a network of this name",
                            n->args->file);
        n->self->needs_database = true;
    }
    return cli_open(&n->ctx, n->self);
}

static spc_status read_scenes(network *n)
{
    spc_status status =
        n->args->points.count > 0 ? network_load_points(n) : load_scenes_of(n);

    return status == SPC_OK && n->args->points.count == 0 ? read_features(n)
                                                          : status;
}

static spc_status prepare(network *n)
{
    spc_status status = make_plan(n, SPC_PLAN_JIT);

    return status == SPC_OK ? take_memory(n) : status;
}

/* Runs one stage of opening, and notes its time for 'net first'. */
static spc_status run_stage(network *n, network_stage stage)
{
    static spc_status (*const stages[])(network * n) = {
        open_context, read_network, read_scenes, prepare};
    double start = network_clock_ms();
    spc_status status = stages[stage](n);

    n->stage_ms[stage] = network_clock_ms() - start;
    return status;
}

/*
 * Checks files before it opens a device, which takes longer. Stored networks
 * and points come later: the network is in the context's database, and the
 * device turns points into voxels.
 */
spc_status network_open(network *out, cli *self, const network_args *args)
{
    static const network_stage of_files[] = {NETWORK_READ, NETWORK_SCENES,
                                             NETWORK_CONTEXT, NETWORK_PLAN},
                               of_database[] = {NETWORK_CONTEXT, NETWORK_READ,
                                                NETWORK_SCENES, NETWORK_PLAN},
                               of_points[] = {NETWORK_READ, NETWORK_CONTEXT,
                                              NETWORK_SCENES, NETWORK_PLAN};
    static const char one_of_each[] = "network coords features";
    const network_stage *order = of_files;
    spc_status status = SPC_OK;

    *out = (network){.self = self, .args = args, .calibrates = args->int8};
    if ((status = idle_take_one(self, one_of_each)) != SPC_OK)
        return status;
    cli_catch_signals(self); /* loading takes long too */
    if (args->file == NULL)
        return cli_fail(SPC_EINVAL,
                        "a network is needed: --network FILE, such as "
                        "examples/networks/unet42.lua");
    if (network_is_stored(args))
        order = of_database;
    else if (args->points.count > 0)
        order = of_points;
    for (int i = 0; i < NETWORK_STAGES && status == SPC_OK; i++)
        status = run_stage(out, order[i]);
    return status == SPC_OK && args->int8 ? network_calibrate(out) : status;
}

void network_drop_plan(network *n)
{
    if (n->ctx != NULL) {
        spc_memory_free(n->ctx, n->coords);
        spc_memory_free(n->ctx, n->values);
        spc_memory_free(n->ctx, n->count);
        spc_memory_free(n->ctx, n->buffers.memory);
    }
    spc_net_plan_free(n->plan);
    n->plan = NULL;
    n->coords = n->values = n->count = NULL;
    n->buffers = (spc_net_buffers)SPC_NET_BUFFERS_INIT;
}

spc_status network_replan(network *n, unsigned flags)
{
    spc_status status;

    network_drop_plan(n);
    status = make_plan(n, flags);
    return status == SPC_OK ? take_memory(n) : status;
}

void network_close(network *n)
{
    network_drop_plan(n);
    if (n->ctx != NULL)
        spc_memory_free(n->ctx, n->points_there);
    for (int i = 0; n->clouds != NULL && i < n->args->points.count; i++)
        free(n->clouds[i].values);
    free(n->clouds);
    free(n->reference);
    spc_net_free(n->net);
    for (int i = 0; n->scenes != NULL && i < n->scene_count; i++)
        spc_scene_free(n->scenes[i]);
    free(n->scenes);
    free(n->features);
    spc_ctx_free(n->ctx);
}

spc_status network_check(network *n)
{
    spc_status status = spc_net_plan_check(n->plan, NULL);

    /* The reader leaves out and reports points outside the grid. All voxels of
     * a scene are inside. */
    return status == SPC_ERANGE && n->clouds != NULL ? SPC_OK : status;
}

spc_status network_replay(network *n, double *us)
{
    double start = network_clock_ms();
    spc_status status = spc_net_plan_replay(n->plan, NULL);

    if (status == SPC_OK)
        status = spc_ctx_synchronize(n->ctx);
    *us = (network_clock_ms() - start) * 1e3;
    return status == SPC_OK ? status : cli_fail_ctx(status, n->ctx);
}
