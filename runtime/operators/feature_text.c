/* SPDX-License-Identifier: Apache-2.0 */
/* feature_text.c - parses and writes an operator on features as text. */
#include "operators/feature.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/names.h"
#include "base/number.h"
#include "operators/conv.h"
#include "operators/epilogue.h"
#include "operators/geometry.h"
#include "operators/offset_list.h"
#include "operators/pass.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 64 };

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

const char *spc_feature_example(int i)
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

static spc_status read_head(spc_feature *f, char *text, spc_error *error)
{
    const char *names[HEADS + 1] = {NULL};
    char *value = strchr(text, '=');

    for (int i = 0; i < HEADS; i++)
        names[i] = heads[i].word;
    if (value != NULL)
        *value++ = '\0';
    int index = spc__name_index(names, text);
    if (index < 0)
        return spc__fail_unknown(error, "operator", text, names);
    const head *of = &heads[index];
    if (of->values == NULL && value != NULL)
        return spc__fail(error, SPC_EINVAL,
                         "the operator %s has no value of its own: found "
                         "%s=%.40s",
                         text, text, value);
    if (of->values != NULL && value == NULL)
        return spc__fail(error, SPC_EINVAL, "'%s' needs a value, as in %s=%s",
                         text, text, of->values[of->values[1] != NULL]);
    int at = of->values == NULL ? -1 : spc__name_index(of->values, value);
    if (of->values != NULL && at < 0)
        return spc__fail_unknown(error, of->what, value, of->values);
    set_head(f, of, at);
    return SPC_OK;
}

/* ---- words --------------------------------------------------------------- */

typedef struct feature_word feature_word;
struct feature_word {
    const char *name;
    spc_status (*set)(spc_feature *f, const feature_word *word,
                      const char *value, spc_error *error);
    size_t at;    /* offset of the field in spc_feature */
    unsigned ops; /* the operators that have it, one bit each */
};

#define OP(name) (1u << SPC_FEATURE_##name)

enum {
    ALL = OP(UNSLICE) * 2 - 1,
    MAPPED = OP(POOL) | OP(UNPOOL) | OP(SLICE) | OP(UNSLICE),
    NORMS = OP(LAYERNORM) | OP(GROUPNORM),
    ACTIVE = OP(ADD) | OP(AFFINE) | NORMS,
    GROUPED = OP(GROUPSUM) | OP(GROUPMEAN) | OP(REPEAT)
};

static void *member(spc_feature *f, const feature_word *word)
{
    return (char *)f + word->at;
}

/* Reads a number of at most nine digits. spc_feature_check checks its range. */
static spc_status set_count(spc_feature *f, const feature_word *word,
                            const char *value, spc_error *error)
{
    size_t length = strlen(value);

    if (length == 0 || length > 9 || strspn(value, "0123456789") != length)
        return spc__fail(error, SPC_EINVAL,
                         "%s=%.40s is no number: digits are right, as in "
                         "%s=64",
                         word->name, value, word->name);
    *(int *)member(f, word) = atoi(value);
    return SPC_OK;
}

static spc_status set_real(spc_feature *f, const feature_word *word,
                           const char *value, spc_error *error)
{
    double number;

    if (!spc__number_read(&number, value) ||
        (number != 0 && (float)number == 0)) /* 0 has another meaning */
        return spc__fail(error, SPC_EINVAL,
                         "%s=%.40s is no number: %s=1e-3 would be one",
                         word->name, value, word->name);
    *(float *)member(f, word) = (float)number;
    return SPC_OK;
}

static spc_status set_flag(spc_feature *f, const feature_word *word,
                           const char *value, spc_error *error)
{
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return spc__fail(error, SPC_EINVAL, "%s=%.40s must be 0 or 1",
                         word->name, value);
    *(bool *)member(f, word) = value[0] == '1';
    return SPC_OK;
}

static spc_status set_name(unsigned *out, const char *const *names,
                           const char *what, const char *value,
                           spc_error *error)
{
    int index = spc__name_index(names, value);

    if (index < 0)
        return spc__fail_unknown(error, what, value, names);
    *out = (unsigned)index;
    return SPC_OK;
}

