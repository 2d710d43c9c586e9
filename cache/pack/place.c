/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c - decides which files a pack may replace or remove, and does it.
 *
 * Opening NAME.db also reads NAME.TARGET.db. If a new pack has no file for a
 * target, because it contains the code itself or lacks the target, it must
 * remove the file of the earlier pack. Such a file is ours if it says that
 * NAME.manifest lists it. All others stay.
 */
#include "cache/pack/place.h"

#include "base/error.h"
#include <dirent.h>
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
    spc__cache *cache = NULL;
    bool found =
        spc__cache_open(&cache, NULL, &path, 1, NULL) == SPC_OK &&
        spc__layer_has(
            &cache->layers[0],
            "SELECT 1 FROM meta WHERE name = 'manifest' AND value = ?1",
            manifest);

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

/* ---- code of an earlier pack --------------------------------------------- */

/* Finds "sm_90a" in "pack.sm_90a.db" for the stem "pack". Returns false for any
 * other name. */
static bool find_target(char out[64], const char *name, const char *stem)
{
    size_t length = strlen(name), head = strlen(stem);

    if (length < head + 5 || strncmp(name, stem, head) != 0 ||
        name[head] != '.' || strcmp(name + length - 3, ".db") != 0)
        return false;
    length -= head + 4;
    return length < 64 && snprintf(out, 64, "%.*s", (int)length,
                                   name + head + 1) == (int)length;
}

static bool has_code_for(const spc__earlier *of, const char *target)
{
    char line[72];

    snprintf(line, sizeof(line), "\n%s\n", target);
    return strstr(of->targets, line) != NULL;
}

/* True if a context would read the file as code: its target is known, or one
 * for which the pack has code. */
static bool is_target(const spc__earlier *of, const char *target)
{
    return strchr(target, '.') == NULL &&
           (strncmp(target, "sm_", 3) == 0 || has_code_for(of, target));
}

/* Removes a file if it belongs to an earlier pack and not to the new one.
 * Reports a file that stays although it would be read. */
static spc_status take(spc__earlier *of, const char *path, const char *target,
                       spc_error *error)
{
    if (!of->whole && has_code_for(of, target))
        return SPC_OK; /* the file belongs to this pack */
    if (spc__place_check(path, of->manifest, NULL, NULL) != SPC_OK) {
        if (is_target(of, target))
            snprintf(of->left, sizeof(of->left), "%s", path);
        return SPC_OK;
    }
    if (unlink(path) != 0)
        return spc__fail(error, SPC_EIO,
                         "cannot remove '%s', code of an earlier pack that "
                         "would be read with this one: %s",
                         path, strerror(errno));
    of->removed++;
    return SPC_OK;
}

spc_status spc__pack_remove_earlier(spc__earlier *of, const char *path,
                                    spc_error *error)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    spc__buf folder = SPC__BUF_INIT, stem = SPC__BUF_INIT, file = SPC__BUF_INIT;
    spc_status status = SPC_OK;
    struct dirent *entry;
    char target[64];

    if (slash != NULL)
        spc__buf_append(&folder, path, (size_t)(slash - path) + 1);
    spc__buf_append(&stem, name, strlen(name) - 3); /* without ".db" */
    DIR *list = opendir(folder.length > 0 ? spc__buf_text(&folder) : ".");
    while (list != NULL && status == SPC_OK &&
           (entry = readdir(list)) != NULL) {
        if (!find_target(target, entry->d_name, spc__buf_text(&stem)))
            continue;
        spc__buf_clear(&file);
        spc__buf_printf(&file, "%s%s", spc__buf_text(&folder), entry->d_name);
        status = take(of, spc__buf_text(&file), target, error);
    }
    if (list != NULL)
        closedir(list);
    spc__buf_release(&folder);
    spc__buf_release(&stem);
    spc__buf_release(&file);
    return status;
}
