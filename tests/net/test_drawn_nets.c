/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_drawn_nets.c - random networks: graphs sampled by a seed, whose
 * gradients
 * are compared with differences of a loss, and whose layers are compared with
 * the oracle.
 *
 *     test_drawn_nets [sim|cpu|cuda]
 *
 * The text of a network is sampled line by line, with random connections:
 * tensors with several readers, a tensor twice in a concatenation, shortcuts
 * over levels, sets that are unions or depend on features, layers that end in
 * an output of their own. All operators are smooth, so that differences
 * approximate gradients. With $SPC_TEST_TALK set, the test prints each network,
 * and for how many arrays the differences were accurate enough to compare.
 */
#include "harness/train_harness.h"
#include "spc/train.h"

#include "base/buf.h"
#include "base/file.h"

enum { NETWORKS = 48, NODES = 7, TENSORS = NODES + 2, CHANNELS = 3 };

/* ---- sampling ------------------------------------------------------------ */

/* A set of voxels: a tensor of the next finer level, and the geometry between
 * the two. */
typedef struct level {
    int fine; /* tensor of the finer level; -1: none */
    const char *words;
} level;

typedef struct tensor {
    int set, channels;
    bool read;
} tensor;

typedef struct drawing {
    spc__random random;
    spc__buf text;
    tensor at[TENSORS];
    level levels[TENSORS];
    int count, sets;
    bool chooses; /* some set depends on features */
} drawing;

static int below(drawing *d, int count)
{
    return (int)spc__random_below(&d->random, (uint32_t)count);
}

/* Picks a tensor, mostly one of the last. */
static int pick(drawing *d)
{
    return below(d, 3) == 0 ? below(d, d->count)
                            : d->count - 1 - below(d, d->count) / 2;
}

/* Picks another tensor over the set of `i` with `channels` channels (0: any).
 * Returns -1 if there is none. */
static int pick_beside(drawing *d, int i, int channels)
{
    int found = -1, seen = 0;

    for (int j = 0; j < d->count; j++)
        if (d->at[j].set == d->at[i].set &&
            (channels == 0 || d->at[j].channels == channels) &&
            below(d, ++seen) == 0)
            found = j;
    return found;
}

static int draw_channels(drawing *d)
{
    static const int channels[] = {4, 4, 8, 6};

    return channels[below(d, LENGTH(channels))];
}

static const char *draw_word(drawing *d, const char *const *words, int count)
{
    return words[below(d, count)];
}

static const char *const finishes[] = {
    "",
    ",bias=1",
    ",epilogue=bias+silu",
    ",epilogue=scale+bias+gelu",
    ",epilogue=scale+sigmoid",
    ",epilogue=silu",
};
static const char *const residuals[] = {
    ",epilogue=bias+add+silu",
    ",epilogue=bias+silu+add",
    ",epilogue=scale+add",
};
static const char *const downs[] = {
    "rule=floor,k=2,stride=2",
    "rule=floor,k=3,stride=2",
    "rule=footprint,k=3,stride=2,padding=1",
    "rule=footprint,k=3x1x2,stride=2x1x1,padding=1x0x1",
    "rule=expand,k=3x1x2,stride=2",
};
static const char *const kernels[] = {"k=3", "k=2", "k=3x1x2", "k=1"};
static const char *const plain[] = {
    "act=silu",
    "act=gelu",
    "act=sigmoid",
    "norm=layer,eps=0.01,affine=1",
    "norm=layer,eps=0.01",
    "norm=group,groups=2,eps=0.01,affine=1,act=silu",
    "affine,act=gelu",
};

/* Adds a tensor and begins the line that makes it. */
static void begin(drawing *d, int set, int channels)
{
    d->at[d->count] = (tensor){set, channels, false};
    spc__buf_printf(&d->text, "local t%d = ", d->count);
    d->count++;
}

static void begin_set(drawing *d, int channels, int fine, const char *words)
{
    d->levels[d->sets] = (level){fine, words};
    begin(d, d->sets++, channels);
}

static int take(drawing *d, int i)
{
    d->at[i].read = true;
    return i;
}

