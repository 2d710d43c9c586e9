/* SPDX-License-Identifier: Apache-2.0 */
/* overwrite.c - identifies the content of a file and decides whether it may be
 * replaced. */
#include "base/overwrite.h"

#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- kinds of files ------------------------------------------------------ */

enum { START_BYTES = 512 }; /* examined at the start of a file */

typedef struct file_kind {
    const char *name;
    size_t at;
    const char *magic;
    size_t bytes;
} file_kind;

#define MAGIC(at, text) at, text, sizeof(text) - 1

/* The first match counts. The last two rows have no magic and cover all other
 * files. */
static const file_kind kinds[] = {
    {"a SQLite database", MAGIC(0, "SQLite format 3")},
    {"a NumPy array", MAGIC(0, "\x93NUMPY")},
    /* The header, at most 16 MiB long, follows its length in 8 bytes. */
    {"safetensors", MAGIC(3, "\0\0\0\0\0{\"")},
    {"an archive", MAGIC(0, "PK\x03\x04")},
    {"a program", MAGIC(0, "\177ELF")},
    {"a web page", MAGIC(0, "<!DOCTYPE html")},
    {"records of a database", MAGIC(0, "# spctune records")},
    {"the manifest of a pack", MAGIC(0, "# spctune manifest")},
    {"figures of an audit", MAGIC(0, "# spctune audit")},
    {"JSON", MAGIC(0, "{")},
    {"JSON", MAGIC(0, "[")},
    {"text", MAGIC(0, "")},
    {"data of an unknown kind", MAGIC(0, "")},
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* True if the bytes have no control characters but those of usual text
 * files. */
static bool is_text(const unsigned char *start, size_t bytes)
{
    static const char usual[] = "\t\n\r\f\033";

    for (size_t i = 0; i < bytes; i++)
        if (start[i] < ' ' &&
            memchr(usual, start[i], sizeof(usual) - 1) == NULL)
            return false;
    return true;
}

/* The kind of a file by its first bytes. The last two rows are text and
 * anything else. */
static const file_kind *kind_of(const void *start, size_t bytes)
{
    for (const file_kind *k = kinds; k < kinds + KINDS - 2; k++)
        if (bytes >= k->at + k->bytes &&
            memcmp((const char *)start + k->at, k->magic, k->bytes) == 0)
            return k;
    return &kinds[KINDS - 1 - is_text(start, bytes)];
}

static bool is_database(const file_kind *kind)
{
    return kind == &kinds[0];
}

/* ---- listing ------------------------------------------------------------- */

static spc_status fail_read(const char *path, spc_error *error)
{
    return spc__fail(error, SPC_EIO,
                     "cannot write '%s': cannot inspect the existing file: %s",
                     path, strerror(errno));
}

/* Identifies the file. *kind is NULL if there is no file, or if writing cannot
 * destroy its content. */
static spc_status look(const file_kind **kind, const char *path,
                       spc_error *error)
{
    char start[START_BYTES];
    struct stat facts;

    *kind = NULL;
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode) ||
        facts.st_size == 0)
        return SPC_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, start, sizeof(start)) : -1;
    spc_status status = got < 0 ? fail_read(path, error) : SPC_OK;
    if (got > 0)
        *kind = kind_of(start, (size_t)got);
    if (fd >= 0)
        close(fd);
    return status;
}

/* ---- databases ----------------------------------------------------------- */

static const char *const siblings[] = {"-wal", "-shm", "-journal"};

/* True if SQLite has files next to the database, which may then be open. It is
 * not opened to check, because closing it would drop the locks that this
 * process has on it. */
static bool is_in_use(const char *path)
{
    char real[PATH_MAX], name[PATH_MAX + 16];
    struct stat facts;

    if (realpath(path, real) == NULL)
        return false;
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s%s", real, siblings[i]);
        if (stat(name, &facts) == 0)
            return true;
    }
    return false;
}

/* Finds "own.db" for "own.db-wal". Returns false if it does not exist. */
static bool find_owner(char owner[PATH_MAX], const char *path)
{
    size_t length = strlen(path);
    struct stat facts;

    for (int i = 0; i < 3; i++) {
        size_t tail = strlen(siblings[i]);
        if (length <= tail || length >= PATH_MAX ||
            strcmp(path + length - tail, siblings[i]) != 0)
            continue;
        snprintf(owner, PATH_MAX, "%.*s", (int)(length - tail), path);
        return stat(owner, &facts) == 0 && S_ISREG(facts.st_mode);
    }
    return false;
}

/* Refuses a path that SQLite has open, or the name of a file that belongs to a
 * database next to it, such as its log. */
static spc_status check_database(const char *path, spc_error *error)
{
    const file_kind *kind = NULL;
    char owner[PATH_MAX];

    if (is_in_use(path))
        return spc__fail(error, SPC_EINVAL,
                         "cannot write '%s': it is a database, and may be open "
                         "elsewhere; name another file",
                         path);
    if (find_owner(owner, path) && !is_in_use(owner))
        look(&kind, owner, NULL);
    return find_owner(owner, path) && (is_in_use(owner) || is_database(kind))
               ? spc__fail(error, SPC_EINVAL,
                           "cannot write '%s': SQLite would read it as part "
                           "of the database '%s'; name another file",
                           path, owner)
               : SPC_OK;
}

/* ---- entry --------------------------------------------------------------- */

spc_status spc__overwrite_check(const char *path, const void *start,
                                size_t bytes, spc_error *error)
{
    const file_kind *there = NULL, *kind = NULL;
    spc_status status = check_database(path, error);

    if (status == SPC_OK)
        status = look(&there, path, error);
    if (status != SPC_OK || there == NULL)
        return status;
    if (start != NULL)
        kind = kind_of(start, bytes < START_BYTES ? bytes : START_BYTES);
    /* Before the content is known, only a database is refused. */
    if (kind == NULL ? !is_database(there)
                     : strcmp(kind->name, there->name) == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "cannot write '%s': it holds %s%s%s; name another file, "
                     "or remove that one first",
                     path, there->name, kind != NULL ? ", not " : "",
                     kind != NULL ? kind->name : "");
}

spc_status spc__overwrite(const char *path, const spc__piece *pieces, int count,
                          spc_error *error)
{
    char start[START_BYTES];
    size_t bytes = 0;

    for (int i = 0; i < count && bytes < START_BYTES; i++) {
        size_t left = START_BYTES - bytes;
        size_t part = pieces[i].bytes < left ? pieces[i].bytes : left;
        if (part > 0)
            memcpy(start + bytes, pieces[i].data, part);
        bytes += part;
    }
    spc_status status = spc__overwrite_check(path, start, bytes, error);
    return status == SPC_OK ? spc__file_put(path, pieces, count, error)
                            : status;
}
