/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_properties.c - mathematical properties of convolutions. They are linear,
 * commute with translations, ignore other batch elements and the order of rows,
 * and have a transpose. Groups are blocks of the weights. The results of whole
 * layers are compared with each other instead of the oracle, through plans, on
 * integers, where all of this is exact.
 *
 *     test_properties [sim|cpu|cuda]
 */
#include "harness/whole_layer.h"

/* ---- symmetries ---------------------------------------------------------- */

/* The data that all checks use. */
typedef struct fixture {
    layer whole;
    cloud voxels;
    float *in, *weights, *out;
} fixture;

static void fixture_open(fixture *s, spc_ctx *ctx, const char *text,
                         uint64_t seed)
{
    spc_conv conv = conv_of(text);

    draw_cloud(&s->voxels, 30, 6, seed);
    layer_open(&s->whole, ctx, &conv, &s->voxels);
    s->in = draw(s->whole.rows_in * conv.cin, seed + 1);
    s->weights = draw(weight_count(&conv), seed + 2);
    s->out = apply(&s->whole, s->in, s->weights);
}

static void fixture_close(fixture *s)
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
static void check_linear(fixture *s)
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

/* Translates the voxels by multiples of all strides, also across zero. */
static void check_translated(fixture *s)
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

/* Each batch element computed alone equals its part of the whole. */
static void check_batches(fixture *s)
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

/* Permutes the rows of a scene. `from` has the original row of each. */
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

/* The scene's rows are permuted. The derived set has an order of its own. */
static void check_permuted(fixture *s)
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

static void check_symmetries(spc_ctx *ctx, const char *text, uint64_t seed)
{
    fixture s;

    fixture_open(&s, ctx, text, seed);
    check_linear(&s);
    check_translated(&s);
    check_batches(&s);
    check_permuted(&s);
    fixture_close(&s);
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
    "conv,cin=4,cout=8,k=3,stride=2,rule=expand,dtype=f32",
};

START_TEST(a_layer_keeps_its_symmetries)
{
    if (!suite_takes(_i))
        return;
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(layers)), suite_database(), NULL);

    check_symmetries(ctx, layers[_i % LENGTH(layers)], 5);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- transposes ---------------------------------------------------------- */

/* Checks <conv x, y> = <x, transpose y>. The transpose of a submanifold layer
 * has its offsets in reverse order. */
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
    int offsets = spc__conv_offsets(conv);
    int in = spc__conv_group_in(conv), out = spc__conv_group_out(conv);
    float *to = malloc((size_t)weight_count(conv) * sizeof(*to));

    for (int co = 0; co < conv->cout; co++)
        for (int k = 0; k < offsets; k++)
            for (int c = 0; c < in; c++) {
                int other = conv->op == SPC_SUBM ? offsets - 1 - k : k;
                int ci = co / out * in + c;
                to[(ci * offsets + other) * out + co % out] =
                    weights[(co * offsets + k) * in + c];
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

static double check_products(spc_ctx *ctx, const char *text,
                             const char *backward, const cloud *voxels,
                             uint64_t seed)
{
    spc_conv conv = conv_of(text), back = conv_of(backward);
    layer l, t;

    layer_open(&l, ctx, &conv, voxels);
    layer_open(&t, ctx, &back, voxels);
    ck_assert_int_eq(l.rows_in, t.rows_out);
    ck_assert_int_eq(l.rows_out, t.rows_in);
    float *x = draw(l.rows_in * conv.cin, seed + 1);
    float *y = draw(l.rows_out * conv.cout, seed + 2);
    float *weights = draw(weight_count(&conv), seed + 3);
    float *other = transposed(weights, &conv);
    float *down = apply(&l, x, weights), *up = apply(&t, y, other);
    double one = dot(down, y, l.rows_out * conv.cout);
    double two = dot(x, up, l.rows_in * conv.cin);
    ck_assert_msg(one == two, "%s: %.17g, its transpose: %.17g", text, one,
                  two);
    layer_close(&l);
    layer_close(&t);
    float *all[] = {x, y, weights, other, down, up};
    for (int n = 0; n < LENGTH(all); n++)
        free(all[n]);
    return one;
}

START_TEST(a_layer_and_its_transpose_have_the_same_products)
{
    int i = _i % LENGTH(pairs);
    cloud voxels;
    if (!suite_takes(_i))
        return;
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(pairs)), suite_database(), NULL);

    draw_cloud(&voxels, 30, 6, 5);
    ck_assert(check_products(ctx, pairs[i].layer, pairs[i].transpose, &voxels,
                             0) != 0);
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

