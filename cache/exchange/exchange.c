/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - export, import, merge, diff. */
#include "cache/exchange/exchange.h"

#include "cache/network/network_text.h"

#include "base/error.h"
#include "cache/exchange/records.h"
#include <string.h>

static const char heading[] =
    "# spctune records 1: spctune db import reads them\n";

/* ---- export -------------------------------------------------------------- */

typedef struct output {
    spc_status (*write)(const char *text, size_t bytes, void *payload);
    void *payload;
    spc__export what;
    spc__buf line;
} output;

static spc_status write_record(output *out, spc__record *record,
                               spc_error *error)
{
    spc__buf_clear(&out->line);
    if (out->what == SPC__EXPORT_CHOICES)
        spc__record_blank(record, "host");
    spc__record_format(&out->line, record, out->what == SPC__EXPORT_CODE);
    spc__buf_puts(&out->line, "\n");
    if (out->line.failed)
        return spc__fail_memory(error, record->code.length);
    spc_status status =
        out->write(out->line.data, out->line.length, out->payload);
    return status == SPC_OK
               ? status
               : spc__fail(error, status, "what is exported cannot be written");
}

/* True if a choice refers to the trial of that row. */
static spc_status is_chosen(bool *chosen, spc__layer *layer, int64_t trial,
                            spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_IS_CHOSEN, error);

    *chosen = false;
    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, trial);
    status = spc__layer_step(chosen, layer, stmt, "read", error);
    spc__sql_done(stmt);
    return status;
}

static spc_status export_next(output *out, spc__record *record,
                              const spc__record_cursor *cursor,
                              spc_error *error)
{
    bool wanted = true;
    spc_status status = SPC_OK;

    if (out->what == SPC__EXPORT_CHOICES && cursor->kind == SPC__TRIAL)
        status = is_chosen(&wanted, cursor->layer, cursor->row, error);
    return status == SPC_OK && wanted ? write_record(out, record, error)
                                      : status;
}

static spc_status export_kind(output *out, spc__layer *layer, spc__kind kind,
                              int64_t *damaged, spc_error *error)
{
    spc__record_cursor cursor;
    spc__record record = {0};
    bool more = true;
    spc_status status = spc__cursor_open(&cursor, layer, kind, error);

    while (status == SPC_OK && more) {
        status = spc__cursor_next(&more, &record, &cursor, error);
        if (status == SPC_OK && more)
            status = export_next(out, &record, &cursor, error);
    }
    *damaged += cursor.damaged;
    spc__cursor_close(&cursor);
    spc__record_release(&record);
    return status;
}

spc_status spc__cache_export(spc__cache *cache, spc__export what,
                             spc_status (*write)(const char *text, size_t bytes,
                                                 void *payload),
                             void *payload, int64_t *damaged, spc_error *error)
{
    /* Short records that people read come first, long code comes
     * last. */
    static const spc__kind order[] = {SPC__CHOICE, SPC__TRIAL, SPC__FACT,
                                      SPC__CODE};
    /* How many of the kinds are exported. Facts describe one machine, so the
     * receiver of choices measures its own. Code is useless without its
     * bytes. */
    static const int kinds[] = {[SPC__EXPORT_RECORDS] = 3,
                                [SPC__EXPORT_CODE] = 4,
                                [SPC__EXPORT_CHOICES] = 2};
    output out = {write, payload, what, SPC__BUF_INIT};
    spc_status status = write(heading, sizeof(heading) - 1, payload);

    *damaged = 0;
    for (int i = 0; i < kinds[what] && status == SPC_OK; i++)
        status = export_kind(&out, &cache->layers[0], order[i], damaged, error);
    if (status == SPC_OK &&
        what == SPC__EXPORT_CODE) /* weights are binary, like code */
        status = spc__networks_write(&cache->layers[0], write, payload, damaged,
                                     error);
    spc__buf_release(&out.line);
    return status;
}

/* ---- import -------------------------------------------------------------- */

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

