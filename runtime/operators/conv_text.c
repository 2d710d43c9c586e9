/* SPDX-License-Identifier: Apache-2.0 */
/* conv_text.c - parses a layer's text. */
#include "operators/conv.h"

#include "base/dtype.h"
#include "base/error.h"
#include "operators/conv_table.h"
#include "operators/epilogue.h"
#include "operators/geometry_words.h"
#include "operators/pass.h"
#include <string.h>

/* ---- the words of a layer ------------------------------------------------ */

/* Kinds of layers: a bit for each operator, and one for the text of a
 * submanifold layer with one offset, whose outputs see only their own voxel. It
 * has channels and a type, but no geometry. */
enum {
    LINEAR = 1 << SPC__CONVS,
    SPATIAL = LINEAR - 1,
    RULED = 1 << SPC_CONV | 1 << SPC_INVERSE,
    ALL = SPATIAL | LINEAR
};

/* The types of sums that a text may name, by spc_accumulator. The layer's own
 * type may be named too, and is checked once the layer's dtype is known. */
static const char *const sums[] = {"", "f16", "f32", "i32", NULL};
enum { SUMS_F32 = 2, SUMS_I32 = 3 };

#define AT(field) offsetof(spc_conv, field)
#define CHANNELS SPC__INT(1, SPC__CHANNELS_MOST, "channels")
#define PITCH SPC__INT(1, SPC__PITCH_MOST, "elements from row to row")

static const spc__word words[] = {
    {"cin", AT(cin), "64", CHANNELS, .need = ALL},
    {"cout", AT(cout), "64", CHANNELS, .need = ALL},
    {"rule", AT(geometry.rule), "floor", SPC__NAME(spc__rule_names),
     .only = SPATIAL, .need = RULED},
    /* Whether the groups divide the channels is checked after all words. */
    {"groups", AT(groups), "2",
     SPC__INT(1, SPC__CHANNELS_MOST, "groups that divide cin and cout")},
    SPC__GEOMETRY_WORDS(spc_conv, SPATIAL),
    {"radius", AT(geometry.radius), "0.1", SPC__LENGTH, .only = SPATIAL},
    {"nearest", AT(geometry.nearest), "16",
     SPC__INT(1, SPC__NEAREST_MOST, "points"), .only = SPATIAL},
    {"voxel", AT(geometry.voxel), "0.1", SPC__LENGTH, .only = SPATIAL},
    {"dtype", AT(dtype), "f16", SPC__NAME(spc__dtype_names)},
    {"bias", AT(bias), "1", SPC__FLAG},
    {"deterministic", AT(deterministic), "1", SPC__FLAG},
    {"epilogue", 0, "scale+bias+relu", SPC__OWN(spc__epilogue_read)},
    {"slope", AT(slope), "0.1", SPC__LENGTH},
    {"out", AT(out), "f16", SPC__NAME(spc__out_names),
     .least = SPC_OUT_DEFAULT + 1},
    {"in_pitch", AT(in_pitch), "128", PITCH},
    {"out_pitch", AT(out_pitch), "128", PITCH},
    {"add_pitch", AT(add_pitch), "128", PITCH},
    {"pass", AT(pass), "dgrad", SPC__NAME(spc__pass_names)},
    {"accumulate", AT(accumulate), "1", SPC__FLAG},
    {"accumulator", AT(accumulator), "f16", SPC__NAME(sums), .least = 1},
    {0},
};

/* ---- the operator -------------------------------------------------------- */

static const char linear[] = "linear";
static const char linear_example[] = "linear,cin=64,cout=128";

int spc__operator_find(const char *word)
{
    for (int op = 0; op < SPC__CONVS; op++)
        if (strcmp(spc__conv_row_of((spc_operator)op)->word, word) == 0)
            return op;
    return -1;
}

int spc__operator_only_rule(spc_operator op)
{
    unsigned rules = spc__conv_row_of(op)->rules;
    int rule = 0;

    /* More than one bit: the operator has several rules. */
    if ((rules & (rules - 1)) != 0)
        return -1;
    while (rules >> rule != 1)
        rule++;
    return rule;
}

