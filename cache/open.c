/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.c - opens the layers of a cache, whatever the state of their files.
 *
 * A file is first checked by its bytes, then by SQLite. The user's file uses
 * WAL mode if that works. In a read-only folder or on a network share SQLite
 * refuses the first read. The file is then opened in ways with lower
 * requirements: first without shared memory (and from then on with a rollback
 * journal, as the file records), then for reading only. A shipped file is
 * opened without locks, unless a journal next to it indicates a writer.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include "base/file.h"
#include "base/owner.h"
#include "cache/pack/manifest.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum open_way {
    SHARED,    /* the normal way */
    EXCLUSIVE, /* no shared memory; then leaves WAL mode */
    READING,   /* the normal way, read-only */
    IMMUTABLE  /* no lock, no journal, no write */
} open_way;

/* Makes a file: URI for SQLite, with special bytes escaped. */
static char *make_uri(const char *path, open_way way)
{
    spc__buf uri = SPC__BUF_INIT;

    spc__buf_puts(&uri, path[0] == '/' ? "file://" : "file:");
    for (; *path != '\0'; path++)
        if (strchr("%?#", *path) != NULL)
            spc__buf_printf(&uri, "%%%02x", (unsigned char)*path);
        else
            spc__buf_append(&uri, path, 1);
    if (way == IMMUTABLE)
        spc__buf_puts(&uri, "?immutable=1");
    return spc__buf_detach(&uri);
}

/* Our files have no views or triggers. Those of a foreign file could return
 * endless rows or alter records, so they are disabled, and expressions in
 * tables may not call functions. */
static void forbid_foreign(sqlite3 *db)
{
    enum { MOST_BYTES = 1 << 29 };

    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
#ifdef SQLITE_DBCONFIG_ENABLE_VIEW
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
#endif
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MOST_BYTES);
#ifdef SQLITE_DBCONFIG_TRUSTED_SCHEMA
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
#endif
}

static void configure(sqlite3 *db)
{
    sqlite3_extended_result_codes(db, 1);
    sqlite3_busy_timeout(db, SPC__BUSY_MS);
    sqlite3_create_collation(db, "spc_buckets", SQLITE_UTF8, NULL,
                             spc__compare_buckets);
    forbid_foreign(db);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
}

/* Closes the file. The layer can be opened in another way afterwards. */
static void layer_close(spc__layer *layer)
{
    /* SQLite keeps a file open while it has statements. */
    for (int i = 0; i < SPC__SQL_COUNT; i++) {
        sqlite3_finalize(layer->statements[i]);
        layer->statements[i] = NULL;
    }
    sqlite3_close(layer->db);
    for (int i = 0; i < SPC__KEPT_PROVENANCES; i++)
        spc__buf_release(&layer->provenances[i].bytes);
    layer->db = NULL;
    layer->writable = false;
    layer->refused.status = SPC_OK;
}

/* Opens the file as `way` says, with our functions and limits. Returns SQLite's
 * result. */
static int open_db(spc__layer *layer, open_way way)
{
    int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    char *uri = make_uri(layer->path, way);

    if (uri == NULL)
        return SQLITE_NOMEM;
    flags |= way == READING || way == IMMUTABLE
                 ? SQLITE_OPEN_READONLY
                 : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(uri, &layer->db, flags, NULL);
    free(uri);
    if (rc != SQLITE_OK)
        return rc;
    configure(layer->db);
    /* Statements call its functions, so they must exist before the first is
     * prepared. */
    if ((rc = spc__seal_open(layer->db)) != SQLITE_OK)
        return rc;
    /* SQLITE_OPEN_READWRITE opens a read-only file without an error. */
    layer->writable = sqlite3_db_readonly(layer->db, "main") == 0;
    if (way == EXCLUSIVE)
        rc = sqlite3_exec(layer->db, "PRAGMA locking_mode = EXCLUSIVE", NULL,
                          NULL, NULL);
    return rc;
}

/* Runs a pragma that may fail. */
static void prefer(spc__layer *layer, const char *pragma)
{
    sqlite3_exec(layer->db, pragma, NULL, NULL, NULL);
}

static int note_wal(void *payload, int columns, char **values, char **names)
{
    bool *found = payload;
    *found = columns == 1 && values[0] != NULL && strcmp(values[0], "wal") == 0;
    (void)names;
    return 0;
}

/* True if this query or pragma returns the one word "wal". */
static bool yields_wal(spc__layer *layer, const char *sql)
{
    bool found = false;
    return sqlite3_exec(layer->db, sql, note_wal, &found, NULL) == SQLITE_OK &&
           found;
}

