/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_read.c - reads a network from its text (net_text.h). The text is not
 * trusted: everything is checked before use.
 */
#include "net/form/net_text.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/number.h"
#include "base/plural.h"
#include "base/text/names.h"
#include "operators/offset_store.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 16 };

typedef struct reader {
    spc_net *net;
    spc__net_array *arrays;
    int array_count;
    int64_t bytes; /* total size of the arrays so far */
    float *scales; /* one for each tensor, 0: none; NULL: not quantised */
    int scale_count;
    int line;
    char *fields[FIELDS]; /* fields of this line, without the first word */
    int count;
    spc_error *error;
} reader;

/* ---- fields -------------------------------------------------------------- */

static spc_status fail_field(reader *r, int i, const char *what)
{
    return spc__fail(r->error, SPC_EFORMAT, "line %d: '%.40s' is not %s",
                     r->line, i < r->count ? r->fields[i] : "", what);
}

static spc_status need_fields(reader *r, int least, int most)
{
    if (r->count >= least && r->count <= most)
        return SPC_OK;
    return spc__fail(r->error, SPC_EFORMAT, "line %d: %s, expected %d", r->line,
                     spc__count(r->count, "field"), least);
}

/* Splits a line at its tabs; false if there are too many fields. */
static bool split(reader *r, char *line)
{
    r->count = 0;
    for (char *field; (field = strsep(&line, "\t")) != NULL; r->count++) {
        if (r->count == FIELDS)
            return false;
        r->fields[r->count] = field;
    }
    return true;
}

/* The value of a digit, or -1. The writer uses capitals only. */
static int hex_digit(char c)
{
    const char *digits = "0123456789ABCDEF", *at = strchr(digits, c);

    /* strchr() would also find the final zero. */
    return c != '\0' && at != NULL ? (int)(at - digits) : -1;
}

/* Decodes %XX in place. */
static spc_status read_name(char **out, reader *r, int i)
{
    char *to = r->fields[i];

    *out = to;
    /* Decoding only shortens the name, so it can be done in place. */
    for (const char *from = to; *from != '\0'; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hex_digit(from[1]);
        int low = high >= 0 ? hex_digit(from[2]) : -1;
        /* %00 would end the name early. */
        if (low < 0 || high + low == 0)
            return fail_field(r, i, "a name");
        *to++ = (char)(high << 4 | low);
        from += 2;
    }
    *to = '\0';
    return SPC_OK;
}

static spc__span span_of(const reader *r, int i)
{
    return spc__span_of(r->fields[i]);
}

static spc_status read_int(int *out, reader *r, int i)
{
    int64_t value;

    if (!spc__scan_integer(&value, span_of(r, i), INT32_MIN, INT32_MAX))
        return fail_field(r, i, "an integer");
    *out = (int)value;
    return SPC_OK;
}

/* Reads a field such as 3x3x1. */
static spc_status read_axes(int out[3], reader *r, int i)
{
    int64_t axes[3];

    if (spc__scan_integers(axes, 3, span_of(r, i), 'x', INT32_MIN, INT32_MAX) !=
        3)
        return fail_field(r, i, "three integers");
    for (int a = 0; a < 3; a++)
        out[a] = (int)axes[a];
    return SPC_OK;
}

static spc_status read_dtype(spc_dtype *out, reader *r, int i)
{
    int dtype = spc__name_index(spc__dtype_names, r->fields[i]);

    *out = (spc_dtype)dtype;
    return dtype >= 0 ? SPC_OK : fail_field(r, i, "a type");
}

static spc_status read_real(double *out, reader *r, int i)
{
    return spc__number_read(out, r->fields[i]) ? SPC_OK
                                               : fail_field(r, i, "a number");
}

/* Reads nine numbers: the voxel size and the two corners of the grid. */
static spc_status read_grid(spc_net_input *input, reader *r, int i)
{
    double *const grid[] = {input->voxel, input->low, input->high};
    spc__span rest = span_of(r, i);
    int n = 0;

    for (; n < 9 && rest.at != NULL; n++)
        if (!spc__scan_real(&grid[n / 3][n % 3], spc__scan_part(&rest, ',')))
            return fail_field(r, i, "a grid");
    return n == 9 && rest.at == NULL ? SPC_OK : fail_field(r, i, "a grid");
}

