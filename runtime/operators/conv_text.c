/* SPDX-License-Identifier: Apache-2.0 */
/* conv_text.c - parses a layer's text. */
#include "operators/conv.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/names.h"
#include "base/number.h"
#include "operators/epilogue.h"
#include "operators/geometry.h"
#include "operators/offset_list.h"
#include "operators/pass.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 64 };

/* ---- values -------------------------------------------------------------- */

/* Reads digits up to `end`. Returns false for any other text or a value above
 * `most`. */
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

/* Reads a count. If `least` is negative, a minus sign is allowed. */
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

/* Reads "3" for all axes, or "3x3x1". */
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

/* ---- the words of a layer ------------------------------------------------ */

typedef struct layer_word layer_word;
struct layer_word {
    const char *name;
    spc_status (*set)(spc_conv *conv, const layer_word *word, const char *value,
                      spc_error *error);
    size_t at;           /* offset of the field in spc_conv */
    int low;             /* the smallest legal value per axis */
    const char *example; /* and three legal values */
};

static void *member(spc_conv *conv, const layer_word *word)
{
    return (char *)conv + word->at;
}

static spc_status set_channels(spc_conv *conv, const layer_word *word,
                               const char *value, spc_error *error)
{
    int *out = member(conv, word);

    if (read_count(out, value, value + strlen(value), SPC__CHANNELS_MOST) &&
        *out > 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%.40s is not a number of channels: 1 to %d is right",
                     word->name, value, SPC__CHANNELS_MOST);
}

/* Whether the groups divide the channels is checked after all words. */
static spc_status set_groups(spc_conv *conv, const layer_word *word,
                             const char *value, spc_error *error)
{
    int *out = member(conv, word);

    if (read_count(out, value, value + strlen(value), SPC__CHANNELS_MOST) &&
        *out > 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "groups=%.40s is not a number of groups: a divisor of cin "
                     "and cout is right",
                     value);
}

static spc_status set_kernel(spc_conv *conv, const layer_word *word,
                             const char *value, spc_error *error)
{
    /* spc_conv_check refuses sizes beyond its limit and names the limit. */
    if (read_axes(member(conv, word), value, word->low, 1000000))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "k=%.40s is not a kernel size: one number for all axes "
                     "(k=3) or three (k=3x3x1), each at least 1",
                     value);
}

static spc_status set_offsets(spc_conv *conv, const layer_word *word,
                              const char *value, spc_error *error)
{
    (void)word;
    return spc__list_read(&conv->geometry, value, error);
}

/* Sets the words with three numbers, except the kernel size. */
static spc_status set_axes(spc_conv *conv, const layer_word *word,
                           const char *value, spc_error *error)
{
    if (read_axes(member(conv, word), value, word->low, SPC__GEOMETRY_MOST))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%.40s is no %s: one number for all axes (%s=%c) or "
                     "three (%s=%s), each %d to %d",
                     word->name, value, word->name, word->name,
                     word->example[0], word->name, word->example, word->low,
                     SPC__GEOMETRY_MOST);
}

/* An axis of 0 is unbounded. */
static spc_status set_shape(spc_conv *conv, const layer_word *word,
                            const char *value, spc_error *error)
{
    int *shape = member(conv, word);
    bool is_read = read_axes(shape, value, word->low, SPC__SHAPE_MOST);

    if (is_read && (shape[0] | shape[1] | shape[2]) != 0)
        return SPC_OK;
    if (is_read)
        return spc__fail(error, SPC_EINVAL,
                         "shape=%.40s ends along no axis: a set's shape is "
                         "right, such as shape=%s; in a network it is the "
                         "input's, which has none",
                         value, word->example);
    return spc__fail(error, SPC_EINVAL,
                     "shape=%.40s is no shape: one number for all axes "
                     "(shape=41) or three (shape=%s), each 1 to %d, or 0 for "
                     "an axis without an end",
                     value, word->example, SPC__SHAPE_MOST);
}

static spc_status set_rule(spc_conv *conv, const layer_word *word,
                           const char *value, spc_error *error)
{
    int index = spc__name_index(spc__rule_names, value);

    if (index < 0)
        return spc__fail_unknown(error, word->name, value, spc__rule_names);
    conv->geometry.rule = (spc_rule)index;
    return SPC_OK;
}

/* Sets a length of points. spc_conv_check refuses lengths that are not
 * positive. */
static spc_status set_length(spc_conv *conv, const layer_word *word,
                             const char *value, spc_error *error)
{
    float *out = member(conv, word);
    double length = 0;
    bool is_number = spc__number_read(&length, value);

    *out = (float)length;
    if (is_number && isfinite(*out) && *out > 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%.40s is no length: a number above 0, as in %s=0.1",
                     word->name, value, word->name);
}

