/* SPDX-License-Identifier: Apache-2.0 */
/* background.h - plans ask for a better choice in background mode. */
#ifndef SPC_PLAN_BACKGROUND_H
#define SPC_PLAN_BACKGROUND_H

#include "context/allow.h"

/* The problem for which a plan has no tuned choice. `map` is NULL for layers
 * without one. */
typedef struct spc__lack {
    const spc_conv *conv;
    const spc_map *map;
    int64_t rows_in, rows_out;
    double density;
    const spc__allow *allow; /* the plan's own lists; NULL: none */
} spc__lack;

/*
 * Asks the thread of a context in background mode. Returns a flag that becomes
 * nonzero once a better kernel is available, and lives as long as the context.
 * Returns NULL if the thread cannot provide a better kernel.
 */
const int *spc__background_ask(spc_ctx *ctx, const spc__lack *lack);

#endif
