/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_features.c - operators on features compared with their definition in
 * double precision: integers exactly, real numbers within the rounding bound.
 *
 * Runs on "cpu" and "sim", or on the device given as argument. "nvrtc" checks
 * that the code compiles for GPUs that are not installed. Channels, types,
 * numbers of rows and pitches are sampled by a seed, which is printed;
 * $SPC_SEED sets it.
 */
#include "lab/oracle/feature_oracle.h"
#include "spc/lab.h"

#include "base/dtype.h"
#include "base/random.h"
#include "compiler/template.h"
#include "context/ctx.h"
#include "harness/counted_allocations.h"
#include "harness/nvrtc_harness.h"
#include "harness/suite.h"
#include "lab/floor.h"
#include "operators/feature.h"
#include "operators/feature_table.h"
#include "operators/feature_launch.h"
#include "device/targets.h"
#include <math.h>
#include <unistd.h>

#define assert_ok(call, text)                                                  \
    do {                                                                       \
        spc_status status_ = (call);                                           \
        ck_assert_msg(status_ == SPC_OK, "%s: %s", #call, (text));             \
    } while (0)

#define LENGTH(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* Coordinates are in a box of SIDE voxels along each axis, starting at LOW. */
enum { SIDE = 12, LOW = -2, MARGIN = 64, SPARE_ROWS = 777, SLICES = 5 };

static const char *const devices[2] = {"cpu", "sim"};
static const int channel_counts[] = {1, 3, 5, 20, 64, 163, 256};
static const int row_counts[] = {0, 1, 31, 32, 33, 127, 128, 129, 500};

/* Operators without their channels. %d is replaced by a divisor of the
 * channels. */
static const char *const operators[] = {
    "pool=max,rule=floor,k=2,stride=2,index=1",
    "pool=max,rule=footprint,k=3x3x1,stride=2x2x1,padding=1x1x0",
    "pool=mean,rule=footprint,k=3x3x1,stride=2x2x1,padding=1x1x0",
    "pool=sum,rule=floor,k=2,stride=2",
    "unpool=nearest,rule=floor,k=2,stride=2",
    "unpool=index,rule=footprint,k=3x3x1,stride=2x2x1,padding=1x1x0",
    "pool=slices,rule=floor,k=2x1x3,stride=2",
    "pool=slices,rule=footprint,k=3x2x1,stride=2,padding=1",
    "pool=slices,rule=floor,k=2x1x2,stride=2,pass=dgrad",
    "pool=slices,rule=footprint,k=3x2x1,stride=2x1x1,padding=1,pass=dgrad",
    "global=max",
    "global=mean",
    "global=sum",
    "multiply",
    "multiply,pass=wgrad",
    "add",
    "add,act=leaky,slope=0.25",
    "act=relu",
    "act=sigmoid",
    "act=silu",
    "act=gelu",
    "act=elu",
    "actgrad=relu",
    "actgrad=leaky,slope=0.25",
    "actgrad=sigmoid",
    "actgrad=silu",
    "actgrad=gelu",
    "actgrad=elu",
    "norm=layer,eps=1e-3,affine=1",
    "norm=layer,act=gelu",
    "norm=group,groups=%d,affine=1",
    "norm=group,groups=%d,act=silu",
    "affine,act=silu",
    "groupsum,by=%d",
    "groupmean,by=%d",
    "repeat,by=3",
    "bev,shape=9x7x3,order=zyx",
    "bev,shape=7x10x2,order=xyz",
    "bev,shape=7x10x2,order=volume",
};

/* ---- samples ------------------------------------------------------------- */

static uint64_t seed;

static int pick(const int *list, int count, spc__random *random)
{
    return list[spc__random_below(random, (uint32_t)count)];
}

static int draw_divisor(int of, spc__random *random)
{
    int found[64], count = 0;

    for (int i = 1; i <= of && count < 64; i++)
        if (of % i == 0)
            found[count++] = i;
    return pick(found, count, random);
}

/* Samples operator `i` with channels and a type. */
static spc_feature draw_feature(int i, spc__random *random)
{
    int channels = pick(channel_counts, LENGTH(channel_counts), random);
    static const char *const dtypes[] = {"f16", "bf16", "f32"};
    const char *dtype = dtypes[spc__random_below(random, LENGTH(dtypes))];
    int divisor = draw_divisor(channels, random);
    char text[200], words[100];
    spc_error error = {0};
    spc_feature feature;

    snprintf(words, sizeof(words), operators[i], divisor);
    snprintf(text, sizeof(text), "%s,c=%d,dtype=%s", words, channels, dtype);
    assert_ok(spc_feature_parse(&feature, text, &error), error.text);
    return feature;
}

/* Returns a small integer, so that sums are exact, or a real number. */
static void draw_values(float *out, size_t n, spc_dtype dtype, bool integers,
                        spc__random *random)
{
    for (size_t i = 0; i < n; i++)
        out[i] = integers ? (float)spc__random_below(random, 7) - 3
                          : (float)(4 * spc__random_unit(random) - 2);
    void *stored = malloc(n * 4 + 4);
    spc__dtype_of(dtype)->encode(stored, out, n);
    spc__dtype_of(dtype)->decode(out, stored, n);
    free(stored);
}

/* Samples distinct voxels in random order. One of three batch elements may be
 * empty. */
static int32_t *draw_coords(int rows, int batches, spc__random *random)
{
    int32_t *out = calloc((size_t)rows * 4 + 4, sizeof(*out));
    char *used = calloc((size_t)batches * SIDE * SIDE * SIDE, 1);
    bool gap = batches > 1 && spc__random_below(random, 2);

    for (int i = 0; i < rows;) {
        uint32_t b = spc__random_below(random, (uint32_t)batches);
        uint32_t cell = spc__random_below(random, SIDE * SIDE * SIDE);
        char *seen = &used[b * SIDE * SIDE * SIDE + cell];
        if (*seen || (gap && b == 1))
            continue;
        *seen = 1;
        out[4 * i] = (int32_t)b;
        out[4 * i + 1] = LOW + (int32_t)(cell / SIDE / SIDE);
        out[4 * i + 2] = LOW + (int32_t)(cell / SIDE % SIDE);
        out[4 * i++ + 3] = LOW + (int32_t)(cell % SIDE);
    }
    free(used);
    return out;
}

/* ---- a scene on a device ------------------------------------------------- */

/* The sets of an operator (one set, or both sets of its map), and the oracle's
 * data. */
typedef struct fixture {
    spc_ctx *ctx;
    spc_coords *fine, *coarse;
    spc_map *map;
    spc_relation relation, down; /* `down`: the relation of the pooling */
    spc__feature_case of;
    int32_t *coords;
    void *device_coords;
} fixture;

static spc_ctx *open_ctx(const char *device, const char *database)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error = {0};
    spc_ctx *ctx = NULL;

    options.device = device;
    options.database = database;
    options.threads = 2;
    assert_ok(spc_ctx_create(&ctx, &options, &error), error.text);
    return ctx;
}

static void relate(spc_relation *out, const spc_geometry *geometry, bool back,
                   const int32_t *coords, int rows)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_scene *scene = NULL;
    spc_error error = {0};

    conv.op = back                              ? SPC_INVERSE
              : geometry->rule == SPC_RULE_SUBM ? SPC_SUBM
                                                : SPC_CONV;
    conv.cin = conv.cout = 1;
    conv.geometry = *geometry;
    assert_ok(spc_scene_create(&scene, coords, rows, NULL, &error), error.text);
    assert_ok(spc_oracle_relation(out, &conv, scene, 1, &error), error.text);
    spc_scene_free(scene);
}