static spc_status set_dtype(spc_feature *f, const feature_word *word,
                            const char *value, spc_error *error)
{
    unsigned index = (unsigned)f->dtype;
    spc_status status =
        set_name(&index, spc__dtype_names, word->name, value, error);

    f->dtype = (spc_dtype)index;
    return status;
}

static spc_status set_activation(spc_feature *f, const feature_word *word,
                                 const char *value, spc_error *error)
{
    unsigned index = (unsigned)f->activation;
    spc_status status =
        set_name(&index, spc__activation_names, "activation", value, error);

    (void)word;
    f->activation = (spc_activation)index;
    return status;
}

static spc_status set_pass(spc_feature *f, const feature_word *word,
                           const char *value, spc_error *error)
{
    unsigned index = (unsigned)f->pass;
    spc_status status =
        set_name(&index, spc__pass_names, word->name, value, error);

    f->pass = (spc_pass)index;
    return status;
}

static spc_status set_order(spc_feature *f, const feature_word *word,
                            const char *value, spc_error *error)
{
    unsigned index = (unsigned)f->order;
    spc_status status =
        set_name(&index, spc__bev_order_names, word->name, value, error);

    f->order = (spc_bev_order)index;
    return status;
}

/* Sets a word of the geometry. The shape of BEV belongs to the operator. */
static spc_status set_geometry(spc_feature *f, const feature_word *word,
                               const char *value, spc_error *error)
{
    spc_geometry own = f->geometry;
    bool bev = f->op == SPC_FEATURE_BEV;
    spc_status status =
        spc__geometry_word(bev ? &own : &f->geometry, word->name, value, error);

    if (bev && status != SPC_OK) /* BEV is bounded along each axis */
        return spc__fail(error, SPC_EINVAL,
                         "shape=%.40s is no shape of planes: three numbers "
                         "(shape=176x200x2) or one for all axes, each 1 to %d; "
                         "in a network it is the input's, which must end",
                         value, SPC__BEV_MOST);
    if (bev)
        memcpy(f->shape, own.shape, sizeof(f->shape));
    return status;
}

#define AT(field) offsetof(spc_feature, field)

static const feature_word words[] = {
    {"c", set_count, AT(channels), ALL},
    {"rule", set_geometry, 0, MAPPED},
    {"by", set_count, AT(by), GROUPED},
    {"groups", set_count, AT(groups), OP(GROUPNORM)},
    {"shape", set_geometry, 0, MAPPED | OP(BEV)},
    {"k", set_geometry, 0, MAPPED},
    {"stride", set_geometry, 0, MAPPED},
    {"dilation", set_geometry, 0, MAPPED},
    {"padding", set_geometry, 0, MAPPED},
    {"origin", set_geometry, 0, MAPPED},
    {"offsets", set_geometry, 0, MAPPED},
    {"index", set_flag, AT(index), OP(POOL)},
    {"act", set_activation, 0, ACTIVE},
    {"slope", set_real, AT(slope), ACTIVE | OP(ACT) | OP(ACTGRAD)},
    {"eps", set_real, AT(eps), NORMS},
    {"affine", set_flag, AT(affine), NORMS},
    {"order", set_order, 0, OP(BEV)},
    {"dtype", set_dtype, 0, ALL},
    {"pass", set_pass, 0, ALL & ~OP(ACTGRAD)},
};
enum { WORDS = sizeof(words) / sizeof(words[0]) };
_Static_assert(WORDS <= 32, "the words that were read are bits of an unsigned");

/* A list of offsets replaces the kernel size. */
static bool stands_for(const spc_feature *f, const char *word)
{
    return strcmp(word, "k") == 0 && f->geometry.offset_count > 0;
}

/* Checks that the required words are present. `seen` has a bit for each
 * word. */
static spc_status check_needed(const spc_feature *f, unsigned seen,
                               spc_error *error)
{
    static const struct {
        const char *word;
        unsigned ops;
    } needed[] = {
        {"c", ALL},      {"rule", MAPPED},          {"k", MAPPED},
        {"by", GROUPED}, {"groups", OP(GROUPNORM)}, {"shape", OP(BEV)},
    };

    for (size_t n = 0; n < sizeof(needed) / sizeof(needed[0]); n++)
        for (int i = 0; i < WORDS; i++)
            if (strcmp(words[i].name, needed[n].word) == 0 &&
                needed[n].ops >> f->op & 1 && !(seen >> i & 1) &&
                !stands_for(f, words[i].name))
                return spc__fail(error, SPC_EINVAL,
                                 "'%s' is missing: it is written %s",
                                 words[i].name, examples[f->op]);
    return SPC_OK;
}