/* Adds the line number to the error of a public function. */
static spc_status at_line(reader *r, spc_status status)
{
    if (status == SPC_OK || status == SPC_ENOMEM)
        return status;
    spc__fail_prefix(r->error, "line %d: ", r->line);
    /* The function refused a caller's argument, but here the file is at
     * fault. */
    if (r->error != NULL)
        r->error->status = SPC_EFORMAT;
    return SPC_EFORMAT;
}

/* ---- lines --------------------------------------------------------------- */

/* Reads the line "network". This and the other lines are described in
 * net_text.h. */
static spc_status read_network(reader *r)
{
    char *name, *copy;
    spc_status status = read_name(&name, r, 0);

    if (status != SPC_OK ||
        (status = spc__net_text(&copy, name, r->error)) != SPC_OK)
        return status;
    free(r->net->name);
    r->net->name = copy;
    return SPC_OK;
}

/* Reads the line "input". */
static spc_status read_input(reader *r)
{
    spc_net_input input = SPC_NET_INPUT_INIT;
    spc_tensor out;
    char *name;
    spc_status status;

    if ((status = read_name(&name, r, 0)) != SPC_OK ||
        (status = read_int(&input.channels, r, 1)) != SPC_OK ||
        (status = read_dtype(&input.dtype, r, 2)) != SPC_OK ||
        (status = read_axes(input.shape, r, 3)) != SPC_OK ||
        (status = read_grid(&input, r, 4)) != SPC_OK ||
        (status = read_int(&input.points, r, 5)) != SPC_OK)
        return status;
    int at = 6; /* optional words, in this order */
    if (at < r->count && strcmp(r->fields[at], "cloud") == 0) {
        input.cloud = true;
        at++;
    }
    if (at < r->count && strcmp(r->fields[at], "zyx") == 0)
        input.axes = r->fields[at++];
    if (at < r->count)
        return fail_field(r, at, "a word");
    input.name = name;
    return at_line(r, spc_net_add_input(&out, r->net, &input, r->error));
}

/* Parses "0:0:0,1:0:0", a list that replaces the box; empty means the box. */
static spc_status read_offsets(spc_geometry *g, reader *r, int i)
{
    const spc_geometry plain = SPC_GEOMETRY_INIT;
    spc__span rest = span_of(r, i);
    int16_t list[SPC__LIST_NUMBERS];

    if (rest.length == 0)
        return SPC_OK;
    for (; rest.at != NULL; g->offset_count++) {
        int64_t axes[3];
        if (g->offset_count == SPC_MAX_OFFSETS ||
            spc__scan_integers(axes, 3, spc__scan_part(&rest, ','), ':',
                               INT16_MIN, INT16_MAX) != 3)
            return fail_field(r, i, "a list of offsets");
        for (int a = 0; a < 3; a++)
            list[3 * g->offset_count + a] = (int16_t)axes[a];
    }
    /* restores the kernel of a box */
    memcpy(g->kernel, plain.kernel, sizeof(g->kernel));
    g->offsets = list;
    return spc__geometry_keep(g, r->error);
}

/* Reads the line "conv". */
static spc_status read_conv(reader *r)
{
    spc_net_layer layer = SPC_NET_LAYER_INIT;
    spc_tensor out;
    char *name, *norm;
    spc_status status;

    if ((status = read_name(&name, r, 0)) != SPC_OK ||
        (status = read_int(&layer.in, r, 1)) != SPC_OK ||
        (status = read_int(&layer.residual, r, 2)) != SPC_OK ||
        (status = read_int(&layer.at, r, 3)) != SPC_OK ||
        (status = at_line(r, spc_conv_parse(&layer.conv, r->fields[4],
                                            r->error))) != SPC_OK ||
        (status = read_offsets(&layer.conv.geometry, r, 5)) != SPC_OK ||
        (status = read_name(&norm, r, 6)) != SPC_OK ||
        (status = read_real(&layer.eps, r, 7)) != SPC_OK)
        return status;
    layer.name = name;
    layer.norm = norm[0] != '\0' ? norm : NULL;
    return at_line(r, spc_net_add_conv(&out, r->net, &layer, r->error));
}

