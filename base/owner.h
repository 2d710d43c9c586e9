/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h - checks who can change a file before the file is trusted.
 *
 * The kernels in a database are executed: on a GPU, or on the cpu with all
 * rights of the user. A file of defaults selects databases and templates. Both
 * are therefore checked as ssh checks its keys. The file and all files read
 * with it must belong to the user or to root, and no other user may write them.
 * No other user may be able to replace the file, a link on the way to it, or a
 * folder above them.
 */
#ifndef SPC_BASE_OWNER_H
#define SPC_BASE_OWNER_H

#include "spc/status.h"

/*
 * Checks the file at `path` and the files next to it whose names have one of
 * the endings `siblings` (ended by NULL). A file that does not exist yet passes
 * if its folder passes. Otherwise returns SPC_EIO. The sentence names who could
 * write the file, how to prevent that, and `otherwise`: an alternative for the
 * user.
 */
spc_status spc__owner_check(const char *path, const char *const siblings[],
                            const char *otherwise, spc_error *error);

#endif
