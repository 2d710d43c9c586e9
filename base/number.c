/* SPDX-License-Identifier: Apache-2.0 */
/* number.c - decimal numbers in the C locale. */
#include "base/number.h"

#include <ctype.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The C library has this locale built in: nothing is loaded and it cannot
 * fail. */
static locale_t plain_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/*
 * Fast path for numbers of up to 15 digits with a point, as in most records.
 * The digits form an integer below 2^53, and a double holds the power of ten
 * exactly. The quotient is therefore rounded only once and equals the result of
 * strtod(). Returns false if strtod() is needed.
 */
static bool read_short(double *out, const char *text)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3, 1e4,  1e5,
                                    1e6,  1e7,  1e8,  1e9, 1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15};
    const char *at = text + (text[0] == '-');
    int64_t digits = 0;
    int count = 0, behind = 0;
    bool point = false;

    for (; count < 16; at++) {
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        if (*at < '0' || *at > '9')
            break;
        digits = 10 * digits + (*at - '0');
        count++;
        behind += point;
    }
    if (*at != '\0' || count == 0 || count > 15)
        return false;
    double value = (double)digits / powers[behind];
    *out = text[0] == '-' ? -value : value;
    return true;
}

bool spc__number_read(double *out, const char *text)
{
    char *stop;

    if (text[0] == '\0' || isspace((unsigned char)text[0]) ||
        strpbrk(text, "xX") != NULL) /* in "0x10" the x is a separator, not
                                      * hexadecimal */
        return false;
    if (read_short(out, text))
        return true;
    locale_t plain = plain_locale();
    *out = strtod_l(text, &stop, plain);
    freelocale(plain);
    return *stop == '\0';
}

void spc__number_print(char *out, size_t bytes, int digits, double value)
{
    locale_t plain = plain_locale();
    /* The host's locale may write a comma for the point. uselocale() changes
     * it for this thread only. */
    locale_t before = uselocale(plain);

    snprintf(out, bytes, "%.*g", digits, value);
    uselocale(before);
    freelocale(plain);
}

void spc__number_print_exact(char *out, size_t bytes, int digits, double value)
{
    enum { ENOUGH = 17 }; /* exact for every double */
    double read;

    do
        spc__number_print(out, bytes, digits, value);
    while (!(spc__number_read(&read, out) && read == value) &&
           ++digits <= ENOUGH);
}

void spc__number_print_float(char *out, size_t bytes, int digits, float value)
{
    enum { ENOUGH = 9 }; /* exact for every float */
    double read;

    do
        spc__number_print(out, bytes, digits, (double)value);
    while (!(spc__number_read(&read, out) && (float)read == value) &&
           ++digits <= ENOUGH);
}

void spc__number_print_word(char *out, size_t bytes, int digits, float value)
{
    spc__number_print_float(out, bytes, digits, value);
    /* An attribute's value may not contain a plus. */
    char *plus = strchr(out, '+');
    if (plus != NULL)
        memmove(plus, plus + 1, strlen(plus));
}
