/*
 * regroup.h - sets made of the voxels of other sets.
 *
 * Public part: spc_regrouping in spc.h. A regrouped set is a coordinate set
 * like any other: its voxels are proposed, listed, and sorted as a caller's
 * rows are. What it has besides is which slots (a row of a source and a child's
 * number) each of its rows comes from, and the row that each slot went to.
 */
#ifndef SPC_RUNTIME_REGROUP_H
#define SPC_RUNTIME_REGROUP_H

#include "coords/coords.h"
#include "templates/shared/regroup_abi.h"

typedef struct spc__regroup {
    spc_coords *source[SPC_REGROUP_SOURCES];
    int sources;
    int first[SPC_REGROUP_SOURCES + 1]; /* row of each; the last: all */
    spc_regrouping how;
    int children;
    bool merges;   /* several voxels may become one */
    void *work;    /* the indexer's own */
    int32_t *list; /* [capacity][4] proposed voxels; the set's own coordinates
                      where none of them merge */
    int *listed;   /* how many */
    int *slot;     /* [capacity] of each */
    int *begin;    /* [capacity + 1] and */
    int *slots;    /* [capacity]: those of each row of the set */
    int *of;       /* [all rows * children]: the set's row of each, or -1 */
} spc__regroup;

/* Who does it on a device: part of an indexer. Nothing but creating allocates,
 * synchronises or compiles. */
typedef struct spc__regrouper {
    spc_status (*create)(spc_coords *coords, spc_error *error);
    void (*destroy)(spc_coords *coords); /* after a failed creation too */
    spc_status (*fill)(spc_coords *coords, const uint8_t *mask, void *stream,
                       spc_error *error);
    spc_status (*mask)(const spc_coords *coords, const spc_mask_args *args,
                       spc_dtype dtype, void *stream, spc_error *error);
    spc_status (*gather)(const spc_coords *coords, const spc_gather_args *args,
                         spc_dtype dtype, void *stream, spc_error *error);
    spc_status (*spread)(const spc_coords *coords, const spc_gather_args *args,
                         spc_dtype dtype, void *stream, spc_error *error);
} spc__regrouper;

/* Fills a regrouped set from its sources as they are. */
spc_status spc__regroup_fill(spc_coords *coords, const uint8_t *mask,
                             void *stream, spc_error *error);

/* What of a set is there for regrouping; done by spc_coords_free. */
void spc__regroup_release(spc_coords *coords);

#endif
