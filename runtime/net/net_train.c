/*
 * net_train.c - training of a network that is a chain, on one scene: forward,
 * gradients, plain descent.
 *
 * Sets and maps are those of a plan of the network for the scene. A layer with
 * an activation is two steps, as the gradient of the activation needs what went
 * in.
 */
#include "net_plan.h"

#include "conv.h"
#include "ctx.h"
#include "dtype.h"
#include "error.h"
#include "geometry.h"
#include "map.h"
#include "operands.h"
#include <stdlib.h>
#include <string.h>

/* A problem with its kernel. */
typedef struct pass {
    spc_conv conv;
    spc_map *map;
    bool owned; /* the map */
    spc_plan *plan;
    void *packed;
} pass;

/* One of the chain: a convolution, or an activation. */
typedef struct step {
    const spc__net_node *node;
    bool is_conv;
    int set; /* of the outputs */
    pass forward, dgrad, wgrad;
    spc_feature_plan *act, *act_grad;
    void *out, *grad;     /* [rows][channels], and the gradient of that */
    int64_t taps, count;  /* weights; with the bias behind them */
    float *values;        /* [count] on the host, RSCK */
    float *bias, *change; /* on the device; change: the gradient of values */
} step;

struct spc_training {
    spc_ctx *ctx;
    spc_net_plan *plan;
    step *steps;
    int count;
    void *work; /* of one step at a time */
    size_t work_bytes;
    const void *features; /* of the last forward pass; NULL: there was none */
};

/* ---- what can be trained ------------------------------------------------- */

static spc_status fail_node(const spc__net_node *node, const char *why,
                            spc_error *error)
{
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "layer '%.60s' cannot be trained: %s",
                     node->name != NULL ? node->name : "?", why);
}

static spc_status check_node(const spc__net_node *node, int before,
                             spc_error *error)
{
    const spc_conv *conv = &node->conv;

    if (node->ins != 1 || node->in[0] != before || node->add != SPC_NO_TENSOR)
        return fail_node(node, "each layer of a chain reads the one before it",
                         error);
    if (node->kind == SPC__NODE_FEATURE && node->feature.op == SPC_FEATURE_ACT)
        return SPC_OK;
    if (node->kind != SPC__NODE_CONV)
        return fail_node(node, "convolutions and activations can be", error);
    if (conv->scale || conv->out != SPC_OUT_OWN ||
        spc__dtype_is_whole(conv->dtype))
        return fail_node(node,
                         "it has a scale, whole numbers, or another type of "
                         "outputs than of inputs",
                         error);
    return node->params[0] != NULL
               ? SPC_OK
               : fail_node(node, "it has no weights yet", error);
}

static spc_status check_chain(const spc_net *net, spc_error *error)
{
    int before = 0; /* the input */
    spc_status status = SPC_OK;

    if (net->set_count > 0 && net->sets[0].cloud)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "a network of clouds cannot be trained: gradients of "
                         "its layers have plans of their own");
    for (int i = 0; i < net->node_count && status == SPC_OK; i++) {
        status = check_node(&net->nodes[i], before, error);
        before = net->nodes[i].out;
    }
    if (status == SPC_OK &&
        (net->out_count != 1 || net->outs[0].tensor != before))
        status = spc__fail(error, SPC_EUNSUPPORTED,
                           "a chain has one output, that of its last layer");
    return status;
}

/* ---- maps ---------------------------------------------------------------- */

/* The map of a problem from set `in` to set `to`: the plan's, or one of its
 * own. */
static spc_status find_map(pass *p, spc_training *t, int in, int to)
{
    const spc_net *net = t->plan->net;
    bool inverse = spc__conv_is_inverse(&p->conv);
    spc_coords *from = t->plan->sets[in], *at = t->plan->sets[to];
    spc_status status;

    for (int i = 0; i < net->map_count; i++)
        if (t->plan->maps[i] != NULL && net->maps[i].in == in &&
            net->maps[i].to == to && net->maps[i].inverse == inverse &&
            spc__geometry_equal(&net->maps[i].geometry, &p->conv.geometry)) {
            p->map = t->plan->maps[i];
            return SPC_OK;
        }
    p->owned = true;
    status = inverse
                 ? spc_map_create_inverse(&p->map, from, at, &p->conv.geometry)
                 : spc_map_create(&p->map, from, at, &p->conv.geometry);
    if (status == SPC_OK)
        status = spc_map_update(p->map, NULL, NULL, 0, NULL);
    return status == SPC_OK ? spc_map_check(p->map, NULL) : status;
}