static spc_status set_nearest(spc_conv *conv, const layer_word *word,
                              const char *value, spc_error *error)
{
    int *out = member(conv, word);

    if (read_count(out, value, value + strlen(value), SPC__NEAREST_MOST) &&
        *out > 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "nearest=%.40s is not a number of points: 1 to %d is "
                     "right",
                     value, SPC__NEAREST_MOST);
}

static spc_status set_dtype(spc_conv *conv, const layer_word *word,
                            const char *value, spc_error *error)
{
    int index = spc__name_index(spc__dtype_names, value);

    if (index < 0)
        return spc__fail_unknown(error, word->name, value, spc__dtype_names);
    conv->dtype = (spc_dtype)index;
    return SPC_OK;
}

/* The types of sums that a text may name, by spc_accumulator. The layer's own
 * type may be named too, and is checked once the layer's dtype is known. */
static const char *const sums[] = {"", "f16", "f32", "i32", NULL};
enum { SUMS_F32 = 2, SUMS_I32 = 3 };

static spc_status set_accumulator(spc_conv *conv, const layer_word *word,
                                  const char *value, spc_error *error)
{
    int index = value[0] == '\0' ? -1 : spc__name_index(sums, value);

    if (index < 0)
        return spc__fail_unknown(error, word->name, value, sums + 1);
    conv->accumulator = (spc_accumulator)index;
    return SPC_OK;
}

static spc_status settle_accumulator(spc_conv *conv, spc_error *error)
{
    int said = (int)conv->accumulator;
    bool whole = conv->dtype == SPC_I8;

    if (said == (whole ? SUMS_I32 : SUMS_F32))
        conv->accumulator = SPC_SUMS_OWN;
    if (said < SUMS_F32 || conv->accumulator == SPC_SUMS_OWN)
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL, "accumulator=%s: layers of %s are summed in %s",
        sums[said], spc__name_at(spc__dtype_names, (unsigned)conv->dtype),
        whole ? "i32" : "f32");
}

static spc_status set_flag(spc_conv *conv, const layer_word *word,
                           const char *value, spc_error *error)
{
    bool *out = member(conv, word);

    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return spc__fail(error, SPC_EINVAL, "%s=%.40s must be 0 or 1",
                         word->name, value);
    *out = value[0] == '1';
    return SPC_OK;
}

static spc_status set_epilogue(spc_conv *conv, const layer_word *word,
                               const char *value, spc_error *error)
{
    return spc__epilogue_read(conv, value, error);
}

static spc_status set_pass(spc_conv *conv, const layer_word *word,
                           const char *value, spc_error *error)
{
    int index = spc__name_index(spc__pass_names, value);

    if (index < 0)
        return spc__fail_unknown(error, word->name, value, spc__pass_names);
    conv->pass = (spc_pass)index;
    return SPC_OK;
}

static spc_status set_slope(spc_conv *conv, const layer_word *word,
                            const char *value, spc_error *error)
{
    return spc__slope_read(conv, value, error);
}

static spc_status set_out(spc_conv *conv, const layer_word *word,
                          const char *value, spc_error *error)
{
    return spc__out_read(conv, value, error);
}

static spc_status set_pitch(spc_conv *conv, const layer_word *word,
                            const char *value, spc_error *error)
{
    int *out = member(conv, word);

    if (read_count(out, value, value + strlen(value), SPC__PITCH_MOST) &&
        *out > 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%.40s is not a number of elements from row to row: 1 "
                     "to %d is right",
                     word->name, value, SPC__PITCH_MOST);
}

#define AT(field) offsetof(spc_conv, field)

/* Required words come first. */
static const layer_word words[] = {
    {"cin", set_channels, AT(cin), 0, NULL},
    {"cout", set_channels, AT(cout), 0, NULL},
    {"rule", set_rule, AT(geometry.rule), 0, NULL},
    {"groups", set_groups, AT(groups), 0, NULL},
    {"k", set_kernel, AT(geometry.kernel), 1, NULL},
    {"stride", set_axes, AT(geometry.stride), 1, "2x2x1"},
    {"dilation", set_axes, AT(geometry.dilation), 1, "2x2x1"},
    {"padding", set_axes, AT(geometry.padding), 0, "1x1x0"},
    {"origin", set_axes, AT(geometry.origin), -SPC__GEOMETRY_MOST, "0x0x-1"},
    {"shape", set_shape, AT(geometry.shape), 0, "1408x1600x41"},
    {"offsets", set_offsets, AT(geometry.offsets), 0, NULL},
    {"radius", set_length, AT(geometry.radius), 0, NULL},
    {"nearest", set_nearest, AT(geometry.nearest), 0, NULL},
    {"voxel", set_length, AT(geometry.voxel), 0, NULL},
    {"dtype", set_dtype, AT(dtype), 0, NULL},
    {"bias", set_flag, AT(bias), 0, NULL},
    {"deterministic", set_flag, AT(deterministic), 0, NULL},
    {"epilogue", set_epilogue, 0, 0, NULL},
    {"slope", set_slope, 0, 0, NULL},
    {"out", set_out, 0, 0, NULL},
    {"in_pitch", set_pitch, AT(in_pitch), 0, NULL},
    {"out_pitch", set_pitch, AT(out_pitch), 0, NULL},
    {"add_pitch", set_pitch, AT(add_pitch), 0, NULL},
    {"pass", set_pass, AT(pass), 0, NULL},
    {"accumulate", set_flag, AT(accumulate), 0, NULL},
    {"accumulator", set_accumulator, AT(accumulator), 0, NULL},
};
enum { WORDS = sizeof(words) / sizeof(words[0]), NEEDED = 3 };
_Static_assert(WORDS <= 32, "the words that were read are bits of an unsigned");

