/* SPDX-License-Identifier: Apache-2.0 */
/* feature_text.c - parses and writes an operator on features as text. */
#include "operators/feature.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/number.h"
#include "operators/conv.h"
#include "operators/epilogue.h"
#include "operators/geometry_words.h"
#include "operators/pass.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const examples[] = {
    "pool=max,c=64,rule=floor,k=2,stride=2",
    "unpool=nearest,c=64,rule=floor,k=2,stride=2",
    "global=mean,c=64",
    "add,c=64,act=relu",
    "act=silu,c=64",
    "norm=layer,c=96,eps=1e-5,affine=1",
    "norm=group,c=768,groups=32",
    "groupsum,c=128,by=2",
    "groupmean,c=128,by=2",
    "repeat,c=64,by=2",
    "bev,c=64,shape=176x200x2,order=zyx",
    "actgrad=silu,c=64",
    "affine,c=64,act=relu",
    "pool=slices,c=64,rule=floor,k=2,stride=2",
    "unpool=slices,c=512,rule=floor,k=2,stride=2",
};
enum { EXAMPLES = sizeof(examples) / sizeof(examples[0]) };

const char *spc_feature_example_at(int i)
{
    return i >= 0 && i < EXAMPLES ? examples[i] : NULL;
}

/* ---- the operator -------------------------------------------------------- */

/* The names of spc_reduction, then slices. */
static const char *const pool_names[] = {"max", "mean", "sum", "slices", NULL};
static const char *const unpool_names[] = {"nearest", "index", "slices", NULL};
enum { POOL_SLICES = 3, UNPOOL_SLICES = 2 };
static const char *const norm_names[] = {"layer", "group", NULL};

/* The first word and the names of its values; NULL if it has no value. */
typedef struct head {
    const char *word;
    spc_feature_op op;
    const char *const *values;
    const char *what; /* what the value is called in messages */
} head;

static const head heads[] = {
    {"pool", SPC_FEATURE_POOL, pool_names, "reduction"},
    {"unpool", SPC_FEATURE_UNPOOL, unpool_names, "way to un-pool"},
    {"global", SPC_FEATURE_GLOBAL, spc__reduction_names, "reduction"},
    {"add", SPC_FEATURE_ADD, NULL, NULL},
    {"act", SPC_FEATURE_ACT, spc__activation_names, "activation"},
    {"norm", SPC_FEATURE_LAYERNORM, norm_names, "normalisation"},
    {"groupsum", SPC_FEATURE_GROUPSUM, NULL, NULL},
    {"groupmean", SPC_FEATURE_GROUPMEAN, NULL, NULL},
    {"repeat", SPC_FEATURE_REPEAT, NULL, NULL},
    {"bev", SPC_FEATURE_BEV, NULL, NULL},
    {"actgrad", SPC_FEATURE_ACTGRAD, spc__activation_names, "activation"},
    {"affine", SPC_FEATURE_AFFINE, NULL, NULL},
};
enum { HEADS = sizeof(heads) / sizeof(heads[0]) };

/* Applies the value of the first word. -1 means no value. */
static void set_head(spc_feature *f, const head *of, int value)
{
    f->op = of->op;
    if (of->values == pool_names && value == POOL_SLICES)
        f->op = SPC_FEATURE_SLICE;
    else if (of->values == unpool_names && value == UNPOOL_SLICES)
        f->op = SPC_FEATURE_UNSLICE;
    else if (of->values == pool_names || of->values == spc__reduction_names)
        f->reduction = (spc_reduction)value;
    else if (of->values == spc__activation_names)
        f->activation = (spc_activation)value;
    else if (of->values == unpool_names)
        f->index = value == 1;
    else if (of->values == norm_names && value == 1)
        f->op = SPC_FEATURE_GROUPNORM;
}

static int head_value(const spc_feature *f, const head *of)
{
    if (f->op == SPC_FEATURE_SLICE)
        return POOL_SLICES;
    if (f->op == SPC_FEATURE_UNSLICE)
        return UNPOOL_SLICES;
    if (of->values == pool_names || of->values == spc__reduction_names)
        return (int)f->reduction;
    if (of->values == spc__activation_names)
        return (int)f->activation;
    if (of->values == unpool_names)
        return f->index;
    return f->op == SPC_FEATURE_GROUPNORM;
}

