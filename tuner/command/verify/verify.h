/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h - what the forms of spctune verify share. */
#ifndef SPC_CMD_VERIFY_H
#define SPC_CMD_VERIFY_H

#include "command/tune/tuning.h"

/* Which of the three parsers reads a text: by the name that it begins with,
 * "convolution" for one that nobody knows. */
const char *verify_kind(const char *text);

/* An operator on features, or a regrouping, on scenes; a failure's sentence is
 * the context's. *error as of spc_feature_verify. */
spc_status verify_operator(spc_ctx *ctx, const char *text,
                           const scene_set *scenes, uint64_t seed,
                           double *error);

/* verify --all */
spc_status verify_all(cli *self, const tuning_args *args);

#endif
