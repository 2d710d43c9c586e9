/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - files of text with a row of numbers in each line. */
#ifndef SPC_LAB_LINES_H
#define SPC_LAB_LINES_H

#include "base/text/scan.h"
#include "spc/status.h"

typedef struct spc__lines {
    const char *path;
    const char *start, *at, *end; /* the text, and the read position */
    int64_t line;                 /* that was taken last, from 1 */
} spc__lines;

/* Takes the next line, without its end; false behind the last. */
bool spc__lines_next(spc__lines *lines, spc__span *out);

/* Takes the next word of a line. Words end at blanks, tabs, commas and
 * semicolons; quotes around one are dropped. Empty behind the last. */
spc__span spc__lines_word(spc__span *rest);
int spc__lines_count(spc__span line);

/* Reads exactly `count` numbers, of which the first `most` are stored.
 * SPC_EFORMAT names the line and the word. */
spc_status spc__lines_numbers(double *out, int most, int64_t count,
                              const spc__lines *lines, spc__span line,
                              spc_error *error);

/* The column of x, y, z (0, 1, 2) of a name in letters of any case; -1: of none
 * of them. */
int spc__axis_of(spc__span name);

#endif