static bool draw_conv(drawing *d)
{
    int in = take(d, pick(d)), cout = draw_channels(d), groups = 1;
    bool linear = below(d, 4) == 0;

    if (!linear && below(d, 3) == 0) { /* two groups, or depthwise */
        groups = below(d, 2) ? d->at[in].channels : 1;
        cout = groups > 1 ? groups : cout;
        if (groups == 1 && d->at[in].channels % 2 == 0)
            groups = 2;
    }
    begin(d, d->at[in].set, cout);
    spc__buf_printf(&d->text, "conv(t%d, \"%s,cout=%d,groups=%d%s%s\")\n", in,
                    linear ? "linear" : "subm", cout, groups, linear ? "" : ",",
                    linear ? "" : draw_word(d, kernels, LENGTH(kernels)));
    /* The epilogue's words come after the kernel. */
    d->text.length -= 3;
    spc__buf_printf(&d->text, "%s\", {name = \"n%d\"})\n",
                    draw_word(d, finishes, LENGTH(finishes)), d->count - 1);
    return true;
}

static bool draw_residual(drawing *d)
{
    int to = take(d, pick(d));
    int in = take(d, pick_beside(d, to, 0));

    begin(d, d->at[to].set, d->at[to].channels);
    spc__buf_printf(
        &d->text,
        "conv(t%d, \"subm,cout=%d,%s%s\", {name = \"n%d\", "
        "residual = t%d})\n",
        in, d->at[to].channels, draw_word(d, kernels, LENGTH(kernels)),
        draw_word(d, residuals, LENGTH(residuals)), d->count - 1, to);
    return true;
}

static bool draw_down(drawing *d)
{
    int in = take(d, pick(d)), cout = draw_channels(d);
    const char *words = draw_word(d, downs, LENGTH(downs));

    begin_set(d, cout, in, words);
    spc__buf_printf(
        &d->text, "conv(t%d, \"conv,cout=%d,%s%s\", {name = \"n%d\"})\n", in,
        cout, words, draw_word(d, finishes, LENGTH(finishes)), d->count - 1);
    return true;
}

static bool draw_pool(drawing *d)
{
    int in = take(d, pick(d));
    const char *words = draw_word(d, downs, LENGTH(downs));

    begin_set(d, d->at[in].channels, in, words);
    spc__buf_printf(&d->text,
                    "feature(t%d, \"pool=%s,%s\", {name = \"n%d\"})\n", in,
                    below(d, 2) ? "mean" : "sum", words, d->count - 1);
    return true;
}

/* Returns to the finer level by a layer or by the nearest voxel. */
static bool draw_up(drawing *d)
{
    int in = pick(d), cout = draw_channels(d);
    const level *l = &d->levels[d->at[in].set];

    if (l->fine < 0)
        return false;
    take(d, in);
    if (below(d, 3) == 0) {
        begin(d, d->at[l->fine].set, d->at[in].channels);
        spc__buf_printf(&d->text,
                        "feature(t%d, \"unpool=nearest,%s\", {name = \"n%d\", "
                        "at = t%d})\n",
                        in, l->words, d->count - 1, l->fine);
        return true;
    }
    begin(d, d->at[l->fine].set, cout);
    spc__buf_printf(
        &d->text,
        "conv(t%d, \"%s,cout=%d%s%s%s\", {name = \"n%d\", at = t%d})\n", in,
        below(d, 2) ? "inverse" : "transposed", cout, ",", l->words,
        draw_word(d, finishes, LENGTH(finishes)), d->count - 1, l->fine);
    return true;
}

static bool draw_feature(drawing *d)
{
    int in = take(d, pick(d));

    begin(d, d->at[in].set, d->at[in].channels);
    spc__buf_printf(&d->text, "feature(t%d, \"%s\", {name = \"n%d\"})\n", in,
                    draw_word(d, plain, LENGTH(plain)), d->count - 1);
    return true;
}

static bool draw_group(drawing *d)
{
    int in = take(d, pick(d));
    bool even = d->at[in].channels % 2 == 0, more = below(d, 2) || !even;

    begin(d, d->at[in].set,
          more ? 2 * d->at[in].channels : d->at[in].channels / 2);
    spc__buf_printf(&d->text, "feature(t%d, \"%s,by=2\", {name = \"n%d\"})\n",
                    in,
                    more          ? "repeat"
                    : below(d, 2) ? "groupsum"
                                  : "groupmean",
                    d->count - 1);
    return true;
}

