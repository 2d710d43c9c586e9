/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - decimal numbers as text: with a point, whatever the host's locale
 * says.
 */
#ifndef SPC_NUMBER_H
#define SPC_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* Reads `text`; false if it is not wholly a decimal number. */
bool spc__number_read(double *out, const char *text);

/* Writes `value` with `digits` significant digits, as "%g" does. */
void spc__number_print(char *out, size_t bytes, int digits, double value);

/* The same with as few digits, from `digits` on, as read back as `value`. */
void spc__number_print_exact(char *out, size_t bytes, int digits, double value);
void spc__number_print_float(char *out, size_t bytes, int digits, float value);

/* The same without the '+' of an exponent, which no word of attributes has. */
void spc__number_print_word(char *out, size_t bytes, int digits, float value);

#endif
