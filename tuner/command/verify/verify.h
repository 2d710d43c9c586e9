/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h - shared by the forms of spctune verify. */
#ifndef SPC_CMD_VERIFY_H
#define SPC_CMD_VERIFY_H

#include "command/tune/tuning.h"

/*
 * Returns the name of the parser for a text, by the name that the text begins
 * with; "convolution" for an unknown name.
 */
const char *verify_kind(const char *text);

/*
 * Verifies an operator on features, or a regrouping, on scenes. The context has
 * the message of a failure. *error as for spc_feature_verify.
 */
spc_status verify_operator(spc_ctx *ctx, const char *text,
                           const scene_set *scenes, uint64_t seed,
                           double *error);

/* verify --all */
spc_status verify_all(cli *self, const tuning_args *args);

#endif