/* Returns the weights of all groups as diagonal blocks of one matrix. */
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

static void check_groups(spc_ctx *ctx, const char *text, const char *ungrouped,
                         const cloud *voxels, uint64_t seed)
{
    spc_conv grouped = conv_of(text), whole = conv_of(ungrouped);
    layer l, w;

    layer_open(&l, ctx, &grouped, voxels);
    layer_open(&w, ctx, &whole, voxels);
    float *in = draw(l.rows_in * grouped.cin, seed + 1);
    float *weights = draw(weight_count(&grouped), seed + 2);
    float *blocks = in_blocks(weights, &grouped);
    float *got = apply(&l, in, weights), *want = apply(&w, in, blocks);
    assert_same(got, want, outputs(&w), text);
    layer_close(&l);
    layer_close(&w);
    float *all[] = {in, weights, blocks, got, want};
    for (int n = 0; n < LENGTH(all); n++)
        free(all[n]);
}

START_TEST(groups_are_blocks_of_the_weights)
{
    int i = _i % LENGTH(groups);
    cloud voxels;
    if (!suite_takes(_i))
        return;
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(groups)), suite_database(), NULL);

    draw_cloud(&voxels, 30, 6, 5);
    check_groups(ctx, groups[i].grouped, groups[i].whole, &voxels, 0);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- divided tiles ------------------------------------------------------- */

/* Runs every way to divide the sum. Sanitizer builds skip some, because kernels
 * take long to compile. */
static bool leaves_out(int i)
{
#ifdef SPC_SANITIZE
    return !suite_takes(i);
#else
    (void)i;
    return false;
#endif
}

