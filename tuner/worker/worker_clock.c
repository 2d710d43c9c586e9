/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_clock.c - the wall clock minus the time that threads waited for a
 * processor, from /proc/PID/task/TID/schedstat. It is the wall clock on kernels
 * without that file.
 */
#include "tuner/worker/worker_clock.h"

#include "base/clock.h"
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds that a thread was ready and did not run; 0: unknown. */
static uint64_t read_wait(pid_t pid, long thread)
{
    char path[80];
    unsigned long long ran = 0, waited = 0;

    snprintf(path, sizeof(path), "/proc/%ld/task/%ld/schedstat", (long)pid,
             thread);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    bool is_read = fscanf(file, "%llu %llu", &ran, &waited) == 2;
    fclose(file);
    return is_read ? waited : 0;
}

/* Returns the wait at the start of the clock, or 0 for a thread that began
 * later. */
static uint64_t wait_before(const spc__worker_clock *clock, long id)
{
    for (int i = 0; i < clock->threads; i++)
        if (clock->seen[i].id == id)
            return clock->seen[i].waited_ns;
    return 0;
}

/* Calls visit for all threads. */
static void for_threads(spc__worker_clock *clock,
                        void (*visit)(spc__worker_clock *clock, long id,
                                      uint64_t waited_ns))
{
    struct dirent *entry;
    char path[40];

    snprintf(path, sizeof(path), "/proc/%ld/task", (long)clock->pid);
    DIR *folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        long id = strtol(entry->d_name, NULL, 10);
        if (id > 0)
            visit(clock, id, read_wait(clock->pid, id));
    }
    if (folder != NULL)
        closedir(folder);
}

static void note(spc__worker_clock *clock, long id, uint64_t waited_ns)
{
    /* A thread that is not noted counts all its waits since its start, which
     * only lengthens the limit. */
    if (clock->threads == SPC__CLOCK_THREADS)
        return;
    clock->seen[clock->threads].id = id;
    clock->seen[clock->threads++].waited_ns = waited_ns;
}

void spc__worker_clock_start(spc__worker_clock *out, pid_t pid)
{
    memset(out, 0, sizeof(*out));
    out->pid = pid;
    for_threads(out, note);
    out->start_ns = spc__now_ns();
}

/* Uses the longest wait of one thread, not the sum, as threads wait at the same
 * time. */
static void find_longest(spc__worker_clock *clock, long id, uint64_t waited_ns)
{
    uint64_t before = wait_before(clock, id);

    if (waited_ns > before && waited_ns - before > clock->longest_ns)
        clock->longest_ns = waited_ns - before;
}

/*
 * The kernel counts a wait when it is over, so the value lags by one time
 * slice.
 */
double spc__worker_clock_read(spc__worker_clock *clock)
{
    for_threads(clock, find_longest);
    uint64_t wall_ns = spc__now_ns() - clock->start_ns;

    return wall_ns > clock->longest_ns
               ? (double)(wall_ns - clock->longest_ns) * 1e-9
               : 0;
}