static void fill_sets(fixture *p, int rows, bool spare, int batches)
{
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;
    size_t bytes = (size_t)rows * 16;
    /* Every second seed uses 64-bit keys. */
    int side = seed % 2 ? 1 << 18 : SIDE;

    assert_ok(spc_memory_alloc(&p->device_coords, p->ctx, bytes + 16),
              spc_ctx_error(p->ctx));
    assert_ok(spc_memory_upload(p->device_coords, p->ctx, p->coords, bytes),
              spc_ctx_error(p->ctx));
    options.capacity = rows + (spare ? SPARE_ROWS : 0);
    options.high[0] = batches - 1;
    for (int i = 1; i < 4; i++) {
        options.low[i] = LOW;
        options.high[i] = LOW + side - 1;
    }
    assert_ok(spc_coords_create_reserved(&p->fine, p->ctx, &options),
              spc_ctx_error(p->ctx));
    assert_ok(spc_coords_update(p->fine, p->device_coords, NULL, rows, NULL),
              spc_ctx_error(p->ctx));
    assert_ok(spc_coords_check(p->fine, NULL), spc_ctx_error(p->ctx));
}

static void fill_map(fixture *p, const spc_feature *f, int rows)
{
    const spc_geometry *g = &f->geometry;
    bool back = spc__feature_takes_inverse(f), subm = g->rule == SPC_RULE_SUBM;

    if (!subm) {
        assert_ok(spc_coords_create_outputs_reserved(&p->coarse, p->fine, g, 0),
                  spc_ctx_error(p->ctx));
        assert_ok(spc_coords_update(p->coarse, NULL, NULL, 0, NULL),
                  spc_ctx_error(p->ctx));
    }
    spc_coords *to = subm ? p->fine : p->coarse;
    assert_ok(back ? spc_map_create_inverse(&p->map, to, p->fine, g)
                   : spc_map_create(&p->map, p->fine, to, g),
              spc_ctx_error(p->ctx));
    assert_ok(spc_map_update(p->map, NULL, NULL, 0, NULL),
              spc_ctx_error(p->ctx));
    assert_ok(spc_map_check(p->map, NULL), spc_ctx_error(p->ctx));
    relate(&p->relation, g, back, p->coords, rows);
    relate(&p->down, g, false, p->coords, rows);
    p->of.map = p->relation.index;
    p->of.rows_in = p->relation.rows_in;
    p->of.rows_out = p->relation.rows_out;
}

/* Makes the sets with `spare` additional rows of capacity. */
static void open_fixture(fixture *p, spc_ctx *ctx, const spc_feature *f,
                         const int32_t *coords, int rows, int batches,
                         bool spare)
{
    memset(p, 0, sizeof(*p));
    p->ctx = ctx;
    p->coords = malloc((size_t)rows * 16 + 16);
    memcpy(p->coords, coords, (size_t)rows * 16);
    fill_sets(p, rows, spare, batches);
    p->of.rows_in = p->of.rows_out = rows;
    p->of.batches = batches;
    p->of.coords = p->coords;
    if (spc__feature_takes_map(f))
        fill_map(p, f, rows);
}

static void close_fixture(fixture *p)
{
    spc_map_free(p->map);
    spc_coords_free(p->coarse);
    spc_coords_free(p->fine);
    spc_relation_release(&p->relation);
    spc_relation_release(&p->down);
    spc_memory_free(p->ctx, p->device_coords);
    free(p->coords);
}

/* ---- arrays -------------------------------------------------------------- */

/* Rows on a device, with margins and a pitch. All bytes outside the rows are
 * 0xff (NaN). */
typedef struct rows_of {
    char *base, *data;
    size_t bytes;
    int64_t rows, row, pitch;
    spc_dtype dtype;
} rows_of;

static size_t element_bytes(spc_dtype dtype)
{
    return spc__dtype_of(dtype)->bytes;
}

static void poison(spc_ctx *ctx, const rows_of *r)
{
    char *ones = malloc(r->bytes);

    memset(ones, 0xff, r->bytes);
    assert_ok(spc_memory_upload(r->base, ctx, ones, r->bytes),
              spc_ctx_error(ctx));
    free(ones);
}

/* Makes an array that is `shift` elements off alignment and has `wider`
 * elements between rows. */
static rows_of lay(spc_ctx *ctx, spc_dtype dtype, int64_t rows, int64_t row,
                   int shift, int wider)
{
    rows_of r = {
        .rows = rows, .row = row, .pitch = row + wider, .dtype = dtype};
    void *memory;

    r.bytes =
        2 * MARGIN + (size_t)(rows * r.pitch + shift) * element_bytes(dtype);
    assert_ok(spc_memory_alloc(&memory, ctx, r.bytes), spc_ctx_error(ctx));
    r.base = memory;
    r.data = r.base + MARGIN + (size_t)shift * element_bytes(dtype);
    poison(ctx, &r);
    return r;
}

static void move_in(spc_ctx *ctx, const rows_of *r, const float *values,
                    int64_t rows)
{
    size_t bytes = (size_t)r->row * element_bytes(r->dtype);
    char *stored = malloc(bytes + 4);

    for (int64_t i = 0; i < rows; i++) {
        spc__dtype_of(r->dtype)->encode(stored, values + i * r->row,
                                        (size_t)r->row);
        assert_ok(spc_memory_upload(r->data + (size_t)(i * r->pitch) *
                                                  element_bytes(r->dtype),
                                    ctx, stored, bytes),
                  spc_ctx_error(ctx));
    }
    free(stored);
}

/* Copies the whole buffer from the device. */
static char *fetch(spc_ctx *ctx, const rows_of *r)
{
    char *copy = malloc(r->bytes);

    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    assert_ok(spc_memory_download(copy, ctx, r->base, r->bytes),
              spc_ctx_error(ctx));
    return copy;
}

static const char *element_at(const char *copy, const rows_of *r, int64_t i)
{
    return copy + (r->data - r->base) +
           (size_t)(i / r->row * r->pitch + i % r->row) *
               element_bytes(r->dtype);
}

/* Checks that all bytes outside the first `rows` rows are unchanged. */
static void check_untouched(const char *copy, const rows_of *r, int64_t rows,
                            const char *what)
{
    size_t element = element_bytes(r->dtype),
           begin = (size_t)(r->data - r->base);
    size_t pitch = (size_t)r->pitch * element;

    for (size_t i = 0; i < r->bytes; i++) {
        size_t row = i < begin ? 0 : (i - begin) / pitch;
        bool inside = i >= begin && row < (size_t)rows &&
                      (i - begin) % pitch < (size_t)r->row * element;
        if (!inside && (unsigned char)copy[i] != 0xff)
            ck_abort_msg("%s: byte %zu of %zu was written to", what, i,
                         r->bytes);
    }
}

/* ---- running ------------------------------------------------------------- */

/* The data of one run. */
typedef struct trial {
    fixture at;
    rows_of in, add, out;
    float *values, *more, *scale, *shift; /* in host memory */
    void *scales, *shifts, *index, *workspace;
    int off;         /* floats before scales and shifts in buffers */
    int32_t *stored; /* indices, an input of UNPOOL */
    char text[200];
} trial;

static void *copy_of(spc_ctx *ctx, const void *from, size_t bytes)
{
    void *to;

    assert_ok(spc_memory_alloc(&to, ctx, bytes + 16), spc_ctx_error(ctx));
    assert_ok(spc_memory_upload(to, ctx, from, bytes), spc_ctx_error(ctx));
    return to;
}

/* Returns n floats on the device, `off` floats after the start of a buffer. */
static void *floats_of(spc_ctx *ctx, const float *from, int n, int off)
{
    size_t bytes = (size_t)n * 4;
    void *to;

    assert_ok(spc_memory_alloc(&to, ctx, bytes + 16), spc_ctx_error(ctx));
    assert_ok(spc_memory_upload((float *)to + off, ctx, from, bytes),
              spc_ctx_error(ctx));
    return to;
}

/* Chooses for every output of the pooling an input that it reads, or none. */
static void draw_index(int32_t *out, const spc_relation *down, int channels,
                       spc__random *random)
{
    for (int64_t row = 0; row < down->rows_out; row++)
        for (int c = 0; c < channels; c++) {
            int64_t k = spc__random_below(random, (uint32_t)down->offsets);
            out[row * channels + c] = down->index[k * down->rows_out + row];
        }
}

/* Returns the rows of `add`: those of the inputs, or the number of batch
 * elements if it is larger. */
