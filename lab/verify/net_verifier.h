/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_verifier.h - the state of a comparison of a network's run with the
 * oracle.
 */
#ifndef SPC_LAB_NET_VERIFIER_H
#define SPC_LAB_NET_VERIFIER_H

#include "lab/judge.h"
#include "lab/oracle/relation.h"
#include "net/net_plan.h"

typedef struct spc__net_verifier {
    spc_net_plan *plan;
    const spc_net *net;
    const spc_net_buffers *buffers;
    spc_scene **sets;         /* voxels of each set in the order of its rows */
    spc__relation *relations; /* relation of each map, if it was needed */
    float **tensors;          /* each tensor in the device's form */
    spc_net_verdict *out;
    spc_error *error;
} spc__net_verifier;

/* Computes all sets and compares them with those on the device. */
spc_status spc__net_verify_sets(spc__net_verifier *v, const spc_scene *scene);
/* Returns the relation of a map, which its first use computes. */
spc_status spc__net_relation_of(const spc__relation **out, spc__net_verifier *v,
                                int i);

/*
 * Returns a tensor as floats, rows without gaps; the verifier owns it. Its set
 * must have been found.
 */
int64_t spc__net_rows_of(const spc__net_verifier *v, int tensor);
spc_status spc__net_fetch(const float **out, spc__net_verifier *v, int tensor);
/*
 * SPC_EWRONG names the worst element if a result is wrong. Where a reference is
 * not finite the result must not be finite either; an activation may turn it
 * into anything (odd.h).
 */
spc_status spc__net_compare(spc__net_verifier *v, const spc__net_work *work,
                            const float *got, const spc__operand *of,
                            const spc__expected *expected);

/* Verifies layers that only move features. */
spc_status spc__net_verify_gather(spc__net_verifier *v,
                                  const spc__net_work *work);
spc_status spc__net_verify_concat(spc__net_verifier *v,
                                  const spc__net_node *node);

#endif
