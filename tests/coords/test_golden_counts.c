/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_golden_counts.c - rows and pairs of the levels of known networks.
 *
 * Each count is computed twice, by the relation (hashing) and here by sorting
 * and merging; both must equal the recorded count. Without an argument it runs
 * on generated scenes. `test_golden_counts scenes` runs on recorded scans, with
 * counts that a third program calculated.
 */
#include "base/file.h"
#include "harness/suite.h"
#include "lab/oracle/relation.h"

#include <math.h>

static spc_error error;

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

/* ---- the second method: sorted keys, merged ------------------------------ */

/* Batch in the top 16 bits, then x, y and z with 16 bits each, so keys have the
 * order of rows. */
typedef struct keys {
    uint64_t *at;
    int64_t count;
} keys;

enum { BIAS = 1 << 15 };

static uint64_t key_of(int batch, const int64_t at[3])
{
    uint64_t key = (uint64_t)batch;
    for (int a = 0; a < 3; a++) {
        /* an assertion for each voxel would be slow */
        if (at[a] < -BIAS || at[a] >= BIAS)
            ck_abort_msg("%lld does not fit 16 bits", (long long)at[a]);
        key = key << 16 | (uint64_t)(at[a] + BIAS);
    }
    return key;
}

static int64_t field(uint64_t key, int axis)
{
    return (int64_t)(key >> 16 * (2 - axis) & 0xffff) - BIAS;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void sort_unique(keys *k)
{
    int64_t count = 0;
    qsort(k->at, (size_t)k->count, sizeof(*k->at), compare);
    for (int64_t i = 0; i < k->count; i++)
        if (i == 0 || k->at[i] != k->at[i - 1])
            k->at[count++] = k->at[i];
    k->count = count;
}

static keys keys_create(int64_t capacity)
{
    return (keys){malloc((size_t)capacity * sizeof(uint64_t) + 1), 0};
}

static keys scene_keys(const spc_scene *scene)
{
    keys k = keys_create(spc_scene_rows(scene));
    const int32_t *coords = spc_scene_coords(scene);
    for (int64_t i = 0; i < spc_scene_rows(scene); i++, coords += 4) {
        int64_t at[3] = {coords[1], coords[2], coords[3]};
        k.at[k.count++] = key_of(coords[0], at);
    }
    sort_unique(&k);
    return k;
}

/* Appends the outputs that read an input at one offset. They ascend if the
 * inputs do. */
static void append_seen(keys *out, const keys *in, const spc_geometry *g,
                        const int offset[3])
{
    for (int64_t i = 0; i < in->count; i++) {
        int64_t at[3];
        bool seen = true;
        for (int a = 0; a < 3; a++) {
            int64_t from = field(in->at[i], a) - offset[a];
            at[a] = from / g->stride[a];
            seen &= from % g->stride[a] == 0;
            /* the window must lie inside the padded shape */
            if (g->shape[a] > 0)
                seen &=
                    at[a] >= 0 &&
                    at[a] * g->stride[a] + g->dilation[a] * (g->kernel[a] - 1) <
                        g->shape[a] + 2 * g->padding[a];
        }
        if (seen)
            out->at[out->count++] = key_of((int)(in->at[i] >> 48), at);
    }
}

static keys floors(const keys *in, const spc_geometry *g)
{
    keys out = keys_create(in->count);
    for (int64_t i = 0; i < in->count; i++) {
        int64_t at[3];
        for (int a = 0; a < 3; a++)
            at[a] = (int64_t)floor((double)field(in->at[i], a) / g->stride[a]);
        out.at[out.count++] = key_of((int)(in->at[i] >> 48), at);
    }
    sort_unique(&out);
    return out;
}

/* Returns the outputs at all offsets, each once. */
static keys footprints(const keys *in, const spc_geometry *g)
{
    int offsets = spc_geometry_offset_count(g), offset[3];
    keys out = keys_create(in->count * offsets);
    for (int k = 0; k < offsets; k++) {
        spc_geometry_offset_at(offset, g, k);
        append_seen(&out, in, g, offset);
    }
    sort_unique(&out);
    return out;
}

static int64_t count_common(const keys *a, const keys *b)
{
    int64_t common = 0;
    for (int64_t i = 0, j = 0; i < a->count && j < b->count;) {
        common += a->at[i] == b->at[j];
        if (a->at[i] <= b->at[j])
            i++;
        else
            j++;
    }
    return common;
}

/* Merges them to the outputs; *pairs is the number of pairs. */
static keys merge(int64_t *pairs, const keys *in, const spc_geometry *g)
{
    keys seen = keys_create(in->count), out = *in;
    int offset[3];

    if (g->rule != SPC_RULE_SUBM)
        out = g->rule == SPC_RULE_FLOOR ? floors(in, g) : footprints(in, g);
    *pairs = 0;
    for (int k = 0; k < spc_geometry_offset_count(g); k++) {
        spc_geometry_offset_at(offset, g, k);
        seen.count = 0;
        append_seen(&seen, in, g, offset);
        *pairs += count_common(&seen, &out);
    }
    free(seen.at);
    return out;
}

/* ---- networks ------------------------------------------------------------ */

typedef struct level {
    spc_scene *scene;
    int shape[3];
} level;

enum { NO_LEVEL = -1, LEVELS = 12 };

#define LAYER ",cin=1,cout=1,"
#define FOOTPRINT "conv" LAYER "rule=footprint,"
#define FLOOR "conv" LAYER "rule=floor,k=2,stride=2"

/*
 * Every level of the detectors SECOND and CenterPoint (z is not padded at the
 * third; the last layer is along z), of VoxelNeXt, which also pads z and
 * continues below level 3, and of down-sampling by the floor rule.
 */
static const struct step {
    const char *name;
    int from, to; /* levels; NO_LEVEL: output is not a level */
    const char *layer;
} steps[] = {
    {"L0 k3", 0, NO_LEVEL, "subm" LAYER "k=3"},
    {"L0 k5", 0, NO_LEVEL, "subm" LAYER "k=5"},
    {"L1", 0, 1, FOOTPRINT "k=3,stride=2,padding=1"},
    {"L1 k3", 1, NO_LEVEL, "subm" LAYER "k=3"},
    {"L2", 1, 2, FOOTPRINT "k=3,stride=2,padding=1"},
    {"L2 k3", 2, NO_LEVEL, "subm" LAYER "k=3"},
    {"L3", 2, 3, FOOTPRINT "k=3,stride=2,padding=1x1x0"},
    {"L3 k3", 3, NO_LEVEL, "subm" LAYER "k=3"},
    {"out", 3, 4, FOOTPRINT "k=1x1x3,stride=1x1x2"},
    {"out k3", 4, NO_LEVEL, "subm" LAYER "k=3"},
    {"VoxelNeXt 3", 2, 5, FOOTPRINT "k=3,stride=2,padding=1"},
    {"VoxelNeXt 4", 5, 6, FOOTPRINT "k=3,stride=2,padding=1"},
    {"VoxelNeXt 5", 6, 7, FOOTPRINT "k=3,stride=2,padding=1"},
    {"floor 1", 0, 8, FLOOR},
    {"floor 2", 8, 9, FLOOR},
    {"floor 3", 9, 10, FLOOR},
    {"floor 4", 10, 11, FLOOR},
};

enum { STEPS = LENGTH(steps), UNKNOWN = -1 };

typedef struct counts {
    int64_t rows, pairs;
} counts;

/* Spatial shape after a layer, by the formula of PyTorch's convolutions. */
static void next_shape(int out[3], const spc_geometry *g)
{
    for (int a = 0; a < 3; a++)
        out[a] = (g->shape[a] + 2 * g->padding[a] -
                  g->dilation[a] * (g->kernel[a] - 1) - 1) /
                     g->stride[a] +
                 1;
}

static void assert_merged(const spc_relation *r, const keys *in,
                          const spc_geometry *g, const char *name)
{
    int64_t pairs;
    keys out = merge(&pairs, in, g);

    ck_assert_msg(r->rows_out == out.count && r->pairs == pairs,
                  "%s: %lld rows and %lld pairs; by merging %lld and %lld",
                  name, (long long)r->rows_out, (long long)r->pairs,
                  (long long)out.count, (long long)pairs);
    for (int64_t i = 0; i < out.count && out.at != in->at; i++) {
        const int32_t *row = r->coords_out + 4 * i;
        int64_t at[3] = {row[1], row[2], row[3]};
        if (key_of(row[0], at) != out.at[i])
            ck_abort_msg("%s: output %lld is another", name, (long long)i);
    }
    if (out.at != in->at)
        free(out.at);
}

/* The inverse relation has the same number of pairs, between the same rows. */
static void assert_inverse(const spc_relation *r, const spc_conv *conv,
                           const spc_scene *scene)
{
    spc_conv inverse = *conv;
    spc_relation back;

    inverse.op = SPC_INVERSE;
    assert_ok(spc_oracle_relation(&back, &inverse, scene, 2, &error));
    ck_assert_int_eq(back.rows_in, r->rows_out);
    ck_assert_int_eq(back.rows_out, r->rows_in);
    ck_assert_int_eq(back.pairs, r->pairs);
    spc_relation_release(&back);
}

static counts run_step(level *levels, const struct step *step)
{
    const level *from = &levels[step->from];
    keys in = scene_keys(from->scene);
    spc_relation r;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, step->layer, &error));
    if (conv.geometry.rule == SPC_RULE_FOOTPRINT)
        memcpy(conv.geometry.shape, from->shape, sizeof(from->shape));
    assert_ok(spc_oracle_relation(&r, &conv, from->scene, 2, &error));
    assert_merged(&r, &in, &conv.geometry, step->name);
    if (step->to != NO_LEVEL) {
        assert_inverse(&r, &conv, from->scene);
        assert_ok(spc_scene_create(&levels[step->to].scene, r.coords_out,
                                   r.rows_out, step->name, &error));
        next_shape(levels[step->to].shape, &conv.geometry);
    }
    counts got = {r.rows_out, r.pairs};
    spc_relation_release(&r);
    free(in.at);
    return got;
}