static bool draw_add(drawing *d)
{
    int in = take(d, pick(d));
    int with = take(d, pick_beside(d, in, d->at[in].channels));

    begin(d, d->at[in].set, d->at[in].channels);
    spc__buf_printf(&d->text,
                    "feature(t%d, \"add%s\", {name = \"n%d\", add = t%d})\n",
                    in, below(d, 2) ? "" : ",act=silu", d->count - 1, with);
    return true;
}

static bool draw_cat(drawing *d)
{
    int first = take(d, pick(d)), second = take(d, pick_beside(d, first, 0));
    int third = below(d, 3) == 0 ? take(d, pick_beside(d, first, 0)) : -1;
    int channels = d->at[first].channels + d->at[second].channels;

    begin(d, d->at[first].set,
          channels + (third >= 0 ? d->at[third].channels : 0));
    spc__buf_printf(&d->text, "cat(t%d, t%d", first, second);
    if (third >= 0)
        spc__buf_printf(&d->text, ", t%d", third);
    spc__buf_printf(&d->text, ")\n");
    return true;
}

/* Makes the union of two sets. */
static bool draw_union(drawing *d)
{
    int first = pick(d), second = pick(d);

    if (d->at[first].channels != d->at[second].channels)
        return false;
    take(d, first);
    take(d, second);
    begin_set(d, d->at[first].channels, -1, NULL);
    spc__buf_printf(&d->text, "regroup({t%d, t%d})\n", first, second);
    return true;
}

/* The mask depends only on the input's features, so no step of a parameter
 * changes it. */
static bool draw_masked(drawing *d)
{
    int in = pick(d);

    if (d->chooses || d->at[in].set != 0)
        return false;
    take(d, in);
    d->chooses = d->at[0].read = true;
    begin_set(d, d->at[in].channels, -1, NULL);
    spc__buf_printf(&d->text,
                    "regroup({t%d}, {mask = conv(t0, \"subm,k=1,cout=1,"
                    "bias=1\", {name = \"keep\"}), above = 0, room = 1})\n",
                    in);
    return true;
}

static bool (*const moves[])(drawing *) = {
    draw_conv, draw_conv,    draw_conv,    draw_residual, draw_down,
    draw_down, draw_pool,    draw_up,      draw_up,       draw_up,
    draw_up,   draw_feature, draw_feature, draw_group,    draw_add,
    draw_cat,  draw_union,   draw_masked,
};

/* Loads the sampled network; `path` is the file with its text. */
static spc_net *load(const drawing *d, const char *path)
{
    spc_net *net = NULL;

    assert_ok(spc__file_write(path, d->text.data, d->text.length, &error),
              error.text);
    if (spc_net_load(&net, path, SPC_F32, &error) != SPC_OK)
        ck_assert_msg(error.text[0] != '\0', "no sentence for\n%s",
                      spc__buf_text(&d->text));
    return net;
}

/* Adds a line unless the library refuses it. */
static void draw_line(drawing *d, const char *path)
{
    drawing before = *d;
    size_t length = d->text.length;
    spc_net *net = NULL;

    if (moves[below(d, LENGTH(moves))](d)) {
        size_t line = d->text.length;
        spc__buf_printf(&d->text, "output(t%d)\n", d->count - 1);
        net = load(d, path);
        d->text.length = line;
    }
    if (net == NULL) {
        before.text = d->text;
        before.text.length = length;
        before.random = d->random;
        *d = before;
    }
    spc_net_free(net);
}

/* Makes all tensors without a reader outputs, and some of the others. */
static spc_net *draw_network(drawing *d, uint64_t seed, const char *path)
{
    spc__random_init(&d->random, seed);
    d->at[0].channels = CHANNELS;
    d->levels[0].fine = -1;
    d->count = d->sets = 1;
    spc__buf_printf(&d->text,
                    "network \"drawn %d\"\n"
                    "local t0 = input {channels = 3}\n",
                    (int)seed);
    for (int i = 0; i < 100 && d->count < NODES + 1; i++)
        draw_line(d, path);
    for (int i = 1; i < d->count; i++)
        if (!d->at[i].read || below(d, 5) == 0)
            spc__buf_printf(&d->text, "output(t%d, \"t%d\")\n", i, i);
    spc_net *net = load(d, path);
    ck_assert_msg(net != NULL, "%s\n%s", error.text, spc__buf_text(&d->text));
    assert_ok(spc_net_init_params(net, seed, &error), error.text);
    return net;
}

