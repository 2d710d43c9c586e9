/* SPDX-License-Identifier: Apache-2.0 */
/* scene.c - spctune scene: describes a scene. */
#include "command/cli/npy.h"
#include "command/cli/output.h"
#include "command/density.h"
#include "command/layer_text.h"
#include "command/layers.h"
#include "command/verify/relate.h"

#include <stdio.h>
#include <stdlib.h>

struct args {
    cli_list layers;
    const char *output;
    int density; /* the kernel's size; 0: not asked for */
    const char *plot;
};

static const cli_option options[] = {
    {'l', "layer", "LAYER", CLI_LIST, offsetof(struct args, layers),
     "rows, pairs and density of a layer on it (may be repeated)"},
    {'o', "output", "FILE", CLI_OUT, offsetof(struct args, output),
     "write the voxels of the scene there, .npy"},
    {0, "density", "K", CLI_COUNT, offsetof(struct args, density),
     "density of the map of a kernel K^3, by the L1 norm of offsets"},
    {0, "plot", "FILE", CLI_OUT, offsetof(struct args, plot),
     "with --density: draw it there, .svg"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

struct facts {
    int64_t rows;
    int32_t low[4], high[4];
    double neighbours; /* for K = 3, including the voxel itself */
    double alone;      /* share of voxels without neighbours */
};

/* The least and the largest coordinate of each axis, the batch included. */
static void find_extent(struct facts *out, const spc_scene *scene)
{
    const int32_t *at = spc_scene_coords(scene);

    for (int64_t i = 0; i < out->rows; i++)
        for (int axis = 0; axis < 4; axis++, at++) {
            if (i == 0 || *at < out->low[axis])
                out->low[axis] = *at;
            if (i == 0 || *at > out->high[axis])
                out->high[axis] = *at;
        }
}

static double ratio(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* ---- figures ------------------------------------------------------------- */

/* Counts voxels whose only neighbour is the voxel itself. */
static int64_t count_alone(const spc_relation *r)
{
    int64_t alone = 0;

    for (int64_t row = 0; row < r->rows_out; row++) {
        int found = 0;
        for (int k = 0; k < r->offsets; k++)
            found += r->index[k * r->rows_out + row] >= 0;
        alone += found == 1;
    }
    return alone;
}

/* Uses the relation of K = 3. */
static spc_status find_neighbours(struct facts *out, const spc_scene *scene,
                                  int threads)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_relation r;
    spc_status status = relate(&r, &conv, scene, threads);

    if (status != SPC_OK)
        return status;
    out->neighbours = ratio(r.pairs, r.rows_out);
    out->alone = ratio(count_alone(&r), r.rows_out);
    spc_relation_release(&r);
    return SPC_OK;
}

static void add_row(table *t, const spc_scene *scene, const struct facts *facts)
{
    table_cell(t, "%s", spc_scene_name(scene));
    table_cell(t, "%lld", (long long)facts->rows);
    table_cell(t, "%.2f", facts->neighbours);
    table_cell(t, "%.1f %%", 100 * facts->alone);
    for (int axis = 0; axis < 4; axis++)
        table_cell(t, "%d..%d", facts->low[axis], facts->high[axis]);
}

static void write_scene(spc__json *json, const spc_scene *scene,
                        const struct facts *facts)
{
    static const char *const ends[] = {"low", "high"};

    spc__json_object(json, NULL);
    spc__json_text(json, "scene", spc_scene_name(scene));
    spc__json_int(json, "voxels", facts->rows);
    spc__json_real(json, "neighbours", facts->neighbours);
    spc__json_real(json, "alone", facts->alone);
    for (int end = 0; end < 2; end++) {
        spc__json_array(json, ends[end]);
        for (int axis = 0; axis < 4; axis++)
            spc__json_int(json, NULL,
                          (end == 0 ? facts->low : facts->high)[axis]);
        spc__json_end_array(json);
    }
    spc__json_end_object(json);
}

/* The destination of the output. */
struct sink {
    table table;
    spc__json json;
    int threads;
};

/* Adds the facts of a scene that need no layer. */
static spc_status look_at(struct sink *to, const spc_scene *scene)
{
    struct facts facts = {.rows = spc_scene_rows(scene)};
    spc_status status = find_neighbours(&facts, scene, to->threads);

    if (status != SPC_OK)
        return status;
    find_extent(&facts, scene);
    add_row(&to->table, scene, &facts);
    write_scene(&to->json, scene, &facts);
    return SPC_OK;
}

/* ---- layers on a scene --------------------------------------------------- */

static void add_layer(struct sink *to, const spc_scene *scene,
                      const char *layer, const spc_relation *r)
{
    double density = ratio(r->pairs, r->rows_out * r->offsets);
    table *t = &to->table;
    spc__json *json = &to->json;

    table_cell(t, "%s", spc_scene_name(scene));
    table_cell(t, "%s", layer);
    table_cell(t, "%lld", (long long)r->rows_in);
    table_cell(t, "%lld", (long long)r->rows_out);
    table_cell(t, "%lld", (long long)r->pairs);
    table_cell(t, "%.2f", ratio(r->pairs, r->rows_out));
    table_cell(t, "%.4f", density);
    spc__json_object(json, NULL);
    spc__json_text(json, "scene", spc_scene_name(scene));
    spc__json_text(json, "layer", layer);
    spc__json_int(json, "rows_in", r->rows_in);
    spc__json_int(json, "rows_out", r->rows_out);
    spc__json_int(json, "offsets", r->offsets);
    spc__json_int(json, "pairs", r->pairs);
    spc__json_real(json, "density", density);
    spc__json_end_object(json);
}

/* Adds the relation of a layer on a scene. */
static spc_status look_at_layer(struct sink *to, const spc_scene *scene,
                                const spc_conv *conv)
{
    char layer[512];
    spc_relation r;
    spc_status status = relate(&r, conv, scene, to->threads);

    if (status != SPC_OK)
        return status;
    spc_conv_format(layer, sizeof(layer), conv);
    add_layer(to, scene, layer, &r);
    spc_relation_release(&r);
    return SPC_OK;
}

/* ---- the command --------------------------------------------------------- */

/* All layers are read before the first scene is loaded, which may take long. */
static spc_status read_layers(spc_conv **out, const cli_list *texts)
{
    spc_error error = {0};

    *out = calloc((size_t)texts->count + 1, sizeof(**out));
    if (*out == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < texts->count; i++)
        if (read_layer(&(*out)[i], texts->at[i], &error) != SPC_OK) {
            free(*out);
            *out = NULL;
            return cli_fail(error.status, "%s", error.text);
        }
    return SPC_OK;
}

static spc_status look_at_all(struct sink *to, const scene_set *scenes,
                              const spc_conv *layers, int layer_count)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < scenes->count && status == SPC_OK; i++) {
        if (layer_count == 0)
            status = look_at(to, scenes->at[i]);
        for (int l = 0; l < layer_count && status == SPC_OK; l++)
            status = look_at_layer(to, scenes->at[i], &layers[l]);
    }
    return status;
}

