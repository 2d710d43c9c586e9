/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_form.c - the layouts in which engines store convolution weights, as
 * strides, and conversion between them.
 *
 * A weight has five coordinates: output channel, x, y, z, and input channel. In
 * every layout its position is a sum of five products, so a layout is five
 * strides. They follow from the order of the indices.
 */
#include "spc_import.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/plural.h"
#include "import/array.h"
#include "import/sized_import.h"
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAKE(form, error)                                                      \
    SPC__TAKE_AS(&spc__sized_kernel_form, spc_kernel_form, form, error)

/*
 * Orders of indices, the fastest last: o and i are channels; a, b and c are the
 * engine's axes. `flat`: the shape has one index K in place of a, b and c.
 * `dense`: the order for K = 1 without a stride.
 */
struct layout {
    const char *name;
    const char *odd, *even; /* orders for odd and even K */
    const char *dense;
    bool flat;
};

static const struct layout layouts[SPC_ENGINES] = {
    [SPC_ENGINE_SPCTUNE] = {"spctune", "oabci", "oabci", "oabci", false},
    [SPC_ENGINE_SPCONV2] = {"spconv2", "oabci", "oabci", "abcio", false},
    [SPC_ENGINE_SPCONV1] = {"spconv1", "abcio", "abcio", "abcio", false},
    [SPC_ENGINE_MINKOWSKI] = {"minkowski", "cbaio", "cbaio", "abcio", true},
    [SPC_ENGINE_TORCHSPARSE] = {"torchsparse", "cbaio", "abcio", "abcio", true},
    [SPC_ENGINE_FLEXGEMM] = {"flexgemm", "oabci", "oabci", "oabci", false},
};

const char *spc_engine_name(spc_engine engine)
{
    return (unsigned)engine < SPC_ENGINES ? layouts[engine].name : "?";
}

spc_status spc_engine_parse(spc_engine *out, const char *word, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "out", out, "word", word, NULL);

    for (int i = 0; i < SPC_ENGINES && status == SPC_OK; i++)
        if (strcmp(word, layouts[i].name) == 0) {
            *out = (spc_engine)i;
            return SPC_OK;
        }
    return status != SPC_OK
               ? status
               : spc__fail(error, SPC_EINVAL,
                           "unknown engine '%s' (spctune, spconv2, spconv1, "
                           "minkowski, torchsparse, flexgemm)",
                           word);
}

int spc_engine_origin(spc_engine engine, int kernel, int dilation)
{
    /* TorchSparse centres even kernels as well. */
    if (engine == SPC_ENGINE_TORCHSPARSE && kernel % 2 == 0 && kernel > 0 &&
        kernel <= SPC_MAX_OFFSETS && dilation > 0 && dilation <= INT16_MAX)
        return -dilation * ((kernel - 1) / 2);
    return SPC_ORIGIN_AUTO;
}

/* ---- axes ---------------------------------------------------------------- */

/* Maps the engine's axes to ours. Returns their number, or 0 on error. */
static int read_axes(int out[3], const char *axes)
{
    int count = 0;
    bool used[3] = {false, false, false};

    if (axes == NULL)
        axes = "xyz";
    for (; axes[count] != '\0'; count++) {
        int axis = axes[count] - 'x';
        if (count == 3 || axis < 0 || axis > 2 || used[axis])
            return 0;
        used[axis] = true;
        out[count] = axis;
    }
    return count >= 2 ? count : 0;
}

spc_status spc_axes_check(const char *axes, spc_error *error)
{
    int unused[3];

    spc__error_clear(error);
    if (read_axes(unused, axes) > 0)
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL,
        "'%s' is not an order of axes: expected xyz, zyx or, in 2D, yx", axes);
}

static spc_status check_form(int axes[3], int *count,
                             const spc_kernel_form *form, spc_error *error)
{
    if ((unsigned)form->engine >= SPC_ENGINES)
        return spc__fail(error, SPC_EINVAL,
                         "unknown engine %d of a kernel's form",
                         (int)form->engine);
    *count = read_axes(axes, form->axes);
    return spc_axes_check(form->axes, error);
}

