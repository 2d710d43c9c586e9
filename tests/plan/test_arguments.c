/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_arguments.c - calls every function of the public headers with NULL,
 * negative, huge and out-of-range arguments (arguments.h).
 *
 * Runs on "cpu". A call that gets memory as an address and a size must trust
 * the size, so sizes that are too large are not tested.
 */
#include "harness/arguments.h"
#include "harness/public_headers.h"
#include "spc/db.h"
#include "spc/lab.h"
#include "spc/train.h"

/* ---- good objects -------------------------------------------------------- */

/* Each test is a process of its own. Objects are made on first use, and a
 * call's changes cannot affect other tests. */

static spc_error made;

/* Makes malloc return NULL under AddressSanitizer if memory runs out. */
__attribute__((__visibility__("default"))) const char *
__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

#define MAKE(call) ck_assert_msg((call) == SPC_OK, "%s: %s", #call, made.text)
#define MAKE_IN(call)                                                          \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, spc_ctx_error(a_ctx()))

static const int32_t four_voxels[4][4] = {
    {0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}, {0, 1, 1, 1}};
/* Points of which clouds and voxels are made. */
static const float four_points[8][4] = {
    {0.1f, 0.1f, 0.1f, 1}, {1.1f, 0, 0, 2}, {2.1f, 1, 0, 3}, {3, 3, 3, 4}};

static _Alignas(256) float memory[1 << 16];

static spc_ctx *a_ctx(void)
{
    static spc_ctx *ctx;
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;

    o.device = "cpu";
    o.threads = 1;
    o.database = suite_database();
    o.shipped = "";
    if (ctx == NULL)
        MAKE(spc_ctx_create(&ctx, &o, &made));
    return ctx;
}

static spc_scene *a_scene(void)
{
    static spc_scene *scene;

    if (scene == NULL)
        MAKE(spc_scene_create(&scene, four_voxels[0], 4, "four", &made));
    return scene;
}

static spc_conv a_conv(const char *text)
{
    spc_conv conv;

    MAKE(spc_conv_parse(&conv, text, &made));
    return conv;
}

static spc_coords *a_set(void)
{
    static spc_coords *set;

    if (set == NULL)
        MAKE_IN(spc_coords_create_from_scene(&set, a_ctx(), a_scene()));
    return set;
}

static spc_coords *an_empty_set(void)
{
    static spc_coords *set;
    spc_coords_options o = SPC_COORDS_OPTIONS_INIT;

    o.capacity = 8;
    o.high[0] = o.high[1] = o.high[2] = o.high[3] = 8;
    if (set == NULL)
        MAKE_IN(spc_coords_create_reserved(&set, a_ctx(), &o));
    return set;
}

static spc_coords *a_regrouped_set(void)
{
    static spc_coords *set;
    spc_regrouping how = SPC_REGROUPING_INIT;
    spc_coords *source = a_set();

    if (set == NULL)
        MAKE_IN(spc_coords_create_regrouped(&set, &source, 1, &how, NULL));
    return set;
}

static spc_coords *outputs(void)
{
    static spc_coords *set;
    spc_conv conv =
        a_conv("conv,cin=8,cout=8,k=2,stride=2,rule=floor,dtype=f32");

    if (set == NULL)
        MAKE_IN(spc_coords_create_outputs(&set, a_set(), &conv.geometry));
    return set;
}

static const char same[] = "subm,cin=8,cout=8,k=3,dtype=f32";

static spc_map *a_map(void)
{
    static spc_map *map;
    spc_conv conv = a_conv(same);

    if (map == NULL)
        MAKE_IN(spc_map_create_from_scene(&map, a_ctx(), &conv, a_scene()));
    return map;
}

static spc_map *an_empty_map(void)
{
    static spc_map *map;
    spc_conv conv = a_conv(same);

    if (map == NULL)
        MAKE_IN(spc_map_create(&map, an_empty_set(), an_empty_set(),
                               &conv.geometry));
    return map;
}

static spc_plan *a_plan(void)
{
    static spc_plan *plan;
    spc_conv conv = a_conv(same);

    if (plan == NULL)
        MAKE_IN(spc_plan_create(&plan, a_ctx(), &conv, a_map(), 0));
    return plan;
}

static spc_plan *a_rows_plan(void)
{
    static spc_plan *plan;
    spc_conv conv = a_conv("linear,cin=8,cout=8,dtype=f32");

    if (plan == NULL)
        MAKE_IN(spc_plan_create_linear(&plan, a_ctx(), &conv, 4, 0));
    return plan;
}

static spc_feature_plan *a_feature_plan(void)
{
    static spc_feature_plan *plan;
    spc_feature feature;

    if (plan == NULL) {
        MAKE(spc_feature_parse(&feature, "act=relu,c=8,dtype=f32", &made));
        MAKE_IN(spc_feature_plan_create(&plan, a_ctx(), &feature, 0));
    }
    return plan;
}

static spc_points *a_cloud(void)
{
    static spc_points *cloud;

    if (cloud == NULL)
        MAKE_IN(
            spc_points_create(&cloud, a_ctx(), four_points[0], NULL, 4, NULL));
    return cloud;
}

static spc_voxelisation a_voxelisation(void)
{
    spc_voxelisation how = SPC_VOXELISATION_INIT;

    for (int i = 0; i < 3; i++) {
        how.voxel[i] = 1;
        how.high[i] = 8;
    }
    return how;
}

static spc_voxels *some_voxels(void)
{
    static spc_voxels *voxels;
    spc_voxelisation how = a_voxelisation();

    if (voxels == NULL)
        MAKE_IN(spc_voxels_create(&voxels, a_ctx(), &how, 8, 8));
    return voxels;
}

static spc_net *a_net(void)
{
    static spc_net *net;
    char path[4400];

    snprintf(path, sizeof(path), "%s/networks/chain.lua", SPC_TEST_DATA);
    if (net == NULL) {
        MAKE(spc_net_load(&net, path, SPC_F32, &made));
        MAKE(spc_net_init_params(net, 1, &made));
    }
    return net;
}

/* Returns a network to which layers can be added. */
static spc_net *a_bare_net(void)
{
    static spc_net *net;
    spc_net_input x = SPC_NET_INPUT_INIT;
    spc_tensor tensor;

    x.channels = 8;
    x.dtype = SPC_F32;
    if (net == NULL) {
        MAKE(spc_net_create(&net, "bare", &made));
        MAKE(spc_net_add_input(&tensor, net, &x, &made));
    }
    return net;
}

static spc_net_options four_rows(void)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;

    o.capacity = 4;
    o.high[1] = o.high[2] = o.high[3] = 3;
    o.keep = true;
    return o;
}

static spc_net_plan *a_net_plan(void)
{
    static spc_net_plan *plan;
    spc_net_options o = four_rows();

    if (plan == NULL)
        MAKE_IN(spc_net_plan_create(&plan, a_ctx(), a_net(), &o));
    return plan;
}

static spc_net_magnitudes *some_magnitudes(void)
{
    static spc_net_magnitudes *magnitudes;

    if (magnitudes == NULL)
        MAKE(spc_net_magnitudes_create(&magnitudes, a_net(), &made));
    return magnitudes;
}

static spc_training *a_training(void)
{
    static spc_training *training;

    if (training == NULL)
        MAKE_IN(spc_training_create(&training, a_ctx(), a_net(), a_scene(), 0));
    return training;
}

/* ---- values -------------------------------------------------------------- */

#define OBJECT(type, name, ...)                                                \
    static type *name(which w)                                                 \
    {                                                                          \
        type *const all[] = {__VA_ARGS__, NULL};                               \
        return PICK(all, w);                                                   \
    }

static spc_ctx *ctx(which w)
{
    spc_ctx *const all[] = {a_ctx(), NULL};

    return given_ctx = PICK(all, w);
}

