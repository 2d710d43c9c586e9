/* SPDX-License-Identifier: Apache-2.0 */
/* net_weights.c - sets the weights of a network from arrays by name. */
#include "spc_import.h"

#include "base/error.h"
#include "base/plural.h"
#include "import/array.h"
#include "import/sized_import.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct filling {
    spc_net *net;
    const spc_weights *weights;
    const spc_weights_use *use;
    spc_error *error;
};

/* ---- names --------------------------------------------------------------- */

/* Finds "PREFIX" "NAME" "SUFFIX"; returns NULL if it is missing. */
static const spc_array *find(const struct filling *f, const char *name,
                             const char *suffix)
{
    char full[512];
    const char *prefix = f->use->prefix != NULL ? f->use->prefix : "";

    snprintf(full, sizeof(full), "%s%s%s", prefix, name, suffix);
    return spc_weights_find(f->weights, full);
}

/* MinkowskiEngine wraps PyTorch's linear layers. */
static const spc_array *find_bias(const struct filling *f, const char *name)
{
    const spc_array *own = find(f, name, ".bias");

    return own != NULL ? own : find(f, name, ".linear.bias");
}

static spc_status fail_missing(const struct filling *f, const char *name,
                               const char *suffixes)
{
    return spc__fail(
        f->error, SPC_ENOTFOUND, "there is no array '%s%s' with %s",
        f->use->prefix != NULL ? f->use->prefix : "", name, suffixes);
}

/* ---- one array ----------------------------------------------------------- */

/* A bias that the network would not use shows that the file belongs to another
 * network. */
static spc_status check_bias(const struct filling *f,
                             const spc_net_param *param)
{
    const spc_array *bias = find_bias(f, param->layer);

    if (bias == NULL || param->conv->bias)
        return SPC_OK;
    return spc__fail(f->error, SPC_EINVAL,
                     "there is an array '%s', but the layer '%s' has no bias: "
                     "is it another network's?",
                     bias->name, param->layer);
}

/* Finds the kernel of a layer by the ending that its engine uses, or NULL. */
static const spc_array *find_kernel(const struct filling *f, const char *layer)
{
    static const char *const suffixes[] = {".weight", ".kernel",
                                           ".linear.weight"};
    const spc_array *array = NULL;

    for (int i = 0; i < 3 && array == NULL; i++)
        array = find(f, layer, suffixes[i]);
    return array;
}

/* Loads a layer's kernel, by the ending that its engine gives it. */
static spc_status load_kernel(float *out, const struct filling *f,
                              const spc_net_param *param)
{
    spc_kernel_form form = {.bytes = sizeof(spc_kernel_form),
                            .engine = f->use->engine,
                            .axes = f->use->axes};
    spc_status status = check_bias(f, param);

    if (status != SPC_OK)
        return status;
    const spc_array *array = find_kernel(f, param->layer);
    if (array != NULL)
        return spc_kernel_load(out, param->conv, array, &form, f->error);
    return fail_missing(f, param->layer,
                        "the ending .weight, .kernel or .linear.weight");
}

/* `suffixes` are the endings under which `array` was searched. */
static spc_status load_vector(float *out, const struct filling *f,
                              const spc_net_param *param,
                              const spc_array *array, const char *suffixes)
{
    if (array == NULL)
        return fail_missing(f, param->layer, suffixes);
    if (array->unreadable != NULL || /* spc_array_floats reports it */
        spc_array_elements(array) == param->count)
        return spc_array_floats(out, array, f->error);
    return spc__fail(f->error, SPC_EINVAL,
                     "'%s' has %s, the layer '%s' takes %lld", array->name,
                     spc__count(spc_array_elements(array), "number"),
                     param->layer, (long long)param->count);
}

/* ---- normalisations ------------------------------------------------------ */

/* Prefix of a normalisation's arrays, which MinkowskiEngine wraps. */
static void name_norm(char *out, size_t bytes, const struct filling *f,
                      const char *norm)
{
    bool is_wrapped = find(f, norm, ".bn.running_mean") != NULL;

    snprintf(out, bytes, "%s%s%s", f->use->prefix != NULL ? f->use->prefix : "",
             norm, is_wrapped ? ".bn" : "");
}

/* `values` is three times the size of the parameter: scale, bias, and the
 * convolution's own bias, which may be missing. */
static spc_status fold(float *values, const struct filling *f,
                       const spc_net_param *param)
{
    char name[512];
    float *conv_bias = values + 2 * param->count;
    spc_net_param own = *param;
    spc_status status = SPC_OK;

    const spc_array *bias = find_bias(f, own.layer);
    if (bias != NULL)
        status = load_vector(conv_bias, f, &own, bias, ".bias");
    else
        conv_bias = NULL;
    name_norm(name, sizeof(name), f, param->norm);
    if (status == SPC_OK)
        status = spc_batch_norm_load(values, values + param->count,
                                     (int)param->count, f->weights, name,
                                     param->eps, conv_bias, f->error);
    return status;
}

/* Loads the parameters of a scale layer. A batch normalisation is refused: only
 * convolutions fold it. */
static spc_status load_own(float *values, const struct filling *f,
                           const spc_net_param *param)
{
    const char *suffix =
        param->which == SPC_OPERAND_SCALE ? ".weight" : ".bias";
    const spc_array *mean = find(f, param->layer, ".running_mean");

    if (mean == NULL)
        mean = find(f, param->layer, ".bn.running_mean");
    if (mean != NULL)
        return spc__fail(f->error, SPC_EUNSUPPORTED,
                         "'%s': the layer '%s' multiplies and adds, and the "
                         "files have a batch normalisation there, which is "
                         "folded into convolutions alone: store weight / "
                         "sqrt(running_var + eps) as its weight, bias - "
                         "running_mean * that as its bias",
                         mean->name, param->layer);
    return load_vector(values, f, param, find(f, param->layer, suffix), suffix);
}

