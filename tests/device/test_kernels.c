/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kernels.c - every convolution template on maps of every kind: strided
 * and inverse layers, kernels without a centre, rows without an input, tables
 * with capacity for more tiles than exist.
 *
 * Data are small integers, so a result is either exact or wrong. The expected
 * results are computed here, by loops over the definition. Every launch is
 * repeated over another poison: over the first result, the second launch would
 * hide rows that are never written. Workspaces are poisoned too.
 */
#include "harness/kernel_harness.h"

#include "harness/suite.h"
#include "device/targets.h"
#include <stdio.h>
#include <sys/mman.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

static harness r;

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, r.error.text)

/* ---- expected results ---------------------------------------------------- */

/* Computes sums of integers, which double holds exactly. Weights are KRSC. */
static double sum_of(const spc_conv *conv, const relation *rel,
                     const harness_data *data, int row, int co)
{
    double sum = conv->bias ? data->bias[co] : 0;
    int cin = conv->cin / conv->groups;
    int first = co / (conv->cout / conv->groups) * cin;
    for (int k = 0; k < rel->offsets; k++) {
        int64_t from = *relation_at(rel, k, row);
        const float *w = data->weights + ((int64_t)co * rel->offsets + k) * cin;
        for (int ci = 0; ci < cin && from >= 0; ci++)
            sum += (double)data->in[from * conv->cin + first + ci] * w[ci];
    }
    return sum;
}

static float *results_of(const spc_conv *conv, const relation *rel,
                         const harness_data *data)
{
    float *want = harness_allocate((size_t)rel->rows * (size_t)conv->cout, 4);
    double most = conv->dtype == SPC_F16 ? 2048 : 16777216;

    for (int row = 0; row < rel->rows; row++)
        for (int co = 0; co < conv->cout; co++) {
            double sum = sum_of(conv, rel, data, row, co);
            ck_assert(sum >= -most && sum <= most);
            want[(int64_t)row * conv->cout + co] = (float)sum;
        }
    return want;
}

/* ---- one candidate ------------------------------------------------------- */

enum { FENCE = 256 };

typedef struct trial {
    const char *template_name;
    const spc_conv *conv;
    const relation *rel;
    const harness_data *data;
    const float *want;
    spc__attrs config;
    int capacity; /* capacity of the map in rows; 0: unlimited */
} trial;

static void compare(const trial *t, const unsigned char *out, const char *where)
{
    spc__buf config = SPC__BUF_INIT;
    int cout = t->conv->cout;

    spc__attrs_format(&config, &t->config);
    for (int64_t i = 0; i < (int64_t)t->rel->rows * cout; i++) {
        float got = t->conv->dtype == SPC_F16
                        ? spc__half_to_float(((const uint16_t *)out)[i])
                        : ((const float *)out)[i];
        ck_assert_msg(
            got == t->want[i], "%s %s, %s: row %d channel %d is %g, not %g",
            t->template_name, spc__buf_text(&config), where, (int)(i / cout),
            (int)(i % cout), (double)got, (double)t->want[i]);
    }
    spc__buf_release(&config);
}

static void check_fence(const trial *t, const unsigned char *end, int poison,
                        const char *where)
{
    for (size_t i = 0; i < FENCE; i++)
        ck_assert_msg(end[i] == poison, "%s, %s: writes past its rows",
                      t->template_name, where);
}

/* Launches a kernel and compares. A persistent kernel gets `blocks` blocks
 * instead of the device's own number. */