/* ---- a loss -------------------------------------------------------------- */

enum { OUTPUTS = TENSORS };

typedef struct task {
    spc_ctx *ctx;
    spc_net *net;
    spc_scene *scene;
    spc_training *training;
    int64_t rows;
    void *features;
    int outputs;
    int64_t count[OUTPUTS];
    float *dy[OUTPUTS];
    void *grad[OUTPUTS];
    double size; /* sum of the magnitudes of the last loss's terms */
    const char *text;
} task;

/* Samples one, few or many voxels, some in two batch elements. */
static const char *const scenes[] = {
    "gen:uniform,n=90,extent=7",
    "gen:uniform,n=70,extent=6,batch=2",
    "gen:uniform,n=1,extent=3",
    "gen:uniform,n=60,extent=5",
};

static void task_open(task *t, uint64_t seed)
{
    spc_training_out out;

    t->ctx = open_device();
    assert_ok(spc_scene_load(&t->scene, scenes[seed % LENGTH(scenes)], &error),
              error.text);
    t->rows = spc_scene_rows(t->scene);
    assert_ok(spc_training_create(&t->training, t->ctx, t->net, t->scene,
                                  SPC_PLAN_JIT | SPC_TRAINING_FEATURES),
              spc_ctx_error(t->ctx));
    float *x = draw(t->rows * CHANNELS, seed + 1);
    t->features = upload(t->ctx, x, t->rows * CHANNELS);
    free(x);
    for (int i = 0; spc_training_output_at(&out, t->training, i) == SPC_OK;
         i++) {
        t->count[i] = out.rows * out.elements;
        t->dy[i] = draw(t->count[i], seed + 100 + (uint64_t)i);
        t->grad[i] = upload(t->ctx, t->dy[i], t->count[i]);
        t->outputs++;
    }
}

static void task_close(task *t)
{
    for (int i = 0; i < t->outputs; i++) {
        spc_memory_free(t->ctx, t->grad[i]);
        free(t->dy[i]);
    }
    spc_training_free(t->training);
    spc_memory_free(t->ctx, t->features);
    spc_scene_free(t->scene);
    spc_net_free(t->net);
    spc_ctx_free(t->ctx);
}

/* Returns the current values of output i. The caller frees them. If the set
 * depends on features, only existing rows have values. */
static float *output_of(const task *t, int i, int64_t *count)
{
    spc_training_out out;

    ck_assert_int_eq(spc_training_output_at(&out, t->training, i), SPC_OK);
    assert_ok(spc_coords_check(out.set, NULL), spc_ctx_error(t->ctx));
    int64_t rows = spc_coords_rows(out.set) < out.rows
                       ? spc_coords_rows(out.set)
                       : out.rows;
    *count = rows * out.elements;
    float *y = malloc((size_t)*count * sizeof(*y) + 1);
    assert_ok(
        spc_memory_download(y, t->ctx, out.data, (size_t)*count * sizeof(*y)),
        spc_ctx_error(t->ctx));
    return y;
}

static double loss_of(task *t)
{
    const void *first;
    double loss = 0;

    assert_ok(spc_training_forward(&first, t->training, t->features, NULL),
              spc_ctx_error(t->ctx));
    assert_ok(spc_ctx_synchronize(t->ctx), spc_ctx_error(t->ctx));
    t->size = 0;
    for (int i = 0; i < t->outputs; i++) {
        int64_t count;
        float *y = output_of(t, i, &count);
        for (int64_t j = 0; j < count; j++) {
            double term = (double)t->dy[i][j] * (double)y[j];
            ck_assert_msg(isfinite(term), "output %d: %g\n%s", i, (double)y[j],
                          t->text);
            loss += term;
            t->size += fabs(term);
        }
        free(y);
    }
    return loss;
}

/* ---- differences --------------------------------------------------------- */

/* The array that is varied: parameters or features. */
typedef struct variable {
    const spc_net_param *param; /* NULL: vary the features */
    const float *values, *gradient;
    int64_t count;
} variable;

