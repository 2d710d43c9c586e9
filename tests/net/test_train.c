/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_train.c - training: gradients compared with differences of the loss,
 * descent, the trained network compared with the oracle, and networks that
 * cannot be trained.
 *
 *     test_train [sim|cpu|cuda]
 */
#include "harness/train_harness.h"
#include "spc/train.h"

enum { CHANNELS = 3, EXTENT = 8 };

/* These networks are smooth, so that differences approximate gradients. */
static const struct {
    const char *file;
    int params;
} networks[] = {
    {"networks/trained.lua", 7},         {"networks/trained_unet.lua", 19},
    {"networks/trained_ops.lua", 11},    {"networks/trained_global.lua", 2},
    {"networks/trained_bev.lua", 4},     {"networks/trained_masked.lua", 12},
    {"networks/trained_cloud.lua", 13},  {"networks/trained_unpool.lua", 7},
    {"networks/trained_squeeze.lua", 8},
};

typedef struct task {
    spc_ctx *ctx;
    spc_net *net;
    spc_scene *scene;
    spc_training *training;
    void *features, *grad; /* in device memory */
    float *dy;
    int64_t rows, count; /* rows of the features; elements of the outputs */
} task;

/* ---- a task -------------------------------------------------------------- */

static void open_net(task *t, spc_ctx *ctx, const char *file)
{
    memset(t, 0, sizeof(*t));
    t->ctx = ctx;
    assert_ok(spc_net_load(&t->net, suite_path(file), SPC_F32, &error),
              error.text);
    assert_ok(spc_net_init_params(t->net, 4, &error), error.text);
    assert_ok(spc_scene_load(&t->scene, "gen:uniform,n=120,extent=8", &error),
              error.text);
    t->rows = spc_scene_rows(t->scene);
}

/* Uses random features and random gradients of the outputs. */
static void task_open(task *t, spc_ctx *ctx, const char *file)
{
    open_net(t, ctx, file);
    assert_ok(spc_training_create(&t->training, t->ctx, t->net, t->scene,
                                  SPC_PLAN_JIT | SPC_TRAINING_FEATURES),
              spc_ctx_error(t->ctx));
    spc_net_info info;
    spc_tensor_info last;
    spc_net_describe(&info, t->net);
    assert_ok(spc_net_tensor_at(&last, t->net, info.tensors - 1, &error),
              error.text);
    t->count = spc_training_rows(t->training) * last.elements;
    float *x = draw(t->rows * CHANNELS, 1);
    t->dy = draw(t->count, 2);
    t->features = upload(t->ctx, x, t->rows * CHANNELS);
    t->grad = upload(t->ctx, t->dy, t->count);
    free(x);
}

static void task_close(task *t)
{
    spc_training_free(t->training);
    spc_memory_free(t->ctx, t->features);
    spc_memory_free(t->ctx, t->grad);
    free(t->dy);
    spc_net_free(t->net);
    spc_scene_free(t->scene);
}

/* Copies the outputs to the host. */
static float *outputs_of(const task *t)
{
    float *y = malloc((size_t)t->count * sizeof(*y));
    const void *out;

    assert_ok(spc_training_forward(&out, t->training, t->features, NULL),
              spc_ctx_error(t->ctx));
    assert_ok(spc_ctx_synchronize(t->ctx), spc_ctx_error(t->ctx));
    assert_ok(
        spc_memory_download(y, t->ctx, out, (size_t)t->count * sizeof(*y)),
        spc_ctx_error(t->ctx));
    return y;
}

/* Returns <dy, y>. */
static double loss_of(const task *t)
{
    float *y = outputs_of(t);
    double loss = 0;

    for (int64_t i = 0; i < t->count; i++)
        loss += (double)t->dy[i] * (double)y[i];
    free(y);
    return loss;
}

/* ---- the network as it is run -------------------------------------------- */

static spc_net_plan *plan_network(const task *t)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    spc_net_plan *plan;

    o.capacity = t->rows;
    for (int i = 1; i < 4; i++)
        o.high[i] = EXTENT - 1;
    o.growth = 0;
    o.keep = true;
    assert_ok(spc_net_plan_create(&plan, t->ctx, t->net, &o),
              spc_ctx_error(t->ctx));
    return plan;
}

