/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_words.c - the words of all operators. An operator accepts exactly the
 * words listed for it, the listed defaults are right, every bad value gives a
 * message, every example runs, and `verify --all` omits no operator.
 */
#include "base/random.h"
#include "command/verify/matrix.h"
#include "harness/comma_locale.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "lab/verify/feature_fixture.h"
#include "operators/geometry.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 512, BAD = 7 };

/* ---- valid and invalid words --------------------------------------------- */

/* One word. `with` has the words that must accompany it. Each row has a value
 * that is valid for every operator with the word and differs from its default,
 * and values that are always invalid. */
static const struct word {
    const char *kind, *name, *with, *good, *bad[BAD];
} words[] = {
    {"convolution", "cin", NULL, "24", {"0", "-1", "x", "70000", "1.5", ""}},
    {"convolution", "cout", NULL, "24", {"0", "-1", "x", "70000", "2x2", ""}},
    {"convolution", "groups", NULL, "2", {"0", "-2", "7", "x", "128000", ""}},
    {"convolution",
     "k",
     NULL,
     "2x1x4",
     {"0", "8", "3x3", "3x3x3x3", "x", "-1", ""}},
    {"convolution",
     "stride",
     NULL,
     "3x2x1",
     {"0", "2x2", "-2", "x", "70000", ""}},
    {"convolution",
     "dilation",
     NULL,
     "2x1x3",
     {"0", "2x2", "-2", "x", "70000", ""}},
    {"convolution",
     "padding",
     "rule=footprint",
     "0x1x2",
     {"-1", "1x1", "x", "70000", ""}},
    {"convolution", "origin", NULL, "-1", {"1x1", "x", "--1", "70000", ""}},
    {"convolution",
     "shape",
     "rule=footprint",
     "40x30x20",
     {"0", "40x40", "-3", "x", ""}},
    {"convolution",
     "offsets",
     "rule=floor",
     "0x0x0+-1x2x0",
     {"0x0", "1", "0x0x0+", "0x0x0+0x0x0", "40000x0x0", "x", ""}},
    {"convolution", "rule", "padding=0", "floor", {"flor", "1", ""}},
    {"convolution", "dtype", NULL, "tf32", {"f64", "F16", "16", ""}},
    {"convolution", "bias", NULL, "1", {"2", "yes", "-1", ""}},
    {"convolution", "deterministic", NULL, "1", {"2", "yes", "-1", ""}},
    {"convolution",
     "epilogue",
     NULL,
     "scale+relu+add",
     {"swish", "relu+relu", "relu+scale", "scale+", "add+add", ""}},
    {"convolution",
     "slope",
     "epilogue=leaky",
     "0.25",
     {"x", "nan", "-1", "17", "1e-50", "0x1", ""}},
    {"convolution", "out", NULL, "f32", {"f64", "tf33", "2", ""}},
    {"convolution", "in_pitch", NULL, "136", {"0", "-1", "x", "3", ""}},
    {"convolution", "out_pitch", NULL, "136", {"0", "-1", "x", "3", ""}},
    {"convolution",
     "add_pitch",
     "epilogue=add",
     "136",
     {"0", "-1", "x", "3", ""}},
    {"convolution", "pass", NULL, "dgrad", {"grad", "1", "dgrad2", ""}},
    {"convolution", "accumulate", "pass=wgrad", "1", {"2", "yes", "-1", ""}},
    {"convolution",
     "accumulator",
     "dtype=f16",
     "f16",
     {"f64", "bf16", "F16", "16", "i32", ""}},

    {"convolution",
     "radius",
     NULL,
     "0.5",
     {"0", "-1", "x", "nan", "0x10", " 1", ""}},
    {"convolution", "nearest", NULL, "8", {"0", "-1", "x", "1.5", ""}},
    {"convolution",
     "voxel",
     NULL,
     "0.25",
     {"0", "-1", "x", "inf", "0x10", " 1", ""}},

    {"features", "c", NULL, "3072", {"0", "-1", "x", "70000", "1.5", ""}},
    {"features",
     "rule",
     NULL,
     "footprint",
     {"flor", "1", "generative", "radius", "expand", ""}},
    {"features", "k", NULL, "2x1x4", {"0", "8", "3x3", "x", "-1", ""}},
    {"features", "stride", NULL, "3x2x1", {"0", "2x2", "x", "70000", ""}},
    {"features", "dilation", NULL, "2x1x3", {"0", "2x2", "x", "70000", ""}},
    {"features",
     "padding",
     "rule=footprint",
     "0x1x2",
     {"-1", "1x1", "x", "70000", ""}},
    {"features", "origin", NULL, "-1", {"1x1", "x", "70000", ""}},
    {"features",
     "shape",
     "rule=footprint",
     "40x30x20",
     {"0", "40x40", "-3", "x", ""}},
    {"features",
     "offsets",
     "rule=floor",
     "0x0x0+-1x2x0",
     {"0x0", "1", "0x0x0+", "0x0x0+0x0x0", "40000x0x0", "x", ""}},
    {"features", "index", NULL, "1", {"2", "yes", ""}},
    {"features", "act", NULL, "gelu", {"swish", "1", ""}},
    {"features", "slope", "act=leaky", "0.25", {"x", "nan", "inf", ""}},
    {"features", "eps", NULL, "0.5", {"-1", "x", "nan", "0x1", "1e-50", ""}},
    {"features", "affine", "affine=0", "1", {"2", "yes", ""}},
    {"features", "groups", NULL, "48", {"0", "7", "-2", "x", ""}},
    {"features", "by", NULL, "4", {"0", "-1", "x", "1.5", ""}},
    {"features", "order", NULL, "xyz", {"yxz", "1", ""}},
    {"features", "dtype", NULL, "f32", {"f64", "F16", "16", ""}},
    {"features", "pass", "act=none", "dgrad", {"grad", "1", "dgrad2", ""}},

    {"sets", "by", NULL, "3x2x1", {"2x2", "-1", "x", "70000", "1.5", ""}},
    {"sets", "axis", NULL, "x", {"w", "xyz", "0", ""}},
    {"sets", "scale", NULL, "3x0x1", {"2x2", "-1", "x", "70000", ""}},
    {"sets", "split", NULL, "2x1x4", {"0", "2x2", "-1", "x", "5", ""}},
};

