/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_write.h - writes trials and choices as a table (table.h).
 *
 * The lines 'template' and the notes depend on all records. Therefore all
 * records are added once for each pass, in the same order.
 */
#ifndef SPC_CACHE_TABLE_WRITE_H
#define SPC_CACHE_TABLE_WRITE_H

#include "cache/exchange/table.h"
#include "cache/exchange/texts.h"

typedef enum spc__table_pass {
    SPC__TABLE_NAMES, /* gather the templates and their attributes */
    SPC__TABLE_NOTES, /* count the texts of cells */
    SPC__TABLE_ROWS,  /* write the rows */
    SPC__TABLE_PASSES
} spc__table_pass;

/* A text that occurs: how often, and the key of its note, if it has one. */
typedef struct spc__table_use {
    int count;
    char key[8];
} spc__table_use;

typedef struct spc__table_writer {
    spc_status (*write)(const char *text, size_t bytes, void *payload);
    void *payload;
    spc__table_pass pass;
    struct spc__table_names *templates;
    int template_count;
    spc__texts values; /* texts of attributes, with their template and field */
    int *value_uses;
    spc__texts texts; /* texts of cells */
    spc__table_use *uses;
    spc__buf above[SPC__TABLE_ABOVE]; /* the last lines 'for' */
    spc__buf line, cell;
} spc__table_writer;

/* {.write = ..., .payload = ...} is ready for the first pass. */
void spc__table_writer_release(spc__table_writer *writer);

/* Ends the pass of the records that were added, and begins the next one. Writes
 * the lines of templates before the rows, and notes after them. */
spc_status spc__table_next(spc__table_writer *writer, spc_error *error);

/* Adds a trial and its choice (NULL: none). */
spc_status spc__table_add(spc__table_writer *writer, const spc__record *trial,
                          const spc__record *choice, spc_error *error);

#endif
