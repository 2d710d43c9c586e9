/*
 * test_properties.c - what convolutions are beyond their sums: linear, the same
 * wherever they stand, blind to other batch elements and to the order of rows,
 * with a transpose, and with groups that are blocks of their weights. Held
 * against themselves, not against the oracle: whole layers through plans, on
 * integers, where all of that is exact.
 *
 *     test_properties [sim|cpu|cuda]
 */
#include "dtype.h"
#include "epilogue.h"
#include "layer_rig.h"
#include "plan.h"
#include "random.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const devices[] = {"cpu", "sim"};
enum { DEVICES = 2, MOST = 200 };

/* ---- voxels -------------------------------------------------------------- */

typedef struct cloud {
    int rows;
    int32_t at[MOST][4];
} cloud;

/* Of three batch elements, which are behind each other; from -4 on. */
static void draw_cloud(cloud *out, int each, int extent)
{
    spc__random random;

    spc__random_init(&random, 5);
    out->rows = 0;
    for (int b = 0; b < 3; b++)
        for (int32_t cell = 0; cell < extent * extent * extent; cell++) {
            int left = extent * extent * extent - cell;
            int wanted = (b + 1) * each - out->rows;
            if ((int)spc__random_below(&random, (uint32_t)left) >= wanted)
                continue;
            int32_t *at = out->at[out->rows++];
            at[0] = b;
            at[1] = cell / extent / extent - 4;
            at[2] = cell / extent % extent - 4;
            at[3] = cell % extent - 4;
        }
}

/* ---- a layer on them ----------------------------------------------------- */

typedef struct layer {
    spc_ctx *ctx;
    spc_conv conv;
    spc_map *map;
    int64_t rows_in, rows_out;
} layer;

static spc_conv conv_of(const char *text)
{
    spc_conv conv;
    spc_error error = {0};

    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    return conv;
}

static void layer_open(layer *out, spc_ctx *ctx, const spc_conv *conv,
                       const cloud *voxels)
{
    void *coords = NULL;
    size_t bytes = (size_t)voxels->rows * 16;

    *out = (layer){.ctx = ctx, .conv = *conv};
    assert_ok(spc_alloc(&coords, ctx, bytes + 16), spc_ctx_error(ctx));
    assert_ok(spc_copy_to_device(ctx, coords, voxels->at, bytes),
              spc_ctx_error(ctx));
    assert_ok(spc_map_create_from_coords(&out->map, ctx, conv, coords,
                                         voxels->rows, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_synchronize(ctx), spc_ctx_error(ctx));
    spc_dealloc(ctx, coords);
    out->rows_in = spc_map_rows_in(out->map);
    out->rows_out = spc_map_rows(out->map);
}

static void layer_close(layer *l)
{
    spc_map_free(l->map);
}

/* Small integers; the caller frees them. */
static float *draw(int64_t count, uint64_t seed)
{
    float *out = malloc((size_t)count * sizeof(*out) + 4);
    spc__random random;

    spc__random_init(&random, seed);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)spc__random_below(&random, 7) - 3;
    return out;
}

static int64_t weight_count(const spc_conv *conv)
{
    return (int64_t)spc__conv_offsets(conv) * spc__conv_group_in(conv) *
           conv->cout;
}

static void *upload(spc_ctx *ctx, spc_dtype dtype, const float *values,
                    int64_t count)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    size_t bytes = (size_t)count * type->bytes;
    void *stored = malloc(bytes + 16), *out = NULL;

    type->encode(stored, values, (size_t)count);
    assert_ok(spc_alloc(&out, ctx, bytes + 16), spc_ctx_error(ctx));
    assert_ok(spc_copy_to_device(ctx, out, stored, bytes), spc_ctx_error(ctx));
    free(stored);
    return out;
}

