/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h - the passes of a training step, as problems that follow from a layer.
 */
#ifndef SPC_RUNTIME_PASS_H
#define SPC_RUNTIME_PASS_H

#include "base/attrs.h"
#include "spc.h"
#include "templates/shared/spc_abi.h"

extern const char *const spc__pass_names[]; /* by spc_pass; NULL ends it */

/* What reads the relation the other way: from a layer to its DGRAD, and back.
 * Sets the operator, the channels and the geometry. */
void spc__conv_exchange(spc_conv *conv);

/* Of a layer whose words are read: makes it the problem of its pass. */
spc_status spc__pass_read(spc_conv *conv, spc_error *error);

spc_status spc__pass_check(const spc_conv *conv, spc_error *error);

/* The attrs `pass` and `accumulate`, left out of a forward layer; and back. */
void spc__pass_attrs(spc__attrs *out, const spc_conv *conv);
bool spc__pass_from_attrs(spc_conv *out, const spc__attrs *attrs);

/* Where a packing kernel finds the weights, which args->weights points at; of
 * mirrored offsets at the last. */
void spc__pass_strides(spc_pack_args *args, const spc_conv *conv,
                       spc_weights_layout layout);

/* The role of the templates that solve such a problem: "conv" or "wgrad". */
const char *spc__problem_role(const spc__attrs *problem);

#endif