/* ---- shapes -------------------------------------------------------------- */

/* Reads the size of an axis; it comes from a file, so it is checked. */
static bool read_size(int *out, const spc_array *array, int index)
{
    int64_t size = array->shape[index];

    *out = size > INT_MAX ? INT_MAX : (int)size;
    return size >= 1 && size <= INT_MAX;
}

static int64_t volume(const int kernel[3])
{
    return (int64_t)kernel[0] * kernel[1] * kernel[2];
}

/* Edge length of the cube or square with `offsets` positions, or 0. */
static int side_of(int64_t offsets, int axes)
{
    for (int side = 1; side <= SPC_MAX_OFFSETS; side++) {
        int64_t power =
            axes == 3 ? (int64_t)side * side * side : (int64_t)side * side;
        if (power == offsets)
            return side;
    }
    return 0;
}

static spc_status fail_shape(const spc_array *array,
                             const spc_kernel_form *form, const char *right,
                             spc_error *error)
{
    char shape[256];

    spc__array_print_shape(shape, sizeof(shape), array);
    return spc__fail(error, SPC_EINVAL,
                     "'%s' of shape %s is not a kernel of %s: %s", array->name,
                     shape, spc_engine_name(form->engine), right);
}

/* The part of a name after the last dot. */
static const char *last_word(const spc_array *array)
{
    const char *dot = strrchr(array->name, '.');
    return dot != NULL ? dot + 1 : array->name;
}

/* A matrix [o][i], the layout of linear layers in every engine. */
static bool is_linear(const spc_array *array, const spc_kernel_form *form)
{
    return array->rank == 2 && (!layouts[form->engine].flat ||
                                strcmp(last_word(array), "weight") == 0);
}

static spc_status look_linear(spc_kernel_shape *out, const spc_array *array,
                              const spc_kernel_form *form, spc_error *error)
{
    if (read_size(&out->cout, array, 0) && read_size(&out->cin, array, 1))
        return SPC_OK;
    return fail_shape(array, form, "expected [cout][cin]", error);
}

/* Reads [K][i][o], or [i][o] for a single offset. */
static spc_status look_flat(spc_kernel_shape *out, const spc_array *array,
                            const spc_kernel_form *form, const int axes[3],
                            int count, spc_error *error)
{
    int offsets = 1;
    int channels = array->rank == 3 ? 1 : 0;

    if ((array->rank != 2 && array->rank != 3) ||
        (array->rank == 3 && !read_size(&offsets, array, 0)) ||
        !read_size(&out->cin, array, channels) ||
        !read_size(&out->cout, array, channels + 1))
        return fail_shape(array, form, "expected [K][cin][cout] or [cin][cout]",
                          error);
    if (form->kernel[0] != 0)
        return SPC_OK; /* sizes known to the caller are compared later */
    int side = side_of(offsets, count);
    if (side == 0)
        return fail_shape(
            array, form,
            "its offsets are not a cube; set the kernel size, as in 3x3x1",
            error);
    for (int i = 0; i < count; i++)
        out->kernel[axes[i]] = side;
    return SPC_OK;
}

/* Reads shapes with a size for each index, in the layout's order. */
static spc_status look_spread(spc_kernel_shape *out, const spc_array *array,
                              const spc_kernel_form *form, const int axes[3],
                              int count, spc_error *error)
{
    bool is_first = layouts[form->engine].odd[0] == 'o';
    const char *right = is_first ? "expected [cout][size along each axis][cin]"
                                 : "expected [size along each axis][cin][cout]";

    if (array->rank != count + 2)
        return fail_shape(array, form, right, error);
    bool is_right = read_size(&out->cout, array, is_first ? 0 : count + 1) &&
                    read_size(&out->cin, array, is_first ? count + 1 : count);
    for (int i = 0; i < count && is_right; i++)
        is_right = read_size(&out->kernel[axes[i]], array, i + is_first);
    return is_right ? SPC_OK : fail_shape(array, form, right, error);
}