static float *download(spc_ctx *ctx, spc_dtype dtype, const void *from,
                       int64_t count)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    size_t bytes = (size_t)count * type->bytes;
    void *stored = malloc(bytes + 16);
    float *out = malloc((size_t)count * sizeof(*out) + 4);

    assert_ok(spc_synchronize(ctx), spc_ctx_error(ctx));
    assert_ok(spc_copy_to_host(ctx, stored, from, bytes), spc_ctx_error(ctx));
    type->decode(out, stored, (size_t)count);
    free(stored);
    return out;
}

/* The default of what serves the layer, or a candidate of a template: NULL if
 * there is none such. */
static spc_plan *plan_of(layer *l, const char *name, const char *parameter,
                         const char *value)
{
    spc__attrs problem = {0}, config = {0};
    spc_plan *plan = NULL;
    spc_error error;
    spc__code code;

    if (name == NULL) {
        assert_ok(
            spc_plan_create(&plan, l->ctx, &l->conv, l->map, SPC_PLAN_ESTIMATE),
            spc_ctx_error(l->ctx));
        return plan;
    }
    spc__conv_attrs(&problem, &l->conv);
    spc__template *tpl = spc__library_find(l->ctx->library, name);
    assert_ok(
        spc__template_default(&config, tpl, &problem, &l->ctx->target, &error),
        error.text);
    spc__attrs_set_text(&config, parameter, value);
    if (spc__template_check(tpl, &problem, &l->ctx->target, &config, &error) !=
        SPC_OK)
        return NULL;
    assert_ok(
        spc__ctx_code(&code, l->ctx, name, &problem, &config, SPC_PLAN_JIT),
        spc_ctx_error(l->ctx));
    assert_ok(
        spc__plan_create_from(&plan, l->ctx, &l->conv, &code, name, value),
        spc_ctx_error(l->ctx));
    assert_ok(spc_map_prepare(l->map, plan, NULL), spc_ctx_error(l->ctx));
    return plan;
}

/* The layer's outputs [rows_out][cout] of inputs [rows_in][cin], with canonical
 * weights; takes the plan over. */
