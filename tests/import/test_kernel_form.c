/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kernel_form.c - kernels of other engines, compared with each engine's
 * own definition of a convolution, written here by coordinates.
 *
 * Every voxel of a grid has integer features. An engine's definition lists its
 * offsets in the order of its weights; the library's is spc_geometry_offset_at.
 * Both sums must be equal. All weights differ, so any error in the order of
 * offsets or channels shows.
 */
#include "base/random.h"
#include "harness/suite.h"
#include "spc_import.h"

#include <stdlib.h>
#include <string.h>

enum { CIN = 3, COUT = 2, MOST = 343 };

static spc_error error;

/* ---- definitions of engines ---------------------------------------------- */

/* Returns displacements along the engine's axes, in the order of its
 * offsets. */
typedef struct offset_list {
    int count;
    int at[MOST][3];
} offset_list;

/* A layer in an engine's terms. */
typedef struct layer {
    spc_engine engine;
    const char *axes;
    int kernel[3]; /* in the order of the engine's axes */
    int stride, dilation, padding;
} layer;

static void add_offset(offset_list *list, int a, int b, int c)
{
    int *at = list->at[list->count++];
    at[0] = a;
    at[1] = b;
    at[2] = c;
}

/* spconv: input i = o * s - p + r * d, with offsets r in row-major order. A
 * submanifold layer is centred regardless of its padding. */
static void list_spconv(offset_list *out, const layer *l)
{
    int first[3];

    for (int e = 0; e < 3; e++)
        first[e] =
            l->stride > 1 ? -l->padding : -(l->kernel[e] / 2) * l->dilation;
    for (int a = 0; a < l->kernel[0]; a++)
        for (int b = 0; b < l->kernel[1]; b++)
            for (int c = 0; c < l->kernel[2]; c++)
                add_offset(out, first[0] + a * l->dilation,
                           first[1] + b * l->dilation,
                           first[2] + c * l->dilation);
}

/* MinkowskiEngine: from a lower to an upper bound, first axis fastest. Even
 * sizes start at 0, odd ones are centred. */
static void list_minkowski(offset_list *out, const layer *l)
{
    int low[3], high[3], at[3];

    for (int e = 0; e < 3; e++) {
        bool even = l->kernel[e] % 2 == 0;
        low[e] = even ? 0 : -(l->kernel[e] / 2) * l->dilation;
        high[e] = even ? (l->kernel[e] - 1) * l->dilation
                       : l->kernel[e] / 2 * l->dilation;
        at[e] = low[e];
    }
    for (int e = 0; e < 3;) {
        add_offset(out, at[0], at[1], at[2]);
        for (e = 0; e < 3; e++) {
            at[e] += l->dilation;
            if (at[e] <= high[e])
                break;
            at[e] = low[e];
        }
    }
}

/* TorchSparse: -k // 2 + 1 to k // 2 on each axis (// rounds down). The first
 * axis is innermost if the volume is odd, else the last one. */
static void list_torchsparse(offset_list *out, const layer *l)
{
    const int *k = l->kernel;
    int low[3];
    bool odd = k[0] * k[1] * k[2] % 2 == 1;

    for (int e = 0; e < 3; e++)
        low[e] = -((k[e] + 1) / 2) + 1;
    for (int i = 0; i < k[0] * k[1] * k[2]; i++) {
        int a = odd ? i % k[0] : i / (k[1] * k[2]);
        int b = odd ? i / k[0] % k[1] : i / k[2] % k[1];
        int c = odd ? i / (k[0] * k[1]) : i % k[2];
        add_offset(out, (low[0] + a) * l->dilation, (low[1] + b) * l->dilation,
                   (low[2] + c) * l->dilation);
    }
}

static void list_offsets(offset_list *out, const layer *l)
{
    out->count = 0;
    if (l->engine == SPC_ENGINE_MINKOWSKI)
        list_minkowski(out, l);
    else if (l->engine == SPC_ENGINE_TORCHSPARSE)
        list_torchsparse(out, l);
    else /* FlexGEMM's grid of centred ranges has spconv's submanifold order */
        list_spconv(out, l);
}

/* Returns the position of an offset's weight in the engine's array, in
 * elements. */