/* ---- making -------------------------------------------------------------- */

static spc_status take(void **out, spc_training *t, size_t bytes)
{
    return spc_alloc(out, t->ctx, bytes + 16);
}

static spc_status make_pass(pass *p, spc_training *t, const spc_conv *layer,
                            spc_pass which, int in, int to)
{
    spc_error *error = spc__error_of(t->ctx);
    spc_status status = spc_conv_pass(&p->conv, layer, which, error);

    if (status == SPC_OK && which == SPC_WGRAD)
        p->conv.out = SPC_OUT_F32;
    if (status != SPC_OK || (status = find_map(p, t, in, to)) != SPC_OK ||
        (status = spc_plan_create(&p->plan, t->ctx, &p->conv, p->map,
                                  t->plan->options.flags)) != SPC_OK)
        return status;
    size_t bytes = spc_plan_workspace_bytes(p->plan, p->map);
    if (bytes > t->work_bytes)
        t->work_bytes = bytes;
    return take(&p->packed, t, spc_plan_weights_bytes(p->plan));
}

static spc_status make_act(step *s, spc_training *t, const spc_feature *like)
{
    spc_feature f = *like;
    spc_status status =
        spc_feature_plan_create(&s->act, t->ctx, &f, SPC_PLAN_JIT);

    f.op = SPC_FEATURE_ACTGRAD;
    return status == SPC_OK
               ? spc_feature_plan_create(&s->act_grad, t->ctx, &f, SPC_PLAN_JIT)
               : status;
}

/* Room for outputs, of which the last one's gradient is the caller's. */
static spc_status make_rows(step *s, spc_training *t)
{
    const spc__net_tensor *tensor = &t->plan->net->tensors[s->node->out];
    size_t bytes = (size_t)spc_coords_rows(t->plan->sets[s->set]) *
                   (size_t)tensor->channels *
                   spc__dtype_of(tensor->dtype)->bytes;
    spc_status status = take(&s->out, t, bytes);

    return status == SPC_OK ? take(&s->grad, t, bytes) : status;
}

/* Where a weight of the network, which are KRSC, lies in RSCK. */
static int64_t place_of(const spc_conv *conv, int64_t i)
{
    int64_t in = spc__conv_group_in(conv), offsets = spc__conv_offsets(conv);
    int64_t co = i / (offsets * in), tap = i % (offsets * in);

    return tap * conv->cout + co;
}

static spc_status make_values(step *s, spc_training *t)
{
    const spc_conv *conv = &s->forward.conv;
    const spc__net_node *node = s->node;
    spc_status status;

    s->taps = node->counts[0];
    s->count = s->taps + (conv->bias ? conv->cout : 0);
    if ((s->values = calloc((size_t)s->count + 1, sizeof(float))) == NULL)
        return spc__fail_memory(spc__error_of(t->ctx),
                                (size_t)s->count * sizeof(float));
    for (int64_t i = 0; i < s->taps; i++)
        s->values[place_of(conv, i)] = node->params[0][i];
    if (conv->bias && node->params[2] != NULL)
        memcpy(s->values + s->taps, node->params[2],
               (size_t)conv->cout * sizeof(float));
    if ((status = take((void **)&s->change, t,
                       (size_t)s->count * sizeof(float))) != SPC_OK)
        return status;
    return take((void **)&s->bias, t, (size_t)conv->cout * sizeof(float));
}

static spc_status make_conv(step *s, spc_training *t)
{
    const spc__net_node *node = s->node;
    int in = t->plan->net->tensors[node->in[0]].set;
    spc_conv plain = node->conv;
    spc_status status;

    plain.activation = SPC_ACT_NONE;
    plain.slope = 0;
    if ((status = make_pass(&s->forward, t, &plain, SPC_FORWARD, in, s->set)) !=
            SPC_OK ||
        (status = make_pass(&s->wgrad, t, &plain, SPC_WGRAD, in, s->set)) !=
            SPC_OK)
        return status;
    if (s > t->steps) /* nobody asks for the gradient of the features */
        status = make_pass(&s->dgrad, t, &plain, SPC_DGRAD, s->set, in);
    return status == SPC_OK ? make_values(s, t) : status;
}

