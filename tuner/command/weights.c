/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.c - spctune weights: lists arrays in files, and converts kernels of
 * other engines.
 */
#include "base/plural.h"
#include "command/cli/output.h"
#include "spc_import.h"

#include "command/cli/cli.h"
#include <stdlib.h>
#include <string.h>

struct args {
    const char *from;
    const char *axes;
    cli_list kernels;
    cli_list strided;
    const char *output;
};

static const cli_option options[] = {
    {'f', "from", "ENGINE", CLI_TEXT, offsetof(struct args, from),
     "the engine whose layout the kernels have: spconv2, spconv1, minkowski, "
     "torchsparse, flexgemm, or spctune"},
    {0, "axes", "AXES", CLI_TEXT, offsetof(struct args, axes),
     "our names of that engine's axes: xyz (the default), zyx for detectors, "
     "yx in 2D"},
    {'k', "kernel", "NAME=K", CLI_LIST, offsetof(struct args, kernels),
     "the kernel of an array, such as conv1.kernel=3x3x1, if its shape does "
     "not determine it; list: that of a layer with offsets=, in their order "
     "(may be repeated)"},
    {0, "strided", "NAME", CLI_LIST, offsetof(struct args, strided),
     "an array of a layer with a stride and a kernel of one offset (may be "
     "repeated)"},
    {'o', "output", "FILE", CLI_OUT, offsetof(struct args, output),
     "write all arrays there, .safetensors, with the kernels in our layout"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

/* ---- kinds of arrays ----------------------------------------------------- */

struct job {
    const struct args *args;
    spc_engine engine;
    spc_weights *weights;
    /* the output, which owns the elements of kernels and leaves out unreadable
     * arrays */
    spc_array *out;
    int count;
};

static bool is_listed(const cli_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->at[i], name) == 0)
            return true;
    return false;
}

/* Returns the value of NAME=K for this name, or NULL. */
static const char *kernel_of(const struct args *args, const char *name)
{
    size_t length = strlen(name);

    for (int i = 0; i < args->kernels.count; i++) {
        const char *text = args->kernels.at[i];
        if (strncmp(text, name, length) == 0 && text[length] == '=')
            return text + length + 1;
    }
    return NULL;
}

/* Reads a kernel in the syntax of a layer's text. */
static spc_status read_kernel(int out[3], const char *text)
{
    char layer[128];
    spc_conv conv;
    spc_error error = {0};

    /* Only the kernel of this layer matters. A comma would begin another word
     * of the layer, so a comma is refused. */
    snprintf(layer, sizeof(layer), "subm,cin=1,cout=1,k=%s", text);
    if (strchr(text, ',') != NULL ||
        spc_conv_parse(&conv, layer, &error) != SPC_OK)
        return cli_fail(SPC_EINVAL,
                        "'--kernel' takes NAME=K with K as 3, 3x3x1 or list, "
                        "not '%s'",
                        text);
    memcpy(out, conv.geometry.kernel, sizeof(conv.geometry.kernel));
    return SPC_OK;
}

/* Determines whether this array is a kernel, and its form. */
static spc_status find_form(spc_kernel_form *out, bool *is_kernel,
                            const struct job *job, const spc_array *array)
{
    const char *kernel = kernel_of(job->args, array->name);

    *out = (spc_kernel_form){
        .bytes = sizeof(*out), .engine = job->engine, .axes = job->args->axes};
    out->strided = is_listed(&job->args->strided, array->name);
    *is_kernel = job->args->from != NULL &&
                 (kernel != NULL || out->strided ||
                  spc_engine_is_kernel(job->engine, array, job->args->axes));
    if (kernel == NULL)
        return SPC_OK;
    out->offsets = strcmp(kernel, "list") == 0 ? SPC_OFFSETS_ANY : 0;
    return out->offsets == 0 ? read_kernel(out->kernel, kernel) : SPC_OK;
}

/* Refuses words that name no array. */
static spc_status check_names(const struct job *job)
{
    const cli_list *lists[] = {&job->args->kernels, &job->args->strided};

    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->count; i++) {
            char name[512];
            snprintf(name, sizeof(name), "%s", lists[l]->at[i]);
            /* Splits at the last '=': names of arrays may contain '=', and
             * kernels do not. */
            if (l == 0 && strrchr(name, '=') != NULL)
                *strrchr(name, '=') = '\0';
            if (spc_weights_find(job->weights, name) == NULL)
                return cli_fail(SPC_ENOTFOUND, "there is no array '%s'", name);
        }
    return SPC_OK;
}