/* Reads the line "feature". */
static spc_status read_feature(reader *r)
{
    spc_feature feature = SPC_FEATURE_INIT;
    spc_tensor out;
    int in = 0, add = 0, at = 0;
    char *name;
    spc_status status;

    if ((status = read_name(&name, r, 0)) != SPC_OK ||
        (status = read_int(&in, r, 1)) != SPC_OK ||
        (status = read_int(&add, r, 2)) != SPC_OK ||
        (status = read_int(&at, r, 3)) != SPC_OK ||
        (status = at_line(
             r, spc_feature_parse(&feature, r->fields[4], r->error))) != SPC_OK)
        return status;
    return at_line(r, spc_net_add_feature(&out, r->net, name, &feature, in, add,
                                          at, r->error));
}

/* Reads all fields from `first` on as tensors. `out` has room for a whole
 * line. */
static spc_status read_tensors(spc_tensor *out, reader *r, int first)
{
    spc_status status = SPC_OK;

    for (int i = first; i < r->count && status == SPC_OK; i++)
        status = read_int(&out[i - first], r, i);
    return status;
}

/* Reads the line "concat". */
static spc_status read_concat(reader *r)
{
    spc_tensor out, parts[FIELDS];
    spc_status status = read_tensors(parts, r, 0);

    return status == SPC_OK ? at_line(r, spc_net_add_concat(&out, r->net, parts,
                                                            r->count, r->error))
                            : status;
}

/* Reads the line "regroup". */
static spc_status read_regroup(reader *r)
{
    spc_regrouping how = SPC_REGROUPING_INIT;
    spc_tensor out, sources[FIELDS];
    int slices = 0;
    spc_status status;

    if ((status = read_axes(how.scale, r, 0)) != SPC_OK ||
        (status = read_axes(how.split, r, 1)) != SPC_OK ||
        (status = read_int(&slices, r, 2)) != SPC_OK ||
        (status = read_tensors(sources, r, 3)) != SPC_OK)
        return status;
    return at_line(r, spc_net_add_regroup(&out, r->net, sources, r->count - 3,
                                          &how, slices != 0, r->error));
}

/* Reads the line "masked". */
static spc_status read_masked(reader *r)
{
    spc_net_masked masked = SPC_NET_MASKED_INIT;
    spc_tensor out;
    char *name;
    int slices = 0;
    double above = 0;
    spc_status status;

    if ((status = read_name(&name, r, 0)) != SPC_OK ||
        (status = read_axes(masked.how.scale, r, 1)) != SPC_OK ||
        (status = read_axes(masked.how.split, r, 2)) != SPC_OK ||
        (status = read_int(&slices, r, 3)) != SPC_OK ||
        (status = read_int(&masked.in, r, 4)) != SPC_OK ||
        (status = read_int(&masked.mask, r, 5)) != SPC_OK ||
        (status = read_real(&above, r, 6)) != SPC_OK ||
        (status = read_real(&masked.room, r, 7)) != SPC_OK)
        return status;
    masked.name = name;
    masked.slices = slices != 0;
    masked.above = (float)above;
    return at_line(r, spc_net_add_masked(&out, r->net, &masked, r->error));
}

/* Reads the line "output". */
static spc_status read_output(reader *r)
{
    char *name;
    int tensor = 0;
    spc_status status;

    if ((status = read_name(&name, r, 0)) != SPC_OK ||
        (status = read_int(&tensor, r, 1)) != SPC_OK)
        return status;
    return at_line(r, spc_net_add_output(r->net, tensor, name, r->error));
}

/* Nodes come first in the text, so all tensors exist here. */
static spc_status read_whole_tensor(reader *r)
{
    size_t tensors = (size_t)r->net->tensor_count;
    double scale = 0;
    int tensor = 0;
    spc_status status;

    if ((status = read_int(&tensor, r, 0)) != SPC_OK ||
        (status = read_real(&scale, r, 1)) != SPC_OK)
        return status;
    /* As float, since a small double may round to 0. */
    if (tensor < 0 || tensor >= r->net->tensor_count || !((float)scale > 0) ||
        isinf((float)scale))
        return spc__fail(r->error, SPC_EFORMAT,
                         "line %d: expected a tensor and its scale, above 0",
                         r->line);
    if (r->scales == NULL)
        r->scales = calloc(tensors, sizeof(*r->scales));
    if (r->scales == NULL)
        return spc__fail_memory(r->error, tensors * sizeof(*r->scales));
    r->scale_count = r->net->tensor_count;
    r->scales[tensor] = (float)scale;
    return SPC_OK;
}