static spc_status print_all(const scene_set *scenes, const spc_conv *layers,
                            int layer_count, const cli_globals *globals)
{
    static const char *const scene_titles[] = {
        "scene", ">voxels", ">neighbours", ">--alone", "---batch",
        "-x",    "-y",      "-z",          NULL};
    static const char *const layer_titles[] = {
        "scene",   "layer",       ">rows in", ">rows out",
        ">-pairs", ">-pairs/row", ">density", NULL};
    spc__buf text = SPC__BUF_INIT;
    struct sink to = {.threads = globals->threads};

    table_init(&to.table, layer_count > 0 ? layer_titles : scene_titles);
    spc__json_init(&to.json, &text);
    spc__json_array(&to.json, NULL);
    spc_status status = look_at_all(&to, scenes, layers, layer_count);
    spc__json_end_array(&to.json);
    if (status == SPC_OK && globals->json)
        status = output_json(&text);
    else if (status == SPC_OK)
        table_print(&to.table, stdout);
    spc__buf_release(&text);
    table_release(&to.table);
    return status;
}

/* ---- density by norm ----------------------------------------------------- */

static spc_status find_densities(density_facts *out, const scene_set *scenes,
                                 const struct args *args, int threads)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < scenes->count && status == SPC_OK; i++)
        status = density_find(&out[i], scenes->at[i], args->density, threads);
    return status;
}

static spc_status print_densities(const density_facts *of, int count,
                                  bool as_json)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    table t;
    spc_status status = SPC_OK;

    table_init(&t, density_titles);
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    for (int i = 0; i < count; i++) {
        density_add(&t, &of[i]);
        density_write(&json, &of[i]);
    }
    spc__json_end_array(&json);
    if (as_json)
        status = output_json(&text);
    else
        table_print(&t, stdout);
    spc__buf_release(&text);
    table_release(&t);
    return status;
}

