/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - decimal numbers as text, always with a point, whatever the host's
 * locale.
 */
#ifndef SPC_NUMBER_H
#define SPC_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* Reads `text`. Returns false unless all of it is one decimal number. */
bool spc__number_read(double *out, const char *text);

/* Writes `value` with `digits` significant digits, as "%g" does. */
void spc__number_print(char *out, size_t bytes, int digits, double value);

/* Like spc__number_print, but uses the fewest digits, from `digits` on, that
 * read back as `value`. */
void spc__number_print_exact(char *out, size_t bytes, int digits, double value);
void spc__number_print_float(char *out, size_t bytes, int digits, float value);

/* Like spc__number_print_exact, but without the '+' of an exponent, which is
 * not allowed in an attribute's value. */
void spc__number_print_word(char *out, size_t bytes, int digits, float value);

#endif
