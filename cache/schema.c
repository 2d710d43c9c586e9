/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.c - the tables, and checks whether a file has them.
 *
 * Every row has a natural key in text. Two files that measured the same thing
 * therefore hold the same key and can be merged in any order. The integer ids
 * are private to one file. Records that may differ between files carry the time
 * of their writing.
 *
 *   problem     what was tuned: a layer in buckets of its features, on a
 *               device class; `family` is common to replaceable layers
 *   provenance  the origin of a measurement
 *   trial       one candidate of a problem: measured, or why it failed;
 *               `features` are the scene's, before rounding (feature.c)
 *   choice      the trial that won
 *   artefact    compiled code by content key; `digest` finds bit rot before
 *               a driver does
 *   fact        a measured property of a device
 *   seal        the digest of a trial, choice, artefact or fact (seal.c)
 *   quarantine  records that are no longer used, and why
 *   network     a network by its name: its layers as text (network.c)
 *   network_part  its weights, cut into parts
 *   lease       the current work of a process (lease.c)
 *   meta        facts about the file itself
 *
 * Numbers that may be NaN are stored as NULL. These are the tables of version
 * 4. Versions 1 to 3 were never released; their files are refused.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const spc__schema_creation[] = {
    "CREATE TABLE meta ("
    " name TEXT PRIMARY KEY NOT NULL,"
    " value TEXT NOT NULL) WITHOUT ROWID",

    "CREATE TABLE problem ("
    " id INTEGER PRIMARY KEY,"
    " device TEXT NOT NULL,"
    " layer TEXT NOT NULL,"
    " target TEXT NOT NULL,"
    " buckets TEXT NOT NULL,"
    " family TEXT NOT NULL,"
    " UNIQUE (device, layer, target, buckets))",
    "CREATE INDEX problem_family ON problem (device, family)",

    "CREATE TABLE provenance ("
    " id INTEGER PRIMARY KEY,"
    " version TEXT NOT NULL,"
    " compiler TEXT NOT NULL,"
    " driver TEXT NOT NULL,"
    " host TEXT NOT NULL,"
    " scenes TEXT NOT NULL,"
    " seed INTEGER NOT NULL,"
    " UNIQUE (version, compiler, driver, host, scenes, seed))",

    "CREATE TABLE trial ("
    " id INTEGER PRIMARY KEY,"
    " problem INTEGER NOT NULL REFERENCES problem (id),"
    " template TEXT NOT NULL,"
    " template_hash TEXT NOT NULL,"
    " config TEXT NOT NULL,"
    " status TEXT NOT NULL,"
    " median_us REAL,"
    " spread_us REAL,"
    " cold_us REAL,"
    " samples INTEGER NOT NULL,"
    " error REAL,"
    " verified INTEGER NOT NULL,"
    " compile_ms REAL,"
    " features TEXT NOT NULL,"
    " artefact TEXT NOT NULL,"
    " launch TEXT NOT NULL,"
    " resources TEXT NOT NULL,"
    " note TEXT NOT NULL,"
    " provenance INTEGER NOT NULL REFERENCES provenance (id),"
    " unix_seconds INTEGER NOT NULL,"
    " UNIQUE (problem, template, template_hash, config))",

    "CREATE TABLE choice ("
    " problem INTEGER PRIMARY KEY REFERENCES problem (id),"
    " trial INTEGER NOT NULL REFERENCES trial (id),"
    " reason TEXT NOT NULL,"
    " provenance INTEGER NOT NULL REFERENCES provenance (id),"
    " unix_seconds INTEGER NOT NULL)",

    "CREATE TABLE artefact ("
    " id INTEGER PRIMARY KEY,"
    " key TEXT NOT NULL UNIQUE,"
    " target TEXT NOT NULL,"
    " compiler TEXT NOT NULL,"
    " launch TEXT NOT NULL,"
    " resources TEXT NOT NULL,"
    " digest TEXT NOT NULL," /* SHA-256 of code */
    " code BLOB NOT NULL)",

    "CREATE TABLE fact ("
    " id INTEGER PRIMARY KEY,"
    " device TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " value TEXT NOT NULL,"
    " unix_seconds INTEGER NOT NULL,"
    " UNIQUE (device, name))",

    /* A seal is the digest of the row `record` of the table `kind`. For code it
     * includes the identity. Every record must have a seal. */
    "CREATE TABLE seal ("
    " kind TEXT NOT NULL,"
    " record INTEGER NOT NULL,"
    " digest TEXT NOT NULL,"
    " identity TEXT NOT NULL,"
    " PRIMARY KEY (kind, record)) WITHOUT ROWID",

    "CREATE TABLE quarantine ("
    " kind TEXT NOT NULL,"
    " record INTEGER NOT NULL,"
    " reason TEXT NOT NULL,"
    " unix_seconds INTEGER NOT NULL,"
    " PRIMARY KEY (kind, record)) WITHOUT ROWID",

    "CREATE TABLE lease ("
    " work TEXT PRIMARY KEY NOT NULL,"
    " owner TEXT NOT NULL,"
    " until INTEGER NOT NULL) WITHOUT ROWID",

    "CREATE TABLE network ("
    " id INTEGER PRIMARY KEY,"
    " name TEXT NOT NULL UNIQUE,"
    " graph TEXT NOT NULL,"
    " weights TEXT NOT NULL," /* SHA-256 of all parts in sequence */
    " bytes INTEGER NOT NULL,"
    " parts INTEGER NOT NULL,"
    " source TEXT NOT NULL,"
    " version TEXT NOT NULL,"
    " unix_seconds INTEGER NOT NULL)",

    "CREATE TABLE network_part ("
    " id INTEGER PRIMARY KEY,"
    " network INTEGER NOT NULL REFERENCES network (id),"
    " part INTEGER NOT NULL,"
    " bytes BLOB NOT NULL,"
    " UNIQUE (network, part))",

    "INSERT INTO meta VALUES ('created_by', 'spctune " SPC_VERSION "')",
    NULL,
};