/* Number of indices before those of the position; behind_place() is the number
 * after them. */
static int before_position(const spc_kernel_form *form)
{
    return layouts[form->engine].odd[0] == 'o' ? 1 : 0;
}

static int behind_position(const spc_kernel_form *form)
{
    return 2 - before_position(form);
}

/* Reads the weights of a list of offsets: one index for all offsets, or several
 * of which at most one has a size other than 1. A single offset needs no index.
 * All orders of a layout agree for a kernel of Kx1x1, so nothing is
 * permuted. */
static spc_status look_list(spc_kernel_shape *out, const spc_array *array,
                            const spc_kernel_form *form, spc_error *error)
{
    int first = before_position(form),
        end = array->rank - behind_position(form);
    int wide = 0, cout = first == 1 ? 0 : end + 1;
    bool is_right = array->rank >= 2 && array->rank <= 5 && end >= first &&
                    read_size(&out->cout, array, cout) &&
                    read_size(&out->cin, array, end);

    for (int i = first; i < end && is_right; i++) {
        int size;
        is_right = read_size(&size, array, i) && (size == 1 || wide++ == 0);
        out->kernel[0] = size > 1 ? size : out->kernel[0];
    }
    if (is_right &&
        (form->offsets == SPC_OFFSETS_ANY || form->offsets == out->kernel[0]))
        return SPC_OK;
    char right[128], count[24] = "K";
    if (form->offsets != SPC_OFFSETS_ANY)
        snprintf(count, sizeof(count), "%d", form->offsets);
    snprintf(
        right, sizeof(right),
        first == 1
            ? "expected [cout][%s][cin], in the order of the list of offsets"
            : "expected [%s][cin][cout], in the order of the list of offsets",
        count);
    return fail_shape(array, form, right, error);
}

static spc_status fail_size(const spc_array *array, const spc_kernel_form *form,
                            spc_error *error)
{
    char right[80];

    snprintf(right, sizeof(right), "the layer's has the sizes %dx%dx%d",
             form->kernel[0], form->kernel[1], form->kernel[2]);
    return fail_shape(array, form, right, error);
}

/* Checks the array's sizes against those that the caller knows. */
static spc_status check_sizes(spc_kernel_shape *out, const spc_array *array,
                              const spc_kernel_form *form, spc_error *error)
{
    bool is_list = form->offsets != 0;
    bool is_flat =
        layouts[form->engine].flat && !is_linear(array, form) && !is_list;

    for (int axis = 0; axis < 3 && form->kernel[0] != 0 && !is_list; axis++) {
        if (form->kernel[axis] < 1 || form->kernel[axis] > SPC_MAX_OFFSETS)
            return spc__fail(error, SPC_EINVAL,
                             "a kernel of %d along an axis: expected 1 to %d",
                             form->kernel[axis], SPC_MAX_OFFSETS);
        if (!is_flat && out->kernel[axis] != form->kernel[axis])
            return fail_size(array, form, error);
        out->kernel[axis] = form->kernel[axis];
    }
    for (int axis = 0; axis < 3; axis++)
        if (out->kernel[axis] > SPC_MAX_OFFSETS)
            return fail_shape(array, form, "it has more than 343 offsets",
                              error);
    int64_t offsets = volume(out->kernel);
    if (offsets > SPC_MAX_OFFSETS)
        return fail_shape(array, form, "it has more than 343 offsets", error);
    int64_t held = array->rank == 3 ? array->shape[0] : 1;
    if (is_flat && offsets != held) {
        char what[96];
        snprintf(what, sizeof(what),
                 "it has %s, and a kernel of %dx%dx%d has %lld",
                 spc__count(held, "offset"), out->kernel[0], out->kernel[1],
                 out->kernel[2], (long long)offsets);
        return fail_shape(array, form, what, error);
    }
    return SPC_OK;
}

