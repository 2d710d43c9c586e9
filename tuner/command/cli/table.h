/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - tables for people.
 *
 * A file or a pipe gets every column at its full width, so that programs can
 * rely on the output. A terminal gets what fits: long texts are wrapped, then
 * the less important columns are left out and named below the table, and what
 * is still too wide is printed as one block of lines a row.
 */
#ifndef SPC_CMD_TABLE_H
#define SPC_CMD_TABLE_H

#include "spc/status.h"
#include <stdbool.h>
#include <stdio.h>

enum { TABLE_COLUMNS = 20 };

/* Cells of text; a column is as wide as its widest cell. */
typedef struct table {
    const char *titles[TABLE_COLUMNS];
    bool right[TABLE_COLUMNS]; /* columns of numbers, which are aligned to the
                                * right */
    /* 0: always shown; the highest is left out first */
    int rank[TABLE_COLUMNS];
    int columns;
    char **cells; /* [rows][columns] */
    int rows;
    int at; /* column of the next cell */
    bool failed;
} table;

/*
 * A title that starts with '>' makes a column of numbers. Each '-' at the start
 * lowers a column's importance by one: a narrow terminal first leaves out the
 * columns with the most '-', from the right. The list ends with NULL.
 */
void table_init(table *t, const char *const *titles);
void table_cell(table *t, const char *format, ...) SPC_PRINTF(2, 3);
void table_blank(table *t); /* adds an empty cell */
/* Prints for the width of `to`, without columns that are empty in all rows. */
void table_print(const table *t, FILE *to);
/* The same for lines of `width` columns; 0: unlimited. */
void table_print_width(const table *t, FILE *to, int width);
void table_release(table *t);

/* Microseconds with as many digits as their precision; empty if `us` <= 0. */
void table_us(table *t, double us);

#endif