static int weight_at(const layer *l, int offsets, int offset, int ci, int co)
{
    bool is_matrix = l->engine == SPC_ENGINE_SPCONV2 && offsets == 1 &&
                     l->stride == 1; /* torch.mm(x, weight.view(in, out)) */

    if (is_matrix)
        return ci * COUT + co;
    if (l->engine == SPC_ENGINE_SPCONV2 || l->engine == SPC_ENGINE_FLEXGEMM ||
        l->engine == SPC_ENGINE_SPCTUNE)
        return (co * offsets + offset) * CIN + ci;
    return (offset * CIN + ci) * COUT + co; /* one matrix [in][out] for each
                                             * offset */
}

/* ---- convolutions -------------------------------------------------------- */

/* Returns the feature at the library's coordinates: an arbitrary function with
 * small values. */
static int64_t feature(const int at[3], int ci)
{
    return (at[0] * 7 + at[1] * 31 + at[2] * 101 + ci * 13 + 5000) % 97 - 48;
}

/* Returns the engine's sum at output `o`, given in the engine's coordinates. */
static int64_t their_sum(const layer *l, const offset_list *list,
                         const float *weights, const int o[3], int co)
{
    int64_t sum = 0;

    for (int k = 0; k < list->count; k++) {
        int ours[3] = {0, 0, 0};
        for (int e = 0; e < 3; e++)
            ours[l->axes[e] - 'x'] = o[e] * l->stride + list->at[k][e];
        for (int ci = 0; ci < CIN; ci++)
            sum += (int64_t)weights[weight_at(l, list->count, k, ci, co)] *
                   feature(ours, ci);
    }
    return sum;
}

static int64_t our_sum(const spc_geometry *g, const float *weights,
                       const int o[3], int co)
{
    int offsets = spc_geometry_offset_count(g);
    int64_t sum = 0;

    for (int k = 0; k < offsets; k++) {
        int at[3];
        spc_geometry_offset_at(at, g, k);
        for (int axis = 0; axis < 3; axis++)
            at[axis] += o[axis] * g->stride[axis];
        for (int ci = 0; ci < CIN; ci++)
            sum += (int64_t)weights[(co * offsets + k) * CIN + ci] *
                   feature(at, ci);
    }
    return sum;
}

/* Converts the layer to the library's terms. */
static spc_conv conv_of(const layer *l)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_geometry *g = &conv.geometry;
    bool spconv =
        l->engine == SPC_ENGINE_SPCONV1 || l->engine == SPC_ENGINE_SPCONV2;

    conv.op = l->stride > 1 ? SPC_CONV : SPC_SUBM;
    conv.cin = CIN;
    conv.cout = COUT;
    g->rule = l->stride == 1 ? SPC_RULE_SUBM
              : spconv       ? SPC_RULE_FOOTPRINT
                             : SPC_RULE_FLOOR;
    for (int e = 0; e < 3; e++) {
        int axis = l->axes[e] - 'x';
        g->kernel[axis] = l->kernel[e];
        g->stride[axis] = l->stride;
        g->dilation[axis] = l->dilation;
        g->padding[axis] = g->rule == SPC_RULE_FOOTPRINT ? l->padding : 0;
        if (g->rule == SPC_RULE_FLOOR)
            g->origin[axis] =
                spc_engine_origin(l->engine, l->kernel[e], l->dilation);
    }
    return conv;
}

static spc_array array_of(const layer *l, const float *weights, int offsets)
{
    spc_array a = {.name = "conv.kernel",
                   .type = SPC_ELEMENT_F32,
                   .data = weights,
                   .bytes = (size_t)offsets * CIN * COUT * sizeof(float)};
    const int *k = l->kernel;
    const int64_t shapes[][5] = {{COUT, k[0], k[1], k[2], CIN},
                                 {k[0], k[1], k[2], CIN, COUT},
                                 {offsets, CIN, COUT}};
    int which = l->engine == SPC_ENGINE_SPCONV1 ? 1
                : l->engine == SPC_ENGINE_MINKOWSKI ||
                        l->engine == SPC_ENGINE_TORCHSPARSE
                    ? 2
                    : 0;
    a.rank = which == 2 ? 3 : 5;
    memcpy(a.shape, shapes[which], sizeof(shapes[which]));
    /* these layouts drop the index if K = 1 */
    if (which == 2 && offsets == 1) {
        a.rank = 2;
        a.shape[0] = CIN;
        a.shape[1] = COUT;
    }
    return a;
}