/* Takes ownership of the scene. */
static void check_network(spc_scene *scene, const int shape[3],
                          const counts want[STEPS])
{
    level levels[LEVELS] = {{scene, {shape[0], shape[1], shape[2]}}};

    for (int i = 0; i < STEPS; i++) {
        counts got = run_step(levels, &steps[i]);
        ck_assert_msg(
            (want[i].rows == UNKNOWN || got.rows == want[i].rows) &&
                (want[i].pairs == UNKNOWN || got.pairs == want[i].pairs),
            "%s: %lld rows and %lld pairs, not %lld and %lld", steps[i].name,
            (long long)got.rows, (long long)got.pairs, (long long)want[i].rows,
            (long long)want[i].pairs);
    }
    for (int i = 0; i < LEVELS; i++)
        spc_scene_free(levels[i].scene);
}

/* ---- generated scenes ---------------------------------------------------- */

static const struct {
    const char *spec;
    counts want[STEPS];
} generated[] = {
    {"gen:lidar,seed=1@0.1",
     {{51232, 324658},
      {51232, 811022},
      {39055, 146853},
      {39055, 416447},
      {21610, 131719},
      {21610, 305490},
      {6916, 59725},
      {6916, 87244},
      {4893, 8218},
      {4893, 51727},
      {8401, 68347},
      {3100, 26246},
      {1009, 9564},
      {22614, 51232},
      {9445, 22614},
      {3587, 9445},
      {1223, 3587}}},
    {"gen:room,seed=2@0.1",
     {{6029, 92431},
      {6029, 292399},
      {2178, 20344},
      {2178, 41248},
      {620, 7225},
      {620, 11920},
      {160, 1971},
      {160, 2842},
      {48, 134},
      {48, 356},
      {175, 2038},
      {47, 534},
      {8, 99},
      {1467, 6029},
      {363, 1467},
      {92, 363},
      {26, 92}}},
    {"gen:uniform,n=3000,extent=31,batch=2,seed=3",
     {{6000, 20734},
      {6000, 72270},
      {7422, 19680},
      {7422, 165172},
      {1024, 22364},
      {1024, 21296},
      {96, 2178},
      {96, 1400},
      {32, 96},
      {32, 200},
      {128, 2662},
      {16, 250},
      {2, 16},
      {4341, 6000},
      {1021, 4341},
      {128, 1021},
      {16, 128}}},
};

