/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - files of text with a row of numbers in each line. */
#include "lab/scene/lines.h"

#include "base/error.h"
#include "base/plural.h"
#include <string.h>

bool spc__lines_next(spc__lines *lines, spc__span *out)
{
    if (lines->at >= lines->end)
        return false;
    size_t left = (size_t)(lines->end - lines->at);
    const char *stop = memchr(lines->at, '\n', left);
    out->at = lines->at;
    out->length = stop != NULL ? (size_t)(stop - lines->at) : left;
    lines->at += out->length + (stop != NULL);
    lines->line++;
    if (out->length > 0 && out->at[out->length - 1] == '\r')
        out->length--;
    return true;
}

static bool is_separator(char c)
{
    return c == ' ' || c == '\t' || c == ',' || c == ';';
}

spc__span spc__lines_word(spc__span *rest)
{
    spc__span word;

    while (rest->length > 0 && is_separator(*rest->at))
        rest->at++, rest->length--;
    word = (spc__span){rest->at, 0};
    while (word.length < rest->length && !is_separator(rest->at[word.length]))
        word.length++;
    rest->at += word.length;
    rest->length -= word.length;
    if (word.length >= 2 && word.at[0] == '"' &&
        word.at[word.length - 1] == '"')
        word = (spc__span){word.at + 1, word.length - 2};
    return word;
}

int spc__lines_count(spc__span line)
{
    int count = 0;

    while (spc__lines_word(&line).length > 0)
        count++;
    return count;
}

spc_status spc__lines_numbers(double *out, int most, int64_t count,
                              const spc__lines *lines, spc__span line,
                              spc_error *error)
{
    int64_t found = 0;
    double ignored;

    for (;; found++) {
        spc__span word = spc__lines_word(&line);
        if (word.length == 0)
            break;
        if (!spc__scan_real(found < most ? &out[found] : &ignored, word))
            return spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': '%.*s' in line %lld is not a "
                             "number",
                             lines->path, SPC__SPAN(word),
                             (long long)lines->line);
    }
    if (found != count)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': line %lld has %s; a row has %lld",
                         lines->path, (long long)lines->line,
                         spc__count(found, "number"), (long long)count);
    return SPC_OK;
}

int spc__axis_of(spc__span name)
{
    if (name.length != 1)
        return -1;
    static const char letters[] = "xXyYzZ";
    const char *found = strchr(letters, name.at[0]);
    return found != NULL && *found != 0 ? (int)(found - letters) / 2 : -1;
}