static float *run(layer *l, spc_plan *plan, const float *in,
                  const float *weights)
{
    spc_ctx *ctx = l->ctx;
    void *packed = NULL, *work = NULL;
    float *nothing = calloc((size_t)(l->rows_out * l->conv.cout) + 1, 4);
    spc_dtype type = spc__conv_out(&l->conv);
    void *x = upload(ctx, l->conv.dtype, in, l->rows_in * l->conv.cin);
    void *w = upload(ctx, l->conv.dtype, weights, weight_count(&l->conv));
    void *y = upload(ctx, type, nothing, l->rows_out * l->conv.cout);

    assert_ok(spc_alloc(&packed, ctx, spc_plan_weights_bytes(plan)),
              spc_ctx_error(ctx));
    assert_ok(spc_alloc(&work, ctx, spc_plan_workspace_bytes(plan, l->map)),
              spc_ctx_error(ctx));
    assert_ok(spc_plan_pack_weights(plan, packed, w, SPC_KRSC, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_plan_execute(
                  plan, l->map,
                  &(spc_buffers){
                      .in = x, .out = y, .weights = packed, .workspace = work},
                  NULL),
              spc_ctx_error(ctx));
    float *out = download(ctx, type, y, l->rows_out * l->conv.cout);
    void *all[] = {x, w, y, packed, work};
    for (int i = 0; i < LENGTH(all); i++)
        spc_dealloc(ctx, all[i]);
    free(nothing);
    spc_plan_free(plan);
    return out;
}

static float *apply(layer *l, const float *in, const float *weights)
{
    return run(l, plan_of(l, NULL, NULL, NULL), in, weights);
}

static void assert_same(const float *got, const float *want, int64_t count,
                        const char *what)
{
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(got[i] == want[i], "%s: element %lld is %g, not %g", what,
                      (long long)i, (double)got[i], (double)want[i]);
}

/* ---- symmetries ---------------------------------------------------------- */

/* Everything that all of them look at. */
typedef struct subject {
    layer whole;
    cloud voxels;
    float *in, *weights, *out;
} subject;

static void subject_open(subject *s, spc_ctx *ctx, const char *text)
{
    spc_conv conv = conv_of(text);

    draw_cloud(&s->voxels, 30, 6);
    layer_open(&s->whole, ctx, &conv, &s->voxels);
    s->in = draw(s->whole.rows_in * conv.cin, 1);
    s->weights = draw(weight_count(&conv), 2);
    s->out = apply(&s->whole, s->in, s->weights);
}

static void subject_close(subject *s)
{
    layer_close(&s->whole);
    free(s->in);
    free(s->weights);
    free(s->out);
}

static int64_t outputs(const layer *l)
{
    return l->rows_out * l->conv.cout;
}

/* conv(2 x - 3 y) = 2 conv(x) - 3 conv(y) */
static void check_linear(subject *s)
{
    layer *l = &s->whole;
    int64_t count = l->rows_in * l->conv.cin;
    float *other = draw(count, 3);
    float *other_out = apply(l, other, s->weights);

    for (int64_t i = 0; i < count; i++)
        other[i] = 2 * s->in[i] - 3 * other[i];
    float *got = apply(l, other, s->weights);
    for (int64_t i = 0; i < outputs(l); i++)
        other_out[i] = 2 * s->out[i] - 3 * other_out[i];
    assert_same(got, other_out, outputs(l), "linear");
    free(other);
    free(other_out);
    free(got);
}

/* By multiples of all strides, also across zero. */
static void check_translated(subject *s)
{
    static const int32_t by[3] = {12, -6, 6};
    cloud moved = s->voxels;
    layer l;

    for (int i = 0; i < moved.rows; i++)
        for (int a = 0; a < 3; a++)
            moved.at[i][1 + a] += by[a];
    layer_open(&l, s->whole.ctx, &s->whole.conv, &moved);
    ck_assert_int_eq(l.rows_in, s->whole.rows_in);
    ck_assert_int_eq(l.rows_out, s->whole.rows_out);
    float *got = apply(&l, s->in, s->weights);
    assert_same(got, s->out, outputs(&l), "translated");
    layer_close(&l);
    free(got);
}

/* Each batch element alone is its part of the whole. */
static void check_batches(subject *s)
{
    int64_t in = 0, out = 0;

    for (int b = 0; b < 3; b++) {
        cloud one = {0};
        layer l;
        for (int i = 0; i < s->voxels.rows; i++)
            if (s->voxels.at[i][0] == b)
                memcpy(one.at[one.rows++], s->voxels.at[i], 16);
        layer_open(&l, s->whole.ctx, &s->whole.conv, &one);
        float *got = apply(&l, s->in + in * l.conv.cin, s->weights);
        assert_same(got, s->out + out * l.conv.cout, outputs(&l),
                    "a batch element");
        in += l.rows_in;
        out += l.rows_out;
        layer_close(&l);
        free(got);
    }
    ck_assert_int_eq(in, s->whole.rows_in);
    ck_assert_int_eq(out, s->whole.rows_out);
}

/* Rows of a scene in another order; `from` is where each comes from. */
static void permute(cloud *out, int *from, const cloud *voxels)
{
    spc__random random;

    spc__random_init(&random, 9);
    out->rows = voxels->rows;
    for (int i = 0; i < voxels->rows; i++)
        from[i] = i;
    for (int i = voxels->rows - 1; i > 0; i--) {
        int j = (int)spc__random_below(&random, (uint32_t)i + 1);
        int kept = from[i];
        from[i] = from[j];
        from[j] = kept;
    }
    for (int i = 0; i < voxels->rows; i++)
        memcpy(out->at[i], voxels->at[from[i]], 16);
}

static float *permuted(const float *values, const int *from, int rows,
                       int channels)
{
    float *out = malloc((size_t)(rows * channels) * 4 + 4);

    for (int i = 0; i < rows; i++)
        memcpy(out + i * channels, values + from[i] * channels,
               (size_t)channels * 4);
    return out;
}

/* What is the scene has its order; the other set has its own. */
static void check_permuted(subject *s)
{
    const spc_conv *conv = &s->whole.conv;
    bool ends = spc__conv_ends_at_scene(conv);
    bool subm = conv->op == SPC_SUBM;
    int from[MOST], rows = s->voxels.rows;
    cloud other;
    layer l;

    permute(&other, from, &s->voxels);
    layer_open(&l, s->whole.ctx, conv, &other);
    float *in = ends ? NULL : permuted(s->in, from, rows, conv->cin);
    float *want =
        ends || subm ? permuted(s->out, from, rows, conv->cout) : NULL;
    float *got = apply(&l, in != NULL ? in : s->in, s->weights);
    assert_same(got, want != NULL ? want : s->out, outputs(&l), "permuted");
    layer_close(&l);
    free(in);
    free(want);
    free(got);
}

static const char *const layers[] = {
    "subm,cin=8,cout=12,k=3,dtype=f16,out=f32",
    "subm,cin=5,cout=7,k=3x1x5,dtype=f32",
    "subm,cin=8,cout=8,groups=8,k=3,dtype=f32",
    "conv,cin=8,cout=16,k=2,stride=2,rule=floor,dtype=bf16,out=f32",
    "conv,cin=8,cout=8,k=3,stride=2,padding=1,rule=footprint,dtype=f16,out=f32",
    "conv,cin=16,cout=8,k=3x3x1,padding=1x1x0,rule=footprint,dtype=tf32",
    "inverse,cin=8,cout=16,k=2,stride=2,rule=floor,dtype=f16,out=f32",
    "inverse,cin=16,cout=3,k=3,stride=2,padding=1,rule=footprint,dtype=f32",
    "generative,cin=8,cout=8,k=2,stride=2,dtype=f16,out=f32",
    "generative,cin=4,cout=8,k=3,dtype=tf32",
};

/* Once for each device where none is named. */
static const char *device_of(int i, int count)
{
    return suite_device != NULL ? suite_device : devices[i / count % DEVICES];
}

START_TEST(a_layer_keeps_its_symmetries)
{
    subject s;
    if (!suite_takes(_i))
        return;
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(layers)), suite_database(), NULL);

    subject_open(&s, ctx, layers[_i % LENGTH(layers)]);
    check_linear(&s);
    check_translated(&s);
    check_batches(&s);
    check_permuted(&s);
    subject_close(&s);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- transposes ---------------------------------------------------------- */

