/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - runs a program under limits and kills it when this process ends. */
#ifndef SPC_COMPILER_CHILD_H
#define SPC_COMPILER_CHILD_H

#include "base/buf.h"
#include "spc/status.h"

/*
 * Runs `path` (searched in $PATH unless it has a slash) with `arguments` (ended
 * by NULL; [0] is the program's own name). Its standard input is empty, TMPDIR
 * is `folder` (NULL: unchanged), and its messages are in English. Its output is
 * appended to *output. The call returns when the program itself has ended, even
 * if a process that it started still holds the output. The program and its
 * children are limited to 4 GiB of memory and `limit_seconds` of processor time
 * each. They are killed after `limit_seconds` (SPC_ETIMEOUT), when this process
 * ends for any reason, and once *cancel (may be NULL) is set
 * (SPC_EINTERRUPTED). Returns SPC_EUNSUPPORTED if the program cannot be
 * started. *exit_code is 128 + n after signal n, as in a shell. Several threads
 * may call this at once.
 */
spc_status spc__child_run(int *exit_code, spc__buf *output, const char *path,
                          const char *const *arguments, const char *folder,
                          int limit_seconds, const volatile int *cancel,
                          spc_error *error);

#endif
