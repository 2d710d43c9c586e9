/* conv.c - a convolution layer as a value: its text, its rules, its attrs. */
#include "ctx.h"

#include "dtype.h"
#include "error.h"
#include "geometry.h"
#include "sha256.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Any layer in use is far below; what is above is a mistake, and products of
 * sizes below it stay within 64 bits. */
enum { MOST_CHANNELS = 65536, WORD_BYTES = 64 };

/* By spc_operator and spc_rule. */
static const char *const operator_names[] = {"subm", "conv", "inverse", NULL};
static const char *const rule_names[] = {"subm", "floor", "footprint", NULL};

/* ---- words --------------------------------------------------------------- */

static int name_index(const char *const *names, const char *word)
{
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance, one row of the table at a time. */
static int edit_distance(const char *a, const char *b)
{
    int row[WORD_BYTES + 1];
    int columns = least((int)strlen(b), WORD_BYTES);

    for (int j = 0; j <= columns; j++)
        row[j] = j;
    for (int i = 1; a[i - 1] != '\0'; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(change, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[columns];
}

static const char *nearest_name(const char *const *names, const char *word)
{
    const char *best = names[0];
    for (int i = 1; names[i] != NULL; i++)
        if (edit_distance(word, names[i]) < edit_distance(word, best))
            best = names[i];
    return best;
}

static void join_names(char *out, size_t bytes, const char *const *names)
{
    size_t length = 0;
    out[0] = '\0';
    for (int i = 0; names[i] != NULL && length < bytes; i++)
        length += (size_t)snprintf(out + length, bytes - length, "%s%s",
                                   i > 0 ? ", " : "", names[i]);
}

static spc_status fail_unknown(spc_error *error, const char *what,
                               const char *word, const char *const *names)
{
    char all[160];
    join_names(all, sizeof(all), names);
    return spc__fail(error, SPC_EINVAL,
                     "unknown %s '%.40s': did you mean '%s'? (known: %s)", what,
                     word, nearest_name(names, word), all);
}

/* ---- values -------------------------------------------------------------- */

/* Reads digits up to `end`; false for anything else or past `most`. */
static bool read_count(int *out, const char *text, const char *end, int most)
{
    long long value = 0;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (*text - '0');
        if (value > most)
            return false;
    }
    *out = (int)value;
    return true;
}

static spc_status read_channels(int *out, const char *name, const char *value,
                                spc_error *error)
{
    if (read_count(out, value, value + strlen(value), MOST_CHANNELS) &&
        *out > 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%.40s is not a number of channels: 1 to %d is right",
                     name, value, MOST_CHANNELS);
}

/* A count, or with `least` below 0 one that may have a minus sign. */
static bool read_signed(int *out, const char *text, const char *end, int least,
                        int most)
{
    bool minus = least < 0 && text < end && *text == '-';

    if (!read_count(out, text + minus, end, minus ? -least : most))
        return false;
    if (minus)
        *out = -*out;
    return *out >= least;
}

/* "3" for all axes, or "3x3x1". */
static bool read_axes(int out[3], const char *value, int least, int most)
{
    int count = 0;
    for (;;) {
        const char *end = value + strcspn(value, "x");
        if (count == 3 || !read_signed(&out[count], value, end, least, most))
            return false;
        count++;
        if (*end == '\0')
            break;
        value = end + 1;
    }
    if (count == 1)
        out[1] = out[2] = out[0];
    return count != 2;
}

static spc_status read_flag(bool *out, const char *name, const char *value,
                            spc_error *error)
{
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return spc__fail(error, SPC_EINVAL, "%s=%.40s must be 0 or 1", name,
                         value);
    *out = value[0] == '1';
    return SPC_OK;
}

/* ---- the words of a layer ------------------------------------------------ */

static spc_status set_cin(spc_conv *conv, const char *value, spc_error *error)
{
    return read_channels(&conv->cin, "cin", value, error);
}

static spc_status set_cout(spc_conv *conv, const char *value, spc_error *error)
{
    return read_channels(&conv->cout, "cout", value, error);
}

static spc_status set_kernel(spc_conv *conv, const char *value,
                             spc_error *error)
{
    /* Sizes past the limit are refused by spc_conv_check, which names it. */
    if (read_axes(conv->geometry.kernel, value, 1, 1000000))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "k=%.40s is not a kernel size: one number for all axes "
                     "(k=3) or three (k=3x3x1), each at least 1",
                     value);
}

/* The words of three numbers besides the kernel size. */
static spc_status set_axes(int out[3], const char *name, const char *example,
                           int least, const char *value, spc_error *error)
{
    if (read_axes(out, value, least, SPC__GEOMETRY_MOST))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%.40s is no %s: one number for all axes (%s=%c) or "
                     "three (%s=%s), each %d to %d",
                     name, value, name, name, example[0], name, example, least,
                     SPC__GEOMETRY_MOST);
}