static void put(task *t, const variable *s, const float *values)
{
    if (s->param == NULL)
        assert_ok(spc_memory_upload(t->features, t->ctx, values,
                                    (size_t)s->count * sizeof(*values)),
                  spc_ctx_error(t->ctx));
    else
        assert_ok(spc_training_set_param(t->training, s->param->layer,
                                         s->param->which, values, s->count),
                  spc_ctx_error(t->ctx));
}

/* Returns the loss after a move by `by` along the signs of the gradient. */
static double loss_along(task *t, const variable *s, float by)
{
    float *moved = malloc((size_t)s->count * sizeof(*moved) + 1);

    for (int64_t i = 0; i < s->count; i++)
        moved[i] = s->values[i] + (s->gradient[i] < 0 ? -by : by);
    put(t, s, moved);
    free(moved);
    return loss_of(t);
}

static double slope_along(task *t, const variable *s, float by)
{
    return (loss_along(t, s, by) - loss_along(t, s, -by)) / (2 * (double)by);
}

/*
 * Along its own signs, a gradient's derivative is the sum of its magnitudes.
 * Central differences use three step sizes, each half of the previous one. Each
 * pair extrapolates away the error that grows with the square of the step; the
 * difference between both results bounds the error of the better one. After a
 * few layers fp32 rounds the terms of the loss by about 2^-21 of their size,
 * and division by the step size magnifies this. A step is small enough once
 * both errors are at most a twentieth.
 */
static void check_variable(task *t, const variable *s, int *settled)
{
    const char *name = s->param != NULL ? s->param->layer : "features";
    double size = 0;

    for (int64_t i = 0; i < s->count; i++) {
        ck_assert_msg(isfinite(s->gradient[i]), "%s: %g\n%s", name,
                      (double)s->gradient[i], t->text);
        size += fabs((double)s->gradient[i]);
    }
    for (float by = 0x1p-5f; by >= 0x1p-11f; by /= 4) {
        double slopes[3];
        for (int i = 0; i < 3; i++)
            slopes[i] = slope_along(t, s, by / (float)(1 << i));
        double far = (4 * slopes[1] - slopes[0]) / 3;
        double near = (4 * slopes[2] - slopes[1]) / 3;
        double doubt = fabs(far - near) + 0x1p-19 * t->size / (double)by;
        if (doubt > 0.05 * size && by > 0x1p-10f)
            continue;
        put(t, s, s->values);
        ck_assert_msg(fabs(near - size) <= 0.002 * size + doubt,
                      "%s, array %d: the loss rises by %.6g (%.2g in doubt), "
                      "its gradient says %.6g\n%s",
                      name, s->param != NULL ? (int)s->param->which : 0, near,
                      doubt, size, t->text);
        *settled += size > 0 && doubt <= 0.05 * size;
        return;
    }
}

static void check_param(task *t, const spc_net_param *p, int *settled)
{
    float *values = malloc((size_t)p->count * sizeof(float));
    float *gradient = malloc((size_t)p->count * sizeof(float));

    assert_ok(spc_training_get_param(values, gradient, t->training, p->layer,
                                     p->which, p->count),
              spc_ctx_error(t->ctx));
    if (strcmp(p->layer, "keep") == 0) /* masks have no gradient */
        for (int64_t i = 0; i < p->count; i++)
            ck_assert(gradient[i] == 0);
    else
        check_variable(t, &(variable){p, values, gradient, p->count}, settled);
    free(values);
    free(gradient);
}

static void check_features(task *t, int *settled)
{
    int64_t count = t->rows * CHANNELS;
    size_t bytes = (size_t)count * sizeof(float);
    float *values = malloc(bytes), *gradient = malloc(bytes);
    const void *from = spc_training_features_gradient(t->training);

    if (from != NULL) {
        assert_ok(spc_memory_download(values, t->ctx, t->features, bytes),
                  spc_ctx_error(t->ctx));
        assert_ok(spc_memory_download(gradient, t->ctx, from, bytes),
                  spc_ctx_error(t->ctx));
        check_variable(t, &(variable){NULL, values, gradient, count}, settled);
    }
    free(values);
    free(gradient);
}

/* ---- the oracle ---------------------------------------------------------- */

static spc_net_plan *plan_network(const task *t)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    spc_net_plan *plan;

    o.capacity = t->rows;
    o.high[0] = 1;
    for (int i = 1; i < 4; i++)
        o.high[i] = 7;
    o.growth = 0;
    o.keep = true;
    assert_ok(spc_net_plan_create(&plan, t->ctx, t->net, &o),
              spc_ctx_error(t->ctx));
    return plan;
}