/* Moves the voxels so that each axis begins at 0. The shape is their extent. */
static spc_scene *move_to_zero(int shape[3], spc_scene *scene)
{
    int64_t rows = spc_scene_rows(scene);
    size_t bytes = (size_t)rows * 4 * sizeof(int32_t);
    int32_t *coords = malloc(bytes), low[3], high[3];
    spc_scene *moved = NULL;

    memcpy(coords, spc_scene_coords(scene), bytes);
    for (int a = 0; a < 3; a++) {
        low[a] = high[a] = coords[1 + a];
        for (int64_t i = 1; i < rows; i++) {
            int32_t at = coords[4 * i + 1 + a];
            low[a] = at < low[a] ? at : low[a];
            high[a] = at > high[a] ? at : high[a];
        }
        for (int64_t i = 0; i < rows; i++)
            coords[4 * i + 1 + a] -= low[a];
        shape[a] = high[a] - low[a] + 1;
    }
    assert_ok(spc_scene_create(&moved, coords, rows, "moved", &error));
    free(coords);
    spc_scene_free(scene);
    return moved;
}

START_TEST(generated_scenes_have_their_recorded_counts)
{
    spc_scene *scene;
    int shape[3];

    assert_ok(spc_scene_load(&scene, generated[_i].spec, &error));
    scene = move_to_zero(shape, scene);
    check_network(scene, shape, generated[_i].want);
}
END_TEST

/* ---- recorded scans ------------------------------------------------------ */

