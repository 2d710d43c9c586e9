/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.h - prepares better choices for plans on a thread of its own. The
 * tuner implements it; plans only call it.
 */
#ifndef SPC_RUNTIME_BACKGROUND_H
#define SPC_RUNTIME_BACKGROUND_H

#include "spc.h"

typedef struct spc__background spc__background;

/* The problem for which a plan has no tuned choice. `map` is NULL for layers
 * without one. */
typedef struct spc__lack {
    const spc_conv *conv;
    const spc_map *map;
    int64_t rows_in, rows_out;
    double density;
} spc__lack;

struct spc__background {
    /* Returns a flag that becomes nonzero once there is something better. The
     * flag lives as long as the context. Returns NULL if there will be
     * nothing. */
    const int *(*ask)(spc__background *self, const spc__lack *lack);
    void (*wait)(spc__background *self);
    void (*end)(spc__background *self); /* ends its thread */
    void (*release)(
        spc__background *self); /* then frees its memory, flags included */
};

#endif
