/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack.c - makes the files to ship from a tuned file.
 *
 * The records are merged into a new file. Damaged ones are left out, and two
 * packs of the same records are equal, whatever their row numbers were. The
 * code then moves into one file for each target, unless the pack is to be one
 * file. VACUUM INTO writes the final files without gaps and without a journal.
 *
 * This happens in a work folder next to the pack, which is removed with the
 * process. Only after each file is complete, and each may replace the existing
 * one, are they renamed, the choices last.
 */
#include "cache/pack/pack.h"

#include "base/error.h"
#include "base/file.h"
#include "base/overwrite.h"
#include "cache/cache_internal.h"
#include "cache/exchange/code_form.h"
#include "cache/exchange/exchange.h"
#include "cache/pack/manifest.h"
#include "cache/pack/place.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct packing {
    const char *path;  /* path of the pack */
    spc__buf work;     /* the work folder */
    int lock;          /* lock of the work folder */
    spc__buf list;     /* name of the manifest */
    spc__buf manifest; /* text of the manifest */
    spc__buf targets;  /* targets with code, each between line feeds */
    spc__buf files;    /* names of the databases, each with a line feed */
    spc__pack_form form;
    const spc__cache *from;
    spc__cache *cache; /* the new file, open */
    spc__layer *layer;
    spc__pack_report *report;
    spc_error *error;
} packing;

/* ---- names --------------------------------------------------------------- */

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Replaces the ".db" at the end of `path`. */
static void beside(spc__buf *out, const char *path, const char *ending)
{
    spc__buf_append(out, path, strlen(path) - strlen(".db"));
    spc__buf_puts(out, ending);
}

void spc__pack_code_file(spc__buf *out, const char *path, const char *target)
{
    size_t length = strlen(path);
    bool ends = length > 3 && strcmp(path + length - 3, ".db") == 0;

    spc__buf_append(out, path, ends ? length - 3 : length);
    spc__buf_printf(out, ".%s.db", target);
}

static spc_status check_name(const char *path, spc_error *error)
{
    size_t length = strlen(last_name(path));

    if (length > 3 && strcmp(path + strlen(path) - 3, ".db") == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "cannot pack into '%s': the name of a pack ends in '.db', "
                     "such as 'ship.db'",
                     path);
}

static void in_work(spc__buf *out, const packing *pack, const char *name,
                    const char *ending)
{
    spc__buf_clear(out);
    spc__buf_printf(out, "%s/%s%s", spc__buf_text(&pack->work), name, ending);
}

/* Makes the work folder, and removes those of killed processes. */
static spc_status begin(packing *pack)
{
    spc__buf folder = SPC__BUF_INIT;
    const char *name = last_name(pack->path);

    beside(&pack->list, name, ".manifest");
    spc_status status = spc__place_check(pack->path, spc__buf_text(&pack->list),
                                         pack->from, pack->error);
    if (name > pack->path)
        spc__buf_append(&folder, pack->path, (size_t)(name - pack->path));
    else
        spc__buf_puts(&folder, ".");
    if (status == SPC_OK)
        status = spc__make_parents(pack->path, pack->error);
    if (status == SPC_OK) {
        spc__work_dirs_sweep(spc__buf_text(&folder));
        status = spc__work_dir_create(&pack->work, &pack->lock,
                                      spc__buf_text(&folder), pack->error);
    }
    spc__buf_release(&folder);
    return status;
}

/* ---- contents ----------------------------------------------------------- */

/* Keeps only chosen trials and untimed code records. */
static const char *const chosen_only[] = {
    "DELETE FROM trial WHERE id NOT IN (SELECT trial FROM choice) AND"
    " (status <> 'ok' OR samples > 0 OR artefact = ''"
    "  OR problem IN (SELECT problem FROM choice))",
    NULL,
};

/* Removes what only tuning needs. */
static spc_status remove_rest(packing *pack)
{
    int64_t unwanted = 0;
    spc_status status = spc__layer_begin(pack->layer, pack->error);

    if (status != SPC_OK)
        return status;
    status =
        spc__prune_run(pack->layer, chosen_only, 0, &unwanted, pack->error);
    if (status == SPC_OK)
        status = spc__prune_run(pack->layer, spc__prune_orphans, 0, &unwanted,
                                pack->error);
    return spc__layer_end(pack->layer, status, pack->error);
}