static void launch_over(const trial *t, const harness_kernel *kernel,
                        const layout *map, int poison, unsigned blocks,
                        const char *where)
{
    size_t bytes =
        (size_t)t->rel->rows * (size_t)t->conv->cout * t->data->element_bytes;
    unsigned char *memory = harness_allocate(bytes + 2 * FENCE, 1);
    harness_run run = harness_prepare(&r, kernel, t->conv, &map->view, t->data,
                                      memory + FENCE);

    const char *grid = spc__attrs_text(&kernel->launch, "grid", "");
    blocks *= run.launch.cluster;
    if (strcmp(grid, "persistent") == 0 && blocks < run.launch.grid_x)
        run.launch.grid_x = blocks;
    if (strcmp(grid, "steps") == 0) /* more blocks than tiles */
        run.launch.grid_x = blocks < 11 ? blocks : 11;
    size_t work_bytes = harness_workspace_bytes(&run);
    unsigned char *work = harness_allocate(work_bytes + FENCE, 1);
    run.args.workspace = work;
    memset(work, poison, work_bytes + FENCE);
    memset(memory, poison, bytes + 2 * FENCE);
    if (spc__attrs_number(&kernel->launch, "clear", 0) != 0)
        memset(memory + FENCE, 0, bytes);
    if (map->view.tiles > 0) /* else nothing is launched */
        assert_ok(harness_enqueue(&run, NULL));
    compare(t, memory + FENCE, where);
    check_fence(t, memory, poison, where);
    check_fence(t, memory + FENCE + bytes, poison, where);
    check_fence(t, work + work_bytes, poison, where);
    free(work);
    free(memory);
}

/* Runs each row order, with capacity for no, few and many more rows. */
static void check_candidate(const trial *t)
{
    static const struct {
        const char *what;
        enum row_order order;
        int more_rows;
        unsigned blocks;
    } maps[] = {
        {"own order", OWN_ORDER, 0, 64},
        {"random order, room for more", RANDOM_ORDER, 700, 3},
        {"order of masks, room for many more", MASK_ORDER, 20000, 1},
    };
    harness_kernel kernel;

    assert_ok(harness_build(&kernel, &r, t->template_name, t->conv, &t->config,
                            t->data, false));
    for (int i = 0; i < LENGTH(maps); i++) {
        layout map;
        int more = maps[i].more_rows;
        if (t->capacity > 0 && more > t->capacity)
            more = t->capacity;
        layout_create(&map, t->rel,
                      (int)spc__attrs_number(&kernel.launch, "tile_rows", 1),
                      more, maps[i].order);
        launch_over(t, &kernel, &map, 0xff, maps[i].blocks, maps[i].what);
        launch_over(t, &kernel, &map, 0x5a, maps[i].blocks + 1, maps[i].what);
        layout_release(&map);
    }
    harness_kernel_free(&r, &kernel);
}

/* ---- layers -------------------------------------------------------------- */

typedef struct layer {
    const char *text;
    int rows, extent; /* extent of the inputs' set; 0: a random table */
} layer;