static spc_status set_dilation(spc_conv *conv, const char *value,
                               spc_error *error)
{
    return set_axes(conv->geometry.dilation, "dilation", "2x2x1", 1, value,
                    error);
}

static spc_status set_stride(spc_conv *conv, const char *value,
                             spc_error *error)
{
    return set_axes(conv->geometry.stride, "stride", "2x2x1", 1, value, error);
}

static spc_status set_padding(spc_conv *conv, const char *value,
                              spc_error *error)
{
    return set_axes(conv->geometry.padding, "padding", "1x1x0", 0, value,
                    error);
}

static spc_status set_origin(spc_conv *conv, const char *value,
                             spc_error *error)
{
    return set_axes(conv->geometry.origin, "origin", "0x0x-1",
                    -SPC__GEOMETRY_MOST, value, error);
}

static spc_status set_shape(spc_conv *conv, const char *value, spc_error *error)
{
    return set_axes(conv->geometry.shape, "shape", "1408x1600x41", 1, value,
                    error);
}

static spc_status set_rule(spc_conv *conv, const char *value, spc_error *error)
{
    int index = name_index(rule_names, value);
    if (index < 0)
        return fail_unknown(error, "rule", value, rule_names);
    conv->geometry.rule = (spc_rule)index;
    return SPC_OK;
}

static spc_status set_dtype(spc_conv *conv, const char *value, spc_error *error)
{
    int index = name_index(spc__dtype_names, value);
    if (index < 0)
        return fail_unknown(error, "dtype", value, spc__dtype_names);
    conv->dtype = (spc_dtype)index;
    return SPC_OK;
}

static spc_status set_bias(spc_conv *conv, const char *value, spc_error *error)
{
    return read_flag(&conv->bias, "bias", value, error);
}

static spc_status set_deterministic(spc_conv *conv, const char *value,
                                    spc_error *error)
{
    return read_flag(&conv->deterministic, "deterministic", value, error);
}

static const struct word {
    const char *name;
    spc_status (*set)(spc_conv *conv, const char *value, spc_error *error);
} words[] = {
    {"cin", set_cin},         {"cout", set_cout},
    {"rule", set_rule},       {"k", set_kernel},
    {"stride", set_stride},   {"dilation", set_dilation},
    {"padding", set_padding}, {"origin", set_origin},
    {"shape", set_shape},     {"dtype", set_dtype},
    {"bias", set_bias},       {"deterministic", set_deterministic},
};
enum { WORDS = sizeof(words) / sizeof(words[0]), NEEDED = 3 };

static const char *const word_names[WORDS + 1] = {
    "cin",    "cout",  "rule",  "k",    "stride",        "dilation", "padding",
    "origin", "shape", "dtype", "bias", "deterministic", NULL,
};

