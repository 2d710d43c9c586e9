/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature.h - operators on features inside the library: their names and attrs.
 *
 * The public part is spc_feature in spc/features.h. feature_table.h has a row
 * for each operator. These functions answer from it: feature_text.c parses and
 * writes their text, feature_pass.c derives their gradients, feature_shape.c
 * computes the shapes of their arrays, and feature_plan.c runs them.
 */
#ifndef SPC_RUNTIME_FEATURE_H
#define SPC_RUNTIME_FEATURE_H

#include "base/attrs.h"
#include "spc.h"

/* The largest size of a dense plane along one axis. */
enum { SPC__BEV_MOST = 65536 };

/* Names by spc_reduction and by spc_bev_order. Each list ends with NULL. */
extern const char *const spc__reduction_names[];
extern const char *const spc__bev_order_names[];
/* By spc_bev_order: the axis that is folded into the channels, then the axes of
 * a plane, the fastest last. */
extern const int spc__bev_axes[][3];

/* Writes everything that a kernel's code depends on: op, channels, dtype, and
 * the other attrs of its operator. Slope and eps are arguments of the
 * kernel. */
void spc__feature_attrs(spc__attrs *out, const spc_feature *feature);

/* Returns the number of adjacent elements in a row of outputs. This is
 * spc_feature_elements_out, except for BEV, whose channels are not adjacent. */
int64_t spc__feature_outputs(const spc_feature *feature);

/* The same for a row of inputs. */
int64_t spc__feature_inputs(const spc_feature *feature);

/* As spc_feature_rows_out, for an operator that was checked. */
int64_t spc__feature_rows_out(const spc_feature *feature, int64_t rows,
                              int64_t batches);

/* True if the operator reads a map, false if it reads a set. */
bool spc__feature_takes_map(const spc_feature *feature);
/* True if the map is the inverse one. */
bool spc__feature_takes_inverse(const spc_feature *feature);

/* True if each row is computed separately, independent of the set. */
bool spc__feature_is_by_row(const spc_feature *feature);

/* True if the operator reads a second array of rows, `add`. */
bool spc__feature_adds(const spc_feature *feature);

/* True if `add` of the layer has a row for each batch element; the next: for
 * the gradient of these rows. */
bool spc__feature_adds_by_batch(const spc_feature *feature);
bool spc__feature_is_of_add(const spc_feature *feature);

/* True if the operator has a row of outputs for each batch element. Its
 * gradient is the opposite. */
bool spc__feature_is_by_batch(const spc_feature *feature);

/* True if such a row of outputs is dense planes of the operator's shape. */
bool spc__feature_has_planes(const spc_feature *feature);

/* True if the operator reads or writes an array of input rows: any pass, the
 * pooling that stores them, the un-pooling that reads them. */
bool spc__feature_has_index(const spc_feature *feature);
bool spc__feature_stores_index(const spc_feature *feature);
bool spc__feature_reads_index(const spc_feature *feature);

/* True if the layer has a scale and a shift, if this pass reads the scale, and
 * if it reads the shift. */
bool spc__feature_has_params(const spc_feature *feature);
bool spc__feature_has_scale(const spc_feature *feature);
bool spc__feature_has_shift(const spc_feature *feature);

/* Returns the type of the outputs. A gradient of scale and shift is fp32. */
spc_dtype spc__feature_out_dtype(const spc_feature *feature);

/* True if its offsets are the mirrored offsets of the operator, so that each
 * output finds the rows that see it. */
bool spc__feature_is_mirrored(const spc_feature *feature);

/* Checks the rules of a gradient. Its other words must be valid. */
spc_status spc__feature_check_pass(const spc_feature *feature,
                                   spc_error *error);

/* Returns the template that serves the operator on the plan's device. */
const char *spc__feature_plan_template(const spc_feature_plan *plan);

#endif