static void compare(const layer *l, const float *theirs, const float *ours,
                    const offset_list *list, const spc_conv *conv)
{
    static const int outputs[][3] = {{0, 0, 0}, {1, 5, 2}, {-3, 4, 9}};

    for (int i = 0; i < 3; i++)
        for (int co = 0; co < COUT; co++) {
            int o[3];
            for (int e = 0; e < 3; e++)
                o[l->axes[e] - 'x'] = outputs[i][e];
            int64_t want = their_sum(l, list, theirs, outputs[i], co);
            int64_t got = our_sum(&conv->geometry, ours, o, co);
            ck_assert_msg(want == got,
                          "%s %dx%dx%d, axes %s, stride %d, dilation %d: "
                          "channel %d is %lld, not %lld",
                          spc_engine_name(l->engine), l->kernel[0],
                          l->kernel[1], l->kernel[2], l->axes, l->stride,
                          l->dilation, co, (long long)got, (long long)want);
        }
}

/* ---- round trips --------------------------------------------------------- */

static void check_round_trip(const layer *l, const spc_array *array,
                             const spc_kernel_form *form, const float *ours)
{
    spc_kernel_shape shape;
    float *back = malloc(array->bytes);

    ck_assert_msg(spc_kernel_describe(&shape, array, form, &error) == SPC_OK,
                  "%s", error.text);
    ck_assert_int_eq(
        spc_kernel_restore(back, ours, sizeof(*ours), &shape, form, &error),
        SPC_OK);
    ck_assert_msg(memcmp(back, array->data, array->bytes) == 0,
                  "%s %dx%dx%d does not come back", spc_engine_name(l->engine),
                  l->kernel[0], l->kernel[1], l->kernel[2]);
    free(back);
}

static void check_layer(const layer *l)
{
    static offset_list list;
    spc_conv conv = conv_of(l);
    spc_kernel_form form = {
        sizeof(spc_kernel_form), l->engine, l->axes, {0, 0, 0},
        l->stride > 1,           0};

    list_offsets(&list, l);
    size_t count = (size_t)list.count * CIN * COUT;
    float *theirs = malloc(count * sizeof(*theirs));
    float *ours = malloc(count * sizeof(*ours));
    for (size_t i = 0; i < count; i++)
        theirs[i] = (float)(i + 1);
    spc_array array = array_of(l, theirs, list.count);
    memcpy(form.kernel, conv.geometry.kernel, sizeof(form.kernel));

    ck_assert_msg(spc_conv_check(&conv, &error) == SPC_OK, "%s", error.text);
    ck_assert_msg(spc_kernel_load(ours, &conv, &array, &form, &error) == SPC_OK,
                  "%s", error.text);
    compare(l, theirs, ours, &list, &conv);
    check_round_trip(l, &array, &form, ours);
    free(theirs);
    free(ours);
}

/* ---- the layers ---------------------------------------------------------- */

static const layer layers[] = {
    {SPC_ENGINE_SPCONV2, "xyz", {3, 3, 3}, 1, 1, 0},
    {SPC_ENGINE_SPCONV2, "zyx", {3, 3, 3}, 1, 2, 1},
    {SPC_ENGINE_SPCONV2, "zyx", {3, 1, 1}, 2, 1, 0},
    {SPC_ENGINE_SPCONV2, "zyx", {3, 3, 3}, 2, 1, 1},
    {SPC_ENGINE_SPCONV2, "yzx", {2, 3, 4}, 2, 1, 0},
    {SPC_ENGINE_SPCONV2, "xyz", {1, 1, 1}, 1, 1, 0}, /* transposed */
    {SPC_ENGINE_SPCONV2, "xyz", {1, 1, 1}, 2, 1, 0}, /* true: not transposed */
    {SPC_ENGINE_SPCONV1, "zyx", {3, 3, 3}, 1, 1, 0},
    {SPC_ENGINE_SPCONV1, "zyx", {3, 1, 5}, 2, 1, 1},
    {SPC_ENGINE_SPCONV1, "xyz", {1, 1, 1}, 1, 1, 0},
    {SPC_ENGINE_MINKOWSKI, "xyz", {3, 3, 3}, 1, 1, 0},
    {SPC_ENGINE_MINKOWSKI, "xyz", {5, 5, 5}, 1, 2, 0},
    {SPC_ENGINE_MINKOWSKI, "xyz", {2, 2, 2}, 2, 1, 0},
    {SPC_ENGINE_MINKOWSKI, "xyz", {4, 4, 4}, 2, 1, 0},
    {SPC_ENGINE_MINKOWSKI, "zxy", {3, 1, 2}, 2, 1, 0},
    {SPC_ENGINE_MINKOWSKI, "xyz", {1, 1, 1}, 1, 1, 0},
    {SPC_ENGINE_TORCHSPARSE, "xyz", {3, 3, 3}, 1, 1, 0},
    {SPC_ENGINE_TORCHSPARSE, "xyz", {1, 3, 1}, 2, 1, 0},
    {SPC_ENGINE_TORCHSPARSE, "xyz", {2, 2, 2}, 2, 1, 0},
    {SPC_ENGINE_TORCHSPARSE, "xyz", {4, 4, 4}, 2, 1, 0},
    {SPC_ENGINE_TORCHSPARSE, "zyx", {3, 2, 5}, 2, 1, 0},
    {SPC_ENGINE_TORCHSPARSE, "xyz", {1, 1, 1}, 1, 1, 0},
    {SPC_ENGINE_FLEXGEMM, "xyz", {3, 3, 3}, 1, 1, 0},
    {SPC_ENGINE_FLEXGEMM, "xyz", {5, 3, 1}, 1, 2, 0},
};