static step *add_step(spc_training *t, const spc__net_node *node)
{
    step *s = &t->steps[t->count++];

    s->node = node;
    s->set = t->plan->net->tensors[node->out].set;
    return s;
}

/* The activation of a convolution as an operator of its own. */
static spc_feature activation_of(const spc_conv *conv)
{
    spc_feature f = SPC_FEATURE_INIT;

    f.channels = conv->cout;
    f.dtype = conv->dtype == SPC_TF32 ? SPC_F32 : conv->dtype;
    f.activation = conv->activation;
    if (conv->slope != 0 || conv->activation == SPC_ACT_ELU)
        f.slope = conv->slope != 0 ? conv->slope : 1;
    return f;
}

static spc_status make_node(spc_training *t, const spc__net_node *node)
{
    bool is_conv = node->kind == SPC__NODE_CONV;
    spc_feature f = is_conv ? activation_of(&node->conv) : node->feature;
    spc_status status = SPC_OK;

    if (is_conv) {
        step *s = add_step(t, node);
        s->is_conv = true;
        if ((status = make_conv(s, t)) == SPC_OK)
            status = make_rows(s, t);
    }
    if (status != SPC_OK || f.activation == SPC_ACT_NONE)
        return status;
    step *s = add_step(t, node);
    status = make_act(s, t, &f);
    return status == SPC_OK ? make_rows(s, t) : status;
}

/* ---- weights ------------------------------------------------------------- */

static spc_status pack(const pass *p, const void *weights)
{
    return p->plan != NULL ? spc_plan_pack_weights(p->plan, p->packed, weights,
                                                   SPC_RSCK, NULL)
                           : SPC_OK;
}

static spc_status put_weights(spc_training *t, step *s)
{
    const spc__dtype *type = spc__dtype_of(s->forward.conv.dtype);
    size_t bytes = (size_t)s->taps * type->bytes;
    void *host = malloc(bytes + 1), *weights = NULL;
    spc_status status = take(&weights, t, bytes);

    if (host == NULL)
        status = spc__fail_memory(spc__error_of(t->ctx), bytes);
    else
        type->encode(host, s->values, (size_t)s->taps);
    if (status == SPC_OK)
        status = spc_copy_to_device(t->ctx, weights, host, bytes);
    if (status == SPC_OK && s->count > s->taps)
        status =
            spc_copy_to_device(t->ctx, s->bias, s->values + s->taps,
                               (size_t)(s->count - s->taps) * sizeof(float));
    if (status == SPC_OK && (status = pack(&s->forward, weights)) == SPC_OK &&
        (status = pack(&s->dgrad, weights)) == SPC_OK)
        status = spc_synchronize(t->ctx);
    spc_dealloc(t->ctx, weights);
    free(host);
    return status;
}

static spc_status put_all(spc_training *t)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < t->count && status == SPC_OK; i++)
        if (t->steps[i].is_conv)
            status = put_weights(t, &t->steps[i]);
    return status;
}

/* ---- life ---------------------------------------------------------------- */

static spc_net_options room_for(const spc_scene *scene, unsigned flags)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    const int32_t *at = spc_scene_coords(scene);

    o.capacity = o.sample_rows = spc_scene_rows(scene);
    o.sample = at;
    o.flags = flags;
    o.growth = 0;
    for (int64_t i = 0; i < 4 * o.capacity; i++) {
        int axis = (int)(i % 4);
        if (i < 4 || at[i] < o.low[axis])
            o.low[axis] = at[i];
        if (i < 4 || at[i] > o.high[axis])
            o.high[axis] = at[i];
    }
    return o;
}

static spc_status make(spc_training *t, const spc_net *net,
                       const spc_scene *scene, unsigned flags)
{
    spc_net_options options = room_for(scene, flags);
    spc_status status = spc_net_plan_create(&t->plan, t->ctx, net, &options);

    if (status != SPC_OK)
        return status;
    t->steps = calloc(2 * (size_t)net->node_count + 1, sizeof(*t->steps));
    if (t->steps == NULL)
        return spc__fail_memory(spc__error_of(t->ctx), sizeof(*t->steps));
    for (int i = 0; i < net->node_count && status == SPC_OK; i++)
        status = make_node(t, &net->nodes[i]);
    if (status == SPC_OK)
        status = take(&t->work, t, t->work_bytes);
    return status == SPC_OK ? put_all(t) : status;
}