/* ---- texts --------------------------------------------------------------- */

/* Returns the length of the listed word at `list`, and of its name. */
static size_t word_length(const char *list, size_t *name)
{
    *name = strcspn(list, " =");
    return strcspn(list, " ");
}

/* Returns the position of the word in the listing, or NULL. */
static const char *find_listed(const spc_operator_info *of, const char *name)
{
    const char *at = of->words;

    while (*at != '\0') {
        size_t bytes, length = word_length(at, &bytes);
        if (strlen(name) == bytes && strncmp(at, name, bytes) == 0)
            return at;
        at += length;
        at += *at == ' ';
    }
    return NULL;
}

/* Removes the word from an operator's text, but not from its head. */
static void remove_word(char *text, const char *name)
{
    char *at = strchr(text, ',');
    size_t bytes = strlen(name);

    for (; at != NULL; at = strchr(at + 1, ','))
        if (strncmp(at + 1, name, bytes) == 0 && at[1 + bytes] == '=') {
            const char *end = at + 1 + strcspn(at + 1, ",");
            memmove(at, end, strlen(end) + 1);
            return;
        }
}

/* Sets the word to `value`, replacing any earlier one. */
static void set_word(char *text, const char *name, const char *value)
{
    remove_word(text, name);
    size_t length = strlen(text);
    snprintf(text + length, TEXT_BYTES - length, ",%s=%s", name, value);
}

/* Operators whose maps have only one rule, which the example uses. */
static bool is_other_rule(const spc_operator_info *of, const char *name)
{
    return strcmp(name, "rule") == 0 && find_listed(of, "radius") != NULL;
}

/* Sets a word given as "name=value". */
static void set_pair(char *text, const char *pair, const spc_operator_info *of)
{
    char name[40];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(pair, "="), pair);
    if (find_listed(of, name) != NULL && !is_other_rule(of, name))
        set_word(text, name, strchr(pair, '=') + 1);
}

/* Prepares the operator's example for the word. For a slope, for example, it
 * sets an activation that has one. */
static void begin(char *text, const spc_operator_info *of,
                  const struct word *word)
{
    bool slope = strcmp(word->name, "slope") == 0;

    snprintf(text, TEXT_BYTES, "%s",
             slope && strncmp(of->name, "act=", 4) == 0 ? "act=leaky,c=64"
             : slope && strncmp(of->name, "actgrad=", 8) == 0
                 ? "actgrad=leaky,c=64"
                 : of->example);
    if (strcmp(word->name, "offsets") == 0) {
        remove_word(text, "k"); /* which the offsets replace */
        remove_word(text, "padding");
        if (strcmp(of->kind, "features") == 0 && find_listed(of, "offsets"))
            set_word(text, "offsets", "0x0x0"); /* the only kernel it allows */
    }
    if (word->with != NULL)
        set_pair(text, word->with, of);
}

/* ---- parsers ------------------------------------------------------------- */

/* Parses a text of the operator's kind. `canonical` receives the text written
 * back. */