static void check_output(task *t, const spc_net_plan *plan, const char *memory,
                         int i)
{
    spc_net_output out;
    double apart = 0, size = 0;
    int64_t count;
    float *y = output_of(t, i, &count);
    float *run = malloc((size_t)count * sizeof(*run) + 1);

    assert_ok(spc_net_plan_output_at(&out, plan, i), spc_ctx_error(t->ctx));
    ck_assert_int_eq(spc_coords_rows(out.set) * out.elements, count);
    assert_ok(spc_memory_download(run, t->ctx, memory + out.offset,
                                  (size_t)count * sizeof(*run)),
              spc_ctx_error(t->ctx));
    for (int64_t j = 0; j < count; j++) {
        size = fmax(size, fabs((double)run[j]));
        apart = fmax(apart, fabs((double)run[j] - (double)y[j]));
    }
    ck_assert_msg(apart <= 1e-4 * size, "output %d: %g apart of %g\n%s", i,
                  apart, size, t->text);
    free(y);
    free(run);
}

/* Compares every layer with the oracle on its own input, and training with the
 * run. Only the rounding of parts that the run fuses may differ. */
static void check_forward(task *t)
{
    spc_net_plan *plan = plan_network(t);
    spc_net_verdict verdict;
    void *memory, *coords;

    assert_ok(
        spc_memory_alloc(&memory, t->ctx, spc_net_plan_memory_bytes(plan)),
        spc_ctx_error(t->ctx));
    coords =
        upload(t->ctx, (const void *)spc_scene_coords(t->scene), 4 * t->rows);
    spc_net_buffers buffers = {.bytes = sizeof(spc_net_buffers),
                               .coords = coords,
                               .features = t->features,
                               .rows = t->rows,
                               .memory = memory};
    assert_ok(spc_net_plan_execute(plan, &buffers, NULL),
              spc_ctx_error(t->ctx));
    assert_ok(spc_net_plan_check(plan, NULL), spc_ctx_error(t->ctx));
    ck_assert_msg(spc_net_plan_verify(&verdict, plan, &buffers, t->scene) ==
                      SPC_OK,
                  "%s\n%s", spc_ctx_error(t->ctx), t->text);
    for (int i = 0; i < t->outputs; i++)
        check_output(t, plan, memory, i);
    spc_net_plan_free(plan);
    spc_memory_free(t->ctx, memory);
    spc_memory_free(t->ctx, coords);
}

/* ---- the suite ----------------------------------------------------------- */

static void check_network(uint64_t seed, const char *path)
{
    drawing d = {.text = SPC__BUF_INIT};
    task t = {.net = draw_network(&d, seed, path)};
    spc_net_param p;
    int settled = 0;

    t.text = spc__buf_text(&d.text);
    task_open(&t, seed);
    loss_of(&t);
    check_forward(&t);
    assert_ok(spc_training_backward_all(t.training, (const void *const *)t.grad,
                                        t.outputs, NULL),
              spc_ctx_error(t.ctx));
    for (int i = 0; spc_net_param_at(&p, t.net, i) == SPC_OK; i++)
        check_param(&t, &p, &settled);
    if (!d.chooses)
        check_features(&t, &settled);
    spc_net_info info;
    spc_net_describe(&info, t.net);
    if (getenv("SPC_TEST_TALK") != NULL)
        printf("%d: %d of %d arrays settled\n%s", (int)seed, settled,
               info.params, t.text);
    task_close(&t);
    spc__buf_release(&d.text);
}

START_TEST(gradients_are_differences_of_the_loss)
{
    spc__buf folder = SPC__BUF_INIT, path = SPC__BUF_INIT;

    if (!suite_takes(_i))
        return;
    assert_ok(spc__temp_dir_create(&folder, &error), error.text);
    spc__buf_printf(&path, "%s/drawn.lua", spc__buf_text(&folder));
    check_network((uint64_t)_i, spc__buf_text(&path));
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
    spc__buf_release(&path);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    suite_sample(NETWORKS);
    Suite *suite = suite_create("drawn_nets");
    TCase *tcase = tcase_create("drawn_nets");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, gradients_are_differences_of_the_loss, 0,
                        NETWORKS);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
