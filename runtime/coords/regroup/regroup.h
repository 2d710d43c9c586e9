/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regroup.h - sets made from the voxels of other sets. Public part:
 * spc_regrouping in spc/coords.h.
 *
 * A regrouped set is a coordinate set: voxels are proposed, listed, and sorted
 * like a caller's rows. In addition it records which slots (a row of a source
 * and the number of a child) each of its rows comes from, and the row of each
 * slot.
 */
#ifndef SPC_RUNTIME_REGROUP_H
#define SPC_RUNTIME_REGROUP_H

#include "coords/coords.h"
#include "templates/shared/regroup_abi.h"

typedef struct spc__regroup {
    spc_coords *source[SPC_REGROUP_SOURCES];
    int sources;
    int first[SPC_REGROUP_SOURCES + 1]; /* first row of each source; the last
                                         * entry is the total */
    spc_regrouping how;
    int children;
    bool merges; /* several voxels may become one */
    void *work;  /* private to the indexer */
    /* [capacity][4]: proposed voxels; the set's own coordinates if none
     * merge */
    int32_t *list;
    int *listed; /* number of listed voxels */
    int *slot;   /* [capacity]: the slot of each listed voxel */
    int *begin;  /* [capacity + 1]: start of each row in `slots` */
    int *slots;  /* [capacity]: slots, row by row of the set */
    int *of;     /* [all rows * children]: row of the set for each slot, or
                  * -1 */
} spc__regroup;

/* The device's part of regrouping; belongs to an indexer. Only `create` may
 * allocate, synchronise or compile. */
typedef struct spc__regrouper {
    spc_status (*create)(spc_coords *coords, spc_error *error);
    void (*destroy)(spc_coords *coords); /* also called after a failed
                                          * creation */
    spc_status (*fill)(spc_coords *coords, const uint8_t *mask, void *stream,
                       spc_error *error);
    spc_status (*mask)(const spc_coords *coords, const spc_mask_args *args,
                       spc_dtype dtype, void *stream, spc_error *error);
    spc_status (*gather)(const spc_coords *coords, const spc_gather_args *args,
                         spc_dtype dtype, void *stream, spc_error *error);
    spc_status (*spread)(const spc_coords *coords, const spc_gather_args *args,
                         spc_dtype dtype, void *stream, spc_error *error);
} spc__regrouper;

/* Fills a regrouped set from the current contents of its sources. */
spc_status spc__regroup_fill(spc_coords *coords, const uint8_t *mask,
                             void *stream, spc_error *error);

/* Releases the regrouping data of a set; called by spc_coords_free. */
void spc__regroup_release(spc_coords *coords);

#endif
