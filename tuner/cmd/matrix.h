/*
 * matrix.h - what `spctune verify --all` is made of: layers of every operator,
 * type and kind of channels, operators on features, sets made of other sets,
 * and the sizes that they run on.
 */
#ifndef SPC_CMD_MATRIX_H
#define SPC_CMD_MATRIX_H

#include "spc.h"

typedef enum matrix_kind {
    MATRIX_LAYERS,
    MATRIX_FEATURES,
    MATRIX_SETS,
    MATRIX_KINDS
} matrix_kind;

int matrix_rows(matrix_kind kind);

/* Row `i` in words. False: there is no such operator, as not every type takes
 * every combination; *error says why. */
bool matrix_row(char *out, size_t bytes, matrix_kind kind, int i,
                spc_error *error);

/* The scenes' specifications, from the smallest; NULL past the last. */
const char *matrix_scene(int i);
/* May row `i` run on scene `s`? Not where a layer clips its inputs and the
 * scene is far wider. */
bool matrix_fits(const char *row, int s);

#endif
