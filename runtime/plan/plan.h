/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - plans inside the library, and how their kernels are launched. */
#ifndef SPC_RUNTIME_PLAN_H
#define SPC_RUNTIME_PLAN_H

#include "context/ctx.h"
#include "plan/launch_geometry.h"

/*
 * Makes a plan from code that already exists; used by the tuner. Does not
 * prepare the map. `origin` is SPC_MATCH_DEFAULT and the reason is empty.
 */
spc_status spc__plan_create_from(spc_plan **out, spc_ctx *ctx,
                                 const spc_conv *conv, const spc__code *code,
                                 const char *template_name, const char *config);

/* Like spc_plan_create, but does not prepare the map; spc__plan_prepare does.
 * In between the plan may be switched to another Gray order, which uses the
 * same kernels. */
spc_status spc__plan_create_unprepared(spc_plan **out, spc_ctx *ctx,
                                       const spc_conv *conv, spc_map *map,
                                       unsigned flags);
spc_status spc__plan_prepare(const spc_plan *plan, spc_map *map);
void spc__plan_reorder(spc_plan *plan, const char *order);

/* Prepares a plan of a linear layer for spc_plan_execute_linear. */
spc_status spc__plan_take_rows(spc_plan *plan);

/*
 * Layouts of rows that several plans share: the bytes of one for `rows` rows,
 * filling it, and binding a plan to it (free() releases the binding), which is
 * then run. The first three need the same `rows`.
 */
typedef struct spc__binding spc__binding; /* binding.h */
size_t spc__plan_rows_bytes(const spc_plan *plan, int64_t rows);
spc_status spc__plan_lay_rows(const spc_plan *plan, void *layout, int64_t rows,
                              const int32_t *count, void *stream);
spc_status spc__plan_bind_rows(spc__binding **out, const spc_plan *plan,
                               void *layout, int64_t rows);
spc_status spc__plan_execute_bound(const spc_plan *plan,
                                   const spc__binding *binding,
                                   const spc_buffers *buffers, void *stream);
/* Workspace in bytes of a plan that runs on such a layout. */
size_t spc__plan_workspace_laid(const spc_plan *plan, int64_t rows);

const spc__launch_geometry *spc__plan_launch(const spc_plan *plan);

/* Rebuilds the parts of the map that this plan reads, for timing. */
spc_status spc__plan_relayout(const spc_plan *plan, spc_map *map, void *stream);

#endif
