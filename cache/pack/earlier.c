/* SPDX-License-Identifier: Apache-2.0 */
/*
 * earlier.c - removes code files left by an earlier pack of the same name.
 *
 * Opening NAME.db also reads NAME.TARGET.db. If a new pack has no file for a
 * target, because it contains the code itself or lacks the target, it must
 * remove the file of the earlier pack. Such a file is ours if it says that
 * NAME.manifest lists it. All others stay.
 */
#include "cache/pack/earlier.h"

#include "base/error.h"
#include "cache/pack/place.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
static spc_status take(const spc__earlier *of, const char *path,
                       const char *target, spc__pack_report *report,
                       spc_error *error)
{
    if (!of->whole && has_code_for(of, target))
        return SPC_OK; /* the file belongs to this pack */
    if (spc__place_check(path, of->manifest, NULL, NULL) != SPC_OK) {
        if (is_target(of, target))
            snprintf(report->left, sizeof(report->left), "%s", path);
        return SPC_OK;
    }
    if (unlink(path) != 0)
        return spc__fail(error, SPC_EIO,
                         "cannot remove '%s', code of an earlier pack that "
                         "would be read with this one: %s",
                         path, strerror(errno));
    report->removed++;
    return SPC_OK;
}

spc_status spc__pack_remove_earlier(const spc__earlier *of, const char *path,
                                    spc__pack_report *report, spc_error *error)
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
        status = take(of, spc__buf_text(&file), target, report, error);
    }
    if (list != NULL)
        closedir(list);
    spc__buf_release(&folder);
    spc__buf_release(&stem);
    spc__buf_release(&file);
    return status;
}
