/* SPDX-License-Identifier: Apache-2.0 */
/* epilogue.c - scale, bias, activation, residual, type and pitch of outputs. */
#include "operators/epilogue.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/number.h"
#include "base/text/names.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- names --------------------------------------------------------------- */

const char *const spc__activation_names[] = {"none", "relu", "leaky", "sigmoid",
                                             "silu", "gelu", "elu",   NULL};
static const char *const adds[] = {"none", "before", "after", NULL};
const char *const spc__out_names[] = {"own", "f16", "bf16", "f32", "i8", NULL};

static const spc_dtype out_types[] = {SPC_F16, SPC_F16, SPC_BF16, SPC_F32,
                                      SPC_I8};

/* Elements from row to row, if rows have gaps between them. */
static const struct pitch {
    const char *name;
    size_t at, channels; /* offsets in spc_conv */
} pitches[] = {
    {"in_pitch", offsetof(spc_conv, in_pitch), offsetof(spc_conv, cin)},
    {"out_pitch", offsetof(spc_conv, out_pitch), offsetof(spc_conv, cout)},
    {"add_pitch", offsetof(spc_conv, add_pitch), offsetof(spc_conv, cout)},
};
enum { PITCHES = sizeof(pitches) / sizeof(pitches[0]) };

static int member(const spc_conv *conv, size_t at)
{
    return *(const int *)((const char *)conv + at);
}

/* Returns 0 if rows have no gaps. */
static int gapped_pitch(const spc_conv *conv, const struct pitch *p)
{
    int pitch = member(conv, p->at);

    /* A pitch that equals the channels means the same as 0, and must give the
     * same key in the database. */
    return pitch == member(conv, p->channels) ? 0 : pitch;
}

/* ---- questions ----------------------------------------------------------- */

spc_dtype spc__conv_out(const spc_conv *conv)
{
    return conv->out == SPC_OUT_DEFAULT ? conv->dtype : out_types[conv->out];
}

static bool has_slope(const spc_conv *conv)
{
    return conv->activation == SPC_ACT_LEAKY || conv->activation == SPC_ACT_ELU;
}

static float usual_slope(const spc_conv *conv)
{
    return conv->activation == SPC_ACT_LEAKY ? 0.01f : 1.0f;
}

float spc__conv_slope(const spc_conv *conv)
{
    return conv->slope != 0 ? conv->slope : usual_slope(conv);
}

bool spc__has_epilogue(const spc_conv *conv)
{
    return conv->scale || conv->activation != SPC_ACT_NONE ||
           conv->add != SPC_ADD_NONE || spc__conv_in_is_whole(conv) ||
           spc__conv_out_is_whole(conv);
}

bool spc__conv_in_is_whole(const spc_conv *conv)
{
    return spc__dtype_is_whole(conv->dtype);
}

bool spc__conv_out_is_whole(const spc_conv *conv)
{
    return spc__dtype_is_whole(spc__conv_out(conv));
}

bool spc__bias_is_in_sum(const spc_conv *conv)
{
    return conv->bias && !conv->scale && !spc__conv_in_is_whole(conv) &&
           conv->pass != SPC_WGRAD;
}

/* True if `out` differs from the type of the inputs in memory. */
static bool out_differs(const spc_conv *conv)
{
    const spc__dtype *own = spc__dtype_of(conv->dtype);
    const spc__dtype *out = spc__dtype_of(spc__conv_out(conv));

    /* tf32 is stored as f32, so the functions are compared and not the
     * types. */
    return own->encode != out->encode;
}

/* ---- rules --------------------------------------------------------------- */

/* Checks a number that indexes a table of names. */
static spc_status check_enum(const char *what, unsigned value, unsigned most,
                             spc_error *error)
{
    if (value <= most)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL, "unknown %s %d: expected 0 to %d", what,
                     (int)value, (int)most);
}

spc_status spc__slope_check(float slope, spc_error *error)
{
    if (slope >= 0 && slope <= 16)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "slope=%g: expected a number above 0, up to 16",
                     (double)slope);
}

static spc_status check_slope(const spc_conv *conv, spc_error *error)
{
    if (conv->slope != 0 && !has_slope(conv))
        return spc__fail(error, SPC_EINVAL,
                         "slope=%g is for the activations leaky and elu",
                         (double)conv->slope);
    return spc__slope_check(conv->slope, error);
}