/* Merges the records into a new file, which leaves damaged ones behind and
 * numbers the rows anew. */
static spc_status gather(packing *pack, spc__pack_adder add)
{
    /* The user packs a file of their own, with its pinned choices and host
     * code. */
    spc__exchange exchange = {.trusts = true};
    spc__buf part = SPC__BUF_INIT;

    in_work(&part, pack, "choices", ".part");
    spc_status status = spc__cache_open(&pack->cache, spc__buf_text(&part),
                                        NULL, 0, pack->error);
    spc__buf_release(&part);
    if (status != SPC_OK)
        return status;
    pack->layer = &pack->cache->layers[0];
    status = spc__cache_merge(pack->cache, pack->from->layers[0].path,
                              &exchange, pack->error);
    if (status == SPC_OK && add != NULL)
        status = add(pack->cache, pack->error);
    return status == SPC_OK ? remove_rest(pack) : status;
}

/* ---- statements ---------------------------------------------------------- */

/* Runs SQL with up to two texts. *number, if not NULL, receives its result. */
static spc_status run_sql(packing *pack, const char *sql, const char *one,
                          const char *two, int64_t *number)
{
    sqlite3_stmt *stmt = NULL;
    bool row = false;
    spc_status status =
        spc__layer_prepare(&stmt, pack->layer, sql, "pack", pack->error);

    if (status != SPC_OK)
        return status;
    if (one != NULL)
        spc__bind_text(stmt, 1, one);
    if (two != NULL)
        spc__bind_text(stmt, 2, two);
    status = spc__layer_step(&row, pack->layer, stmt, "pack", pack->error);
    if (number != NULL)
        *number = row ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_finalize(stmt);
    return status;
}

/* spc_pack(code): the compressed code, or the code itself if that is not longer
 * or zstd is missing. */
static void pack_code(sqlite3_context *context, int count,
                      sqlite3_value **values)
{
    const void *code = sqlite3_value_blob(values[0]);
    size_t bytes = (size_t)sqlite3_value_bytes(values[0]), packed_bytes = 0;
    void *packed = NULL;

    (void)count;
    if (code != NULL &&
        spc__code_pack(&packed, &packed_bytes, code, bytes, NULL) == SPC_OK &&
        packed_bytes < bytes) {
        sqlite3_result_blob64(context, packed, packed_bytes, free);
        return;
    }
    free(packed);
    sqlite3_result_value(context, values[0]);
}

/* ---- files --------------------------------------------------------------- */

/* Stores the manifest's name in a new file. */
static spc_status mark(packing *pack, const char *sql)
{
    return run_sql(pack, sql, spc__buf_text(&pack->list), NULL, NULL);
}

/* Writes an open file without gaps, to be called `name`, and lists its
 * records. */
static spc_status finish(packing *pack, spc__layer *layer, const char *name)
{
    spc__buf fresh = SPC__BUF_INIT;
    struct stat facts;
    packing as_this = *pack;

    in_work(&fresh, pack, name, "");
    as_this.layer = layer;
    spc_status status =
        run_sql(&as_this, "VACUUM INTO ?1", spc__buf_text(&fresh), NULL, NULL);
    if (status == SPC_OK)
        status = spc__manifest_list(&pack->manifest, layer, name, pack->error);
    spc__buf_printf(&pack->files, "%s\n", name);
    pack->report->files++;
    if (stat(spc__buf_text(&fresh), &facts) == 0)
        pack->report->bytes += (int64_t)facts.st_size;
    spc__buf_release(&fresh);
    return status;
}

/* Moves the code of a target and its seals, which refer to the rows. */
static spc_status move_code(packing *pack, const char *target, const char *part)
{
    static const char *const steps[] = {
        "INSERT INTO code.artefact (id, key, target, compiler, launch,"
        " resources, digest, code) SELECT id, key, target, compiler, launch,"
        " resources, digest, spc_pack(code) FROM main.artefact"
        " WHERE target = ?1",
        "INSERT INTO code.seal SELECT s.* FROM main.seal AS s"
        " JOIN main.artefact AS a ON a.id = s.record"
        " WHERE s.kind = 'artefact' AND a.target = ?1",
    };
    spc_status status = run_sql(pack, "ATTACH ?1 AS code", part, NULL, NULL);

    if (status != SPC_OK)
        return status;
    for (int i = 0; i < 2 && status == SPC_OK; i++)
        status = run_sql(pack, steps[i], target, NULL, NULL);
    if (status == SPC_OK)
        status = mark(pack, "REPLACE INTO code.meta VALUES ('manifest', ?1)");
    /* Detaches after a failure too, as the next target needs the name. */
    spc_status detached = run_sql(pack, "DETACH code", NULL, NULL, NULL);
    return status == SPC_OK ? detached : status;
}