static spc_status read_word(spc_feature *f, char *text, unsigned *seen,
                            spc_error *error)
{
    const char *names[WORDS + 1] = {NULL};
    const feature_word *of[WORDS];
    char *value = strchr(text, '=');
    int count = 0;

    for (int i = 0; i < WORDS; i++)
        if (words[i].ops >> f->op & 1) {
            of[count] = &words[i];
            names[count++] = words[i].name;
        }
    if (value != NULL)
        *value++ = '\0';
    int index = spc__name_index(names, text);
    if (index < 0)
        return spc__fail_unknown(error, "word", text, names);
    if (value == NULL)
        return spc__fail(error, SPC_EINVAL, "'%s' needs a value, as in %s=1",
                         text, text);
    unsigned bit = 1u << (of[index] - words);
    if (*seen & bit)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' is given twice; once is right", text);
    *seen |= bit;
    return of[index]->set(f, of[index], value, error);
}

/* ELU without a slope gets that of its paper. Activations without a slope
 * refuse one. */
static spc_status settle_slope(spc_feature *f, unsigned seen, spc_error *error)
{
    bool elu = f->activation == SPC_ACT_ELU;

    for (int i = 0; i < WORDS; i++) {
        if (strcmp(words[i].name, "slope") != 0)
            continue;
        if (seen >> i & 1 && !elu && f->activation != SPC_ACT_LEAKY)
            return spc__fail(error, SPC_EINVAL,
                             "slope=%g is for the activations leaky and elu",
                             (double)f->slope);
        if (!(seen >> i & 1) && elu)
            f->slope = 1;
    }
    return SPC_OK;
}

/* A list excludes the words that it replaces, as for a layer. */
static spc_status check_list(const spc_feature *f, unsigned seen,
                             spc_error *error)
{
    static const char *const others[] = {"k", "dilation", "padding", "origin"};

    for (int i = 0; i < WORDS && f->geometry.offset_count > 0; i++)
        for (int o = 0; o < 4; o++)
            if (seen >> i & 1 && strcmp(words[i].name, others[o]) == 0)
                return spc__fail(error, SPC_EINVAL,
                                 "'%s' and 'offsets' are both given: a list of "
                                 "offsets is the whole kernel",
                                 others[o]);
    return SPC_OK;
}

/* Limits a word's length. Only lists of offsets are long. */
static size_t most_bytes(const char *word)
{
    return strncmp(word, "offsets=", 8) == 0 ? WORD_BYTES + SPC__LIST_BYTES
                                             : WORD_BYTES;
}

static spc_status read_words(spc_feature *f, const char *text, spc_error *error)
{
    unsigned seen = 0;
    spc_status status = SPC_OK;
    bool first = true;

    for (const char *next = text; status == SPC_OK; first = false) {
        char word[WORD_BYTES + SPC__LIST_BYTES];
        size_t length = strcspn(next, ",");

        if (length == 0 || length >= most_bytes(next))
            return spc__fail(
                error, SPC_EINVAL, "the word at position %zu is %s",
                (size_t)(next - text), length == 0 ? "empty" : "too long");
        memcpy(word, next, length);
        word[length] = '\0';
        status = first ? read_head(f, word, error)
                       : read_word(f, word, &seen, error);
        if (next[length] == '\0')
            break;
        next += length + 1;
    }
    if (status == SPC_OK)
        status = settle_slope(f, seen, error);
    if (status == SPC_OK)
        status = check_list(f, seen, error);
    return status == SPC_OK ? check_needed(f, seen, error) : status;
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
                         "the operator is empty: it is written %s",
                         examples[0]);
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
    for (int i = 0; i < WORDS; i++)
        if ((unsigned)op <= SPC_FEATURE_UNSLICE && words[i].ops >> op & 1)
            write_text(&w, "%s%s", w.length > 0 ? ", " : "", words[i].name);
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
