/* plan.h - plans inside the library: how their kernels are launched. */
#ifndef SPC_RUNTIME_PLAN_H
#define SPC_RUNTIME_PLAN_H

#include "ctx.h"
#include "launch_geometry.h"

/*
 * Makes a plan from code that is already there (the tuner's way in). The map is
 * not prepared. `origin` is SPC_ORIGIN_DEFAULT and the reason empty.
 */
spc_status spc__plan_create_from(spc_plan **out, spc_ctx *ctx,
                                 const spc_conv *conv, const spc__code *code,
                                 const char *template_name, const char *config);

/* Makes a plan of a linear layer ready for spc_plan_execute_rows. */
spc_status spc__plan_take_rows(spc_plan *plan);

const spc__launch_geometry *spc__plan_launch(const spc_plan *plan);

/* Builds again what of the map this plan reads (to be timed). */
spc_status spc__plan_relayout(const spc_plan *plan, spc_map *map, void *stream);

#endif
