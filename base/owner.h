/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h - whose file may be believed.
 *
 * What a database holds is run: kernels on a GPU, and on a cpu code that may do
 * all that its user may; and a file of defaults says which databases and
 * templates those are. So they are looked at as ssh looks at its keys: such a
 * file, and what else would be read with it, belongs to the user or to root,
 * nobody else may write it, and nobody else can put another file in its place,
 * another link in that of one that leads to it, or another folder in that of one
 * above them.
 */
#ifndef SPC_BASE_OWNER_H
#define SPC_BASE_OWNER_H

#include "spc_status.h"

/*
 * May the file at `path` be believed, and those beside it whose names have one
 * of the endings `siblings` (until NULL) besides? What is not there yet may, as
 * it would be made. Else SPC_EIO; the sentence says who could write it, what
 * ends that, and `otherwise`: what else the user can do.
 */
spc_status spc__owner_check(const char *path, const char *const siblings[],
                            const char *otherwise, spc_error *error);

#endif