/* ---- listing ------------------------------------------------------------- */

static void print_shape(char *out, size_t bytes, const spc_array *array)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < array->rank && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%lld",
                                 i > 0 ? " " : "", (long long)array->shape[i]);
}

static void add_row(table *t, const spc_array *array,
                    const spc_kernel_shape *kernel)
{
    char shape[256];

    print_shape(shape, sizeof(shape), array);
    table_cell(t, "%s", array->name);
    table_cell(t, "%s", spc_element_name(array->type));
    table_cell(t, "%s", shape);
    table_cell(t, "%zu", array->bytes);
    if (array->unreadable != NULL)
        table_cell(t, "%s", array->unreadable);
    else if (kernel == NULL)
        table_blank(t);
    else
        table_cell(t, "cin=%d,cout=%d,k=%dx%dx%d", kernel->cin, kernel->cout,
                   kernel->kernel[0], kernel->kernel[1], kernel->kernel[2]);
}

static void write_array(spc__json *json, const spc_array *array,
                        const spc_kernel_shape *kernel)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "name", array->name);
    spc__json_text(json, "file", array->file);
    spc__json_text(json, "type", spc_element_name(array->type));
    spc__json_array(json, "shape");
    for (int i = 0; i < array->rank; i++)
        spc__json_int(json, NULL, array->shape[i]);
    spc__json_end_array(json);
    if (array->unreadable != NULL)
        spc__json_text(json, "unreadable", array->unreadable);
    if (kernel != NULL) {
        spc__json_int(json, "cin", kernel->cin);
        spc__json_int(json, "cout", kernel->cout);
        spc__json_array(json, "kernel");
        for (int axis = 0; axis < 3; axis++)
            spc__json_int(json, NULL, kernel->kernel[axis]);
        spc__json_end_array(json);
    }
    spc__json_end_object(json);
}

/* ---- converting ---------------------------------------------------------- */

static void reshape(spc_array *out, const spc_kernel_shape *kernel)
{
    const int64_t shape[] = {kernel->cout, kernel->kernel[0], kernel->kernel[1],
                             kernel->kernel[2], kernel->cin};

    out->rank = 5;
    memcpy(out->shape, shape, sizeof(shape));
}

