/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_conventions.c - conventions that networks of other engines rely on, each
 * by that engine's own definition: the rows of an inverse layer and their
 * order,
 * the voxels in windows of two, the outputs of TorchSparse's strided layers,
 * and
 * the voxels that a transposed layer generates. The expected results are
 * computed by coordinates, one by one, without the library's code.
 *
 * Other conventions are tested with their subjects: shapes and padding in
 * test_relation and test_golden_counts, layouts of kernels in test_kernel_form,
 * padding of submanifold layers, matrices and transposed layers of files in
 * test_onnx, folded normalisations in test_weights, their epsilons and keys of
 * maps in test_net, dense planes and statistics of a batch element in
 * test_features, orders of columns in cli/networks.case.
 *
 *     test_conventions [sim|cpu|cuda]
 */
#include "harness/whole_layer.h"

#include "spc_import.h"

/* ---- an inverse layer ---------------------------------------------------- */

/* These layers reuse the geometry of a strided layer, like spconv's
 * SparseInverseConv3d and, over a cached map, the transposed layers of
 * MinkowskiEngine and TorchSparse. */
static const char *const inverses[] = {
    "inverse,cin=3,cout=4,k=2,stride=2,rule=floor,dtype=f32",
    "inverse,cin=3,cout=4,k=3,stride=2,padding=1,rule=footprint,dtype=f32",
    "inverse,cin=3,cout=4,k=3x1x2,stride=2x3x1,padding=1x0x1,rule=footprint,"
    "dtype=f32",
};

/* Returns the voxels in random order, as earlier layers of a network may leave
 * them. */
static void shuffle(cloud *voxels, uint64_t seed)
{
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = voxels->rows - 1; i > 0; i--) {
        int32_t kept[4];
        int j = (int)spc__random_below(&random, (uint32_t)i + 1);
        memcpy(kept, voxels->at[i], sizeof(kept));
        memcpy(voxels->at[i], voxels->at[j], sizeof(kept));
        memcpy(voxels->at[j], kept, sizeof(kept));
    }
}

static int32_t *rows_of(spc_ctx *ctx, const spc_coords *set, int64_t *count)
{
    *count = spc_coords_rows(set);
    int32_t *rows = malloc((size_t)*count * 16 + 16);

    assert_ok(spc_memory_download(rows, ctx, spc_coords_data(set),
                                  (size_t)*count * 16),
              spc_ctx_error(ctx));
    return rows;
}

