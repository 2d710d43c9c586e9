/* SPDX-License-Identifier: Apache-2.0 */
/*
 * binding.h - a plan with a map: the arguments that are the same in every
 * launch.
 *
 * spc_map_prepare makes the binding and attaches it to the map, which frees it.
 * A binding stays right when the map is filled again, because the arrays of a
 * map keep their addresses. The two things that a fill or a check changes, the
 * rows that the host knows and the number of pairs, are read in every call.
 * If the capacity of a set has changed, the binding is no longer found, and
 * spc_map_prepare makes a new one.
 *
 * A map that has the layouts of a plan without having been prepared for it is
 * bound by the first launch. The execute path allocates nothing, so this works
 * for one map of each plan. Launches on other maps each make a temporary
 * binding.
 *
 * Threads may execute plans on one map at the same time: while its plan lives,
 * a binding does not change. The memory of a binding whose plan was freed
 * serves the next plan.
 */
#ifndef SPC_RUNTIME_BINDING_H
#define SPC_RUNTIME_BINDING_H

#include "coords/map.h"
#include "plan/plan_parts.h"

struct spc__binding {
    spc__attachment attachment; /* must be first; its owner is `life` */
    spc__plan_life *life;       /* life record of the plan; it may outlive the
                                   plan */
    spc_conv_args args;         /* without the caller's arrays */
    unsigned run_blocks, first_blocks, sum_blocks; /* grid_x of the kernels */
    size_t out_bytes;  /* bytes of the output's capacity */
    size_t work_bytes; /* bytes of the workspace without pairs */
    /* The map as each group of offsets reads it, and after these as the kernel
     * that sums does. */
    spc_map_view groups[SPC__ORDER_GROUPS + 1];
};

/* Computes the values that follow from `args.map`, which the caller has set. */
void spc__binding_measure(spc__binding *binding, const spc_plan *plan);

/* Makes a binding for one call. Returns false if the map, which must fit the
 * plan (spc__plan_check_map), is not prepared for it. */
bool spc__binding_make(spc__binding *out, const spc_plan *plan,
                       const spc_map *map);

/* Attaches the plan's binding to a map that is prepared, unless it is there. */
spc_status spc__binding_attach(const spc_plan *plan, spc_map *map,
                               spc_error *error);

/* Keeps a binding that was made for one call, if it is the first of the plan: it
 * takes memory that was reserved with the plan. Any thread may call it. */
void spc__binding_keep(const spc__binding *binding, const spc_plan *plan,
                       const spc_map *map);

/* Returns the plan's binding on this map, or NULL. */
const spc__binding *spc__binding_find(const spc_plan *plan, const spc_map *map);

/* The life of a plan, which bindings may outlast: a new one has one holder. The
 * plan ends it, and every holder leaves it. */
spc_status spc__plan_life_create(spc__plan_life **out, spc_error *error);
void spc__plan_life_end(spc__plan_life *life);

#endif
