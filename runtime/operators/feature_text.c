/* SPDX-License-Identifier: Apache-2.0 */
/* feature_text.c - parses and writes an operator on features as text. */
#include "operators/feature.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/number.h"
#include "operators/conv.h"
#include "operators/epilogue.h"
#include "operators/feature_table.h"
#include "operators/geometry_words.h"
#include "operators/pass.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *spc_feature_example_at(int i)
{
    return i >= 0 ? spc__feature_row_of((spc_feature_op)i)->info.example : NULL;
}

/* ---- the operator -------------------------------------------------------- */

enum { NAMES_MOST = SPC__FEATURES + 1, VALUES_MOST = 16 };

/* Lists the first words of all operators, each once. */
static void list_heads(const char *names[NAMES_MOST])
{
    int count = 0;

    for (int op = 0; op < SPC__FEATURES; op++) {
        const char *word = spc__feature_row_of((spc_feature_op)op)->word;
        names[count] = NULL;
        /* Several operators may share a first word, such as a pooling and its
         * inverse. */
        if (spc__name_index(names, word) < 0)
            names[count++] = word;
    }
    names[count] = NULL;
}

/* A value of a first word: the operator that has it, and which of this
 * operator's values it is. */
typedef struct head_value {
    spc_feature_op op;
    int value;
} head_value;

/* Lists the values of a first word, which may be those of several operators. */
static void list_values(const char *names[VALUES_MOST],
                        head_value of[VALUES_MOST], const char *word)
{
    int count = 0;

    for (int op = 0; op < SPC__FEATURES; op++) {
        const spc__feature_row *row = spc__feature_row_of((spc_feature_op)op);
        if (strcmp(row->word, word) != 0)
            continue;
        /* Sets the row even without values, so that the word alone names its
         * operator. */
        of[count] = (head_value){(spc_feature_op)op, 0};
        for (int i = 0; row->values != NULL && row->values[i] != NULL; i++) {
            of[count] = (head_value){(spc_feature_op)op, i};
            names[count++] = row->values[i];
        }
    }
    names[count] = NULL;
}

/* Sets the operator and the member that its value selects. */
static void set_head(spc_feature *f, const head_value *of)
{
    f->op = of->op;
    switch (spc__feature_row_of(of->op)->selects) {
    case SPC__SELECTS_REDUCTION:
        f->reduction = (spc_reduction)of->value;
        break;
    case SPC__SELECTS_ACTIVATION:
        f->activation = (spc_activation)of->value;
        break;
    case SPC__SELECTS_INDEX:
        f->index = of->value != 0;
        break;
    case SPC__SELECTS_NOTHING:
        break;
    }
}

/* The value in the operator's first word, for writing. */
static unsigned value_of(const spc_feature *f, const spc__feature_row *row)
{
    switch (row->selects) {
    case SPC__SELECTS_REDUCTION:
        return (unsigned)f->reduction;
    case SPC__SELECTS_ACTIVATION:
        return (unsigned)f->activation;
    case SPC__SELECTS_INDEX:
        return f->index;
    default:
        return 0;
    }
}

/* Reads the head, such as pool=max. */
static spc_status read_head(spc_feature *f, spc__span text, spc_error *error)
{
    const char *heads[NAMES_MOST], *values[VALUES_MOST];
    head_value of[VALUES_MOST];
    spc__span name, value;

    list_heads(heads);
    spc__scan_pair(&name, &value, text);
    int index = spc__name_find(heads, name), at = 0;
    if (index < 0)
        return spc__fail_unknown(error, "operator", name, heads);
    const char *head = heads[index];
    list_values(values, of, head);
    if (values[0] == NULL && value.at != NULL)
        return spc__fail(error, SPC_EINVAL,
                         "the operator %s takes no value: found %s=%.*s", head,
                         head, SPC__SPAN(value));
    if (values[0] != NULL && value.at == NULL)
        return spc__fail(error, SPC_EINVAL, "'%s' needs a value, as in %s=%s",
                         head, head, values[values[1] != NULL]);
    if (values[0] != NULL && (at = spc__name_find(values, value)) < 0)
        return spc__fail_unknown(error, spc__feature_row_of(of[0].op)->value_is,
                                 value, values);
    set_head(f, &of[at]);
    return SPC_OK;
}

/* ---- words --------------------------------------------------------------- */

#define AT(field) offsetof(spc_feature, field)

