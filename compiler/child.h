/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - runs a program under limits, with us and not longer. */
#ifndef SPC_COMPILER_CHILD_H
#define SPC_COMPILER_CHILD_H

#include "base/buf.h"
#include "spc_status.h"

/*
 * Runs `path` (looked up in $PATH unless it has a slash) with `arguments`
 * (NULL-terminated; [0] is the name it sees), with nothing on its standard
 * input, TMPDIR=`folder` (NULL: as ours) and messages in English, and appends
 * what it prints to *output. Done is what has ended, even if a process that it
 * left behind still holds the output. It and its children may have 4 GiB each
 * and as many seconds of a processor. After `limit_seconds`, and when this
 * process ends, however it ends, they are killed: SPC_ETIMEOUT; once *cancel
 * (may be NULL) is set: SPC_EINTERRUPTED. SPC_EUNSUPPORTED if it cannot be
 * started. *exit_code is 128 + n after signal n, as in a shell. Safe from
 * several threads at once.
 */
spc_status spc__child_run(int *exit_code, spc__buf *output, const char *path,
                          const char *const *arguments, const char *folder,
                          int limit_seconds, const volatile int *cancel,
                          spc_error *error);

#endif