/* A pitch is 0, for contiguous rows, or at least as large as a row. */
static spc_status check_pitch(const spc_conv *conv, const struct pitch *p,
                              spc_error *error)
{
    int pitch = member(conv, p->at), least = member(conv, p->channels);

    if (pitch == 0 || (pitch >= least && pitch <= SPC__PITCH_MOST))
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL,
        "%s=%d: expected %d (the channels) to %d elements from row to row",
        p->name, pitch, least, SPC__PITCH_MOST);
}

spc_status spc__epilogue_check(const spc_conv *conv, spc_error *error)
{
    spc_status status;

    if ((status = check_enum("activation", (unsigned)conv->activation,
                             SPC_ACT_ELU, error)) != SPC_OK ||
        (status = check_enum("add", (unsigned)conv->add, SPC_ADD_AFTER,
                             error)) != SPC_OK ||
        (status = check_enum("out", (unsigned)conv->out, SPC_OUT_I8, error)) !=
            SPC_OK ||
        (status = check_slope(conv, error)) != SPC_OK)
        return status;
    for (int i = 0; i < PITCHES && status == SPC_OK; i++)
        status = check_pitch(conv, &pitches[i], error);
    if (status != SPC_OK)
        return status;
    if (conv->add == SPC_ADD_BEFORE && conv->activation == SPC_ACT_NONE)
        return spc__fail(error, SPC_EINVAL,
                         "SPC_ADD_BEFORE needs an activation: without one, use "
                         "SPC_ADD_AFTER");
    if (conv->add_pitch != 0 && conv->add == SPC_ADD_NONE &&
        conv->pass != SPC_WGRAD)
        return spc__fail(error, SPC_EINVAL,
                         "add_pitch=%d needs a residual, as in epilogue=add",
                         conv->add_pitch);
    return SPC_OK;
}

/* ---- attrs --------------------------------------------------------------- */

static void print_slope(char *out, size_t bytes, const spc_conv *conv)
{
    spc__number_print(out, bytes, 9, (double)spc__conv_slope(conv));
}

static bool slope_is_usual(const spc_conv *conv)
{
    return !has_slope(conv) || spc__conv_slope(conv) == usual_slope(conv);
}

/* A reader of attrs takes only digits as a number, so other slopes are set as
 * text. */
static void set_slope(spc__attrs *out, const spc_conv *conv)
{
    float slope = spc__conv_slope(conv);
    char text[SPC__ATTR_TEXT];

    print_slope(text, sizeof(text), conv);
    if (slope == (float)(int)slope)
        spc__attrs_set_number(out, "slope", (int)slope);
    else
        spc__attrs_set_text(out, "slope", text);
}

void spc__epilogue_attrs(spc__attrs *out, const spc_conv *conv)
{
    /* Only values that differ from the default are written, so layers without
     * an epilogue keep the keys from before epilogues existed. */
    if (conv->scale)
        spc__attrs_set_number(out, "scale", 1);
    if (conv->activation != SPC_ACT_NONE)
        spc__attrs_set_text(out, "act",
                            spc__activation_names[conv->activation]);
    if (!slope_is_usual(conv))
        set_slope(out, conv);
    if (conv->add != SPC_ADD_NONE)
        spc__attrs_set_text(out, "add", adds[conv->add]);
    if (out_differs(conv))
        spc__attrs_set_text(out, "out", spc__out_names[conv->out]);
    for (int i = 0; i < PITCHES; i++)
        if (gapped_pitch(conv, &pitches[i]) != 0)
            spc__attrs_set_number(out, pitches[i].name,
                                  gapped_pitch(conv, &pitches[i]));
}

bool spc__epilogue_from_attrs(spc_conv *out, const spc__attrs *attrs)
{
    int act = spc__name_index(spc__activation_names,
                              spc__attrs_text(attrs, "act", "none"));
    int add = spc__name_index(adds, spc__attrs_text(attrs, "add", "none"));
    int type =
        spc__name_index(spc__out_names, spc__attrs_text(attrs, "out", "own"));
    double slope;

    if (act < 0 || add < 0 || type < 0 ||
        !spc__number_read(&slope, spc__attrs_text(attrs, "slope", "0")))
        return false;
    out->scale = spc__attrs_number(attrs, "scale", 0) != 0;
    out->activation = (spc_activation)act;
    out->slope = (float)slope;
    out->add = (spc_add)add;
    out->out = (spc_out_type)type;
    for (int i = 0; i < PITCHES; i++)
        *(int *)((char *)out + pitches[i].at) =
            (int)spc__attrs_number(attrs, pitches[i].name, 0);
    return true;
}

