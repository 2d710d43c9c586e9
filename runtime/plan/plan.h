/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - plans inside the library: how their kernels are launched. */
#ifndef SPC_RUNTIME_PLAN_H
#define SPC_RUNTIME_PLAN_H

#include "context/ctx.h"
#include "plan/launch_geometry.h"

/*
 * Makes a plan from code that is already there (the tuner's way in). The map is
 * not prepared. `origin` is SPC_ORIGIN_DEFAULT and the reason empty.
 */
spc_status spc__plan_create_from(spc_plan **out, spc_ctx *ctx,
                                 const spc_conv *conv, const spc__code *code,
                                 const char *template_name, const char *config);

/* As spc_plan_create, but the map is not prepared; doing that, for which the
 * plan may have been told to read another of the Gray orders, whose kernels are
 * the same. */
spc_status spc__plan_create_unprepared(spc_plan **out, spc_ctx *ctx,
                                       const spc_conv *conv, spc_map *map,
                                       unsigned flags);
spc_status spc__plan_prepare(const spc_plan *plan, spc_map *map);
void spc__plan_reorder(spc_plan *plan, const char *order);

/* Makes a plan of a linear layer ready for spc_plan_execute_rows. */
spc_status spc__plan_take_rows(spc_plan *plan);

/*
 * Layouts of rows that several plans read: bytes of one for so many rows,
 * filling it, and running a plan on it. `rows` of both must be the same.
 */
size_t spc__plan_rows_bytes(const spc_plan *plan, int64_t rows);
spc_status spc__plan_lay_rows(const spc_plan *plan, void *layout, int64_t rows,
                              const int32_t *count, void *stream);
spc_status spc__plan_execute_laid(const spc_plan *plan, void *layout,
                                  int64_t rows, const spc_buffers *buffers,
                                  void *stream);
/* Its workspace then. */
size_t spc__plan_workspace_laid(const spc_plan *plan, int64_t rows);

const spc__launch_geometry *spc__plan_launch(const spc_plan *plan);

/* Builds again what of the map this plan reads (to be timed). */
spc_status spc__plan_relayout(const spc_plan *plan, spc_map *map, void *stream);

#endif
