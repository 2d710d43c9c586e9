/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regroup_oracle.h - sets made of other sets by their definition, slot by slot.
 */
#ifndef SPC_RUNTIME_REGROUP_ORACLE_H
#define SPC_RUNTIME_REGROUP_ORACLE_H

#include "spc.h"

/* The slots in the set, in ascending order, and the row of each. */
typedef struct spc__slot_list {
    int count, rows;  /* numbers of slots and of rows of the set */
    int *slot;        /* [count] */
    int *row;         /* [count] */
    int32_t (*at)[4]; /* [count]: the resulting voxel */
} spc__slot_list;

/*
 * Computes the set that `how` makes of the voxels of `count` scenes, which have
 * no spare capacity; `mask` (by slot) may be NULL. The caller releases *out
 * even after a failure. May return SPC_ENOMEM.
 */
spc_status spc__regroup_oracle(spc__slot_list *out, const spc_regrouping *how,
                               const spc_scene *const *scenes, int count,
                               const uint8_t *mask, spc_error *error);
void spc__slot_list_release(spc__slot_list *list);

#endif
