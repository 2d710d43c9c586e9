/*
 * train_step.c - a small network learns: forward, gradients of inputs and of
 * weights, plain SGD; beside it the same in double precision by plain loops,
 * whose loss must fall alike.
 *
 *     train_step [DEVICE [STEPS]]
 *
 * Three layers go down a level and up again. The gradient of the one that goes
 * down is read off the map of the one that goes up, and the other way round.
 */
#include <math.h>
#include <spc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 3, LAST = LAYERS - 1 };

static const char *const words[LAYERS] = {
    "subm,cin=4,cout=16,k=3,dtype=f32,bias=1",
    "conv,cin=16,cout=24,k=3,stride=2,padding=1,rule=footprint,dtype=f32,bias="
    "1",
    "inverse,cin=24,cout=4,k=3,stride=2,padding=1,rule=footprint,dtype=f32,"
    "bias=1"};
static const double rate = 0.2;

/* A problem with a kernel, and what that works in. */
typedef struct pass {
    spc_conv conv;
    const spc_map *map;
    spc_plan *plan;
    void *packed, *workspace;
} pass;

/* Weights and their gradient are RSCK with a bias behind them, in one array. */
typedef struct layer {
    pass forward, dgrad, wgrad;
    spc_feature_plan *relu, *relu_grad;
    const spc_coords *out_set;
    int64_t rows_in, rows_out, taps,
        count; /* of the weights without bias, all */
    int cin, cout, offsets;
    int32_t *index;                 /* [offsets][rows_out] */
    void *weights, *sums, *outputs; /* on the device */
    void *sums_grad, *outputs_grad, *grad;
    float *host;                /* the weights */
    double *exact, *exact_grad; /* the same in double */
    double *y, *dy;             /* sums and their gradient in double */
} layer;

static spc_ctx *ctx;
static layer layers[LAYERS];
static spc_map *maps[LAYERS];
static void *inputs; /* on the device */
static float *x, *target;
static void *owned[80]; /* what memory() gave */
static int owned_count;

static void check(spc_status status)
{
    if (status != SPC_OK) {
        fprintf(stderr, "train_step: %s\n", spc_ctx_error(ctx));
        exit(spc_status_exit_code(status));
    }
}

static void *memory(size_t bytes) /* on the device */
{
    void *out = NULL;

    check(spc_alloc(&out, ctx, bytes + 16));
    return owned[owned_count++] = out;
}

static void *zeros(int64_t count, size_t bytes) /* on the host */
{
    return calloc((size_t)count + 1, bytes);
}

static float draw(void)
{
    return 2 * (float)rand() / (float)RAND_MAX - 1;
}

/* ---- making -------------------------------------------------------------- */

static void make_pass(pass *p, const spc_conv *of, spc_pass which, spc_map *map)
{
    spc_error error = {0};

    if (spc_conv_pass(&p->conv, of, which, &error) != SPC_OK)
        exit((fprintf(stderr, "train_step: %s\n", error.text), 1));
    p->map = map;
    check(spc_plan_create(&p->plan, ctx, &p->conv, map, SPC_PLAN_JIT));
    p->packed = memory(spc_plan_weights_bytes(p->plan));
    p->workspace = memory(spc_plan_workspace_bytes(p->plan, map));
}

static void make_activation(layer *l)
{
    spc_feature f = SPC_FEATURE_INIT;

    f.dtype = SPC_F32;
    f.channels = l->cout;
    f.activation = SPC_ACT_RELU;
    check(spc_feature_plan_create(&l->relu, ctx, &f, SPC_PLAN_JIT));
    f.op = SPC_FEATURE_ACTGRAD;
    check(spc_feature_plan_create(&l->relu_grad, ctx, &f, SPC_PLAN_JIT));
}

