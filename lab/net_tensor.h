/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_tensor.h - tensors of a network's last run, read and written as floats in
 * rows without gaps.
 */
#ifndef SPC_LAB_NET_TENSOR_H
#define SPC_LAB_NET_TENSOR_H

#include "net/net_plan.h"

/* True if the tensor has memory in a run and holds features. */
bool spc__net_tensor_is_there(const spc_net_plan *plan, int tensor);

/* Rows of the last checked run. */
int64_t spc__net_tensor_rows(const spc_net_plan *plan, int tensor);

/*
 * Reads a tensor: (*out)[rows][elements], to be freed by the caller also after
 * a failure. Numbers of I8 are multiplied by the tensor's scale.
 */
spc_status spc__net_tensor_read(float **out, const spc_net_plan *plan,
                                const spc_net_buffers *buffers, int tensor);
/* Writes a tensor, rounded to its type. Elements between its rows stay. */
spc_status spc__net_tensor_write(const spc_net_plan *plan,
                                 const spc_net_buffers *buffers, int tensor,
                                 const float *values);

/* Rounds numbers to the tensor's type and back. */
spc_status spc__net_tensor_round(float *values, size_t count,
                                 const spc__net_tensor *tensor,
                                 spc_error *error);

/* Checks that the plan keeps its tensors, and that its last run was checked. */
spc_status spc__net_need_tensors(const spc_net_plan *plan);

#endif
