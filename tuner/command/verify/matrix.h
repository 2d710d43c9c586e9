/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matrix.h - the matrix of `spctune verify --all`: layers of every operator,
 * type and kind of channels, operators on features, sets made of other sets,
 * and the scenes that they run on.
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

/*
 * Writes row `i` as text. Returns false if a type does not take the
 * combination; *error has the reason.
 */
bool matrix_row(char *out, size_t bytes, matrix_kind kind, int i,
                spc_error *error);

/* A cell has the layers of one operator, rule, kernel and type, or the variants
 * of one operator on features and one type. Returns the `n`-th row of cell
 * `cell`, in an order that mixes few channels with many; -1 past the last. */
int matrix_cells(matrix_kind kind);
int matrix_cell_row(matrix_kind kind, int cell, int n);

/* The scenes' specifications, smallest first; NULL past the last. */
const char *matrix_scene(int i);
/*
 * True if row `i` may run on scene `s`; false if a layer clips its inputs and
 * the scene is far wider.
 */
bool matrix_fits(const char *row, int s);

#endif