/* Kinds of text are groups of words; an operator has several groups. */
static const spc__word words[] = {
    {"c", AT(channels), "64", SPC__INT(1, SPC__CHANNELS_MOST, "channels"),
     .need = ~0u},
    {"rule", AT(geometry.rule), "floor", SPC__NAME(spc__rule_names),
     .only = SPC__TAKES_MAP, .need = SPC__TAKES_MAP},
    {"by", AT(by), "2", SPC__INT(1, SPC__CHANNELS_MOST, "channels"),
     .only = SPC__TAKES_BY, .need = SPC__TAKES_BY},
    {"groups", AT(groups), "32",
     SPC__INT(1, SPC__CHANNELS_MOST, "groups that divide c"),
     .only = SPC__TAKES_GROUPS, .need = SPC__TAKES_GROUPS},
    SPC__GEOMETRY_WORDS(spc_feature, SPC__TAKES_MAP),
    {"shape", AT(shape), "176x200x2", SPC__AXES(1, SPC__BEV_MOST),
     .what = "a network takes the shape of its input, which must be bounded",
     .only = SPC__TAKES_PLANES, .need = SPC__TAKES_PLANES},
    {"index", AT(index), "1", SPC__FLAG, .only = SPC__TAKES_INDEX},
    {"act", AT(activation), "relu", SPC__NAME(spc__activation_names),
     .what = "activation", .only = SPC__TAKES_ACT},
    {"slope", AT(slope), "0.1", SPC__REAL,
     .only = SPC__TAKES_ACT | SPC__TAKES_SLOPE},
    {"eps", AT(eps), "1e-5", SPC__REAL, .only = SPC__TAKES_EPS},
    {"affine", AT(affine), "1", SPC__FLAG, .only = SPC__TAKES_EPS},
    {"order", AT(order), "zyx", SPC__NAME(spc__bev_order_names),
     .only = SPC__TAKES_PLANES},
    {"dtype", AT(dtype), "f16", SPC__NAME(spc__dtype_names)},
    {"pass", AT(pass), "dgrad", SPC__NAME(spc__pass_names),
     .only = SPC__TAKES_PASS},
    {0},
};

/* ELU without a slope gets that of its paper. Activations without a slope
 * refuse one. */
static spc_status settle_slope(spc_feature *f, const spc__word_list *text,
                               spc_error *error)
{
    bool elu = f->activation == SPC_ACT_ELU;
    bool has = spc__word_list_has(text, "slope");

    if (has && !elu && f->activation != SPC_ACT_LEAKY)
        return spc__fail(error, SPC_EINVAL,
                         "slope=%g is for the activations leaky and elu",
                         (double)f->slope);
    if (!has && elu)
        f->slope = 1;
    return SPC_OK;
}

/* Reads an operator and its words. */
static spc_status read_words(spc_feature *f, const char *text, spc_error *error)
{
    spc__span rest = spc__span_of(text), first;
    spc__word_list list = {.table = words};
    spc_status status = spc__word_list_next(&first, text, &rest, error);

    if (status == SPC_OK)
        status = read_head(f, first, error);
    if (status != SPC_OK)
        return status;
    const spc__feature_row *row = spc__feature_row_of(f->op);
    list.kind = row->takes;
    list.head = row->word;
    list.example = row->info.example;
    status = spc__word_list_read(f, &list, text, rest, error);
    if (status == SPC_OK)
        status = settle_slope(f, &list, error);
    if (status != SPC_OK || !(list.kind & SPC__TAKES_MAP))
        return status;
    status = spc__geometry_words_check(&f->geometry, &list, error);
    if (status == SPC_OK && !spc__word_list_has(&list, "k") &&
        !spc__word_list_has(&list, "offsets")) /* a list of offsets replaces the
                                                * size */
        status = spc__word_list_lacks(&list, "k", error);
    return status;
}

spc_status spc_feature_parse(spc_feature *out, const char *text,
                             spc_error *error)
{
    spc_feature feature = SPC_FEATURE_INIT;
    spc_status status = spc__need(error, __func__, "out", out, NULL);

    if (status != SPC_OK)
        return status;
    if (text == NULL || text[0] == '\0')
        return spc__fail(error, SPC_EINVAL,
                         "the operator is empty; example: %s",
                         spc_feature_example_at(0));
    if ((status = read_words(&feature, text, error)) == SPC_OK) {
        /* Texts describe the forward operator. spc_feature_pass() then turns it
         * into the gradient. */
        spc_pass pass = feature.pass;
        feature.pass = SPC_FORWARD;
        status = spc_feature_pass(&feature, &feature, pass, error);
    }
    if (status != SPC_OK) {
        spc__fail_prefix(error, "operator '%.120s': ", text);
        return status; /* valid also if `error` is NULL */
    }
    *out = feature;
    return SPC_OK;
}

/* ---- writing ------------------------------------------------------------- */

typedef struct writer {
    char *out;
    size_t bytes, length; /* if length exceeds bytes, the text was cut off */
} writer;