spc_status spc_kernel_describe(spc_kernel_shape *out, const spc_array *array,
                               const spc_kernel_form *form, spc_error *error)
{
    int axes[3], count = 0;
    spc_status status = spc__need(error, __func__, "out", out, "array", array,
                                  "form", form, NULL);

    if (status != SPC_OK || (status = TAKE(form, error)) != SPC_OK)
        return status;
    *out = (spc_kernel_shape){0, 0, {1, 1, 1}};
    if ((status = spc__array_check(array, error)) != SPC_OK ||
        (status = check_form(axes, &count, form, error)) != SPC_OK)
        return status;
    status = is_linear(array, form) ? look_linear(out, array, form, error)
             : form->offsets != 0   ? look_list(out, array, form, error)
             : layouts[form->engine].flat
                 ? look_flat(out, array, form, axes, count, error)
                 : look_spread(out, array, form, axes, count, error);
    return status == SPC_OK ? check_sizes(out, array, form, error) : status;
}

bool spc_engine_is_kernel(spc_engine engine, const spc_array *array,
                          const char *axes)
{
    int order[3], count = read_axes(order, axes);

    if (array == NULL || array->name == NULL ||
        (unsigned)engine >= SPC_ENGINES || count == 0)
        return false;
    const char *last = last_word(array);
    if (layouts[engine].flat)
        return strcmp(last, "kernel") == 0 &&
               (array->rank == 2 || array->rank == 3);
    return strcmp(last, "weight") == 0 && array->rank == count + 2;
}

/* ---- strides ------------------------------------------------------------- */

/* In elements, for output channel; x, y and z; input channel. */
struct strides {
    int64_t out, axis[3], in;
};

static const char *order_of(const spc_kernel_form *form,
                            const spc_kernel_shape *shape)
{
    const struct layout *layout = &layouts[form->engine];
    int64_t offsets = volume(shape->kernel);

    /* Some engines multiply by such a kernel as by a matrix, and store it in
     * that order. */
    if (offsets == 1 && !form->strided && form->offsets == 0)
        return layout->dense;
    return offsets % 2 == 1 ? layout->odd : layout->even;
}

/* Walks the order from the fastest index. In 2D the missing axis has size 1, so
 * its position does not matter. */
static struct strides strides_of(const char *order, const int axes[3],
                                 const spc_kernel_shape *shape)
{
    struct strides out = {0};
    int64_t stride = 1;

    for (int at = 4; at >= 0; at--) {
        if (order[at] == 'o') {
            out.out = stride;
            stride *= shape->cout;
        } else if (order[at] == 'i') {
            out.in = stride;
            stride *= shape->cin;
        } else {
            int axis = axes[order[at] - 'a'];
            out.axis[axis] = stride;
            stride *= shape->kernel[axis];
        }
    }
    return out;
}

static struct strides canonical(const spc_kernel_shape *shape)
{
    static const int axes[3] = {0, 1, 2};
    return strides_of(layouts[SPC_ENGINE_SPCTUNE].odd, axes, shape);
}

static struct strides of_form(const spc_kernel_form *form,
                              const spc_kernel_shape *shape)
{
    int axes[3] = {0, 1, 2};
    int count = read_axes(axes, form->axes);

    if (count == 2)
        /* The remaining axis follows from 0 + 1 + 2 = 3. */
        axes[2] = 3 - axes[0] - axes[1];
    return strides_of(order_of(form, shape), axes, shape);
}

/* ---- copying ------------------------------------------------------------- */

struct copy {
    char *to;
    const char *from;
    struct strides to_strides, from_strides;
    size_t bytes; /* bytes of an element */
};

static int64_t position(const struct strides *s, int co, const int tap[3],
                        int ci)
{
    return co * s->out + tap[0] * s->axis[0] + tap[1] * s->axis[1] +
           tap[2] * s->axis[2] + ci * s->in;
}

/* Copies all channels of one position. */
static void copy_tap(const struct copy *c, const spc_kernel_shape *shape,
                     const int tap[3])
{
    for (int co = 0; co < shape->cout; co++)
        for (int ci = 0; ci < shape->cin; ci++)
            memcpy(c->to +
                       (size_t)position(&c->to_strides, co, tap, ci) * c->bytes,
                   c->from + (size_t)position(&c->from_strides, co, tap, ci) *
                                 c->bytes,
                   c->bytes);
}

