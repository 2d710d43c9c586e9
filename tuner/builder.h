/* SPDX-License-Identifier: Apache-2.0 */
/*
 * builder.h - compiles candidates in the background.
 *
 * Threads compile while the caller goes on: it adds candidates, and takes them
 * back one by one as they are done. If kernels run on the cores that compile,
 * the builder starts one thread less, and the caller compiles instead of
 * waiting. Either way all threads of the context are busy. Only the caller's
 * thread uses candidates, the database and callbacks.
 */
#ifndef SPC_TUNER_BUILDER_H
#define SPC_TUNER_BUILDER_H

#include "tuner/search/candidates.h"

typedef struct spc__builder spc__builder;

/* Opens the compiler, or fails if no compiler is available. */
spc_status spc__builder_create(spc__builder **out, const spc__request *request,
                               const spc__candidates *candidates);
/* Waits for running compilations and discards them; NULL is fine. */
void spc__builder_free(spc__builder *builder);

/*
 * Renders a new candidate and queues it for compilation, unless the database or
 * another candidate has its code; finds duplicates. A failure of the candidate
 * itself is found when it comes back; the return value is only SPC_ENOMEM or
 * SPC_EINTERRUPTED.
 */
spc_status spc__builder_add(spc__builder *builder, spc__entry *entry);

/*
 * Returns the next finished candidate, in no particular order: SPC__BUILT, or
 * SPC__FAILED, also if it spills or does not fit the target. Waits; *out is
 * NULL at the end. May return SPC_EINTERRUPTED.
 */
spc_status spc__builder_next(spc__builder *builder, spc__entry **out);

/*
 * Starts no further compilation, and waits for running compilations.
 * spc__builder_next still returns their results; candidates that were not
 * compiled are new again.
 */
void spc__builder_stop(spc__builder *builder);

/* Number of candidates that were added and have not come back. */
int spc__builder_pending(const spc__builder *builder);
int spc__builder_compiled(const spc__builder *builder);
/* True if any candidate has code. If not, the compiler may be at fault. */
bool spc__builder_works(const spc__builder *builder);
const char *spc__builder_compiler(const spc__builder *builder);

#endif
