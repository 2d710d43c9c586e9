/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - writes the records of a file as text. */
#include "cache/exchange/exchange.h"

#include "base/error.h"
#include "base/text/names.h"
#include "cache/exchange/records.h"
#include "cache/exchange/table_write.h"
#include "cache/network/network_text.h"

static const char heading[] =
    "# spctune records 2: spctune db import reads them\n";

typedef struct output {
    spc_status (*write)(const char *text, size_t bytes, void *payload);
    void *payload;
    spc__export what;
    spc__buf line;
    int64_t *damaged;
} output;

/* A trial and the choice that may refer to it, both in the order of their
 * problems. */
typedef struct walk {
    spc__record_cursor trials, choices;
    spc__record trial, choice;
    bool has_choice;
} walk;

static spc_status next_choice(walk *w, const output *out, spc_error *error)
{
    spc_status status =
        spc__cursor_next(&w->has_choice, &w->choice, &w->choices, error);

    if (out->what == SPC__EXPORT_CHOICES && w->has_choice)
        spc__record_blank(&w->choice, "host");
    return status;
}

/* Finds the choice of this trial. Compares their problem and candidate, which
 * are the first fields of both. */
static spc_status match_choice(bool *is_chosen, walk *w, const output *out,
                               spc_error *error)
{
    spc_status status = SPC_OK;

    *is_chosen = false;
    while (status == SPC_OK && w->has_choice) {
        int order = spc__record_compare_problems(&w->choice, &w->trial);
        if (order < 0) {
            status = next_choice(w, out, error);
            continue;
        }
        *is_chosen =
            order == 0 && spc__record_same_candidate(&w->choice, &w->trial);
        break;
    }
    return status;
}

/* Adds the trials with their choices. Both come in the order of problems. */
static spc_status add_trials(spc__table_writer *table, walk *w,
                             const output *out, spc_error *error)
{
    bool more = true, chosen;
    spc_status status = next_choice(w, out, error);

    while (status == SPC_OK) {
        status = spc__cursor_next(&more, &w->trial, &w->trials, error);
        if (status != SPC_OK || !more)
            break;
        if (out->what == SPC__EXPORT_CHOICES)
            spc__record_blank(&w->trial, "host");
        status = match_choice(&chosen, w, out, error);
        if (status == SPC_OK && (chosen || out->what != SPC__EXPORT_CHOICES))
            status = spc__table_add(table, &w->trial,
                                    chosen ? &w->choice : NULL, error);
    }
    return status;
}

/* Reads trials and choices once, for one of the writer's passes. */
static spc_status add_pass(spc__table_writer *table, output *out,
                           spc__layer *layer, spc_error *error)
{
    walk w = {0};
    spc_status status = spc__cursor_open(&w.trials, layer, SPC__TRIAL, error);

    if (status == SPC_OK)
        status = spc__cursor_open(&w.choices, layer, SPC__CHOICE, error);
    if (status == SPC_OK)
        status = add_trials(table, &w, out, error);
    /* Each pass meets the same damaged records: they are counted once. */
    if (table->pass == SPC__TABLE_ROWS)
        *out->damaged += w.trials.damaged + w.choices.damaged;
    spc__cursor_close(&w.trials);
    spc__cursor_close(&w.choices);
    spc__record_release(&w.trial);
    spc__record_release(&w.choice);
    return status == SPC_OK ? spc__table_next(table, error) : status;
}

/* Writes the table. The writer sees all records once for each pass. */
static spc_status export_table(output *out, spc__layer *layer, spc_error *error)
{
    spc__table_writer table = {.write = out->write, .payload = out->payload};
    spc_status status = SPC_OK;

    while (status == SPC_OK && table.pass < SPC__TABLE_PASSES)
        status = add_pass(&table, out, layer, error);
    spc__table_writer_release(&table);
    return status;
}

/* Writes a record as a line of its own. */
static spc_status write_record(output *out, spc__record *record,
                               spc_error *error)
{
    spc__buf_clear(&out->line);
    spc__record_format(&out->line, record, out->what == SPC__EXPORT_CODE);
    spc__buf_puts(&out->line, "\n");
    if (out->line.failed)
        return spc__fail_memory(error, record->code.length);
    spc_status status =
        out->write(out->line.data, out->line.length, out->payload);
    return status == SPC_OK
               ? status
               : spc__fail(error, status, "the export cannot be written");
}

/* True if the fact holds for all devices of a class. */
static bool is_of_class(const spc__record *fact)
{
    static const char *const names[] = {SPC__FACT_MULTIPROCESSORS,
                                        SPC__FACT_SHARED_BLOCK,
                                        SPC__FACT_MEMORY_GBPS, NULL};

    return spc__name_index(names, spc__record_value(fact, 1)) >= 0;
}

/* Writes all intact records of a kind, and counts the damaged ones. */
static spc_status export_kind(output *out, spc__layer *layer, spc__kind kind,
                              spc_error *error)
{
    spc__record_cursor cursor;
    spc__record record = {0};
    bool more = true;
    spc_status status = spc__cursor_open(&cursor, layer, kind, error);

    while (status == SPC_OK && more) {
        status = spc__cursor_next(&more, &record, &cursor, error);
        if (status == SPC_OK && more &&
            (out->what != SPC__EXPORT_CHOICES || is_of_class(&record)))
            status = write_record(out, &record, error);
    }
    *out->damaged += cursor.damaged;
    spc__cursor_close(&cursor);
    spc__record_release(&record);
    return status;
}

/* Measured facts describe one machine, so the receiver of choices measures its
 * own. Code is useless without its bytes, and weights are binary, like code. */
spc_status spc__cache_export(spc__cache *cache, spc__export what,
                             spc_status (*write)(const char *text, size_t bytes,
                                                 void *payload),
                             void *payload, int64_t *damaged, spc_error *error)
{
    output out = {write, payload, what, SPC__BUF_INIT, damaged};
    spc__layer *layer = &cache->layers[0];

    *damaged = 0;
    /* All passes must see the same records, so the read lock is held until the
     * end. */
    spc__cache_begin_reading(cache);
    spc_status status = write(heading, sizeof(heading) - 1, payload);
    if (status == SPC_OK)
        status = export_table(&out, layer, error);
    if (status == SPC_OK)
        status = export_kind(&out, layer, SPC__FACT, error);
    if (status == SPC_OK && what == SPC__EXPORT_CODE)
        status = export_kind(&out, layer, SPC__CODE, error);
    if (status == SPC_OK && what == SPC__EXPORT_CODE)
        status = spc__networks_write(layer, write, payload, damaged, error);
    spc__cache_end_reading(cache);
    spc__buf_release(&out.line);
    return status;
}