/* One "name=value"; `seen` is the set of words read so far. */
static spc_status read_word(spc_conv *conv, char *text, unsigned *seen,
                            spc_error *error)
{
    char *value = strchr(text, '=');

    if (value == NULL && name_index(word_names, text) >= 0)
        return spc__fail(error, SPC_EINVAL, "'%s' needs a value, as in %s=%s",
                         text, text, strcmp(text, "dtype") == 0 ? "f16" : "1");
    if (value != NULL)
        *value++ = '\0';
    int index = name_index(word_names, text);
    if (index < 0)
        return fail_unknown(error, "word", text, word_names);
    if (*seen & 1u << index)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' is given twice; once is right", text);
    *seen |= 1u << index;
    assert(strcmp(words[index].name, text) == 0);
    return words[index].set(conv, value, error);
}

static spc_status read_operator(spc_conv *conv, const char *text,
                                spc_error *error)
{
    int index = name_index(operator_names, text);
    if (index >= 0) {
        conv->op = (spc_operator)index;
        return SPC_OK;
    }
    if (strchr(text, '=') != NULL)
        return spc__fail(error, SPC_EINVAL,
                         "a layer begins with its operator, as in "
                         "subm,cin=64,cout=64,k=3; found '%.40s'",
                         text);
    return fail_unknown(error, "operator", text, operator_names);
}

static const char *const examples[] = {
    "subm,cin=64,cout=64,k=3,dtype=f16",
    "conv,cin=32,cout=64,k=2,stride=2,rule=floor (MinkowskiEngine's), or "
    "k=3,stride=2,padding=1,rule=footprint (spconv's)",
    "inverse,cin=64,cout=32 and the other words of the layer that it inverts, "
    "as in k=2,stride=2,rule=floor",
};

/* Reads the comma-separated words at `text`, one at a time. */
static spc_status read_words(spc_conv *conv, const char *text, spc_error *error)
{
    unsigned seen = 0;
    int count = 0;

    for (const char *next = text;; count++) {
        char word[WORD_BYTES];
        size_t length = strcspn(next, ",");
        spc_status status;

        if (length == 0)
            return spc__fail(error, SPC_EINVAL,
                             "an empty word at position %zu: words are "
                             "separated by one comma, with none at the end",
                             (size_t)(next - text));
        if (length >= sizeof(word))
            return spc__fail(error, SPC_EINVAL,
                             "the word '%.20s...' at position %zu is too long",
                             next, (size_t)(next - text));
        memcpy(word, next, length);
        word[length] = '\0';
        status = count == 0 ? read_operator(conv, word, error)
                            : read_word(conv, word, &seen, error);
        if (status != SPC_OK)
            return status;
        if (next[length] == '\0')
            break;
        next += length + 1;
    }
    for (int i = 0; i < (conv->op == SPC_SUBM ? NEEDED - 1 : NEEDED); i++)
        if (!(seen & 1u << i))
            return spc__fail(error, SPC_EINVAL,
                             "'%s' is missing: a layer is written %s",
                             words[i].name, examples[conv->op]);
    return SPC_OK;
}

/* ---- public -------------------------------------------------------------- */

spc_status spc_conv_parse(spc_conv *out, const char *text, spc_error *error)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_status status = spc__need(error, __func__, "out", out, NULL);

    if (status != SPC_OK)
        return status;
    if (text == NULL || text[0] == '\0')
        return spc__fail(error, SPC_EINVAL,
                         "the layer is empty: it is written "
                         "subm,cin=64,cout=64,k=3,dtype=f16");
    if ((status = read_words(&conv, text, error)) == SPC_OK)
        status = spc_conv_check(&conv, error);
    if (status != SPC_OK) {
        spc__fail_prefix(error, "layer '%.120s': ", text);
        return status; /* also when nobody wants the sentence */
    }
    *out = conv;
    return SPC_OK;
}

/* Three equal axes are written as one number. */
static void format_axes(char out[40], const int axes[3])
{
    if (axes[0] == axes[1] && axes[0] == axes[2])
        snprintf(out, 40, "%d", axes[0]);
    else
        snprintf(out, 40, "%dx%dx%d", axes[0], axes[1], axes[2]);
}

