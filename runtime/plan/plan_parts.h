/* SPDX-License-Identifier: Apache-2.0 */
/* plan_parts.h - a plan as the files that make and run it see it. */
#ifndef SPC_RUNTIME_PLAN_PARTS_H
#define SPC_RUNTIME_PLAN_PARTS_H

#include "plan/plan.h"
#include "templates/shared/spc_abi.h"

struct spc_plan {
    spc_ctx *ctx; /* the device, and where a failure is kept */
    spc_conv conv;
    spc__launch_geometry geometry;
    spc__kernel *run;
    spc__kernel *first; /* before it, or NULL */
    spc__kernel *sum;   /* after it, or NULL */
    spc__kernel *pack;
    size_t statics;        /* bytes of its code that last between launches */
    bool takes_rows;       /* it runs without a map, too */
    spc__kernel *lay_rows; /* then before it, where the host does not */
    spc_origin origin;
    bool is_shipped;
    char template_name[32];
    char config[256];
    char reason[512];
    const int *outdated; /* see background.h; NULL: never */
};

/* A map serves the layers of its own context and geometry, read its way. */
spc_status spc__plan_check_map(const spc_ctx *ctx, const spc_conv *conv,
                               const spc_map *map, spc_error *error);

/* What of the map the kernels read; false if it was never prepared. Of groups
 * of offsets the last: those before it are there too. */
bool spc__plan_view_map(spc_conv_args *args, const spc_map *map,
                        const spc__launch_geometry *geometry);

/* Of a set that was never checked the capacity is all that is known. */
int64_t spc__plan_rows(const spc_coords *set);

/* What the kernels work in, for so many rows with padding and so many pairs. */
size_t spc__plan_work_bytes(const spc__launch_geometry *geometry,
                            int64_t padded, int64_t pairs);

/* Where behind it the layout of rows without a map lies. */
size_t spc__plan_layout_at(const spc_plan *plan, int64_t rows);

/* Where a failure of a call with either of them is kept. */
spc_error *spc__plan_error(const spc_plan *plan, const spc_map *map);

#endif