static void copy_all(const struct copy *c, const spc_kernel_shape *shape)
{
    const int *kernel = shape->kernel;

    for (int x = 0; x < kernel[0]; x++)
        for (int y = 0; y < kernel[1]; y++)
            for (int z = 0; z < kernel[2]; z++)
                copy_tap(c, shape, (const int[3]){x, y, z});
}

spc_status spc_kernel_convert(void *out, const spc_array *array,
                              const spc_kernel_form *form, spc_error *error)
{
    spc_kernel_shape shape;
    spc_status status = spc__need(error, __func__, "out", out, NULL);

    if (status == SPC_OK)
        status = TAKE(form, error);
    if (status == SPC_OK)
        status = spc_kernel_describe(&shape, array, form, error);
    if (status == SPC_OK)
        status = spc__array_check_data(array, error);
    if (status != SPC_OK)
        return status;
    struct strides own = canonical(&shape);
    copy_all(
        &(struct copy){out, array->data, own,
                       is_linear(array, form) ? own : of_form(form, &shape),
                       spc_element_bytes(array->type)},
        &shape);
    return SPC_OK;
}

/* Checks before any product, so that none overflows. */
static spc_status check_shape(const spc_kernel_shape *shape,
                              size_t element_bytes, spc_error *error)
{
    const int most = SPC_MAX_OFFSETS;
    bool is_kernel = shape->cout > 0 && shape->cin > 0 && element_bytes > 0 &&
                     element_bytes <= 8;

    for (int i = 0; i < 3; i++)
        is_kernel &= shape->kernel[i] > 0 && shape->kernel[i] <= most;
    if (is_kernel && volume(shape->kernel) <= most)
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL,
        "a kernel of %dx%dx%d offsets, %d to %d channels, elements of %zu "
        "bytes: expected positive numbers, at most %d offsets and 8 bytes",
        shape->kernel[0], shape->kernel[1], shape->kernel[2], shape->cin,
        shape->cout, element_bytes, most);
}

spc_status spc_kernel_restore(void *out, const void *weights,
                              size_t element_bytes,
                              const spc_kernel_shape *shape,
                              const spc_kernel_form *form, spc_error *error)
{
    int axes[3], count = 0;
    spc_status status = spc__need(error, __func__, "out", out, "canonical",
                                  weights, "shape", shape, "form", form, NULL);

    if (status == SPC_OK)
        status = TAKE(form, error);
    if (status == SPC_OK)
        status = check_form(axes, &count, form, error);
    if (status == SPC_OK)
        status = check_shape(shape, element_bytes, error);
    if (status != SPC_OK)
        return status;
    copy_all(&(struct copy){out, weights, of_form(form, shape),
                            canonical(shape), element_bytes},
             shape);
    return SPC_OK;
}

/* ---- for a layer --------------------------------------------------------- */

/* Compares the kernel of a file with the layer that it is for. */
static spc_status check_layer(const spc_kernel_shape *shape,
                              const spc_conv *conv, const spc_array *array,
                              spc_error *error)
{
    char text[512];

    if (shape->cout == conv->cout && conv->groups > 0 &&
        shape->cin == conv->cin / conv->groups &&
        volume(shape->kernel) == spc_geometry_offset_count(&conv->geometry))
        return SPC_OK;
    spc_conv_format(text, sizeof(text), conv);
    return spc__fail(error, SPC_EINVAL,
                     "'%s' holds %d x %dx%dx%d x %d weights (cout, kernel, "
                     "cin), which differs from the layer %s",
                     array->name, shape->cout, shape->kernel[0],
                     shape->kernel[1], shape->kernel[2], shape->cin, text);
}

/* True if the layer moves its outputs to another grid. spconv 2 treats a kernel
 * of one offset as a matrix only if the layer does not. */
static bool is_strided(const spc_conv *conv)
{
    const int *stride = conv->geometry.stride;
    return conv->op == SPC_CONV &&
           (stride[0] != 1 || stride[1] != 1 || stride[2] != 1);
}