static const layer layers[] = {
    {"conv,cin=32,cout=64,k=2,stride=2,rule=floor", 700, 16},
    {"conv,cin=32,cout=64,k=3,stride=2,padding=1,rule=footprint", 300, 11},
    {"conv,cin=16,cout=32,k=5,stride=2,padding=2,rule=footprint,bias=1", 80, 9},
    {"conv,cin=64,cout=64,k=3x1x2,stride=2x1x1,rule=floor", 500, 11},
    {"conv,cin=48,cout=96,k=1,rule=floor,bias=1", 150, 9},
    {"conv,cin=6,cout=10,k=3,stride=2,padding=1,rule=footprint", 120, 8},
    {"conv,cin=3,cout=5,k=3,stride=2,padding=1,rule=footprint", 60, 7},
    {"conv,cin=24,cout=40,k=2,stride=2,rule=floor,dtype=f32,bias=1", 300, 11},
    {"conv,cin=20,cout=36,k=3,stride=2,padding=1,rule=footprint,dtype=tf32",
     120, 8},
    {"conv,cin=128,cout=128,k=3,stride=2,padding=1,rule=footprint", 60, 8},
    /* Every row has one input or none. */
    {"inverse,cin=64,cout=32,k=2,stride=2,rule=floor", 700, 16},
    {"inverse,cin=64,cout=32,k=2,stride=3,rule=floor,bias=1", 500, 14},
    {"inverse,cin=96,cout=40,k=3,stride=2,padding=1,rule=footprint", 300, 11},
    {"inverse,cin=12,cout=24,k=2,stride=3,rule=floor,dtype=f32,bias=1", 300,
     12},
    {"inverse,cin=32,cout=32,k=2,stride=3,rule=floor,dtype=tf32", 300, 12},
    /* Masks have 4 and 11 words, some of which are 0. */
    {"conv,cin=16,cout=16,k=5,rule=floor", 150, 0},
    {"conv,cin=8,cout=32,k=7,rule=floor", 90, 0},
    {"conv,cin=4,cout=8,k=7,rule=floor,dtype=f32,bias=1", 90, 0},
    /* Layers with no rows, one row, and no inputs. */
    {"conv,cin=32,cout=32,k=3,rule=floor", -1, 0},
    {"conv,cin=32,cout=32,k=2,stride=2,rule=floor,bias=1", 1, 2},
    {"conv,cin=32,cout=32,k=3,rule=floor,bias=1", -2, 0},
    /* Maps with a centre use another kernel. */
    {"subm,cin=32,cout=32,k=3,bias=1", 300, 9},
    {"subm,cin=128,cout=96,k=2", 150, 8},
    /* Rows begin and end inside words, at words, and at pairs of words. */
    {"subm,cin=81,cout=61,k=3,bias=1", 70, 7},
    {"conv,cin=20,cout=37,k=2,stride=2,rule=floor", 150, 9},
    {"subm,cin=45,cout=18,k=2,dtype=f32,bias=1", 60, 7},
    /* Groups have several channels, or one. */
    {"subm,cin=12,cout=20,groups=4,k=3,bias=1", 150, 8},
    {"conv,cin=6,cout=198,groups=3,k=2,stride=2,rule=floor,dtype=f32", 200, 9},
    {"subm,cin=64,cout=64,groups=64,k=3,bias=1", 300, 9},
    /* A part holds two groups, or all of them. Rows are short or long. */
    {"subm,cin=64,cout=96,groups=4,k=3,bias=1", 150, 8},
    {"conv,cin=36,cout=12,groups=3,k=2,stride=2,rule=floor,dtype=tf32", 150, 9},
    {"conv,cin=24,cout=24,groups=24,k=3,stride=2,padding=1,rule=footprint", 300,
     11},
    {"conv,cin=18,cout=18,groups=18,k=5,rule=floor,bias=1", 150, 0},
    {"inverse,cin=20,cout=20,groups=20,k=2,stride=3,rule=floor,dtype=f32,"
     "bias=1",
     300, 12},
    {"conv,cin=7,cout=7,groups=7,k=3,rule=floor,dtype=tf32", -2, 0},
    {"subm,cin=5,cout=5,groups=5,k=3", 60, 7},
};

/* Makes the relation of a layer. Random tables of density 1 % have tiles whose
 * last mask words are 0. */
static void make_relation(relation *rel, const spc_conv *conv, const layer *l)
{
    if (l->rows == -1)
        relation_draw(rel, conv, 5, 0, 0, 1);
    else if (l->rows == -2)
        relation_draw(rel, conv, 0, 100, 0, 1);
    else if (l->extent == 0)
        relation_draw(rel, conv, l->rows / 2, l->rows, 0.01, 1);
    else
        relation_of_layer(rel, conv, l->rows, l->extent, 1);
}

/* Parameter values that change the code, tested in addition to the default.
 * Combinations that the layer or the target refuses are skipped. */
static const struct {
    const char *template_name, *values;
} variants[] = {
    {"os_warp", ""},
    {"os_warp", "tiles=dealt,depth=2"},
    {"os_warp", "rows=32,depth=2,warps=8,blocks=1"},
    {"os_warp", "rows=8,depth=6,warps=8,blocks=1"},
    {"os_group", ""},
    {"os_group", "depth=1"},
    {"os_wgmma", ""},
    {"os_wgmma", "gather=shared,groups=2"},
    {"os_mma", ""},
    {"os_mma", "warps=8,m=1,stages=2"},
    {"os_packed", ""},
    {"os_packed", "m=2,chunk=4,warps=4"},
    {"os_generic", ""},
    {"os_depthwise", ""},
    {"os_depthwise", "rows=256,rows_a_thread=1,threads=128,weights=global"},
    {"os_depthwise", "rows=32,rows_a_thread=4,unroll=2,bytes=8,threads=128"},
    {"os_diagonal", ""},
    {"os_diagonal", "channels=32,rows=32,depth=2,warps=12,blocks=1"},
    {"os_walk", ""},
    {"os_walk", "rows=32,lanes=4,unroll=2,threads=128,blocks=6,waves=1"},
    {"os_walk", "rows=128,lanes=8,unroll=3,blocks=3,weights=f32"},
    {"rowgemm", ""},
    {"rowgemm", "tile=64"},
    {"generic", ""},
    {"depthwise", ""},
    {"depthwise", "vectors=1,tile=256"},
};