/* Reads the first word of a layer and sets what it implies. */
static spc_status read_operator(spc_conv *conv, spc__word_list *text,
                                spc__span word, spc_error *error)
{
    const char *names[SPC__CONVS + 2] = {[SPC__CONVS] = linear};

    for (int op = 0; op < SPC__CONVS; op++)
        names[op] = spc__conv_row_of((spc_operator)op)->word;
    int index = spc__name_find(names, word);
    /* The text has words but no operator, which is a common mistake. */
    if (index < 0 && memchr(word.at, '=', word.length) != NULL)
        return spc__fail(error, SPC_EINVAL,
                         "a layer begins with its operator, as in "
                         "subm,cin=64,cout=64,k=3; found '%.*s'",
                         SPC__SPAN(word));
    if (index < 0)
        return spc__fail_unknown(error, "operator", word, names);
    text->kind = 1u << index;
    text->head = names[index];
    bool is_linear = index == SPC__CONVS;
    conv->op = is_linear ? SPC_SUBM : (spc_operator)index;
    text->example =
        is_linear ? linear_example : spc__conv_row_of(conv->op)->example;
    if (spc__operator_only_rule(conv->op) >= 0)
        conv->geometry.rule = (spc_rule)spc__operator_only_rule(conv->op);
    for (int i = 0; i < 3 && is_linear; i++)
        conv->geometry.kernel[i] = 1;
    return SPC_OK;
}

/* ---- rules between words ------------------------------------------------- */

/* Turns the word for the usual sums of a type into the default, so that both
 * texts mean one problem. */
static spc_status settle_accumulator(spc_conv *conv, spc_error *error)
{
    int said = (int)conv->accumulator;
    bool whole = conv->dtype == SPC_I8;

    if (said == (whole ? SUMS_I32 : SUMS_F32))
        conv->accumulator = SPC_ACCUMULATOR_DEFAULT;
    if (said < SUMS_F32 || conv->accumulator == SPC_ACCUMULATOR_DEFAULT)
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL, "accumulator=%s: layers of %s are summed in %s",
        sums[said], spc__name_at(spc__dtype_names, (unsigned)conv->dtype),
        whole ? "i32" : "f32");
}

/* A layer of points needs a radius, unless its operator does not use points. */
static spc_status check_radius(const spc_conv *conv, spc__word_list *text,
                               spc_error *error)
{
    spc_status status;

    if (conv->geometry.rule != SPC_RULE_RADIUS ||
        spc__word_list_has(text, "radius"))
        return SPC_OK;
    /* An operator that cannot have the rule radius has its own message. */
    if ((status = spc__operator_check(conv, error)) != SPC_OK)
        return status;
    text->example = spc__conv_row_of(SPC_POINTS)->example;
    return spc__word_list_lacks(text, "radius", error);
}

/* Checks rules between words, which no single word can know. */
static spc_status check_words(spc_conv *conv, spc__word_list *text,
                              spc_error *error)
{
    spc_status status = spc__geometry_words_check(&conv->geometry, text, error);

    if (status == SPC_OK)
        status = spc__word_list_excludes(text, "bias", "epilogue",
                                         "write epilogue=bias+...", error);
    if (status == SPC_OK)
        status = check_radius(conv, text, error);
    return status == SPC_OK ? settle_accumulator(conv, error) : status;
}

/* ---- public -------------------------------------------------------------- */

/* Reads and checks the text of a layer. */
static spc_status read_layer(spc_conv *out, const char *text, spc_error *error)
{
    spc__word_list list = {.table = words};
    spc__span rest = spc__span_of(text), head;
    spc_status status = spc__word_list_next(&head, text, &rest, error);

    if (status == SPC_OK)
        status = read_operator(out, &list, head, error);
    if (status == SPC_OK)
        status = spc__word_list_read(out, &list, text, rest, error);
    if (status == SPC_OK)
        status = check_words(out, &list, error);
    /* Texts describe the forward layer, and spc__pass_read() turns it into its
     * gradient. */
    if (status == SPC_OK)
        status = spc__pass_read(out, error);
    return status == SPC_OK ? spc_conv_check(out, error) : status;
}

spc_status spc_conv_parse(spc_conv *out, const char *text, spc_error *error)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_status status = spc__need(error, __func__, "out", out, NULL);

    if (status != SPC_OK)
        return status;
    if (text == NULL || text[0] == '\0')
        return spc__fail(error, SPC_EINVAL, "the layer is empty; example: %s",
                         spc__conv_row_of(SPC_SUBM)->example);
    if ((status = read_layer(&conv, text, error)) != SPC_OK) {
        spc__fail_prefix(error, "layer '%.120s': ", text);
        return status; /* valid also if `error` is NULL */
    }
    *out = conv;
    return SPC_OK;
}
