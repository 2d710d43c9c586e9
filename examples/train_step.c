/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_step.c - trains a small network by plain gradient descent.
 *
 *     train_step [DEVICE [STEPS]]
 *
 * Three layers go down a level and up again. Plain loops take the same steps in
 * double precision: both losses must decrease alike.
 */
#include <math.h>
#include <spc.h>
#include <spc/lab.h>
#include <spc/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 3, LAST = LAYERS - 1, CHANNELS_IN = 4, CHANNELS_OUT = 4 };

static const struct {
    const char *name, *words;
} described[LAYERS] = {
    {"fine", "subm,cin=4,cout=16,k=3,dtype=f32,epilogue=bias+relu"},
    {"down", "conv,cin=16,cout=24,k=3,stride=2,padding=1,rule=footprint,"
             "dtype=f32,epilogue=bias+relu"},
    {"up", "inverse,cin=24,cout=4,k=3,stride=2,padding=1,rule=footprint,"
           "dtype=f32,bias=1"}};
static const double rate = 1;

static spc_ctx *ctx;
static spc_error error;

static void check(spc_status status)
{
    if (status != SPC_OK) {
        fprintf(stderr, "train_step: %s\n", spc_error_text(&error, ctx));
        exit(spc_status_exit_code(status));
    }
}

static void *zeros(int64_t count, size_t bytes)
{
    void *out = calloc((size_t)count + 1, bytes);

    if (out == NULL) {
        fputs("train_step: out of memory\n", stderr);
        exit(spc_status_exit_code(SPC_ENOMEM));
    }
    return out;
}

/* ---- by the library ------------------------------------------------------ */

typedef struct learner {
    spc_training *training;
    void *features, *grad; /* on the device: inputs, gradient of the outputs */
    float *y;              /* outputs on the host, then their gradient */
    int64_t count;         /* of the outputs */
} learner;

/*
 * A network is a value on the host: an input, then layer after layer, each with
 * the tensor that it reads. The last layer finds its target voxels by itself.
 * Weights are drawn by the seed.
 */
static spc_net *make_network(uint64_t seed)
{
    spc_net_input input = SPC_NET_INPUT_INIT;
    spc_tensor tensor;
    spc_net *net;

    input.channels = CHANNELS_IN;
    input.dtype = SPC_F32;
    check(spc_net_create(&net, "train_step", &error));
    check(spc_net_add_input(&tensor, net, &input, &error));
    for (int i = 0; i < LAYERS; i++) {
        spc_net_layer layer = SPC_NET_LAYER_INIT;
        layer.name = described[i].name;
        layer.in = tensor;
        check(spc_conv_parse(&layer.conv, described[i].words, &error));
        check(spc_net_add_conv(&tensor, net, &layer, &error));
    }
    check(spc_net_add_output(net, tensor, "y", &error));
    check(spc_net_init_params(net, seed, &error));
    return net;
}

/*
 * A training is the network on one scene with everything that its steps need:
 * sets, maps, plans of every pass, memory, and its own parameters, initially
 * the network's. The caller owns the features and the gradient of the outputs.
 */
static void open_learner(learner *l, const spc_net *net, const spc_scene *scene,
                         const float *x)
{
    size_t in = (size_t)spc_scene_rows(scene) * CHANNELS_IN * sizeof(float);

    check(spc_training_create(&l->training, ctx, net, scene, SPC_PLAN_JIT));
    l->count = spc_training_rows(l->training) * CHANNELS_OUT;
    l->y = zeros(l->count, sizeof(float));
    check(spc_memory_alloc(&l->features, ctx, in));
    check(spc_memory_alloc(&l->grad, ctx, (size_t)l->count * sizeof(float)));
    check(spc_memory_upload(l->features, ctx, x, in));
}

static void close_learner(learner *l)
{
    spc_training_free(l->training);
    spc_memory_free(ctx, l->features);
    spc_memory_free(ctx, l->grad);
    free(l->y);
}

/*
 * Takes one step and returns the previous loss. The caller computes the loss:
 * here the mean of squares, on the host.
 */