static int param_named(const char *name)
{
    static const char *const names[SPC__NET_PARAMS + 1] = {"weights", "scale",
                                                           "bias", NULL};

    return spc__name_index(names, name);
}

/* True if the array is the next one in the order of nodes; each occurs once. */
static bool comes_next(const reader *r, const spc__net_array *a)
{
    const spc__net_array *last =
        r->array_count > 0 ? &r->arrays[r->array_count - 1] : NULL;

    return last == NULL || a->node > last->node ||
           (a->node == last->node && a->param > last->param);
}

/* Reads the line "array". The array must be one that the network has, as memory
 * is allocated by it. */
static spc_status read_array(reader *r)
{
    spc__net_array a = {0};
    spc_status status;
    void *arrays;

    if ((status = read_int(&a.node, r, 0)) != SPC_OK ||
        (status = read_dtype(&a.dtype, r, 2)) != SPC_OK)
        return status;
    a.param = param_named(r->fields[1]);
    if (a.node < 0 || a.node >= r->net->node_count || a.param < 0 ||
        !spc__scan_integer(&a.count, span_of(r, 3), 1, INT64_MAX) ||
        !spc__net_owns(r->net, a.node, a.param) ||
        a.count != r->net->nodes[a.node].counts[a.param] ||
        (a.dtype != SPC_F16 && a.dtype != SPC_BF16 && a.dtype != SPC_F32) ||
        !comes_next(r, &a))
        return spc__fail(r->error, SPC_EFORMAT,
                         "line %d: the network has no such array", r->line);
    arrays = spc__net_grow(r->arrays, r->array_count, sizeof(a));
    if (arrays == NULL)
        return spc__fail_memory(r->error, sizeof(a));
    r->arrays = arrays;
    r->arrays[r->array_count++] = a;
    r->bytes += (int64_t)spc__net_array_bytes(&a);
    return SPC_OK;
}

static const struct line {
    const char *word;
    int least, most; /* limits on the number of fields */
    spc_status (*read)(reader *r);
} lines[] = {
    {"network", 1, 1, read_network},
    {"input", 6, 8, read_input},
    {"conv", 8, 8, read_conv},
    {"feature", 5, 5, read_feature},
    {"concat", 1, SPC__NET_SOURCES, read_concat},
    {"regroup", 4, 3 + SPC__NET_SOURCES, read_regroup},
    {"masked", 8, 8, read_masked},
    {"output", 2, 2, read_output},
    {"whole", 2, 2, read_whole_tensor},
    {"array", 4, 4, read_array},
};

/* Reads a line by its first word. */
static spc_status read_line(reader *r, char *line)
{
    const char *word = strsep(&line, "\t");

    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        if (strcmp(lines[i].word, word) != 0)
            continue;
        spc_status status = line != NULL && split(r, line)
                                ? need_fields(r, lines[i].least, lines[i].most)
                                : spc__fail(r->error, SPC_EFORMAT,
                                            "line %d: its fields are "
                                            "not those of '%s'",
                                            r->line, word);
        return status == SPC_OK ? lines[i].read(r) : status;
    }
    return spc__fail(r->error, SPC_EFORMAT, "line %d: unknown word '%.40s'",
                     r->line, word);
}

/* ---- entry --------------------------------------------------------------- */

/* Checks the first line. A newer form is not damage, so it has a separate
 * status. */
static spc_status check_form(const char *text, spc_error *error)
{
    static const char head[] = "spctune network ";

    if (strncmp(text, head, sizeof(head) - 1) != 0)
        return spc__fail(error, SPC_EFORMAT,
                         "line 1: it is not the text of a network");
    text += sizeof(head) - 1;
    if (strncmp(text, "1\n", 2) == 0 || strncmp(text, "2\n", 2) == 0)
        return SPC_OK;
    return spc__fail(
        error, SPC_EDBVERSION,
        "the network is written in form '%.*s', and this spctune "
        "knows forms 1 and 2: update spctune",
        (int)strcspn(text, "\n") < 20 ? (int)strcspn(text, "\n") : 20, text);
}