OBJECT(spc_scene, scene, a_scene())
OBJECT(spc_coords, set, a_set(), an_empty_set(), outputs(), a_regrouped_set())
OBJECT(spc_coords, regrouped, a_regrouped_set(), a_set())
OBJECT(spc_map, map, a_map(), an_empty_map())
OBJECT(spc_plan, plan, a_plan(), a_rows_plan())
OBJECT(spc_plan, rows_plan, a_rows_plan(), a_plan())
OBJECT(spc_feature_plan, feature_plan, a_feature_plan())
OBJECT(spc_points, cloud, a_cloud())
OBJECT(spc_voxels, voxels, some_voxels())
OBJECT(spc_net, net, a_net())
OBJECT(spc_net, bare_net, a_bare_net())
OBJECT(spc_net_plan, net_plan, a_net_plan())
OBJECT(spc_net_magnitudes, magnitudes, some_magnitudes())
OBJECT(spc_training, training, a_training())

/* Frees nothing, because the next call may use the object. */
#define NOTHING(type, name)                                                    \
    static type *name(which w)                                                 \
    {                                                                          \
        (void)w;                                                               \
        return NULL;                                                           \
    }
NOTHING(spc_ctx, no_ctx)
NOTHING(spc_scene, no_scene)
NOTHING(spc_coords, no_set)
NOTHING(spc_map, no_map)
NOTHING(spc_plan, no_plan)
NOTHING(spc_feature_plan, no_feature_plan)
NOTHING(spc_points, no_cloud)
NOTHING(spc_voxels, no_voxels)
NOTHING(spc_net, no_net)
NOTHING(spc_net_plan, no_net_plan)
NOTHING(spc_net_magnitudes, no_magnitudes)
NOTHING(spc_training, no_training)
NOTHING(spc_relation, no_relation)
NOTHING(spc_point_rows, no_point_rows)

OUT_HANDLE(spc_ctx, ctx, spc_ctx_free)
OUT_HANDLE(spc_scene, scene, spc_scene_free)
OUT_HANDLE(spc_coords, set, spc_coords_free)
OUT_HANDLE(spc_map, map, spc_map_free)
OUT_HANDLE(spc_plan, plan, spc_plan_free)
OUT_HANDLE(spc_feature_plan, feature_plan, spc_feature_plan_free)
OUT_HANDLE(spc_points, cloud, spc_points_free)
OUT_HANDLE(spc_voxels, voxels, spc_voxels_free)
OUT_HANDLE(spc_net, net, spc_net_free)
OUT_HANDLE(spc_net_plan, net_plan, spc_net_plan_free)
OUT_HANDLE(spc_net_magnitudes, magnitudes, spc_net_magnitudes_free)
OUT_HANDLE(spc_training, training, spc_training_free)
OUT_HANDLE(char, text, free)

OUT_VALUE(spc_device_info, device_info)
OUT_VALUE(spc_conv, conv)
OUT_VALUE(spc_regrouping, regrouping)
OUT_VALUE(spc_row_lists, row_lists)
OUT_VALUE(spc_scene_info, scene_info)
OUT_VALUE(spc_voxels_info, voxels_info)
OUT_VALUE(spc_explanation, explanation)
OUT_VALUE(spc_feature, feature)
OUT_VALUE(spc_tensor, tensor)
OUT_VALUE(spc_voxelisation, voxelisation)
OUT_VALUE(spc_net_info, net_info)
OUT_VALUE(spc_tensor_info, tensor_info)
OUT_VALUE(spc_net_param, param)
OUT_VALUE(spc_net_output, net_output)
OUT_VALUE(spc_net_step, step)
OUT_VALUE(spc_net_verdict, verdict)
OUT_VALUE(spc_training_out, training_out)
OUT_VALUE(spc_bench_result, bench)
OUT_VALUE(spc_tune_report, report)
OUT_VALUE(spc_db_packed, packed)
OUT_VALUE(int64_t, count)
OUT_VALUE(int, int)
OUT_VALUE(double, double)

/* Receives the library's memory. */
static void **out_memory(which w)
{
    static slot s = {NULL, NULL, false};

    if (s.release == NULL)
        s.release = free; /* "cpu" allocates by malloc */
    return give_slot(&s, w);
}

static const void **out_pointer(which w)
{
    static const void *value;
    const void **const all[] = {&value, NULL};
    return PICK(all, w);
}

static spc_relation *out_relation(which w)
{
    static spc_relation value;
    spc_relation *const all[] = {&value, NULL};

    spc_relation_release(&value);
    memset(&value, 0, sizeof(value));
    return PICK(all, w);
}

static spc_point_rows *out_point_rows(which w)
{
    static spc_point_rows value;
    spc_point_rows *const all[] = {&value, NULL};

    spc_point_rows_release(&value);
    memset(&value, 0, sizeof(value));
    return PICK(all, w);
}

static spc_net_time *out_times(which w)
{
    static spc_net_time value[256];
    spc_net_time *const all[] = {value, NULL};
    return PICK(all, w);
}

static spc_net_floor *out_net_floors(which w)
{
    static spc_net_floor value[256];
    spc_net_floor *const all[] = {value, NULL};
    return PICK(all, w);
}

static spc_net_deviation *out_deviations(which w)
{
    static spc_net_deviation value[256];
    spc_net_deviation *const all[] = {value, NULL};
    return PICK(all, w);
}

static int *out_place(which w)
{
    static int value[3];
    int *const all[] = {value, NULL};
    return PICK(all, w);
}

#define BUFFER(type, name, at)                                                 \
    static type *name(which w)                                                 \
    {                                                                          \
        type *const all[] = {(type *)(at), NULL};                              \
        return PICK(all, w);                                                   \
    }
BUFFER(void, buffer, memory)
BUFFER(const void, other_buffer, memory + 4096)
BUFFER(float, floats_out, memory + 8192)
BUFFER(double, doubles, memory + 16384)
BUFFER(double, more_doubles, memory + 24576)
BUFFER(int32_t, ints_out, memory + 8192)
BUFFER(const float, floats, memory + 4096)
BUFFER(const int32_t, voxel_rows, four_voxels)
BUFFER(const float, points, four_points)

static spc_triplet *triplets_out(which w)
{
    return (spc_triplet *)(void *)ints_out(w);
}

static const int32_t *device_count(which w)
{
    static const int32_t many = INT32_MAX, below = -1, some = 2;
    const int32_t *const all[] = {NULL, &some, &many, &below};
    return PICK(all, w);
}

static const uint8_t *mask(which w)
{
    static uint8_t some[64] = {1, 0, 1, 0};
    const uint8_t *const all[] = {some, NULL};
    return PICK(all, w);
}

static uint8_t *mask_out(which w)
{
    static uint8_t some[64];
    uint8_t *const all[] = {some, NULL};
    return PICK(all, w);
}

static const void *const *pointers(which w)
{
    static const void *const good[8] = {memory, memory, memory, memory,
                                        memory, memory, memory, memory};
    static const void *const bad[8] = {NULL};
    const void *const *const all[] = {good, NULL, bad};
    return PICK(all, w);
}

static void *const *pointers_out(which w)
{
    static void *const good[8] = {memory, memory, memory, memory,
                                  memory, memory, memory, memory};
    static void *const bad[8] = {NULL};
    void *const *const all[] = {good, NULL, bad};
    return PICK(all, w);
}

static size_t small_bytes(which w)
{
    static const size_t all[] = {64, 0, 1};
    return PICK(all, w);
}

static size_t any_bytes(which w)
{
    static const size_t all[] = {64, 0, SIZE_MAX, SIZE_MAX / 2};
    return PICK(all, w);
}

static uint64_t seed(which w)
{
    static const uint64_t all[] = {1, 0, UINT64_MAX};
    return PICK(all, w);
}

static unsigned flags(which w)
{
    static const unsigned all[] = {0, 1, 2, 4, 3, 7, 8, 1u << 16, UINT_MAX};
    return PICK(all, w);
}

/* Defines a source of value 0 of an enumeration and of a value that it does not
 * have. */
