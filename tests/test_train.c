/*
 * test_train.c - networks that learn: gradients against differences of the
 * loss, descent, and what cannot be trained.
 *
 *     test_train [sim|cpu|cuda]
 */
#include "layer_rig.h"
#include "random.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>

enum { CHANNELS = 3, OUTPUTS = 2 };

static spc_error error;

typedef struct task {
    spc_ctx *ctx;
    spc_net *net;
    spc_scene *scene;
    void *features, *grad; /* on the device */
    float *dy;
    int64_t rows;
} task;

static float *draw(int64_t count, uint64_t seed)
{
    float *out = malloc((size_t)count * sizeof(*out));
    spc__random random;

    spc__random_init(&random, seed);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(2 * spc__random_unit(&random) - 1);
    return out;
}

static void *upload(spc_ctx *ctx, const float *values, int64_t count)
{
    void *out = NULL;
    size_t bytes = (size_t)count * sizeof(float);

    assert_ok(spc_alloc(&out, ctx, bytes), spc_ctx_error(ctx));
    assert_ok(spc_copy_to_device(ctx, out, values, bytes), spc_ctx_error(ctx));
    return out;
}

static void open_net(task *t, const char *file)
{
    memset(t, 0, sizeof(*t));
    t->ctx = open_ctx(suite_device != NULL ? suite_device : "cpu",
                      suite_database(), NULL);
    assert_ok(spc_net_load(&t->net, suite_path(file), SPC_F32, &error),
              error.text);
    assert_ok(spc_net_draw_params(t->net, 4, &error), error.text);
    assert_ok(spc_scene_load(&t->scene, "gen:uniform,n=120,extent=8", &error),
              error.text);
    t->rows = spc_scene_rows(t->scene);
}

static void task_open(task *t)
{
    open_net(t, "networks/trained.lua");
    float *x = draw(t->rows * CHANNELS, 1);
    t->dy = draw(t->rows * OUTPUTS, 2);
    t->features = upload(t->ctx, x, t->rows * CHANNELS);
    t->grad = upload(t->ctx, t->dy, t->rows * OUTPUTS);
    free(x);
}

static void task_close(task *t)
{
    spc_dealloc(t->ctx, t->features);
    spc_dealloc(t->ctx, t->grad);
    free(t->dy);
    spc_net_free(t->net);
    spc_scene_free(t->scene);
    spc_ctx_free(t->ctx);
}

static spc_training *begin(const task *t)
{
    spc_training *training = NULL;

    assert_ok(
        spc_training_create(&training, t->ctx, t->net, t->scene, SPC_PLAN_JIT),
        spc_ctx_error(t->ctx));
    ck_assert_int_eq(spc_training_rows(training), t->rows);
    return training;
}

/* <dy, y>; *squares: the sum of y^2. */
static double loss_of(const task *t, spc_training *training, double *squares)
{
    int64_t count = t->rows * OUTPUTS;
    float *y = malloc((size_t)count * sizeof(*y));
    const void *out;
    double loss = 0;

    assert_ok(spc_net_forward(training, t->features, &out, NULL),
              spc_ctx_error(t->ctx));
    assert_ok(spc_synchronize(t->ctx), spc_ctx_error(t->ctx));
    assert_ok(spc_copy_to_host(t->ctx, y, out, (size_t)count * sizeof(*y)),
              spc_ctx_error(t->ctx));
    *squares = 0;
    for (int64_t i = 0; i < count; i++) {
        loss += (double)t->dy[i] * (double)y[i];
        *squares += (double)y[i] * (double)y[i];
    }
    free(y);
    return loss;
}

/* The loss where one array of parameters lies `by` further along its gradient's
 * signs. */
static double loss_along(task *t, const spc_net_param *p, const float *values,
                         const float *gradient, float by)
{
    float *moved = malloc((size_t)p->count * sizeof(*moved));
    double squares;

    for (int64_t i = 0; i < p->count; i++)
        moved[i] = values[i] + (gradient[i] < 0 ? -by : by);
    assert_ok(
        spc_net_set_param(t->net, p->layer, p->which, moved, p->count, &error),
        error.text);
    spc_training *training = begin(t);
    double loss = loss_of(t, training, &squares);
    spc_training_free(training);
    assert_ok(
        spc_net_set_param(t->net, p->layer, p->which, values, p->count, &error),
        error.text);
    free(moved);
    return loss;
}

