/* output.h - tables for people, JSON for programs. */
#ifndef SPC_CMD_OUTPUT_H
#define SPC_CMD_OUTPUT_H

#include "json.h"
#include "spc.h"
#include <stdio.h>

enum { TABLE_COLUMNS = 20 };

/* Cells of text; columns get as wide as their widest cell. */
typedef struct table {
    const char *titles[TABLE_COLUMNS];
    bool right[TABLE_COLUMNS]; /* aligned to the right: numbers */
    int columns;
    char **cells; /* [rows][columns] */
    int rows;
    int at; /* the next cell's column */
    bool failed;
} table;

/* A title that starts with '>' makes a column of numbers. Ends with NULL. */
void table_init(table *t, const char *const *titles);
void table_cell(table *t, const char *format, ...) SPC_PRINTF(2, 3);
void table_blank(table *t); /* an empty cell */
/* Without columns that are empty in all rows. */
void table_print(const table *t, FILE *to);
void table_release(table *t);

/* Microseconds with as many digits as they are worth; empty if `us` <= 0. */
void table_us(table *t, double us);

/* Prints what `json` has written to `text`, with a newline, and frees it. */
spc_status output_json(spc__buf *text);
/* Prints {"error": ...} about cli_last_error(), if nothing else was printed. */
void output_error(void);
/* The member "error" of an object that is open. */
void json_error(spc__json *json, spc_status status, const char *message);

/* "exact", "bucket", "nearest", "default" */
const char *origin_name(spc_origin origin);

#endif