/* Checks whether the file is ours and its version is known. */
static spc_status check_identity(const char *path, uint32_t application,
                                 uint32_t version, spc_error *error)
{
    if (application != SPC__APPLICATION_ID)
        return spc__fail(error, SPC_EDB,
                         "cannot open '%s': it is a SQLite database of another "
                         "program (application id 0x%08x, not 0x%08x); name "
                         "another file",
                         path, application, (unsigned)SPC__APPLICATION_ID);
    if (version > SPC__SCHEMA_VERSION)
        return spc__fail(error, SPC_EDBVERSION,
                         "cannot open '%s': its schema is version %u, and this "
                         "spctune knows version %d; update spctune, or name "
                         "another file",
                         path, version, SPC__SCHEMA_VERSION);
    if (version > 0 && version < SPC__SCHEMA_VERSION)
        return spc__fail(error, SPC_EDBVERSION,
                         "cannot open '%s': its schema is version %u, which "
                         "was never released, and this spctune knows version "
                         "%d; move it away and tune again",
                         path, version, SPC__SCHEMA_VERSION);
    if (version < 1)
        return spc__fail(error, SPC_EDB,
                         "cannot open '%s': it is damaged, its schema has no "
                         "version; move it away and tune again, or restore a "
                         "copy",
                         path);
    return SPC_OK;
}

/* Finds the file whose name is that of the database and a suffix. */
static bool find_sibling(struct stat *out, const char *path, const char *suffix)
{
    char real[PATH_MAX], name[PATH_MAX + 16];

    snprintf(name, sizeof(name), "%s%s",
             /* SQLite puts journals beside the file that a symbolic link points
              * to. */
             realpath(path, real) != NULL ? real : path, suffix);
    return stat(name, out) == 0;
}

int64_t spc__sibling_bytes(const char *path, const char *suffix)
{
    struct stat facts;

    return find_sibling(&facts, path, suffix) ? (int64_t)facts.st_size : -1;
}

bool spc__sibling_is_plain(const char *path, const char *suffix)
{
    struct stat facts;

    return !find_sibling(&facts, path, suffix) || S_ISREG(facts.st_mode);
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

/*
 * True if the file is shorter than its header says. The offsets are those of
 * https://sqlite.org/fileformat2.html, section 1.3: the length in pages (28) is
 * valid if the change counter (24) equals the one at its writing (92). A writer
 * or a checkpoint may be extending the file, so its size is read last, when
 * both have finished.
 */
static bool is_truncated(uint64_t *bytes, uint64_t *expected, const char *path,
                         const unsigned char *header)
{
    uint64_t page_bytes = (uint64_t)header[16] << 8 | header[17];
    struct stat facts;

    /* The field has 16 bits. The value 1 means 65536. */
    if (page_bytes == 1)
        page_bytes = 65536;
    *expected = page_bytes * big_endian(header + 28);
    if (big_endian(header + 24) != big_endian(header + 92) ||
        spc__sibling_bytes(path, "-wal") >= 0 || stat(path, &facts) != 0)
        return false;
    *bytes = (uint64_t)facts.st_size;
    return *bytes < *expected;
}

/* Reads the first bytes. *got is their number. Returns SQLite's result. */
static int read_first(unsigned char *header, size_t bytes, size_t *got,
                      sqlite3 *db)
{
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);

    if (rc == SQLITE_OK)
        rc = file->pMethods->xFileSize(file, &size);
    if (rc != SQLITE_OK)
        return rc;
    *got = size < (sqlite3_int64)bytes ? (size_t)size : bytes;
    return *got > 0 ? file->pMethods->xRead(file, header, (int)*got, 0)
                    : SQLITE_OK;
}