/* Returns the value that a word without a value may have meant. */
static const char *example_value(const char *word)
{
    if (strcmp(word, "dtype") == 0 || strcmp(word, "out") == 0 ||
        strcmp(word, "accumulator") == 0)
        return "f16";
    if (strcmp(word, "pass") == 0)
        return "dgrad";
    if (strcmp(word, "offsets") == 0)
        return "0x0x0+1x0x0";
    return strcmp(word, "epilogue") == 0 ? "scale+bias+relu" : "1";
}

static bool has_seen(unsigned seen, const char *name)
{
    for (int i = 0; i < WORDS; i++)
        if (strcmp(words[i].name, name) == 0)
            return (seen & 1u << i) != 0;
    return false;
}

/* The text for a submanifold layer with one offset, whose outputs see only
 * their own voxel. */
static const char linear[] = "linear",
                  linear_example[] = "linear,cin=64,cout=128";

/* A linear layer has channels and a type, but no words for the geometry. */
static bool is_spatial(const layer_word *word)
{
    return word->at >= AT(geometry) &&
           word->at < AT(geometry) + sizeof(spc_geometry);
}

static void set_linear(spc_conv *conv)
{
    conv->op = SPC_SUBM;
    for (int i = 0; i < 3; i++)
        conv->geometry.kernel[i] = 1;
}

/* The largest number of operators. */
enum { OPERATORS_MOST = 32 };

static void list_operators(const char *names[OPERATORS_MOST])
{
    int count = 0;

    for (; spc__operator_names[count] != NULL; count++)
        names[count] = spc__operator_names[count];
    names[count++] = linear;
    names[count] = NULL;
}

/* The state of parsing a layer. */
typedef struct reading {
    spc_conv *conv;
    unsigned seen; /* a bit for each word that was read */
    bool linear;
} reading;

/* Reads one "name=value". */
static spc_status read_word(reading *r, char *text, spc_error *error)
{
    const char *names[WORDS + 1] = {NULL};
    char *value = strchr(text, '=');

    for (int i = 0; i < WORDS; i++)
        names[i] = words[i].name;
    if (value == NULL && spc__name_index(names, text) >= 0)
        return spc__fail(error, SPC_EINVAL, "'%s' needs a value, as in %s=%s",
                         text, text, example_value(text));
    if (value != NULL)
        *value++ = '\0';
    int index = spc__name_index(names, text);
    if (index < 0)
        return spc__fail_unknown(error, "word", text, names);
    if (r->seen & 1u << index)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' is given twice; once is right", text);
    if (r->linear && is_spatial(&words[index]))
        return spc__fail(error, SPC_EINVAL,
                         "a linear layer has no '%s': every row sees itself "
                         "alone",
                         text);
    r->seen |= 1u << index;
    return words[index].set(r->conv, &words[index], value, error);
}

static const char *const examples[] = {
    "subm,cin=64,cout=64,k=3,dtype=f16",
    "conv,cin=32,cout=64,k=2,stride=2,rule=floor (MinkowskiEngine's), or "
    "k=3,stride=2,padding=1,rule=footprint (spconv's)",
    "inverse,cin=64,cout=32 and the other words of the layer that it inverts, "
    "as in k=2,stride=2,rule=floor",
    "transposed,cin=64,cout=32,k=2,stride=2",
    "generative,cin=64,cout=32,k=2,stride=2",
    "points,cin=64,cout=128,k=3,radius=0.1",
};

int spc__operator_only_rule(spc_operator op)
{
    return op == SPC_SUBM         ? SPC_RULE_SUBM
           : op == SPC_TRANSPOSED ? SPC_RULE_GIVEN
           : op == SPC_GENERATIVE ? SPC_RULE_GENERATIVE
           : op == SPC_POINTS     ? SPC_RULE_RADIUS
                                  : -1;
}