static spc_status parse(char canonical[TEXT_BYTES], const char *kind,
                        const char *text, spc_error *error)
{
    spc_regrouping set;
    spc_feature feature;
    spc_conv conv;
    spc_status status;

    canonical[0] = '\0';
    if (strcmp(kind, "convolution") == 0) {
        if ((status = spc_conv_parse(&conv, text, error)) == SPC_OK)
            spc_conv_format(canonical, TEXT_BYTES, &conv);
    } else if (strcmp(kind, "features") == 0) {
        if ((status = spc_feature_parse(&feature, text, error)) == SPC_OK)
            spc_feature_format(canonical, TEXT_BYTES, &feature);
    } else if ((status = spc_regrouping_parse(&set, text, error)) == SPC_OK) {
        spc_regrouping_format(canonical, TEXT_BYTES, &set);
    }
    return status;
}

static void assert_parses(char canonical[TEXT_BYTES],
                          const spc_operator_info *of, const char *text)
{
    spc_error error = {0};

    assert_ok(parse(canonical, of->kind, text, &error), error.text);
}

/* Checks that a message begins with the text and then mentions the word. */
static void assert_refused(const spc_operator_info *of, const char *text,
                           const char *says)
{
    char canonical[TEXT_BYTES];
    spc_error error = {0};

    ck_assert_msg(parse(canonical, of->kind, text, &error) == SPC_EINVAL,
                  "'%s' is taken for '%s'", text, canonical);
    const char *sentence = strstr(error.text, "': ");
    ck_assert_msg(sentence != NULL, "'%s' names no text", error.text);
    ck_assert_msg(strstr(sentence, says) != NULL, "'%s' does not say '%s'",
                  error.text, says);
    ck_assert_int_eq(parse(canonical, of->kind, text, NULL), SPC_EINVAL);
}

static int operator_count(void)
{
    int count = 0;

    while (spc_operators(count) != NULL)
        count++;
    return count;
}

/* Checks a valid value that is not the default. The first gradient of multiply
 * is multiply itself. */
static const char *good_of(const spc_operator_info *of, const struct word *word)
{
    bool is_itself =
        strcmp(of->name, "multiply") == 0 && strcmp(word->name, "pass") == 0;

    return is_itself ? "wgrad" : word->good;
}

/* ---- one operator -------------------------------------------------------- */

START_TEST(an_operator_takes_its_words_and_no_others)
{
    const spc_operator_info *of = spc_operators(_i);

    for (int w = 0; w < LENGTH(words); w++) {
        char text[TEXT_BYTES], plain[TEXT_BYTES], other[TEXT_BYTES];
        const char *name = words[w].name;
        if (strcmp(words[w].kind, of->kind) != 0)
            continue;
        begin(text, of, &words[w]);
        if (is_other_rule(of, name)) {
            set_word(text, name, words[w].good);
            assert_refused(of, text, "radius");
            continue;
        }
        if (find_listed(of, name) == NULL) {
            set_word(text, name, words[w].good);
            assert_refused(of, text, name);
            continue;
        }
        assert_parses(plain, of, text);
        set_word(text, name, good_of(of, &words[w]));
        assert_parses(other, of, text);
        ck_assert_msg(strcmp(plain, other) != 0, "'%s' changes nothing", text);
    }
}
END_TEST

/* Checks that each listed word is in the table above. */
START_TEST(no_word_is_left_out)
{
    const spc_operator_info *of = spc_operators(_i);
    const char *at = of->words;

    while (*at != '\0') {
        size_t bytes, length = word_length(at, &bytes);
        bool found = false;
        for (int w = 0; w < LENGTH(words); w++)
            found |= strcmp(words[w].kind, of->kind) == 0 &&
                     strlen(words[w].name) == bytes &&
                     strncmp(words[w].name, at, bytes) == 0;
        ck_assert_msg(found, "%s: '%.*s' is not tested", of->name, (int)bytes,
                      at);
        at += length;
        at += *at == ' ';
    }
}
END_TEST

START_TEST(a_bad_value_has_its_sentence)
{
    const spc_operator_info *of = spc_operators(_i);

    for (int w = 0; w < LENGTH(words); w++)
        for (int i = 0; i < BAD && words[w].bad[i] != NULL; i++) {
            char text[TEXT_BYTES];
            if (strcmp(words[w].kind, of->kind) != 0 ||
                find_listed(of, words[w].name) == NULL)
                continue;
            begin(text, of, &words[w]);
            set_word(text, words[w].name, words[w].bad[i]);
            assert_refused(of, text, words[w].name);
        }
}
END_TEST

START_TEST(what_is_missing_is_named)
{
    const spc_operator_info *of = spc_operators(_i);
    const char *at = of->words;

    while (*at != '\0') {
        char text[TEXT_BYTES], name[40], says[60];
        size_t bytes, length = word_length(at, &bytes);
        snprintf(name, sizeof(name), "%.*s", (int)bytes, at);
        snprintf(text, sizeof(text), "%s", of->example);
        remove_word(text, name);
        if (at[bytes] != '=') {
            snprintf(says, sizeof(says), "'%s' is missing", name);
            assert_refused(of, text, says);
        }
        at += length;
        at += *at == ' ';
    }
}
END_TEST

