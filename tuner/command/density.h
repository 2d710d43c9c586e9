/* SPDX-License-Identifier: Apache-2.0 */
/*
 * density.h - the density of a submanifold map by the L1 norm of its offsets:
 * the share of rows that have a neighbour there (Spira, figure 3).
 */
#ifndef SPC_CMD_DENSITY_H
#define SPC_CMD_DENSITY_H

#include "base/json.h"
#include "command/cli/table.h"
#include "spc.h"
#include "spc/lab.h"

/* A kernel of 7x7x7 has the norms 0 to 9. */
enum { DENSITY_NORMS = 10 };

typedef struct density_of_norm {
    int offsets;
    int64_t pairs;
    int64_t least, most; /* pairs of a single offset */
} density_of_norm;

typedef struct density_facts {
    const char *scene; /* lives as long as the scene */
    int kernel;
    int64_t rows;
    int norms;
    density_of_norm at[DENSITY_NORMS];
} density_facts;

/* Checks that a kernel of this size has a centre, and SPC_MAX_OFFSETS offsets
 * at most. */
spc_status density_check(int kernel);

/* Counts the pairs of each norm. `threads` as for relate(), which also
 * describes what holds after SPC_EINTERRUPTED. */
spc_status density_find(density_facts *out, const spc_scene *scene, int kernel,
                        int threads);

/* A row of a table for each norm, and an object of JSON. */
extern const char *const density_titles[];
void density_add(table *to, const density_facts *of);
void density_write(spc__json *json, const density_facts *of);

/* Draws the densities of several scenes with the same kernel as an SVG file. */
spc_status density_draw(const char *path, const density_facts *of, int count);

#endif