/* Returns the operator of the first word, whose value may select this one. */
static spc_feature_op family_of(spc_feature_op op)
{
    switch (op) {
    case SPC_FEATURE_GROUPNORM:
        return SPC_FEATURE_LAYERNORM;
    case SPC_FEATURE_SLICE:
        return SPC_FEATURE_POOL;
    case SPC_FEATURE_UNSLICE:
        return SPC_FEATURE_UNPOOL;
    default:
        return op;
    }
}

static const head *head_of(const spc_feature *f)
{
    spc_feature_op op = family_of(f->op);

    for (int i = 0; i < HEADS; i++)
        if (heads[i].op == op)
            return &heads[i];
    return NULL;
}

static spc_status read_head(spc_feature *f, spc__span text, spc_error *error)
{
    const char *names[HEADS + 1] = {NULL};
    spc__span name, value;

    for (int i = 0; i < HEADS; i++)
        names[i] = heads[i].word;
    spc__scan_pair(&name, &value, text);
    int index = spc__name_find(names, name);
    if (index < 0)
        return spc__fail_unknown(error, "operator", name, names);
    const head *of = &heads[index];
    if (of->values == NULL && value.at != NULL)
        return spc__fail(error, SPC_EINVAL,
                         "the operator %s takes no value: found %s=%.*s",
                         of->word, of->word, SPC__SPAN(value));
    if (of->values != NULL && value.at == NULL)
        return spc__fail(error, SPC_EINVAL, "'%s' needs a value, as in %s=%s",
                         of->word, of->word, of->values[of->values[1] != NULL]);
    int at = of->values == NULL ? -1 : spc__name_find(of->values, value);
    if (of->values != NULL && at < 0)
        return spc__fail_unknown(error, of->what, value, of->values);
    set_head(f, of, at);
    return SPC_OK;
}

/* ---- words --------------------------------------------------------------- */

#define OP(name) (1u << SPC_FEATURE_##name)

/* Kinds of operators, one bit each. */
enum {
    ALL = OP(UNSLICE) * 2 - 1,
    MAPPED = OP(POOL) | OP(UNPOOL) | OP(SLICE) | OP(UNSLICE),
    NORMS = OP(LAYERNORM) | OP(GROUPNORM),
    ACTIVE = OP(ADD) | OP(AFFINE) | NORMS,
    GROUPED = OP(GROUPSUM) | OP(GROUPMEAN) | OP(REPEAT)
};

#define AT(field) offsetof(spc_feature, field)

static const spc__word words[] = {
    {"c", AT(channels), "64", SPC__INT(1, SPC__CHANNELS_MOST, "channels"),
     .need = ALL},
    {"rule", AT(geometry.rule), "floor", SPC__NAME(spc__rule_names),
     .only = MAPPED, .need = MAPPED},
    {"by", AT(by), "2", SPC__INT(1, SPC__CHANNELS_MOST, "channels"),
     .only = GROUPED, .need = GROUPED},
    {"groups", AT(groups), "32",
     SPC__INT(1, SPC__CHANNELS_MOST, "groups that divide c"),
     .only = OP(GROUPNORM), .need = OP(GROUPNORM)},
    SPC__GEOMETRY_WORDS(spc_feature, MAPPED),
    {"shape", AT(shape), "176x200x2", SPC__AXES(1, SPC__BEV_MOST),
     .what = "a network takes the shape of its input, which must be bounded",
     .only = OP(BEV), .need = OP(BEV)},
    {"index", AT(index), "1", SPC__FLAG, .only = OP(POOL)},
    {"act", AT(activation), "relu", SPC__NAME(spc__activation_names),
     .what = "activation", .only = ACTIVE},
    {"slope", AT(slope), "0.1", SPC__REAL,
     .only = ACTIVE | OP(ACT) | OP(ACTGRAD)},
    {"eps", AT(eps), "1e-5", SPC__REAL, .only = NORMS},
    {"affine", AT(affine), "1", SPC__FLAG, .only = NORMS},
    {"order", AT(order), "zyx", SPC__NAME(spc__bev_order_names),
     .only = OP(BEV)},
    {"dtype", AT(dtype), "f16", SPC__NAME(spc__dtype_names)},
    {"pass", AT(pass), "dgrad", SPC__NAME(spc__pass_names),
     .only = ALL & ~OP(ACTGRAD)},
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

static spc_status read_words(spc_feature *f, const char *text, spc_error *error)
{
    spc__span rest = spc__span_of(text), first;
    spc__word_list list = {.table = words};
    spc_status status = spc__word_list_next(&first, text, &rest, error);

    if (status == SPC_OK)
        status = read_head(f, first, error);
    if (status != SPC_OK)
        return status;
    list.kind = 1u << f->op;
    list.head = head_of(f)->word;
    list.example = examples[f->op];
    status = spc__word_list_read(f, &list, text, rest, error);
    if (status == SPC_OK)
        status = settle_slope(f, &list, error);
    if (status != SPC_OK || !(list.kind & MAPPED))
        return status;
    status = spc__geometry_words_check(&f->geometry, &list, error);
    if (status == SPC_OK && !spc__word_list_has(&list, "k") &&
        !spc__word_list_has(&list, "offsets")) /* a list replaces the size */
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
                         "the operator is empty; example: %s", examples[0]);
    if ((status = read_words(&feature, text, error)) == SPC_OK) {
        spc_pass pass = feature.pass;
        feature.pass = SPC_FORWARD;
        status = spc_feature_pass(&feature, &feature, pass, error);
    }
    if (status != SPC_OK) {
        spc__fail_prefix(error, "operator '%.120s': ", text);
        return status; /* also if `error` is NULL */
    }
    *out = feature;
    return SPC_OK;
}