static const struct {
    const char *file;
    float low[3], voxel[3];
    int grid[3]; /* voxels in the range; networks add one along z */
    counts want[STEPS];
} scans[] = {
    {"kitti_hdl64_full.bin",
     {0, -40, -3},
     {0.05f, 0.05f, 0.1f},
     {1408, 1600, 40},
     {{40836, 187000},
      {40836, 456210},
      {53319, 138315},
      {53319, 652077},
      {28850, 179225},
      {28850, 434040},
      {10989, 94066},
      {10989, 175123},
      {8432, 14655},
      {8432, 121858},
      {11989, UNKNOWN},
      {3886, UNKNOWN},
      {1220, UNKNOWN},
      {23941, 40836},
      {11039, 23941},
      {4456, 11039},
      {1691, 4456}}},
    {"nuscenes_sweep1.bin",
     {-54, -54, -5},
     {0.075f, 0.075f, 0.2f},
     {1440, 1440, 40},
     {{17509, 55517},
      {17509, UNKNOWN},
      {29374, 58336},
      {29374, 282806},
      {21571, 98238},
      {21571, 267243},
      {11174, 71304},
      {11174, 153870},
      {9204, 15121},
      {9204, 118392},
      {11595, UNKNOWN},
      {4780, UNKNOWN},
      {1949, UNKNOWN},
      {11902, 17509},
      {6884, 11902},
      {3450, 6884},
      {1687, 3450}}},
    {"waymo_frame.bin",
     {-75.2f, -75.2f, -2},
     {0.1f, 0.1f, 0.15f},
     {1504, 1504, 40},
     {{114940, 782240},
      {114940, UNKNOWN},
      {119559, 397612},
      {119559, 1650205},
      {57828, 400933},
      {57828, 897372},
      {21304, 189060},
      {21304, 364354},
      {15160, 28088},
      {15160, 231540},
      {22998, UNKNOWN},
      {6767, UNKNOWN},
      {1685, UNKNOWN},
      {57841, 114940},
      {23475, 57841},
      {8900, 23475},
      {3324, 8900}}},
};

/* Returns the voxels of the points in range: floor((p - low) / voxel) in float,
 * like the detectors' voxelisers. Duplicates merge. */
static keys voxelise(const float *points, size_t count, const float low[3],
                     const float voxel[3], const int grid[3])
{
    keys out = keys_create((int64_t)count);
    for (size_t i = 0; i < count; i++) {
        int64_t at[3];
        bool inside = true;
        for (int a = 0; a < 3; a++) {
            float place = floorf((points[4 * i + a] - low[a]) / voxel[a]);
            inside &= place >= 0 && place < (float)grid[a];
            at[a] = inside ? (int64_t)place : 0;
        }
        if (inside)
            out.at[out.count++] = key_of(0, at);
    }
    sort_unique(&out);
    return out;
}

static spc_scene *scene_of_keys(const keys *k)
{
    int32_t *coords = malloc((size_t)k->count * 4 * sizeof(*coords));
    spc_scene *scene = NULL;

    for (int64_t i = 0; i < k->count; i++) {
        coords[4 * i] = 0;
        for (int a = 0; a < 3; a++)
            coords[4 * i + 1 + a] = (int32_t)field(k->at[i], a);
    }
    assert_ok(spc_scene_create(&scene, coords, k->count, "a scan", &error));
    free(coords);
    return scene;
}

START_TEST(recorded_scans_have_the_published_counts)
{
    const int *grid = scans[_i].grid;
    int shape[3] = {grid[0], grid[1], grid[2] + 1};
    spc__buf path = SPC__BUF_INIT, data = SPC__BUF_INIT;

    spc__buf_printf(&path, "%s/%s", suite_scenes(), scans[_i].file);
    assert_ok(spc__file_read(&data, spc__buf_text(&path), 1 << 24, &error));
    keys voxels = voxelise((const float *)data.data, data.length / 16,
                           scans[_i].low, scans[_i].voxel, grid);
    check_network(scene_of_keys(&voxels), shape, scans[_i].want);
    free(voxels.at);
    spc__buf_release(&data);
    spc__buf_release(&path);
}
END_TEST

int main(int argc, char **argv)
{
    bool recorded = suite_is_part(argc, argv, "scenes");
    if (recorded && suite_scenes() == NULL)
        return suite_skip("no folder of recorded scans; SPC_SCENES names it");
    Suite *s = suite_create("golden counts");
    TCase *tcase = tcase_create("counts");

    tcase_set_timeout(tcase, 300);
    suite_add_tcase(s, tcase);
    if (recorded)
        tcase_add_loop_test(tcase, recorded_scans_have_the_published_counts, 0,
                            LENGTH(scans));
    else
        tcase_add_loop_test(tcase, generated_scenes_have_their_recorded_counts,
                            0, LENGTH(generated));
    return run_suite(s);
}