static void make_arrays(layer *l)
{
    size_t out = (size_t)(l->rows_out * l->cout) * sizeof(float);

    l->weights = memory((size_t)l->count * sizeof(float));
    l->grad = memory((size_t)l->count * sizeof(float));
    l->sums = memory(out);
    l->outputs = memory(out);
    l->sums_grad = memory(out);
    l->outputs_grad = memory(out);
    l->host = zeros(l->count, sizeof(float));
    l->exact = zeros(l->count, sizeof(double));
    l->exact_grad = zeros(l->count, sizeof(double));
    l->y = zeros(l->rows_out * l->cout, sizeof(double));
    l->dy = zeros(l->rows_out * l->cout, sizeof(double));
    l->index = zeros(l->rows_out * l->offsets, sizeof(int32_t));
}

/* `back`: the map of the gradient of its inputs. */
static void make_layer(layer *l, const spc_conv *conv, spc_map *map,
                       spc_map *back)
{
    l->cin = conv->cin;
    l->cout = conv->cout;
    l->offsets = spc_geometry_offsets(&conv->geometry);
    l->rows_in = spc_map_rows_in(map);
    l->rows_out = spc_map_rows(map);
    l->out_set = spc_map_out(map);
    l->taps = (int64_t)l->offsets * l->cin * l->cout;
    l->count = l->taps + l->cout;
    make_pass(&l->forward, conv, SPC_FORWARD, map);
    make_pass(&l->dgrad, conv, SPC_DGRAD, back);
    make_pass(&l->wgrad, conv, SPC_WGRAD, map);
    make_activation(l);
    make_arrays(l);
    check(spc_map_download(map, l->index));
}

static void make_network(const spc_scene *scene)
{
    spc_conv convs[LAYERS];
    spc_coords *fine, *coarse;

    for (int i = 0; i < LAYERS; i++)
        check(spc_conv_parse(&convs[i], words[i], NULL));
    check(spc_map_create_from_scene(&maps[0], ctx, &convs[0], scene));
    check(spc_map_create_from_scene(&maps[1], ctx, &convs[1], scene));
    fine = spc_map_in(maps[1]);
    coarse = spc_map_out(maps[1]);
    check(spc_map_create_inverse(&maps[2], coarse, fine, &convs[2].geometry));
    check(spc_map_update(maps[2], NULL, NULL, 0, NULL));
    check(spc_map_check(maps[2], NULL));
    make_layer(&layers[0], &convs[0], maps[0], maps[0]);
    make_layer(&layers[1], &convs[1], maps[1], maps[2]);
    make_layer(&layers[2], &convs[2], maps[2], maps[1]);
}

/* Weights of both, as large as keeps the size of what they see. */
static void draw_weights(void)
{
    for (int i = 0; i < LAYERS; i++)
        for (int64_t n = 0; n < layers[i].taps; n++) {
            float size = sqrtf(3 / (4.0f * (float)layers[i].cin));
            layers[i].host[n] = size * draw();
            layers[i].exact[n] = (double)layers[i].host[n];
        }
}

/* ---- a step on the device ------------------------------------------------ */

static void put_weights(layer *l)
{
    check(spc_copy_to_device(ctx, l->weights, l->host,
                             (size_t)l->count * sizeof(float)));
    check(spc_plan_pack_weights(l->forward.plan, l->forward.packed, l->weights,
                                SPC_RSCK, NULL));
    check(spc_plan_pack_weights(l->dgrad.plan, l->dgrad.packed, l->weights,
                                SPC_RSCK, NULL));
}

static void execute(const pass *p, spc_buffers buffers)
{
    buffers.weights = p->packed;
    buffers.workspace = p->workspace;
    check(spc_plan_execute(p->plan, p->map, &buffers, NULL));
}

static const void *seen_by(int i)
{
    return i > 0 ? layers[i - 1].outputs : inputs;
}

static void forward(void)
{
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &layers[i];
        put_weights(l);
        execute(&l->forward,
                (spc_buffers){.in = seen_by(i),
                              .out = l->sums,
                              .bias = (float *)l->weights + l->taps});
        if (i < LAST)
            check(spc_feature_execute(
                l->relu, l->out_set, NULL,
                &(spc_feature_buffers){.in = l->sums, .out = l->outputs},
                NULL));
    }
}