/* Of an enum that a caller may have filled with anything. */
static const char *name_at(const char *const *names, unsigned index)
{
    for (unsigned i = 0; names[i] != NULL; i++)
        if (i == index)
            return names[i];
    return "?";
}

/* ",name=axes", or nothing where they are the default. */
static size_t format_word(char *out, size_t bytes, size_t length,
                          const char *name, const int axes[3], int otherwise)
{
    char text[40];

    if (axes[0] == otherwise && axes[1] == otherwise && axes[2] == otherwise)
        return length;
    format_axes(text, axes);
    return length + (size_t)snprintf(out + (length < bytes ? length : bytes),
                                     length < bytes ? bytes - length : 0,
                                     ",%s=%s", name, text);
}

static int format_geometry(char *out, size_t bytes, const spc_geometry *g)
{
    size_t length = 0;

    if (g->offset_count > 0)
        return snprintf(out, bytes, ",offsets=%d", g->offset_count);
    if (g->rule != SPC_RULE_SUBM)
        length = (size_t)snprintf(out, bytes, ",rule=%s",
                                  name_at(rule_names, (unsigned)g->rule));
    length = format_word(out, bytes, length, "k", g->kernel, 0);
    length = format_word(out, bytes, length, "stride", g->stride, 1);
    length = format_word(out, bytes, length, "dilation", g->dilation, 1);
    length = format_word(out, bytes, length, "padding", g->padding, 0);
    length =
        format_word(out, bytes, length, "origin", g->origin, SPC_ORIGIN_AUTO);
    length = format_word(out, bytes, length, "shape", g->shape, 0);
    return (int)length;
}

int spc_conv_format(char *out, size_t bytes, const spc_conv *conv)
{
    char geometry[320];

    if (out == NULL)
        bytes = 0;
    if (conv == NULL)
        return snprintf(out, bytes, "%s", "");
    format_geometry(geometry, sizeof(geometry), &conv->geometry);
    return snprintf(out, bytes, "%s,cin=%d,cout=%d%s,dtype=%s%s%s",
                    name_at(operator_names, (unsigned)conv->op), conv->cin,
                    conv->cout, geometry,
                    name_at(spc__dtype_names, (unsigned)conv->dtype),
                    conv->bias ? ",bias=1" : "",
                    conv->deterministic ? ",deterministic=1" : "");
}

static spc_status check_channels(const char *name, int value, spc_error *error)
{
    if (value >= 1 && value <= MOST_CHANNELS)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%d is not a number of channels: 1 to %d is right",
                     name, value, MOST_CHANNELS);
}

static spc_status check_operator(const spc_conv *conv, spc_error *error)
{
    bool subm = conv->geometry.rule == SPC_RULE_SUBM;

    if ((unsigned)conv->op > SPC_INVERSE)
        return spc__fail(error, SPC_EINVAL,
                         "operator %d is unknown: SPC_SUBM, SPC_CONV or "
                         "SPC_INVERSE is right",
                         (int)conv->op);
    if (conv->op == SPC_SUBM && !subm)
        return spc__fail(error, SPC_EINVAL,
                         "rule %s: a submanifold layer has the rule subm; "
                         "operator conv has the others",
                         name_at(rule_names, (unsigned)conv->geometry.rule));
    if (conv->op != SPC_SUBM && subm)
        return spc__fail(error, SPC_EINVAL,
                         "rule subm: operator %s has the rule floor or "
                         "footprint",
                         operator_names[conv->op]);
    return SPC_OK;
}

spc_status spc_conv_check(const spc_conv *conv, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "conv", conv, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = check_channels("cin", conv->cin, error)) != SPC_OK ||
        (status = check_channels("cout", conv->cout, error)) != SPC_OK ||
        (status = spc_geometry_check(&conv->geometry, error)) != SPC_OK ||
        (status = check_operator(conv, error)) != SPC_OK)
        return status;
    if (spc__dtype_of(conv->dtype) == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "dtype %d is unknown: SPC_F16, SPC_F32 or SPC_TF32 "
                         "is right",
                         (int)conv->dtype);
    return SPC_OK;
}

