/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - import, merge, diff. */
#include "cache/exchange/exchange.h"

#include "cache/network/network_text.h"

#include "base/error.h"
#include "cache/exchange/records.h"
#include "cache/exchange/table_read.h"
#include <string.h>

/* Counts the fate of a record, and reports it to the caller unless it is an
 * ordinary one. */
static spc_status tell(spc__exchange *exchange, spc__fate fate,
                       const spc__record *record, const char *reason,
                       int64_t line)
{
    spc__buf key = SPC__BUF_INIT;
    spc_status status = SPC_OK;

    exchange->counts[fate]++;
    if (fate <= SPC__FATE_KNOWN || exchange->each == NULL)
        return SPC_OK;
    if (record != NULL)
        spc__record_format_key(&key, record);
    status = exchange->each(fate, spc__buf_text(&key), reason, line,
                            exchange->payload);
    spc__buf_release(&key);
    return status;
}

/* Offers a record to the file and reports its fate. */
static spc_status take(spc__exchange *exchange, spc__intake *intake,
                       const spc__record *record, int64_t line,
                       spc_error *error)
{
    static const char *const reasons[] = {
        [SPC__FATE_ACCEPTED] = "",
        [SPC__FATE_KNOWN] = "",
        [SPC__FATE_OLDER] = "the existing one is newer",
        [SPC__FATE_STALE] = "its template has changed since: it is a hint",
        [SPC__FATE_REJECTED] = "",
    };
    spc__fate fate = SPC__FATE_REJECTED;
    spc_error why = {0};
    spc_status status = spc__intake_take(&fate, &why, intake, record, error);

    if (status != SPC_OK)
        return status;
    return tell(exchange, fate, record,
                fate == SPC__FATE_REJECTED ? why.text : reasons[fate], line);
}

/* Opens the intake, which begins a transaction. */
static spc_status begin(spc__intake *intake, spc__cache *cache,
                        const spc__exchange *exchange, spc_error *error)
{
    *intake = (spc__intake){.trusts = exchange->trusts,
                            .is_stale = exchange->is_stale,
                            .payload = exchange->stale_payload};
    return spc__intake_begin(intake, cache, error);
}

/* Reports a network like tell(). It has a name instead of the fields of a
 * key. */
static spc_status tell_network_at(spc__exchange *exchange, spc__fate fate,
                                  const char *name, const char *reason,
                                  int64_t line)
{
    spc__buf key = SPC__BUF_INIT;
    spc_status status = SPC_OK;

    exchange->counts[fate]++;
    spc__buf_printf(&key, "network %s", name);
    if (fate > SPC__FATE_KNOWN && exchange->each != NULL)
        status = exchange->each(fate, spc__buf_text(&key), reason, line,
                                exchange->payload);
    spc__buf_release(&key);
    return status;
}

static spc_status tell_network(spc__fate fate, const char *name,
                               const char *reason, void *payload)
{
    return tell_network_at(payload, fate, name, reason, 0);
}

/* ---- import -------------------------------------------------------------- */

/* A text is read three times: notes may stand anywhere, and choices refer to
 * trials at any position. */
typedef enum text_step { DEFINITIONS, TRIALS, CHOICES, STEPS } text_step;

typedef struct text_pass {
    const char *at, *end;
    int64_t line;
    int below; /* lines read after the last line 'for' */
    text_step step;
    spc__table_reader *table;
} text_pass;

/* A line, and the second line of a row. */
typedef struct text_line {
    const char *start, *details;
    size_t length, details_length;
} text_line;

static void take_line(const char **start, size_t *length, text_pass *pass)
{
    const char *stop = memchr(pass->at, '\n', (size_t)(pass->end - pass->at));

    *start = pass->at;
    *length = (size_t)((stop != NULL ? stop : pass->end) - pass->at);
    /* The text may have been edited on Windows. */
    if (*length > 0 && (*start)[*length - 1] == '\r')
        --*length;
    /* The last line may lack its newline. */
    pass->at = stop != NULL ? stop + 1 : pass->end;
}

