/*
 * owner.c - whose a database is.
 *
 * What a database holds is run: kernels on a GPU, and on a cpu code that may do
 * all that its user may. So the user's file is looked at as ssh looks at its
 * keys: it, and the journals from which SQLite would complete it, belong to the
 * user or to root, nobody else may write them, and nobody else can put another
 * file in their place.
 */
#include "cache_internal.h"

#include "error.h"
#include <limits.h>
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

/* What is wrong with it, and how to make it right; NULL: nothing, or it is not
 * there. */
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
    if (facts.st_mode & (S_IWGRP | S_IWOTH)) {
        snprintf(cure, MOST_CURE, "'chmod go-w %s' ends that", name);
        return "may be written by others";
    }
    return NULL;
}

/* In a folder of everybody's only those with the sticky bit keep a file in its
 * place. */
static const char *find_folder_fault(const char *name, char cure[MOST_CURE])
{
    char folder[PATH_MAX + 16];
    struct stat facts;

    snprintf(folder, sizeof(folder), "%s", name);
    char *slash = strrchr(folder, '/');
    snprintf(slash != NULL ? slash : folder, 2, slash == folder ? "/" : "");
    if (slash == NULL)
        strcpy(folder, ".");
    if (stat(folder, &facts) != 0 || !(facts.st_mode & S_IWOTH) ||
        facts.st_mode & S_ISVTX)
        return NULL;
    snprintf(cure, MOST_CURE, "'chmod o-w %s' ends that", folder);
    return "is in a folder that everybody may write";
}

spc_status spc__cache_check_owner(const char *path, spc_error *error)
{
    static const char *const siblings[] = {"", "-wal", "-journal"};
    char real[PATH_MAX], name[PATH_MAX + 16], cure[MOST_CURE];
    const char *fault = NULL;

    if (realpath(path, real) == NULL) /* it will be made, as ours */
        return SPC_OK;
    for (int i = 0; i < 3 && fault == NULL; i++) {
        snprintf(name, sizeof(name), "%s%s", real, siblings[i]);
        fault = find_fault(name, cure);
    }
    if (fault == NULL)
        fault = find_folder_fault(name, cure);
    if (fault == NULL)
        return SPC_OK;
    return spc__fail(error, SPC_EDB,
                     "cannot open '%s': '%.300s' %s, and code in it would be "
                     "run; %.400s, or say that it is trusted",
                     path, name, fault, cure);
}
