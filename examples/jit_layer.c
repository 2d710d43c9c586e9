/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit_layer.c - runs one sparse convolution layer with libspc.
 *
 *     jit_layer [-d DEVICE] [-l LAYER] [-s SCENE] [--database FILE]
 *               [--cached-only]
 *
 * Opens a context, makes a scene and its kernel map, asks for a plan (from the
 * database if it knows the layer, otherwise compiled now), packs the weights,
 * runs, and checks some of the outputs with a few lines of its own.
 */
#include <spc.h>
#include <spc/lab.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    const char *device, *layer, *scene, *database;
    unsigned flags;
} options;

/* Everything that must be freed at the end. */
typedef struct layer {
    spc_conv conv;
    spc_ctx *ctx;
    spc_scene *scene;
    spc_map *map;
    spc_plan *plan;
    size_t rows_in, rows_out, offsets;
    float *in, *weights, *out; /* on the host */
    void *d_in, *d_weights, *d_packed, *d_out, *d_workspace, *d_bias;
} layer;

static double now_ms(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- binary16, for layers of type f16 ------------------------------------ */

/* Values here are multiples of 1/64 within [-1, 1]: exact in binary16. */
static unsigned short half_of(float value)
{
    unsigned sign = value < 0 ? 0x8000u : 0;
    int exponent;
    float part = frexpf(fabsf(value), &exponent); /* [0.5, 1) * 2^exponent */

    if (value == 0)
        return 0;
    return (unsigned short)(sign | (unsigned)(exponent + 14) << 10 |
                            ((unsigned)(part * 2048) & 0x3ffu));
}

static float float_of(unsigned short half)
{
    int exponent = half >> 10 & 31;
    float part = (float)(half & 0x3ff);
    float value =
        exponent ? ldexpf(part + 1024, exponent - 25) : ldexpf(part, -24);
    return half & 0x8000 ? -value : value;
}

/* Returns the bytes of one number. */
static size_t element(const layer *l)
{
    return spc_conv_operand_bytes(&l->conv, SPC_OPERAND_IN, 1) /
           (size_t)l->conv.cin;
}

/* ---- data ---------------------------------------------------------------- */

static float *random_values(size_t count, unsigned seed)
{
    float *values = malloc(count * sizeof(float) + 1);
    for (size_t i = 0; i < count && values != NULL; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int)(seed >> 25) / 64 - 1;
    }
    return values;
}

/* Copies `count` floats to new device memory in the layer's type. */
static spc_status upload(void **out, layer *l, const float *values,
                         size_t count)
{
    size_t bytes = count * element(l);
    unsigned short *halves = NULL;
    spc_status status = spc_memory_alloc(out, l->ctx, bytes);

    if (status == SPC_OK && element(l) == 2) {
        if ((halves = malloc(bytes + 1)) == NULL)
            return SPC_ENOMEM;
        for (size_t i = 0; i < count; i++)
            halves[i] = half_of(values[i]);
    }
    if (status == SPC_OK)
        status = spc_memory_upload(
            *out, l->ctx, halves ? (const void *)halves : values, bytes);
    free(halves);
    return status;
}

static spc_status download(layer *l, size_t count)
{
    spc_status status =
        spc_memory_download(l->out, l->ctx, l->d_out, count * element(l));

    if (status == SPC_OK && element(l) == 2) /* widen from the end, in place */
        for (size_t i = count; i-- > 0;)
            l->out[i] = float_of(((const unsigned short *)l->out)[i]);
    return status;
}

/* ---- the layer ----------------------------------------------------------- */

/* True if the example has the arrays and the arithmetic for this layer. */
static bool is_shown(const spc_conv *conv)
{
    return conv->dtype != SPC_BF16 && conv->dtype != SPC_I8 && !conv->scale &&
           conv->activation == SPC_ACT_NONE && conv->add == SPC_ADD_NONE &&
           conv->out == SPC_OUT_DEFAULT && conv->in_pitch == 0 &&
           conv->out_pitch == 0;
}

static spc_status open_layer(layer *l, const options *o, spc_error *error)
{
    spc_ctx_options ctx = SPC_CTX_OPTIONS_INIT;
    spc_status status;

    ctx.device = o->device;
    ctx.database = o->database;
    /* A named database must be usable. */
    ctx.need_database = o->database != NULL && o->database[0] != '\0';
    if ((status = spc_conv_parse(&l->conv, o->layer, error)) != SPC_OK)
        return status;
    if (!is_shown(&l->conv)) {
        snprintf(error->text, sizeof(error->text),
                 "this example shows layers with a bias at most, without gaps, "
                 "of type f16, f32 or tf32");
        return error->status = SPC_EUNSUPPORTED;
    }
    return spc_ctx_create(&l->ctx, &ctx, error);
}

