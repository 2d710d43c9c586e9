/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - files of text with a row of numbers in each line. */
#ifndef SPC_LAB_LINES_H
#define SPC_LAB_LINES_H

#include "base/text/scan.h"
#include "spc/status.h"

typedef struct spc__lines {
    const char *path;
    const char *start, *at, *end; /* the text, and the read position */
    int64_t line;                 /* number of the last line, from 1 */
} spc__lines;

/* Reads the next line without its end; false after the last line. */
bool spc__lines_next(spc__lines *lines, spc__span *out);

/* Takes the next word of a line. Words end at blanks, tabs, commas and
 * semicolons; quotes around a word are dropped. The word is empty after the
 * last one. */
spc__span spc__lines_word(spc__span *rest);
int spc__lines_count(spc__span line);

/* Reads exactly `count` numbers, of which the first `most` are stored.
 * SPC_EFORMAT names the line and the word. */
spc_status spc__lines_numbers(double *out, int most, int64_t count,
                              const spc__lines *lines, spc__span line,
                              spc_error *error);

/* Returns 0, 1 or 2 for the names x, y and z in either case, and -1 for other
 * names. */
int spc__axis_of(spc__span name);

#endif