static void write_text(writer *w, const char *format, ...) SPC_PRINTF(2, 3);

/* Appends text, and counts characters that do not fit, like snprintf(). */
static void write_text(writer *w, const char *format, ...)
{
    size_t left = w->length < w->bytes ? w->bytes - w->length : 0;
    va_list arguments;

    va_start(arguments, format);
    int more = vsnprintf(left > 0 ? w->out + w->length : NULL, left, format,
                         arguments);
    va_end(arguments);
    w->length += more > 0 ? (size_t)more : 0;
}

static void write_real(writer *w, const char *name, float value)
{
    char text[32];

    spc__number_print_float(text, sizeof(text), 1, value);
    write_text(w, ",%s=%s", name, text);
}

/* Writes the activation, and its slope if it is not the usual one. */
static void write_activation(writer *w, const spc_feature *f)
{
    static const spc_feature otherwise = SPC_FEATURE_INIT;
    bool elu = f->activation == SPC_ACT_ELU;

    if (spc__feature_row_of(f->op)->takes & SPC__TAKES_ACT &&
        f->activation != SPC_ACT_NONE)
        write_text(
            w, ",act=%s",
            spc__name_at(spc__activation_names, (unsigned)f->activation));
    if ((elu && f->slope != 1) ||
        (f->activation == SPC_ACT_LEAKY && f->slope != otherwise.slope))
        write_real(w, "slope", f->slope);
}

/* A gradient writes the geometry of its operator. */
static void write_geometry(writer *w, const spc_feature *f)
{
    spc_geometry of = f->geometry;
    bool subm = of.rule == SPC_RULE_SUBM;
    char text[320 + SPC__LIST_BYTES];
    int16_t room[SPC__LIST_NUMBERS];

    if (!spc__geometry_is_sound(&of))
        return;
    /* Mirroring the geometry of a gradient again gives that of its operator. */
    if (spc__feature_is_mirrored(f))
        spc__geometry_mirror(&of, room);
    spc__geometry_format(text, sizeof(text), &of);
    write_text(w, "%s%s", subm ? ",rule=subm" : "", text);
}

/* Writes the words that the operator takes, in a fixed order. */
static void write_words(writer *w, const spc_feature *f)
{
    unsigned takes = spc__feature_row_of(f->op)->takes;

    if (takes & SPC__TAKES_MAP)
        write_geometry(w, f);
    if (takes & SPC__TAKES_INDEX && f->index)
        write_text(w, ",index=1");
    if (takes & SPC__TAKES_BY)
        write_text(w, ",by=%d", f->by);
    if (takes & SPC__TAKES_GROUPS)
        write_text(w, ",groups=%d", f->groups);
    if (takes & SPC__TAKES_EPS)
        write_real(w, "eps", f->eps);
    if (takes & SPC__TAKES_EPS && f->affine)
        write_text(w, ",affine=1");
    if (takes & (SPC__TAKES_ACT | SPC__TAKES_SLOPE))
        write_activation(w, f);
    if (takes & SPC__TAKES_PLANES)
        write_text(w, ",shape=%dx%dx%d,order=%s", f->shape[0], f->shape[1],
                   f->shape[2],
                   spc__name_at(spc__bev_order_names, (unsigned)f->order));
}

int spc_feature_words(char *out, size_t bytes, spc_feature_op op)
{
    unsigned takes = spc__feature_row_of(op)->takes;
    writer w = {out, out != NULL ? bytes : 0, 0};

    write_text(&w, "%s", "");
    for (const spc__word *word = words; word->name != NULL; word++)
        if (takes != 0 && (word->only == 0 || (word->only & takes) != 0))
            write_text(&w, "%s%s", w.length > 0 ? ", " : "", word->name);
    return (int)w.length;
}

int spc_feature_format(char *out, size_t bytes, const spc_feature *f)
{
    writer w = {out, out != NULL ? bytes : 0, 0};
    const spc__feature_row *row = f != NULL ? spc__feature_row_of(f->op) : NULL;

    if (row == NULL || row->word == NULL) {
        write_text(&w, "%s", f != NULL ? "?" : "");
        return (int)w.length;
    }
    write_text(&w, "%s", row->word);
    if (row->values != NULL)
        write_text(&w, "=%s", spc__name_at(row->values, value_of(f, row)));
    write_text(&w, ",c=%d", f->channels);
    write_words(&w, f);
    write_text(&w, ",dtype=%s",
               spc__name_at(spc__dtype_names, (unsigned)f->dtype));
    if (f->pass != SPC_FORWARD)
        write_text(&w, ",pass=%s",
                   spc__name_at(spc__pass_names, (unsigned)f->pass));
    return (int)w.length;
}
