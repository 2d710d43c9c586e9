/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h - the passes of a training step, as problems derived from a layer. */
#ifndef SPC_RUNTIME_PASS_H
#define SPC_RUNTIME_PASS_H

#include "base/attrs.h"
#include "operators/offset_store.h"
#include "spc.h"
#include "templates/shared/spc_abi.h"

extern const char *const spc__pass_names[]; /* indexed by spc_pass; ends with
                                               NULL */

/* Mirrors a list, or the box around its centre. A mirrored list is written to
 * `room`; spc__geometry_keep makes a permanent copy. */
void spc__geometry_mirror(spc_geometry *geometry,
                          int16_t room[SPC__LIST_NUMBERS]);

/* Reverses the relation: turns a layer into its DGRAD, and back. Sets the
 * operator, the channels and the geometry, and uses `room` as
 * spc__geometry_mirror does. */
void spc__conv_exchange(spc_conv *conv, int16_t room[SPC__LIST_NUMBERS]);

/* Turns a parsed layer into the problem of its pass. */
spc_status spc__pass_read(spc_conv *conv, spc_error *error);

spc_status spc__pass_check(const spc_conv *conv, spc_error *error);

/* Writes and reads the attrs `pass` and `accumulate`, which a forward layer
 * omits. */
void spc__pass_attrs(spc__attrs *out, const spc_conv *conv);
bool spc__pass_from_attrs(spc_conv *out, const spc__attrs *attrs);

/* Sets where a packing kernel finds the weights in args->weights. With mirrored
 * offsets it starts at the last one. */
void spc__pass_strides(spc_pack_args *args, const spc_conv *conv,
                       spc_weights_layout layout);

/* Returns the role of the templates for this problem: "conv" or "wgrad". */
const char *spc__problem_role(const spc__attrs *problem);

#endif