/* ---- attrs --------------------------------------------------------------- */

/* Three attrs; where they are `otherwise` throughout they are left out. */
typedef struct axes_attrs {
    const char *names[3];
    size_t at; /* int[3] of spc_geometry */
    int otherwise;
    bool always;
} axes_attrs;

static const axes_attrs geometry_attrs[] = {
    {{"kx", "ky", "kz"}, offsetof(spc_geometry, kernel), 0, true},
    {{"dx", "dy", "dz"}, offsetof(spc_geometry, dilation), 1, true},
    {{"sx", "sy", "sz"}, offsetof(spc_geometry, stride), 1, false},
    {{"px", "py", "pz"}, offsetof(spc_geometry, padding), 0, false},
    {{"ox", "oy", "oz"},
     offsetof(spc_geometry, origin),
     SPC_ORIGIN_AUTO,
     false},
    {{"hx", "hy", "hz"}, offsetof(spc_geometry, shape), 0, false},
};
enum { GEOMETRY_ATTRS = sizeof(geometry_attrs) / sizeof(geometry_attrs[0]) };

/* A list of offsets is known by a digest of it. */
static void set_list(spc__attrs *out, const spc_geometry *g)
{
    unsigned char digest[SPC__SHA256_BYTES];
    char hex[SPC__SHA256_HEX];
    spc__sha256 hash;

    spc__sha256_init(&hash);
    spc__sha256_update(&hash, g->offsets,
                       (size_t)g->offset_count * sizeof(g->offsets[0]));
    spc__sha256_final(&hash, digest);
    spc__sha256_hex(hex, digest);
    hex[SPC__ATTR_TEXT - 1] = '\0';
    spc__attrs_set_text(out, "list", hex);
}

static void set_geometry(spc__attrs *out, const spc_geometry *g)
{
    if (g->rule != SPC_RULE_SUBM)
        spc__attrs_set_text(out, "rule", rule_names[g->rule]);
    if (g->offset_count > 0)
        set_list(out, g);
    for (int a = 0; a < GEOMETRY_ATTRS; a++) {
        const axes_attrs *row = &geometry_attrs[a];
        const int *value = (const int *)((const char *)g + row->at);
        bool differs = false;
        for (int i = 0; i < 3; i++)
            differs |= value[i] != row->otherwise;
        for (int i = 0; i < 3 && (differs || row->always); i++)
            spc__attrs_set_number(out, row->names[i], value[i]);
    }
}

/* The order is part of the database's keys: op, channels, kernel, dilation,
 * then what only other rules have. */
static void set_layer(spc__attrs *out, const spc_conv *conv)
{
    out->count = 0;
    spc__attrs_set_text(out, "op", operator_names[conv->op]);
    spc__attrs_set_number(out, "cin", conv->cin);
    spc__attrs_set_number(out, "cout", conv->cout);
    set_geometry(out, &conv->geometry);
    spc__attrs_set_text(out, "dtype", spc__dtype_names[conv->dtype]);
    spc__attrs_set_number(out, "bias", conv->bias);
    spc__attrs_set_number(out, "deterministic", conv->deterministic);
}

int spc__conv_offsets(const spc_conv *conv)
{
    return spc_geometry_offsets(&conv->geometry);
}

void spc__conv_attrs(spc__attrs *out, const spc_conv *conv)
{
    set_layer(out, conv);
    spc__attrs_set_number(out, "offsets", spc__conv_offsets(conv));
    spc__attrs_set_number(out, "centre", spc__geometry_centre(&conv->geometry));
}