/* Writes the file with the code of one target. */
static spc_status write_target(packing *pack, const char *target)
{
    spc__buf path = SPC__BUF_INIT, part = SPC__BUF_INIT;
    spc__cache *cache = NULL;
    spc_status status;

    spc__pack_code_file(&path, last_name(pack->path), target);
    in_work(&part, pack, target, ".part");
    status =
        spc__cache_open(&cache, spc__buf_text(&part), NULL, 0, pack->error);
    /* Opening has created the tables. move_code() attaches the file. */
    spc__cache_close(cache);
    cache = NULL;
    if (status == SPC_OK)
        status = move_code(pack, target, spc__buf_text(&part));
    if (status == SPC_OK)
        status =
            spc__cache_open(&cache, spc__buf_text(&part), NULL, 0, pack->error);
    if (status == SPC_OK)
        status = finish(pack, &cache->layers[0], spc__buf_text(&path));
    spc__cache_close(cache);
    unlink(spc__buf_text(&part)); /* frees its space, which equals the pack's */
    spc__buf_release(&path);
    spc__buf_release(&part);
    return status;
}

/* Finds the next target in order; "" comes before all. */
static spc_status next_target(char target[64], packing *pack, bool *found)
{
    static const char question[] =
        "SELECT min(target) FROM artefact WHERE target > ?1";
    sqlite3_stmt *stmt = NULL;
    spc_status status =
        spc__layer_prepare(&stmt, pack->layer, question, "pack", pack->error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, target);
    status = spc__layer_step(found, pack->layer, stmt, "pack", pack->error);
    *found = *found && sqlite3_column_type(stmt, 0) != SQLITE_NULL;
    if (*found)
        spc__column_text(target, 64, stmt, 0);
    sqlite3_finalize(stmt);
    return status;
}

/* Writes the code: one file for each target, or compressed within the pack. */
static spc_status write_code(packing *pack)
{
    char target[64] = "";
    bool found = true;
    spc_status status = SPC_OK;

    sqlite3_create_function(pack->layer->db, "spc_pack", 1, SQLITE_UTF8, NULL,
                            pack_code, NULL, NULL);
    spc__buf_puts(&pack->targets, "\n");
    while (status == SPC_OK && found) {
        status = next_target(target, pack, &found);
        /* A target that cannot be part of a file name is invalid. */
        if (status != SPC_OK || !found || strchr(target, '/') != NULL)
            continue;
        spc__buf_printf(&pack->targets, "%s\n", target);
        if (pack->form == SPC__PACK_APART)
            status = write_target(pack, target);
    }
    if (status == SPC_OK && pack->form == SPC__PACK_WHOLE)
        status = run_sql(pack, "UPDATE artefact SET code = spc_pack(code)",
                         NULL, NULL, NULL);
    return status;
}

static spc_status count(packing *pack)
{
    const struct {
        const char *sql;
        int64_t *to;
    } all[] = {
        {"SELECT count(*) FROM choice", &pack->report->choices},
        {"SELECT count(*) FROM trial", &pack->report->trials},
        {"SELECT count(*) FROM fact", &pack->report->facts},
        {"SELECT count(*) FROM artefact", &pack->report->code},
        {"SELECT sum(length(code)) FROM artefact", &pack->report->code_bytes},
    };
    spc_status status = SPC_OK;

    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && status == SPC_OK; i++)
        status = run_sql(pack, all[i].sql, NULL, NULL, all[i].to);
    pack->report->compressed = spc__code_can_pack();
    return status;
}

/* Writes the main file, without code if that is apart, and completes the
 * manifest. */
