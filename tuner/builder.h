/* SPDX-License-Identifier: Apache-2.0 */
/*
 * builder.h - compiles candidates in the background.
 *
 * Its threads compile while the caller goes on: it adds candidates, and takes
 * them back one by one as they are done. Where kernels run on the cores that
 * compile, one thread less is started, and the caller compiles when it would
 * only wait: so many threads as the context has are busy either way. All but
 * the compiling itself happens on the caller's thread, the only one that looks
 * at candidates, database and callbacks.
 */
#ifndef SPC_TUNER_BUILDER_H
#define SPC_TUNER_BUILDER_H

#include "tuner/search/candidates.h"

typedef struct spc__builder spc__builder;

/* Opens the compiler, or says that there is none. */
spc_status spc__builder_create(spc__builder **out, const spc__request *request,
                               const spc__candidates *candidates);
/* Waits for what is being compiled, and forgets it; NULL is fine. */
void spc__builder_free(spc__builder *builder);

/*
 * Renders a new candidate and has it compiled, unless the database or another
 * candidate has its code; finds twins. A failure of the candidate's own is
 * found when it comes back; returned are only SPC_ENOMEM and SPC_EINTERRUPTED.
 */
spc_status spc__builder_add(spc__builder *builder, spc__entry *entry);

/*
 * The next that is done, in no certain order: SPC__BUILT, or SPC__FAILED, which
 * is also what spills or does not fit the target. Waits; *out is NULL if none
 * is left. SPC_EINTERRUPTED.
 */
spc_status spc__builder_next(spc__builder *builder, spc__entry **out);

/* Begins no other compilation, and waits for those under way. What they gave is
 * still to be had from spc__builder_next; the others are new as before. */
void spc__builder_stop(spc__builder *builder);

/* How many were added and have not come back. */
int spc__builder_pending(const spc__builder *builder);
int spc__builder_compiled(const spc__builder *builder);
/* Has any candidate's code been had? Else failures may be the compiler's. */
bool spc__builder_works(const spc__builder *builder);
const char *spc__builder_compiler(const spc__builder *builder);

#endif