START_TEST(a_default_is_what_is_listed)
{
    const spc_operator_info *of = spc_operators(_i);
    const char *at = of->words;

    while (*at != '\0') {
        char text[TEXT_BYTES], plain[TEXT_BYTES], said[TEXT_BYTES];
        char name[40], value[40];
        size_t bytes, length = word_length(at, &bytes);
        snprintf(name, sizeof(name), "%.*s", (int)bytes, at);
        if (length > bytes + 1) {
            snprintf(value, sizeof(value), "%.*s", (int)(length - bytes - 1),
                     at + bytes + 1);
            snprintf(text, sizeof(text), "%s", of->example);
            remove_word(text, name);
            assert_parses(plain, of, text);
            set_word(text, name, value);
            assert_parses(said, of, text);
            ck_assert_str_eq(plain, said);
        }
        at += length;
        at += *at == ' ';
    }
}
END_TEST

START_TEST(a_text_is_held_to_its_form)
{
    const spc_operator_info *of = spc_operators(_i);
    char text[TEXT_BYTES], canonical[TEXT_BYTES], again[TEXT_BYTES];

    assert_parses(canonical, of, of->example);
    assert_parses(again, of, canonical);
    ck_assert_str_eq(canonical, again);
    snprintf(text, sizeof(text), "%s,", of->example);
    assert_refused(of, text, "empty");
    snprintf(text, sizeof(text), "%s,wordless=1", of->example);
    assert_refused(of, text,
                   of->words[0] != '\0' ? "unknown word 'wordless'"
                                        : "has no words");
    snprintf(text, sizeof(text), "%s,%070d", of->example, 1);
    assert_refused(of, text, "too long");
    for (int w = 0; w < LENGTH(words); w++) {
        if (strcmp(words[w].kind, of->kind) != 0 ||
            find_listed(of, words[w].name) == NULL)
            continue;
        begin(text, of, &words[w]);
        set_word(text, words[w].name, words[w].good);
        size_t length = strlen(text);
        snprintf(text + length, sizeof(text) - length, ",%s=%s", words[w].name,
                 words[w].good);
        assert_refused(of, text, "is given twice");
        begin(text, of, &words[w]);
        remove_word(text, words[w].name);
        length = strlen(text);
        snprintf(text + length, sizeof(text) - length, ",%s", words[w].name);
        assert_refused(of, text, "needs a value");
    }
}
END_TEST

/* Parsing must not depend on the host's number format. */
START_TEST(a_text_is_the_same_in_every_locale)
{
    static const char *const besides[] = {
        "points,cin=64,cout=128,k=3,radius=0.1,nearest=8,voxel=0.0625",
        "subm,cin=8,cout=8,k=3,epilogue=leaky,slope=0.3",
        "inverse,cin=8,cout=8,rule=radius,k=3,radius=0.30000001",
    };
    const spc_operator_info of = {.kind = "convolution"};
    char plain[LENGTH(besides)][TEXT_BYTES], other[TEXT_BYTES];

    for (int i = 0; i < LENGTH(besides); i++)
        assert_parses(plain[i], &of, besides[i]);
    use_decimal_comma();
    for (int i = 0; i < LENGTH(besides); i++) {
        assert_parses(other, &of, besides[i]);
        ck_assert_str_eq(other, plain[i]);
    }
    for (int i = 0; i < operator_count(); i++)
        assert_parses(other, spc_operators(i), spc_operators(i)->example);
}
END_TEST

/* Names that other programs use, and words without effect. */
static const struct {
    const char *kind, *text, *says;
} sentences[] = {
    {"convolution", "subm,cin=8,cout=8,kernel=3", "did you mean 'k'?"},
    {"convolution", "subm,cin=8,cout=8,act=relu", "did you mean 'epilogue'?"},
    {"convolution", "conv,cin=8,cout=8,k=2,rule=spconv",
     "did you mean 'footprint'?"},
    {"convolution", "subm,cin=8,cout=8,dtype=half", "did you mean 'f16'?"},
    {"convolution", "depthwise,cin=8,cout=8,groups=8", "did you mean 'subm'?"},
    {"convolution", "deconv,cin=8,cout=8,k=2,stride=2",
     "did you mean 'transposed'?"},
    {"convolution", "subm,cin=8,cout=8,offsets=40000x0x0",
     "each -32768 to 32767"},
    {"convolution", "conv,cin=8,cout=8,k=3,rule=radius",
     "operator conv has the rule"},
    {"convolution", "inverse,cin=8,cout=8,k=3,rule=radius",
     "'radius' is missing"},
    {"features", "pool=max,c=8,rule=radius,k=3", "pooling is by the rules"},
    {"features", "pool=max,c=8,rule=floor,k=2,offsets=0x0x0",
     "'k' and 'offsets' are both given"},
    {"features", "pool=avg,c=8,rule=floor,k=2", "did you mean 'mean'?"},
    {"features", "act=swish,c=8", "did you mean 'silu'?"},
    {"features", "pool=max,cin=8,rule=floor,k=2", "did you mean 'c'?"},
    {"convolution", "subm,cin=8,cout=8,targets=1",
     "unknown word 'targets' (cin, cout, "},
    {"convolution", "subm,cin=8,cout=8,dtype=", "unknown dtype '' (f16, "},
    {"features", "bev,c=8,shape=4,order=", "unknown order '' ("},
    {"sets", "scale,by=70000", "each 0 to 65536, as in by=2"},
    {"sets", "subdivide,by=0", "by=0: expected one number or three, each 1 to 64"},
    {"sets", "regroup,split=65", "each 1 to 64, as in split=2"},
    {"convolution", "linear,cin=8", "example: linear,cin=64,cout=128"},
    {"convolution", "points,cin=8,cout=8,radius=1e30", "to 1.15e+18"},
    {"sets", "collapse,axis=w", "unknown axis 'w' (x, y, z)"},
    {"features", "act=relu,c=8,slope=0.5", "is for the activations leaky"},
    {"features", "add,c=8,slope=0.5", "is for the activations leaky"},
};