static spc_status read_operator(reading *r, const char *text, spc_error *error)
{
    const char *names[OPERATORS_MOST];
    int index = spc__name_index(spc__operator_names, text);

    if (index >= 0) {
        r->conv->op = (spc_operator)index;
        if (spc__operator_only_rule(r->conv->op) >= 0)
            r->conv->geometry.rule =
                (spc_rule)spc__operator_only_rule(r->conv->op);
        return SPC_OK;
    }
    if ((r->linear = strcmp(text, linear) == 0)) {
        set_linear(r->conv);
        return SPC_OK;
    }
    if (strchr(text, '=') != NULL)
        return spc__fail(error, SPC_EINVAL,
                         "a layer begins with its operator, as in "
                         "subm,cin=64,cout=64,k=3; found '%.40s'",
                         text);
    list_operators(names);
    return spc__fail_unknown(error, "operator", text, names);
}

/* Limits a word's length. Only lists of offsets are long. */
static size_t most_bytes(const char *word)
{
    return strncmp(word, "offsets=", 8) == 0 ? WORD_BYTES + SPC__LIST_BYTES
                                             : WORD_BYTES;
}

/* Refuses two words that set the same property. */
static spc_status check_twice(const reading *r, spc_error *error)
{
    static const char *const boxes[] = {"k", "dilation", "origin", "padding"};

    for (int i = 0; i < 4; i++)
        if (has_seen(r->seen, "offsets") && has_seen(r->seen, boxes[i]))
            return spc__fail(error, SPC_EINVAL,
                             "'%s' and 'offsets' are both given: a list of "
                             "offsets is the whole kernel",
                             boxes[i]);
    if (has_seen(r->seen, "bias") && has_seen(r->seen, "epilogue"))
        return spc__fail(error, SPC_EINVAL,
                         "'bias' and 'epilogue' are both given: "
                         "epilogue=bias+... says both");
    return SPC_OK;
}

/* A layer of points needs a radius, unless its operator does not use points. */
static spc_status check_radius(const reading *r, spc_error *error)
{
    spc_status status;

    if (r->conv->geometry.rule != SPC_RULE_RADIUS ||
        has_seen(r->seen, "radius"))
        return SPC_OK;
    if ((status = spc__operator_check(r->conv, error)) != SPC_OK)
        return status;
    return spc__fail(error, SPC_EINVAL,
                     "'radius' is missing: a layer is written %s",
                     examples[SPC_POINTS]);
}

/* Reads the comma-separated words at `text` one by one. */
static spc_status read_words(spc_conv *conv, const char *text, spc_error *error)
{
    reading r = {conv, 0, false};
    int count = 0;

    for (const char *next = text;; count++) {
        char word[WORD_BYTES + SPC__LIST_BYTES];
        size_t length = strcspn(next, ",");
        spc_status status;

        if (length == 0)
            return spc__fail(error, SPC_EINVAL,
                             "an empty word at position %zu: words are "
                             "separated by one comma, with none at the end",
                             (size_t)(next - text));
        if (length >= most_bytes(next))
            return spc__fail(error, SPC_EINVAL,
                             "the word '%.20s...' at position %zu is too long",
                             next, (size_t)(next - text));
        memcpy(word, next, length);
        word[length] = '\0';
        status = count == 0 ? read_operator(&r, word, error)
                            : read_word(&r, word, error);
        if (status != SPC_OK)
            return status;
        if (next[length] == '\0')
            break;
        next += length + 1;
    }
    for (int i = 0;
         i < (spc__operator_only_rule(conv->op) >= 0 ? NEEDED - 1 : NEEDED);
         i++)
        if (!(r.seen & 1u << i))
            return spc__fail(
                error, SPC_EINVAL, "'%s' is missing: a layer is written %s",
                words[i].name, r.linear ? linear_example : examples[conv->op]);
    spc_status status = check_radius(&r, error);
    if (status != SPC_OK ||
        (status = settle_accumulator(conv, error)) != SPC_OK)
        return status;
    return check_twice(&r, error);
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
    if ((status = read_words(&conv, text, error)) == SPC_OK &&
        (status = spc__pass_read(&conv, error)) == SPC_OK)
        status = spc_conv_check(&conv, error);
    if (status != SPC_OK) {
        spc__fail_prefix(error, "layer '%.120s': ", text);
        return status; /* also if `error` is NULL */
    }
    *out = conv;
    return SPC_OK;
}

/* ---- geometry words of other values -------------------------------------- */

spc_status spc__geometry_word(spc_geometry *out, const char *name,
                              const char *value, spc_error *error)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_status status = SPC_EINTERNAL;

    conv.geometry = *out;
    for (int i = 0; i < WORDS; i++)
        if (strcmp(words[i].name, name) == 0)
            status = words[i].set(&conv, &words[i], value, error);
    *out = conv.geometry;
    return status;
}