/*
 * Chooses WAL mode, unless the file records that its location cannot support
 * it, because each attempt disturbs other processes. A rollback journal is only
 * safe with full synchronisation, SQLite's default. WAL needs it only at
 * checkpoints.
 */
static void choose_journal(spc__layer *layer, open_way way)
{
    if (way == EXCLUSIVE) {
        prefer(layer, "PRAGMA journal_mode = DELETE");
        prefer(layer, "PRAGMA locking_mode = NORMAL");
        /* This also releases the exclusive lock. */
        prefer(layer, "REPLACE INTO meta VALUES ('journal', 'delete')");
    } else if (yields_wal(layer, "SELECT 'wal' WHERE NOT EXISTS (SELECT 1 FROM "
                                 "meta WHERE name = 'journal')") &&
               yields_wal(layer, "PRAGMA journal_mode = WAL")) {
        prefer(layer, "PRAGMA synchronous = NORMAL");
    }
}

/* Makes a pack read-only, because writing to it would invalidate its manifest.
 * Returns false if the file is not a pack. */
static bool leave_pack(spc__layer *layer)
{
    if (!spc__layer_has(layer, "SELECT 1 FROM meta WHERE name = 'manifest'",
                        NULL))
        return false;
    layer->writable = false;
    spc__fail(&layer->refused, SPC_EDB,
              "cannot write to '%s': it is a pack, which stays as it was made; "
              "name another database, and it as a layer below",
              layer->path);
    return true;
}

/* Returns the bytes of the journals next to the file; -1 without journals. */
static int64_t journal_bytes(const spc__layer *layer)
{
    int64_t wal = spc__sibling_bytes(layer->path, "-wal");
    int64_t journal = spc__sibling_bytes(layer->path, "-journal");

    return wal > journal ? wal : journal;
}

/* Refuses computed columns. Ours have none, and those of a foreign file could
 * use unlimited time and memory for each row. */
static spc_status check_columns(spc__layer *layer, int *rc, spc_error *error)
{
    static const char question[] =
        "SELECT m.name, c.name FROM main.sqlite_master AS m"
        " JOIN pragma_table_xinfo(m.name) AS c"
        " WHERE m.type = 'table' AND c.hidden > 1 LIMIT 1";
    sqlite3_stmt *stmt = NULL;
    spc_status status = SPC_OK;

    *rc = sqlite3_prepare_v2(layer->db, question, -1, &stmt, NULL);
    if (*rc == SQLITE_OK)
        *rc = sqlite3_step(stmt);
    if (*rc == SQLITE_ROW)
        status =
            spc__fail(error, SPC_EDB,
                      "cannot open '%s': the column '%.60s' of its table "
                      "'%.60s' is computed, which none of ours is; restore "
                      "a copy",
                      layer->path, sqlite3_column_text(stmt, 1),
                      sqlite3_column_text(stmt, 0));
    else if (*rc != SQLITE_DONE)
        status = spc__layer_fail(layer, *rc, "open", error);
    if (*rc == SQLITE_ROW || *rc == SQLITE_DONE)
        *rc = SQLITE_OK;
    sqlite3_finalize(stmt);
    return status;
}

/* Opens the file as `way` says. *rc is SQLite's own error. */
static spc_status open_one_way(spc__layer *layer, open_way way, int *rc,
                               spc_error *error)
{
    bool empty = false;
    spc_status status;

    /* Without its journal the file is incomplete. */
    *rc = way == IMMUTABLE && journal_bytes(layer) > 0
              ? SQLITE_READONLY_ROLLBACK
              : open_db(layer, way);
    if (*rc != SQLITE_OK)
        return spc__layer_fail(layer, *rc, "open", error);
    /* This is the first read. The read fails if this way of opening does not
     * work here. */
    status = spc__schema_check(&empty, layer, rc, error);
    if (status != SPC_OK)
        return status;
    if (empty && !layer->writable)
        return spc__fail(error, SPC_EDB,
                         "cannot open '%s': it is empty, and may only be "
                         "read; name a database that was tuned",
                         layer->path);
    if (empty && (status = spc__schema_create(layer, error)) != SPC_OK)
        return status;
    if (!empty && (status = check_columns(layer, rc, error)) != SPC_OK)
        return status;
    if (!layer->writable || leave_pack(layer))
        return SPC_OK;
    /* Only a read under the new journal mode shows whether it works. */
    choose_journal(layer, way);
    return spc__schema_check(&empty, layer, rc, error);
}