static spc_status look_at_density(const scene_set *scenes,
                                  const struct args *args,
                                  const cli_globals *globals)
{
    density_facts *of = calloc((size_t)scenes->count + 1, sizeof(*of));

    if (of == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    spc_status status = find_densities(of, scenes, args, globals->threads);
    if (status == SPC_OK)
        status = print_densities(of, scenes->count, globals->json);
    if (status == SPC_OK && args->plot != NULL)
        status = density_draw(args->plot, of, scenes->count);
    free(of);
    return status;
}

/* Writes batch, x, y, z of every voxel. */
static spc_status write_voxels(const char *path, const spc_scene *scene)
{
    int64_t shape[2] = {spc_scene_rows(scene), 4};

    return npy_write(path, "<i4", shape, 2, spc_scene_coords(scene),
                     (size_t)shape[0] * 16);
}

static spc_status check_options(const cli *self, const struct args *args)
{
    if (self->operands.count == 0)
        return cli_fail(SPC_EINVAL, "scene needs a specification, such as "
                                    "scan.bin@0.05 or gen:lidar@0.1");
    if (args->output != NULL && self->operands.count > 1)
        return cli_fail(SPC_EINVAL,
                        "--output takes the voxels of one scene, not of %d",
                        self->operands.count);
    if (args->density == 0)
        return args->plot == NULL
                   ? SPC_OK
                   : cli_fail(SPC_EINVAL, "--plot draws a density: add "
                                          "--density 5");
    if (args->layers.count > 0)
        return cli_fail(SPC_EINVAL, "--density has its own kernel: leave out "
                                    "--layer");
    return density_check(args->density);
}

static spc_status command_scene(cli *self, void *payload)
{
    const struct args *args = payload;
    spc_conv *layers = NULL;
    scene_set scenes;
    spc_status status;

    if ((status = check_options(self, args)) != SPC_OK)
        return status;
    if ((status = read_layers(&layers, &args->layers)) != SPC_OK)
        return status;
    cli_catch_signals(self);
    if ((status = load_scenes(&scenes, self, &self->operands)) == SPC_OK) {
        status = args->density > 0
                     ? look_at_density(&scenes, args, &self->globals)
                     : print_all(&scenes, layers, args->layers.count,
                                 &self->globals);
        if (status == SPC_OK && args->output != NULL)
            status = write_voxels(args->output, scenes.at[0]);
        /* After an interrupt a thread may still read a scene. */
        if (status != SPC_EINTERRUPTED)
            free_scenes(&scenes);
    }
    free(layers);
    return status;
}

const cli_command cli_scene = {
    .name = "scene",
    .operands = "SPEC...",
    .summary = "look at a scene: voxels, extent, neighbours",
    .more =
        "A SPEC is one of\n"
        "  FILE.bin@VOXEL     rows of float32: x y z and others, four in "
        "all (KITTI)\n"
        "  FILE.npy[@VOXEL]   float points (with @VOXEL) or integer "
        "voxels\n"
        "  FILE.ply@VOXEL     vertices of an ascii or binary PLY file\n"
        "  FILE.pcd@VOXEL     ascii, binary or compressed PCD file\n"
        "  FILE.las@VOXEL     LAS 1.0 to 1.4; .laz where laszip was there\n"
        "  FILE.xyz@VOXEL     text, a point in each line; also .txt, .csv\n"
        "  gen:shell,r=256    a spherical shell in a grid of r^3\n"
        "  gen:lidar,seed=1,beams=64@0.05   a scan of a generated street\n"
        "  gen:room,seed=1@0.02             a generated room\n"
        "  gen:room,n=100000                so many points of it, for "
        "points,...\n"
        "  gen:uniform,n=1000,extent=64,seed=1   distinct random voxels\n"
        "and after any of them `,level=N`: the level of stride 2^N of a "
        "network with\nthe floor rule (coordinates divided by 2^N, rounded "
        "down).\nVOXEL is one size, or three: 0.05,0.05,0.1. After a "
        ".bin, .npy or text file\n`,columns=C` says how many numbers a "
        "row has, or what they are: 5, xyzir, bxyzi\n(b: batch).\n"
        "`neighbours` counts the occupied voxels of the 3x3x3 stencil, "
        "the centre\nincluded; `alone` is the share of voxels that have "
        "none but themselves.\nWith --layer: the rows and pairs of that "
        "layer, found on the host. The scene is\nits input; of an inverse "
        "layer it is the input of the strided layer that it\ninverts. "
        "`density` is pairs / (rows out * offsets).\n"
        "With --density: the share of voxels that have a neighbour at an "
        "offset of a\nsubmanifold kernel of K^3, K = 3, 5 or 7, as the mean of "
        "all offsets with the\nsame |x|+|y|+|z|, and the least and the most of "
        "a single one. The file of --plot\nhas a bar for each. Thresholds of "
        "hybrid kernels follow this norm.\nThe file of --output has "
        "a row of int32 for each voxel: batch, x, y, z.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_scene,
};