static spc_status write_choices(packing *pack)
{
    static const char *const without_code[] = {
        "DELETE FROM artefact",
        "DELETE FROM seal WHERE kind = 'artefact'",
        NULL,
    };
    spc_status status = SPC_OK;

    if (pack->form == SPC__PACK_APART)
        status =
            spc__layer_execute(pack->layer, without_code, "pack", pack->error);
    if (status == SPC_OK)
        status = mark(pack, "REPLACE INTO main.meta VALUES ('manifest', ?1)");
    if (status == SPC_OK)
        status = finish(pack, pack->layer, last_name(pack->path));
    return status == SPC_OK ? spc__manifest_finish(&pack->manifest, pack->error)
                            : status;
}

/* ---- placing ------------------------------------------------------------- */

/* Calls spc__place_check or spc__place_file for each database. */
static spc_status place_databases(packing *pack, bool check_only)
{
    spc__buf fresh = SPC__BUF_INIT, path = SPC__BUF_INIT;
    const char *list = spc__buf_text(&pack->list);
    spc_status status = SPC_OK;
    char name[PATH_MAX];

    for (const char *at = spc__buf_text(&pack->files);
         *at != '\0' && status == SPC_OK; at = strchr(at, '\n') + 1) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "\n"), at);
        in_work(&fresh, pack, name, "");
        spc__buf_clear(&path);
        spc__beside(&path, pack->path, name);
        status = check_only ? spc__place_check(spc__buf_text(&path), list,
                                               pack->from, pack->error)
                            : spc__place_file(spc__buf_text(&fresh),
                                              spc__buf_text(&path), list,
                                              pack->from, pack->error);
    }
    spc__buf_release(&fresh);
    spc__buf_release(&path);
    return status;
}

/* Replaces nothing unless all may be replaced. The choices are the last
 * database, so a reader that finds them also finds their code. */
static spc_status place_all(packing *pack)
{
    spc__buf list = SPC__BUF_INIT;
    spc__piece text = {pack->manifest.data, pack->manifest.length};

    spc__beside(&list, pack->path, spc__buf_text(&pack->list));
    spc_status status = spc__overwrite_check(spc__buf_text(&list), text.data,
                                             text.bytes, pack->error);
    if (status == SPC_OK)
        /* All files are checked before the first is replaced. */
        status = place_databases(pack, true);
    if (status == SPC_OK)
        status = place_databases(pack, false);
    if (status == SPC_OK)
        status = spc__overwrite(spc__buf_text(&list), &text, 1, pack->error);
    spc__buf_release(&list);
    return status;
}

/* Removes earlier files only now, so that the earlier pack stays complete until
 * all files are in place. */
static spc_status remove_earlier(packing *pack)
{
    spc__earlier of = {.manifest = spc__buf_text(&pack->list),
                       .targets = spc__buf_text(&pack->targets),
                       .whole = pack->form == SPC__PACK_WHOLE};
    spc_status status = spc__pack_remove_earlier(&of, pack->path, pack->error);

    pack->report->removed = of.removed;
    memcpy(pack->report->left, of.left, sizeof(of.left));
    return status;
}

static void end(packing *pack)
{
    spc__cache_close(pack->cache);
    if (pack->work.length > 0)
        spc__temp_dir_remove(spc__buf_text(&pack->work));
    if (pack->lock >= 0)
        close(pack->lock);
    spc__buf_release(&pack->work);
    spc__buf_release(&pack->list);
    spc__buf_release(&pack->manifest);
    spc__buf_release(&pack->targets);
    spc__buf_release(&pack->files);
}

spc_status spc__cache_pack(spc__cache *cache, const char *path,
                           spc__pack_form form, spc__pack_adder add,
                           spc__pack_report *report, spc_error *error)
{
    packing pack = {.path = path,
                    .lock = -1,
                    .form = form,
                    .from = cache,
                    .report = report,
                    .error = error};

    memset(report, 0, sizeof(*report));
    spc_status status = check_name(path, error);
    if (status == SPC_OK)
        status = begin(&pack);
    if (status == SPC_OK)
        status = gather(&pack, add);
    if (status == SPC_OK)
        status = count(&pack);
    if (status == SPC_OK)
        status = write_code(&pack);
    if (status == SPC_OK)
        status = write_choices(&pack);
    if (status == SPC_OK)
        status = place_all(&pack);
    if (status == SPC_OK)
        status = remove_earlier(&pack);
    end(&pack);
    return status;
}
