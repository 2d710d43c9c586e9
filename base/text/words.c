/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - lists of name=value by a table. */
#include "base/text/words.h"

#include "base/error.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 63, MOST_NAME = 48 };

/* ---- values -------------------------------------------------------------- */

/* Fails with what a value of this form looks like, and an example of the
 * word. */
static spc_status fail_value(const spc__word *word, spc__span value,
                             spc_error *error)
{
    char right[120] = "";

    if (word->form == SPC__WORD_INT || word->form == SPC__WORD_INT64)
        snprintf(right, sizeof(right), "%" PRId64 " to %" PRId64 " %s",
                 word->least, word->most, word->what);
    if (word->form == SPC__WORD_AXES)
        snprintf(right, sizeof(right),
                 "one number or three, each %" PRId64 " to %" PRId64,
                 word->least, word->most);
    if (word->form == SPC__WORD_REAL)
        snprintf(right, sizeof(right), "a number");
    if (word->form == SPC__WORD_LENGTH)
        snprintf(right, sizeof(right), "a number above 0");
    if (word->form == SPC__WORD_FLAG)
        snprintf(right, sizeof(right), "0 or 1");
    bool has_note = word->form == SPC__WORD_AXES && word->what != NULL;
    return spc__fail(error, SPC_EINVAL, "%s=%.*s: expected %s, as in %s=%s%s%s",
                     word->name, SPC__SPAN(value), right, word->name,
                     word->example, has_note ? "; " : "",
                     has_note ? word->what : "");
}

/* Reads an int or an int64_t in the word's range. */
static bool read_integer(void *field, const spc__word *word, spc__span value)
{
    int64_t number;

    if (!spc__scan_integer(&number, value, word->least, word->most))
        return false;
    if (word->form == SPC__WORD_INT)
        *(int *)field = (int)number;
    else
        *(int64_t *)field = number;
    return true;
}

/* A number that is too small for a float would become 0, which is another
 * value. */
static bool read_real(void *field, spc__span value)
{
    double number;

    if (!spc__scan_real(&number, value))
        return false;
    *(float *)field = (float)number;
    return isfinite((float)number) && (number == 0 || (float)number != 0);
}

/* Reads one of the word's names and stores its number. */
static spc_status read_name(void *field, const spc__word *word, spc__span value,
                            spc_error *error)
{
    const char *what = word->what != NULL ? word->what : word->name;
    int first = (int)word->least, index;

    /* The first names may have no word, such as a default. */
    if ((index = spc__name_find(word->names + first, value)) < 0)
        return spc__fail_unknown(error, what, value, word->names + first);
    index += first;
    memcpy(field, &index, sizeof(index)); /* an enum has the size of an int */
    return SPC_OK;
}

/* Reads the value of a word into its field, by the word's form. */
static spc_status read_value(void *field, const spc__word *word,
                             spc__span value, spc_error *error)
{
    bool good = false;

    switch (word->form) {
    case SPC__WORD_INT:
    case SPC__WORD_INT64:
        good = read_integer(field, word, value);
        break;
    case SPC__WORD_AXES:
        good = spc__scan_axes(field, value, word->least, word->most);
        break;
    case SPC__WORD_FLAG:
        good = spc__span_is(value, "0") || spc__span_is(value, "1");
        *(bool *)field = good && value.at[0] == '1';
        break;
    case SPC__WORD_REAL:
        good = read_real(field, value);
        break;
    case SPC__WORD_LENGTH:
        good = read_real(field, value) && *(float *)field > 0;
        break;
    case SPC__WORD_NAME:
        return read_name(field, word, value, error);
    case SPC__WORD_OWN:
        return word->read(field, value, error);
    }
    return good ? SPC_OK : fail_value(word, value, error);
}

/* ---- words --------------------------------------------------------------- */