/* Returns the network's result, after each layer was compared with the oracle
 * on its own input. */
static float *run_network(const task *t)
{
    spc_net_plan *plan = plan_network(t);
    spc_net_verdict verdict;
    spc_net_output out;
    float *y = malloc((size_t)t->count * sizeof(*y));
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
    assert_ok(spc_net_plan_verify(&verdict, plan, &buffers, t->scene),
              spc_ctx_error(t->ctx));
    assert_ok(spc_net_plan_output_at(&out, plan, 0), spc_ctx_error(t->ctx));
    assert_ok(spc_memory_download(y, t->ctx, (char *)memory + out.offset,
                                  (size_t)t->count * sizeof(*y)),
              spc_ctx_error(t->ctx));
    spc_net_plan_free(plan);
    spc_memory_free(t->ctx, memory);
    spc_memory_free(t->ctx, coords);
    return y;
}

/* The forward pass must equal a run, except for the rounding of parts that the
 * run fuses. */
static void check_forward(const task *t)
{
    float *y = outputs_of(t), *run = run_network(t);
    double size = 0, apart = 0;

    for (int64_t i = 0; i < t->count; i++) {
        size = fmax(size, fabs((double)run[i]));
        apart = fmax(apart, fabs((double)y[i] - (double)run[i]));
    }
    ck_assert_msg(size > 0 && apart <= 1e-4 * size,
                  "%g apart, outputs are %g at most", apart, size);
    free(y);
    free(run);
}

/* ---- gradients ----------------------------------------------------------- */

static void set_param(const task *t, const spc_net_param *p,
                      const float *values)
{
    assert_ok(spc_training_set_param(t->training, p->layer, p->which, values,
                                     p->count),
              spc_ctx_error(t->ctx));
}

/* Returns the loss with one array of parameters moved by `by` along its
 * gradient's signs. */
static double loss_along(const task *t, const spc_net_param *p,
                         const float *values, const float *gradient, float by)
{
    float *moved = malloc((size_t)p->count * sizeof(*moved));

    for (int64_t i = 0; i < p->count; i++)
        moved[i] = values[i] + (gradient[i] < 0 ? -by : by);
    set_param(t, p, moved);
    free(moved);
    return loss_of(t);
}

static double slope_along(const task *t, const spc_net_param *p,
                          const float *values, const float *gradient, float by)
{
    return (loss_along(t, p, values, gradient, by) -
            loss_along(t, p, values, gradient, -by)) /
           (2 * (double)by);
}

/*
 * Along its own signs, a gradient's derivative is the sum of its magnitudes.
 * The error of a central difference grows with the square of the step size; two
 * differences extrapolate it away. fp32 sums of some hundred terms have errors
 * of 1e-6 of their size. Division by the step size magnifies them, but they
 * stay below the tolerance.
 */
static void check_param(const task *t, const spc_net_param *p)
{
    const float by = 0x1p-8f;
    float *values = malloc((size_t)p->count * sizeof(float));
    float *gradient = malloc((size_t)p->count * sizeof(float));
    double size = 0;

    assert_ok(spc_training_get_param(values, gradient, t->training, p->layer,
                                     p->which, p->count),
              spc_ctx_error(t->ctx));
    for (int64_t i = 0; i < p->count; i++)
        size += fabs((double)gradient[i]);
    double difference = (4 * slope_along(t, p, values, gradient, by / 2) -
                         slope_along(t, p, values, gradient, by)) /
                        3;
    ck_assert_msg(
        size > 0 && fabs(difference - size) <= 0.01 * size,
        "%s, array %d: the loss rises by %.6g, its gradient says %.6g",
        p->layer, (int)p->which, difference, size);
    set_param(t, p, values);
    free(values);
    free(gradient);
}

/* Returns the loss with features moved by `by` along the signs of their
 * gradient. */
static double loss_on(const task *t, const float *x, const float *gradient,
                      float by)
{
    int64_t count = t->rows * CHANNELS;
    size_t bytes = (size_t)count * sizeof(float);
    float *moved = malloc(bytes);

    for (int64_t i = 0; i < count; i++)
        moved[i] = x[i] + (gradient[i] < 0 ? -by : by);
    assert_ok(spc_memory_upload(t->features, t->ctx, moved, bytes),
              spc_ctx_error(t->ctx));
    double loss = loss_of(t);
    assert_ok(spc_memory_upload(t->features, t->ctx, x, bytes),
              spc_ctx_error(t->ctx));
    free(moved);
    return loss;
}