#define ENUMERATION(type, name)                                                \
    static type name(which w)                                                  \
    {                                                                          \
        static const int all[] = {0, 1, 2, 3, 4, -1, 99, INT_MAX, INT_MIN};    \
        return (type)PICK(all, w);                                             \
    }
ENUMERATION(spc_dtype, dtype)
ENUMERATION(spc_operand, operand)
ENUMERATION(spc_pass, pass)
ENUMERATION(spc_weights_layout, layout)
ENUMERATION(spc_feature_op, feature_op)
ENUMERATION(spc_db_what, what)
ENUMERATION(spc_status, status)
ENUMERATION(spc_range_rule, range_rule)

static const char *word(which w)
{
    static char large[70000];
    const char *const all[] = {"a", NULL, "", "%s%n", "/", "\xff\xfe", large};

    memset(large, 'x', sizeof(large) - 1);
    return PICK(all, w);
}

static const char *conv_text(which w)
{
    const char *const all[] = {
        same,
        NULL,
        "",
        ",",
        "subm",
        "subm,cin=99999999999999999999,cout=8,k=3",
        "subm,cin=8,cout=8,k=2147483647x2147483647x2147483647",
        "conv,cin=8,cout=8,k=3,rule=floor,stride=0",
        "conv,cin=8,cout=8,k=3,rule=footprint,padding=-2147483648",
        "subm,cin=8,cout=8,offsets=32768x0x0",
        "points,cin=8,cout=8,k=3,radius=1e999"};
    return PICK(all, w);
}

static const char *feature_text(which w)
{
    const char *const all[] = {"act=relu,c=8",
                               NULL,
                               "",
                               ",",
                               "act",
                               "norm=group,c=8,groups=0",
                               "bev,c=8,shape=2147483647x2147483647x2147483647",
                               "act=relu,c=-1"};
    return PICK(all, w);
}

static const char *regrouping_text(which w)
{
    const char *const all[] = {"scale,by=2", NULL, "", "scale,by=-1",
                               "regroup,scale=2147483648,split=65"};
    return PICK(all, w);
}

static const char *scene_text(which w)
{
    const char *const all[] = {"gen:uniform,n=4,extent=4,seed=1",
                               NULL,
                               "",
                               "gen:",
                               "gen:shell,r=-1",
                               "gen:uniform,n=99999999999999999999",
                               "nowhere.bin@0.1",
                               "gen:room,n=10,level=31"};
    return PICK(all, w);
}

static const char *file(which w)
{
    static char path[4400];
    const char *const all[] = {path, NULL, "", "/", "/nowhere/at/all"};

    snprintf(path, sizeof(path), "%s/networks/chain.lua", SPC_TEST_DATA);
    return PICK(all, w);
}

static const char *no_file(which w)
{
    const char *const all[] = {"/nowhere/at/all.db", NULL, "", "/"};
    return PICK(all, w);
}

/* Sets one field of a geometry to any wrong value. */
static int spoil_geometry(spc_geometry *g, int how)
{
    static const int bad[] = {0, -1, INT_MAX, INT_MIN, 344};
    int *const fields[] = {&g->kernel[0],   &g->kernel[2],    &g->stride[1],
                           &g->dilation[2], &g->padding[0],   &g->origin[1],
                           &g->shape[2],    &g->offset_count, &g->nearest};
    enum { BAD = LENGTH(bad), FIELDS = LENGTH(fields) };

    if (how >= 0 && how < BAD * FIELDS)
        *fields[how / BAD] = bad[how % BAD];
    else if (how >= 0 && how < BAD * FIELDS + 9)
        g->rule = (spc_rule)(how - BAD * FIELDS - 1);
    else if (how == BAD * FIELDS + 9)
        g->radius = NAN;
    else if (how == BAD * FIELDS + 10)
        g->voxel = INFINITY;
    else if (how == BAD * FIELDS + 11) /* spoils all fields */
        for (int i = 0; i < FIELDS; i++)
            *fields[i] = INT_MAX;
    return BAD * FIELDS + 12;
}

static const spc_geometry *geometry_of(const char *text, which w)
{
    static spc_geometry g;
    int ways;

    g = a_conv(text).geometry;
    ways = spoil_geometry(&g, w.i - 2);
    if (w.varies)
        values = 2 + ways;
    return w.i == 1 ? NULL : &g;
}

static const spc_geometry *geometry(which w)
{
    return geometry_of(same, w);
}

static const spc_geometry *floor_geometry(which w)
{
    return geometry_of("conv,cin=8,cout=8,k=2,stride=2,rule=floor", w);
}

static const spc_geometry *radius_geometry(which w)
{
    return geometry_of("points,cin=8,cout=8,k=3,radius=1.5", w);
}

static int spoil_conv(spc_conv *conv, int how)
{
    static const int bad[] = {0, -1, 99, INT_MAX, INT_MIN};
    int op = (int)conv->op, dtype_is = (int)conv->dtype, act = 0, add = 0;
    int out = 0, pass_is = 0, sums = 0;
    int *const fields[] = {&conv->cin,
                           &conv->cout,
                           &conv->groups,
                           &conv->in_pitch,
                           &conv->out_pitch,
                           &conv->add_pitch,
                           &op,
                           &dtype_is,
                           &act,
                           &add,
                           &out,
                           &pass_is,
                           &sums};
    enum { BAD = LENGTH(bad), FIELDS = LENGTH(fields) };

    if (how >= 0 && how < BAD * FIELDS)
        *fields[how / BAD] = bad[how % BAD];
    conv->op = (spc_operator)op;
    conv->dtype = (spc_dtype)dtype_is;
    conv->activation = (spc_activation)act;
    conv->add = (spc_add)add;
    conv->out = (spc_out_type)out;
    conv->pass = (spc_pass)pass_is;
    conv->accumulator = (spc_accumulator)sums;
    if (how == BAD * FIELDS)
        conv->slope = NAN;
    return BAD * FIELDS + 1 +
           spoil_geometry(&conv->geometry, how - BAD * FIELDS - 1);
}

static const spc_conv *conv_of(const char *text, which w)
{
    static spc_conv conv;
    int ways;

    conv = a_conv(text);
    ways = spoil_conv(&conv, w.i - 2);
    if (w.varies)
        values = 2 + ways;
    return w.i == 1 ? NULL : &conv;
}

static const spc_conv *conv(which w)
{
    return conv_of(same, w);
}

static const spc_conv *linear(which w)
{
    return conv_of("linear,cin=8,cout=8,dtype=f32", w);
}

/* Passes only bad layers, for functions that would run for seconds. */
static const spc_conv *bad_conv(which w)
{
    return conv((which){w.i + 1, w.varies});
}

static const spc_feature *feature(which w)
{
    static const char *const texts[] = {
        "act=relu,c=8,dtype=f32", "norm=group,c=8,groups=2,affine=1",
        "bev,c=8,shape=4x4x2",    "groupsum,c=8,by=2",
        "repeat,c=8,by=2",        "pool=max,c=8,rule=floor,k=2,stride=2",
        "global=mean,c=8",        "pool=slices,c=8,rule=floor,k=2,stride=2"};
    static const int bad[] = {0, -1, 99, INT_MAX, INT_MIN};
    static spc_feature f;
    int op, dtype_is, reduction, act, order, pass_is, how = w.i - 2;
    int *const fields[] = {&f.channels, &f.groups, &f.by,     &f.shape[0],
                           &f.shape[2], &op,       &dtype_is, &reduction,
                           &act,        &order,    &pass_is};
    enum { BAD = LENGTH(bad), FIELDS = LENGTH(fields), ALL = BAD * FIELDS };
    int ways = ALL + spoil_geometry(&f.geometry, -1);

    if (w.varies)
        values = 2 + ways * LENGTH(texts);
    if (w.i == 1)
        return NULL;
    MAKE(spc_feature_parse(&f, texts[how > 0 ? how / ways % LENGTH(texts) : 0],
                           &made));
    how = how < 0 ? how : how % ways;
    op = (int)f.op, dtype_is = (int)f.dtype, reduction = (int)f.reduction;
    act = (int)f.activation, order = (int)f.order, pass_is = (int)f.pass;
    if (how >= 0 && how < ALL)
        *fields[how / BAD] = bad[how % BAD];
    f.op = (spc_feature_op)op, f.dtype = (spc_dtype)dtype_is;
    f.reduction = (spc_reduction)reduction;
    f.activation = (spc_activation)act;
    f.order = (spc_bev_order)order, f.pass = (spc_pass)pass_is;
    spoil_geometry(&f.geometry, how - ALL);
    return &f;
}