/* Along its signs the sum of the gradient's magnitudes. A central difference is
 * off by the square of the step; fp32 sums of some hundred terms by 1e-6 of
 * their size, which the step magnifies to less than that. */
static void check_param(task *t, const spc_net_param *p, spc_training *training)
{
    const float by = 0x1p-8f;
    float *values = malloc((size_t)p->count * sizeof(float));
    float *gradient = malloc((size_t)p->count * sizeof(float));
    double size = 0;

    assert_ok(spc_training_param(training, p->layer, p->which, values, gradient,
                                 p->count),
              spc_ctx_error(t->ctx));
    for (int64_t i = 0; i < p->count; i++)
        size += fabs((double)gradient[i]);
    double difference = (loss_along(t, p, values, gradient, by) -
                         loss_along(t, p, values, gradient, -by)) /
                        (2 * (double)by);
    ck_assert_msg(
        size > 0 && fabs(difference - size) <= 0.01 * size,
        "%s, array %d: the loss rises by %.6g, its gradient says %.6g",
        p->layer, (int)p->which, difference, size);
    free(values);
    free(gradient);
}

START_TEST(gradients_are_differences_of_the_loss)
{
    double squares;
    spc_net_param p;
    int params = 0;
    task t;

    task_open(&t);
    spc_training *training = begin(&t);
    loss_of(&t, training, &squares);
    assert_ok(spc_net_backward(training, t.grad, NULL), spc_ctx_error(t.ctx));
    for (; spc_net_param_at(&p, t.net, params) == SPC_OK; params++)
        check_param(&t, &p, training);
    ck_assert_int_eq(params, 7); /* four layers, three with a bias */
    spc_training_free(training);
    task_close(&t);
}
END_TEST

/* Towards 0: the gradient of half the sum of y^2 is y. */
START_TEST(descent_lowers_the_loss)
{
    double before, after;
    const void *out;
    task t;

    task_open(&t);
    spc_training *training = begin(&t);
    loss_of(&t, training, &before);
    for (int step = 0; step < 8; step++) {
        assert_ok(spc_net_forward(training, t.features, &out, NULL),
                  spc_ctx_error(t.ctx));
        assert_ok(spc_net_backward(training, out, NULL), spc_ctx_error(t.ctx));
        assert_ok(spc_training_descend(training, 5e-4f), spc_ctx_error(t.ctx));
        loss_of(&t, training, &after);
        ck_assert_msg(after < before, "step %d: from %g to %g", step, before,
                      after);
        before = after;
    }
    spc_training_free(training);
    task_close(&t);
}
END_TEST

START_TEST(what_cannot_be_trained_is_said)
{
    spc_training *training = NULL;
    float value;
    task t;

    open_net(&t, "networks/chain.lua");
    ck_assert_int_eq(
        spc_training_create(&training, t.ctx, t.net, t.scene, SPC_PLAN_JIT),
        SPC_EUNSUPPORTED);
    assert_says(spc_ctx_error(t.ctx), "layer 'a' cannot be trained: it has a");
    ck_assert_ptr_null(training);
    task_close(&t);

    task_open(&t);
    training = begin(&t);
    ck_assert_int_eq(spc_net_backward(training, t.grad, NULL), SPC_ESTATE);
    assert_says(spc_ctx_error(t.ctx), "no forward pass");
    ck_assert_int_eq(
        spc_training_param(training, "two", SPC_WEIGHTS, &value, NULL, 1),
        SPC_ENOTFOUND);
    ck_assert_int_eq(
        spc_training_param(training, "one", SPC_BIAS, &value, NULL, 1),
        SPC_EINVAL);
    assert_says(spc_ctx_error(t.ctx), "has 8 such values");
    spc_training_free(training);
    task_close(&t);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    Suite *suite = suite_create("train");
    TCase *tcase = tcase_create("train");

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, gradients_are_differences_of_the_loss);
    tcase_add_test(tcase, descent_lowers_the_loss);
    tcase_add_test(tcase, what_cannot_be_trained_is_said);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