static spc_status take(spc__exchange *exchange, spc__intake *intake,
                       const spc__record *record, int64_t line,
                       spc_error *error)
{
    static const char *const reasons[] = {
        [SPC__FATE_ACCEPTED] = "",
        [SPC__FATE_KNOWN] = "",
        [SPC__FATE_OLDER] = "what is there is newer",
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

static spc_status begin(spc__intake *intake, spc__cache *cache,
                        const spc__exchange *exchange, spc_error *error)
{
    *intake = (spc__intake){.trusts = exchange->trusts,
                            .is_stale = exchange->is_stale,
                            .payload = exchange->stale_payload};
    return spc__intake_begin(intake, cache, error);
}

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

/* A text is read twice, since choices refer to trials at any position. */
typedef struct text_pass {
    const char *at, *end;
    int64_t line;
    bool choices;
} text_pass;

static bool next_line(const char **start, size_t *length, text_pass *pass)
{
    while (pass->at < pass->end) {
        const char *stop =
            memchr(pass->at, '\n', (size_t)(pass->end - pass->at));
        const char *next = stop != NULL ? stop + 1 : pass->end;
        *start = pass->at;
        *length = (size_t)((stop != NULL ? stop : pass->end) - pass->at);
        if (*length > 0 && (*start)[*length - 1] == '\r')
            --*length;
        pass->at = next;
        pass->line++;
        if (*length > 0 && **start != '#')
            return true;
    }
    return false;
}

static spc_status import_line(spc__exchange *exchange, spc__intake *intake,
                              spc__record *record, const text_pass *pass,
                              const char *start, size_t length,
                              spc_error *error)
{
    bool is_choice = length > 7 && memcmp(start, "choice ", 7) == 0;
    spc_error why = {0};

    if (is_choice != pass->choices)
        return SPC_OK;
    spc_status status = spc__record_parse(record, start, length, &why);
    if (status == SPC_ENOMEM)
        return spc__fail(error, status, "%s", why.text);
    if (status != SPC_OK)
        return tell(exchange, SPC__FATE_REJECTED, NULL, why.text, pass->line);
    return take(exchange, intake, record, pass->line, error);
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

/* Skips a network in the first of the two passes. */
static bool skips_network(text_pass *pass, const char *start, size_t length)
{
    return pass->choices &&
           ((length > 8 && memcmp(start, "network ", 8) == 0) ||
            (length > 5 && memcmp(start, "part ", 5) == 0));
}

static spc_status import_pass(spc__exchange *exchange, spc__intake *intake,
                              text_pass pass, spc_error *error)
{
    spc__record record = {0};
    spc_status status = SPC_OK;
    const char *start;
    size_t length;

    while (status == SPC_OK && next_line(&start, &length, &pass)) {
        if (skips_network(&pass, start, length))
            continue;
        if (length > 8 && memcmp(start, "network ", 8) == 0)
            status = import_network(exchange, intake, &pass, start, error);
        else
            status = import_line(exchange, intake, &record, &pass, start,
                                 length, error);
    }
    spc__record_release(&record);
    return status;
}

spc_status spc__cache_import(spc__cache *cache, const char *text, size_t bytes,
                             spc__exchange *exchange, spc_error *error)
{
    spc__intake intake;
    spc_status status = begin(&intake, cache, exchange, error);

    if (status != SPC_OK)
        return status;
    for (int choices = 0; choices < 2 && status == SPC_OK; choices++)
        status = import_pass(exchange, &intake,
                             (text_pass){text, text + bytes, 0, choices != 0},
                             error);
    return spc__intake_end(&intake, status, error);
}

/* ---- merge --------------------------------------------------------------- */

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

static spc_status show(difference *all, int side, spc_error *error)
{
    spc__buf_clear(&all->line);
    spc__record_format(&all->line, &all->sides[side].record, false);
    if (all->line.failed)
        return spc__fail_memory(error, all->line.length);
    return all->each("-+"[side], spc__buf_text(&all->line), all -> payload);
}

/* Shows the lower of the two records, or both if they differ, and advances. */
static spc_status compare_next(difference *all, spc_error *error)
{
    diff_side *a = &all->sides[0], *b = &all->sides[1];
    int order = !b->more   ? -1
                : !a->more ? 1
                           : spc__record_compare_keys(&a->record, &b->record);
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