/* Changes some parameters of the default. Returns false if the layer or the
 * target refuses the result. */
static bool configure(trial *t, const char *name, const char *text)
{
    spc__template *tpl = spc__library_find(r.library, name);
    spc__attrs problem, values = {0};

    if (strcmp(spc__template_device(tpl),
               strcmp(r.ops->name, "cpu") == 0 ? "cpu" : "cuda") != 0)
        return false;
    spc__conv_attrs(&problem, t->conv);
    if (spc__template_accepts(tpl, &problem, &r.target, NULL) != SPC_OK)
        return false;
    t->template_name = name;
    assert_ok(
        spc__template_default(&t->config, tpl, &problem, &r.target, &r.error));
    if (text[0] == '\0')
        return true;
    assert_ok(spc__attrs_parse(&values, text, &r.error));
    for (int i = 0; i < values.count; i++) {
        const char *parameter = values.at[i].name;
        if (values.at[i].is_number)
            spc__attrs_set_number(&t->config, parameter, values.at[i].number);
        else
            spc__attrs_set_text(&t->config, parameter, values.at[i].text);
    }
    return spc__template_check(tpl, &problem, &r.target, &t->config,
                               &r.error) == SPC_OK;
}

/* A layer with its relation, and data of integers or of real numbers. */
typedef struct layer_data {
    spc_conv conv;
    relation rel;
    harness_data data;
} layer_data;

static void layer_open(layer_data *d, const layer *l, const char *device,
                       bool whole)
{
    assert_ok(harness_open(&r, device, 2));
    assert_ok(spc_conv_parse(&d->conv, l->text, &r.error));
    make_relation(&d->rel, &d->conv, l);
    harness_data_create(&d->data, &d->conv, d->rel.rows_in, whole);
}

static void layer_close(layer_data *d)
{
    harness_data_free(&d->data);
    relation_release(&d->rel);
    harness_close(&r);
}

/* ---- more than 2^31 elements --------------------------------------------- */

enum { FAR_ROWS = 48 * 1000 * 1000 };

/* Reserves address space. The system allocates only touched pages. */
static unsigned char *reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    return memory;
}

/* Moves the relation's rows far behind all other rows. */
static void move_away(layout *map)
{
    int64_t entries = (int64_t)map->view.offsets * map->view.rows_padded;

    for (int64_t i = 0; i < entries; i++)
        map->index[i] += map->index[i] >= 0 ? FAR_ROWS : 0;
    for (int i = 0; i < map->view.rows_padded; i++)
        map->order[i] += map->order[i] >= 0 ? FAR_ROWS : 0;
}

static void check_far_rows(const trial *t)
{
    size_t in_row = (size_t)t->conv->cin * t->data->element_bytes;
    size_t out_row = (size_t)t->conv->cout * t->data->element_bytes;
    size_t in_bytes = in_row * (FAR_ROWS + 1000);
    size_t out_bytes = out_row * (FAR_ROWS + 1000);
    unsigned char *in = reserve(in_bytes), *out = reserve(out_bytes);
    harness_kernel kernel;
    layout map;

    assert_ok(harness_build(&kernel, &r, t->template_name, t->conv, &t->config,
                            t->data, false));
    layout_create(&map, t->rel,
                  (int)spc__attrs_number(&kernel.launch, "tile_rows", 1), 0,
                  OWN_ORDER);
    move_away(&map);
    memcpy(in + in_row * FAR_ROWS, t->data->in_stored,
           in_row * (size_t)t->rel->rows_in);
    harness_run run =
        harness_prepare(&r, &kernel, t->conv, &map.view, t->data, out);
    size_t work_row =
        (size_t)spc__attrs_number(&kernel.launch, "workspace_row_bytes", 0);
    size_t work_bytes = harness_workspace_bytes(&run) + work_row * FAR_ROWS;
    run.args.in = in;
    if (work_row > 0)
        run.args.workspace = reserve(work_bytes);
    assert_ok(harness_enqueue(&run, NULL));
    compare(t, out + out_row * FAR_ROWS, "far rows");
    if (work_row > 0)
        munmap(run.args.workspace, work_bytes);
    layout_release(&map);
    harness_kernel_free(&r, &kernel);
    munmap(in, in_bytes);
    munmap(out, out_bytes);
}

