/* SPDX-License-Identifier: Apache-2.0 */
/* plan_parts.h - the struct of a plan, for the files that make and run it. */
#ifndef SPC_RUNTIME_PLAN_PARTS_H
#define SPC_RUNTIME_PLAN_PARTS_H

#include "context/problem_key.h"
#include "plan/buffers.h"
#include "plan/plan.h"
#include "templates/shared/spc_abi.h"

typedef struct spc__plan_life spc__plan_life; /* binding.h */

struct spc_plan {
    spc_ctx *ctx; /* has the device, and keeps errors */
    spc__plan_life *life;
    spc_conv conv;
    spc__launch_geometry geometry;
    spc__buffer_list buffers;
    spc__kernel *run;
    spc__kernel *first; /* runs before `run`, or NULL */
    spc__kernel *sum;   /* runs after `run`, or NULL */
    spc__kernel *pack;
    bool is_krsc;           /* writes the gradient of weights as KRSC */
    spc__kernel *transpose; /* transposes from RSCK; NULL: the host does */
    size_t statics;         /* bytes of static memory in its code */
    bool takes_rows;        /* can also run without a map */
    /* fills the layout of rows if the host does not */
    spc__kernel *lay_rows;
    spc__scene_buckets scene; /* scene of the map, or of the rows of a linear
                                 plan */
    spc_match origin;
    spc_level level;
    bool is_shipped;
    char template_name[32];
    char config[256];
    char reason[512];
    const int *outdated; /* flag of background.h; NULL: never outdated */
};

/* Checks that the map has the plan's context, geometry and direction. */
spc_status spc__plan_check_map(const spc_ctx *ctx, const spc_conv *conv,
                               const spc_map *map, spc_error *error);

/* Returns the parts of the map that the kernels read; false if they were never
 * prepared. With groups of offsets it returns the last group, which is prepared
 * after the others. */
bool spc__plan_view_map(spc_conv_args *args, const spc_map *map,
                        const spc__launch_geometry *geometry);

/* Number of rows; for a set that was never checked, its capacity. */
int64_t spc__plan_rows(const spc_coords *set);

/* Workspace of the kernels in bytes, for these padded rows and pairs. */
size_t spc__plan_work_bytes(const spc__launch_geometry *geometry,
                            int64_t padded, int64_t pairs);

/* The workspace that the caller gives for these bytes. With KRSC the gradient
 * in RSCK follows that of the kernels. */
size_t spc__plan_whole_bytes(const spc_plan *plan, size_t work);

/* The next multiple of 256, at which an array behind a workspace begins. */
static inline size_t spc__plan_align(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Makes the plan of a WGRAD write KRSC. `flags` as of spc__ctx_code. */
spc_status spc__plan_set_krsc(spc_plan *plan, unsigned flags);

/* Offset of the layout of rows (plans without a map) behind the workspace. */
size_t spc__plan_layout_at(const spc_plan *plan, int64_t rows);

/* The error that a call with this plan or map reports to. */
spc_error *spc__plan_error(const spc_plan *plan, const spc_map *map);

#endif
