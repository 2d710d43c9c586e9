/*
 * test_features.c - operators on features, held against their definition in
 * double precision: integers exactly, real numbers within the bound of rounding.
 *
 * On "cpu" and "sim"; given a device as its argument, on that one; given
 * "nvrtc", whether their code compiles for GPUs that are not here. Channels,
 * types, numbers of rows and pitches are drawn from a seed, which is printed;
 * $SPC_SEED sets it.
 */
#include "feature_oracle.h"

#include "counted_allocations.h"
#include "ctx.h"
#include "dtype.h"
#include "feature.h"
#include "random.h"
#include "suite.h"
#include "targets.h"
#include <math.h>
#include <time.h>
#include <unistd.h>

#define assert_ok(call, text)                                                  \
    do {                                                                       \
        spc_status status_ = (call);                                           \
        ck_assert_msg(status_ == SPC_OK, "%s: %s", #call, (text));             \
    } while (0)

#define LENGTH(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* Coordinates lie in a box of so many voxels along an axis, from LOW. */
enum { SIDE = 12, LOW = -2, MARGIN = 64, SPARE_ROWS = 777 };

static const char *const devices[2] = {"cpu", "sim"};
static const int channel_counts[] = {1, 3, 5, 20, 64, 163, 256};
static const int row_counts[] = {0, 1, 31, 32, 33, 127, 128, 129, 500};

/* Operators without their channels. BY and GROUPS stand for a divisor of them.
 */
static const char *const operators[] = {
    "pool=max,rule=floor,k=2,stride=2,index=1",
    "pool=max,rule=footprint,k=3,stride=2,padding=1",
    "pool=mean,rule=footprint,k=3x3x1,stride=2x2x1,padding=1x1x0",
    "pool=sum,rule=subm,k=3",
    "unpool=nearest,rule=floor,k=2,stride=2",
    "unpool=index,rule=footprint,k=3,stride=2,padding=1",
    "global=max",
    "global=mean",
    "global=sum",
    "add",
    "add,act=leaky,slope=0.25",
    "act=relu",
    "act=sigmoid",
    "act=silu",
    "act=gelu",
    "act=elu",
    "norm=layer,eps=1e-3,affine=1",
    "norm=layer,act=gelu",
    "norm=group,GROUPS,affine=1",
    "norm=group,GROUPS,act=silu",
    "groupsum,BY",
    "groupmean,BY",
    "repeat,by=3",
    "bev,shape=9x7x3,order=zyx",
    "bev,shape=7x10x2,order=xyz",
};

/* ---- draws --------------------------------------------------------------- */

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

/* Operator `i` with channels and a type. */
static spc_feature draw_feature(int i, spc__random *random)
{
    int channels = pick(channel_counts, LENGTH(channel_counts), random);
    const char *dtype = spc__random_below(random, 3) ? "f16" : "f32";
    char text[200], name[200];
    spc_error error = {0};
    spc_feature feature;

    snprintf(name, sizeof(name), "%s", operators[i]);
    char *at = strstr(name, "GROUPS");
    if (at == NULL)
        at = strstr(name, "BY");
    if (at != NULL) {
        snprintf(text, sizeof(text), "%s", at + strcspn(at, ","));
        snprintf(at, 100, "%s=%d%s", *at == 'G' ? "groups" : "by",
                 draw_divisor(channels, random), text);
    }
    snprintf(text, sizeof(text), "%s,c=%d,dtype=%s", name, channels, dtype);
    assert_ok(spc_feature_parse(&feature, text, &error), error.text);
    return feature;
}

/* Small integers, whose sums are exact, or real numbers. */
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

/* Distinct voxels in no order; of three batch elements one may be empty. */
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

/* What an operator is run on: a set, and for those over a map both of its sets,
 * beside what the oracle needs of it. */
typedef struct place {
    spc_ctx *ctx;
    spc_coords *fine, *coarse;
    spc_map *map;
    spc_relation relation, down; /* `down`: of the pooling itself */
    spc__feature_case of;
    int32_t *coords;
    void *device_coords;
} place;

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

    conv.op = back                               ? SPC_INVERSE
              : geometry->rule == SPC_RULE_SUBM ? SPC_SUBM
                                                 : SPC_CONV;
    conv.cin = conv.cout = 1;
    conv.geometry = *geometry;
    assert_ok(spc_scene_create(&scene, coords, rows, NULL, &error), error.text);
    assert_ok(spc_oracle_relation(out, &conv, scene, 1, &error), error.text);
    spc_scene_free(scene);
}