START_TEST(a_converted_kernel_computes_what_its_engine_does)
{
    check_layer(&layers[_i]);
}
END_TEST

START_TEST(any_sizes_and_axes_come_back_and_compute_the_same)
{
    static const char *const axes[] = {"xyz", "xzy", "yxz",
                                       "yzx", "zxy", "zyx"};
    spc__random random;
    uint64_t seed = (uint64_t)suite_variant() * 100 + (uint64_t)_i;

    printf("kernels of seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    spc__random_init(&random, seed);
    for (int i = 0; i < 20; i++) {
        layer l = {(spc_engine)(1 + spc__random_below(&random, 4)),
                   axes[spc__random_below(&random, 6)],
                   {1, 1, 1},
                   2,
                   1 + (int)spc__random_below(&random, 2),
                   0};
        for (int e = 0; e < 3; e++)
            l.kernel[e] = 1 + (int)spc__random_below(&random, 5);
        check_layer(&l);
    }
}
END_TEST

/* ---- lists of offsets ---------------------------------------------------- */

/* Returns `count` random offsets within 3 voxels. */
static void list_by_chance(spc_geometry *g, int count, spc__random *random)
{
    static int16_t list[MOST][3];
    int order[MOST];

    for (int i = 0; i < MOST; i++)
        order[i] = i;
    memset(list, 0, sizeof(list));
    g->offset_count = count;
    g->offsets = list[0];
    for (int i = 0; i < count; i++) {
        int j = i + (int)spc__random_below(random, (uint64_t)(MOST - i));
        int at = order[j];
        order[j] = order[i];
        list[i][0] = (int16_t)(at / 49 - 3);
        list[i][1] = (int16_t)(at / 7 % 7 - 3);
        list[i][2] = (int16_t)(at % 7 - 3);
    }
}

/* The forms of an engine's array for a list: one index for the offsets, or one
 * for each axis. */
static spc_array list_array(const layer *l, const float *weights, int offsets,
                            bool wide)
{
    bool is_first = l->engine == SPC_ENGINE_SPCTUNE ||
                    l->engine == SPC_ENGINE_SPCONV2 ||
                    l->engine == SPC_ENGINE_FLEXGEMM;
    const int64_t shapes[4][5] = {{offsets, CIN, COUT},
                                  {1, offsets, 1, CIN, COUT},
                                  {COUT, offsets, CIN},
                                  {COUT, 1, 1, offsets, CIN}};
    spc_array a = {.name = is_first ? "conv.weight" : "conv.kernel",
                   .type = SPC_ELEMENT_F32,
                   .rank = wide ? 5 : 3,
                   .data = weights,
                   .bytes = (size_t)offsets * CIN * COUT * sizeof(float)};

    memcpy(a.shape, shapes[2 * is_first + wide], sizeof(a.shape[0]) * 5);
    return a;
}

static void check_list(const layer *l, int count, bool wide,
                       spc__random *random)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_kernel_form form = {
        sizeof(spc_kernel_form), l->engine, l->axes, {0, 0, 0}, false, 0};
    layer spread = *l; /* several indices for the offsets */
    float *theirs = malloc(sizeof(float) * MOST * CIN * COUT);
    float *ours = malloc(sizeof(float) * MOST * CIN * COUT);

    spread.stride = 2;
    conv.cin = CIN;
    conv.cout = COUT;
    list_by_chance(&conv.geometry, count, random);
    for (int i = 0; i < count * CIN * COUT; i++)
        theirs[i] = (float)(i + 1);
    spc_array array = list_array(l, theirs, count, wide);
    ck_assert_msg(spc_kernel_load(ours, &conv, &array, &form, &error) == SPC_OK,
                  "%s: %s", spc_engine_name(l->engine), error.text);
    for (int k = 0; k < count; k++)
        for (int co = 0; co < COUT; co++)
            for (int ci = 0; ci < CIN; ci++)
                ck_assert_msg(ours[(co * count + k) * CIN + ci] ==
                                  theirs[weight_at(&spread, count, k, ci, co)],
                              "%s, axes %s, %d offsets: offset %d has another "
                              "matrix",
                              spc_engine_name(l->engine), l->axes, count, k);
    form.offsets = count;
    check_round_trip(l, &array, &form, ours);
    conv.geometry.offset_count = count == MOST ? count - 1 : count + 1;
    ck_assert_int_eq(spc_kernel_load(ours, &conv, &array, &form, &error),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "in the order of the list"));
    free(theirs);
    free(ours);
}

