/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_clock.h - measures the time that a worker had the machine for itself.
 *
 * A limit in seconds of the wall clock would depend on the machine's load. This
 * clock stops while a thread of the worker is ready to run and waits for a
 * processor.
 */
#ifndef SPC_TUNER_WORKER_CLOCK_H
#define SPC_TUNER_WORKER_CLOCK_H

#include <stdint.h>
#include <sys/types.h>

enum { SPC__CLOCK_THREADS = 1024 }; /* more threads are ignored */

typedef struct spc__worker_clock {
    pid_t pid;
    uint64_t start_ns;   /* time on the wall clock */
    uint64_t longest_ns; /* the longest wait of one thread since the start */
    int threads;         /* number at the start */
    struct {
        long id;
        uint64_t waited_ns; /* time waiting for a processor since it began */
    } seen[SPC__CLOCK_THREADS];
} spc__worker_clock;

void spc__worker_clock_start(spc__worker_clock *out, pid_t pid);

/* Seconds since the start, minus the longest wait of one thread. */
double spc__worker_clock_read(spc__worker_clock *clock);

#endif