/* Passes only bad operators, for functions that would run for seconds. */
static const spc_feature *bad_feature(which w)
{
    static spc_feature none, no_channels = SPC_FEATURE_INIT,
                             many = SPC_FEATURE_INIT;
    const spc_feature *const all[] = {&none, NULL, &no_channels, &many};

    none.op = (spc_feature_op)99;
    many.channels = INT_MAX;
    return PICK(all, w);
}

/* Returns a valid struct with one field replaced. */
#define STRUCT(type, name, make, ...)                                          \
    static const type *name(which w)                                           \
    {                                                                          \
        static type s;                                                         \
        int n = 0, i = w.i - 2;                                                \
                                                                               \
        s = make;                                                              \
        __VA_ARGS__(void) i;                                                   \
        if (w.varies)                                                          \
            values = 2 + n;                                                    \
        return w.i == 1 ? NULL : &s;                                           \
    }
#define SET(field, value)                                                      \
    if (i == n++)                                                              \
        s.field = value;
#define SET_ALL(field)                                                         \
    SET(field, 0) SET(field, -1) SET(field, INT_MAX) SET(field, INT_MIN)
#define SET_ENUM(field, type)                                                  \
    SET(field, (type)99)                                                       \
    SET(field, (type)INT_MAX) SET(field, (type)INT_MIN) SET(field, (type)-1)
#define SET_REAL(field)                                                        \
    SET(field, 0)                                                              \
    SET(field, -1)                                                             \
    SET(field, INFINITY) SET(field, NAN) SET(field, 1e-300) SET(field, 1e300)
#define SET_ROWS(field)                                                        \
    SET_ALL(field) SET(field, INT64_MIN) SET(field, INT64_MAX)
/* Sets the size at the start of a struct. */
#define SET_BYTES                                                              \
    SET(bytes, 0)                                                              \
    SET(bytes, 8) SET(bytes, sizeof(s) + 8) SET(bytes, SIZE_MAX)

static const spc_regrouping one_to_one = SPC_REGROUPING_INIT;
static const spc_points_options some_points = {
    .bytes = sizeof(spc_points_options), 8, 1, {0, 0, 0}, {8, 8, 8}};
static const spc_gather four_floats = {SPC_F32, 8, false};
static const spc_coords_options eight_rows = {.bytes =
                                                  sizeof(spc_coords_options),
                                              8,
                                              {0, 0, 0, 0},
                                              {1, 8, 8, 8},
                                              0,
                                              SPC_DUPLICATES_ERROR};
static const spc_scales scales_of_one = {1, 1, 1};

static spc_ctx_options cpu_options(void)
{
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;

    o.device = "cpu";
    o.database = o.shipped = "";
    o.threads = 1;
    return o;
}

static spc_net_input an_input(void)
{
    spc_net_input x = SPC_NET_INPUT_INIT;

    x.channels = 8;
    return x;
}

static spc_net_layer a_layer(void)
{
    spc_net_layer layer = SPC_NET_LAYER_INIT;

    layer.conv = a_conv("subm,cin=8,cout=8,k=3,dtype=f32");
    layer.in = 0;
    return layer;
}

static spc_net_masked a_masked(void)
{
    spc_net_masked m = SPC_NET_MASKED_INIT;

    m.in = m.mask = 0;
    return m;
}

static spc_net_like a_like(void)
{
    spc_net_like like = SPC_NET_LIKE_INIT;

    return like;
}

static const spc_net_options good_net_options = {.bytes =
                                                     sizeof(spc_net_options),
                                                 4,
                                                 {0, 0, 0, 0},
                                                 {0, 3, 3, 3},
                                                 0,
                                                 2,
                                                 SPC_DUPLICATES_ERROR,
                                                 NULL,
                                                 0,
                                                 true,
                                                 0,
                                                 0};

static spc_tune_options list_options(void)
{
    spc_tune_options o = SPC_TUNE_OPTIONS_INIT;

    o.stage = SPC_STAGE_LIST;
    return o;
}

static spc_net_buffers net_buffers_of_four(void)
{
    static void *work;

    if (work == NULL)
        MAKE_IN(spc_memory_alloc(&work, a_ctx(),
                                 spc_net_plan_memory_bytes(a_net_plan())));
    return (spc_net_buffers){.bytes = sizeof(spc_net_buffers),
                             .coords = four_voxels[0],
                             .rows = 4,
                             .features = memory,
                             .memory = work};
}

static spc_plan_options plan_options_of_map(void)
{
    return (spc_plan_options)SPC_PLAN_OPTIONS_INIT;
}

static spc_explain_question a_question(void)
{
    static spc_conv conv;

    conv = a_conv(same);
    return (spc_explain_question){
        .bytes = sizeof(spc_explain_question), &conv, 4, 4, 10};
}

static spc_voxelisation good_voxelisation(void)
{
    return a_voxelisation();
}

/* clang-format off */
STRUCT(spc_ctx_options, ctx_options, cpu_options(), SET_BYTES
       SET(device, "") SET(device, "cuda:999999999999") SET(device, "%s%n")
       SET(device, "cpu:-1") SET(layer_count, -1) SET(layer_count, 1)
       SET(layer_count, INT_MIN) SET_ALL(threads) SET(template_dir, "/nowhere")
       SET(template_dir, "") SET(key, "") SET(key, "no key")
       SET(database, "/nowhere/at.db") SET(shipped, "/nowhere")
       SET(allow, "") SET(allow, "forward=%s%n") SET(allow, "=,="))
STRUCT(spc_plan_options, plan_options, plan_options_of_map(), SET_BYTES
       SET(flags, UINT_MAX) SET(rows, -1) SET(rows, INT64_MAX) SET(allow, "")
       SET(allow, "forward=%s%n") SET(allow, "=,="))
STRUCT(spc_coords_options, coords_options, eight_rows, SET_BYTES
       SET_ROWS(capacity) SET_ALL(low[0]) SET_ALL(low[2]) SET_ALL(high[3])
       SET_ALL(high[0]) SET_ALL(halo) SET_ENUM(duplicates, spc_duplicates))
STRUCT(spc_points_options, points_options, some_points, SET_BYTES
       SET_ROWS(capacity) SET_ALL(batches) SET_REAL(low[0]) SET_REAL(high[2]))
STRUCT(spc_regrouping, regrouping, one_to_one,
       SET_ALL(scale[0]) SET_ALL(split[2]) SET(split[1], 65))
STRUCT(spc_gather, gather, four_floats,
       SET_ALL(channels) SET_ENUM(dtype, spc_dtype) SET(slices, true))
STRUCT(spc_voxelisation, voxelisation, good_voxelisation(),
       SET_REAL(voxel[0]) SET_REAL(low[1]) SET_REAL(high[2]) SET_ALL(columns)
       SET_ALL(batches) SET_ALL(points) SET(batched, true)
       SET_ENUM(dtype, spc_dtype) SET_ENUM(features, spc_voxel_features))
STRUCT(spc_explain_question, question, a_question(), SET_BYTES
       SET(conv, NULL) SET_ROWS(rows_in) SET_ROWS(rows_out) SET_ROWS(pairs)
       SET(allow, "") SET(allow, "forward=%s%n"))
STRUCT(spc_net_input, net_input, an_input(), SET_BYTES
       SET(name, NULL) SET(name, "") SET_ALL(channels) SET_ALL(shape[0])
       SET_ENUM(dtype, spc_dtype) SET_REAL(voxel[1]) SET_REAL(low[1])
       SET_REAL(high[1]) SET_ALL(points) SET(cloud, true) SET(axes, "")
       SET(axes, "xyzw"))