/* Checks every template that accepts the layer; at least `least` of them must.
 * With `defaults`, only the default configurations. */
static void check_layer(const layer *l, const char *device, int least,
                        bool defaults, void (*check)(const trial *t))
{
    layer_data d;
    int checked = 0;

    layer_open(&d, l, device, true);
    float *want = results_of(&d.conv, &d.rel, &d.data);
    for (int i = 0; i < LENGTH(variants); i++) {
        trial t = {
            .conv = &d.conv, .rel = &d.rel, .data = &d.data, .want = want};
        if ((defaults && variants[i].values[0] != '\0') ||
            !configure(&t, variants[i].template_name, variants[i].values))
            continue;
        check(&t);
        checked++;
    }
    ck_assert_int_ge(checked, d.conv.groups > 1 ? 1 : least);
    free(want);
    layer_close(&d);
}

/* ---- tiles that several blocks sum ------------------------------ */

static const struct {
    layer layer;
    const char *template_name, *values;
} divided[] = {
    /* The layers have no rows, one row, one row less and one more than a tile
     * of 64, and more. */
    {{"conv,cin=16,cout=32,k=3,rule=floor", -1, 0}, "os_mma", "split=stream"},
    {{"subm,cin=16,cout=32,k=3", 1, 2}, "os_mma", "split=stream"},
    {{"subm,cin=16,cout=32,k=3", 63, 6}, "os_mma", "split=stream,m=1"},
    {{"subm,cin=16,cout=32,k=3,bias=1", 65, 6}, "os_mma", "split=cluster2,m=1"},
    {{"subm,cin=16,cout=64,k=3", 1000, 14}, "os_mma", "split=stream"},
    /* Layers with several blocks of input and output channels, with masks of
     * many words, and with tiles that have fewer offsets than a cluster has
     * blocks. */
    {{"subm,cin=64,cout=192,k=2", 65, 6},
     "os_mma",
     "split=stream,n=96,pieces=1"},
    {{"conv,cin=96,cout=128,k=5,rule=floor", 90, 0},
     "os_mma",
     "split=cluster4,pieces=1"},
    {{"inverse,cin=24,cout=32,k=2,stride=3,rule=floor,dtype=f32,bias=1", 150,
      9},
     "os_mma",
     "split=cluster2"},
    {{"conv,cin=16,cout=16,k=7,rule=floor,dtype=tf32", 90, 0},
     "os_mma",
     "split=stream"},
    /* The same for templates that use warpgroups. */
    {{"subm,cin=128,cout=64,k=3,bias=1", 1, 2},
     "os_wgmma",
     "split=cluster2,groups=2,pieces=1,stages=8"},
    {{"subm,cin=128,cout=128,k=2", 200, 7}, "os_wgmma", "split=stream"},
    {{"subm,cin=128,cout=128,k=2,bias=1", 129, 7},
     "os_wgmma",
     "split=cluster4,groups=2,pieces=2"},
    {{"conv,cin=96,cout=64,k=5,rule=floor", 200, 0},
     "os_wgmma",
     "split=stream,groups=2,pieces=1,stages=8"},
    {{"inverse,cin=32,cout=64,k=2,stride=3,rule=floor,dtype=f32", 300, 12},
     "os_wgmma",
     "split=stream,groups=2"},
    {{"subm,cin=64,cout=64,k=2,dtype=f32,bias=1", 130, 7},
     "os_wgmma",
     "split=atomic,groups=2,pieces=2"},
    {{"subm,cin=32,cout=48,k=3,dtype=tf32,bias=1", 65, 6},
     "os_mma",
     "split=atomic"},
    {{"inverse,cin=64,cout=128,k=2,stride=3,rule=floor,dtype=tf32", 150, 9},
     "os_mma",
     "split=cluster8"},
};

/* Indices of the table for the tests of repeated bits. */
enum { STREAM_OF_MANY = 4, CLUSTER_OF_FOUR = 11 };

static void set_schedule(int i)
{
    static const char *const schedules[] = {"forward", "reverse", "random:1",
                                            "random:2"};

    setenv("SPC_SIM_SCHEDULE", schedules[i % LENGTH(schedules)], 1);
    setenv("SPC_SIM_ASYNC", i % 3 == 1 ? "eager" : "deferred", 1);
}