static void check_features(const task *t, const char *file)
{
    const float by = 0x1p-10f;
    size_t bytes = (size_t)(t->rows * CHANNELS) * sizeof(float);
    float *x = malloc(bytes), *gradient = malloc(bytes);
    double size = 0;

    assert_ok(spc_ctx_synchronize(t->ctx), spc_ctx_error(t->ctx));
    assert_ok(spc_memory_download(x, t->ctx, t->features, bytes),
              spc_ctx_error(t->ctx));
    assert_ok(spc_memory_download(gradient, t->ctx,
                                  spc_training_features_gradient(t->training),
                                  bytes),
              spc_ctx_error(t->ctx));
    for (int64_t i = 0; i < t->rows * CHANNELS; i++)
        size += fabs((double)gradient[i]);
    double difference =
        (loss_on(t, x, gradient, by) - loss_on(t, x, gradient, -by)) /
        (2 * (double)by);
    ck_assert_msg(size > 0 && fabs(difference - size) <= 0.02 * size,
                  "%s, features: the loss rises by %.6g, their gradient says "
                  "%.6g",
                  file, difference, size);
    free(x);
    free(gradient);
}

/* Masks have no gradient. */
static bool chooses(const spc_net_param *p)
{
    return strcmp(p->layer, "keep") == 0;
}

static void check_no_gradient(const task *t, const spc_net_param *p)
{
    float *gradient = malloc((size_t)p->count * sizeof(float));

    assert_ok(spc_training_get_param(NULL, gradient, t->training, p->layer,
                                     p->which, p->count),
              spc_ctx_error(t->ctx));
    for (int64_t i = 0; i < p->count; i++)
        ck_assert(gradient[i] == 0);
    free(gradient);
}

static void check_network(spc_ctx *ctx, int i)
{
    spc_net_param p;
    bool steady = true; /* the voxels do not depend on features */
    int params = 0;
    task t;

    task_open(&t, ctx, networks[i].file);
    check_forward(&t);
    assert_ok(spc_training_backward(t.training, t.grad, NULL),
              spc_ctx_error(ctx));
    for (; spc_net_param_at(&p, t.net, params) == SPC_OK; params++)
        if (chooses(&p)) {
            check_no_gradient(&t, &p);
            steady = false;
        } else {
            check_param(&t, &p);
        }
    if (steady)
        check_features(&t, networks[i].file);
    ck_assert_int_eq(params, networks[i].params);
    task_close(&t);
}

START_TEST(gradients_are_differences_of_the_loss)
{
    spc_ctx *ctx = open_device();

    for (int i = 0; i < LENGTH(networks); i++)
        if (suite_takes(i))
            check_network(ctx, i);
    spc_ctx_free(ctx);
}
END_TEST

/* Every repetition must give the same bits, also after other gradients. */
static void assert_same_gradients(const task *t, const spc_net_param *p,
                                  const float *before)
{
    float *now = malloc((size_t)p->count * sizeof(*now));

    assert_ok(spc_training_get_param(NULL, now, t->training, p->layer, p->which,
                                     p->count),
              spc_ctx_error(t->ctx));
    ck_assert_msg(memcmp(before, now, (size_t)p->count * sizeof(*now)) == 0,
                  "%s, array %d: another gradient", p->layer, (int)p->which);
    free(now);
}