STRUCT(spc_net_layer, net_layer, a_layer(), SET_BYTES
       SET(name, "") SET(name, "%n") SET_ALL(in) SET_ALL(residual) SET_ALL(at)
       SET(key, "") SET(norm, "") SET_REAL(eps) SET_ALL(conv.cin)
       SET_ALL(conv.cout) SET_ALL(conv.groups) SET_ALL(conv.geometry.kernel[0])
       SET_ALL(conv.geometry.offset_count) SET(conv.geometry.offset_count, 344)
       SET_ALL(conv.geometry.stride[1]) SET_ENUM(conv.op, spc_operator)
       SET_ENUM(conv.dtype, spc_dtype) SET_ENUM(conv.add, spc_add)
       SET(conv.add, SPC_ADD_BEFORE))
STRUCT(spc_net_masked, masked, a_masked(), SET_BYTES
       SET_ALL(in) SET_ALL(mask) SET_ALL(how.scale[0]) SET_ALL(how.split[0])
       SET_REAL(room) SET(above, NAN) SET(slices, true) SET(name, ""))
STRUCT(spc_net_like, net_like, a_like(), SET_BYTES
       SET_REAL(voxel[0]) SET_REAL(low[0]) SET_REAL(high[0]))
STRUCT(spc_net_options, net_options, good_net_options, SET_BYTES
       SET_ROWS(capacity) SET_ALL(low[0]) SET_ALL(low[1]) SET_ALL(high[0])
       SET_ALL(high[2]) SET(flags, UINT_MAX) SET_REAL(growth)
       SET_ENUM(duplicates, spc_duplicates) SET_ROWS(sample_rows)
       SET_ROWS(points) SET_REAL(neighbours))
STRUCT(spc_net_buffers, net_buffers, net_buffers_of_four(), SET_BYTES
       SET(coords, NULL) SET(features, NULL) SET(memory, NULL) SET_ROWS(rows)
       SET(memory, (char *)s.memory + 1))
STRUCT(spc_tune_options, tune_options, list_options(), SET_BYTES
       SET(only, "") SET(only, "none") SET(target, "") SET(target, "sm_0")
       SET(limit_s, NAN) SET(limit_s, -1) SET(budget_s, NAN)
       SET(budget_s, -1) SET_ENUM(stage, spc_stage)
       SET_ENUM(effort, spc_effort) SET(chosen, ""))
STRUCT(spc_scales, scales, scales_of_one,
       SET_REAL(in) SET_REAL(out) SET_REAL(residual))
STRUCT(spc_db_prune_options, prune_options, ((spc_db_prune_options)SPC_DB_PRUNE_OPTIONS_INIT), SET_BYTES
       SET_ROWS(before_unix_seconds))
STRUCT(spc_db_pack_options, pack_options, ((spc_db_pack_options)SPC_DB_PACK_OPTIONS_INIT), SET_BYTES
       SET(whole, true))
STRUCT(spc_background_options, background_options,
       ((spc_background_options)SPC_BACKGROUND_OPTIONS_INIT), SET_BYTES SET_ENUM(effort, spc_effort))
/* clang-format on */

static const spc_buffers *buffers(which w)
{
    static const spc_buffers good = {.bytes = sizeof(spc_buffers),
                                     .in = memory,
                                     .out = memory + 4096,
                                     .weights = memory + 8192,
                                     .workspace = memory + 32768};
    static const spc_buffers none = SPC_BUFFERS_INIT, unsized,
                             odd = {.bytes = sizeof(spc_buffers),
                                    .in = (const char *)memory + 1,
                                    .out = memory + 1,
                                    .weights = memory + 2,
                                    .workspace = memory};
    const spc_buffers *const all[] = {&good, NULL, &none, &odd, &unsized};
    return PICK(all, w);
}

static const spc_feature_buffers *feature_buffers(which w)
{
#define PITCHED(pitch)                                                         \
    {                                                                          \
        .bytes = sizeof(spc_feature_buffers), .in = memory,                    \
        .in_pitch = (pitch), .add = memory, .add_pitch = (pitch),              \
        .out = memory + 4096, .out_pitch = (pitch)                             \
    }
    static const spc_feature_buffers good = PITCHED(0),
                                     none = SPC_FEATURE_BUFFERS_INIT, unsized,
                                     negative = PITCHED(-1),
                                     huge = PITCHED(INT64_MAX),
                                     least = PITCHED(INT64_MIN);
#undef PITCHED
    const spc_feature_buffers *const all[] = {&good, NULL,   &none,   &negative,
                                              &huge, &least, &unsized};
    return PICK(all, w);
}

static spc_coords *const *sources(which w)
{
    static spc_coords *good[9], *none[9];
    spc_coords *const *const all[] = {good, NULL, none};

    for (int i = 0; i < LENGTH(good); i++)
        good[i] = a_set();
    return PICK(all, w);
}

static int source_count(which w)
{
    static const int all[] = {1, 0, -1, 9, INT_MAX, INT_MIN};
    return PICK(all, w);
}

static const spc_scene *const *scenes(which w)
{
    static const spc_scene *good[1], *none[1];
    const spc_scene *const *const all[] = {good, NULL, none};

    good[0] = a_scene();
    return PICK(all, w);
}

static int scene_count(which w)
{
    static const int all[] = {1, 0, -1, INT_MIN};
    return PICK(all, w);
}

static const spc_tensor *tensors(which w)
{
    static const spc_tensor good[8] = {0}, bad[8] = {-1, INT_MAX, INT_MIN, 99};
    const spc_tensor *const all[] = {good, NULL, bad};
    return PICK(all, w);
}

static spc_tensor no_tensor(which w)
{
    static const spc_tensor all[] = {SPC_NO_TENSOR, 0, INT_MAX, INT_MIN};
    return PICK(all, w);
}

static int64_t capacity(which w)
{
    static const int64_t all[] = {8, 0, -1, INT64_MIN, INT64_MAX, INT32_MAX};
    return PICK(all, w);
}

static int channels(which w)
{
    static const int all[] = {8, 0, -1, INT_MAX, INT_MIN};
    return PICK(all, w);
}

/* Returns fewer rows than the arrays have, for calls that trust the number. */
static int64_t few_rows(which w)
{
    static const int64_t all[] = {4, 0, -1, INT64_MIN};
    return PICK(all, w);
}