static double step(learner *l, const float *target)
{
    size_t bytes = (size_t)l->count * sizeof(float);
    const void *out;
    double loss = 0;

    /* Enqueues all layers; their results are kept for the backward pass. */
    check(spc_training_forward(&out, l->training, l->features, NULL));
    check(spc_ctx_synchronize(ctx));
    check(spc_memory_download(l->y, ctx, out, bytes));
    for (int64_t i = 0; i < l->count; i++) {
        float off = l->y[i] - target[i];
        loss += (double)off * (double)off / (double)l->count;
        l->y[i] = 2 * off / (float)l->count;
    }
    check(spc_memory_upload(l->grad, ctx, l->y, bytes));
    /* Computes the gradient of every weight and bias from that of the
     * outputs. */
    check(spc_training_backward(l->training, l->grad, NULL));
    /*
     * Subtracts the rate times its gradient from each parameter. For another
     * optimiser, spc_training_get_param reads both, and _set_param writes.
     */
    check(spc_training_descend(l->training, (float)rate));
    return loss;
}

/* ---- the same training in double precision
 * -------------------------------------------------- */

typedef struct layer {
    spc_conv conv;
    spc_relation relation; /* from the oracle */
    int64_t taps, count;   /* number of weights; of weights and biases */
    double *params, *grad; /* weights [cout][offset][cin], then biases */
    double *y, *dy;        /* sums before the activation; their gradient */
} layer;

static layer layers[LAYERS];
static float *x, *target;

static void make_layers(const spc_scene *scene)
{
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &layers[i];
        check(spc_conv_parse(&l->conv, described[i].words, &error));
        check(spc_oracle_relation(&l->relation, &l->conv, scene, 0, &error));
        l->taps = (int64_t)l->conv.cout * l->relation.offsets * l->conv.cin;
        l->count = l->taps + l->conv.cout;
        l->params = zeros(l->count, sizeof(double));
        l->grad = zeros(l->count, sizeof(double));
        l->y = zeros(l->relation.rows_out * l->conv.cout, sizeof(double));
        l->dy = zeros(l->relation.rows_out * l->conv.cout, sizeof(double));
    }
}

static void free_layers(void)
{
    for (int i = 0; i < LAYERS; i++) {
        spc_relation_release(&layers[i].relation);
        free(layers[i].params);
        free(layers[i].grad);
        free(layers[i].y);
        free(layers[i].dy);
    }
}

/* Reads the parameters of a network: for each layer its weights, then its
 * biases. */
static void take_params(const spc_net *net)
{
    for (int i = 0; i < 2 * LAYERS; i++) {
        layer *l = &layers[i / 2];
        spc_net_param p;
        check(spc_net_param_at(&p, net, i));
        double *to = l->params + (p.which == SPC_OPERAND_BIAS ? l->taps : 0);
        for (int64_t n = 0; n < p.count; n++)
            to[n] = (double)p.values[n];
    }
}

static double seen_exactly(int i, int64_t row, int c)
{
    double in = i == 0 ? (double)x[row * CHANNELS_IN + c]
                       : layers[i - 1].y[row * layers[i].conv.cin + c];
    return i == 0 || in > 0 ? in : 0;
}

/*
 * Processes one pair of rows: adds to the sums, or (`back`) to the gradients of
 * weights and inputs.
 */
static void add_pair(int i, int64_t k, int64_t from, int64_t row, bool back)
{
    layer *l = &layers[i];
    int cin = l->conv.cin, cout = l->conv.cout;

    for (int co = 0; co < cout; co++)
        for (int c = 0; c < cin; c++) {
            int64_t w = (co * l->relation.offsets + k) * cin + c;
            double in = seen_exactly(i, from, c), dy = l->dy[row * cout + co];
            if (!back)
                l->y[row * cout + co] += in * l->params[w];
            else
                l->grad[w] += in * dy;
            if (back && i > 0 && in > 0)
                layers[i - 1].dy[from * cin + c] += l->params[w] * dy;
        }
}