/* Finds the next line that is not a remark. *more is false at the end. */
static void next_line(bool *more, text_line *out, text_pass *pass)
{
    *out = (text_line){.details = ""};
    *more = false;
    while (pass->at < pass->end && !*more) {
        take_line(&out->start, &out->length, pass);
        pass->line += 1 + pass->below;
        pass->below = 0;
        *more = out->length > 0 && *out->start != '#';
    }
}

static bool is_of(const text_line *line, const char *word)
{
    size_t length = strlen(word);

    return line->length > length && memcmp(line->start, word, length) == 0;
}

/* Takes the line below a row if it begins with a space. */
static void take_details(text_line *line, text_pass *pass)
{
    if (pass->at == pass->end || *pass->at != ' ')
        return;
    take_line(&line->details, &line->details_length, pass);
    pass->below++;
}

/* A row has no names of fields. */
static bool is_row(const text_line *line)
{
    return (is_of(line, "trial ") && !is_of(line, "trial device=")) ||
           (is_of(line, "choice ") && !is_of(line, "choice device="));
}

/* Reads a line of a table that is not a row. */
static spc_status import_head(spc__exchange *exchange, const text_pass *pass,
                              const text_line *line, spc_error *error)
{
    bool is_for = is_of(line, "for ");
    spc_error why = {0};
    spc_status status = SPC_OK;

    if (is_for && pass->step == TRIALS)
        status = spc__table_set(pass->table, line->start, line->length, &why);
    else if (!is_for && pass->step == DEFINITIONS)
        status =
            spc__table_define(pass->table, line->start, line->length, &why);
    /* Only a lack of memory ends the import; a bad line is reported, and the
     * others are read. */
    if (status == SPC_ENOMEM)
        return spc__fail(error, status, "%s", why.text);
    return status == SPC_OK
               ? status
               : tell(exchange, SPC__FATE_REJECTED, NULL, why.text, pass->line);
}

/* Reports a line that cannot be read. A lack of memory is not a fault of the
 * line. */
static spc_status tell_unread(spc__exchange *exchange, spc_status status,
                              const spc_error *why, int64_t line,
                              spc_error *error)
{
    return status == SPC_ENOMEM
               ? spc__fail(error, status, "%s", why->text)
               : tell(exchange, SPC__FATE_REJECTED, NULL, why->text, line);
}

/* The row of a choice is also that of its trial. */
static spc_status import_row(spc__exchange *exchange, spc__intake *intake,
                             spc__record *record, spc__record *choice,
                             const text_pass *pass, const text_line *line,
                             spc_error *error)
{
    bool is_choice = is_of(line, "choice ");
    spc_error why = {0};
    spc_status status = spc__table_read(
        record, pass->table, SPC__TRIAL, line->start, line->length,
        line->details, line->details_length, &why);

    if (status == SPC_OK && is_choice)
        status = spc__table_read(choice, pass->table, SPC__CHOICE, line->start,
                                 line->length, line->details,
                                 line->details_length, &why);
    if (status != SPC_OK)
        return tell_unread(exchange, status, &why, pass->line, error);
    status = take(exchange, intake, record, pass->line, error);
    return status == SPC_OK && is_choice
               ? take(exchange, intake, choice, pass->line, error)
               : status;
}

/* Imports a line that is complete by itself. */
static spc_status import_line(spc__exchange *exchange, spc__intake *intake,
                              spc__record *record, const text_pass *pass,
                              const text_line *line, spc_error *error)
{
    spc_error why = {0};

    if ((pass->step == CHOICES) != is_of(line, "choice "))
        return SPC_OK;
    spc_status status =
        spc__record_parse(record, line->start, line->length, &why);
    return status == SPC_OK
               ? take(exchange, intake, record, pass->line, error)
               : tell_unread(exchange, status, &why, pass->line, error);
}