/* Makes both sets of a strided layer over these voxels, and the inverse map. */
static void open_inverse(layer *out, spc_ctx *ctx, const spc_conv *conv,
                         const cloud *voxels)
{
    spc_coords *fine = NULL, *coarse = NULL;
    void *coords = NULL;
    size_t bytes = (size_t)voxels->rows * 16;

    *out = (layer){.ctx = ctx, .conv = *conv};
    assert_ok(spc_memory_alloc(&coords, ctx, bytes + 16), spc_ctx_error(ctx));
    assert_ok(spc_memory_upload(coords, ctx, voxels->at, bytes),
              spc_ctx_error(ctx));
    assert_ok(spc_coords_create(&fine, ctx, coords, voxels->rows, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_coords_create_outputs(&coarse, fine, &conv->geometry),
              spc_ctx_error(ctx));
    assert_ok(spc_map_create_inverse(&out->map, coarse, fine, &conv->geometry),
              spc_ctx_error(ctx));
    assert_ok(spc_map_update(out->map, NULL, NULL, 0, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_map_check(out->map, NULL), spc_ctx_error(ctx));
    spc_memory_free(ctx, coords);
    spc_coords_free(fine);
    spc_coords_free(coarse);
    out->rows_in = spc_map_rows_in(out->map);
    out->rows_out = spc_map_rows_out(out->map);
}

/* Returns the contribution of coarse voxel i to fine voxel o = i s - p + r d.
 * Its weight is that of r, which the strided layer used for the same pair. */
static double from_coarse(const spc_conv *conv, const int32_t *o,
                          const int32_t *i, const float *x,
                          const float *weights, int co)
{
    const spc_geometry *g = &conv->geometry;
    int offsets = spc_geometry_offset_count(g), k = 0;
    double sum = 0;

    if (o[0] != i[0]) /* different batch elements */
        return 0;
    for (int a = 0; a < 3; a++) {
        int at = o[1 + a] - i[1 + a] * g->stride[a] + g->padding[a];
        if (at % g->dilation[a] != 0)
            return 0;
        at /= g->dilation[a];
        if (at < 0 || at >= g->kernel[a])
            return 0;
        k = k * g->kernel[a] + at; /* z varies fastest */
    }
    for (int c = 0; c < conv->cin; c++)
        sum +=
            (double)weights[(co * offsets + k) * conv->cin + c] * (double)x[c];
    return sum;
}

/* Returns floor(v / 2), also for negative numbers. */
static int64_t floor_half(int32_t value)
{
    return value >= 0 ? value / 2 : -((1 - (int64_t)value) / 2);
}

static bool has_row(const int32_t *rows, int64_t count, const int64_t wanted[4])
{
    for (int64_t i = 0; i < count; i++) {
        bool same = true;
        for (int a = 0; a < 4; a++)
            same &= rows[4 * i + a] == wanted[a];
        if (same)
            return true;
    }
    return false;
}

/* By MinkowskiEngine's rule, a voxel's output has half its coordinates, rounded
 * down. */
static void check_floors(const cloud *voxels, const int32_t *coarse,
                         int64_t count)
{
    for (int i = 0; i < voxels->rows; i++) {
        int64_t over[4] = {voxels->at[i][0]};
        for (int a = 1; a < 4; a++)
            over[a] = floor_half(voxels->at[i][a]);
        ck_assert_msg(has_row(coarse, count, over), "(%d, %d, %d) has none",
                      voxels->at[i][1], voxels->at[i][2], voxels->at[i][3]);
    }
}

START_TEST(an_inverse_layer_has_the_rows_that_were_strided_in_their_order)
{
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(inverses)), suite_database(), NULL);
    spc_conv conv = conv_of(inverses[_i % LENGTH(inverses)]);
    int64_t coarse_rows;
    cloud voxels;
    layer l;

    draw_cloud(&voxels, 30, 6, 7);
    shuffle(&voxels, 8);
    open_inverse(&l, ctx, &conv, &voxels);
    ck_assert_int_eq(l.rows_out, voxels.rows);
    int32_t *coarse = rows_of(ctx, spc_map_in(l.map), &coarse_rows);
    ck_assert_int_eq(l.rows_in, coarse_rows);
    if (conv.geometry.rule == SPC_RULE_FLOOR)
        check_floors(&voxels, coarse, coarse_rows);
    float *x = draw(l.rows_in * conv.cin, 9);
    float *weights = draw(weight_count(&conv), 10);
    float *got = apply(&l, x, weights);

    for (int o = 0; o < voxels.rows; o++)
        for (int co = 0; co < conv.cout; co++) {
            double want = 0;
            for (int64_t i = 0; i < l.rows_in; i++)
                want += from_coarse(&conv, voxels.at[o], coarse + 4 * i,
                                    x + i * conv.cin, weights, co);
            ck_assert_msg((double)got[o * conv.cout + co] == want,
                          "row %d, channel %d: %g, not %g", o, co,
                          (double)got[o * conv.cout + co], want);
        }
    float *all[] = {x, weights, got};
    for (int n = 0; n < LENGTH(all); n++)
        free(all[n]);
    free(coarse);
    layer_close(&l);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- windows of two ------------------------------------------------------ */

/* Makes voxels from 0 to `extent` - 1 on each axis; both ends occur. */
static void draw_inside(cloud *out, int extent)
{
    draw_cloud(out, 30, extent, 11);
    for (int i = 0; i < out->rows; i++)
        for (int a = 1; a < 4; a++)
            out->at[i][a] += 4;
}

/*
 * spconv's kernel 2, stride 2, padding 0 is the floor rule if the spatial shape
 * is even. If it is odd, O = S div 2 and no window contains the last plane. The
 * inverse layer gives the lost voxels only the bias.
 */
START_TEST(windows_of_two_lose_the_last_plane_of_an_odd_shape)
{
    spc_ctx *ctx = open_ctx(device_of(_i, 2), suite_database(), NULL);
    int extent = 5 + _i % 2;
    const float bias[2] = {0.5f, -2};
    float ones[8 * 2] = {0};
    char text[120];
    int lost = 0;
    cloud voxels;
    layer l;

    snprintf(text, sizeof(text),
             "inverse,cin=1,cout=2,k=2,stride=2,rule=footprint,shape=%d,"
             "epilogue=bias,dtype=f32",
             extent);
    spc_conv conv = conv_of(text);
    draw_inside(&voxels, extent);
    open_inverse(&l, ctx, &conv, &voxels);
    int64_t count;
    int32_t *coarse = rows_of(ctx, spc_map_in(l.map), &count);
    float *x = malloc((size_t)count * sizeof(*x) + 4);
    for (int64_t i = 0; i < count; i++)
        x[i] = 1;
    for (int i = 0; i < LENGTH(ones); i++)
        ones[i] = 1;
    l.bias = bias;
    float *got = apply(&l, x, ones);

    for (int o = 0; o < voxels.rows; o++) {
        const int32_t *at = voxels.at[o];
        int64_t over[4] = {at[0]};
        bool last = false;
        for (int a = 1; a < 4; a++) {
            over[a] = floor_half(at[a]);
            last |= extent % 2 == 1 && at[a] == extent - 1;
        }
        lost += last;
        ck_assert_int_eq(has_row(coarse, count, over), !last);
        for (int c = 0; c < 2; c++)
            ck_assert_msg(got[2 * o + c] == bias[c] + (float)!last,
                          "(%d, %d, %d) of a shape of %d: %g", at[1], at[2],
                          at[3], extent, (double)got[2 * o + c]);
    }
    ck_assert_int_eq(lost > 0, extent % 2);
    free(coarse);
    free(x);
    free(got);
    layer_close(&l);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- outputs of TorchSparse's strided layers ----------------------------- */

/* TorchSparse uses the floor rule if each stride is 1 or the kernel's size,
 * else the footprint. If `differs`, the other rule gives other outputs. */
static const struct {
    int kernel[3], stride[3], padding;
    bool differs;
} downsamplings[] = {
    {{2, 2, 2}, {2, 2, 2}, 0, false}, {{3, 3, 3}, {3, 3, 3}, 0, false},
    {{3, 1, 3}, {1, 1, 3}, 0, true},  {{3, 3, 3}, {3, 3, 3}, 1, true},
    {{3, 3, 3}, {2, 2, 2}, 1, true},  {{2, 3, 2}, {2, 2, 1}, 0, true},
    {{5, 5, 5}, {2, 2, 2}, 2, true},
};

static bool takes_floor(const int kernel[3], const int stride[3])
{
    bool floors = true;

    for (int a = 0; a < 3; a++)
        floors &= stride[a] == 1 || stride[a] == kernel[a];
    return floors;
}

/* True if o is an output of input i on an axis. */
static bool is_output(int o, int i, int kernel, int stride, int padding,
                      bool floors)
{
    int from = i - o * stride;

    if (floors)
        return from >= 0 && from < stride;
    return from + padding >= 0 && from + padding < kernel;
}

static bool is_output_of(const int32_t *row, const cloud *voxels, int n,
                         bool floors)
{
    for (int i = 0; i < voxels->rows; i++) {
        bool is = row[0] == voxels->at[i][0];
        for (int a = 0; a < 3; a++)
            is &= is_output(
                row[1 + a], voxels->at[i][1 + a], downsamplings[n].kernel[a],
                downsamplings[n].stride[a], downsamplings[n].padding, floors);
        if (is)
            return true;
    }
    return false;
}

/* True if the rows of a set are exactly the outputs. */
static bool are_outputs(const int32_t *rows, int64_t count, int n,
                        const cloud *voxels, bool floors)
{
    enum { FAR = 14 }; /* beyond all outputs */
    int64_t expected = 0;
    int32_t at[4];

    for (at[0] = 0; at[0] < 3; at[0]++)
        for (at[1] = -FAR; at[1] < FAR; at[1]++)
            for (at[2] = -FAR; at[2] < FAR; at[2]++)
                for (at[3] = -FAR; at[3] < FAR; at[3]++)
                    expected += is_output_of(at, voxels, n, floors);
    for (int64_t r = 0; r < count; r++)
        if (!is_output_of(rows + 4 * r, voxels, n, floors))
            return false;
    return count == expected;
}

START_TEST(strided_layers_of_torchsparse_have_its_outputs)
{
    int n = _i % LENGTH(downsamplings);
    const int *k = downsamplings[n].kernel, *s = downsamplings[n].stride;
    bool floors = takes_floor(k, s);
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(downsamplings)), suite_database(), NULL);
    spc_coords *in, *out;
    char text[120];
    cloud voxels;
    int64_t count;
    void *coords;

    snprintf(text, sizeof(text),
             "conv,cin=1,cout=1,k=%dx%dx%d,stride=%dx%dx%d,rule=%s", k[0], k[1],
             k[2], s[0], s[1], s[2], floors ? "floor" : "footprint");
    spc_conv conv = conv_of(text);
    for (int a = 0; a < 3 && !floors; a++)
        conv.geometry.padding[a] = downsamplings[n].padding;
    draw_cloud(&voxels, 30, 9, 12 + (uint64_t)n);
    assert_ok(spc_memory_alloc(&coords, ctx, (size_t)voxels.rows * 16),
              spc_ctx_error(ctx));
    assert_ok(
        spc_memory_upload(coords, ctx, voxels.at, (size_t)voxels.rows * 16),
        spc_ctx_error(ctx));
    assert_ok(spc_coords_create(&in, ctx, coords, voxels.rows, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_coords_create_outputs(&out, in, &conv.geometry),
              spc_ctx_error(ctx));
    int32_t *rows = rows_of(ctx, out, &count);
    ck_assert_msg(are_outputs(rows, count, n, &voxels, floors), "%s: %d", text,
                  (int)count);
    ck_assert_int_eq(are_outputs(rows, count, n, &voxels, !floors),
                     !downsamplings[n].differs);
    free(rows);
    spc_coords_free(out);
    spc_coords_free(in);
    spc_memory_free(ctx, coords);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- transposed layers --------------------------------------------------- */

/* An axis in PyTorch's terms. `more` is the output_padding. `size` is the
 * spatial shape of the inputs, which only spconv has. */
typedef struct axis_rule {
    int kernel, stride, padding, more, dilation, size;
} axis_rule;

static const struct generated {
    spc_engine engine;
    axis_rule axis[3];
} generated[] = {
    {SPC_ENGINE_SPCONV2,
     {{3, 2, 1, 1, 1, 6}, {2, 2, 0, 0, 1, 6}, {3, 1, 1, 0, 1, 6}}},
    {SPC_ENGINE_SPCONV2,
     {{4, 2, 1, 0, 1, 6}, {3, 3, 2, 2, 1, 6}, {2, 1, 0, 0, 2, 6}}},
    {SPC_ENGINE_MINKOWSKI,
     {{2, 2, 0, 0, 1, 0}, {4, 2, 0, 0, 1, 0}, {3, 2, 0, 0, 1, 0}}},
    {SPC_ENGINE_MINKOWSKI,
     {{3, 1, 0, 0, 2, 0}, {2, 3, 0, 0, 1, 0}, {4, 1, 0, 0, 1, 0}}},
};

static void geometry_of(spc_geometry *out, const struct generated *from)
{
    *out = (spc_geometry)SPC_GEOMETRY_INIT;
    out->rule = SPC_RULE_GENERATIVE;
    for (int a = 0; a < 3; a++) {
        const axis_rule *r = &from->axis[a];
        out->kernel[a] = r->kernel;
        out->stride[a] = r->stride;
        out->dilation[a] = r->dilation;
        if (from->engine == SPC_ENGINE_SPCONV2) {
            out->origin[a] = -r->padding;
            out->shape[a] = (r->size - 1) * r->stride - 2 * r->padding +
                            r->dilation * (r->kernel - 1) + 1 + r->more;
        } else {
            out->origin[a] =
                spc_engine_origin(from->engine, r->kernel, r->dilation);
        }
    }
}

/* spconv: o = i s - p + r d, inside O = (S - 1) s - 2p + d (k - 1) + 1 +
 * output_padding. MinkowskiEngine: o = i s + r d, r = 0 .. k - 1 for even k,
 * centred for odd k. */
static bool is_generated(const struct generated *by, const int32_t o[4],
                         const int32_t i[4])
{
    if (o[0] != i[0])
        return false;
    for (int a = 0; a < 3; a++) {
        const axis_rule *r = &by->axis[a];
        bool seen = false, spconv = by->engine == SPC_ENGINE_SPCONV2;
        int first = spconv               ? -r->padding
                    : r->kernel % 2 == 0 ? 0
                                         : -r->dilation * (r->kernel / 2);
        int most = (r->size - 1) * r->stride - 2 * r->padding +
                   r->dilation * (r->kernel - 1) + 1 + r->more;
        for (int at = 0; at < r->kernel; at++)
            seen |= o[1 + a] == i[1 + a] * r->stride + first + at * r->dilation;
        if (!seen || (spconv && (o[1 + a] < 0 || o[1 + a] >= most)))
            return false;
    }
    return true;
}

/* Checks that each voxel occurs once, in ascending order, and no other voxel of
 * the surrounding box. */
START_TEST(a_transposed_layer_generates_what_its_engine_does)
{
    const struct generated *by = &generated[_i % LENGTH(generated)];
    spc_ctx *ctx =
        open_ctx(device_of(_i, LENGTH(generated)), suite_database(), NULL);
    spc_coords *in = NULL, *out = NULL;
    void *coords = NULL;
    int64_t count, next = 0;
    spc_geometry g;
    cloud voxels;

    draw_inside(&voxels, 6);
    voxels.rows = 12; /* the first batch element */
    shuffle(&voxels, 12);
    geometry_of(&g, by);
    assert_ok(spc_memory_alloc(&coords, ctx, sizeof(voxels.at)),
              spc_ctx_error(ctx));
    assert_ok(spc_memory_upload(coords, ctx, voxels.at, sizeof(voxels.at)),
              spc_ctx_error(ctx));
    assert_ok(spc_coords_create(&in, ctx, coords, voxels.rows, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_coords_create_outputs(&out, in, &g), spc_ctx_error(ctx));
    int32_t *got = rows_of(ctx, out, &count);
    for (int32_t x = -8; x < 24; x++)
        for (int32_t y = -8; y < 24; y++)
            for (int32_t z = -8; z < 24; z++) {
                const int32_t o[4] = {0, x, y, z};
                bool wanted = false;
                for (int i = 0; i < voxels.rows && !wanted; i++)
                    wanted = is_generated(by, o, voxels.at[i]);
                if (!wanted)
                    continue;
                if (next >= count || memcmp(got + 4 * next, o, 16) != 0)
                    ck_abort_msg("row %lld of %lld is not (%d, %d, %d)",
                                 (long long)next, (long long)count, x, y, z);
                next++;
            }
    ck_assert_int_eq(next, count);
    ck_assert_int_gt(count, voxels.rows);
    free(got);
    spc_memory_free(ctx, coords);
    spc_coords_free(in);
    spc_coords_free(out);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static void add(Suite *suite, const char *name, const TTest *test, int count)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test, 0,
                        suite_device != NULL ? count : DEVICES * count);
    suite_add_tcase(suite, tcase);
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    Suite *suite = suite_create("conventions");

    add(suite, "inverse",
        an_inverse_layer_has_the_rows_that_were_strided_in_their_order,
        LENGTH(inverses));
    add(suite, "windows", windows_of_two_lose_the_last_plane_of_an_odd_shape,
        2);
    add(suite, "strided", strided_layers_of_torchsparse_have_its_outputs,
        LENGTH(downsamplings));
    add(suite, "generated", a_transposed_layer_generates_what_its_engine_does,
        LENGTH(generated));
    return run_suite(suite);
}