/* The array of scales has room for the tensors that exist at the first "whole"
 * line, so no tensor may follow it. */
static spc_status check_scales_are_last(const reader *r)
{
    if (r->scales == NULL || r->scale_count == r->net->tensor_count)
        return SPC_OK;
    return spc__fail(r->error, SPC_EFORMAT,
                     "line %d: nodes follow the scales of tensors", r->line);
}

/* Reads all lines and cuts the text up on the way. */
static spc_status read_lines(reader *r, char *text)
{
    spc_status status = SPC_OK;

    /* strsep() also returns empty lines, so the count of lines is right. */
    for (char *line; status == SPC_OK && (line = strsep(&text, "\n")) != NULL;
         r->line++)
        if (line[0] != '\0' && (status = read_line(r, line)) == SPC_OK)
            status = check_scales_are_last(r);
    return status;
}

/* Checks that the arrays are exactly those of the network and that the sizes
 * agree with `bytes`. Memory is allocated by these sizes, so they must be
 * right. */
static spc_status check_arrays(const reader *r, int64_t bytes)
{
    spc_net_info info;

    spc_net_describe(&info, r->net);
    if (info.tensors == 0 || info.params != r->array_count)
        return spc__fail(r->error, SPC_EFORMAT,
                         "it has only %d of its %d arrays", r->array_count,
                         info.params);
    if (r->bytes != bytes)
        return spc__fail(r->error, SPC_EFORMAT,
                         "its arrays have %lld bytes, and %lld are stored",
                         (long long)r->bytes, (long long)bytes);
    return SPC_OK;
}

/* Converting scales to ranges and back may round, so this restores the scales
 * that were written. */
static spc_status set_scales(reader *r)
{
    for (int t = 0; t < r->net->tensor_count; t++) {
        spc__net_tensor *tensor = &r->net->tensors[t];
        if ((tensor->dtype == SPC_I8) != (r->scales[t] > 0))
            return spc__fail(r->error, SPC_EFORMAT,
                             "tensor %d cannot be of whole numbers", t);
        if (r->scales[t] > 0)
            tensor->scale = r->scales[t];
    }
    return SPC_OK;
}

/* Quantises the network as the stored one was, with the scales of the lines
 * "whole". */
static spc_status quantise(reader *r)
{
    size_t count = (size_t)r->net->tensor_count;
    float *ranges;
    spc_status status;

    if (r->scales == NULL)
        return SPC_OK;
    if ((ranges = malloc(count * sizeof(*ranges))) == NULL)
        return spc__fail_memory(r->error, count * sizeof(*ranges));
    /* The product must not become infinite, which would be refused as a
     * range. */
    for (size_t t = 0; t < count; t++)
        ranges[t] = fminf(r->scales[t], FLT_MAX / 127) * 127;
    status = spc_net_quantise(NULL, r->net, ranges, r->error);
    free(ranges);
    return status == SPC_OK ? set_scales(r) : status;
}

spc_status spc__net_read(spc_net **out, spc__net_array **arrays,
                         int *array_count, const char *text, int64_t bytes,
                         spc_error *error)
{
    reader r = {.line = 1, .error = error};
    char *copy = NULL;
    spc_status status = check_form(text, error);

    *out = NULL;
    *arrays = NULL;
    *array_count = 0;
    if (status != SPC_OK ||
        (status = spc__net_text(&copy, text, error)) != SPC_OK ||
        (status = spc_net_create(&r.net, "", error)) != SPC_OK)
        goto done;
    /* The first line was checked earlier. */
    char *rest = strchr(copy, '\n') + 1;
    r.line++;
    /* Quantising adds scales to layers, which the list of arrays has, so it
     * comes before the comparison. */
    if ((status = read_lines(&r, rest)) != SPC_OK ||
        (status = quantise(&r)) != SPC_OK ||
        (status = check_arrays(&r, bytes)) != SPC_OK)
        goto done;
    *out = r.net;
    *arrays = r.arrays;
    *array_count = r.array_count;
    r.net = NULL;
    r.arrays = NULL;
done:
    spc_net_free(r.net);
    free(r.arrays);
    free(r.scales);
    free(copy);
    return status;
}
