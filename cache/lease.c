/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c - takes, renews and drops leases. */
#include "cache/lease.h"

#include "base/clock.h"
#include "base/error.h"
#include "cache/cache_internal.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the start time of a process in ticks since boot, because process
 * numbers are reused. It is the 22nd field of the stat file in proc(5). The
 * second field is a name in brackets, which may contain anything. Returns 0 if
 * the process does not exist or is hidden. */
static unsigned long long start_of(long pid)
{
    enum { BEFORE = 20 }; /* blanks between the bracket and the field */
    char path[40], text[1024];
    unsigned long long start = 0;

    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    /* The last bracket ends the name, whatever is in it. */
    const char *at = strrchr(text, ')');
    for (int i = 0; i < BEFORE && at != NULL; i++)
        at = strchr(at + 1, ' ');
    if (at != NULL)
        start = strtoull(at, NULL, 10);
    return start;
}

/* Reads the first line of a file in /proc, or "" if it does not exist. */
static void read_line(char *out, size_t bytes, const char *path)
{
    FILE *file = fopen(path, "re");

    if (file == NULL || fgets(out, (int)bytes, file) == NULL)
        out[0] = '\0';
    if (file != NULL)
        fclose(file);
    out[strcspn(out, "\n")] = '\0';
}

/* Writes "pid:[4026531836] BOOT": the PID namespace of this process, in which
 * its number is valid. The namespace's number is unique until the next boot,
 * which BOOT identifies. Two containers may share a host name but not a
 * namespace. Writes "" if /proc is not available. */
static void name_namespace(char out[SPC__LEASE_OWNER])
{
    char space[40], boot[40];
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);

    read_line(boot, sizeof(boot), "/proc/sys/kernel/random/boot_id");
    space[length > 0 ? length : 0] = '\0';
    out[0] = '\0';
    if (length > 0 && boot[0] != '\0')
        snprintf(out, SPC__LEASE_OWNER, "%s %s", space, boot);
}

/* Writes "PID@HOST START NAMESPACE". */
static void name_self(char out[SPC__LEASE_OWNER])
{
    char host[65] = "", space[SPC__LEASE_OWNER];

    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = '\0';
    name_namespace(space);
    snprintf(out, SPC__LEASE_OWNER, "%ld@%s %llu %.90s", (long)getpid(), host,
             start_of(getpid()), space);
}

/* True if the owner has ended. Only a process in the owner's PID namespace can
 * determine this; others get false. */
static bool has_ended(const char *owner)
{
    char space[SPC__LEASE_OWNER];
    const char *start = strchr(owner, ' ');
    const char *theirs = start != NULL ? strchr(start + 1, ' ') : NULL;
    long pid = strtol(owner, NULL, 10);

    name_namespace(space);
    if (theirs == NULL || pid <= 0 || space[0] == '\0' ||
        strcmp(theirs + 1, space) != 0)
        return false;
    /* Signal 0 only checks. EPERM means that the process exists. */
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return true;
    unsigned long long now = start_of(pid);
    /* The number may belong to a newer process. */
    return now != 0 && strtoull(start, NULL, 10) != now;
}

static spc_status ask(spc__layer *layer, sqlite3_stmt **stmt, const char *sql,
                      const char *work, spc_error *error)
{
    spc_status status = spc__layer_prepare(stmt, layer, sql, "use", error);

    if (status == SPC_OK)
        spc__bind_text(*stmt, 1, work);
    return status;
}

/* True if the lease is valid. No lease is longer than `seconds`, so one that
 * ends much later was taken before the clock was set back. */
static bool is_in_force(int64_t until, int seconds)
{
    int64_t left = until - spc__unix_seconds();

    return left > 0 && left <= 2 * (int64_t)seconds;
}

/* Finds the current owner, or "". */
static spc_status find_owner(char owner[SPC__LEASE_OWNER], spc__layer *layer,
                             const char *work, const char *self, int seconds,
                             spc_error *error)
{
    sqlite3_stmt *stmt = NULL;
    bool row = false;
    spc_status status =
        ask(layer, &stmt, "SELECT owner, until FROM lease WHERE work = ?1",
            work, error);

    owner[0] = '\0';
    if (status == SPC_OK)
        status = spc__layer_step(&row, layer, stmt, "read", error);
    if (row && is_in_force(sqlite3_column_int64(stmt, 1), seconds))
        spc__column_text(owner, SPC__LEASE_OWNER, stmt, 0);
    sqlite3_finalize(stmt);
    /* A process may renew its own lease. */
    if (strcmp(owner, self) == 0 || has_ended(owner))
        owner[0] = '\0';
    return status;
}

static spc_status write_owner(spc__layer *layer, const char *work,
                              const char *self, int seconds, spc_error *error)
{
    sqlite3_stmt *stmt = NULL;
    bool row;
    spc_status status = ask(
        layer, &stmt, "REPLACE INTO lease VALUES (?1, ?2, ?3)", work, error);

    if (status == SPC_OK) {
        spc__bind_text(stmt, 2, self);
        sqlite3_bind_int64(stmt, 3, spc__unix_seconds() + seconds);
        status = spc__layer_step(&row, layer, stmt, "write", error);
    }
    sqlite3_finalize(stmt);
    return status;
}

spc_status spc__lease_take(bool *taken, char holder[SPC__LEASE_OWNER],
                           spc__cache *cache, const char *work, int seconds,
                           spc_error *error)
{
    char self[SPC__LEASE_OWNER], owner[SPC__LEASE_OWNER];
    spc__layer *layer;
    spc_status status = spc__cache_writer(&layer, cache, error);

    *taken = false;
    if (status != SPC_OK || (status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;
    name_self(self);
    status = find_owner(owner, layer, work, self, seconds, error);
    *taken = status == SPC_OK && owner[0] == '\0';
    if (*taken)
        status = write_owner(layer, work, self, seconds, error);
    if (holder != NULL)
        snprintf(holder, SPC__LEASE_OWNER, "%.*s", (int)strcspn(owner, " "),
                 owner);
    status = spc__layer_end(layer, status, error);
    /* Another process sees the lease only after the commit. */
    *taken = *taken && status == SPC_OK;
    return status;
}

/* If the delete fails, the lease expires. */
void spc__lease_drop(spc__cache *cache, const char *work)
{
    char self[SPC__LEASE_OWNER];
    spc__layer *layer;
    sqlite3_stmt *stmt = NULL;

    if (spc__cache_writer(&layer, cache, NULL) != SPC_OK)
        return;
    name_self(self);
    if (ask(layer, &stmt, "DELETE FROM lease WHERE work = ?1 AND owner = ?2",
            work, NULL) == SPC_OK) {
        spc__bind_text(stmt, 2, self);
        sqlite3_step(stmt);
    }
    sqlite3_finalize(stmt);
}