static int64_t rows_of_add(const trial *t, int64_t inputs)
{
    return inputs > t->at.of.batches ? inputs : t->at.of.batches;
}

static void draw_trial(trial *t, const spc_feature *f, bool integers,
                       spc__random *random)
{
    size_t n = (size_t)t->at.of.rows_in * (size_t)f->channels;
    size_t more =
        (size_t)rows_of_add(t, t->at.of.rows_in) * (size_t)f->channels;

    t->values = malloc(n * 4 + 4);
    t->more = malloc(more * 4 + 4);
    t->scale = malloc((size_t)f->channels * 4);
    t->shift = malloc((size_t)f->channels * 4);
    t->stored = malloc(n * 4 + 4);
    draw_values(t->values, n, f->dtype, integers, random);
    draw_values(t->more, more, f->dtype, integers, random);
    draw_values(t->scale, (size_t)f->channels, SPC_F32, integers, random);
    draw_values(t->shift, (size_t)f->channels, SPC_F32, integers, random);
    if (f->op == SPC_FEATURE_UNPOOL)
        draw_index(t->stored, &t->at.down, f->channels, random);
    t->at.of.in = t->values;
    t->at.of.add = t->more;
    t->at.of.scale = t->scale;
    t->at.of.shift = t->shift;
    t->at.of.index = t->stored;
}

/* Returns the capacity in rows of the arrays of inputs and outputs. */
static int64_t capacity_in(const fixture *p, const spc_feature *f)
{
    bool back = spc__feature_takes_inverse(f);

    return spc_coords_capacity(back ? p->coarse : p->fine);
}

static int64_t capacity_out(const fixture *p, const spc_feature *f)
{
    spc_coords *to = p->map != NULL ? spc_map_out(p->map) : p->fine;

    return spc_feature_rows_out(f, spc_coords_capacity(to),
                                spc_coords_batches(p->fine));
}

/* Copies everything to the device. `slices` selects separate arrays, aligned
 * slices of wider rows, unaligned addresses or pitches, or only unaligned
 * scales and shifts. */
static void move_trial(trial *t, const spc_feature *f, int slices)
{
    static const int shifts[SLICES] = {0, 8, 1, 0, 0};
    static const int widths[SLICES] = {0, 16, 16, 3, 0};
    static const int off[SLICES] = {0, 0, 0, 0, 1};
    spc_ctx *ctx = t->at.ctx;
    int64_t in = capacity_in(&t->at, f), out = capacity_out(&t->at, f);
    size_t entries = (size_t)(in > out ? in : out) * (size_t)f->channels;
    int shift = shifts[slices], wider = widths[slices];

    t->in = lay(ctx, f->dtype, in, f->channels, shift, wider);
    t->add = lay(ctx, f->dtype, rows_of_add(t, in), f->channels, shift, wider);
    t->out = lay(ctx, f->dtype, out, spc_feature_elements_out(f), shift, wider);
    move_in(ctx, &t->in, t->values, t->at.of.rows_in);
    move_in(ctx, &t->add, t->more, rows_of_add(t, t->at.of.rows_in));
    t->off = off[slices];
    t->scales = floats_of(ctx, t->scale, f->channels, t->off);
    t->shifts = floats_of(ctx, t->shift, f->channels, t->off);
    assert_ok(spc_memory_alloc(&t->index, ctx, entries * 4 + 4),
              spc_ctx_error(ctx));
    if (f->op == SPC_FEATURE_UNPOOL)
        assert_ok(spc_memory_upload(t->index, ctx, t->stored,
                                    (size_t)t->at.of.rows_in *
                                        (size_t)f->channels * 4),
                  spc_ctx_error(ctx));
}

static spc_feature_buffers buffers_of(const trial *t)
{
    return (spc_feature_buffers){
        .bytes = sizeof(spc_feature_buffers),
        .in = t->in.data,
        .in_pitch = t->in.pitch,
        .add = t->add.data,
        .add_pitch = t->add.pitch,
        .out = t->out.data,
        .out_pitch = t->out.pitch,
        .index = t->index,
        .scale = (const float *)t->scales + t->off,
        .shift = (const float *)t->shifts + t->off,
        .workspace = t->workspace,
    };
}

/* On the host, maps always have what these operators read. On other devices the
 * operator reports what is missing. */
static void prepare(trial *t, const spc_feature_plan *plan,
                    const spc_feature_buffers *buffers)
{
    spc_ctx *ctx = t->at.ctx;

    if (!spc__device_ops_of(ctx->device)->builds_maps_on_host) {
        ck_assert_int_eq(
            spc_feature_plan_execute(plan, NULL, t->at.map, buffers, NULL),
            SPC_ESTATE);
        ck_assert_ptr_nonnull(
            strstr(spc_ctx_error(ctx), "call spc_feature_plan_prepare first"));
    }
    assert_ok(spc_feature_plan_prepare(plan, t->at.map, NULL),
              spc_ctx_error(ctx));
}

static void execute(trial *t, const spc_feature_plan *plan)
{
    spc_ctx *ctx = t->at.ctx;
    spc_feature_buffers buffers = SPC_FEATURE_BUFFERS_INIT;
    size_t bytes = spc_feature_plan_workspace_bytes(plan, t->at.fine);
    char *ones = malloc(bytes + 1);

    memset(ones, 0xff, bytes);
    if (t->workspace == NULL)
        t->workspace = copy_of(ctx, ones, bytes);
    free(ones);
    buffers = buffers_of(t);
    if (t->at.map != NULL)
        prepare(t, plan, &buffers);
    assert_ok(spc_feature_plan_execute(plan,
                                       t->at.map != NULL ? NULL : t->at.fine,
                                       t->at.map, &buffers, NULL),
              spc_ctx_error(ctx));
}

static void release_trial(trial *t)
{
    spc_ctx *ctx = t->at.ctx;
    void *on_device[] = {t->in.base, t->add.base, t->out.base, t->scales,
                         t->shifts,  t->index,    t->workspace};

    for (int i = 0; i < LENGTH(on_device); i++)
        spc_memory_free(ctx, on_device[i]);
    free(t->values);
    free(t->more);
    free(t->scale);
    free(t->shift);
    free(t->stored);
    close_fixture(&t->at);
}

/* ---- comparing with the oracle ------------------------------------------- */

static void check_element(const trial *t, const spc_feature *f, const char *at,
                          int64_t i, double reference, double tolerance,
                          bool exact)
{
    const spc__dtype *type = spc__dtype_of(f->dtype);
    float got, want = (float)reference;
    char stored[4];

    type->decode(&got, at, 1);
    type->encode(stored, &want, 1);
    type->decode(&want, stored, 1);
    bool right = exact ? got == want
                       : fabs((double)got - reference) <=
                             spc__feature_tolerance(f, reference, tolerance);
    if (!right)
        ck_abort_msg("%s: row %lld, element %lld is %.9g, must be %.9g within "
                     "%.3g",
                     t->text, (long long)(i / t->out.row),
                     (long long)(i % t->out.row), (double)got, reference,
                     exact ? 0
                           : spc__feature_tolerance(f, reference, tolerance));
}

static void check_index(const trial *t, const int32_t *want, int64_t n)
{
    int32_t *got = malloc((size_t)n * 4 + 4);

    assert_ok(spc_memory_download(got, t->at.ctx, t->index, (size_t)n * 4),
              spc_ctx_error(t->at.ctx));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i])
            ck_abort_msg("%s: index %lld is %d, must be %d", t->text,
                         (long long)i, got[i], want[i]);
    free(got);
}

static void check_trial(const trial *t, const spc_feature *f, bool integers)
{
    const spc__feature_case *of = &t->at.of;
    int64_t rows = spc_feature_rows_out(f, of->rows_out, of->batches);
    int64_t n = rows * t->out.row;
    bool exact = integers && spc__feature_is_exact(f);
    bool stored = f->op == SPC_FEATURE_POOL && f->index;
    double *reference = malloc((size_t)n * 8 + 8);
    double *tolerance = malloc((size_t)n * 8 + 8);
    int32_t *index = malloc((size_t)n * 4 + 4);
    char *copy = fetch(t->at.ctx, &t->out);

    spc__feature_oracle(reference, tolerance, stored ? index : NULL, f, of);
    for (int64_t i = 0; i < n; i++)
        check_element(t, f, element_at(copy, &t->out, i), i, reference[i],
                      tolerance[i], exact);
    check_untouched(copy, &t->out, rows, t->text);
    if (stored)
        check_index(t, index, n);
    free(reference);
    free(tolerance);
    free(index);
    free(copy);
}

