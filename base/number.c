/* number.c - decimal numbers in the C locale. */
#include "number.h"

#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* The C library has it ready: nothing is loaded, and this does not fail. */
static locale_t plain_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool spc__number_read(double *out, const char *text)
{
    char *stop;

    if (text[0] == '\0' || isspace((unsigned char)text[0]))
        return false;
    locale_t plain = plain_locale();
    *out = strtod_l(text, &stop, plain);
    freelocale(plain);
    return *stop == '\0';
}

void spc__number_print(char *out, size_t bytes, int digits, double value)
{
    locale_t plain = plain_locale();
    locale_t before = uselocale(plain);

    snprintf(out, bytes, "%.*g", digits, value);
    uselocale(before);
    freelocale(plain);
}

void spc__number_print_exact(char *out, size_t bytes, int digits, double value)
{
    enum { ENOUGH = 17 }; /* for every double */
    double read;

    do
        spc__number_print(out, bytes, digits, value);
    while (!(spc__number_read(&read, out) && read == value) &&
           ++digits <= ENOUGH);
}