/*
 * Reads the header through SQLite only. POSIX drops all locks of a process on a
 * file when it closes any descriptor of that file, and only SQLite can tell
 * which descriptors it may close. Otherwise another process, which sees no
 * lock, could remove the log under a connection of this process
 * (https://sqlite.org/howtocorrupt.html, 2.2). No statement is run, so nothing
 * is locked, rolled back or created.
 */
static spc_status read_header(unsigned char *header, size_t bytes, size_t *got,
                              const char *path, spc_error *error)
{
    sqlite3 *db = NULL;
    spc_status status = SPC_OK;
    int rc = sqlite3_open_v2(path, &db,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);

    /* SQLite leaves a handle behind even if opening fails, and the handle has
     * the cause. */
    if (rc == SQLITE_NOMEM || db == NULL)
        status = spc__fail_memory(error, bytes);
    else if (rc != SQLITE_OK)
        status = spc__fail(error, SPC_EDB,
                           "cannot open '%s': %s; make it readable, or name "
                           "another file",
                           path, strerror(sqlite3_system_errno(db)));
    else if ((rc = read_first(header, bytes, got, db)) != SQLITE_OK)
        status = spc__fail(error, SPC_EDB, "cannot read '%s': %s", path,
                           strerror(sqlite3_system_errno(db)));
    sqlite3_close(db);
    return status;
}

/* True for a file of one byte. SQLite calls it empty and would overwrite it. */
static bool has_one_byte(const char *path)
{
    struct stat facts;

    return stat(path, &facts) == 0 && facts.st_size == 1;
}

spc_status spc__schema_peek(const char *path, spc_error *error)
{
    unsigned char header[100];
    uint64_t bytes, expected;
    size_t got = 0;
    spc_status status = read_header(header, sizeof(header), &got, path, error);

    if (status != SPC_OK)
        return status;
    /* A journal means that a writer is active or has died. SQLite must roll
     * back before the header is valid. */
    if ((got == 0 && !has_one_byte(path)) ||
        spc__sibling_bytes(path, "-journal") >= 0)
        return SPC_OK;
    if (got < sizeof(header) || memcmp(header, "SQLite format 3", 16) != 0)
        return spc__fail(error, SPC_EDB,
                         "cannot open '%s': it is not a SQLite database; name "
                         "another file",
                         path);
    status = check_identity(path, big_endian(header + 68),
                            big_endian(header + 60), error);
    if (status == SPC_OK && is_truncated(&bytes, &expected, path, header))
        return spc__fail(error, SPC_EDB,
                         "cannot open '%s': it is damaged, %llu of its %llu "
                         "bytes are left; move it away and tune again, or "
                         "restore a copy",
                         path, (unsigned long long)bytes,
                         (unsigned long long)expected);
    return status;
}

/* Reads the one integer that `sql` returns. */
static int read_integer(int64_t *out, sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW)
            *out = sqlite3_column_int64(stmt, 0);
        int end = sqlite3_finalize(stmt);
        rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : end;
    }
    return rc;
}

/*
 * Another process may create the tables between two of these reads. It sets
 * everything in one commit. In this order, an earlier read is never newer than
 * a later one. An answer of "empty" may be outdated, which the creation detects
 * under its lock, but any other answer is complete.
 */
spc_status spc__schema_check(bool *empty, spc__layer *layer, int *rc,
                             spc_error *error)
{
    int64_t application = 0, version = 0, tables = 0;

    *empty = false;
    int result =
        read_integer(&tables, layer->db, "SELECT count(*) FROM sqlite_master");
    if (result == SQLITE_OK)
        result = read_integer(&application, layer->db, "PRAGMA application_id");
    if (result == SQLITE_OK)
        result = read_integer(&version, layer->db, "PRAGMA user_version");
    if (rc != NULL)
        *rc = result;
    if (result != SQLITE_OK)
        return spc__layer_fail(layer, result, "open", error);
    *empty = tables == 0 && application == 0;
    if (*empty)
        return SPC_OK;
    return check_identity(layer->path, (uint32_t)application, (uint32_t)version,
                          error);
}

/*
 * Runs in one transaction, still with a rollback journal, so that the header of
 * the main file identifies it from the first moment. If several processes
 * arrive together, the lock selects one, and the others find the tables done.
 */
spc_status spc__schema_create(spc__layer *layer, spc_error *error)
{
    char identity[60], version[60];
    const char *const pragmas[] = {identity, version, NULL};
    bool empty = false;
    spc_status status;

    if ((status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;
    if ((status = spc__schema_check(&empty, layer, NULL, error)) != SPC_OK ||
        !empty)
        goto done;
    if ((status = spc__layer_execute(layer, spc__schema_creation, "create",
                                     error)) != SPC_OK)
        goto done;
    snprintf(identity, sizeof(identity), "PRAGMA application_id = %d",
             SPC__APPLICATION_ID);
    snprintf(version, sizeof(version), "PRAGMA user_version = %d",
             SPC__SCHEMA_VERSION);
    status = spc__layer_execute(layer, pragmas, "create", error);
done:
    return spc__layer_end(layer, status, error);
}