START_TEST(a_step_gives_the_same_bits_again)
{
    spc_ctx *ctx = open_device();
    float *before[20] = {NULL}, *other;
    spc_net_param p;
    task t;

    task_open(&t, ctx, networks[1].file);
    loss_of(&t);
    assert_ok(spc_training_backward(t.training, t.grad, NULL),
              spc_ctx_error(ctx));
    for (int i = 0; spc_net_param_at(&p, t.net, i) == SPC_OK; i++) {
        before[i] = malloc((size_t)p.count * sizeof(float));
        assert_ok(spc_training_get_param(NULL, before[i], t.training, p.layer,
                                         p.which, p.count),
                  spc_ctx_error(ctx));
    }
    other = upload(ctx, t.dy + 1, t.count - 1);
    assert_ok(spc_training_backward(t.training, t.features, NULL),
              spc_ctx_error(ctx));
    loss_of(&t);
    assert_ok(spc_training_backward(t.training, t.grad, NULL),
              spc_ctx_error(ctx));
    for (int i = 0; spc_net_param_at(&p, t.net, i) == SPC_OK; i++) {
        assert_same_gradients(&t, &p, before[i]);
        free(before[i]);
    }
    spc_memory_free(ctx, other);
    task_close(&t);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- several outputs ----------------------------------------------------- */

/* Returns <dy, y> of both outputs. */
static double loss_of_heads(const task *t, float *const *dy)
{
    const void *first;
    double loss = 0;

    assert_ok(spc_training_forward(&first, t->training, t->features, NULL),
              spc_ctx_error(t->ctx));
    assert_ok(spc_ctx_synchronize(t->ctx), spc_ctx_error(t->ctx));
    for (int i = 0; i < 2; i++) {
        spc_training_out out;
        ck_assert_int_eq(spc_training_output_at(&out, t->training, i), SPC_OK);
        ck_assert(i > 0 || out.data == first);
        int64_t count = out.rows * out.elements;
        float *y = malloc((size_t)count * sizeof(*y));
        assert_ok(spc_memory_download(y, t->ctx, out.data,
                                      (size_t)count * sizeof(*y)),
                  spc_ctx_error(t->ctx));
        for (int64_t j = 0; j < count; j++)
            loss += (double)dy[i][j] * (double)y[j];
        free(y);
    }
    return loss;
}

/* Convolutions are linear in their weights, so differences are exact. The loss
 * depends on "far" only through one output, and on "near" through both. */
static double loss_beside(const task *t, const char *layer, const float *values,
                          const float *gradient, int64_t count,
                          float *const *dy)
{
    float *moved = malloc((size_t)count * sizeof(*moved));

    for (int64_t i = 0; i < count; i++)
        moved[i] = values[i] + 0.25f * gradient[i];
    assert_ok(spc_training_set_param(t->training, layer, SPC_OPERAND_WEIGHTS,
                                     moved, count),
              spc_ctx_error(t->ctx));
    double loss = loss_of_heads(t, dy);
    assert_ok(spc_training_set_param(t->training, layer, SPC_OPERAND_WEIGHTS,
                                     values, count),
              spc_ctx_error(t->ctx));
    free(moved);
    return loss;
}

static void check_head(const task *t, const char *layer, int64_t count,
                       float *const *dy)
{
    float *values = malloc((size_t)count * sizeof(*values));
    float *gradient = malloc((size_t)count * sizeof(*gradient));
    double size = 0, before = loss_of_heads(t, dy);

    assert_ok(spc_training_get_param(values, gradient, t->training, layer,
                                     SPC_OPERAND_WEIGHTS, count),
              spc_ctx_error(t->ctx));
    for (int64_t i = 0; i < count; i++)
        size += 0.25 * (double)gradient[i] * (double)gradient[i];
    double rise = loss_beside(t, layer, values, gradient, count, dy) - before;
    ck_assert_msg(size > 0 && fabs(rise - size) <= 1e-3 * size,
                  "%s: the loss rises by %.9g, its gradient says %.9g", layer,
                  rise, size);
    free(values);
    free(gradient);
}

START_TEST(several_outputs_have_a_gradient_each)
{
    spc_ctx *ctx = open_device();
    float *dy[2];
    void *grads[2];
    task t;

    task_open(&t, ctx, "networks/trained_heads.lua");
    for (int i = 0; i < 2; i++) {
        spc_training_out out;
        ck_assert_int_eq(spc_training_output_at(&out, t.training, i), SPC_OK);
        ck_assert_str_eq(out.name, i == 0 ? "near" : "far");
        ck_assert_int_eq(out.rows, spc_coords_rows(out.set));
        dy[i] = draw(out.rows * out.elements, 40 + (uint64_t)i);
        grads[i] = upload(ctx, dy[i], out.rows * out.elements);
    }
    loss_of_heads(&t, dy);
    ck_assert_int_eq(spc_training_backward(t.training, grads[0], NULL),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "1 gradients of 2 outputs");
    assert_ok(
        spc_training_backward_all(
            t.training, (const void *const[]){grads[0], grads[1]}, 2, NULL),
        spc_ctx_error(ctx));
    check_head(&t, "far", 8 * 10 * 3, dy);
    check_head(&t, "near", 27 * 8 * 2, dy);
    for (int i = 0; i < 2; i++) {
        spc_memory_free(ctx, grads[i]);
        free(dy[i]);
    }
    task_close(&t);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- learning ------------------------------------------------------------ */

/* Returns half the mean square of the difference from the targets, and writes
 * its gradient to `grad`. */
static double miss(const task *t, const float *y, const float *target)
{
    float *dy = malloc((size_t)t->count * sizeof(*dy));
    double loss = 0;

    for (int64_t i = 0; i < t->count; i++) {
        double off = (double)y[i] - (double)target[i];
        loss += off * off / (2 * (double)t->count);
        dy[i] = (float)(off / (double)t->count);
    }
    assert_ok(
        spc_memory_upload(t->grad, t->ctx, dy, (size_t)t->count * sizeof(*dy)),
        spc_ctx_error(t->ctx));
    free(dy);
    return loss;
}

/* Makes targets: the results of the same network with other parameters, so that
 * they can be learnt. */
static float *draw_targets(task *t)
{
    spc_net_param p;

    for (int i = 0; spc_net_param_at(&p, t->net, i) == SPC_OK; i++) {
        float *moved = draw(p.count, 100 + (uint64_t)i);
        for (int64_t j = 0; j < p.count; j++)
            moved[j] = p.values[j] + 0.25f * moved[j];
        set_param(t, &p, moved);
        free(moved);
    }
    float *target = outputs_of(t);
    for (int i = 0; spc_net_param_at(&p, t->net, i) == SPC_OK; i++)
        set_param(t, &p, p.values);
    return target;
}

/* Copies the trained parameters to the network. */
static void give_back(task *t)
{
    spc_net_param p;

    for (int i = 0; spc_net_param_at(&p, t->net, i) == SPC_OK; i++) {
        float *values = malloc((size_t)p.count * sizeof(*values));
        assert_ok(spc_training_get_param(values, NULL, t->training, p.layer,
                                         p.which, p.count),
                  spc_ctx_error(t->ctx));
        assert_ok(spc_net_set_param(t->net, p.layer, p.which, values, p.count,
                                    &error),
                  error.text);
        free(values);
    }
}

/* Uses voxels, and clouds in the variants that test gradients of clouds. */
static const int learners[] = {1, 6};

/* After some iterations of descent the loss must be halved, and the network
 * with the trained parameters must have the same loss. */
START_TEST(a_small_network_learns)
{
    enum { STEPS = 40 };
    if (_i > 0 && !suite_takes(learners[_i]))
        return;
    spc_ctx *ctx = open_device();
    double first = 0, last = 0;
    task t;

    task_open(&t, ctx, networks[learners[_i]].file);
    float *target = draw_targets(&t);
    for (int step = 0; step <= STEPS; step++) {
        float *y = outputs_of(&t);
        last = miss(&t, y, target);
        free(y);
        first = step == 0 ? last : first;
        if (step == STEPS)
            break;
        assert_ok(spc_training_backward(t.training, t.grad, NULL),
                  spc_ctx_error(ctx));
        assert_ok(spc_training_descend(t.training, 0.2f), spc_ctx_error(ctx));
    }
    printf("from %.6f to %.6f\n", first, last);
    ck_assert_msg(last < first / 2, "from %g to %g", first, last);
    give_back(&t);
    float *y = run_network(&t);
    double run = miss(&t, y, target);
    free(y);
    ck_assert_msg(fabs(run - last) <= 1e-3 * last,
                  "%g in training, %g as it is run", last, run);
    free(target);
    task_close(&t);
    spc_ctx_free(ctx);
}
END_TEST

/* Trains towards 0: the gradient of half the sum of y^2 is y. */
static double half_square(const task *t)
{
    float *y = outputs_of(t);
    double sum = 0;

    for (int64_t i = 0; i < t->count; i++)
        sum += (double)y[i] * (double)y[i] / 2;
    free(y);
    return sum;
}

START_TEST(descent_lowers_the_loss)
{
    spc_ctx *ctx = open_device();
    const void *out;
    task t;

    task_open(&t, ctx, networks[0].file);
    double before = half_square(&t);
    for (int step = 0; step < 8; step++) {
        assert_ok(spc_training_forward(&out, t.training, t.features, NULL),
                  spc_ctx_error(ctx));
        assert_ok(spc_training_backward(t.training, out, NULL),
                  spc_ctx_error(ctx));
        assert_ok(spc_training_descend(t.training, 5e-4f), spc_ctx_error(ctx));
        double after = half_square(&t);
        ck_assert_msg(after < before, "step %d: from %g to %g", step, before,
                      after);
        before = after;
    }
    task_close(&t);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- invalid input ------------------------------------------------------- */

static const struct {
    const char *file, *says;
} refused[] = {
    {"networks/trained_twice.lua", "outputs 0 and 1 are one tensor"},
    {"networks/shared.lua",
     "layer 'head.2' cannot be trained: it shares the weights of an earlier"},
    {"networks/trained_wider.lua",
     "layer 'wider' cannot be trained: it has whole numbers, or another type"},
};

START_TEST(what_cannot_be_trained_is_said)
{
    spc_ctx *ctx = open_device();

    for (int i = 0; i < LENGTH(refused); i++) {
        spc_training *training = NULL;
        task t;
        open_net(&t, ctx, refused[i].file);
        ck_assert_int_eq(
            spc_training_create(&training, ctx, t.net, t.scene, SPC_PLAN_JIT),
            SPC_EUNSUPPORTED);
        assert_says(spc_ctx_error(ctx), refused[i].says);
        ck_assert_ptr_null(training);
        task_close(&t);
    }
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(wrong_questions_have_their_sentence)
{
    spc_ctx *ctx = open_device();
    spc_training_out output;
    float value = 0;
    task t;

    task_open(&t, ctx, networks[0].file);
    ck_assert_ptr_null(spc_training_features_gradient(NULL));
    ck_assert_int_eq(spc_training_backward(t.training, t.grad, NULL),
                     SPC_ESTATE);
    assert_says(spc_ctx_error(ctx), "no forward pass");
    const void *out;
    assert_ok(spc_training_forward(&out, t.training, t.features, NULL),
              spc_ctx_error(ctx));
    ck_assert_int_eq(
        spc_training_forward(&out, t.training, (char *)t.features + 4, NULL),
        SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "layer 'one': ");
    ck_assert_int_eq(spc_training_backward(t.training, t.grad, NULL),
                     SPC_ESTATE);
    ck_assert_int_eq(spc_training_get_param(&value, NULL, t.training, "two",
                                            SPC_OPERAND_WEIGHTS, 1),
                     SPC_ENOTFOUND);
    assert_says(spc_ctx_error(ctx), "no layer 'two' has such an array");
    ck_assert_int_eq(spc_training_get_param(&value, NULL, t.training, "one",
                                            SPC_OPERAND_BIAS, 1),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "has 8 such values");
    ck_assert_int_eq(
        spc_training_set_param(t.training, "one", SPC_OPERAND_SCALE, &value, 8),
        SPC_ENOTFOUND);
    ck_assert_int_eq(
        spc_training_set_param(t.training, "one", SPC_OPERAND_BIAS, NULL, 8),
        SPC_EINVAL);
    ck_assert_int_eq(spc_training_output_at(&output, t.training, 1),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "no output 1: the network has 1");
    ck_assert_int_eq(spc_training_descend(t.training, NAN), SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "a rate of nan");
    task_close(&t);
    spc_ctx_free(ctx);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    suite_sample(3);
    Suite *suite = suite_create("train");
    TCase *tcase = tcase_create("train");

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, gradients_are_differences_of_the_loss);
    tcase_add_test(tcase, a_step_gives_the_same_bits_again);
    tcase_add_test(tcase, several_outputs_have_a_gradient_each);
    tcase_add_loop_test(tcase, a_small_network_learns, 0, LENGTH(learners));
    tcase_add_test(tcase, descent_lowers_the_loss);
    tcase_add_test(tcase, what_cannot_be_trained_is_said);
    tcase_add_test(tcase, wrong_questions_have_their_sentence);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
