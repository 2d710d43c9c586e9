/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c - takes texts apart. */
#include "base/text/scan.h"

#include "base/number.h"
#include <string.h>

spc__span spc__span_of(const char *text)
{
    return (spc__span){text, strlen(text)};
}

bool spc__span_is(spc__span span, const char *text)
{
    return strlen(text) == span.length &&
           memcmp(span.at, text, span.length) == 0;
}

spc__span spc__scan_part(spc__span *rest, char stop)
{
    const char *end = memchr(rest->at, stop, rest->length);
    spc__span part = *rest;

    /* NULL marks the end, since an empty last part ("a,") is a part as well. */
    *rest = (spc__span){NULL, 0};
    if (end == NULL)
        return part;
    size_t length = (size_t)(end - part.at);
    *rest = (spc__span){end + 1, part.length - length - 1};
    return (spc__span){part.at, length};
}

spc__span spc__scan_word(spc__span *rest)
{
    const char *end = rest->at + rest->length, *at = rest->at;

    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    spc__span word = {at, 0};
    while (at < end && *at != ' ' && *at != '\t') {
        word.length++;
        at++;
    }
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    *rest = (spc__span){at < end ? at : NULL, (size_t)(end - at)};
    return word;
}

void spc__scan_pair(spc__span *name, spc__span *value, spc__span word)
{
    const char *equals = memchr(word.at, '=', word.length);

    *name = word;
    *value = (spc__span){NULL, 0};
    if (equals == NULL)
        return;
    name->length = (size_t)(equals - word.at);
    *value = (spc__span){equals + 1, word.length - name->length - 1};
}

bool spc__scan_unsigned(uint64_t *out, spc__span span, uint64_t most)
{
    uint64_t value = 0;

    for (size_t i = 0; i < span.length; i++) {
        unsigned digit = (unsigned)(span.at[i] - '0');
        /* Tests the limit before the product is formed, so that nothing
         * overflows. */
        if (digit > 9 || value > (most - digit) / 10 || digit > most)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return span.length > 0;
}

bool spc__scan_integer(int64_t *out, spc__span span, int64_t least,
                       int64_t most)
{
    bool minus = least < 0 && span.length > 0 && span.at[0] == '-';
    spc__span digits = {span.at + minus, span.length - minus};
    uint64_t value;

    /* One more for a minus: INT64_MIN has no positive counterpart. */
    if (!spc__scan_unsigned(&value, digits, (uint64_t)INT64_MAX + minus))
        return false;
    *out = (int64_t)(minus ? -value : value); /* also of INT64_MIN */
    return *out >= least && *out <= most;
}

bool spc__scan_share(int *index, int *count, spc__span span, int most)
{
    spc__span rest = span, first = spc__scan_part(&rest, '/');
    int64_t k, n;

    if (rest.at == NULL || !spc__scan_integer(&n, rest, 1, most) ||
        !spc__scan_integer(&k, first, 1, n))
        return false;
    *index = (int)k - 1;
    *count = (int)n;
    return true;
}

int spc__scan_integers(int64_t *out, int count, spc__span span, char stop,
                       int64_t least, int64_t most)
{
    int read = 0;

    for (spc__span rest = span; rest.at != NULL; read++)
        if (read == count ||
            !spc__scan_integer(&out[read], spc__scan_part(&rest, stop), least,
                               most))
            return 0;
    return read;
}

bool spc__scan_axes(int out[3], spc__span span, int64_t least, int64_t most)
{
    int64_t axes[3];
    int count = spc__scan_integers(axes, 3, span, 'x', least, most);

    for (int i = 0; i < 3 && count > 0; i++)
        out[i] = (int)axes[count == 1 ? 0 : i];
    return count == 1 || count == 3;
}

bool spc__scan_real(double *out, spc__span span)
{
    /* strtod() needs a final zero, which a span does not have. */
    char text[64];

    if (span.length >= sizeof(text))
        return false;
    memcpy(text, span.at, span.length);
    text[span.length] = '\0';
    return spc__number_read(out, text);
}
