/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.h - who prepares, on a thread of its own, what plans lack. The
 * tuner is the one who can; plans only ask.
 */
#ifndef SPC_RUNTIME_BACKGROUND_H
#define SPC_RUNTIME_BACKGROUND_H

#include "spc.h"

typedef struct spc__background spc__background;

/* What a plan lacks. `map` is NULL for layers without one. */
typedef struct spc__lack {
    const spc_conv *conv;
    const spc_map *map;
    int64_t rows_in, rows_out;
    double density;
} spc__lack;

struct spc__background {
    /* A flag that is not 0 once there is something better; it lives as long as
     * the context. NULL: there will be nothing. */
    const int *(*ask)(spc__background *self, const spc__lack *lack);
    void (*wait)(spc__background *self);
    void (*end)(spc__background *self); /* its thread */
    void (*release)(
        spc__background *self); /* then its memory, flags included */
};

#endif