/* Only a submanifold layer has equal rows in and out. */
static spc_status make_map(layer *l)
{
    spc_status status =
        spc_map_create_from_scene(&l->map, l->ctx, &l->conv, l->scene);

    if (status != SPC_OK)
        return status;
    l->rows_in = (size_t)spc_map_rows_in(l->map);
    l->rows_out = (size_t)spc_map_rows_out(l->map);
    l->offsets = (size_t)spc_geometry_offset_count(&l->conv.geometry);
    return SPC_OK;
}

/* The example's bias, if the layer has one, is zero. */
static spc_status make_bias(layer *l)
{
    size_t bytes = spc_conv_operand_bytes(&l->conv, SPC_OPERAND_BIAS, 0);
    spc_status status = spc_memory_alloc(&l->d_bias, l->ctx, bytes);
    void *zeros;

    if (status != SPC_OK || bytes == 0)
        return status;
    if ((zeros = calloc(1, bytes)) == NULL)
        return SPC_ENOMEM;
    status = spc_memory_upload(l->d_bias, l->ctx, zeros, bytes);
    free(zeros);
    return status;
}

static spc_status make_data(layer *l)
{
    size_t cin = (size_t)l->conv.cin, cout = (size_t)l->conv.cout;
    spc_status status;

    l->in = random_values(l->rows_in * cin, 1);
    l->weights = random_values(l->offsets * cin * cout, 2);
    l->out = random_values(l->rows_out * cout, 3);
    if (l->in == NULL || l->weights == NULL || l->out == NULL)
        return SPC_ENOMEM;
    if ((status = upload(&l->d_in, l, l->in, l->rows_in * cin)) != SPC_OK ||
        (status = upload(&l->d_weights, l, l->weights,
                         l->offsets * cin * cout)) != SPC_OK ||
        (status = spc_memory_alloc(
             &l->d_out, l->ctx,
             spc_conv_operand_bytes(&l->conv, SPC_OPERAND_OUT,
                                    (int64_t)l->rows_out))) != SPC_OK)
        return status;
    return make_bias(l);
}

static spc_status make_plan(layer *l, unsigned flags)
{
    spc_status status;

    if ((status = spc_plan_create(&l->plan, l->ctx, &l->conv, l->map, flags)) !=
            SPC_OK ||
        (status = spc_memory_alloc(&l->d_packed, l->ctx,
                                   spc_plan_weights_bytes(l->plan))) !=
            SPC_OK ||
        (status = spc_memory_alloc(
             &l->d_workspace, l->ctx,
             spc_plan_workspace_bytes(l->plan, l->map))) != SPC_OK)
        return status;
    return spc_plan_pack(l->d_packed, l->plan, l->d_weights, SPC_KRSC, NULL);
}

static spc_status run_layer(layer *l)
{
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = l->d_in,
                           .out = l->d_out,
                           .weights = l->d_packed,
                           .bias = l->d_bias,
                           .workspace = l->d_workspace};
    spc_status status = spc_plan_execute(l->plan, l->map, &buffers, NULL);

    return status == SPC_OK ? spc_ctx_synchronize(l->ctx) : status;
}

/* ---- the check: the definition of the layer, for a few rows -------------- */

static double expected(const layer *l, const int32_t *index, size_t row,
                       size_t channel)
{
    size_t cin = (size_t)l->conv.cin;
    double sum = 0;

    for (size_t k = 0; k < l->offsets; k++) {
        int32_t from = index[k * l->rows_out + row];
        for (size_t c = 0; c < cin && from >= 0; c++)
            sum += (double)l->in[(size_t)from * cin + c] *
                   l->weights[(channel * l->offsets + k) * cin + c];
    }
    return sum;
}

static spc_status check(layer *l, int *checked, int *wrong)
{
    size_t cout = (size_t)l->conv.cout;
    int32_t *index = malloc(l->offsets * l->rows_out * sizeof(*index) + 1);
    spc_status status =
        index == NULL ? SPC_ENOMEM : spc_map_download(index, l->map);

    if (status == SPC_OK)
        status = download(l, l->rows_out * cout);
    for (size_t i = 0; i < 64 && status == SPC_OK && l->rows_out > 0; i++) {
        size_t row = i * 2654435761u % l->rows_out, channel = i * 7 % cout;
        double want = expected(l, index, row, channel);
        double got = l->out[row * cout + channel];
        *checked += 1;
        *wrong += !(fabs(got - want) <= 2e-3 * (fabs(want) + 1));
    }
    free(index);
    return status;
}