/* Imports the network whose line was read, with the parts after it. */
static spc_status import_network(spc__exchange *exchange, spc__intake *intake,
                                 text_pass *pass, const char *start,
                                 spc_error *error)
{
    spc__fate fate;
    spc_error why = {0};
    char name[64];
    int64_t line = pass->line, lines;
    spc_status status = spc__network_read_lines(
        &fate, &why, name, &pass->at, &lines, intake->layer, exchange->trusts,
        start, pass->end, error);

    pass->line += lines - 1;
    return status == SPC_OK
               ? tell_network_at(exchange, fate, name, why.text, line)
               : status;
}

/* Imports a line in the pass to which its kind belongs, and skips it in all
 * others. */
static spc_status import_any(spc__exchange *exchange, spc__intake *intake,
                             spc__record records[2], text_pass *pass,
                             text_line *line, spc_error *error)
{
    bool defines = is_of(line, "note ") || is_of(line, "template ");

    if (is_row(line))
        take_details(line, pass);
    if (defines || is_of(line, "for "))
        return import_head(exchange, pass, line, error);
    if (pass->step == DEFINITIONS)
        return SPC_OK;
    if (is_row(line))
        return pass->step == TRIALS ? import_row(exchange, intake, &records[0],
                                                 &records[1], pass, line, error)
                                    : SPC_OK;
    if (pass->step == TRIALS && is_of(line, "network "))
        return import_network(exchange, intake, pass, line->start, error);
    if (pass->step == CHOICES && is_of(line, "part "))
        return SPC_OK;
    return import_line(exchange, intake, &records[0], pass, line, error);
}

/* Reads the text once. */
static spc_status import_pass(spc__exchange *exchange, spc__intake *intake,
                              text_pass pass, spc_error *error)
{
    spc__record records[2] = {{0}};
    spc_status status = SPC_OK;
    text_line line;
    bool more;

    for (next_line(&more, &line, &pass); more && status == SPC_OK;
         next_line(&more, &line, &pass))
        status = import_any(exchange, intake, records, &pass, &line, error);
    spc__record_release(&records[0]);
    spc__record_release(&records[1]);
    return status;
}

spc_status spc__cache_import(spc__cache *cache, const char *text, size_t bytes,
                             spc__exchange *exchange, spc_error *error)
{
    spc__table_reader table = {0};
    spc__intake intake;
    spc_status status = begin(&intake, cache, exchange, error);

    if (status != SPC_OK)
        return status;
    for (text_step step = 0; step < STEPS && status == SPC_OK; step++)
        status = import_pass(
            exchange, &intake,
            (text_pass){text, text + bytes, 0, 0, step, &table}, error);
    spc__table_reader_release(&table);
    /* A failure rolls back the whole text. */
    return spc__intake_end(&intake, status, error);
}

/* ---- merge --------------------------------------------------------------- */

/* Reports the damaged records of a file, which the cursor has only counted. */
static spc_status tell_damaged(spc__exchange *exchange,
                               const spc__record_cursor *cursor)
{
    static const char reason[] = "damaged or set aside there: spctune db "
                                 "verify lists it";
    spc_status status = SPC_OK;

    for (int64_t i = 0; i < cursor->damaged && status == SPC_OK; i++)
        status = tell(exchange, SPC__FATE_REJECTED, NULL, reason, 0);
    return status;
}

/* Offers all records of a kind. */
static spc_status merge_kind(spc__exchange *exchange, spc__intake *intake,
                             spc__layer *from, spc__kind kind, spc_error *error)
{
    spc__record_cursor cursor;
    spc__record record = {0};
    bool more = true;
    spc_status status = spc__cursor_open(&cursor, from, kind, error);

    while (status == SPC_OK && more) {
        status = spc__cursor_next(&more, &record, &cursor, error);
        if (status == SPC_OK && more)
            status = take(exchange, intake, &record, 0, error);
    }
    if (status == SPC_OK)
        status = tell_damaged(exchange, &cursor);
    spc__cursor_close(&cursor);
    spc__record_release(&record);
    return status;
}