START_TEST(a_sentence_says_what_would_be_right)
{
    const spc_operator_info of = {.kind = sentences[_i].kind};

    assert_refused(&of, sentences[_i].text, sentences[_i].says);
}
END_TEST

/* Only the members of a layer count, however they were filled. An accepted
 * layer is written as text that reads back the same; a refused one gives a
 * message. */
static const char *const filled[] = {
    "subm,cin=64,cout=64,k=3,dtype=f16",
    "subm,cin=8,cout=8,offsets=0x0x0+1x0x0",
    ("conv,cin=8,cout=8,k=3,stride=2,padding=1,rule=footprint,shape=40,"
     "epilogue=scale+bias+leaky+add"),
    "inverse,cin=8,cout=8,k=2,stride=2,rule=floor",
    "generative,cin=8,cout=8,k=2,stride=2",
    "conv,cin=8,cout=8,rule=expand,k=3,stride=2",
    "points,cin=8,cout=8,k=3,radius=0.1",
    "subm,cin=8,cout=8,k=3,dtype=i8,out=f16",
};

/* True for positions of 4-byte numbers. The address of the list is not a
 * number, and flags may only be 0 or 1 in C. */
static bool holds_numbers(size_t at)
{
    static const size_t flags[] = {
        offsetof(spc_conv, bias), offsetof(spc_conv, deterministic),
        offsetof(spc_conv, scale), offsetof(spc_conv, accumulate)};
    const size_t list = offsetof(spc_conv, geometry.offsets);

    for (int i = 0; i < LENGTH(flags); i++)
        if (flags[i] / 4 == at / 4)
            return false;
    return at < list || at >= offsetof(spc_conv, geometry.radius);
}

/* A list with the greatest accepted count. */
static const int16_t *longest_list(void)
{
    static int16_t list[SPC_MAX_OFFSETS][3];

    for (int k = 0; k < SPC_MAX_OFFSETS; k++)
        list[k][0] = (int16_t)k;
    return list[0];
}

static void try_value(const spc_conv *from, size_t at, uint32_t value)
{
    static char text[16384], again[16384];
    spc_error error = {0};
    spc_conv conv = *from, back;

    memcpy((char *)&conv + at, &value, sizeof(value));
    if (from->geometry.offset_count > 0)
        conv.geometry.offsets = longest_list();
    if (spc_conv_check(&conv, &error) != SPC_OK) {
        ck_assert_str_ne(error.text, "");
        return;
    }
    spc_conv_format(text, sizeof(text), &conv);
    if (spc_conv_parse(&back, text, &error) != SPC_OK)
        ck_abort_msg("member at %zu, %u: %s", at, value, error.text);
    spc_conv_format(again, sizeof(again), &back);
    ck_assert_str_eq(text, again);
    ck_assert(spc__geometry_equal(&conv.geometry, &back.geometry));
}

START_TEST(members_of_a_layer_are_taken_and_written_or_refused)
{
    static const uint32_t values[] = {
        0,           1,          2,         3,
        7,           17,         255,       343,
        65537,       1 << 24,    INT32_MAX, 0x80000000u,
        ~0u,         ~1u,        1000000,   0x3f800000u /* 1.0f */,
        0x7f800000u, 0x7fc00000u};
    spc_error error = {0};
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, filled[_i], &error), error.text);
    for (size_t at = 0; at + 4 <= sizeof(conv); at += 4)
        for (int v = 0; v < LENGTH(values); v++)
            if (holds_numbers(at))
                try_value(&conv, at, values[v]);
}
END_TEST

