/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h - who works on what just now, so that several processes share the
 * work instead of doing it twice.
 *
 * A lease is a row of the user's file. It ends when its holder gives it back,
 * when its time is over, or when its holder is seen to have ended: so nobody
 * waits for a process that was killed. Only a process of the holder's own PID
 * namespace can see that. Others, in another container or on another machine,
 * wait until the time is over.
 */
#ifndef SPC_CACHE_LEASE_H
#define SPC_CACHE_LEASE_H

#include "cache/cache.h"

enum { SPC__LEASE_OWNER = 240 };

/* Takes or renews the lease of `work` for so many seconds. *taken is false if
 * another process has it; its name, "4711@host", is then in `holder` (may be
 * NULL). Threads of one process are one holder. */
spc_status spc__lease_take(bool *taken, char holder[SPC__LEASE_OWNER],
                           spc__cache *cache, const char *work, int seconds,
                           spc_error *error);

/* Gives it back, if it is ours. */
void spc__lease_drop(spc__cache *cache, const char *work);

#endif