/* ---- writing ------------------------------------------------------------- */

typedef struct writer {
    char *out;
    size_t bytes, length; /* length may exceed bytes: the text was cut off */
} writer;

static void write_text(writer *w, const char *format, ...) SPC_PRINTF(2, 3);

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

static void write_activation(writer *w, const spc_feature *f)
{
    static const spc_feature otherwise = SPC_FEATURE_INIT;
    bool elu = f->activation == SPC_ACT_ELU;

    if (f->op != SPC_FEATURE_ACT && f->op != SPC_FEATURE_ACTGRAD &&
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

    if (!spc__geometry_is_sound(&of))
        return;
    if (subm && f->op == SPC_FEATURE_POOL && f->pass == SPC_DGRAD)
        spc__feature_mirror(&of);
    spc__geometry_format(text, sizeof(text), &of);
    write_text(w, "%s%s", subm ? ",rule=subm" : "", text);
}

static void write_words(writer *w, const spc_feature *f)
{
    unsigned op = 1u << f->op;

    if (op & MAPPED)
        write_geometry(w, f);
    if (f->op == SPC_FEATURE_POOL && f->index)
        write_text(w, ",index=1");
    if (op & GROUPED)
        write_text(w, ",by=%d", f->by);
    if (f->op == SPC_FEATURE_GROUPNORM)
        write_text(w, ",groups=%d", f->groups);
    if (op & NORMS)
        write_real(w, "eps", f->eps);
    if (op & NORMS && f->affine)
        write_text(w, ",affine=1");
    if (op & (ACTIVE | OP(ACT) | OP(ACTGRAD)))
        write_activation(w, f);
    if (f->op == SPC_FEATURE_BEV)
        write_text(w, ",shape=%dx%dx%d,order=%s", f->shape[0], f->shape[1],
                   f->shape[2],
                   spc__name_at(spc__bev_order_names, (unsigned)f->order));
}

int spc_feature_words(char *out, size_t bytes, spc_feature_op op)
{
    writer w = {out, out != NULL ? bytes : 0, 0};

    write_text(&w, "%s", "");
    for (const spc__word *word = words; word->name != NULL; word++)
        if ((unsigned)op <= SPC_FEATURE_UNSLICE &&
            (word->only == 0 || word->only >> op & 1))
            write_text(&w, "%s%s", w.length > 0 ? ", " : "", word->name);
    return (int)w.length;
}

int spc_feature_format(char *out, size_t bytes, const spc_feature *f)
{
    writer w = {out, out != NULL ? bytes : 0, 0};
    bool is_one = f != NULL && (unsigned)f->op <= SPC_FEATURE_UNSLICE;
    const head *of = is_one ? head_of(f) : NULL;

    if (of == NULL) {
        write_text(&w, "%s", f != NULL ? "?" : "");
        return (int)w.length;
    }
    write_text(&w, "%s", of->word);
    if (of->values != NULL)
        write_text(&w, "=%s",
                   spc__name_at(of->values, (unsigned)head_value(f, of)));
    write_text(&w, ",c=%d", f->channels);
    write_words(&w, f);
    write_text(&w, ",dtype=%s",
               spc__name_at(spc__dtype_names, (unsigned)f->dtype));
    if (f->pass != SPC_FORWARD)
        write_text(&w, ",pass=%s",
                   spc__name_at(spc__pass_names, (unsigned)f->pass));
    return (int)w.length;
}
