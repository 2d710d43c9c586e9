/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c - checks a file, the files next to it and all folders above them. */
#include "base/owner.h"

#include "base/error.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_CURE = PATH_MAX + 64 };

static bool is_ours(const struct stat *facts)
{
    return facts->st_uid == geteuid() || facts->st_uid == 0;
}

/* Many systems give each user a group of their own. Write permission for that
 * group is not write permission for others. */
static bool others_may_write(const struct stat *facts)
{
    bool is_own_group = facts->st_uid == geteuid() &&
                        facts->st_gid == getegid() &&
                        facts->st_gid == facts->st_uid;

    return facts->st_mode & (is_own_group ? S_IWOTH : S_IWGRP | S_IWOTH);
}

/* Returns what is wrong with the file's permissions and sets `cure` to how to
 * correct it. Returns NULL if nothing is wrong or the file does not exist. */
static const char *find_fault(const char *name, char cure[MOST_CURE])
{
    struct stat facts;

    cure[0] = '\0';
    if (stat(name, &facts) != 0)
        return NULL;
    if (!is_ours(&facts)) {
        snprintf(cure, MOST_CURE, "copy it to a file of your own");
        return "belongs to another user";
    }
    if (others_may_write(&facts)) {
        snprintf(cure, MOST_CURE, "'chmod go-w %s' ends that", name);
        return "may be written by others";
    }
    return NULL;
}

/* True for the overflow user. A container may map only a few users; all other
 * files, even those of root, then belong to this one. */
static bool is_unknown(uid_t owner)
{
    const unsigned everybody = UINT32_MAX, unknown = 65534;
    unsigned first, outside, count = everybody;
    FILE *map = owner == unknown ? fopen("/proc/self/uid_map", "r") : NULL;

    if (map == NULL)
        return false;
    /* Outside of a container, the first line maps all users. */
    if (fscanf(map, "%u %u %u", &first, &outside, &count) != 3)
        count = everybody;
    fclose(map);
    return count != everybody;
}

/* Checks one folder. A user who owns a folder or may write to it can replace
 * any file in it, even one that the user may not write. The sticky bit prevents
 * this. */
static const char *find_folder_fault(const char *folder, char cure[MOST_CURE])
{
    struct stat facts;

    if (stat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode))
        return NULL; /* opening the file will report it */
    if (!is_ours(&facts) && !is_unknown(facts.st_uid)) {
        snprintf(cure, MOST_CURE, "copy it to a folder of your own");
        return "is in a folder of another user";
    }
    if (!others_may_write(&facts) || facts.st_mode & S_ISVTX)
        return NULL;
    snprintf(cure, MOST_CURE, "'chmod go-w %s' ends that", folder);
    return "is in a folder that others may write";
}

/* Cuts an absolute path to its folder. Returns false for the root. */
static bool leave(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL || path[1] == '\0')
        return false;
    /* The folder of a file in the root is the slash itself. */
    slash[slash == path] = '\0';
    return true;
}

/* Checks all folders above the path, which need not exist. */
static const char *find_fault_above(const char *real, char cure[MOST_CURE])
{
    char folder[PATH_MAX];
    const char *fault = NULL;

    snprintf(folder, sizeof(folder), "%s", real);
    while (fault == NULL && leave(folder))
        fault = find_folder_fault(folder, cure);
    return fault;
}

/* Resolves all links among the folders of `path`; the last component may still
 * be a link. If the file does not exist yet, the result is in its nearest
 * existing folder. */
static bool find_folder(char real[PATH_MAX], const char *path)
{
    char start[PATH_MAX], name[PATH_MAX];
    const char *last;

    if (path[0] != '/' && getcwd(start, sizeof(start)) == NULL)
        return false;
    int length = path[0] == '/'
                     ? snprintf(name, sizeof(name), "%s", path)
                     : snprintf(name, sizeof(name), "%s/%s", start, path);
    if (length < 0 || length >= PATH_MAX)
        return false;
    last = strrchr(path, '/');
    last = last != NULL ? last + 1 : path;
    /* Only the nearest existing folder matters: a file below it can be created
     * only by someone who may write there. */
    for (; leave(name); last = "new")
        if (realpath(name, real) != NULL) {
            size_t used = strlen(real);
            return snprintf(real + used, PATH_MAX - used, "/%s", last) <
                   (int)(PATH_MAX - used);
        }
    return false;
}

/* Replaces `path` by the target of the link there, one level. Returns false if
 * `path` is not a link. */
static bool follow(char path[PATH_MAX])
{
    char text[PATH_MAX];
    ssize_t length = readlink(path, text, sizeof(text) - 1);
    size_t folder = 0;

    if (length <= 0)
        return false;
    text[length] = '\0';
    if (text[0] != '/')
        folder = (size_t)(strrchr(path, '/') - path) + 1;
    return snprintf(path + folder, PATH_MAX - folder, "%s", text) <
           (int)(PATH_MAX - folder);
}

/* Rejects links of other users, since a link's owner can redirect it. */
static const char *find_link_fault(const char *name, char cure[MOST_CURE])
{
    struct stat facts;

    if (lstat(name, &facts) != 0 || !S_ISLNK(facts.st_mode) || is_ours(&facts))
        return NULL;
    snprintf(cure, MOST_CURE, "name its target");
    return "is a link of another user";
}

/* Finds the file and checks every folder and link on the way to it, because
 * replacing a link on the way selects another file. Returns false if the path
 * cannot be resolved. */
static bool find_file(char real[PATH_MAX], const char **fault,
                      char cure[MOST_CURE], const char *path)
{
    enum { MOST_LINKS = 40 };
    char at[PATH_MAX];

    *fault = NULL;
    snprintf(at, sizeof(at), "%s", path);
    /* As many links as the kernel follows. */
    for (int i = 0; i <= MOST_LINKS; i++) {
        if (!find_folder(real, at))
            return false;
        *fault = find_fault_above(real, cure);
        if (*fault == NULL)
            *fault = find_link_fault(real, cure);
        snprintf(at, sizeof(at), "%s", real);
        if (*fault != NULL || !follow(at))
            return true;
    }
    return false;
}

spc_status spc__owner_check(const char *path, const char *const siblings[],
                            const char *otherwise, spc_error *error)
{
    char real[PATH_MAX], name[PATH_MAX + 16], cure[MOST_CURE];
    const char *fault;

    if (!find_file(real, &fault, cure, path)) /* the later open reports this */
        return SPC_OK;
    snprintf(name, sizeof(name), "%s", path);
    if (fault == NULL) {
        snprintf(name, sizeof(name), "%s", real);
        fault = find_fault(name, cure);
    }
    for (int i = 0; siblings[i] != NULL && fault == NULL; i++) {
        snprintf(name, sizeof(name), "%s%s", real, siblings[i]);
        fault = find_fault(name, cure);
    }
    if (fault == NULL)
        return SPC_OK;
    return spc__fail(
        error, SPC_EIO,
        "'%.300s' %s, who could choose the code that runs: %.400s, or %s", name,
        fault, cure, otherwise);
}