/* The same for operators on features and their gradients. */
START_TEST(members_of_an_operator_are_taken_and_written_or_refused)
{
    static const uint32_t values[] = {
        0,           1,   2,       7,         343,         65537,
        0x80000000u, ~0u, 1000000, INT32_MAX, 0x3f800000u, 0x7fc00000u};
    const size_t list = offsetof(spc_feature, geometry.offsets);
    const spc_operator_info *of = spc_operators(_i);
    spc_feature from;

    if (strcmp(of->kind, "features") != 0)
        return;
    ck_assert_int_eq(spc_feature_parse(&from, of->example, NULL), SPC_OK);
    for (size_t at = 0; at + 4 <= sizeof(from); at += 4)
        for (int v = 0; v < LENGTH(values); v++) {
            char text[TEXT_BYTES], again[TEXT_BYTES];
            spc_feature f = from, back;
            spc_error error = {0};
            if ((at >= list && at < offsetof(spc_feature, geometry.radius)) ||
                at / 4 == offsetof(spc_feature, index) / 4 ||
                at / 4 == offsetof(spc_feature, affine) / 4)
                continue; /* compares as in holds_numbers() */
            memcpy((char *)&f + at, &values[v], 4);
            if (spc_feature_check(&f, &error) != SPC_OK) {
                ck_assert_str_ne(error.text, "");
                continue;
            }
            for (int pass = 0; pass < 3; pass++)
                spc_feature_pass(&back, &f, (spc_pass)pass, NULL);
            spc_feature_format(text, sizeof(text), &f);
            if (spc_feature_parse(&back, text, &error) != SPC_OK)
                ck_abort_msg("member at %zu: %s", at, error.text);
            spc_feature_format(again, sizeof(again), &back);
            ck_assert_str_eq(text, again);
        }
}
END_TEST

/* Uses the largest number of offsets, each with the most digits. */
START_TEST(the_longest_list_of_offsets_reads_back)
{
    static char text[16384], again[16384];
    int16_t list[SPC_MAX_OFFSETS][3];
    spc_conv conv = SPC_CONV_INIT, back;
    spc_error error = {0};

    conv.cin = conv.cout = 8;
    conv.geometry.offset_count = SPC_MAX_OFFSETS;
    conv.geometry.offsets = list[0];
    for (int k = 0; k < SPC_MAX_OFFSETS; k++) {
        list[k][0] = (int16_t)(INT16_MIN + k);
        list[k][1] = (int16_t)(INT16_MIN + 2 * k);
        list[k][2] = (int16_t)(INT16_MAX - k);
    }
    int length = spc_conv_format(text, sizeof(text), &conv);
    ck_assert_int_lt(length, (int)sizeof(text));
    assert_ok(spc_conv_parse(&back, text, &error), error.text);
    ck_assert_mem_eq(back.geometry.offsets, list, sizeof(list));
    spc_conv_format(again, sizeof(again), &back);
    ck_assert_str_eq(text, again);
    char *end = strstr(text, ",dtype");
    ck_assert_ptr_nonnull(end);
    memmove(end + 6, end, strlen(end) + 1);
    memcpy(end, "+0x0x0", 6);
    ck_assert_int_eq(spc_conv_parse(&back, text, &error), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "more than 343 offsets"));
    ck_assert_int_eq(
        spc_conv_parse(&back, "subm,cin=8,cout=8,k=1,offsets=0x0x0", &error),
        SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "'k' and 'offsets' are both"));
}
END_TEST

/* Random words of typical letters must be refused with a message, or their text
 * must read back the same. */
START_TEST(nobody_stumbles_over_noise)
{
    static const char letters[] = "0123456789x-+.=,eabcdfkls_";
    const spc_operator_info *of = spc_operators(_i);
    spc__random random;

    spc__random_init(&random, (uint64_t)_i);
    for (int n = 0; n < 1000; n++) {
        char text[TEXT_BYTES], canonical[TEXT_BYTES], again[TEXT_BYTES];
        spc_error error = {0};
        snprintf(text, sizeof(text), "%s,", of->example);
        size_t length = strlen(text);
        int changes = 1 + (int)spc__random_below(&random, 4);
        for (int i = 0; i < changes; i++)
            text[spc__random_below(&random, (uint32_t)length)] =
                letters[spc__random_below(&random, sizeof(letters) - 1)];
        text[length - spc__random_below(&random, 2)] = '\0';
        if (parse(canonical, of->kind, text, &error) != SPC_OK)
            ck_assert_msg(error.text[0] != '\0', "'%s'", text);
        else if (parse(again, of->kind, canonical, &error) != SPC_OK ||
                 strcmp(canonical, again) != 0)
            ck_abort_msg("'%s' is written '%s', which is '%s'", text, canonical,
                         again);
    }
}
END_TEST

/* ---- examples ------------------------------------------------------------ */

