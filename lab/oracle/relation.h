/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relation.h - the plain relation of a layer on a scene.
 *
 * spc_relation in spc/lab.h is the public part; it documents contents and row
 * order.
 */
#ifndef SPC_RUNTIME_RELATION_H
#define SPC_RUNTIME_RELATION_H

#include "lab/oracle/seen.h"

/*
 * Like spc_oracle_relation, but returns SPC_EINTERRUPTED soon after *cancel is
 * set (NULL: never). On failure *out is empty.
 */
spc_status spc__relation_init(spc__relation *out, const spc_conv *conv,
                              const spc_scene *scene, int threads,
                              const volatile int *cancel, spc_error *error);

/*
 * The same for the listed outputs only (NULL: all), which must exist; rows_out
 * is their number.
 */
spc_status spc__relation_init_rows(spc__relation *out, const spc_conv *conv,
                                   const spc_scene *scene,
                                   const spc__row_list *only, int threads,
                                   const volatile int *cancel,
                                   spc_error *error);
/*
 * The same for a layer of the rule GIVEN, with the caller's second set instead
 * of a generated one: the outputs of a conv, the inputs of a transposed layer,
 * in their order.
 */
spc_status spc__relation_init_between(spc__relation *out, const spc_conv *conv,
                                      const spc_scene *scene,
                                      const spc_scene *given, int threads,
                                      const volatile int *cancel,
                                      spc_error *error);
void spc__relation_release(spc__relation *relation); /* an empty one is fine */

#endif
