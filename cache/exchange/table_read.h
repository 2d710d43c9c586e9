/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_read.h - reads the table of an export (table.h).
 *
 * The lines 'template' and 'note' of the complete text come first, since rows
 * may refer to notes below them.
 */
#ifndef SPC_CACHE_TABLE_READ_H
#define SPC_CACHE_TABLE_READ_H

#include "cache/exchange/table.h"
#include "cache/exchange/texts.h"

/* A cell of a note, in the text. */
typedef struct spc__table_note {
    const char *at, *end;
} spc__table_note;

/* A zeroed reader is empty. */
typedef struct spc__table_reader {
    spc__table_template *templates;
    int template_count;
    spc__texts keys; /* keys of notes */
    spc__table_note *notes;
    spc__buf above[SPC__TABLE_ABOVE];
    spc__buf trial[SPC__RECORD_FIELDS], chosen[SPC__TABLE_CHOSEN];
    spc__buf cell;
} spc__table_reader;

void spc__table_reader_release(spc__table_reader *reader);

/* Reads a line 'template' or 'note'. The text must outlive the reader. */
spc_status spc__table_define(spc__table_reader *reader, const char *line,
                             size_t length, spc_error *error);

/* Reads a line 'for'. If it cannot be read, no field is given any more, so that
 * the rows below are not read as those of another layer. */
spc_status spc__table_set(spc__table_reader *reader, const char *line,
                          size_t length, spc_error *error);

/* Reads and checks a row, whose second line is in `details`, as a trial or a
 * choice. */
spc_status spc__table_read(spc__record *out, spc__table_reader *reader,
                           spc__kind kind, const char *line, size_t length,
                           const char *details, size_t details_length,
                           spc_error *error);

#endif