START_TEST(a_divided_tile_has_the_sum_of_its_parts)
{
    layer_data d;

    set_schedule(_i);
    layer_open(&d, &divided[_i].layer, "sim", true);
    float *want = results_of(&d.conv, &d.rel, &d.data);
    trial t = {.conv = &d.conv,
               .rel = &d.rel,
               .data = &d.data,
               .want = want,
               .capacity = 2000};
    ck_assert_msg(configure(&t, divided[_i].template_name, divided[_i].values),
                  "%s %s: %s", divided[_i].template_name, divided[_i].values,
                  r.error.text);
    check_candidate(&t);
    free(want);
    layer_close(&d);
}
END_TEST

/* Stores the result of entry `number` for real data in `out`. Returns the
 * result's allocated bytes. */
static size_t run_divided(unsigned char **out, int number, int poison)
{
    layer_data d;
    harness_kernel kernel;
    layout map;

    layer_open(&d, &divided[number].layer, "sim", false);
    trial t = {.conv = &d.conv, .rel = &d.rel, .data = &d.data};
    ck_assert(
        configure(&t, divided[number].template_name, divided[number].values));
    assert_ok(harness_build(&kernel, &r, t.template_name, t.conv, &t.config,
                            t.data, false));
    layout_create(&map, t.rel,
                  (int)spc__attrs_number(&kernel.launch, "tile_rows", 1), 0,
                  MASK_ORDER);
    size_t bytes =
        (size_t)d.rel.rows * (size_t)d.conv.cout * d.data.element_bytes;
    *out = harness_allocate(bytes, 1);
    harness_run run =
        harness_prepare(&r, &kernel, t.conv, &map.view, t.data, *out);
    run.args.workspace = harness_allocate(harness_workspace_bytes(&run), 1);
    memset(run.args.workspace, poison, harness_workspace_bytes(&run));
    memset(*out, poison, bytes);
    assert_ok(harness_enqueue(&run, NULL));
    free(run.args.workspace);
    layout_release(&map);
    harness_kernel_free(&r, &kernel);
    layer_close(&d);
    return bytes;
}

/* Sums of real numbers depend on their order. */
START_TEST(a_divided_tile_is_the_same_to_the_bit_in_every_run)
{
    unsigned char *first, *again;
    int number = _i == 0 ? STREAM_OF_MANY : CLUSTER_OF_FOUR;

    set_schedule(0);
    size_t bytes = run_divided(&first, number, 0x5a);
    set_schedule(1);
    ck_assert_uint_eq(run_divided(&again, number, 0xff), bytes);
    ck_assert_mem_eq(first, again, bytes);
    free(first);
    free(again);
}
END_TEST

/* ---- compiled for other GPUs --------------------------------------------- */

static const struct {
    const char *target, *template_name, *layer, *values;
} compiled[] = {
    {"sm_75", "os_mma", "subm,cin=128,cout=128,k=3", "split=stream"},
    {"sm_80", "os_mma", "subm,cin=128,cout=128,k=3", "split=stream"},
    {"sm_86", "os_mma", "subm,cin=64,cout=64,k=5", "split=stream"},
    {"sm_89", "os_mma", "subm,cin=64,cout=64,k=3,dtype=f32", "split=stream"},
    {"sm_100", "os_mma", "subm,cin=128,cout=128,k=3", "split=cluster4"},
    {"sm_120", "os_mma", "subm,cin=256,cout=256,k=3", "split=cluster2"},
    {"sm_90a", "os_wgmma", "subm,cin=256,cout=256,k=3", "split=stream"},
    {"sm_90a", "os_wgmma", "subm,cin=128,cout=128,k=5", "split=cluster4"},
    {"sm_90a", "os_wgmma", "subm,cin=64,cout=64,k=3,dtype=f32",
     "split=stream,groups=2"},
};

