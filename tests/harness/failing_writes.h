/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failing_writes.h - for tests: a disk that becomes full at a chosen write.
 *
 * These functions replace those of the C library, for the program and for the
 * libraries that it uses. Only writes to regular files count, and only those of
 * one process.
 */
#ifndef SPC_TESTS_FAILING_WRITES_H
#define SPC_TESTS_FAILING_WRITES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

typedef enum disk_fault {
    DISK_STAYS_FULL, /* that write and all later ones fail */
    DISK_IS_FULL_ONCE,
    DISK_TAKES_HALF /* half of that write succeeds, later ones fail */
} disk_fault;

static long writes_left; /* until one fails; 0: none fails */
static long writes_seen; /* since fail_write() */
static bool disk_is_full;
static disk_fault disk_fails_so;

/* From now on the `nth` write fails, counted from 1; 0: none fails. */
static void fail_write(long nth, disk_fault how)
{
    writes_left = nth;
    writes_seen = 0;
    disk_is_full = false;
    disk_fails_so = how;
}

static bool is_file(int fd)
{
    struct stat facts;

    return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* Returns how many of the bytes still fit. */
static size_t accepted_bytes(int fd, size_t bytes)
{
    if ((writes_left == 0 && !disk_is_full) || !is_file(fd))
        return bytes;
    writes_seen++;
    if (disk_is_full)
        return 0;
    if (--writes_left > 0)
        return bytes;
    disk_is_full = disk_fails_so != DISK_IS_FULL_ONCE;
    return disk_fails_so == DISK_TAKES_HALF ? bytes / 2 : 0;
}

static ssize_t fail_full(void)
{
    errno = ENOSPC;
    return -1;
}

/* Libraries must see these functions. */
#define SHOWN __attribute__((visibility("default")))

SHOWN ssize_t write(int fd, const void *data, size_t bytes)
{
    size_t accepted = accepted_bytes(fd, bytes);

    return accepted == 0 && bytes > 0 ? fail_full()
                                      : syscall(SYS_write, fd, data, accepted);
}

SHOWN ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at)
{
    size_t accepted = accepted_bytes(fd, bytes);

    return accepted == 0 && bytes > 0
               ? fail_full()
               : syscall(SYS_pwrite64, fd, data, accepted, at);
}

SHOWN ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    return pwrite64(fd, data, bytes, at);
}

#endif