bool spc__epilogue_may_differ(const char *attr)
{
    static const char *const names[] = {"scale", "act",         "slope",
                                        "add",   "accumulator", NULL};

    if (spc__name_index(names, attr) >= 0)
        return true;
    for (int i = 0; i < PITCHES; i++)
        if (strcmp(pitches[i].name, attr) == 0)
            return true;
    return false;
}

/* ---- words --------------------------------------------------------------- */

static const char form[] =
    "scale and bias first, then one of relu, leaky, sigmoid, silu, gelu, elu "
    "and add in either order, as in scale+bias+relu+add";

/* The last kind of word that was read. */
enum { NOTHING, SCALED, BIASED, REST };

/* Takes one word of an epilogue, if its order permits it here. */
static bool take_word(spc_conv *conv, spc__span word, int *stage)
{
    int act = spc__name_find(spc__activation_names, word);

    if (spc__span_is(word, "scale") && *stage < SCALED) {
        conv->scale = true;
        *stage = SCALED;
    } else if (spc__span_is(word, "bias") && *stage < BIASED) {
        conv->bias = true;
        *stage = BIASED;
    } else if (spc__span_is(word, "add") && conv->add == SPC_ADD_NONE) {
        conv->add = SPC_ADD_AFTER;
        *stage = REST;
    } else if (act > SPC_ACT_NONE && conv->activation == SPC_ACT_NONE) {
        conv->activation = (spc_activation)act;
        if (conv->add != SPC_ADD_NONE)
            conv->add = SPC_ADD_BEFORE;
        *stage = REST;
    } else {
        return false;
    }
    return true;
}

spc_status spc__epilogue_read(void *conv, spc__span value, spc_error *error)
{
    spc__span rest = value;
    int stage = NOTHING;

    while (rest.at != NULL) {
        spc__span word = spc__scan_part(&rest, '+');
        if (!take_word(conv, word, &stage))
            return spc__fail(error, SPC_EINVAL,
                             "epilogue=%.*s: unexpected '%.*s'; expected %s",
                             SPC__SPAN(value), SPC__SPAN(word), form);
    }
    return SPC_OK;
}

/* Appends as much of the text to out[bytes] as fits. */
__attribute__((format(printf, 3, 4))) static void
append(char *out, size_t bytes, const char *format, ...)
{
    size_t length = strlen(out);
    va_list args;

    va_start(args, format);
    vsnprintf(out + length, bytes - length, format, args);
    va_end(args);
}

/* A layer with only a bias keeps its older word. */
static void append_list(char *out, size_t bytes, const spc_conv *conv)
{
    const char *const list[] = {
        conv->scale ? "scale" : NULL,
        conv->bias ? "bias" : NULL,
        conv->add == SPC_ADD_BEFORE ? "add" : NULL,
        conv->activation != SPC_ACT_NONE
            ? spc__activation_names[conv->activation]
            : NULL,
        conv->add == SPC_ADD_AFTER ? "add" : NULL,
    };
    const char *before = ",epilogue=";

    if (!conv->scale && conv->activation == SPC_ACT_NONE &&
        conv->add == SPC_ADD_NONE) {
        append(out, bytes, "%s", conv->bias ? ",bias=1" : "");
        return;
    }
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (list[i] != NULL) {
            append(out, bytes, "%s%s", before, list[i]);
            before = "+";
        }
}

void spc__epilogue_format(char *out, size_t bytes, const spc_conv *conv)
{
    char slope[SPC__ATTR_TEXT];

    out[0] = '\0';
    if (spc__dtype_of(conv->dtype) == NULL ||
        spc__epilogue_check(conv, NULL) != SPC_OK)
        return; /* for an invalid layer */
    append_list(out, bytes, conv);
    print_slope(slope, sizeof(slope), conv);
    if (!slope_is_usual(conv))
        append(out, bytes, ",slope=%s", slope);
    if (out_differs(conv))
        append(out, bytes, ",out=%s", spc__out_names[conv->out]);
    for (int i = 0; i < PITCHES; i++)
        if (gapped_pitch(conv, &pitches[i]) != 0)
            append(out, bytes, ",%s=%d", pitches[i].name,
                   gapped_pitch(conv, &pitches[i]));
}