/* Loads scale or bias: folded from a normalisation, or as the file has it. */
static spc_status load_scale_or_bias(float *values, const struct filling *f,
                                     const spc_net_param *param)
{
    bool is_scale = param->which == SPC_OPERAND_SCALE;
    spc_status status;

    if (param->conv == NULL)
        return load_own(values, f, param);
    if (param->norm == NULL || param->norm[0] == '\0')
        return is_scale
                   ? load_vector(values, f, param,
                                 find(f, param->layer, ".scale"),
                                 "the ending .scale")
                   : load_vector(values, f, param, find_bias(f, param->layer),
                                 "the ending .bias or .linear.bias");
    status = fold(values, f, param);
    if (status == SPC_OK && !is_scale)
        /* Folding gives both, the bias second. */
        memmove(values, values + param->count,
                (size_t)param->count * sizeof(*values));
    return status;
}

/* ---- parameters ---------------------------------------------------------- */

/* Loads one parameter and gives it to the network. */
static spc_status fill_param(const struct filling *f,
                             const spc_net_param *param)
{
    size_t count = (size_t)(param->count > 0 ? param->count : 0);
    /* A folded normalisation needs room for scale, bias, and the layer's own
     * bias. */
    float *values = calloc(3 * count + 1, sizeof(*values));
    spc_status status;

    if (values == NULL)
        return spc__fail_memory(f->error, 3 * count * sizeof(*values));
    status = param->which == SPC_OPERAND_WEIGHTS
                 ? load_kernel(values, f, param)
                 : load_scale_or_bias(values, f, param);
    if (status == SPC_OK)
        status = spc_net_set_param(f->net, param->layer, param->which, values,
                                   param->count, f->error);
    free(values);
    return status;
}

spc_status spc_weights_fill_net(spc_net *net, const spc_weights *weights,
                                const spc_weights_use *use, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "net", net, "weights",
                                  weights, "use", use, NULL);
    spc_net_info info;

    if (status != SPC_OK ||
        (status = SPC__TAKE_AS(&spc__sized_weights_use, spc_weights_use, use,
                               error)) != SPC_OK)
        return status;
    struct filling f = {net, weights, use, error};
    spc_net_describe(&info, net);
    for (int i = 0; i < info.params && status == SPC_OK; i++) {
        spc_net_param param;
        status = spc_net_param_at(&param, net, i);
        if (status == SPC_OK)
            status = fill_param(&f, &param);
    }
    return status;
}

bool spc_weights_find_layer(spc_kernel_shape *out, const spc_weights *weights,
                            const spc_weights_use *use, const char *layer)
{
    spc_kernel_shape shape;

    if (out == NULL || weights == NULL || use == NULL || layer == NULL ||
        SPC__TAKE_AS(&spc__sized_weights_use, spc_weights_use, use, NULL) !=
            SPC_OK)
        return false;
    struct filling f = {NULL, weights, use, NULL};
    spc_kernel_form form = {.bytes = sizeof(spc_kernel_form),
                            .engine = use->engine,
                            .axes = use->axes};
    const spc_array *array = find_kernel(&f, layer);
    if (array == NULL ||
        spc_kernel_describe(&shape, array, &form, NULL) != SPC_OK)
        return false;
    *out = shape;
    return true;
}

/* ---- unread arrays ------------------------------------------------------- */

/* Marks the arrays with this name as read, in the order of the collection. */
static void mark(bool *read, const struct filling *f, const char *name,
                 const char *wrapper)
{
    static const char *const suffixes[] = {
        ".weight",       ".kernel",      ".linear.weight",
        ".bias",         ".linear.bias", ".scale",
        ".running_mean", ".running_var", ".num_batches_tracked"};
    char full[512];

    snprintf(full, sizeof(full), "%s%s", name, wrapper);
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
        const spc_array *array = find(f, full, suffixes[i]);
        if (array != NULL)
            read[array - spc_weights_at(f->weights, 0)] = true;
    }
}

static bool has_prefix(const struct filling *f, const spc_array *array)
{
    const char *prefix = f->use->prefix;

    return prefix == NULL || strncmp(array->name, prefix, strlen(prefix)) == 0;
}

int spc_weights_unread_count(const spc_array **first, const spc_net *net,
                             const spc_weights *weights,
                             const spc_weights_use *use)
{
    int count = spc_weights_count(weights), left = 0;
    spc_net_param param;

    if (first != NULL)
        *first = NULL;
    if (first == NULL || net == NULL || weights == NULL || use == NULL ||
        SPC__TAKE_AS(&spc__sized_weights_use, spc_weights_use, use, NULL) !=
            SPC_OK)
        return 0;
    struct filling f = {NULL, weights, use, NULL};
    bool *read = calloc((size_t)count + 1, sizeof(*read));
    for (int i = 0; read != NULL && spc_net_param_at(&param, net, i) == SPC_OK;
         i++) {
        mark(read, &f, param.layer, "");
        if (param.norm == NULL || param.norm[0] == '\0')
            continue;
        mark(read, &f, param.norm, "");
        mark(read, &f, param.norm, ".bn");
    }
    for (int i = 0; read != NULL && i < count; i++) {
        const spc_array *array = spc_weights_at(weights, i);
        if (read[i] || !has_prefix(&f, array))
            continue;
        *first = left++ == 0 ? array : *first;
    }
    free(read);
    return left;
}