static spc_scene *small_scene(void)
{
    spc_scene *scene = NULL;
    spc_error error = {0};

    assert_ok(spc_scene_load(&scene, "gen:uniform,n=40,extent=6", &error),
              error.text);
    return scene;
}

static void run_layer(const char *text)
{
    harness r;

    harness_open(&r, open_ctx("cpu", suite_database(), NULL), text,
                 "gen:uniform,n=40,extent=6");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_JIT),
              spc_ctx_error(r.ctx));
    spc__sample_source source = {.scene = r.scene};
    spc__sample_options options = {7, true, 2, NULL, 0};
    spc__tested tested = {0};
    spc__verdict verdict;
    spc_error error = {0};
    assert_ok(
        spc__sample_init(&r.sample, &r.conv, &source, 1, &options, &error),
        error.text);
    assert_ok(spc__fixture_create(&r.fixture, r.ctx, &r.sample),
              spc_ctx_error(r.ctx));
    assert_ok(spc__gate_enter(&tested, r.fixture, r.plan),
              spc_ctx_error(r.ctx));
    spc__gate_verify(&verdict, r.fixture, &tested);
    ck_assert_msg(verdict.status == SPC__TRIAL_OK, "%s: %s", text,
                  verdict.note);
    spc__gate_leave(&tested, r.fixture);
    harness_close(&r);
}

static void run_feature(const char *text)
{
    spc_ctx *ctx = open_ctx("cpu", suite_database(), NULL);
    spc_scene *scene = small_scene();
    spc__feature_data draw = {.seed = 1, .integers = true};
    spc__feature_fixture fixture;
    spc_feature feature;
    spc_error error = {0};
    double worst = 0;

    assert_ok(spc_feature_parse(&feature, text, &error), error.text);
    assert_ok(spc__feature_fixture_open(&fixture, ctx, &feature, scene),
              spc_ctx_error(ctx));
    assert_ok(spc__feature_fixture_fill(&fixture, &draw), spc_ctx_error(ctx));
    assert_ok(spc__feature_fixture_clear(&fixture), spc_ctx_error(ctx));
    assert_ok(spc__feature_fixture_run(&fixture, NULL), spc_ctx_error(ctx));
    assert_ok(spc__feature_fixture_check(&fixture, &worst), spc_ctx_error(ctx));
    spc__feature_fixture_release(&fixture);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}

static void run_set(const char *text)
{
    spc_ctx *ctx = open_ctx("cpu", suite_database(), NULL);
    spc_scene *scene = small_scene();
    const spc_scene *const scenes[] = {scene, scene};
    spc_regrouping how;
    spc_error error = {0};

    assert_ok(spc_regrouping_parse(&how, text, &error), error.text);
    assert_ok(spc_regrouping_verify(ctx, &how, scenes, 2, 1),
              spc_ctx_error(ctx));
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}

START_TEST(an_example_runs)
{
    const spc_operator_info *of = spc_operators(_i);

    if (!suite_takes(_i))
        return;
    if (strcmp(of->kind, "convolution") == 0)
        run_layer(of->example);
    else if (strcmp(of->kind, "features") == 0)
        run_feature(of->example);
    else
        run_set(of->example);
}
END_TEST

START_TEST(bad_arguments_of_verifying_have_their_sentence)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    const spc_scene *none[] = {NULL};
    spc_regrouping how = SPC_REGROUPING_INIT;
    spc_feature feature = SPC_FEATURE_INIT;
    double worst;

    ck_assert_int_eq(spc_feature_verify(NULL, NULL, &feature, NULL, 0, 1),
                     SPC_EINVAL);
    ck_assert_int_eq(spc_feature_verify(&worst, ctx, NULL, NULL, 0, 1),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "`feature`");
    ck_assert_int_eq(spc_feature_verify(NULL, ctx, &feature, NULL, 0, 1),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "c=0");
    feature.channels = 3;
    feature.activation = SPC_ACT_RELU;
    ck_assert_int_eq(spc_feature_verify(NULL, ctx, &feature, none, 1, 1),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "scene 1 of 1 is NULL");
    ck_assert_int_eq(spc_regrouping_verify(NULL, &how, NULL, 0, 1), SPC_EINVAL);
    ck_assert_int_eq(spc_regrouping_verify(ctx, NULL, NULL, 0, 1), SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "`how`");
    ck_assert_int_eq(spc_regrouping_verify(ctx, &how, NULL, -1, 1), SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "-1 scenes");
    how.split[1] = 0;
    ck_assert_int_eq(spc_regrouping_verify(ctx, &how, NULL, 0, 1), SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "split 0 along y");
    spc_ctx_free(ctx);
}
END_TEST

/* ---- the matrix of verify --all ------------------------------------------ */

static matrix_kind matrix_of(const spc_operator_info *of)
{
    return strcmp(of->kind, "convolution") == 0 ? MATRIX_LAYERS
           : strcmp(of->kind, "features") == 0  ? MATRIX_FEATURES
                                                : MATRIX_SETS;
}