/* Makes a kernel of our layout from an array, of the same size. */
static spc_status convert(spc_array *out, const spc_array *array,
                          const spc_kernel_form *form,
                          const spc_kernel_shape *kernel)
{
    spc_error error = {0};
    /* Allocates one byte more, as malloc(0) may return NULL, which would look
     * like a lack of memory. */
    void *data = malloc(array->bytes + 1);

    if (data == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if (spc_kernel_convert(data, array, form, &error) != SPC_OK) {
        free(data);
        return cli_fail(error.status, "%s", error.text);
    }
    *out = *array;
    out->data = data;
    reshape(out, kernel);
    return SPC_OK;
}

/* Lists an array; with --output, also converts it if it is a kernel. */
static spc_status look_at(struct job *job, const spc_array *array, table *t,
                          spc__json *json)
{
    spc_kernel_form form;
    spc_kernel_shape kernel;
    bool is_kernel = false;
    spc_error error = {0};
    spc_status status = find_form(&form, &is_kernel, job, array);
    spc_array *own = &job->out[job->count];

    if (status != SPC_OK)
        return status;
    *own = *array;
    /* The next array then takes this entry, so the output has no gaps. */
    job->count += array->unreadable == NULL;
    if (is_kernel &&
        spc_kernel_describe(&kernel, array, &form, &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    add_row(t, array, is_kernel ? &kernel : NULL);
    write_array(json, array, is_kernel ? &kernel : NULL);
    return is_kernel && job->args->output != NULL
               ? convert(own, array, &form, &kernel)
               : SPC_OK;
}

static bool is_converted(const struct job *job, int i)
{
    const spc_array *from = spc_weights_find(job->weights, job->out[i].name);
    /* Only converted arrays own memory; the others borrow it from the open
     * files. */
    return job->out[i].data != from->data;
}

/* Writes the converted file, with the origin of its kernels in a note, and
 * reports arrays that could not be read. */
static spc_status save(const cli *self, const struct job *job)
{
    char note[128];
    spc_error error = {0};
    int converted = 0;

    snprintf(note, sizeof(note), "from=%s,axes=%s",
             spc_engine_name(job->engine),
             job->args->axes != NULL ? job->args->axes : "xyz");
    if (spc_weights_save(job->args->output, job->out, job->count, note,
                         &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    for (int i = 0; i < job->count; i++)
        converted += is_converted(job, i);
    cli_say(self, "%s: %s, %s converted", job->args->output,
            spc__count(job->count, "array"), spc__count(converted, "kernel"));
    for (int i = 0; i < spc_weights_count(job->weights); i++) {
        const spc_array *array = spc_weights_at(job->weights, i);
        if (array->unreadable != NULL)
            cli_say(self, "%s is left out: %s", array->name, array->unreadable);
    }
    return SPC_OK;
}

/* ---- the command --------------------------------------------------------- */

static spc_status look_at_all(struct job *job, table *t, spc__json *json)
{
    int count = spc_weights_count(job->weights);
    spc_status status = check_names(job);

    job->out = calloc((size_t)count + 1, sizeof(*job->out));
    if (job->out == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < count && status == SPC_OK; i++)
        status = look_at(job, spc_weights_at(job->weights, i), t, json);
    return status;
}

static spc_status print(const cli *self, struct job *job)
{
    static const char *const titles[] = {"array",  "type",   "shape",
                                         ">bytes", "kernel", NULL};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    table t;

    table_init(&t, titles);
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    spc_status status = look_at_all(job, &t, &json);
    spc__json_end_array(&json);
    if (status == SPC_OK && job->args->output != NULL)
        status = save(self, job);
    if (status == SPC_OK && self->globals.json)
        status = output_json(&text);
    else if (status == SPC_OK && job->args->output == NULL)
        table_print(&t, stdout);
    spc__buf_release(&text);
    table_release(&t);
    return status;
}

static void release(struct job *job)
{
    for (int i = 0; i < job->count; i++)
        if (is_converted(job, i))
            free((void *)job->out[i].data);
    free(job->out);
    spc_weights_free(job->weights);
}

/* Conversion needs the engine, as arrays of one shape may have different
 * layouts. */
static spc_status check_args(struct job *job, const cli *self)
{
    const struct args *args = job->args;
    spc_error error = {0};

    if (self->operands.count == 0)
        return cli_fail(SPC_EINVAL, "weights needs a file, such as "
                                    "model.safetensors or weights.npz");
    if (args->from == NULL &&
        (args->output != NULL || args->axes != NULL ||
         args->kernels.count > 0 || args->strided.count > 0))
        return cli_fail(SPC_EINVAL,
                        "the layout of the kernels is missing: --from spconv2, "
                        "spconv1, minkowski, torchsparse, flexgemm or spctune");
    if ((args->from != NULL &&
         spc_engine_parse(&job->engine, args->from, &error) != SPC_OK) ||
        spc_axes_check(args->axes, &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    return SPC_OK;
}

static spc_status command_weights(cli *self, void *args)
{
    struct job job = {.args = args};
    spc_error error = {0};
    spc_status status = check_args(&job, self);

    if (status != SPC_OK)
        return status;
    if (spc_weights_open(&job.weights, self->operands.at, self->operands.count,
                         &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    status = print(self, &job);
    release(&job);
    return status;
}

const cli_command cli_weights = {
    .name = "weights",
    .operands = "FILE...",
    .summary = "list the arrays of weight files; convert kernels of others",
    .more =
        "FILE is .safetensors, .npz, .npy, or a checkpoint of PyTorch (.pth, "
        ".pt, .ckpt)\nthat has nothing but tensors, containers, numbers and "
        "texts. With --from the arrays that are kernels of "
        "convolutions, by name and\nshape, are shown as such; with --output "
        "all arrays are written to one file, the\nkernels as "
        "[cout][kx][ky][kz][cin]. Two things a shape does not say: which of "
        "the\nengine's axes is x (--axes; detectors of spconv have z first), "
        "and what a kernel\nof MinkowskiEngine or TorchSparse is that is no "
        "cube (--kernel).",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_weights,
};