static void fill_sets(place *p, int rows, bool spare, int batches)
{
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;
    size_t bytes = (size_t)rows * 16;

    assert_ok(spc_alloc(&p->device_coords, p->ctx, bytes + 16),
              spc_ctx_error(p->ctx));
    assert_ok(spc_copy_to_device(p->ctx, p->device_coords, p->coords, bytes),
              spc_ctx_error(p->ctx));
    options.capacity = rows + (spare ? SPARE_ROWS : 0);
    options.high[0] = batches - 1;
    for (int i = 1; i < 4; i++) {
        options.low[i] = LOW;
        options.high[i] = LOW + SIDE - 1;
    }
    assert_ok(spc_coords_reserve(&p->fine, p->ctx, &options),
              spc_ctx_error(p->ctx));
    assert_ok(spc_coords_update(p->fine, p->device_coords, NULL, rows, NULL),
              spc_ctx_error(p->ctx));
    assert_ok(spc_coords_check(p->fine, NULL), spc_ctx_error(p->ctx));
}

static void fill_map(place *p, const spc_feature *f, int rows)
{
    const spc_geometry *g = &f->geometry;
    bool back = f->op == SPC_FEATURE_UNPOOL, subm = g->rule == SPC_RULE_SUBM;

    if (!subm) {
        assert_ok(spc_coords_reserve_outputs(&p->coarse, p->fine, g, 0),
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

/* `spare`: the sets have room for more rows than there are. */
static void place_open(place *p, spc_ctx *ctx, const spc_feature *f,
                       const int32_t *coords, int rows, int batches, bool spare)
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

static void place_close(place *p)
{
    spc_map_free(p->map);
    spc_coords_free(p->coarse);
    spc_coords_free(p->fine);
    spc_relation_release(&p->relation);
    spc_relation_release(&p->down);
    spc_dealloc(p->ctx, p->device_coords);
    free(p->coords);
}

/* ---- arrays -------------------------------------------------------------- */

/* Rows on a device: between margins, with a pitch, all the rest of it bytes of
 * ones, which are no number. */
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
    assert_ok(spc_copy_to_device(ctx, r->base, ones, r->bytes),
              spc_ctx_error(ctx));
    free(ones);
}

/* `shift` elements off alignment; `wider` elements between rows. */
static rows_of lay(spc_ctx *ctx, spc_dtype dtype, int64_t rows, int64_t row,
                   int shift, int wider)
{
    rows_of r = {.rows = rows, .row = row, .pitch = row + wider,
                 .dtype = dtype};
    void *memory;

    r.bytes = 2 * MARGIN + (size_t)(rows * r.pitch + shift) * element_bytes(dtype);
    assert_ok(spc_alloc(&memory, ctx, r.bytes), spc_ctx_error(ctx));
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
        assert_ok(spc_copy_to_device(ctx,
                                     r->data + (size_t)(i * r->pitch) *
                                                   element_bytes(r->dtype),
                                     stored, bytes),
                  spc_ctx_error(ctx));
    }
    free(stored);
}

/* All of it as the device has it now. */
static char *fetch(spc_ctx *ctx, const rows_of *r)
{
    char *copy = malloc(r->bytes);

    assert_ok(spc_synchronize(ctx), spc_ctx_error(ctx));
    assert_ok(spc_copy_to_host(ctx, copy, r->base, r->bytes),
              spc_ctx_error(ctx));
    return copy;
}

static const char *element_at(const char *copy, const rows_of *r, int64_t i)
{
    return copy + (r->data - r->base) +
           (size_t)(i / r->row * r->pitch + i % r->row) *
               element_bytes(r->dtype);
}

/* Whatever is not one of the first `rows` rows is as it was laid. */
static void check_untouched(const char *copy, const rows_of *r, int64_t rows,
                            const char *what)
{
    size_t element = element_bytes(r->dtype), begin = (size_t)(r->data - r->base);
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

/* Everything of one run. */
typedef struct trial {
    place at;
    rows_of in, add, out;
    float *values, *more, *scale, *shift; /* on the host */
    void *scales, *shifts, *index, *workspace;
    int32_t *stored; /* what UNPOOL reads */
    char text[200];
} trial;

static void *copy_of(spc_ctx *ctx, const void *from, size_t bytes)
{
    void *to;

    assert_ok(spc_alloc(&to, ctx, bytes + 16), spc_ctx_error(ctx));
    assert_ok(spc_copy_to_device(ctx, to, from, bytes), spc_ctx_error(ctx));
    return to;
}

/* For every output of the pooling an input that it sees, or none. */
static void draw_index(int32_t *out, const spc_relation *down, int channels,
                       spc__random *random)
{
    for (int64_t row = 0; row < down->rows_out; row++)
        for (int c = 0; c < channels; c++) {
            int64_t k = spc__random_below(random, (uint32_t)down->offsets);
            out[row * channels + c] = down->index[k * down->rows_out + row];
        }
}

static void draw_trial(trial *t, const spc_feature *f, bool integers,
                       spc__random *random)
{
    size_t n = (size_t)t->at.of.rows_in * (size_t)f->channels;

    t->values = malloc(n * 4 + 4);
    t->more = malloc(n * 4 + 4);
    t->scale = malloc((size_t)f->channels * 4);
    t->shift = malloc((size_t)f->channels * 4);
    t->stored = malloc(n * 4 + 4);
    draw_values(t->values, n, f->dtype, integers, random);
    draw_values(t->more, n, f->dtype, integers, random);
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

/* Rows that the arrays of inputs and outputs have room for. */
static int64_t room_in(const place *p, const spc_feature *f)
{
    bool back = f->op == SPC_FEATURE_UNPOOL;

    return spc_coords_capacity(back ? p->coarse : p->fine);
}

static int64_t room_out(const place *p, const spc_feature *f)
{
    spc_coords *to = p->map != NULL ? spc_map_out(p->map) : p->fine;

    return spc_feature_rows_out(f, spc_coords_capacity(to),
                                spc_coords_batches(p->fine));
}

/* Moves everything to the device. `slices`: at odd addresses, with pitches. */
static void move_trial(trial *t, const spc_feature *f, int slices)
{
    static const int shifts[] = {0, 8, 1}, widths[] = {0, 16, 3};
    spc_ctx *ctx = t->at.ctx;
    int64_t in = room_in(&t->at, f), out = room_out(&t->at, f);
    size_t entries = (size_t)(in > out ? in : out) * (size_t)f->channels;
    int shift = shifts[slices], wider = widths[slices];

    t->in = lay(ctx, f->dtype, in, f->channels, shift, wider);
    t->add = lay(ctx, f->dtype, in, f->channels, shift, wider);
    t->out = lay(ctx, f->dtype, out, spc_feature_row_out(f), shift, wider);
    move_in(ctx, &t->in, t->values, t->at.of.rows_in);
    move_in(ctx, &t->add, t->more, t->at.of.rows_in);
    t->scales = copy_of(ctx, t->scale, (size_t)f->channels * 4);
    t->shifts = copy_of(ctx, t->shift, (size_t)f->channels * 4);
    assert_ok(spc_alloc(&t->index, ctx, entries * 4 + 4), spc_ctx_error(ctx));
    if (f->op == SPC_FEATURE_UNPOOL)
        assert_ok(spc_copy_to_device(ctx, t->index, t->stored,
                                     (size_t)t->at.of.rows_in *
                                         (size_t)f->channels * 4),
                  spc_ctx_error(ctx));
}

static spc_feature_buffers buffers_of(const trial *t)
{
    return (spc_feature_buffers){
        .in = t->in.data,
        .in_pitch = t->in.pitch,
        .add = t->add.data,
        .add_pitch = t->add.pitch,
        .out = t->out.data,
        .out_pitch = t->out.pitch,
        .index = t->index,
        .scale = t->scales,
        .shift = t->shifts,
        .workspace = t->workspace,
    };
}

static void execute(trial *t, const spc_feature_plan *plan)
{
    spc_ctx *ctx = t->at.ctx;
    spc_feature_buffers buffers;
    size_t bytes = spc_feature_workspace_bytes(plan, t->at.fine);
    char *ones = malloc(bytes + 1);

    memset(ones, 0xff, bytes);
    if (t->workspace == NULL)
        t->workspace = copy_of(ctx, ones, bytes);
    free(ones);
    buffers = buffers_of(t);
    if (t->at.map != NULL)
        assert_ok(spc_feature_prepare(plan, t->at.map, NULL),
                  spc_ctx_error(ctx));
    assert_ok(spc_feature_execute(plan, t->at.map != NULL ? NULL : t->at.fine,
                                  t->at.map, &buffers, NULL),
              spc_ctx_error(ctx));
}

static void release_trial(trial *t)
{
    spc_ctx *ctx = t->at.ctx;
    void *on_device[] = {t->in.base, t->add.base, t->out.base, t->scales,
                         t->shifts,  t->index,    t->workspace};

    for (int i = 0; i < LENGTH(on_device); i++)
        spc_dealloc(ctx, on_device[i]);
    free(t->values);
    free(t->more);
    free(t->scale);
    free(t->shift);
    free(t->stored);
    place_close(&t->at);
}

/* ---- judging ------------------------------------------------------------- */

/* What rounding to the type of the result adds (oracle.c). */
static double to_type(spc_dtype dtype, double reference, double tolerance)
{
    double size = fabs(reference) + tolerance;

    return tolerance + (dtype == SPC_F16 ? 0x1p-11 * size + 0x1p-25
                                         : 0x1p-24 * size + 0x1p-149);
}

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
                             to_type(f->dtype, reference, tolerance);
    if (!right)
        ck_abort_msg("%s: row %lld, element %lld is %.9g, must be %.9g within "
                     "%.3g",
                     t->text, (long long)(i / t->out.row),
                     (long long)(i % t->out.row), (double)got, reference,
                     exact ? 0 : to_type(f->dtype, reference, tolerance));
}

static void check_index(const trial *t, const int32_t *want, int64_t n)
{
    int32_t *got = malloc((size_t)n * 4 + 4);

    assert_ok(spc_copy_to_host(t->at.ctx, got, t->index, (size_t)n * 4),
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

/* The trial of these voxels, run; the caller releases it. */
static void run_trial(trial *t, const spc_feature *f,
                      const spc_feature_plan *plan, spc_ctx *ctx,
                      const int32_t *coords, int rows, int batches, bool spare,
                      bool integers, int slices, uint64_t values)
{
    spc__random random;

    memset(t, 0, sizeof(*t));
    spc__random_init(&random, values);
    place_open(&t->at, ctx, f, coords, rows, batches, spare);
    draw_trial(t, f, integers, &random);
    move_trial(t, f, slices);
    describe(t, f, ctx->info.id, rows, batches, integers, slices);
    execute(t, plan);
}

/* ---- every operator gives what its definition gives ---------------------- */

static spc_feature_plan *plan_of(spc_ctx *ctx, const spc_feature *f)
{
    spc_feature_plan *plan = NULL;

    assert_ok(spc_feature_plan_create(&plan, ctx, f, SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    return plan;
}

/* The same bits, whatever room the sets have. */
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
        int slices = i % 3;
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

START_TEST(an_operator_gives_what_its_definition_gives)
{
    int turns = suite_device ? 1 : 2;
    const char *device = suite_device ? suite_device : devices[_i % turns];
    spc_ctx *ctx = open_ctx(device, "");
    spc__random random;

    spc__random_init(&random, seed * 1000 + (uint64_t)(_i / turns));
    for (int round = 0; round < (suite_is_gpu() ? 8 : 1); round++) {
        spc_feature f = draw_feature(_i / turns, &random);
        check_operator(ctx, &f, suite_is_gpu() ? 9 : 3, &random);
    }
    spc_ctx_free(ctx);
}
END_TEST

int main(int argc, char **argv);

static void add(Suite *suite, const char *name, const TTest *test, int count)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test, 0, count);
    suite_add_tcase(suite, tcase);
}

static void choose_seed(void)
{
    const char *word = getenv("SPC_SEED");

    seed = word != NULL ? strtoull(word, NULL, 10) : (uint64_t)time(NULL);
    printf("drawn with seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int status;

    choose_seed();
    if ((status = suite_open(argc, argv)) != 0)
        return status;
    int turns = suite_device ? 1 : 2;
    Suite *suite = suite_create("features");
    add(suite, "operators", an_operator_gives_what_its_definition_gives,
        LENGTH(operators) * turns);
    return run_suite(suite);
}