spc_status spc__word_list_next(spc__span *out, const char *text,
                               spc__span *rest, spc_error *error)
{
    size_t position = (size_t)(rest->at - text);
    spc__span name, value;

    *out = spc__scan_part(rest, ',');
    spc__scan_pair(&name, &value, *out);
    if (out->length == 0)
        return spc__fail(error, SPC_EINVAL,
                         "an empty word at position %zu: words are separated "
                         "by one comma, with none at the end",
                         position);
    /* Only the name: the value may be a list of offsets of any length. */
    if (name.length > MOST_NAME)
        return spc__fail(error, SPC_EINVAL,
                         "the word '%.20s...' at position %zu is too long",
                         out->at, position);
    return SPC_OK;
}

static bool is_allowed(const spc__word_list *words, const spc__word *word)
{
    return word->only == 0 || (word->only & words->kind) != 0;
}

/* Lists the words of this kind of text. */
static void list_names(const char *names[MOST_ROWS + 1],
                       const spc__word_list *words)
{
    int count = 0;

    for (const spc__word *w = words->table; w->name != NULL; w++)
        if (is_allowed(words, w))
            names[count++] = w->name;
    names[count] = NULL;
}

/* Returns NULL for a word that this kind of text does not have. */
static const spc__word *find_word(const spc__word_list *words, spc__span name)
{
    for (const spc__word *w = words->table; w->name != NULL; w++)
        if (is_allowed(words, w) && spc__span_is(name, w->name))
            return w;
    return NULL;
}

/* Reads "name=value" by the table, and refuses a word that was there before. */
static spc_status read_word(void *out, spc__word_list *words, spc__span text,
                            spc_error *error)
{
    const char *names[MOST_ROWS + 1];
    spc__span name, value;

    spc__scan_pair(&name, &value, text);
    const spc__word *word = find_word(words, name);
    list_names(names, words);
    if (names[0] == NULL)
        return spc__fail(error, SPC_EINVAL, "'%s' has no words: found '%.*s'",
                         words->head, SPC__SPAN(name));
    if (word == NULL)
        return spc__fail_unknown(error, "word", name, names);
    if (value.at == NULL)
        return spc__fail(error, SPC_EINVAL, "'%s' needs a value, as in %s=%s",
                         word->name, word->name, word->example);
    /* Numbers rows and not names: one name may have several rows for different
     * kinds of text. */
    uint64_t bit = (uint64_t)1 << (word - words->table);
    if (words->seen & bit)
        return spc__fail(error, SPC_EINVAL, "'%s' is given twice", word->name);
    words->seen |= bit;
    return read_value((char *)out + word->at, word, value, error);
}

spc_status spc__word_list_read(void *out, spc__word_list *words,
                               const char *text, spc__span rest,
                               spc_error *error)
{
    spc_status status = SPC_OK;

    while (rest.at != NULL && status == SPC_OK) {
        spc__span word;
        if ((status = spc__word_list_next(&word, text, &rest, error)) == SPC_OK)
            status = read_word(out, words, word, error);
    }
    if (status != SPC_OK)
        return status;
    for (const spc__word *w = words->table; w->name != NULL; w++)
        if (w->need & words->kind && !spc__word_list_has(words, w->name))
            return spc__word_list_lacks(words, w->name, error);
    return SPC_OK;
}

bool spc__word_list_has(const spc__word_list *words, const char *name)
{
    for (int i = 0; words->table[i].name != NULL; i++)
        if (words->seen >> i & 1 && strcmp(words->table[i].name, name) == 0)
            return true;
    return false;
}

spc_status spc__word_list_lacks(const spc__word_list *words, const char *name,
                                spc_error *error)
{
    return spc__fail(error, SPC_EINVAL, "'%s' is missing; example: %s", name,
                     words->example);
}

spc_status spc__word_list_excludes(const spc__word_list *words, const char *one,
                                   const char *other, const char *why,
                                   spc_error *error)
{
    if (!spc__word_list_has(words, one) || !spc__word_list_has(words, other))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL, "'%s' and '%s' are both given: %s", one,
                     other, why);
}