/* The results that SQLite returns if WAL cannot work. */
static bool is_wal_trouble(int rc)
{
    int primary = rc & 0xff;
    return primary == SQLITE_CANTOPEN || primary == SQLITE_PROTOCOL ||
           primary == SQLITE_IOERR || primary == SQLITE_READONLY;
}

/* Records why writing failed, so that a later write reports this reason,
 * although the file can now be read. */
static void note_refusal(spc__layer *layer, int rc, const spc_error *why)
{
    if ((rc & 0xff) == SQLITE_IOERR && !layer->writable)
        layer->refused = *why;
}

/* Tries the ways in sequence. The first failure is reported. */
static spc_status open_some_way(spc__layer *layer, const open_way *ways,
                                int count, spc_error *error)
{
    /* The size limit in KiB; pages are allocated as needed. For a large file,
     * SQLite's default of 2 MiB holds only a few of the pages that random
     * look-ups use, and every other page costs a read. */
    static const char pages[] = "PRAGMA cache_size = -65536";
    spc_error first = {0};
    int first_rc = SQLITE_OK;

    for (int i = 0; i < count; i++) {
        int rc;
        spc_error *into = first.status == SPC_OK ? &first : NULL;
        if (open_one_way(layer, ways[i], &rc, into) == SPC_OK) {
            prefer(layer, pages);
            if (first.status != SPC_OK)
                note_refusal(layer, first_rc, &first);
            return SPC_OK;
        }
        layer_close(layer);
        if (into != NULL)
            first_rc = rc;
        /* Other failures, such as damage, would also occur in the next way. */
        if (!is_wal_trouble(rc))
            break;
    }
    if (error != NULL)
        *error = first;
    return first.status;
}

static spc_status open_user(spc__layer *layer, spc_error *error)
{
    static const open_way ways[] = {SHARED, EXCLUSIVE, IMMUTABLE};
    return open_some_way(layer, ways, 3, error);
}

/* Marks files that contain only code, which need no queries for choices. Other
 * processes may write the user's file, but not one that was opened
 * immutable. */
static void note_choices(spc__layer *layer)
{
    layer->is_only_code = spc__layer_has(
        layer, "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM choice)", NULL);
}

/* A journal, even an empty one, means that another process may be writing. */
static spc_status open_shipped(spc__layer *layer, spc_error *error)
{
    static const open_way ways[] = {READING, IMMUTABLE};
    int skipped = journal_bytes(layer) < 0;
    spc_status status =
        open_some_way(layer, ways + skipped, 2 - skipped, error);
    if (status == SPC_OK && skipped)
        note_choices(layer);
    return status;
}

/* Opening a pipe named like a journal would block until a process writes to
 * it. */
static spc_status check_journals(const char *path, spc_error *error)
{
    static const char *const suffixes[] = {"-wal", "-journal", "-shm"};

    for (int i = 0; i < 3; i++)
        if (!spc__sibling_is_plain(path, suffixes[i]))
            return spc__fail(error, SPC_EDB,
                             "cannot open '%s': its journal '%s%s' is not a "
                             "plain file; remove it",
                             path, path, suffixes[i]);
    return SPC_OK;
}

/* Checks whether the file exists, is a regular file, and has our first
 * bytes. */
static spc_status look(bool *exists, const char *path, spc_error *error)
{
    struct stat facts;

    *exists = stat(path, &facts) == 0;
    if (!*exists && errno == ENOENT)
        return SPC_OK;
    if (!*exists)
        return spc__fail(error, SPC_EDB, "cannot open '%s': %s", path,
                         strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return spc__fail(
            error, SPC_EDB, "cannot open '%s': it is %s; name a database file",
            path, S_ISDIR(facts.st_mode) ? "a folder" : "not a plain file");
    spc_status status = check_journals(path, error);
    return status == SPC_OK ? spc__schema_peek(path, error) : status;
}

static spc_status make_folders(const char *path, spc_error *error)
{
    spc_status status = spc__make_parents(path, error);

    if (status == SPC_OK || status == SPC_ENOMEM)
        return status;
    spc__fail_prefix(error, "cannot create '%s': ", path);
    if (error != NULL)
        error->status = SPC_EDB;
    return SPC_EDB;
}

/* Creates an empty file for the user alone; SQLite gives its journals the same
 * mode. A failure is ignored, because opening the file fails again with a
 * better sentence. The descriptor is closed before another thread can lock the
 * file (`creating`). */
static void make_private(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (file >= 0)
        close(file);
}

/* Opens a shipped file. If a key is given, its manifest must be signed. */
static spc_status open_signed(spc__layer *layer, const char *key,
                              spc_error *error)
{
    spc_status status = open_shipped(layer, error);

    if (status == SPC_OK && key != NULL)
        status = spc__manifest_open(&layer->manifest, layer, key, error);
    if (status != SPC_OK || key == NULL)
        return status;
    int rc = spc__seal_restrict(layer->db, layer->manifest);
    return rc == SQLITE_OK ? SPC_OK : spc__layer_fail(layer, rc, "open", error);
}

/* Checks the file. If it is the user's, creates it empty if missing. */
static spc_status look_or_create(bool *exists, const char *path, bool is_user,
                                 spc_error *error)
{
    static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&creating);
    spc_status status = look(exists, path, error);
    if (status == SPC_OK && is_user && !*exists &&
        (status = make_folders(path, error)) == SPC_OK)
        make_private(path);
    pthread_mutex_unlock(&creating);
    return status;
}

