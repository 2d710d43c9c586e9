/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - decides which files a pack may replace, and replaces them. */
#include "cache/pack/place.h"

#include "base/error.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* True if the cache has this file open. */
static bool is_layer(const spc__cache *cache, const struct stat *at)
{
    struct stat facts;

    for (int i = 0; cache != NULL && i < cache->count; i++)
        if (cache->layers[i].path != NULL &&
            stat(cache->layers[i].path, &facts) == 0 &&
            facts.st_dev == at->st_dev && facts.st_ino == at->st_ino)
            return true;
    return false;
}

/* True if the file says that this manifest lists it. False if it cannot be
 * opened. */
static bool names_manifest(const char *path, const char *manifest)
{
    static const char question[] =
        "SELECT 1 FROM meta WHERE name = 'manifest' AND value = ?1";
    spc__cache *cache = NULL;
    sqlite3_stmt *stmt = NULL;
    bool found = false;

    if (spc__cache_open(&cache, NULL, &path, 1, NULL) == SPC_OK &&
        cache->count > 0 &&
        sqlite3_prepare_v2(cache->layers[0].db, question, -1, &stmt, NULL) ==
            SQLITE_OK) {
        spc__bind_text(stmt, 1, manifest);
        found = sqlite3_step(stmt) == SQLITE_ROW;
    }
    sqlite3_finalize(stmt);
    spc__cache_close(cache);
    return found;
}

/* Returns the name of a journal next to `path`, or NULL. A pack is never
 * written to and needs no journal. Frames of an older file in a log would be
 * taken for part of the new file. */
static const char *find_journal(const char *path)
{
    static const char *const endings[] = {"-wal", "-journal", "-shm"};

    for (int i = 0; i < 3; i++)
        if (spc__sibling_bytes(path, endings[i]) >= 0)
            return endings[i];
    return NULL;
}

spc_status spc__place_check(const char *path, const char *manifest,
                            const spc__cache *open, spc_error *error)
{
    const char *journal = find_journal(path);
    struct stat facts;
    bool is_there = lstat(path, &facts) == 0 && stat(path, &facts) == 0;

    if (!is_there && errno != ENOENT)
        return spc__fail(error, SPC_EIO, "cannot write '%s': %s", path,
                         strerror(errno));
    if (is_there && is_layer(open, &facts))
        return spc__fail(error, SPC_EINVAL,
                         "cannot pack into '%s': this database is open here; "
                         "name another file",
                         path);
    if (journal != NULL)
        return spc__fail(error, SPC_EDB,
                         "cannot pack into '%s': '%s%s' is there, so the "
                         "database may be open elsewhere; name another file",
                         path, path, journal);
    if (!is_there || names_manifest(path, manifest))
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL,
        "cannot pack into '%s': the existing file is not an earlier pack of "
        "this name; name another file, or remove it first",
        path);
}

/* Moves the file. A new name is linked, which fails if another process has just
 * made a file there. Some file systems have no links. Returns 0, or -1 and
 * errno. */
static int move(const char *fresh, const char *path)
{
    if (access(path, F_OK) == 0)
        return rename(fresh, path);
    if (link(fresh, path) == 0)
        return unlink(fresh);
    return errno == EEXIST ? -1 : rename(fresh, path);
}

spc_status spc__place_file(const char *fresh, const char *path,
                           const char *manifest, const spc__cache *open,
                           spc_error *error)
{
    spc_status status = spc__place_check(path, manifest, open, error);

    if (status == SPC_OK && move(fresh, path) != 0)
        status = spc__fail(error, SPC_EIO, "cannot write '%s': %s", path,
                           strerror(errno));
    return status;
}