/* Callbacks. */
static int64_t seen;
#define EACH(name, ...)                                                        \
    static spc_status on_##name(__VA_ARGS__, void *payload)                    \
    {                                                                          \
        seen += payload == NULL;                                               \
        return SPC_OK;                                                         \
    }                                                                          \
    static spc_status (*name(which w))(__VA_ARGS__, void *)                    \
    {                                                                          \
        spc_status (*const all[])(__VA_ARGS__, void *) = {on_##name, NULL};    \
        return PICK(all, w);                                                   \
    }
EACH(each_row, const spc_db_row *record)
EACH(each_net, const spc_net_row *record)
EACH(each_fault, const spc_db_fault *fault)
EACH(each_write, const char *text, size_t bytes)
EACH(each_line, char side, const char *line)

static void on_trial(const spc_trial *trial, void *payload)
{
    seen += trial == payload;
}

static void (*each_trial(which w))(const spc_trial *, void *)
{
    void (*const all[])(const spc_trial *, void *) = {on_trial, NULL};
    return PICK(all, w);
}

static void *payload(which w)
{
    (void)w;
    return NULL;
}

static spc_db_exchange *exchange(which w)
{
    static spc_db_exchange value;
    spc_db_exchange *const all[] = {&value, NULL};
    return PICK(all, w);
}

/* ---- functions ----------------------------------------------------------- */

/* clang-format off */
#define FUNCTIONS(X)                                                           \
    X(V, 0, spc_version, none)                                                 \
    X(V, 1, spc_struct_bytes, word)                                            \
    X(S, 3, spc_ctx_create, out_ctx, ctx_options, error)                       \
    X(V, 1, spc_ctx_free, no_ctx)                                              \
    X(V, 1, spc_ctx_error, ctx)                                                \
    X(V, 2, spc_error_text, error, ctx)                                        \
    X(V, 1, spc_ctx_stats, ctx)                                                \
    X(V, 2, spc_devices_list, out_device_info, device_capacity)                    \
    X(S, 2, spc_ctx_device, out_device_info, ctx)                              \
    X(S, 1, spc_device_measure, null_ctx)                                      \
    X(S, 3, spc_memory_alloc, out_memory, ctx, any_bytes)                             \
    X(V, 2, spc_memory_free, ctx, null_memory)                                     \
    X(S, 4, spc_memory_upload, buffer, ctx, other_buffer, small_bytes)        \
    X(S, 4, spc_memory_download, buffer, ctx, other_buffer, small_bytes)          \
    X(S, 1, spc_ctx_synchronize, ctx)                                              \
    X(S, 2, spc_geometry_check, geometry, error)                               \
    X(V, 1, spc_geometry_offset_count, geometry)                                    \
    X(V, 3, spc_geometry_offset_at, out_place, geometry, number)                  \
    X(V, 1, spc_dtype_name, dtype)                                             \
    X(S, 3, spc_conv_parse, out_conv, conv_text, error)                        \
    X(V, 3, spc_conv_format, text_out, text_bytes, conv)                       \
    X(S, 2, spc_conv_check, conv, error)                                       \
    X(S, 4, spc_conv_pass, out_conv, conv, pass, error)                        \
    X(V, 1, spc_conv_is_linear, conv)                                          \
    X(V, 3, spc_conv_operand_bytes, conv, operand, rows)                               \
    X(S, 3, spc_scene_load, out_scene, scene_text, error)                      \
    X(S, 5, spc_scene_create, out_scene, voxel_rows, rows_of_four, word, error)\
    X(V, 1, spc_scene_free, no_scene)                                          \
    X(V, 1, spc_scene_rows, scene)                                             \
    X(V, 1, spc_scene_coords, scene)                                           \
    X(V, 1, spc_scene_name, scene)                                             \
    X(V, 2, spc_scene_describe, out_scene_info, scene)                         \
    X(S, 4, spc_point_rows_load, out_point_rows, scene_text, number, error)    \
    X(V, 1, spc_point_rows_release, no_point_rows)                             \
    X(S, 5, spc_coords_create, out_set, ctx, voxel_rows, rows_of_four, stream) \
    X(S, 3, spc_coords_create_from_scene, out_set, ctx, scene)                 \
    X(S, 3, spc_coords_create_outputs, out_set, set, floor_geometry)           \
    X(S, 3, spc_coords_create_reserved, out_set, ctx, coords_options)                  \
    X(S, 4, spc_coords_create_outputs_reserved, out_set, set, floor_geometry, capacity)\
    X(V, 1, spc_coords_free, no_set)                                           \
    X(S, 5, spc_coords_update, set, voxel_rows, device_count, rows_of_four,    \
      stream)                                                                  \
    X(S, 2, spc_coords_check, set, stream)                                     \
    X(S, 5, spc_coords_merge_features, set, buffer, dtype, channels, stream)            \
    X(V, 1, spc_coords_rows, set)                                              \
    X(V, 1, spc_coords_capacity, set)                                          \
    X(V, 1, spc_coords_reserved, set)                                          \
    X(S, 2, spc_coords_set_capacity, set, capacity)                            \
    X(V, 1, spc_coords_key_bits, set)                                          \
    X(V, 1, spc_coords_device_count, set)                                             \
    X(V, 1, spc_coords_data, set)                                              \
    X(S, 3, spc_regrouping_parse, out_regrouping, regrouping_text, error)      \
    X(V, 3, spc_regrouping_format, text_out, text_bytes, regrouping)           \
    X(S, 2, spc_regrouping_check, regrouping, error)                           \
    X(S, 5, spc_coords_create_regrouped_reserved, out_set, sources, source_count,      \
      regrouping, capacity)                                                    \
    X(S, 5, spc_coords_create_regrouped, out_set, sources, source_count,       \
      regrouping, mask)                                                        \
    X(S, 3, spc_coords_update_regrouped, regrouped, mask, stream)                       \
    X(S, 6, spc_coords_mask_above, mask_out, regrouped, pointers, dtype, real,       \
      stream)                                                                  \
    X(S, 5, spc_coords_gather_features, buffer, regrouped, pointers, gather, stream)    \
    X(S, 5, spc_coords_scatter_features, pointers_out, regrouped, other_buffer, gather,  \
      stream)                                                                  \
    X(V, 2, spc_coords_row_lists, out_row_lists, set)                          \
    X(S, 2, spc_voxelisation_check, voxelisation, error)                       \
    X(S, 5, spc_voxels_create, out_voxels, ctx, voxelisation, capacity,        \
      capacity)                                                                \
    X(V, 1, spc_voxels_free, no_voxels)                                        \
    X(S, 5, spc_voxels_update, voxels, points, device_count, rows_of_four,     \
      stream)                                                                  \
    X(S, 3, spc_voxels_check, out_voxels_info, voxels, stream)                 \
    X(S, 4, spc_voxels_verify, out_double, voxels, points, few_rows)           \
    X(V, 1, spc_voxels_coords, voxels)                                         \
    X(V, 1, spc_voxels_device_count, voxels)                                          \
    X(V, 1, spc_voxels_features, voxels)                                       \
    X(V, 1, spc_voxels_point_counts, voxels)                                         \
    X(S, 6, spc_points_create, out_cloud, ctx, points, no_batch, rows_of_four, \
      stream)                                                                  \
    X(S, 3, spc_points_create_reserved, out_cloud, ctx, points_options)                \
    X(S, 3, spc_points_create_sampled, out_cloud, cloud, real)                \
    X(S, 3, spc_points_create_centred, out_cloud, cloud, real)                 \
    X(V, 1, spc_points_free, no_cloud)                                         \
    X(S, 6, spc_points_update, cloud, points, no_batch, device_count,          \
      rows_of_four, stream)                                                    \
    X(S, 2, spc_points_check, cloud, stream)                                   \
    X(V, 1, spc_points_rows, cloud)                                            \
    X(V, 1, spc_points_capacity, cloud)                                        \
    X(V, 1, spc_points_device_count, cloud)                                           \
    X(V, 1, spc_points_data, cloud)                                            \
    X(V, 1, spc_points_sources, cloud)                                         \
    X(S, 5, spc_map_create_radius, out_map, cloud, cloud, radius_geometry, capacity)  \
    X(S, 5, spc_map_create_radius_inverse, out_map, cloud, cloud, radius_geometry,    \
      capacity)                                                                \
    X(S, 2, spc_map_download_triplets, triplets_out, map)                               \
    X(S, 4, spc_map_create, out_map, set, set, geometry)                       \
    X(S, 4, spc_map_create_inverse, out_map, set, set, geometry)               \
    X(S, 5, spc_map_update, map, voxel_rows, device_count, rows_of_four,       \
      stream)                                                                  \
    X(S, 2, spc_map_check, map, stream)                                        \
    X(S, 4, spc_map_check_many, failed_out, map_list, one_of_them, stream)     \
    X(V, 1, spc_map_fit_lists, map)                                            \
    X(S, 4, spc_map_create_from_scene, out_map, ctx, conv, scene)              \
    X(S, 6, spc_map_create_from_rows, out_map, ctx, conv, voxel_rows,        \
      rows_of_four, stream)                                                    \
    X(S, 6, spc_record_layer, ctx, no_folder, conv, voxel_rows, rows_of_four,       \
      stream)                                                                  \
    X(V, 1, spc_map_free, no_map)                                              \
    X(V, 1, spc_map_in, map)                                                   \
    X(V, 1, spc_map_out, map)                                                  \
    X(V, 1, spc_map_rows_out, map)                                                 \
    X(V, 1, spc_map_rows_in, map)                                              \
    X(V, 1, spc_map_pairs, map)                                                \
    X(V, 1, spc_map_density, map)                                              \
    X(V, 1, spc_map_key_bits, map)                                             \
    X(S, 2, spc_map_download, ints_out, map)                                   \
    X(S, 5, spc_plan_create, out_plan, ctx, conv, map, flags)                  \
    X(S, 5, spc_plan_create_with, out_plan, ctx, conv, map, plan_options)      \
    X(V, 1, spc_plan_free, no_plan)                                            \
    X(V, 1, spc_plan_match, plan)                                             \
    X(V, 1, spc_plan_reason, plan)                                             \
    X(V, 1, spc_plan_level, plan)                                              \
    X(V, 1, spc_plan_is_shipped, plan)                                         \
    X(V, 1, spc_plan_template, plan)                                           \
    X(V, 1, spc_plan_config, plan)                                             \
    X(V, 1, spc_plan_weights_bytes, plan)                                      \
    X(V, 2, spc_plan_workspace_bytes, plan, map)                               \
    X(V, 2, spc_plan_fits, plan, map)                                          \
    X(V, 1, spc_ctx_is_from_this_process, ctx)                                              \
    X(V, 1, spc_plan_ctx, plan)                                                \
    X(V, 1, spc_map_ctx, map)                                                  \
    X(V, 1, spc_coords_ctx, set)                                               \
    X(S, 4, spc_explain, out_explanation, ctx, question, flags)                \
    X(S, 5, spc_plan_pack, buffer, plan, other_buffer, layout, stream) \
    X(S, 7, spc_plan_pack_many, failed_out, packed_list, plan_list,        \
      weights_list, one_of_them, layout, stream)                               \
    X(S, 3, spc_map_prepare, map, plan, stream)                                \
    X(S, 4, spc_plan_execute, plan, map, buffers, stream)                      \
    X(S, 5, spc_plan_create_linear, out_plan, ctx, linear, rows, flags)          \
    X(V, 2, spc_plan_workspace_bytes_linear, rows_plan, rows)                          \
    X(S, 5, spc_plan_execute_linear, rows_plan, rows_of_four, device_count,      \
      buffers, stream)                                                         \
    X(S, 3, spc_feature_parse, out_feature, feature_text, error)               \
    X(V, 3, spc_feature_format, text_out, text_bytes, feature)                 \
    X(S, 2, spc_feature_check, feature, error)                                 \
    X(S, 4, spc_feature_pass, out_feature, feature, pass, error)               \
    X(V, 1, spc_feature_example_at, number)                                       \
    X(V, 3, spc_feature_words, text_out, text_bytes, feature_op)               \
    X(V, 1, spc_feature_elements_out, feature)                                      \
    X(V, 1, spc_feature_elements_in, feature)                                       \
    X(V, 3, spc_feature_rows_out, feature, rows, rows)                         \
    X(V, 3, spc_feature_rows_in, feature, rows, rows)                          \
    X(V, 3, spc_feature_rows_add, feature, rows, rows)                         \
    X(S, 4, spc_feature_plan_create, out_feature_plan, ctx, feature, flags)    \
    X(V, 1, spc_feature_plan_free, no_feature_plan)                            \
    X(V, 2, spc_feature_plan_workspace_bytes, feature_plan, set)                    \
    X(S, 3, spc_feature_plan_prepare, feature_plan, map, stream)                    \
    X(S, 5, spc_feature_plan_execute, feature_plan, set, no_map, feature_buffers,   \
      stream)                                                                  \
    X(V, 1, spc_coords_batches, set)                                           \
    X(V, 1, spc_operators, number)                                             \
    X(S, 3, spc_net_create, out_net, word, error)                              \
    X(S, 4, spc_net_load, out_net, file, dtype, error)                         \
    X(S, 5, spc_net_load_like, out_net, file, dtype, net_like, error)          \
    X(V, 1, spc_net_free, no_net)                                              \
    X(S, 5, spc_net_store, ctx, net, word, word, flag)                         \
    X(S, 3, spc_net_open, out_net, ctx, word)                                  \
    X(S, 2, spc_net_remove, ctx, word)                                         \
    X(S, 3, spc_net_each, ctx, each_net, payload)                              \
    X(S, 4, spc_net_add_input, out_tensor, empty_net, net_input, error)        \
    X(S, 4, spc_net_add_conv, out_tensor, bare_net, net_layer, error)          \
    X(S, 8, spc_net_add_feature, out_tensor, bare_net, word, feature, number,  \
      no_tensor, no_tensor, error)                                             \
    X(S, 5, spc_net_add_concat, out_tensor, bare_net, tensors, source_count,   \
      error)                                                                   \
    X(S, 7, spc_net_add_regroup, out_tensor, bare_net, tensors, source_count,  \
      regrouping, flag, error)                                                 \
    X(S, 4, spc_net_add_masked, out_tensor, bare_net, masked, error)           \
    X(S, 4, spc_net_add_output, bare_net, number, word, error)                 \
    X(S, 4, spc_net_load_scene, out_scene, net, scene_text, error)                  \
    X(S, 4, spc_net_voxelisation, out_voxelisation, net, number, error)        \
    X(V, 2, spc_net_describe, out_net_info, net)                               \
    X(V, 2, spc_net_note_at, net, number)                                         \
    X(S, 3, spc_net_add_note, bare_net, word, error)                           \
    X(S, 4, spc_net_tensor_at, out_tensor_info, net, number, error)               \
    X(S, 3, spc_net_param_at, out_param, net, number)                          \
    X(S, 6, spc_net_set_param, net, layer_name, operand, floats, param_count,  \
      error)                                                                   \
    X(S, 3, spc_net_init_params, bare_net, seed, error)                        \
    X(S, 4, spc_net_quantise, out_int, net, ranges, error)                     \
    X(S, 4, spc_net_plan_create, out_net_plan, ctx, net, net_options)          \
    X(V, 1, spc_net_plan_free, no_net_plan)                                    \
    X(V, 1, spc_net_plan_memory_bytes, net_plan)                                    \
    X(V, 1, spc_net_plan_weights_bytes, net_plan)                                   \
    X(S, 3, spc_net_plan_execute, net_plan, net_buffers, stream)                    \
    X(S, 2, spc_net_plan_check, net_plan, stream)                                   \
    X(S, 2, spc_net_plan_capture, net_plan, net_buffers)                            \
    X(S, 2, spc_net_plan_replay, net_plan, stream)                                  \
    X(S, 3, spc_net_plan_output_at, out_net_output, net_plan, number)               \
    X(V, 1, spc_net_plan_step_count, net_plan)                                           \
    X(S, 3, spc_net_plan_step_at, out_step, net_plan, number)                       \
    X(S, 3, spc_net_plan_scene_of_set, out_scene, net_plan, number)                    \
    X(S, 3, spc_record_layers, net_plan, no_folder, net_buffers)                 \
    X(S, 4, spc_net_plan_verify, out_verdict, net_plan, net_buffers, scene)         \
    X(S, 3, spc_net_plan_widen_ranges, floats_out, net_plan, net_buffers)                 \
    X(S, 3, spc_net_plan_profile, out_times, net_plan, net_buffers)                 \
    X(S, 3, spc_net_plan_floors, out_net_floors, net_plan, device_name)             \
    X(S, 3, spc_net_magnitudes_create, out_magnitudes, net, error)             \
    X(V, 1, spc_net_magnitudes_free, no_magnitudes)                            \
    X(S, 3, spc_net_magnitudes_add, magnitudes, net_plan, net_buffers)              \
    X(S, 5, spc_net_magnitudes_ranges, floats_out, magnitudes, range_rule, real,    \
      error)                                                                   \
    X(S, 5, spc_net_plan_deviations, out_deviations, net_plan, net_buffers,         \
      net_plan, net_buffers)                                                   \
    X(S, 5, spc_training_create, out_training, ctx, net, scene, flags)         \
    X(V, 1, spc_training_free, no_training)                                    \
    X(V, 1, spc_training_rows, training)                                       \
    X(S, 3, spc_training_output_at, out_training_out, training, number)           \
    X(S, 4, spc_training_forward, out_pointer, training, other_buffer, stream)      \
    X(S, 3, spc_training_backward, training, other_buffer, stream)                  \
    X(S, 4, spc_training_backward_all, training, pointers, source_count, stream)    \
    X(V, 1, spc_training_features_gradient, training)                                   \
    X(S, 6, spc_training_get_param, floats_out, floats_out, training, layer_name,     \
      operand, param_count)                                                 \
    X(S, 5, spc_training_set_param, training, layer_name, operand, floats,     \
      param_count)                                                             \
    X(S, 2, spc_training_descend, training, real)                              \
    X(S, 5, spc_oracle_relation, out_relation, conv, scene, number, error)     \
    X(V, 1, spc_relation_release, no_relation)                                 \
    X(V, 9, spc_oracle_sums, doubles, more_doubles, conv, no_pairs, few_rows,       \
      floats, floats, floats, number)                                          \
    X(V, 6, spc_oracle_epilogue, doubles, conv, few_rows, floats, floats,      \
      floats)                                                                  \
    X(V, 7, spc_oracle_quantised, doubles, conv, few_rows, scales, floats,     \
      floats, floats)                                                          \
    X(S, 6, spc_tune, out_report, ctx, conv, scenes, scene_count,            \
      tune_options)                                                              \
    X(S, 6, spc_tune_map, out_report, ctx, conv, scenes, scene_count,        \
      tune_options)                                                              \
    X(S, 1, spc_tune_worker, null_ctx)                                         \
    X(S, 5, spc_candidate_render, out_text, ctx, conv, word, number)               \
    X(S, 5, spc_bench, out_bench, ctx, bad_conv, scene, seed)                  \
    X(S, 6, spc_bench_capacity, out_bench, ctx, bad_conv, scene, seed,          \
      capacity)                                                               \
    X(S, 5, spc_feature_bench, out_bench, ctx, bad_feature, scene, seed)       \
    X(S, 7, spc_bench_floor, out_bench, ctx, word, conv, real_double, real_double,   \
      real_double)                                                             \
    X(S, 6, spc_feature_verify, out_double, ctx, bad_feature, scenes, scene_count,   \
      seed)                                                              \
    X(S, 5, spc_regrouping_verify, ctx, bad_regrouping, scenes, scene_count,   \
      seed)                                                                    \
    X(S, 2, spc_background_start, ctx, background_options)                     \
    X(V, 1, spc_background_wait, ctx)                                          \
    X(V, 1, spc_plan_is_outdated, plan)                                        \
    X(S, 3, spc_db_each, ctx, each_row, payload)                               \
    X(S, 3, spc_db_each_record, ctx, each_row, payload)                        \
    X(S, 4, spc_db_each_trial, ctx, rows, each_trial, payload)                     \
    X(S, 4, spc_db_verify, out_count, ctx, each_fault, payload)                \
    X(S, 5, spc_db_export, out_count, ctx, what, each_write, payload)          \
    X(S, 4, spc_db_import, ctx, text_out_const, small_bytes, exchange)         \
    X(S, 3, spc_db_merge, ctx, no_file, exchange)                              \
    X(S, 4, spc_db_diff, ctx, no_file, each_line, payload)                     \
    X(S, 4, spc_db_pack, out_packed, ctx, no_file, pack_options)               \
    X(S, 3, spc_db_prune, out_count, ctx, prune_options)                       \
    X(S, 2, spc_db_restore, out_count, ctx)                                    \
    X(S, 3, spc_db_pin, ctx, rows, word)                                       \
    X(V, 1, spc_status_name, status)                                           \
    X(V, 1, spc_status_text, status)                                           \
    X(V, 1, spc_status_exit_code, status)
/* clang-format on */

/* ---- values of single functions ------------------------------------------ */

NOTHING(void, null_memory)
NOTHING(spc_ctx, null_ctx)
NOTHING(const int32_t, no_batch)

static int device_capacity(which w)
{
    static const int all[] = {1, 0, -1, INT_MIN};
    return PICK(all, w);
}

/* Row counts for arrays of four rows: fewer rows, and impossible counts. */
static int64_t rows_of_four(which w)
{
    static const int64_t all[] = {4,         0,         -1,
                                  INT64_MIN, INT64_MAX, INT64_MAX / 16};
    return PICK(all, w);
}

static const char *no_folder(which w)
{
    const char *const all[] = {"/dev/null/nowhere", NULL, "", "a b"};
    return PICK(all, w);
}

static const char *device_name(which w)
{
    const char *const all[] = {NULL, "NVIDIA H200", "", "%s%n"};
    return PICK(all, w);
}

static spc_net *empty_net(which w)
{
    static spc_net *net;
    spc_net *all[] = {NULL, NULL};

    spc_net_free(net);
    MAKE(spc_net_create(&net, "empty", &made));
    all[0] = net;
    return PICK(all, w);
}

static const char *layer_name(which w)
{
    const char *const all[] = {"a", NULL, "", "%s%n"};
    return PICK(all, w);
}

static int64_t param_count(which w)
{
    static const int64_t all[] = {27 * 64, 0, -1, INT64_MIN, INT64_MAX};
    return PICK(all, w);
}

static const float *ranges(which w)
{
    static const float good[64] = {1}, bad[64] = {NAN, -1, INFINITY};
    const float *const all[] = {good, NULL, bad};
    return PICK(all, w);
}

static const int32_t *no_pairs(which w)
{
    static int32_t none[SPC_MAX_OFFSETS * 4];
    const int32_t *const all[] = {none, NULL};

    memset(none, 0xff, sizeof(none));
    return PICK(all, w);
}

static const spc_regrouping *bad_regrouping(which w)
{
    return regrouping((which){w.i + 1, w.varies});
}

static const char *text_out_const(which w)
{
    static const char zeros[64];
    const char *const all[] = {zeros, NULL};
    return PICK(all, w);
}

static int *failed_out(which w)
{
    static int failed;
    int *const all[] = {&failed, NULL};
    return PICK(all, w);
}

static const spc_plan *const *plan_list(which w)
{
    static const spc_plan *plans[1], *none[1];
    const spc_plan *const *const all[] = {plans, NULL, none};

    plans[0] = a_plan();
    return PICK(all, w);
}

static spc_map *const *map_list(which w)
{
    static spc_map *maps[1], *none[1];
    spc_map *const *const all[] = {maps, NULL, none};

    maps[0] = a_map();
    return PICK(all, w);
}

static void *const *packed_list(which w)
{
    static void *good[1] = {memory}, *none[1];
    void *const *const all[] = {good, NULL, none};
    return PICK(all, w);
}

static const void *const *weights_list(which w)
{
    static const void *good[1] = {memory + (1 << 14)}, *none[1];
    const void *const *const all[] = {good, NULL, none};
    return PICK(all, w);
}

static int one_of_them(which w)
{
    static const int all[] = {1, 0, -1, INT_MIN};
    return PICK(all, w);
}

FUNCTIONS(TRY)

static const row table[] = {FUNCTIONS(ROW)};

START_TEST(a_function_answers_whatever_its_arguments_are)
{
    try_row(&table[_i]);
}
END_TEST

START_TEST(every_public_function_is_tried)
{
    glob_t headers;

    find_headers(&headers);
    for (size_t i = 0; i < headers.gl_pathc; i++)
        check_table(headers.gl_pathv[i], table, LENGTH(table));
    globfree(&headers);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arguments");
    TCase *one = tcase_create("each");

    tcase_set_timeout(one, 60);
    tcase_add_test(one, every_public_function_is_tried);
    tcase_add_loop_test(one, a_function_answers_whatever_its_arguments_are, 0,
                        LENGTH(table));
    suite_add_tcase(suite, one);
    return run_suite(suite);
}