/* True if the row begins with the operator's name. "linear" is written as subm
 * with one offset. */
static bool is_row_of(const char *row, const spc_operator_info *of)
{
    size_t length = strcspn(of->name, "=|");

    if (strcmp(of->name, "linear") == 0)
        return strstr(row, ",k=1,") != NULL;
    return strncmp(row, of->name, length) == 0 &&
           (row[length] == ',' || row[length] == '=' || row[length] == '\0');
}

START_TEST(every_operator_is_in_the_matrix)
{
    const spc_operator_info *of = spc_operators(_i);
    matrix_kind kind = matrix_of(of);
    int found = 0;

    for (int i = 0; i < matrix_rows(kind); i++) {
        char row[TEXT_BYTES];
        if (matrix_row(row, sizeof(row), kind, i, NULL))
            found += is_row_of(row, of);
    }
    ck_assert_msg(found > 0, "%s is nowhere", of->name);
}
END_TEST

/* Checks that no row refuses a type that all convolutions support, and that
 * every other type has some rows. */
START_TEST(every_type_is_in_the_matrix)
{
    int rows[16] = {0}, refused[16] = {0};
    spc_error said = {0};

    for (int i = 0; i < matrix_rows(MATRIX_LAYERS); i++) {
        char row[TEXT_BYTES];
        bool taken = matrix_row(row, sizeof(row), MATRIX_LAYERS, i, &said);
        for (int t = 0; spc_dtype_name((spc_dtype)t) != NULL; t++) {
            char word[40];
            snprintf(word, sizeof(word), "dtype=%s",
                     spc_dtype_name((spc_dtype)t));
            if (strstr(row, word) != NULL)
                (taken ? rows : refused)[t]++;
        }
    }
    for (int t = 0; spc_dtype_name((spc_dtype)t) != NULL; t++)
        ck_assert_int_gt(rows[t], 0);
    for (int t = 0; t <= SPC_BF16; t++)
        ck_assert_msg(refused[t] == 0, "%s", said.text);
}
END_TEST

/* Checks sizes that break tiles: around warps and tiles, several batch
 * elements, and 64-bit keys. */
START_TEST(awkward_sizes_are_in_the_matrix)
{
    static const int sizes[] = {2, 31, 32, 33, 127, 128, 129, 500};
    bool found[LENGTH(sizes)] = {false}, batches = false, wide = false;

    for (int s = 0; matrix_scene(s) != NULL; s++) {
        spc_scene *scene = NULL;
        spc_error failed = {0};
        assert_ok(spc_scene_load(&scene, matrix_scene(s), &failed),
                  failed.text);
        int64_t rows = spc_scene_rows(scene);
        const int32_t *last = spc_scene_coords(scene) + 4 * (rows - 1);
        for (int i = 0; i < LENGTH(sizes); i++)
            found[i] |= rows == sizes[i];
        batches |= last[0] == 2;
        wide |= last[1] > 1 << 14;
        spc_scene_free(scene);
    }
    for (int i = 0; i < LENGTH(sizes); i++)
        ck_assert_msg(found[i], "no scene has %d voxels", sizes[i]);
    ck_assert(batches && wide);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static void add(Suite *suite, const char *name, const TTest *test)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test, 0, operator_count());
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    suite_sample(4); /* runs a sample, as examples are compiled */
    Suite *suite = suite_create("words");

    add(suite, "words", an_operator_takes_its_words_and_no_others);
    add(suite, "table", no_word_is_left_out);
    add(suite, "bad", a_bad_value_has_its_sentence);
    add(suite, "missing", what_is_missing_is_named);
    add(suite, "defaults", a_default_is_what_is_listed);
    add(suite, "form", a_text_is_held_to_its_form);
    add(suite, "noise", nobody_stumbles_over_noise);
    add(suite, "members",
        members_of_an_operator_are_taken_and_written_or_refused);
    add(suite, "examples", an_example_runs);
    add(suite, "operators", every_operator_is_in_the_matrix);
    TCase *matrix = tcase_create("matrix");
    tcase_add_loop_test(matrix, a_sentence_says_what_would_be_right, 0,
                        LENGTH(sentences));
    tcase_add_loop_test(matrix,
                        members_of_a_layer_are_taken_and_written_or_refused, 0,
                        LENGTH(filled));
    tcase_add_test(matrix, the_longest_list_of_offsets_reads_back);
    tcase_add_test(matrix, a_text_is_the_same_in_every_locale);
    tcase_add_test(matrix, every_type_is_in_the_matrix);
    tcase_add_test(matrix, awkward_sizes_are_in_the_matrix);
    tcase_add_test(matrix, bad_arguments_of_verifying_have_their_sentence);
    suite_add_tcase(suite, matrix);
    return run_suite(suite);
}