static void backward(void)
{
    for (int i = LAST; i >= 0; i--) {
        layer *l = &layers[i], *below = &layers[i - (i > 0)];
        execute(&l->wgrad, (spc_buffers){.in = seen_by(i),
                                         .grad = l->sums_grad,
                                         .out = l->grad});
        if (i == 0)
            break;
        execute(&l->dgrad,
                (spc_buffers){.in = l->sums_grad, .out = below->outputs_grad});
        check(spc_feature_execute(
            below->relu_grad, below->out_set, NULL,
            &(spc_feature_buffers){.in = below->sums,
                                   .add = below->outputs_grad,
                                   .out = below->sums_grad},
            NULL));
    }
}

/* Mean of squares; its gradient goes where the last layer's sums have theirs.
 */
static double loss_on_device(void)
{
    layer *l = &layers[LAST];
    int64_t n = l->rows_out * l->cout;
    float *y = zeros(n, sizeof(float));
    double loss = 0;

    check(spc_synchronize(ctx));
    check(spc_copy_to_host(ctx, y, l->sums, (size_t)n * sizeof(float)));
    for (int64_t i = 0; i < n; i++) {
        float off = y[i] - target[i];
        loss += (double)off * (double)off / (double)n;
        y[i] = 2 * off / (float)n;
    }
    check(spc_copy_to_device(ctx, l->sums_grad, y, (size_t)n * sizeof(float)));
    free(y);
    return loss;
}

static void descend(void)
{
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &layers[i];
        float *grad = zeros(l->count, sizeof(float));
        check(spc_synchronize(ctx));
        check(spc_copy_to_host(ctx, grad, l->grad,
                               (size_t)l->count * sizeof(float)));
        for (int64_t n = 0; n < l->count; n++)
            l->host[n] -= (float)rate * grad[n];
        free(grad);
    }
}

/* ---- the same in double -------------------------------------------------- */

static double seen_exactly(int i, int64_t row, int c)
{
    if (i == 0)
        return (double)x[row * layers[0].cin + c];
    double sum = layers[i - 1].y[row * layers[i].cin + c];
    return sum > 0 ? sum : 0;
}

static void forward_exactly(int i)
{
    layer *l = &layers[i];

    for (int64_t row = 0; row < l->rows_out; row++)
        memcpy(l->y + row * l->cout, l->exact + l->taps,
               (size_t)l->cout * sizeof(double));
    for (int64_t item = 0; item < l->offsets * l->rows_out; item++) {
        int64_t from = l->index[item], row = item % l->rows_out;
        const double *w = l->exact + item / l->rows_out * l->cin * l->cout;
        for (int c = 0; c < l->cin && from >= 0; c++)
            for (int co = 0; co < l->cout; co++)
                l->y[row * l->cout + co] +=
                    seen_exactly(i, from, c) * w[c * l->cout + co];
    }
}

/* One pair of rows: what it adds to the gradients of weights and of inputs. */
static void add_gradients(int i, int64_t k, int64_t from, int64_t row)
{
    layer *l = &layers[i];
    const double *dy = l->dy + row * l->cout;

    for (int c = 0; c < l->cin; c++) {
        int64_t at = (k * l->cin + c) * l->cout;
        double sum = 0, in = seen_exactly(i, from, c);
        for (int co = 0; co < l->cout; co++) {
            l->exact_grad[at + co] += in * dy[co];
            sum += l->exact[at + co] * dy[co];
        }
        if (i > 0 && in > 0)
            layers[i - 1].dy[from * l->cin + c] += sum;
    }
}

static void backward_exactly(int i)
{
    layer *l = &layers[i];

    memset(l->exact_grad, 0, (size_t)l->count * sizeof(double));
    if (i > 0)
        memset(layers[i - 1].dy, 0,
               (size_t)(l->rows_in * l->cin) * sizeof(double));
    for (int64_t item = 0; item < l->offsets * l->rows_out; item++)
        if (l->index[item] >= 0)
            add_gradients(i, item / l->rows_out, l->index[item],
                          item % l->rows_out);
    for (int64_t n = 0; n < l->rows_out * l->cout; n++)
        l->exact_grad[l->taps + n % l->cout] += l->dy[n];
}