/* Origin of position 0 of a kernel in the engine, for layers of a rule. Returns
 * false if the engine has no such layer or has the rule's own origin. */
static bool find_origin(int *out, spc_engine engine, spc_rule rule, int kernel,
                        int dilation)
{
    bool is_even = kernel % 2 == 0;

    if (rule == SPC_RULE_SUBM && engine == SPC_ENGINE_MINKOWSKI && is_even) {
        *out = 0; /* this library centres the kernel, like TorchSparse */
        return true;
    }
    *out = spc_engine_origin(engine, kernel, dilation);
    return (rule == SPC_RULE_FLOOR || rule == SPC_RULE_GENERATIVE ||
            rule == SPC_RULE_GIVEN || rule == SPC_RULE_EXPAND) &&
           *out != SPC_ORIGIN_AUTO;
}

/* Checks that an even kernel has the engine's origin, since its weights would
 * be at the wrong positions otherwise. An explicit origin is taken as
 * intended. */
static spc_status check_origin(const spc_conv *conv, const spc_array *array,
                               spc_engine engine, spc_error *error)
{
    const spc_geometry *g = &conv->geometry;

    for (int i = 0; i < 3 && g->offset_count == 0; i++) {
        int first[3], want = 0;
        spc_geometry_offset_at(first, g, 0);
        if (g->origin[i] != SPC_ORIGIN_AUTO ||
            !find_origin(&want, engine, g->rule, g->kernel[i],
                         g->dilation[i]) ||
            want == first[i])
            continue;
        char right[96] = "write its offsets as a list (offsets=)";
        if (g->rule != SPC_RULE_SUBM)
            snprintf(right, sizeof(right),
                     "write origin=%d, or origin=%d if that is what you mean",
                     want, first[i]);
        return spc__fail(error, SPC_EINVAL,
                         "'%s': a kernel of %d along %c begins at %d in %s, "
                         "and at %d in this layer: %s",
                         array->name, g->kernel[i], "xyz"[i], want,
                         spc_engine_name(engine), first[i], right);
    }
    return SPC_OK;
}

/* Converts into a copy, as the array may be a mapped file. */
static spc_status load_converted(float *out, const spc_array *array,
                                 const spc_kernel_form *form, spc_error *error)
{
    spc_array converted = *array;
    void *data = malloc(array->bytes + 1);
    spc_status status;

    if (data == NULL)
        return spc__fail_memory(error, array->bytes);
    converted.data = data;
    status = spc_kernel_convert(data, array, form, error);
    if (status == SPC_OK)
        status = spc_array_floats(out, &converted, error);
    free(data);
    return status;
}

spc_status spc_kernel_load(float *out, const spc_conv *conv,
                           const spc_array *array, const spc_kernel_form *form,
                           spc_error *error)
{
    spc_kernel_shape shape;
    spc_status status = spc__need(error, __func__, "out", out, "conv", conv,
                                  "array", array, "form", form, NULL);

    if (status == SPC_OK)
        status = TAKE(form, error);
    if (status == SPC_OK &&
        (spc_geometry_offset_count(&conv->geometry) == 0 || conv->groups < 1))
        status = spc__fail(error, SPC_EINVAL,
                           "the layer has no valid kernel: see spc_conv_check");
    if (status != SPC_OK)
        return status;
    spc_kernel_form own = *form;
    memcpy(own.kernel, conv->geometry.kernel, sizeof(own.kernel));
    own.offsets = conv->geometry.offset_count;
    own.strided = is_strided(conv);
    if ((status = spc_kernel_describe(&shape, array, &own, error)) != SPC_OK ||
        (status = check_layer(&shape, conv, array, error)) != SPC_OK ||
        (status = check_origin(conv, array, form->engine, error)) != SPC_OK)
        return status;
    if ((status = load_converted(out, array, &own, error)) != SPC_OK)
        return status;
    char what[512];
    snprintf(what, sizeof(what), "'%s'", array->name);
    return spc__dtype_check(conv->dtype, out, spc_array_elements(array), what,
                            error);
}