static void compile_for(const trial *t, spc__compiler *nvrtc)
{
    spc__template *tpl = spc__library_find(r.library, t->template_name);
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__artefact artefact;
    spc__attrs problem;

    spc__conv_attrs(&problem, t->conv);
    assert_ok(spc__template_render(&text, tpl, &problem, &r.target, &t->config,
                                   &r.error));
    spc__compile_job job = {
        .source = text.data,
        .name = t->template_name,
        .target = spc__attrs_text(&r.target, "target", ""),
        .headers = r.library,
    };
    assert_ok(spc__compile(&artefact, nvrtc, &job, &log, &r.error));
    ck_assert_int_eq(spc__attrs_number(&artefact.resources, "spill_bytes", -1),
                     0);
    spc__artefact_release(&artefact);
    spc__buf_release(&text);
    spc__buf_release(&log);
}

START_TEST(divided_tiles_compile_without_spills)
{
    if (!suite_takes(_i))
        return;
    spc__compiler *nvrtc;
    spc_conv conv;
    trial t = {.conv = &conv};

    assert_ok(harness_open(&r, "sim", 1));
    assert_ok(spc__target_facts(&r.target, compiled[_i].target, &r.error));
    assert_ok(spc__nvrtc_open(&nvrtc, &r.error));
    assert_ok(spc_conv_parse(&conv, compiled[_i].layer, &r.error));
    ck_assert_msg(
        configure(&t, compiled[_i].template_name, compiled[_i].values),
        "%s: %s", compiled[_i].values, r.error.text);
    compile_for(&t, nvrtc);
    spc__compiler_close(nvrtc);
    harness_close(&r);
}
END_TEST

START_TEST(every_template_computes_every_relation_on_the_emulated_gpu)
{
    if (!suite_takes(_i))
        return;
    set_schedule(_i);
    check_layer(&layers[_i], "sim", 1, false, check_candidate);
}
END_TEST

START_TEST(every_template_computes_every_relation_on_the_cpu)
{
    if (suite_takes(_i))
        check_layer(&layers[_i], "cpu", 2, false, check_candidate);
}
END_TEST

/* The last rows of these layers are beyond 2^31 elements or bytes. */
static const layer far_layers[] = {
    {"subm,cin=64,cout=64,k=2", 60, 6},
    {"subm,cin=47,cout=45,k=2,dtype=f32", 40, 6},
    {"subm,cin=8,cout=64,k=2", 60, 6},
    {"subm,cin=64,cout=64,groups=64,k=2", 60, 6},
};

START_TEST(rows_behind_2_31_elements_are_found)
{
    check_layer(&far_layers[_i / 2], _i % 2 ? "cpu" : "sim", 1, true,
                check_far_rows);
}
END_TEST

static int run_nvrtc(void)
{
    spc__compiler *nvrtc = NULL;
    Suite *suite;
    TCase *all;

    if (spc__nvrtc_open(&nvrtc, NULL) != SPC_OK)
        return suite_skip("there is no NVRTC on this machine");
    spc__compiler_close(nvrtc);
    suite_sample(3);
    suite = suite_create("kernels, NVRTC");
    all = tcase_create("nvrtc");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, divided_tiles_compile_without_spills, 0,
                        LENGTH(compiled));
    suite_add_tcase(suite, all);
    return run_suite(suite);
}

int main(int argc, char **argv)
{
    if (suite_is_part(argc, argv, "nvrtc"))
        return run_nvrtc();
    suite_sample(6);
    Suite *suite = suite_create("kernels");
    TCase *sim = tcase_create("sim"), *cpu = tcase_create("cpu");
    TCase *parts = tcase_create("parts");

    tcase_set_timeout(sim, 300);
    tcase_add_loop_test(
        sim, every_template_computes_every_relation_on_the_emulated_gpu, 0,
        LENGTH(layers));
    suite_add_tcase(suite, sim);
    tcase_set_timeout(parts, 300);
    tcase_add_loop_test(parts, a_divided_tile_has_the_sum_of_its_parts, 0,
                        LENGTH(divided));
    tcase_add_loop_test(
        parts, a_divided_tile_is_the_same_to_the_bit_in_every_run, 0, 2);
    suite_add_tcase(suite, parts);
    tcase_set_timeout(cpu, 300);
    tcase_add_loop_test(cpu, every_template_computes_every_relation_on_the_cpu,
                        0, LENGTH(layers));
    tcase_add_loop_test(cpu, rows_behind_2_31_elements_are_found, 0,
                        2 * LENGTH(far_layers));
    suite_add_tcase(suite, cpu);
    return run_suite(suite);
}