/* On integers the order of a sum does not matter. */
START_TEST(a_divided_sum_is_the_whole_sum)
{
    static const char *const ways[] = {"split=stream", "split=cluster2",
                                       "split=atomic"};
    const char *device = suite_device != NULL ? suite_device : "sim";
    int divided = 0;
    fixture s;
    if (leaves_out(_i) || strcmp(device, "cpu") == 0)
        return;
    spc_ctx *ctx = open_ctx(device, suite_database(), NULL);

    fixture_open(&s, ctx, "subm,cin=32,cout=16,k=3,dtype=tf32", 5);
    float *whole = run_plan(&s.whole, plan_of(&s.whole, "os_mma", "split=none"),
                            s.in, s.weights);
    assert_same(whole, s.out, outputs(&s.whole), "os_mma");
    spc_plan *plan = plan_of(&s.whole, "os_mma", ways[_i]);
    if (plan != NULL) { /* not every GPU has clusters */
        float *parts = run_plan(&s.whole, plan, s.in, s.weights);
        assert_same(parts, whole, outputs(&s.whole), ways[_i]);
        free(parts);
        divided++;
    }
    ck_assert(divided > 0 || _i == 1);
    free(whole);
    fixture_close(&s);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- sampled layers ------------------------------------------------------ */

/* A layer that depends on the seed. */
static uint64_t drawn_seed(int i)
{
    return 1000 * (uint64_t)suite_variant() + (uint64_t)i;
}

typedef struct drawn {
    char text[200], whole[200]; /* text; the second without groups */
    char transpose[200];        /* "": has no transpose */
    /* the farthest offset's steps from the middle */
    int farthest;
} drawn;

static int one_of(spc__random *random, int low, int high)
{
    return low + (int)spc__random_below(random, (uint32_t)(high - low + 1));
}

/* Samples "1x2x1" with numbers from low to high. */
static void draw_axes(char out[24], int axes[3], spc__random *random, int low,
                      int high)
{
    for (int a = 0; a < 3; a++)
        axes[a] = one_of(random, low, high);
    snprintf(out, 24, "%dx%dx%d", axes[0], axes[1], axes[2]);
}

/* Samples channels in whole groups. A third of all layers has groups, and some
 * of these are depthwise. `wide` selects widths that the other dataflows
 * need. */
static int draw_channels(int *cin, int *cout, spc__random *random, bool wide)
{
    int parts = one_of(random, 0, 2) == 0 && !wide ? one_of(random, 2, 9) : 1;
    int most = parts > 1 ? 3 : 20;

    *cin = wide ? 16 * one_of(random, 1, 3) : parts * one_of(random, 1, most);
    *cout = wide ? 8 * one_of(random, 1, 5) : parts * one_of(random, 1, most);
    if (parts > 1 && one_of(random, 0, 1) == 0)
        *cin = *cout = parts;
    return parts;
}

/* Samples the words after the channels, for a layer and its transpose. The
 * transpose of conv is inverse and vice versa; that of subm has its offsets in
 * reverse order. */
static void draw_geometry(char out[160], char back[160], drawn *d, int op,
                          spc__random *random, bool wide)
{
    static const char *const types[] = {"f16,out=f32", "bf16,out=f32", "f32",
                                        "tf32"};
    char k[24], s[24], dilation[24], padding[24] = "0";
    int kernel[3], stride[3], spread[3], pad[3];
    const char *type = types[wide ? 3 : one_of(random, 0, 3)];

    draw_axes(k, kernel, random, 1, 4);
    draw_axes(s, stride, random, 1, 3);
    draw_axes(dilation, spread, random, 1, 2);
    if (op == 2 || op == 4)
        draw_axes(padding, pad, random, 0, 3);
    for (int a = 0; a < 3; a++)
        d->farthest += kernel[a] / 2;
    if (op == 0) { /* offset 0 mirrors the last one */
        snprintf(out, 160, "k=%s,dilation=%s,dtype=%s", k, dilation, type);
        snprintf(back, 160, "k=%s,dilation=%s,origin=%dx%dx%d,dtype=%s", k,
                 dilation, -(kernel[0] / 2) * spread[0],
                 -(kernel[1] / 2) * spread[1], -(kernel[2] / 2) * spread[2],
                 type);
        return;
    }
    const char *rule = op == 5              ? ""
                       : op == 2 || op == 4 ? ",rule=footprint,padding="
                                            : ",rule=floor,padding=";
    snprintf(out, 160, "k=%s,stride=%s,dilation=%s%s%s,dtype=%s", k, s,
             dilation, rule, op == 5 ? "" : padding, type);
    snprintf(back, 160, "%s", out);
}

static void draw_layer(drawn *out, spc__random *random, bool wide)
{
    static const char *const ops[] = {"subm",    "conv",    "conv",
                                      "inverse", "inverse", "generative"};
    static const char *const others[] = {"subm", "inverse", "inverse",
                                         "conv", "conv",    NULL};
    int op = one_of(random, 0, 5), cin, cout;
    int parts = draw_channels(&cin, &cout, random, wide);
    char rest[160], back[160];

    *out = (drawn){.farthest = 0};
    draw_geometry(rest, back, out, op, random, wide);
    snprintf(out->text, sizeof(out->text), "%s,cin=%d,cout=%d,groups=%d,%s",
             ops[op], cin, cout, parts, rest);
    snprintf(out->whole, sizeof(out->whole), "%s,cin=%d,cout=%d,%s", ops[op],
             cin, cout, rest);
    if (others[op] != NULL)
        snprintf(out->transpose, sizeof(out->transpose),
                 "%s,cin=%d,cout=%d,groups=%d,%s", others[op], cout, cin, parts,
                 back);
}

START_TEST(a_drawn_layer_keeps_its_properties)
{
    uint64_t seed = drawn_seed(_i);
    spc__random random;
    cloud voxels;
    drawn d;
    spc_ctx *ctx = open_ctx(device_of(_i, 1), suite_database(), NULL);

    spc__random_init(&random, seed);
    draw_layer(&d, &random, false);
    printf("seed %llu: %s\n", (unsigned long long)seed, d.text);
    fflush(stdout);
    draw_cloud(&voxels, 30, 6, seed);
    check_symmetries(ctx, d.text, seed);
    check_groups(ctx, d.text, d.whole, &voxels, seed);
    if (d.transpose[0] != '\0')
        check_products(ctx, d.text, d.transpose, &voxels, seed);
    spc_ctx_free(ctx);
}
END_TEST

/* Dataflows that divide the sum differently must agree on integers. The
 * extremes of the hybrid are near=0 and, with FAR, one more than the steps of
 * the farthest offset. */
#define FAR "near=%d,weights=stream"
static const struct {
    const char *name, *values;
} ways[] = {
    {"os_mma", "split=none"},     {"os_mma", "split=stream"},
    {"os_mma", "split=cluster2"}, {"os_mma", "split=atomic"},
    {"os_mma", "split=mask2"},    {"pairs_mma", "near=0"},
    {"pairs_mma", "near=2"},      {"pairs_mma", FAR},
    {"pairs_mma", "join=atomic"}, {"pairs_mma", "weights=stream"},
};

START_TEST(a_drawn_layer_is_the_same_by_every_dataflow)
{
    const char *device = suite_device != NULL ? suite_device : "sim";
    uint64_t seed = drawn_seed(_i);
    spc__random random;
    char values[40];
    fixture s;
    drawn d;
    if (leaves_out(_i) || strcmp(device, "cpu") == 0)
        return;
    spc_ctx *ctx = open_ctx(device, suite_database(), NULL);

    spc__random_init(&random, seed);
    draw_layer(&d, &random, true);
    snprintf(values, sizeof(values), "%s", ways[_i].values);
    if (strcmp(values, FAR) == 0)
        snprintf(values, sizeof(values), FAR, d.farthest + 1);
    fixture_open(&s, ctx, d.text, seed);
    spc_plan *plan = plan_of(&s.whole, ways[_i].name, values);
    printf("seed %llu: %s, %s %s%s\n", (unsigned long long)seed, d.text,
           ways[_i].name, values, plan != NULL ? "" : ": refused");
    fflush(stdout);
    if (plan != NULL) {
        float *got = run_plan(&s.whole, plan, s.in, s.weights);
        assert_same(got, s.out, outputs(&s.whole), d.text);
        free(got);
    }
    fixture_close(&s);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- empty sets ---------------------------------------------------------- */

/* Without voxels no memory is needed. */
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
    assert_ok(spc_map_download(NULL, l.map), spc_ctx_error(ctx));
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
    int loops = suite_device != NULL ? 1 : DEVICES;
#ifdef SPC_SANITIZE /* its kernels take longer to compile */
    suite_sample(31);
#else
    suite_sample(17);
#endif
    Suite *suite = suite_create("properties");

    add(suite, "symmetries", a_layer_keeps_its_symmetries,
        loops * LENGTH(layers));
    add(suite, "transposes", a_layer_and_its_transpose_have_the_same_products,
        loops * LENGTH(pairs));
    add(suite, "groups", groups_are_blocks_of_the_weights,
        loops * LENGTH(groups));
    add(suite, "divided", a_divided_sum_is_the_whole_sum, 3);
    add(suite, "drawn", a_drawn_layer_keeps_its_properties, loops);
    add(suite, "dataflows", a_drawn_layer_is_the_same_by_every_dataflow,
        LENGTH(ways));
    add(suite, "nothing", of_nothing_comes_nothing, loops * LENGTH(layers));
    return run_suite(suite);
}