static spc_status open_layer(spc__layer *layer, const char *path, bool is_user,
                             const char *key, spc_error *error)
{
    bool exists;
    spc_status status = look_or_create(&exists, path, is_user, error);

    if (status != SPC_OK)
        return status;
    layer->path = strdup(path);
    if (layer->path == NULL)
        return spc__fail_memory(error, strlen(path) + 1);
    if (!is_user && !exists)
        return spc__fail(error, SPC_ENOTFOUND, "cannot open '%s': no such file",
                         path);
    return is_user ? open_user(layer, error) : open_signed(layer, key, error);
}

spc_status spc__cache_open_signed(spc__cache **out, const char *path,
                                  const char *const *layers, int layer_count,
                                  const char *key, spc_error *error)
{
    int user = path != NULL;
    size_t count = (size_t)(layer_count + user);
    spc__cache *cache = NULL;
    spc_status status = SPC_OK;

    *out = NULL;
    cache = calloc(1, sizeof(*cache));
    if (cache == NULL)
        return spc__fail_memory(error, sizeof(*cache));
    cache->layers = calloc(count + 1, sizeof(*cache->layers));
    if (cache->layers == NULL) {
        status = spc__fail_memory(error, count * sizeof(*cache->layers));
        goto done;
    }
    cache->count = (int)count;
    cache->has_user = user;

    /* Opens shipped files first: if one fails, no file has been created. */
    for (int i = 0; i < layer_count && status == SPC_OK; i++)
        status =
            open_layer(&cache->layers[user + i], layers[i], false, key, error);
    if (status == SPC_OK && user)
        status = open_layer(&cache->layers[0], path, true, NULL, error);
    if (status != SPC_OK)
        goto done;
    *out = cache; /* ownership moves to the caller */
    cache = NULL;
done:
    spc__cache_close(cache);
    return status;
}

spc_status spc__cache_open(spc__cache **out, const char *path,
                           const char *const *layers, int layer_count,
                           spc_error *error)
{
    return spc__cache_open_signed(out, path, layers, layer_count, NULL, error);
}

void spc__cache_yield_lowest(spc__cache *cache)
{
    if (cache->count > 0)
        cache->layers[cache->count - 1].yields = true;
}

const char *spc__cache_file(const spc__cache *cache, int i)
{
    return cache->layers[i].path;
}

const char *spc__cache_user_file(const spc__cache *cache)
{
    return cache->has_user ? cache->layers[0].path : NULL;
}

void spc__cache_close(spc__cache *cache)
{
    if (cache == NULL)
        return;
    spc__similar_free(cache);
    spc__devices_free(cache);
    for (int i = 0; i < cache->count; i++) {
        layer_close(&cache->layers[i]);
        spc__manifest_free(cache->layers[i].manifest);
        free(cache->layers[i].path);
    }
    free(cache->layers);
    spc__buf_release(&cache->layer_text);
    spc__buf_release(&cache->buckets_text);
    spc__buf_release(&cache->family_text);
    spc__buf_release(&cache->features_text);
    spc__buf_release(&cache->config_text);
    spc__buf_release(&cache->launch_text);
    spc__buf_release(&cache->resources_text);
    spc__buf_release(&cache->sealed_bytes);
    free(cache);
}

/* Checks the journals too, since SQLite would replay them. */
spc_status spc__cache_check_owner(const char *path, spc_error *error)
{
    static const char *const journals[] = {"-wal", "-journal", "-shm", NULL};
    spc_error why;

    return spc__owner_check(path, journals, "trust it", &why) == SPC_OK
               ? SPC_OK
               : spc__fail(error, SPC_EDB, "cannot open '%s': %s", path,
                           why.text);
}