START_TEST(weights_of_a_list_of_offsets_stay_in_its_order)
{
    static const int counts[] = {1, 2, 7, 8, 9, 26, 27, 64, 125, 343};
    static const char *const axes[] = {"xyz", "zyx", "yzx"};
    spc__random random;

    spc__random_init(&random, (uint64_t)_i);
    for (int c = 0; c < 10; c++)
        for (int a = 0; a < 3; a++) {
            layer l = {(spc_engine)_i, axes[a], {1, 1, 1}, 1, 1, 0};
            check_list(&l, counts[c], false, &random);
            check_list(&l, counts[c], true, &random);
        }
}
END_TEST

/* ---- error messages ------------------------------------------------------ */

static const struct {
    spc_kernel_form form;
    int rank;
    int64_t shape[5];
    const char *said; /* NULL: valid */
} shapes[] = {
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, "yx", {0}, false, 0},
     4,
     {8, 3, 3, 4},
     NULL},
    {{sizeof(spc_kernel_form), SPC_ENGINE_MINKOWSKI, "yx", {0}, false, 0},
     3,
     {9, 4, 8},
     NULL},
    {{sizeof(spc_kernel_form), SPC_ENGINE_MINKOWSKI, NULL, {3, 3, 1}, false, 0},
     3,
     {9, 4, 8},
     NULL},
    {{sizeof(spc_kernel_form), SPC_ENGINE_MINKOWSKI, NULL, {0}, false, 0},
     3,
     {9, 4, 8},
     "not a cube"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_MINKOWSKI, NULL, {3, 3, 3}, false, 0},
     3,
     {9, 4, 8},
     "it has 9 offsets, and a kernel of 3x3x3 has 27"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, NULL, {0}, false, 0},
     4,
     {8, 3, 3, 4},
     "[cout][size"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV1, NULL, {0}, false, 0},
     3,
     {27, 4, 8},
     "expected [size along each axis][cin][cout]"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, NULL, {3, 3, 1}, false, 0},
     5,
     {8, 3, 3, 3, 4},
     "the layer's has the sizes"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, NULL, {0}, false, 0},
     5,
     {8, 9, 9, 9, 4},
     "343"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, NULL, {0}, false, 0},
     5,
     {8, 3, 0, 3, 4},
     "[cout][size"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, NULL, {0}, false, 0},
     5,
     {(int64_t)1 << 40, 3, 3, 3, 4},
     "[cout][size"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, "xyx", {0}, false, 0},
     5,
     {8, 3, 3, 3, 4},
     "'xyx'"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, "x", {0}, false, 0},
     5,
     {8, 3, 3, 3, 4},
     "'x'"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, "xyzx", {0}, false, 0},
     5,
     {8, 3, 3, 3, 4},
     "'xyzx'"},
    {{0, SPC_ENGINE_SPCONV2, NULL, {0}, false, 0},
     5,
     {8, 3, 3, 3, 4},
     "spc_kernel_form.bytes is 0"},
    {{sizeof(spc_kernel_form), SPC_ENGINES, NULL, {0}, false, 0},
     5,
     {8, 3, 3, 3, 4},
     "unknown engine"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, NULL, {3, 0, 3}, false, 0},
     5,
     {8, 3, 3, 3, 4},
     "1 to 343"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_MINKOWSKI, NULL, {0}, false, 7},
     2,
     {4, 8},
     "[7][cin][cout]"},
    {{sizeof(spc_kernel_form),
      SPC_ENGINE_MINKOWSKI,
      NULL,
      {0},
      false,
      SPC_OFFSETS_ANY},
     3,
     {9, 4, 8},
     NULL},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, NULL, {0}, false, 9},
     5,
     {8, 3, 3, 1, 4},
     "[cout][9][cin]"},
    {{sizeof(spc_kernel_form),
      SPC_ENGINE_SPCONV2,
      NULL,
      {0},
      false,
      SPC_OFFSETS_ANY},
     3,
     {8, 344, 4},
     "343"},
    {{sizeof(spc_kernel_form), SPC_ENGINE_SPCTUNE, NULL, {0}, false, 7},
     1,
     {7},
     "[cout][7][cin]"},
};

