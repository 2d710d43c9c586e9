/* scene.c - spctune scene: what a scene holds. */
#include "layers.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>

static const cli_option options[] = {
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

struct facts {
    int64_t rows;
    int32_t low[4], high[4];
    double neighbours; /* of K = 3, the voxel itself included */
    double alone;      /* share of voxels without another one */
};

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

/* The plain map of K = 3. */
struct search {
    spc_conv conv;
    const spc_scene *scene;
    int threads;
    int32_t *index;
    spc_error error;
};

static void *find_map(void *payload)
{
    struct search *s = payload;

    spc_oracle_map(s->index, &s->conv, s->scene, s->threads, &s->error);
    return NULL;
}

static struct search *make_search(const spc_scene *scene, int threads)
{
    struct search *s = calloc(1, sizeof(*s));
    size_t entries = (size_t)spc_scene_rows(scene) * 27;

    if (s == NULL ||
        (s->index = malloc(entries * sizeof(*s->index) + 1)) == NULL) {
        free(s);
        return NULL;
    }
    s->conv = (spc_conv)SPC_CONV_INIT;
    s->conv.cin = s->conv.cout = 1;
    s->scene = scene;
    s->threads = threads;
    return s;
}

static void count_neighbours(struct facts *out, const int32_t *index)
{
    int64_t pairs = 0, alone = 0;

    for (int64_t row = 0; row < out->rows; row++) {
        int found = 0;
        for (int k = 0; k < 27; k++)
            found += index[k * out->rows + row] >= 0;
        pairs += found;
        alone += found == 1;
    }
    out->neighbours = out->rows > 0 ? (double)pairs / (double)out->rows : 0;
    out->alone = out->rows > 0 ? (double)alone / (double)out->rows : 0;
}

/* After SPC_EINTERRUPTED the search may still read the scene. */
static spc_status find_neighbours(struct facts *out, const spc_scene *scene,
                                  int threads)
{
    struct search *s = make_search(scene, threads);

    if (s == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if (cli_run_apart(find_map, s) != SPC_OK)
        return cli_fail(SPC_EINTERRUPTED, "interrupted");
    spc_status status = s->error.status;
    if (status == SPC_OK)
        count_neighbours(out, s->index);
    else
        cli_fail(status, "%s", s->error.text);
    free(s->index);
    free(s);
    return status;
}

static void add_row(table *t, const spc_scene *scene, const struct facts *facts)
{
    static const char axes[] = "bxyz";

    table_cell(t, "%s", spc_scene_name(scene));
    table_cell(t, "%lld", (long long)facts->rows);
    table_cell(t, "%.2f", facts->neighbours);
    table_cell(t, "%.1f %%", 100 * facts->alone);
    for (int axis = 0; axis < 4; axis++)
        table_cell(t, "%c %d..%d", axes[axis], facts->low[axis],
                   facts->high[axis]);
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

static spc_status look_at_all(const scene_set *scenes, const cli *self,
                              table *t, spc__json *json)
{
    for (int i = 0; i < scenes->count; i++) {
        struct facts facts = {.rows = spc_scene_rows(scenes->at[i])};
        find_extent(&facts, scenes->at[i]);
        spc_status status =
            find_neighbours(&facts, scenes->at[i], self->globals.threads);
        if (status != SPC_OK)
            return status;
        add_row(t, scenes->at[i], &facts);
        write_scene(json, scenes->at[i], &facts);
    }
    return SPC_OK;
}

static spc_status run(cli *self, void *args)
{
    static const char *const titles[] = {
        "scene", ">voxels", ">neighbours", ">alone", "", "", "", "", NULL};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    scene_set scenes;
    table t;
    spc_status status;

    (void)args;
    if (self->operands.count == 0)
        return cli_fail(SPC_EINVAL, "scene needs a specification, such as "
                                    "scan.bin@0.05 or gen:lidar@0.1");
    cli_catch_signals(self);
    if ((status = load_scenes(&scenes, &self->operands)) != SPC_OK)
        return status;
    table_init(&t, titles);
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    status = look_at_all(&scenes, self, &t, &json);
    spc__json_end_array(&json);
    if (status == SPC_OK && self->globals.json)
        status = output_json(&text);
    else if (status == SPC_OK)
        table_print(&t, stdout);
    spc__buf_release(&text);
    table_release(&t);
    if (status != SPC_EINTERRUPTED)
        free_scenes(&scenes);
    return status;
}

const cli_command cli_scene = {
    .name = "scene",
    .operands = "SPEC...",
    .summary = "look at a scene: voxels, extent, neighbours",
    .more = "A SPEC is one of\n"
            "  FILE.bin@VOXEL     rows of four float32: x y z intensity "
            "(KITTI)\n"
            "  FILE.npy[@VOXEL]   float points (with @VOXEL) or integer "
            "voxels\n"
            "  FILE.ply@VOXEL     vertices of an ascii or binary PLY file\n"
            "  gen:shell,r=256    a spherical shell in a grid of r^3\n"
            "  gen:lidar,seed=1,beams=64@0.05   a scan of a generated street\n"
            "  gen:room,seed=1@0.02             a generated room\n"
            "  gen:uniform,n=1000,extent=64,seed=1   distinct random voxels\n"
            "`neighbours` counts the occupied voxels of the 3x3x3 stencil, "
            "the centre\nincluded; `alone` is the share of voxels that have "
            "none but themselves.",
    .options = options,
    .run = run,
};
