/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points_oracle.h - the pairs of a layer of points, by its definition on the
 * host. Shares no code with the search of any device.
 */
#ifndef SPC_RUNTIME_POINTS_ORACLE_H
#define SPC_RUNTIME_POINTS_ORACLE_H

#include "lab/oracle/seen.h"

/*
 * As spc__relation_init_rows, for a layer with triplets. SPC_EINVAL: an output
 * sees more inputs than the data sets allow (SPC__POINTS_SEEN).
 */
spc_status spc__points_relation(spc__relation *out, const spc_conv *conv,
                                const spc_scene *scene,
                                const spc__row_list *only, int threads,
                                const volatile int *cancel, spc_error *error);

/*
 * The same with outputs at the points of a second scene, whatever the layer's
 * voxel size; also for inverse layers.
 */
spc_status spc__points_relation_between(spc__relation *out,
                                        const spc_conv *conv,
                                        const spc_scene *in,
                                        const spc_scene *to, int threads,
                                        const volatile int *cancel,
                                        spc_error *error);

#endif