/* ---- the program --------------------------------------------------------- */

static void close_layer(layer *l)
{
    void *memory[] = {l->d_in,  l->d_weights,   l->d_packed,
                      l->d_out, l->d_workspace, l->d_bias};

    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        if (l->ctx != NULL)
            spc_memory_free(l->ctx, memory[i]);
    spc_plan_free(l->plan);
    spc_map_free(l->map);
    spc_scene_free(l->scene);
    spc_ctx_free(l->ctx);
    free(l->in);
    free(l->weights);
    free(l->out);
}

static int parse(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char **value = strcmp(argv[i], "-d") == 0           ? &o->device
                             : strcmp(argv[i], "-l") == 0         ? &o->layer
                             : strcmp(argv[i], "-s") == 0         ? &o->scene
                             : strcmp(argv[i], "--database") == 0 ? &o->database
                                                                  : NULL;
        if (strcmp(argv[i], "--cached-only") == 0)
            o->flags |= SPC_PLAN_CACHED_ONLY;
        else if (value != NULL && i + 1 < argc)
            *value = argv[++i];
        else
            return fprintf(stderr,
                           "usage: %s [-d DEVICE] [-l LAYER] [-s SCENE] "
                           "[--database FILE] [--cached-only]\n",
                           argv[0]);
    }
    return 0;
}

static void report(const layer *l, const options *o)
{
    spc_stats stats = spc_ctx_stats(l->ctx);
    spc_device_info device;

    spc_ctx_device(&device, l->ctx);
    printf("%s on %s (%s), %zu rows in, %zu out, %.2f neighbours each\n",
           o->layer, device.id, device.name, l->rows_in, l->rows_out,
           l->rows_out > 0 ? (double)spc_map_pairs(l->map) / (double)l->rows_out
                           : 0);
    printf("plan: %s %s\n      %s\n", spc_plan_template(l->plan),
           spc_plan_config(l->plan), spc_plan_reason(l->plan));
    printf("%lld lookups, %lld hits, %lld compiles, %lld kernels from the "
           "database\n",
           (long long)stats.lookups, (long long)stats.hits,
           (long long)stats.compiles, (long long)stats.artefacts_loaded);
}

/* Prints what went wrong, and returns the exit status for it. */
static int fail(layer *l, spc_status status, const char *sentence)
{
    fprintf(stderr, "jit_layer: %s: %s\n", spc_status_text(status), sentence);
    close_layer(l);
    return spc_status_exit_code(status);
}

int main(int argc, char **argv)
{
    options o = {NULL, "subm,cin=64,cout=64,k=3", "gen:lidar,beams=64@0.05",
                 NULL, SPC_PLAN_JIT};
    layer l = {0};
    spc_error error = {0};
    int checked = 0, wrong = 0;
    spc_status status;

    if (parse(&o, argc, argv) != 0)
        return 2;
    double start = now_ms();
    if ((status = open_layer(&l, &o, &error)) != SPC_OK)
        return fail(&l, status, error.text);
    double opened = now_ms();

    /*
     * Scene and data represent what a program already has, so they are not
     * timed.
     */
    if ((status = spc_scene_load(&l.scene, o.scene, &error)) != SPC_OK)
        return fail(&l, status, error.text);
    double loaded = now_ms();
    if ((status = make_map(&l)) != SPC_OK)
        return fail(&l, status, spc_ctx_error(l.ctx));
    double mapped = now_ms();
    if ((status = make_data(&l)) != SPC_OK)
        return fail(&l, status, spc_ctx_error(l.ctx));
    double ready = now_ms();
    if ((status = make_plan(&l, o.flags)) != SPC_OK)
        return fail(&l, status, spc_ctx_error(l.ctx));
    double planned = now_ms();
    if ((status = run_layer(&l)) != SPC_OK)
        return fail(&l, status, spc_ctx_error(l.ctx));
    double first = now_ms();
    if ((status = run_layer(&l)) != SPC_OK ||
        (status = check(&l, &checked, &wrong)) != SPC_OK)
        return fail(&l, status, spc_ctx_error(l.ctx));

    report(&l, &o);
    printf("first result after %.1f ms: opening %.1f, map and plan %.1f, "
           "running %.2f\n",
           opened - start + mapped - loaded + first - ready, opened - start,
           mapped - loaded + planned - ready, first - planned);
    printf("checked %d outputs: %s\n", checked,
           wrong == 0 ? "all right" : "WRONG");
    close_layer(&l);
    return wrong == 0 ? 0 : 1;
}