/* <conv x, y> = <x, transpose y>; the transpose of a submanifold layer is one
 * with its offsets in the opposite order. */
static const struct {
    const char *layer, *transpose;
} pairs[] = {
    {"subm,cin=6,cout=10,k=3,dtype=f32", "subm,cin=10,cout=6,k=3,dtype=f32"},
    {"conv,cin=8,cout=16,k=2,stride=2,rule=floor,dtype=f16,out=f32",
     "inverse,cin=16,cout=8,k=2,stride=2,rule=floor,dtype=f16,out=f32"},
    {"conv,cin=4,cout=8,k=3,stride=2,padding=1,rule=footprint,dtype=tf32",
     "inverse,cin=8,cout=4,k=3,stride=2,padding=1,rule=footprint,dtype=tf32"},
    {"conv,cin=8,cout=8,k=3,stride=2,rule=given,dtype=bf16,out=f32",
     "transposed,cin=8,cout=8,k=3,stride=2,dtype=bf16,out=f32"},
    {"subm,cin=6,cout=10,k=4x3x2,dtype=f32",
     "subm,cin=10,cout=6,k=4x3x2,origin=-2x-1x-1,dtype=f32"},
};

static float *transposed(const float *weights, const spc_conv *conv)
{
    int offsets = spc__conv_offsets(conv), in = conv->cin, out = conv->cout;
    float *to = malloc((size_t)weight_count(conv) * sizeof(*to));

    for (int co = 0; co < out; co++)
        for (int k = 0; k < offsets; k++)
            for (int ci = 0; ci < in; ci++) {
                int other = conv->op == SPC_SUBM ? offsets - 1 - k : k;
                to[(ci * offsets + other) * out + co] =
                    weights[(co * offsets + k) * in + ci];
            }
    return to;
}