static void geometry_from_attrs(spc_geometry *g, const spc__attrs *attrs)
{
    int rule = name_index(rule_names, spc__attrs_text(attrs, "rule", "subm"));

    g->rule = (spc_rule)rule; /* -1 is refused by the check */
    for (int a = 0; a < GEOMETRY_ATTRS; a++) {
        const axes_attrs *row = &geometry_attrs[a];
        int *value = (int *)((char *)g + row->at);
        for (int i = 0; i < 3; i++)
            value[i] =
                (int)spc__attrs_number(attrs, row->names[i], row->otherwise);
    }
}

bool spc__conv_from_attrs(spc_conv *out, const spc__attrs *attrs)
{
    spc_conv conv = SPC_CONV_INIT;
    int op = name_index(operator_names, spc__attrs_text(attrs, "op", ""));
    int dtype =
        name_index(spc__dtype_names, spc__attrs_text(attrs, "dtype", ""));

    if (op < 0 || dtype < 0 || spc__attrs_find(attrs, "list") != NULL)
        return false;
    conv.op = (spc_operator)op;
    conv.dtype = (spc_dtype)dtype;
    conv.cin = (int)spc__attrs_number(attrs, "cin", 0);
    conv.cout = (int)spc__attrs_number(attrs, "cout", 0);
    geometry_from_attrs(&conv.geometry, attrs);
    conv.bias = spc__attrs_number(attrs, "bias", 0) != 0;
    conv.deterministic = spc__attrs_number(attrs, "deterministic", 0) != 0;
    *out = conv;
    return spc_conv_check(&conv, NULL) == SPC_OK;
}

/* ---- the database's key -------------------------------------------------- */

/*
 * What problems are compared by, in octaves weighted by how much they change
 * which configuration is best: channels set the shape of the tiles, the rows
 * only how many there are, the density how much of the work of a tile is real,
 * and the ratio of rows in to rows out how often what is read is read again.
 * It is a feature of its own, and not the rows in, so that a layer with the
 * same rows on both sides has them counted once. Buckets are half octaves.
 */
static const double rows_weight = 1, ratio_weight = 0.5, density_weight = 0.5,
                    channels_weight = 2, half_octave = 0.5;

/* Layers that differ only in channels may stand in for each other. */
static void set_family(spc__attrs *out, const spc__attrs *layer)
{
    out->count = 0;
    for (int i = 0; i < layer->count; i++)
        if (strcmp(layer->at[i].name, "cin") != 0 &&
            strcmp(layer->at[i].name, "cout") != 0)
            out->at[out->count++] = layer->at[i];
}

static double octaves(int64_t count)
{
    return count > 0 ? log2((double)count) : 0;
}

/* The order of the features is part of the database's keys. */
void spc__conv_key(spc__problem_key *out, const spc_ctx *ctx,
                   const spc_conv *conv, int64_t rows_in, int64_t rows_out,
                   double density)
{
    double in = octaves(rows_in), rows = octaves(rows_out);
    double dense = density > 0 ? log2(density) : -INFINITY;

    set_layer(&out->layer, conv);
    set_family(&out->family, &out->layer);
    out->feature_count = 0;
    spc__feature_add(out, "rows", rows, rows_weight, half_octave);
    spc__feature_add(out, "ratio", in - rows, ratio_weight, half_octave);
    spc__feature_add(out, "density", dense, density_weight, half_octave);
    spc__feature_add(out, "cin", octaves(conv->cin), channels_weight, 0);
    spc__feature_add(out, "cout", octaves(conv->cout), channels_weight, 0);
    snprintf(out->device, sizeof(out->device), "%s", ctx->info.name);
    snprintf(out->target, sizeof(out->target), "%s", ctx->info.target);
}

void spc__conv_key_scene(double *rows_in, double *rows_out, double *density,
                         const spc__problem_key *key)
{
    double rows = spc__feature_value(key, "rows");

    *rows_out = round(exp2(rows));
    *rows_in = round(exp2(rows + spc__feature_value(key, "ratio")));
    *density = exp2(spc__feature_value(key, "density"));
}