spc_status spc_training_create(spc_training **out, spc_ctx *ctx,
                               const spc_net *net, const spc_scene *scene,
                               unsigned flags)
{
    spc_error error = {0};
    spc_training *t;
    spc_status status = spc__need(spc__error_of(ctx), __func__, "out", out,
                                  "ctx", ctx, "net", net, "scene", scene, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if (check_chain(net, &error) != SPC_OK)
        return spc__ctx_fail(ctx, &error);
    if ((t = calloc(1, sizeof(*t))) == NULL)
        return spc__fail_memory(spc__error_of(ctx), sizeof(*t));
    t->ctx = ctx;
    if ((status = make(t, net, scene, flags)) == SPC_OK)
        *out = t;
    else
        spc_training_free(t);
    return status;
}

static void release_pass(const spc_training *t, pass *p)
{
    spc_plan_free(p->plan);
    spc_dealloc(t->ctx, p->packed);
    if (p->owned)
        spc_map_free(p->map);
}

static void release_step(const spc_training *t, step *s)
{
    void *memory[] = {s->out, s->grad, s->bias, s->change};

    release_pass(t, &s->forward);
    release_pass(t, &s->dgrad);
    release_pass(t, &s->wgrad);
    spc_feature_plan_free(s->act);
    spc_feature_plan_free(s->act_grad);
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        spc_dealloc(t->ctx, memory[i]);
    free(s->values);
}

void spc_training_free(spc_training *t)
{
    if (t == NULL)
        return;
    for (int i = 0; i < t->count; i++)
        release_step(t, &t->steps[i]);
    spc_dealloc(t->ctx, t->work);
    free(t->steps);
    spc_net_plan_free(t->plan);
    free(t);
}

/* ---- running ------------------------------------------------------------- */

static spc_status execute(const spc_training *t, const pass *p,
                          spc_buffers buffers, void *stream)
{
    buffers.weights = p->packed;
    buffers.workspace = t->work;
    return spc_plan_execute(p->plan, p->map, &buffers, stream);
}

static const void *seen_by(const spc_training *t, int i)
{
    return i > 0 ? t->steps[i - 1].out : t->features;
}

static spc_status activate(const spc_training *t, const step *s,
                           const spc_feature_plan *plan, const void *in,
                           const void *grad, void *out, void *stream)
{
    spc_feature_buffers buffers = {.in = in, .add = grad, .out = out};

    return spc_feature_execute(plan, t->plan->sets[s->set], NULL, &buffers,
                               stream);
}

spc_status spc_net_forward(spc_training *t, const void *features,
                           const void **out, void *stream)
{
    spc_status status =
        spc__need(t != NULL ? spc__error_of(t->ctx) : NULL, __func__,
                  "training", t, "features", features, "out", out, NULL);

    if (status != SPC_OK)
        return status;
    t->features = features;
    for (int i = 0; i < t->count && status == SPC_OK; i++) {
        step *s = &t->steps[i];
        spc_buffers buffers = {
            .in = seen_by(t, i), .out = s->out, .bias = s->bias};
        status = s->is_conv ? execute(t, &s->forward, buffers, stream)
                            : activate(t, s, s->act, seen_by(t, i), NULL,
                                       s->out, stream);
    }
    *out = t->count > 0 ? t->steps[t->count - 1].out : features;
    return status;
}

static spc_status step_back(const spc_training *t, int i, const void *grad,
                            void *stream)
{
    const step *s = &t->steps[i];
    spc_buffers wgrad = {.in = seen_by(t, i), .grad = grad, .out = s->change};
    spc_status status;

    if (!s->is_conv)
        return i > 0 ? activate(t, s, s->act_grad, seen_by(t, i), grad,
                                t->steps[i - 1].grad, stream)
                     : SPC_OK;
    status = execute(t, &s->wgrad, wgrad, stream);
    if (status != SPC_OK || i == 0)
        return status;
    spc_buffers dgrad = {.in = grad, .out = t->steps[i - 1].grad};
    return execute(t, &s->dgrad, dgrad, stream);
}

spc_status spc_net_backward(spc_training *t, const void *grad, void *stream)
{
    spc_status status = spc__need(t != NULL ? spc__error_of(t->ctx) : NULL,
                                  __func__, "training", t, "grad", grad, NULL);

    if (status != SPC_OK)
        return status;
    if (t->features == NULL)
        return spc__fail(spc__error_of(t->ctx), SPC_ESTATE,
                         "there was no forward pass to go back from: call "
                         "spc_net_forward first");
    for (int i = t->count - 1; i >= 0 && status == SPC_OK; i--)
        status = step_back(t, i, i == t->count - 1 ? grad : t->steps[i].grad,
                           stream);
    return status;
}

/* ---- gradients ----------------------------------------------------------- */

static spc_status fetch(const spc_training *t, const step *s, float *change)
{
    return spc_copy_to_host(t->ctx, change, s->change,
                            (size_t)s->count * sizeof(float));
}

static step *find_step(const spc_training *t, const char *layer)
{
    for (int i = 0; i < t->count; i++)
        if (t->steps[i].is_conv && t->steps[i].node->name != NULL &&
            strcmp(t->steps[i].node->name, layer) == 0)
            return &t->steps[i];
    return NULL;
}

/* As the network has its parameters: weights KRSC. */
static void give(float *out, const step *s, spc_operand which,
                 const float *from)
{
    for (int64_t i = 0; i < s->taps && which == SPC_WEIGHTS; i++)
        out[i] = from[place_of(&s->forward.conv, i)];
    if (which == SPC_BIAS)
        memcpy(out, from + s->taps,
               (size_t)(s->count - s->taps) * sizeof(float));
}

spc_status spc_training_param(spc_training *t, const char *layer,
                              spc_operand which, float *values, float *gradient,
                              int64_t count)
{
    spc_error *error = t != NULL ? spc__error_of(t->ctx) : NULL;
    spc_status status =
        spc__need(error, __func__, "training", t, "layer", layer, NULL);
    const step *s = status == SPC_OK ? find_step(t, layer) : NULL;

    if (status != SPC_OK)
        return status;
    int64_t has = s == NULL              ? 0
                  : which == SPC_WEIGHTS ? s->taps
                  : which == SPC_BIAS    ? s->count - s->taps
                                         : 0;
    if (has == 0 || count != has)
        return spc__fail(error, has == 0 ? SPC_ENOTFOUND : SPC_EINVAL,
                         "layer '%.60s' has %lld such values, %lld were asked "
                         "for",
                         layer, (long long)has, (long long)count);
    if (values != NULL)
        give(values, s, which, s->values);
    if (gradient == NULL)
        return SPC_OK;
    float *change = malloc((size_t)s->count * sizeof(float));
    if (change == NULL)
        return spc__fail_memory(error, (size_t)s->count * sizeof(float));
    if ((status = spc_synchronize(t->ctx)) == SPC_OK &&
        (status = fetch(t, s, change)) == SPC_OK)
        give(gradient, s, which, change);
    free(change);
    return status;
}

static spc_status descend(const spc_training *t, step *s, float rate)
{
    float *change = malloc((size_t)s->count * sizeof(float));
    spc_status status;

    if (change == NULL)
        return spc__fail_memory(spc__error_of(t->ctx),
                                (size_t)s->count * sizeof(float));
    status = fetch(t, s, change);
    for (int64_t i = 0; i < s->count && status == SPC_OK; i++)
        s->values[i] -= rate * change[i];
    free(change);
    return status;
}

spc_status spc_training_descend(spc_training *t, float rate)
{
    spc_status status = spc__need(t != NULL ? spc__error_of(t->ctx) : NULL,
                                  __func__, "training", t, NULL);

    if (status == SPC_OK)
        status = spc_synchronize(t->ctx);
    for (int i = 0; status == SPC_OK && i < t->count; i++)
        if (t->steps[i].is_conv)
            status = descend(t, &t->steps[i], rate);
    return status == SPC_OK ? put_all(t) : status;
}

int64_t spc_training_rows(const spc_training *t)
{
    if (t == NULL)
        return 0;
    int last = t->plan->net->outs[0].tensor;
    return spc_coords_rows(t->plan->sets[t->plan->net->tensors[last].set]);
}