static void describe(trial *t, const spc_feature *f, const char *device,
                     int rows, int batches, bool integers, int slices)
{
    char text[120];

    spc_feature_format(text, sizeof(text), f);
    snprintf(t->text, sizeof(t->text),
             "%s %s, %d rows, %d batches, %s, slices %d, seed %llu", device,
             text, rows, batches, integers ? "integers" : "reals", slices,
             (unsigned long long)seed);
}

/* Runs the trial on these voxels. The caller releases it. */
static void run_trial(trial *t, const spc_feature *f,
                      const spc_feature_plan *plan, spc_ctx *ctx,
                      const int32_t *coords, int rows, int batches, bool spare,
                      bool integers, int slices, uint64_t values)
{
    spc__random random;

    memset(t, 0, sizeof(*t));
    spc__random_init(&random, values);
    open_fixture(&t->at, ctx, f, coords, rows, batches, spare);
    draw_trial(t, f, integers, &random);
    move_trial(t, f, slices);
    describe(t, f, ctx->info.id, rows, batches, integers, slices);
    execute(t, plan);
}

/* ---- every operator against its definition ---------------------- */

static spc_feature_plan *plan_of(spc_ctx *ctx, const spc_feature *f)
{
    spc_feature_plan *plan = NULL;

    assert_ok(spc_feature_plan_create(&plan, ctx, f, SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    return plan;
}

/* Results must not depend on the sets' capacity. */
static void check_capacity(const trial *t, const spc_feature *f,
                           const spc_feature_plan *plan, const int32_t *coords,
                           int rows, int batches, bool integers, int slices,
                           uint64_t values)
{
    const spc__feature_case *of = &t->at.of;
    trial exact;

    run_trial(&exact, f, plan, t->at.ctx, coords, rows, batches, false,
              integers, slices, values);
    char *first = fetch(t->at.ctx, &t->out);
    char *second = fetch(t->at.ctx, &exact.out);
    int64_t n = spc_feature_rows_out(f, of->rows_out, of->batches) * t->out.row;
    for (int64_t i = 0; i < n; i++)
        if (memcmp(element_at(first, &t->out, i),
                   element_at(second, &exact.out, i),
                   element_bytes(f->dtype)) != 0)
            ck_abort_msg("%s: element %lld depends on the capacity", t->text,
                         (long long)i);
    free(first);
    free(second);
    release_trial(&exact);
}

static void check_operator(spc_ctx *ctx, const spc_feature *f, int trials,
                           spc__random *random)
{
    spc_feature_plan *plan = plan_of(ctx, f);

    for (int i = 0; i < trials; i++) {
        int rows = pick(row_counts, LENGTH(row_counts), random);
        int batches = spc__random_below(random, 2) ? 3 : 1;
        int slices = (int)spc__random_below(random, SLICES);
        bool integers = spc__random_below(random, 2);
        uint64_t values = spc__random_u64(random);
        int32_t *coords = draw_coords(rows, batches, random);
        trial t;

        run_trial(&t, f, plan, ctx, coords, rows, batches, true, integers,
                  slices, values);
        check_trial(&t, f, integers);
        if (i == 0)
            check_capacity(&t, f, plan, coords, rows, batches, integers, slices,
                           values);
        release_trial(&t);
        free(coords);
    }
    spc_feature_plan_free(plan);
}

/* Of three operators this many are left to other seeds, because compiling is
 * slow with a sanitizer. */
#ifdef SPC_SANITIZE
enum { LEFT_OUT = 2 };
#else
enum { LEFT_OUT = 1 };
#endif

/* How many samples of every operator run on a GPU, which compiles kernels for
 * each. */
enum { GPU_ROUNDS = 2 };

/* Uses one context, so that the code of sets and maps is compiled once. */
START_TEST(every_operator_gives_what_its_definition_gives)
{
    const char *device = suite_device ? suite_device : devices[_i];
    spc_ctx *ctx = open_ctx(device, "");
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < LENGTH(operators); i++) {
        if (!suite_is_gpu() && spc__random_below(&random, 3) < LEFT_OUT)
            continue;
        for (int round = 0; round < (suite_is_gpu() ? GPU_ROUNDS : 1);
             round++) {
            spc_feature f = draw_feature(i, &random);
            check_operator(ctx, &f, suite_is_gpu() ? 9 : 3, &random);
        }
    }
    spc_ctx_free(ctx);
}
END_TEST

/* ---- common texts -------------------------------------------------------- */

START_TEST(every_example_reads_back_as_it_is_written)
{
    const char *text = spc_feature_example_at(_i);
    spc_feature feature, again;
    spc_error error = {0};
    char written[200], rewritten[200];

    assert_ok(spc_feature_parse(&feature, text, &error), error.text);
    spc_feature_format(written, sizeof(written), &feature);
    ck_assert_int_eq(strncmp(written, text, strcspn(text, ",")), 0);
    assert_ok(spc_feature_parse(&again, written, &error), error.text);
    spc_feature_format(rewritten, sizeof(rewritten), &again);
    ck_assert_str_eq(written, rewritten);
    ck_assert_int_eq(spc_feature_format(NULL, 0, &feature),
                     (int)strlen(written));
}
END_TEST

static const char *const canonical[] = {
    "pool=max,c=64,rule=floor,k=2,stride=2,index=1,dtype=f16",
    "unpool=index,c=3,rule=footprint,k=3,stride=2,padding=1,dtype=f32",
    "pool=sum,c=1,rule=subm,k=3,dtype=f16",
    "pool=slices,c=5,rule=floor,k=2x3x1,stride=2,dtype=bf16",
    "unpool=slices,c=54,rule=subm,k=3,dtype=f16",
    "add,c=64,act=leaky,slope=0.25,dtype=f16",
    "act=elu,c=5,dtype=f32",
    "norm=layer,c=96,eps=1e-05,affine=1,act=gelu,dtype=f16",
    "norm=group,c=768,groups=32,eps=0.001,dtype=f16",
    "repeat,c=64,by=2,dtype=f16",
    "multiply,c=5,dtype=bf16",
    "multiply,c=5,dtype=f32,pass=wgrad",
    "bev,c=64,shape=176x200x2,order=xyz,dtype=f16",
};

START_TEST(the_canonical_text_keeps_all_words)
{
    spc_feature feature;
    spc_error error = {0};
    char written[200];

    assert_ok(spc_feature_parse(&feature, canonical[_i], &error), error.text);
    spc_feature_format(written, sizeof(written), &feature);
    ck_assert_str_eq(written, canonical[_i]);
}
END_TEST

/* Checks that every pass of operator `op` has kernels for both kinds of device,
 * and a definition to compare them with. */
START_TEST(every_operator_has_a_complete_row)
{
    spc_feature layer, f;
    spc_error error = {0};

    assert_ok(spc_feature_parse(&layer, spc_feature_example_at(_i), &error),
              error.text);
    ck_assert_int_eq(layer.op, _i);
    layer.affine = spc__feature_row_of(layer.op)->scales_if_affine;
    if (layer.op != SPC_FEATURE_ACT && layer.op != SPC_FEATURE_ACTGRAD)
        layer.activation = SPC_ACT_NONE;
    for (int pass = SPC_FORWARD; pass <= SPC_WGRAD; pass++) {
        if (spc_feature_pass(&f, &layer, (spc_pass)pass, &error) != SPC_OK) {
            ck_assert_int_ne(pass, SPC_FORWARD);
            continue;
        }
        const spc__feature_launches *of = spc__feature_launches_of(&f);
        ck_assert_ptr_nonnull(of);
        ck_assert_ptr_nonnull(of->on_gpu);
        ck_assert_ptr_nonnull(of->on_host);
        ck_assert_ptr_nonnull(of->steps[0].name);
        ck_assert(spc__feature_is_defined(&f));
    }
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    {"", "the operator is empty"},
    {"pol=max,c=4", "unknown operator 'pol': did you mean 'pool'?"},
    {"pool,c=4", "'pool' needs a value, as in pool=mean"},
    {"pool=most,c=4", "unknown reduction 'most' (max, "},
    {"add=1,c=4", "the operator add takes no value: found add=1"},
    {"act=swish,c=4", "unknown activation 'swish'"},
    {"act=none,c=4", "act=none does nothing"},
    {"norm=batch,c=4", "unknown normalisation 'batch'"},
    {"unpool=mean,c=4", "unknown way to un-pool 'mean'"},
    {"add", "'c' is missing; example: add,c=64,act=relu"},
    {"add,c", "'c' needs a value"},
    {"add,c=0", "c=0: expected 1 to 65536 channels"},
    {"add,c=x", "c=x: expected 1 to 65536 channels, as in c=64"},
    {"add,c=4,c=4", "'c' is given twice"},
    {"multiply,c=4,act=relu", "unknown word 'act'"},
    {"multiply=2,c=4", "multiply takes no value"},
    {"add,c=4,pass=wgrad", "or of the rows that multiply reads"},
    {"add,c=4,eps=1", "unknown word 'eps'"},
    {"add,c=4,", "an empty word at position 8"},
    {"add,c=4,slope=", "slope=: expected a number"},
    {"act=leaky,c=4,slope=nan", "slope=nan"},
    {"add,c=4,dtype=tf32", "dtype=tf32: features are f16, bf16 or f32"},
    {"add,c=4,dtype=f8", "unknown dtype 'f8'"},
    {"pool=max,c=4,k=2,stride=2", "'rule' is missing"},
    {"pool=max,c=4,rule=floor", "'k' is missing"},
    {"pool=max,c=4,rule=floor,k=0", "k=0: expected one number or three"},
    {"pool=max,c=4,rule=flor,k=2", "unknown rule 'flor'"},
    {"pool=max,c=4,rule=subm,k=2,stride=2", "which is stride 1"},
    {"pool=mean,c=4,rule=floor,k=2,stride=2,index=1", "only pool=max has"},
    {"pool=max,c=4,rule=floor,k=2,index=2", "index=2: expected 0 or 1"},
    {"pool=slices,c=8193,rule=floor,k=2,stride=2", "c=8193: expected 1 to"},
    {"pool=slices,c=8,rule=floor,k=2,stride=2,index=1", "unknown word 'index'"},
    {"pool=slices,c=8,rule=generative,k=2,stride=2", "pooling is by the rules"},
    {"unpool=slices,c=12,rule=floor,k=2,stride=2",
     "c=12: expected a multiple of the kernel's 8 offsets"},
    {"unpool=slice,c=8,rule=floor,k=2", "did you mean 'slices'?"},
    {"norm=layer,c=4,eps=-1", "eps=-1: expected a number >= 0"},
    {"norm=layer,c=4,affine=yes", "affine=yes: expected 0 or 1"},
    {"norm=group,c=10", "'groups' is missing"},
    {"norm=group,c=10,groups=3", "groups=3: expected a divisor of the 10"},
    {"groupsum,c=10,by=4", "by=4: expected a divisor of the 10 channels"},
    {"repeat,c=4096,by=17", "by=17: expected 1 to 16"},
    {"bev,c=4", "'shape' is missing"},
    {"bev,c=4,shape=0x1x1", "shape=0x1x1"},
    {"bev,c=4,shape=8x8", "shape=8x8: expected one number or three"},
    {"bev,c=4,shape=0", "each 1 to 65536"},
    {"actgrad=none,c=4", "actgrad=none does nothing"},
    {"pool=slices,c=192,rule=floor,k=7", "the kernel's 343 offsets"},
    {"bev,c=4,shape=65536x65536x1", "cells in a plane"},
    {"bev,c=4,shape=4,order=yxz", "unknown order 'yxz'"},
};

START_TEST(bad_words_have_their_sentence)
{
    spc_feature feature;
    spc_error error = {0};

    ck_assert_int_eq(spc_feature_parse(&feature, bad[_i].text, &error),
                     SPC_EINVAL);
    ck_assert_msg(strstr(error.text, bad[_i].says) != NULL,
                  "'%s' does not say '%s'", error.text, bad[_i].says);
    ck_assert_int_eq(spc_feature_parse(&feature, bad[_i].text, NULL),
                     SPC_EINVAL);
}
END_TEST

START_TEST(sizes_follow_from_the_words)
{
    static const struct {
        const char *text;
        int64_t row, rows;
    } sizes[] = {
        {"add,c=6", 6, 100},
        {"global=max,c=6", 6, 4},
        {"multiply,c=6", 6, 100},
        {"multiply,c=6,pass=wgrad", 6, 4},
        {"affine,c=6,pass=wgrad", 12, 1},
        {"groupsum,c=6,by=3", 2, 100},
        {"repeat,c=6,by=3", 18, 100},
        {"pool=slices,c=6,rule=subm,k=3x2x1", 36, 100},
        {"unpool=slices,c=6,rule=subm,k=3x2x1", 1, 100},
        {"bev,c=6,shape=5x7x2", 420, 4},
    };
    spc_feature feature;
    spc_error error = {0};

    for (int i = 0; i < LENGTH(sizes); i++) {
        assert_ok(spc_feature_parse(&feature, sizes[i].text, &error),
                  error.text);
        ck_assert_int_eq(spc_feature_elements_out(&feature), sizes[i].row);
        ck_assert_int_eq(spc_feature_rows_out(&feature, 100, 4), sizes[i].rows);
    }
    ck_assert_int_eq(spc_feature_elements_out(NULL), 0);
    ck_assert_ptr_null(spc_feature_example_at(1000));
    char words[80];
    spc_feature_words(words, sizeof(words), SPC_FEATURE_GROUPSUM);
    ck_assert_str_eq(words, "c, by, dtype, pass");
    ck_assert_int_eq(spc_feature_words(NULL, 0, SPC_FEATURE_GROUPSUM), 18);
}
END_TEST

/* ---- running ------------------------------------------------------------- */

static const char *quick_device(void)
{
    return suite_device ? suite_device : "cpu";
}

static spc_feature feature_of(const char *text)
{
    spc_feature feature;
    spc_error error = {0};

    assert_ok(spc_feature_parse(&feature, text, &error), error.text);
    return feature;
}

static void assert_says(spc_ctx *ctx, spc_status status, spc_status wanted,
                        const char *says)
{
    ck_assert_int_eq(status, wanted);
    ck_assert_msg(strstr(spc_ctx_error(ctx), says) != NULL,
                  "'%s' does not say '%s'", spc_ctx_error(ctx), says);
}

/* Omits or invalidates one argument at a time. */
START_TEST(bad_arguments_have_their_sentence)
{
    spc_ctx *ctx = open_ctx(quick_device(), "");
    spc_feature norm = feature_of("norm=group,c=8,groups=2,affine=1");
    spc_feature pool =
        feature_of("pool=max,c=8,rule=floor,k=2,stride=2,index=1");
    spc_feature_plan *plan = plan_of(ctx, &norm), *pools = plan_of(ctx, &pool);
    spc__random random;
    trial t;

    spc__random_init(&random, 1);
    int32_t *coords = draw_coords(40, 1, &random);
    run_trial(&t, &norm, plan, ctx, coords, 40, 1, false, true, 0, 1);
    const spc_feature_buffers good = buffers_of(&t);
    spc_feature_buffers b = SPC_FEATURE_BUFFERS_INIT;

#define EXPECT(change, says)                                                   \
    do {                                                                       \
        b = good;                                                              \
        change;                                                                \
        assert_says(ctx,                                                       \
                    spc_feature_plan_execute(plan, t.at.fine, NULL, &b, NULL), \
                    SPC_EINVAL, says);                                         \
    } while (0)

    EXPECT(b.in = NULL, "buffer `in` is NULL");
    EXPECT(b.out = NULL, "buffer `out` is NULL");
    EXPECT(b.in = (const char *)b.in + 1, "2-byte aligned");
    EXPECT(b.out_pitch = 7, "`out_pitch` is 7: a row has 8 elements");
    EXPECT(b.scale = NULL, "buffer `scale` is NULL");
    EXPECT(b.shift = NULL, "buffer `shift` is NULL");
    EXPECT(b.workspace = NULL, "buffer `workspace` is NULL");
    EXPECT(b.workspace = (char *)b.workspace + 64, "256-byte aligned");
#undef EXPECT
    assert_says(ctx, spc_feature_plan_execute(plan, NULL, NULL, &good, NULL),
                SPC_EINVAL, "takes a set, and no map");
    assert_says(ctx,
                spc_feature_plan_execute(plan, t.at.fine, NULL, NULL, NULL),
                SPC_EINVAL, "the buffers are NULL");
    assert_says(ctx,
                spc_feature_plan_execute(pools, t.at.fine, NULL, &good, NULL),
                SPC_EINVAL, "takes a map, and no set");
    ck_assert_int_eq(
        spc_feature_plan_execute(NULL, t.at.fine, NULL, &good, NULL),
        SPC_EINVAL);
    spc_feature_plan *none = plan;
    assert_says(ctx, spc_feature_plan_create(&none, ctx, NULL, 0), SPC_EINVAL,
                "feature");
    ck_assert_ptr_null(none);
    assert_says(ctx,
                spc_feature_plan_create(&none, ctx, &norm, SPC_PLAN_ESTIMATE),
                SPC_EINVAL, "SPC_PLAN_CACHED_ONLY");
    release_trial(&t);
    free(coords);
    spc_feature_plan_free(plan);
    spc_feature_plan_free(pools);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(only_a_map_of_the_operator_is_taken)
{
    spc_ctx *ctx = open_ctx(quick_device(), "");
    spc_feature pool = feature_of("pool=max,c=8,rule=floor,k=2,stride=2");
    spc_feature other = feature_of("pool=max,c=8,rule=floor,k=3,stride=2");
    spc_feature back = feature_of("unpool=nearest,c=8,rule=floor,k=2,stride=2");
    spc_feature_plan *plan = plan_of(ctx, &pool),
                     *others = plan_of(ctx, &other);
    spc_feature_plan *backs = plan_of(ctx, &back);
    int32_t coords[] = {0, 1, 1, 1, 0, 3, 3, 3};
    spc_feature_buffers none = SPC_FEATURE_BUFFERS_INIT;
    fixture p;

    open_fixture(&p, ctx, &pool, coords, 2, 1, true);
    assert_says(ctx, spc_feature_plan_prepare(others, p.map, NULL), SPC_EINVAL,
                "another rule, kernel");
    assert_says(ctx, spc_feature_plan_prepare(backs, p.map, NULL), SPC_EINVAL,
                "takes the inverse map");
    assert_ok(spc_feature_plan_prepare(plan, p.map, NULL), spc_ctx_error(ctx));
    assert_says(ctx, spc_feature_plan_execute(plan, NULL, p.map, &none, NULL),
                SPC_EINVAL, "buffer `in` is NULL");
    close_fixture(&p);
    spc_feature_plan_free(plan);
    spc_feature_plan_free(others);
    spc_feature_plan_free(backs);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(executing_allocates_nothing)
{
    static const char *const texts[] = {"norm=group,c=8,groups=2",
                                        "bev,c=8,shape=9x9x2"};
    spc_ctx *ctx = open_ctx(quick_device(), "");
    spc_feature f = feature_of(texts[_i]);
    spc_feature_plan *plan = plan_of(ctx, &f);
    spc__random random;
    trial t;

    spc__random_init(&random, 1);
    int32_t *coords = draw_coords(100, 1, &random);
    run_trial(&t, &f, plan, ctx, coords, 100, 1, true, true, 0, 1);
    spc_feature_buffers buffers = buffers_of(&t);
    poison(ctx, &t.out);
    atomic_store(&allocations, 0);
    atomic_store(&watching, 1);
    spc_status status =
        spc_feature_plan_execute(plan, t.at.fine, NULL, &buffers, NULL);
    atomic_store(&watching, 0);
    assert_ok(status, spc_ctx_error(ctx));
    ck_assert_int_eq(atomic_load(&allocations), 0);
    check_trial(&t, &f, true);
    release_trial(&t);
    free(coords);
    spc_feature_plan_free(plan);
    spc_ctx_free(ctx);
}
END_TEST

static void assert_same_rows(const trial *a, const trial *b, int64_t rows)
{
    char *first = fetch(a->at.ctx, &a->out),
         *second = fetch(b->at.ctx, &b->out);
    size_t bytes = (size_t)(rows * a->out.pitch) * element_bytes(a->out.dtype);

    ck_assert_int_eq(memcmp(element_at(first, &a->out, 0),
                            element_at(second, &b->out, 0), bytes),
                     0);
    free(first);
    free(second);
}

/* The first of three batch elements must get the same result as alone. The same
 * plan must also run if the device fills the set with only this element, which
 * the host does not know. */
START_TEST(batch_elements_and_frames_do_not_see_each_other)
{
    static const char *const texts[] = {"norm=group,c=24,groups=4,dtype=f32",
                                        "global=mean,c=24,dtype=f32"};
    enum { ROWS = 300, ALONE = 100 };
    spc_ctx *ctx = open_ctx(quick_device(), "");
    spc_feature f = feature_of(texts[_i]);
    spc_feature_plan *plan = plan_of(ctx, &f);
    spc__random random;
    trial alone, all;

    spc__random_init(&random, seed);
    int32_t *coords = draw_coords(ROWS, 1, &random);
    for (int i = ALONE; i < ROWS; i++)
        coords[4 * i] = 1 + i % 2;
    run_trial(&alone, &f, plan, ctx, coords, ALONE, 3, true, false, 0, 7);
    run_trial(&all, &f, plan, ctx, coords, ROWS, 3, true, false, 0, 7);
    int64_t rows = spc_feature_rows_out(&f, ALONE, 1);
    assert_same_rows(&alone, &all, rows);
    poison(ctx, &all.out);
    assert_ok(
        spc_coords_update(all.at.fine, all.at.device_coords, NULL, ALONE, NULL),
        spc_ctx_error(ctx));
    execute(&all, plan);
    assert_same_rows(&alone, &all, spc_feature_rows_out(&f, ALONE, 3));
    release_trial(&alone);
    release_trial(&all);
    free(coords);
    spc_feature_plan_free(plan);
    spc_ctx_free(ctx);
}
END_TEST

/* Detectors view [N][C][D][H][W] as [N][C * D][H][W]: the channel of a plane is
 * c * D + z. With axes x, y, z (BEVFusion), planes are [X][Y]. A volume is
 * [N][C][X][Y][Z]. */
START_TEST(planes_lie_as_detectors_read_them)
{
    enum { X = 3, Y = 4, D = 2, C = 2, BATCHES = 2, ROWS = 4 };
    static const int32_t coords[ROWS][4] = {
        {0, 2, 1, 0}, {0, 0, 3, 1}, {1, 1, 0, 1}, {1, 2, 3, 0}};
    float values[ROWS][C], wanted[BATCHES * C * D * X * Y] = {0};
    float got[BATCHES * C * D * X * Y];
    spc_ctx *ctx = open_ctx(quick_device(), "");
    static const char *const layers[] = {
        "bev,c=2,shape=3x4x2,order=zyx,dtype=f32",
        "bev,c=2,shape=3x4x2,order=xyz,dtype=f32",
        "bev,c=2,shape=3x4x2,order=volume,dtype=f32"};
    spc_feature f = feature_of(layers[_i]);
    spc_feature_plan *plan = plan_of(ctx, &f);
    spc_coords_options options = {.bytes = sizeof(spc_coords_options),
                                  ROWS,
                                  {0, 0, 0, 0},
                                  {BATCHES - 1, X - 1, Y - 1, D - 1},
                                  0,
                                  SPC_DUPLICATES_ERROR};
    spc_coords *set = NULL;

    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < C; c++) {
            const int32_t *at = coords[row];
            int channel = at[0] * C + c, plane = channel * D + at[3];
            const int places[] = {(plane * Y + at[2]) * X + at[1],
                                  (plane * X + at[1]) * Y + at[2],
                                  ((channel * X + at[1]) * Y + at[2]) * D +
                                      at[3]};
            values[row][c] = (float)(10 * row + c + 1);
            wanted[places[_i]] = values[row][c];
        }
    void *rows = copy_of(ctx, coords, sizeof(coords));
    void *in = copy_of(ctx, values, sizeof(values));
    void *out = copy_of(ctx, wanted, sizeof(wanted));
    spc_feature_buffers buffers = {
        .bytes = sizeof(spc_feature_buffers), .in = in, .out = out};
    void *work = NULL;
    memset(got, 0xff, sizeof(got));
    assert_ok(spc_memory_upload(out, ctx, got, sizeof(got)),
              spc_ctx_error(ctx));
    assert_ok(spc_coords_create_reserved(&set, ctx, &options),
              spc_ctx_error(ctx));
    assert_ok(spc_coords_update(set, rows, NULL, ROWS, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_memory_alloc(&work, ctx,
                               spc_feature_plan_workspace_bytes(plan, set)),
              spc_ctx_error(ctx));
    buffers.workspace = work;
    assert_ok(spc_feature_plan_execute(plan, set, NULL, &buffers, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    assert_ok(spc_memory_download(got, ctx, out, sizeof(got)),
              spc_ctx_error(ctx));
    ck_assert_mem_eq(got, wanted, sizeof(got));
    spc_coords_free(set);
    spc_memory_free(ctx, rows);
    spc_memory_free(ctx, in);
    spc_memory_free(ctx, out);
    spc_memory_free(ctx, work);
    spc_feature_plan_free(plan);
    spc_ctx_free(ctx);
}
END_TEST

/* Duplicate rows and rows out of range are processed like any other. */
START_TEST(operators_by_rows_take_every_row_given)
{
    int32_t coords[] = {0, 1, 1, 1, 0, 1, 1, 1, 0, 99, 1, 1, 0, 2, 2, 2};
    float values[] = {-1, 2, -3, 4}, wanted[] = {0, 2, 0, 4}, got[4];
    spc_ctx *ctx = open_ctx(quick_device(), "");
    spc_feature f = feature_of("act=relu,c=1,dtype=f32");
    spc_feature_plan *plan = plan_of(ctx, &f);
    spc_coords_options options = {.bytes = sizeof(spc_coords_options),
                                  5,
                                  {0, 0, 0, 0},
                                  {0, 9, 9, 9},
                                  0,
                                  SPC_DUPLICATES_FIRST};
    spc_coords *set = NULL;
    void *rows = copy_of(ctx, coords, sizeof(coords));
    void *in = copy_of(ctx, values, sizeof(values));
    void *out = copy_of(ctx, values, sizeof(values));
    spc_feature_buffers buffers = {
        .bytes = sizeof(spc_feature_buffers), .in = in, .out = out};

    assert_ok(spc_coords_create_reserved(&set, ctx, &options),
              spc_ctx_error(ctx));
    assert_ok(spc_coords_update(set, rows, NULL, 4, NULL), spc_ctx_error(ctx));
    assert_ok(spc_feature_plan_execute(plan, set, NULL, &buffers, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    assert_ok(spc_memory_download(got, ctx, out, sizeof(got)),
              spc_ctx_error(ctx));
    ck_assert_int_eq(memcmp(got, wanted, sizeof(got)), 0);
    spc_coords_free(set);
    spc_memory_free(ctx, rows);
    spc_memory_free(ctx, in);
    spc_memory_free(ctx, out);
    spc_feature_plan_free(plan);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(a_database_serves_plans_without_a_compiler)
{
    char path[] = "/tmp/spc-features-XXXXXX";
    spc_feature f = feature_of("act=relu,c=8");
    spc_feature_plan *plan = NULL;
    int file = mkstemp(path);

    ck_assert_int_ge(file, 0);
    close(file);
    spc_ctx *ctx = open_ctx(quick_device(), path);
    assert_says(ctx,
                spc_feature_plan_create(&plan, ctx, &f, SPC_PLAN_CACHED_ONLY),
                SPC_ENOTFOUND, "compiling was not permitted");
    plan = plan_of(ctx, &f);
    spc_feature_plan_free(plan);
    spc_ctx_free(ctx);
    ctx = open_ctx(quick_device(), path);
    assert_ok(spc_feature_plan_create(&plan, ctx, &f, SPC_PLAN_CACHED_ONLY),
              spc_ctx_error(ctx));
    ck_assert_int_eq(spc_ctx_stats(ctx).compiles, 0);
    spc_feature_plan_free(plan);
    spc_ctx_free(ctx);
    unlink(path);
}
END_TEST

/* ---- rows of many channels ---------------------------------------------- */

/* Rows that a warp processes in several iterations. Some have exactly the
 * elements that the lanes process at once, some have one more. Some warps have
 * several rows, some a single one. */
static const char *const many_channels[] = {
    "norm=layer,c=520,affine=1",
    "norm=layer,c=1024,act=silu,dtype=bf16",
    "norm=layer,c=2056,affine=1,act=gelu",
    "norm=layer,c=1023,affine=1,dtype=f32",
    "norm=layer,c=520,affine=1,pass=dgrad",
    "norm=layer,c=4100,affine=1,dtype=f32,pass=dgrad",
};

START_TEST(rows_of_many_channels_are_normalised)
{
    spc_ctx *ctx = open_ctx(suite_device ? suite_device : "sim", "");
    spc_feature f = feature_of(many_channels[_i]);
    spc_feature_plan *plan = plan_of(ctx, &f);
    static const int rows[] = {1, 257, 421};
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < SLICES; i++) {
        int n = rows[i % LENGTH(rows)];
        int32_t *coords = draw_coords(n, 1, &random);
        uint64_t values = spc__random_u64(&random);
        trial t;

        run_trial(&t, &f, plan, ctx, coords, n, 1, true, false, i, values);
        check_trial(&t, &f, false);
        check_capacity(&t, &f, plan, coords, n, 1, false, i, values);
        release_trial(&t);
        free(coords);
    }
    spc_feature_plan_free(plan);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- times --------------------------------------------------------------- */

START_TEST(a_bench_checks_what_it_times)
{
    spc_ctx *ctx = open_ctx(quick_device(), "");
    spc_feature f = feature_of("pool=max,c=8,rule=floor,k=2,stride=2,index=1");
    spc_bench_result result;
    spc_scene *scene = NULL, *empty = NULL;
    spc_error error = {0};

    assert_ok(spc_scene_load(&scene, "gen:uniform,n=60,extent=8", &error),
              error.text);
    assert_ok(spc_scene_create(&empty, NULL, 0, "empty", &error), error.text);
    assert_ok(spc_feature_bench(&result, ctx, &f, scene, 1),
              spc_ctx_error(ctx));
    ck_assert(result.warm_us > 0 && result.cold_us > 0 && result.samples > 0);
    ck_assert(result.error <= 1 && result.compulsory_bytes > 60 * 16);
    ck_assert_int_eq(strncmp(result.plan, "feature_", 8), 0);
    assert_says(ctx, spc_feature_bench(&result, ctx, &f, empty, 1), SPC_EINVAL,
                "'empty' has no voxels");
    spc_scene_free(scene);
    spc_scene_free(empty);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(the_floor_is_that_of_the_bytes_that_must_be_moved)
{
    spc_feature f = feature_of("pool=max,c=8,rule=floor,k=2,stride=2,index=1");
    spc_device_info device = {.cache_bytes = 10000000,
                              .memory = {1000, 1000, 1000},
                              .cache = {4000, 4000, 4000},
                              .f32_tflops = 1,
                              .launch_us = 0.1};
    double read, written;
    spc__floor floor;

    device.gather_near_gbps[0] = 1;
    spc__feature_bytes(&read, &written, &f, 10, 4, 1, 9);
    ck_assert(read == 10 * 16 + 9 * 4 + 4);
    ck_assert(written == 4 * 16 + 4 * 32);
    /* Reads and writes share one path: a megabyte of each at 4 TB/s, or a
     * megabyte at 1 TB/s. */
    spc__floor_of_bytes(&floor, 1e6, 1e6, &device);
    ck_assert(fabs(floor.warm_us - 0.5) < 1e-9);
    ck_assert(fabs(floor.cold_us - 1) < 1e-9);
    ck_assert_str_eq(floor.warm_by, "cache");
    ck_assert_str_eq(floor.cold_by, "memory");
    spc__floor_of_bytes(&floor, 10, 10, &device);
    ck_assert_str_eq(floor.warm_by, "launch");
}
END_TEST

/* ---- GPUs that are not installed ----------------------------------------- */

static const char *const gpus[] = {"sm_75",  "sm_80",  "sm_86", "sm_89",
                                   "sm_90a", "sm_100", "sm_120"};

enum { GPUS = LENGTH(gpus) };

/* The widest operators of each kind, and difficult ones. */
static const struct {
    const char *template_name, *text;
} compiled[] = {
    {"feature_pool", "pool=max,c=64,rule=floor,k=2,stride=2,index=1"},
    {"feature_pool", "pool=mean,c=64,rule=subm,k=3,dtype=f32"},
    {"feature_pool", "unpool=index,c=64,rule=footprint,k=3,stride=2,padding=1"},
    {"feature_pool", "unpool=nearest,c=163,rule=floor,k=2,stride=2"},
    {"feature_slices", "pool=slices,c=64,rule=floor,k=2,stride=2"},
    {"feature_slices", "pool=slices,c=3,rule=subm,k=5,dtype=f32"},
    {"feature_slices", "unpool=slices,c=512,rule=floor,k=2,stride=2"},
    {"feature_slices", "unpool=slices,c=4401,rule=subm,k=3"},
    {"feature_rows", "add,c=64,act=gelu"},
    {"feature_rows", "groupsum,c=128,by=2"},
    {"feature_rows", "groupmean,c=1024,by=64"},
    {"feature_rows", "repeat,c=20,by=3"},
    {"feature_norm", "norm=layer,c=1024,affine=1,act=silu"},
    {"feature_norm", "norm=layer,c=4096,affine=1"},
    {"feature_norm", "norm=layer,c=163,dtype=f32"},
    {"feature_batch", "norm=group,c=768,groups=32,affine=1,act=silu"},
    {"feature_batch", "norm=group,c=96,groups=32"},
    {"feature_batch", "global=max,c=512"},
    {"feature_batch", "global=mean,c=163,dtype=f32"},
    {"feature_bev", "bev,c=128,shape=176x200x2,order=zyx"},
    {"feature_pool", "pool=mean,c=64,rule=floor,k=2,stride=2,pass=dgrad"},
    {"feature_pool", "unpool=nearest,c=64,rule=floor,k=2,stride=2,pass=dgrad"},
    {"feature_pool", "unpool=index,c=20,rule=floor,k=2,stride=2,pass=dgrad"},
    {"feature_rows", "affine,c=64,act=silu"},
    {"feature_rows", "groupmean,c=64,by=4,pass=dgrad"},
    {"feature_norm", "norm=layer,c=1024,affine=1,pass=dgrad"},
    {"feature_norm", "norm=layer,c=1024,affine=1,pass=wgrad"},
    {"feature_norm", "affine,c=163,dtype=f32,pass=wgrad"},
    {"feature_batch", "norm=group,c=768,groups=32,affine=1,pass=dgrad"},
    {"feature_batch", "norm=group,c=96,groups=32,affine=1,pass=wgrad"},
    {"feature_batch", "global=max,c=512,pass=dgrad"},
    {"feature_batch", "global=mean,c=163,dtype=f32,pass=dgrad"},
    {"feature_bev", "bev,c=128,shape=176x200x2,order=zyx,pass=dgrad"},
};

static void check_code(spc__compiler *nvrtc, spc__library *library,
                       const char *gpu, int i)
{
    spc_feature f = feature_of(compiled[i].text);
    spc__template *tpl = spc__library_find(library, compiled[i].template_name);
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__attrs target, problem, config = {0};
    spc__artefact artefact;
    spc_error error = {0};

    spc__feature_attrs(&problem, &f);
    assert_ok(spc__target_facts(&target, gpu, &error), error.text);
    assert_ok(
        spc__template_render(&text, tpl, &problem, &target, &config, &error),
        error.text);
    spc__compile_job job = {.source = text.data,
                            .name = compiled[i].template_name,
                            .target = gpu,
                            .headers = library};
    assert_ok(spc__compile(&artefact, nvrtc, &job, &log, &error), error.text);
    printf("%s %s: %d registers\n", gpu, compiled[i].text,
           (int)spc__attrs_number(&artefact.resources, "registers", -1));
    ck_assert_msg(spc__attrs_number(&artefact.resources, "spill_bytes", -1) ==
                      0,
                  "%s spills on %s", compiled[i].text, gpu);
    spc__artefact_release(&artefact);
    spc__buf_release(&text);
    spc__buf_release(&log);
}

/* Compiles a quarter of them, each for one GPU. $SPC_SEED=all compiles all for
 * every GPU. */
START_TEST(operators_compile_for_every_gpu_without_spills)
{
    const char *word = getenv("SPC_SEED");
    bool all = word != NULL && strcmp(word, "all") == 0;
    spc__library *library;
    spc__compiler *nvrtc;
    spc_error error = {0};

    assert_ok(spc__nvrtc_open(&nvrtc, &error), error.text);
    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    for (int i = 0; i < LENGTH(compiled); i++)
        for (int gpu = 0; gpu < GPUS; gpu++)
            if (all || ((uint64_t)i % 4 == seed % 4 &&
                        (uint64_t)gpu == (seed / 4 + (uint64_t)i) % GPUS))
                check_code(nvrtc, library, gpus[gpu], i);
    spc__library_close(library);
    spc__compiler_close(nvrtc);
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

static int run_nvrtc(void)
{
    spc_error error;

    if (!has_nvrtc(&error))
        return suite_skip(error.text);
    Suite *suite = suite_create("features, NVRTC");
    add(suite, "nvrtc", operators_compile_for_every_gpu_without_spills, 1);
    return run_suite(suite);
}

int main(int argc, char **argv)
{
    int status;

    seed = suite_seed(NULL);
    if (suite_is_part(argc, argv, "nvrtc"))
        return run_nvrtc();
    if ((status = suite_open(argc, argv)) != 0)
        return status;
    int loops = suite_device ? 1 : 2;
    Suite *suite = suite_create("features");
    add(suite, "examples", every_example_reads_back_as_it_is_written,
        SPC__FEATURES);
    add(suite, "rows of the table", every_operator_has_a_complete_row,
        SPC__FEATURES);
    add(suite, "text", the_canonical_text_keeps_all_words, LENGTH(canonical));
    add(suite, "words", bad_words_have_their_sentence, LENGTH(bad));
    add(suite, "sizes", sizes_follow_from_the_words, 1);
    add(suite, "arguments", bad_arguments_have_their_sentence, 1);
    add(suite, "maps", only_a_map_of_the_operator_is_taken, 1);
    add(suite, "allocations", executing_allocates_nothing, 2);
    add(suite, "batches", batch_elements_and_frames_do_not_see_each_other, 2);
    add(suite, "rows", operators_by_rows_take_every_row_given, 1);
    add(suite, "planes", planes_lie_as_detectors_read_them, 3);
    add(suite, "database", a_database_serves_plans_without_a_compiler, 1);
    add(suite, "bench", a_bench_checks_what_it_times, 1);
    add(suite, "floor", the_floor_is_that_of_the_bytes_that_must_be_moved, 1);
    add(suite, "operators", every_operator_gives_what_its_definition_gives,
        loops);
    add(suite, "many channels", rows_of_many_channels_are_normalised,
        LENGTH(many_channels));
    return run_suite(suite);
}
