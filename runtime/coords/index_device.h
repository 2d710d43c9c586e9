/*
 * index_device.h - what the files that launch indexing kernels share.
 */
#ifndef SPC_RUNTIME_INDEX_DEVICE_H
#define SPC_RUNTIME_INDEX_DEVICE_H

#include "ctx.h"

/* A kernel of a template of role "map"; `config` NULL: the default. */
spc_status spc__index_load(spc__kernel **out, spc_ctx *ctx,
                           const char *template, const spc__attrs *problem,
                           const spc__attrs *config, const char *name,
                           size_t shared, spc_error *error);

/* A cooperative launch needs all its blocks resident. */
spc_status spc__index_check_resident(const spc_ctx *ctx, spc__kernel *kernel,
                                     const char *name, unsigned block,
                                     size_t shared, spc_error *error);

#endif