static void add_pairs(int i, bool back)
{
    const spc_relation *r = &layers[i].relation;

    for (int64_t item = 0; item < r->offsets * r->rows_out; item++)
        if (r->index[item] >= 0)
            add_pair(i, item / r->rows_out, r->index[item], item % r->rows_out,
                     back);
}

static void forward_exactly(void)
{
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &layers[i];
        for (int64_t n = 0; n < l->relation.rows_out * l->conv.cout; n++)
            l->y[n] = l->params[l->taps + n % l->conv.cout];
        add_pairs(i, false);
    }
}

static void backward_exactly(void)
{
    for (int i = LAST; i >= 0; i--) {
        layer *l = &layers[i];
        memset(l->grad, 0, (size_t)l->count * sizeof(double));
        if (i > 0)
            memset(layers[i - 1].dy, 0,
                   (size_t)(l->relation.rows_in * l->conv.cin) *
                       sizeof(double));
        add_pairs(i, true);
        for (int64_t n = 0; n < l->relation.rows_out * l->conv.cout; n++)
            l->grad[l->taps + n % l->conv.cout] += l->dy[n];
    }
}

static double step_exactly(void)
{
    layer *last = &layers[LAST];
    int64_t count = last->relation.rows_out * CHANNELS_OUT;
    double loss = 0;

    forward_exactly();
    for (int64_t n = 0; n < count; n++) {
        double off = last->y[n] - (double)target[n];
        loss += off * off / (double)count;
        last->dy[n] = 2 * off / (double)count;
    }
    backward_exactly();
    for (int i = 0; i < LAYERS; i++)
        for (int64_t n = 0; n < layers[i].count; n++)
            layers[i].params[n] -= rate * layers[i].grad[n];
    return loss;
}

/* ---- both ---------------------------------------------------------------- */

/*
 * Draws inputs and the outputs of the same network with other weights, so that
 * the task can be learnt.
 */
static void draw_task(int64_t rows)
{
    int64_t outs = layers[LAST].relation.rows_out * CHANNELS_OUT;
    spc_net *teacher = make_network(2);

    x = zeros(rows * CHANNELS_IN, sizeof(float));
    target = zeros(outs, sizeof(float));
    for (int64_t i = 0; i < rows * CHANNELS_IN; i++)
        x[i] = 2 * (float)rand() / (float)RAND_MAX - 1;
    take_params(teacher);
    forward_exactly();
    for (int64_t i = 0; i < outs; i++)
        target[i] = (float)layers[LAST].y[i];
    spc_net_free(teacher);
}

static int train(learner *l, int steps)
{
    double first = 0, loss = 0, apart = 0;

    for (int i = 1; i <= steps; i++) {
        loss = step(l, target);
        double exact = step_exactly();
        apart = fmax(apart, fabs(loss - exact) / exact);
        first = i == 1 ? loss : first;
        if (i == 1 || i % 10 == 0)
            printf("step %3d: loss %.6f, in double %.6f\n", i, loss, exact);
    }
    bool learnt = loss < first / 2, alike = apart < 1e-3;
    printf("%s, %s (at most %.2g apart)\n", learnt ? "learnt" : "NOT learnt",
           alike ? "as in double" : "NOT as in double", apart);
    return learnt && alike ? 0 : 1;
}

int main(int argc, char **argv)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    spc_scene *scene;
    learner l;

    options.device = argc > 1 ? argv[1] : NULL;
    if (steps < 1)
        return fputs("usage: train_step [DEVICE [STEPS]]\n", stderr), 2;
    if (spc_ctx_create(&ctx, &options, &error) != SPC_OK ||
        spc_scene_load(&scene, "gen:shell,r=6", &error) != SPC_OK)
        return fprintf(stderr, "train_step: %s\n", error.text), 1;
    make_layers(scene);
    draw_task(spc_scene_rows(scene));
    spc_net *net = make_network(1);
    take_params(net);
    open_learner(&l, net, scene, x);
    int status = train(&l, steps);
    close_learner(&l);
    spc_net_free(net);
    free_layers();
    free(x);
    free(target);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
    return status;
}
