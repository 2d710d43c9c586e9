/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h - leases record which process works on what, so that several
 * processes share the work instead of repeating it.
 *
 * A lease is a row of the user's file. It ends when its owner drops it, when it
 * expires, or when its owner is found to have ended, so a killed process does
 * not block others. Only processes in the owner's PID namespace can find that.
 * Processes in other containers or on other machines wait until the lease
 * expires.
 */
#ifndef SPC_CACHE_LEASE_H
#define SPC_CACHE_LEASE_H

#include "cache/cache.h"

enum { SPC__LEASE_OWNER = 240 };

/* Takes or renews the lease of `work` for this many seconds. *taken is false if
 * another process has it; `holder` (may be NULL) then receives its name,
 * "4711@host". All threads of a process are one owner. */
spc_status spc__lease_take(bool *taken, char holder[SPC__LEASE_OWNER],
                           spc__cache *cache, const char *work, int seconds,
                           spc_error *error);

/* Drops the lease if this process owns it. */
void spc__lease_drop(spc__cache *cache, const char *work);

#endif