static double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

START_TEST(a_layer_and_its_transpose_have_the_same_products)
{
    int i = _i % LENGTH(pairs);
    cloud voxels;
    layer l, t;
    if (!suite_takes(_i))
        return;
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(pairs)), suite_database(), NULL);
    spc_conv conv = conv_of(pairs[i].layer), back = conv_of(pairs[i].transpose);

    draw_cloud(&voxels, 30, 6);
    layer_open(&l, ctx, &conv, &voxels);
    layer_open(&t, ctx, &back, &voxels);
    ck_assert_int_eq(l.rows_in, t.rows_out);
    ck_assert_int_eq(l.rows_out, t.rows_in);
    float *x = draw(l.rows_in * conv.cin, 1);
    float *y = draw(l.rows_out * conv.cout, 2);
    float *weights = draw(weight_count(&conv), 3);
    float *other = transposed(weights, &conv);
    float *down = apply(&l, x, weights), *up = apply(&t, y, other);
    double one = dot(down, y, l.rows_out * conv.cout);
    double two = dot(x, up, l.rows_in * conv.cin);
    ck_assert_msg(one == two, "%s: %.17g, its transpose: %.17g", pairs[i].layer,
                  one, two);
    ck_assert(one != 0);
    layer_close(&l);
    layer_close(&t);
    float *all[] = {x, y, weights, other, down, up};
    for (int n = 0; n < LENGTH(all); n++)
        free(all[n]);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- groups -------------------------------------------------------------- */

static const struct {
    const char *grouped, *whole;
} groups[] = {
    {"subm,cin=16,cout=16,groups=16,k=3,dtype=f16,out=f32",
     "subm,cin=16,cout=16,k=3,dtype=f16,out=f32"},
    {"subm,cin=12,cout=24,groups=4,k=3,dtype=f32",
     "subm,cin=12,cout=24,k=3,dtype=f32"},
    {"conv,cin=8,cout=8,groups=8,k=2,stride=2,rule=floor,dtype=f32",
     "conv,cin=8,cout=8,k=2,stride=2,rule=floor,dtype=f32"},
    {"subm,cin=8,cout=24,groups=1,k=3,dtype=tf32",
     "subm,cin=8,cout=24,k=3,dtype=tf32"},
};

/* The weights of all groups as blocks of one matrix, zeros beside them. */
static float *in_blocks(const float *weights, const spc_conv *grouped)
{
    int offsets = spc__conv_offsets(grouped), width = grouped->cin;
    int in = spc__conv_group_in(grouped), out = spc__conv_group_out(grouped);
    float *to = calloc((size_t)(grouped->cout * offsets * width), sizeof(*to));

    for (int co = 0; co < grouped->cout; co++)
        for (int k = 0; k < offsets; k++)
            memcpy(to + (co * offsets + k) * width + co / out * in,
                   weights + (co * offsets + k) * in, (size_t)in * 4);
    return to;
}