spc_status spc__cache_merge(spc__cache *cache, const char *path,
                            spc__exchange *exchange, spc_error *error)
{
    spc__cache *other = NULL;
    spc__intake intake;
    spc_status status = spc__cache_open(&other, NULL, &path, 1, error);

    if (status != SPC_OK)
        return status;
    status = begin(&intake, cache, exchange, error);
    if (status == SPC_OK) {
        /* Kinds come in this order because a choice needs its trial. */
        for (int kind = 0; kind < SPC__KINDS && status == SPC_OK; kind++)
            status = merge_kind(exchange, &intake, &other->layers[0],
                                (spc__kind)kind, error);
        if (status == SPC_OK)
            status = spc__networks_merge(intake.layer, &other->layers[0],
                                         exchange->trusts, tell_network,
                                         exchange, error);
        status = spc__intake_end(&intake, status, error);
    }
    spc__cache_close(other);
    return status;
}

/* ---- diff ---------------------------------------------------------------- */

/* One of the two compared files. */
typedef struct diff_side {
    spc__record_cursor cursor;
    spc__record record;
    bool more;
} diff_side;

typedef struct difference {
    diff_side sides[2];
    spc_status (*each)(char side, const char *line, void *payload);
    void *payload;
    spc__buf line;
} difference;

static spc_status advance(diff_side *side, spc_error *error)
{
    return spc__cursor_next(&side->more, &side->record, &side->cursor, error);
}

/* Shows a record as a line, with - for the first file and + for the second. */
static spc_status show(difference *all, int side, spc_error *error)
{
    spc__buf_clear(&all->line);
    spc__record_format(&all->line, &all->sides[side].record, false);
    if (all->line.failed)
        return spc__fail_memory(error, all->line.length);
    return all->each("-+"[side], spc__buf_text(&all->line), all -> payload);
}

/* Shows the record with the lower key or, if keys are equal, both records if
 * they differ. Advances. */
static spc_status compare_next(difference *all, spc_error *error)
{
    diff_side *a = &all->sides[0], *b = &all->sides[1];
    int order = !b->more   ? -1
                : !a->more ? 1
                           : spc__record_compare_keys(&a->record, &b->record);
    /* Records of equal keys may differ in their values. */
    bool differ =
        order != 0 || spc__record_compare(&a->record, &b->record) != 0;
    spc_status status = SPC_OK;

    if (differ && order <= 0)
        status = show(all, 0, error);
    if (differ && order >= 0 && status == SPC_OK)
        status = show(all, 1, error);
    if (order <= 0 && status == SPC_OK)
        status = advance(a, error);
    if (order >= 0 && status == SPC_OK)
        status = advance(b, error);
    return status;
}

/* Compares the records of a kind. Both files list them in the order of their
 * keys, so one pass over both is enough. */
static spc_status diff_kind(difference *all, spc__layer *one, spc__layer *two,
                            spc__kind kind, spc_error *error)
{
    spc_status status =
        spc__cursor_open(&all->sides[0].cursor, one, kind, error);

    if (status == SPC_OK)
        status = spc__cursor_open(&all->sides[1].cursor, two, kind, error);
    for (int i = 0; i < 2 && status == SPC_OK; i++)
        status = advance(&all->sides[i], error);
    while (status == SPC_OK && (all->sides[0].more || all->sides[1].more))
        status = compare_next(all, error);
    spc__cursor_close(&all->sides[0].cursor);
    spc__cursor_close(&all->sides[1].cursor);
    return status;
}

spc_status spc__cache_diff(spc__cache *cache, const char *path,
                           spc_status (*each)(char side, const char *line,
                                              void *payload),
                           void *payload, spc_error *error)
{
    difference all = {.each = each, .payload = payload};
    spc__cache *other = NULL;
    spc_status status = spc__cache_open(&other, NULL, &path, 1, error);

    for (int kind = 0; kind < SPC__KINDS && status == SPC_OK; kind++)
        status = diff_kind(&all, &cache->layers[0], &other->layers[0],
                           (spc__kind)kind, error);
    for (int i = 0; i < 2; i++)
        spc__record_release(&all.sides[i].record);
    spc__buf_release(&all.line);
    spc__cache_close(other);
    return status;
}