/* Even kernels start at different positions in different engines. */
static const struct {
    spc_engine engine;
    const char *layer, *said; /* NULL: valid */
} origins[] = {
    {SPC_ENGINE_TORCHSPARSE, "conv,k=4,stride=2,rule=floor",
     "begins at -1 in torchsparse, and at 0 in this layer: write origin=-1"},
    {SPC_ENGINE_TORCHSPARSE, "conv,k=4,stride=2,rule=floor,origin=-1", NULL},
    {SPC_ENGINE_TORCHSPARSE, "conv,k=4,stride=2,rule=floor,origin=0", NULL},
    {SPC_ENGINE_TORCHSPARSE, "conv,k=2,stride=2,rule=floor", NULL},
    {SPC_ENGINE_TORCHSPARSE, "inverse,k=4,stride=2,rule=floor",
     "begins at -1 in torchsparse"},
    {SPC_ENGINE_TORCHSPARSE, "generative,k=3x4x4,stride=2", "along y"},
    {SPC_ENGINE_TORCHSPARSE, "subm,k=4", NULL},
    {SPC_ENGINE_MINKOWSKI, "conv,k=4,stride=2,rule=floor", NULL},
    {SPC_ENGINE_MINKOWSKI, "subm,k=2", NULL},
    {SPC_ENGINE_MINKOWSKI, "subm,k=4",
     "begins at 0 in minkowski, and at -1 in this layer: write its offsets"},
    {SPC_ENGINE_MINKOWSKI, "subm,k=3", NULL},
};

START_TEST(a_kernel_that_begins_elsewhere_is_refused)
{
    static float data[64 * CIN * COUT], out[64 * CIN * COUT];
    spc_array array = {.name = "down.kernel",
                       .type = SPC_ELEMENT_F32,
                       .rank = 3,
                       .data = data};
    spc_kernel_form form = SPC_KERNEL_FORM_INIT;
    char text[128];
    spc_conv conv;

    snprintf(text, sizeof(text), "%s,cin=%d,cout=%d", origins[_i].layer, CIN,
             COUT);
    ck_assert_msg(spc_conv_parse(&conv, text, &error) == SPC_OK, "%s",
                  error.text);
    const int64_t shape[] = {spc_geometry_offset_count(&conv.geometry), CIN,
                             COUT};
    memcpy(array.shape, shape, sizeof(shape));
    array.bytes = (size_t)shape[0] * CIN * COUT * sizeof(float);
    form.engine = origins[_i].engine;
    spc_status status = spc_kernel_load(out, &conv, &array, &form, &error);
    ck_assert_int_eq(status, origins[_i].said != NULL ? SPC_EINVAL : SPC_OK);
    if (origins[_i].said != NULL)
        ck_assert_msg(strstr(error.text, origins[_i].said) != NULL,
                      "'%s' lacks '%s'", error.text, origins[_i].said);
}
END_TEST

START_TEST(a_shape_that_is_no_kernel_is_refused_in_one_sentence)
{
    spc_array array = {.name = "conv.kernel",
                       .type = SPC_ELEMENT_F16,
                       .rank = shapes[_i].rank};
    spc_kernel_shape shape;

    memcpy(array.shape, shapes[_i].shape, sizeof(shapes[_i].shape));
    spc_status status =
        spc_kernel_describe(&shape, &array, &shapes[_i].form, &error);
    if (shapes[_i].said == NULL) {
        ck_assert_msg(status == SPC_OK, "%s", error.text);
        ck_assert_int_eq(shape.kernel[0] * shape.kernel[1] * shape.kernel[2],
                         9);
        ck_assert_int_eq(shape.cin, 4);
        ck_assert_int_eq(shape.cout, 8);
        return;
    }
    ck_assert_int_eq(status, SPC_EINVAL);
    ck_assert_msg(strstr(error.text, shapes[_i].said) != NULL,
                  "'%s' lacks '%s'", error.text, shapes[_i].said);
}
END_TEST