START_TEST(groups_are_blocks_of_the_weights)
{
    int i = _i % LENGTH(groups);
    cloud voxels;
    layer l, w;
    if (!suite_takes(_i))
        return;
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(groups)), suite_database(), NULL);
    spc_conv grouped = conv_of(groups[i].grouped),
             whole = conv_of(groups[i].whole);

    draw_cloud(&voxels, 30, 6);
    layer_open(&l, ctx, &grouped, &voxels);
    layer_open(&w, ctx, &whole, &voxels);
    float *in = draw(l.rows_in * grouped.cin, 1);
    float *weights = draw(weight_count(&grouped), 2);
    float *blocks = in_blocks(weights, &grouped);
    float *got = apply(&l, in, weights), *want = apply(&w, in, blocks);
    assert_same(got, want, outputs(&w), groups[i].grouped);
    layer_close(&l);
    layer_close(&w);
    float *all[] = {in, weights, blocks, got, want};
    for (int n = 0; n < LENGTH(all); n++)
        free(all[n]);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- divided tiles ------------------------------------------------------- */

/* On integers no order of the sums is another. */
START_TEST(a_divided_sum_is_the_whole_sum)
{
    static const char *const ways[] = {"stream", "cluster2", "atomic"};
    const char *device = suite_device != NULL ? suite_device : "sim";
    int divided = 0;
    subject s;
    if (!suite_takes(_i) || strcmp(device, "cpu") == 0)
        return;
    spc_ctx *ctx = open_ctx(device, suite_database(), NULL);

    subject_open(&s, ctx, "subm,cin=32,cout=16,k=3,dtype=tf32");
    float *whole = run(&s.whole, plan_of(&s.whole, "os_mma", "split", "none"),
                       s.in, s.weights);
    assert_same(whole, s.out, outputs(&s.whole), "os_mma");
    spc_plan *plan = plan_of(&s.whole, "os_mma", "split", ways[_i]);
    if (plan != NULL) { /* not every GPU has clusters */
        float *parts = run(&s.whole, plan, s.in, s.weights);
        assert_same(parts, whole, outputs(&s.whole), ways[_i]);
        free(parts);
        divided++;
    }
    ck_assert(divided > 0 || _i == 1);
    free(whole);
    subject_close(&s);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- no voxel ------------------------------------------------------------ */

/* Then there is nothing to have room for, whoever asks. */
START_TEST(of_nothing_comes_nothing)
{
    const cloud none = {0};
    if (!suite_takes(_i))
        return;
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(layers)), suite_database(), NULL);
    spc_conv conv = conv_of(layers[_i % LENGTH(layers)]);
    layer l;

    layer_open(&l, ctx, &conv, &none);
    ck_assert_int_eq(l.rows_in, 0);
    ck_assert_int_eq(l.rows_out, 0);
    ck_assert_int_eq(spc_coords_capacity(spc_map_out(l.map)), 0);
    ck_assert_int_eq(spc_map_pairs(l.map), 0);
    assert_ok(spc_map_download(l.map, NULL), spc_ctx_error(ctx));
    float nothing = 0, *weights = draw(weight_count(&conv), 1);
    free(apply(&l, &nothing, weights));
    free(weights);
    layer_close(&l);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static void add(Suite *suite, const char *name, const TTest *test, int count)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test, 0, count);
    suite_add_tcase(suite, tcase);
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    int turns = suite_device != NULL ? 1 : DEVICES;
#ifdef SPC_SANITIZE /* whose kernels take longer to compile */
    suite_sample(31);
#else
    suite_sample(17);
#endif
    Suite *suite = suite_create("properties");

    add(suite, "symmetries", a_layer_keeps_its_symmetries,
        turns * LENGTH(layers));
    add(suite, "transposes", a_layer_and_its_transpose_have_the_same_products,
        turns * LENGTH(pairs));
    add(suite, "groups", groups_are_blocks_of_the_weights,
        turns * LENGTH(groups));
    add(suite, "divided", a_divided_sum_is_the_whole_sum, 3);
    add(suite, "nothing", of_nothing_comes_nothing, turns * LENGTH(layers));
    return run_suite(suite);
}