static double step_exactly(void)
{
    layer *last = &layers[LAST];
    int64_t count = last->rows_out * last->cout;
    double loss = 0;

    for (int i = 0; i < LAYERS; i++)
        forward_exactly(i);
    for (int64_t n = 0; n < count; n++) {
        double off = last->y[n] - (double)target[n];
        loss += off * off / (double)count;
        last->dy[n] = 2 * off / (double)count;
    }
    for (int i = LAST; i >= 0; i--)
        backward_exactly(i);
    for (int i = 0; i < LAYERS; i++)
        for (int64_t n = 0; n < layers[i].count; n++)
            layers[i].exact[n] -= rate * layers[i].exact_grad[n];
    return loss;
}

/* ---- both ---------------------------------------------------------------- */

/* Inputs, and what a network of other weights makes of them: it can be learnt.
 */
static void draw_task(void)
{
    int64_t ins = layers[0].rows_in * layers[0].cin;
    int64_t outs = layers[LAST].rows_out * layers[LAST].cout;

    x = zeros(ins, sizeof(float));
    target = zeros(outs, sizeof(float));
    inputs = memory((size_t)ins * sizeof(float));
    for (int64_t i = 0; i < ins; i++)
        x[i] = draw();
    check(spc_copy_to_device(ctx, inputs, x, (size_t)ins * sizeof(float)));
    draw_weights();
    for (int i = 0; i < LAYERS; i++)
        forward_exactly(i);
    for (int64_t i = 0; i < outs; i++)
        target[i] = (float)layers[LAST].y[i];
    draw_weights();
}

static int train(int steps)
{
    double first = 0, loss = 0, apart = 0;

    for (int step = 0; step < steps; step++) {
        forward();
        loss = loss_on_device();
        backward();
        descend();
        double exact = step_exactly();
        apart = fmax(apart, fabs(loss - exact) / exact);
        first = step == 0 ? loss : first;
        if (step == 0 || (step + 1) % 10 == 0)
            printf("step %3d: loss %.6f, in double %.6f\n", step + 1, loss,
                   exact);
    }
    bool learnt = loss < first / 2, alike = apart < 1e-3;
    printf("%s, %s (at most %.2g apart)\n", learnt ? "learnt" : "NOT learnt",
           alike ? "as in double" : "NOT as in double", apart);
    return learnt && alike ? 0 : 1;
}

static void release(void)
{
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &layers[i];
        spc_plan_free(l->forward.plan);
        spc_plan_free(l->dgrad.plan);
        spc_plan_free(l->wgrad.plan);
        spc_feature_plan_free(l->relu);
        spc_feature_plan_free(l->relu_grad);
        void *host[] = {l->index,      l->host, l->exact,
                        l->exact_grad, l->y,    l->dy};
        for (size_t n = 0; n < sizeof(host) / sizeof(host[0]); n++)
            free(host[n]);
    }
    for (int i = 0; i < LAYERS; i++)
        spc_map_free(maps[i]);
    while (owned_count > 0)
        spc_dealloc(ctx, owned[--owned_count]);
    free(x);
    free(target);
    spc_ctx_free(ctx);
}

int main(int argc, char **argv)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    spc_error error = {0};
    spc_scene *scene;

    options.device = argc > 1 ? argv[1] : NULL;
    if (steps < 1)
        return fputs("usage: train_step [DEVICE [STEPS]]\n", stderr), 2;
    if (spc_ctx_create(&ctx, &options, &error) != SPC_OK ||
        spc_scene_load(&scene, "gen:shell,r=6", &error) != SPC_OK)
        return fprintf(stderr, "train_step: %s\n", error.text), 1;
    make_network(scene);
    draw_task();
    int status = train(steps);
    release();
    spc_scene_free(scene);
    return status;
}