/* A linear layer's matrix is [out][in] in every engine, also in spconv 2, whose
 * convolutions of one offset are [in][out]. */
START_TEST(the_matrix_of_a_linear_layer_stays_as_it_is)
{
    const float matrix[COUT * CIN] = {1, 2, 3, 4, 5, 6};
    spc_array array = {.name = "head.weight",
                       .type = SPC_ELEMENT_F32,
                       .rank = 2,
                       .shape = {COUT, CIN},
                       .data = matrix,
                       .bytes = sizeof(matrix)};
    float out[COUT * CIN];
    spc_conv conv;

    ck_assert_int_eq(spc_conv_parse(&conv, "linear,cin=3,cout=2", &error),
                     SPC_OK);
    for (int engine = 0; engine < SPC_ENGINES; engine++) {
        spc_kernel_form form = {sizeof(spc_kernel_form),
                                (spc_engine)engine,
                                NULL,
                                {0, 0, 0},
                                false,
                                0};
        ck_assert_msg(spc_kernel_load(out, &conv, &array, &form, &error) ==
                          SPC_OK,
                      "%s", error.text);
        ck_assert_mem_eq(out, matrix, sizeof(matrix));
    }
}
END_TEST

START_TEST(a_kernel_of_another_layer_is_refused)
{
    const float weights[27 * CIN * COUT] = {0};
    layer l = {SPC_ENGINE_SPCONV2, "xyz", {3, 3, 3}, 1, 1, 0};
    spc_array array = array_of(&l, weights, 27);
    spc_kernel_form form = {
        sizeof(spc_kernel_form), SPC_ENGINE_SPCONV2, NULL, {0, 0, 0}, false, 0};
    spc_conv conv;
    float out[27 * CIN * COUT];

    ck_assert_int_eq(spc_conv_parse(&conv, "subm,cin=3,cout=4", &error),
                     SPC_OK);
    ck_assert_int_eq(spc_kernel_load(out, &conv, &array, &form, &error),
                     SPC_EINVAL);
    ck_assert_msg(strstr(error.text, "'conv.kernel' holds 2 x 3x3x3 x 3") !=
                      NULL,
                  "%s", error.text);
}
END_TEST

START_TEST(engines_are_known_by_their_words)
{
    for (int i = 0; i < SPC_ENGINES; i++) {
        spc_engine engine;
        ck_assert_int_eq(
            spc_engine_parse(&engine, spc_engine_name((spc_engine)i), &error),
            SPC_OK);
        ck_assert_int_eq(engine, i);
    }
    spc_engine engine;
    ck_assert_int_eq(spc_engine_parse(&engine, "spconv", &error), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "torchsparse"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_form");
    TCase *forms = tcase_create("forms");
    TCase *sentences = tcase_create("sentences");

    tcase_add_loop_test(forms, a_converted_kernel_computes_what_its_engine_does,
                        0, sizeof(layers) / sizeof(*layers));
    tcase_add_loop_test(
        forms, any_sizes_and_axes_come_back_and_compute_the_same, 0, 4);
    tcase_add_loop_test(forms, weights_of_a_list_of_offsets_stay_in_its_order,
                        0, SPC_ENGINES);
    tcase_add_test(forms, the_matrix_of_a_linear_layer_stays_as_it_is);
    suite_add_tcase(suite, forms);
    tcase_add_loop_test(sentences, a_kernel_that_begins_elsewhere_is_refused, 0,
                        sizeof(origins) / sizeof(*origins));
    tcase_add_loop_test(sentences,
                        a_shape_that_is_no_kernel_is_refused_in_one_sentence, 0,
                        sizeof(shapes) / sizeof(*shapes));
    tcase_add_test(sentences, a_kernel_of_another_layer_is_refused);
    tcase_add_test(sentences, engines_are_known_by_their_words);
    suite_add_tcase(suite, sentences);
    return run_suite(suite);
}
