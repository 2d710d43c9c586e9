/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature.h - operators on features inside the library: their names, their
 * attrs.
 *
 * Public part: spc_feature in spc.h. feature_text.c reads and writes their
 * text, feature_pass.c knows their gradients, feature_shape.c the shapes of
 * their arrays; feature_plan.c runs them.
 */
#ifndef SPC_RUNTIME_FEATURE_H
#define SPC_RUNTIME_FEATURE_H

#include "base/attrs.h"
#include "spc.h"

/* Cells of dense planes along an axis. */
enum { SPC__BEV_MOST = 65536 };

/* By spc_reduction and spc_bev_order; each ends with NULL. */
extern const char *const spc__reduction_names[];
extern const char *const spc__bev_order_names[];
/* By spc_bev_order: the axis whose places are channels, then those of a plane,
 * the last running fastest. */
extern const int spc__bev_axes[][3];

/* What a kernel's code depends on: op, channels, dtype, and what else its
 * operator uses; but for slope and eps, which are arguments. */
void spc__feature_attrs(spc__attrs *out, const spc_feature *feature);

/* Elements of a row of outputs that lie together: spc_feature_row_out, but for
 * BEV, whose channels do not. */
int64_t spc__feature_outputs(const spc_feature *feature);

/* Of a row of inputs. */
int64_t spc__feature_inputs(const spc_feature *feature);

/* Does it read a map? If not, a set. */
bool spc__feature_takes_map(const spc_feature *feature);
/* The inverse one? */
bool spc__feature_takes_inverse(const spc_feature *feature);

/* Does it take each row by itself, whatever set it lies over? */
bool spc__feature_is_by_row(const spc_feature *feature);

/* Does it read a second array of rows, `add`? */
bool spc__feature_adds(const spc_feature *feature);

/* Does it read an array of input rows, or write one? Does it read a scale, and
 * a shift? */
bool spc__feature_has_index(const spc_feature *feature);
bool spc__feature_has_scale(const spc_feature *feature);
bool spc__feature_has_shift(const spc_feature *feature);

/* Of the outputs: a gradient of scale and shift is fp32. */
spc_dtype spc__feature_out_dtype(const spc_feature *feature);

/* Of the rule SUBM: who sees an output is at the opposite of its offsets. */
void spc__feature_mirror(spc_geometry *geometry);

/* The rules of a gradient, whose other words are right. */
spc_status spc__feature_check_pass(const spc_feature *feature,
                                   spc_error *error);

/* The template that serves it on the plan's device. */
const char *spc__feature_plan_template(const spc_feature_plan *plan);

#endif
