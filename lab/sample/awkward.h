/* SPDX-License-Identifier: Apache-2.0 */
/*
 * awkward.h - small scenes that find kernels which are correct only on ordinary
 * scenes.
 */
#ifndef SPC_RUNTIME_AWKWARD_H
#define SPC_RUNTIME_AWKWARD_H

#include "spc.h"

/*
 * Scenes with no row; one row; one row less and one more than a tile of 64;
 * 1024 rows; all corners of the extent; and two batches with equal coordinates.
 */
enum {
    SPC__AWKWARD_1 = 1,
    SPC__AWKWARD_63 = 2,
    SPC__AWKWARD_DENSE = 2, /* rows that see all offsets */
    SPC__AWKWARD_MOST = 4,
    SPC__AWKWARD_BORDER = 5,
    SPC__AWKWARD_BATCHES = 6,
    SPC__AWKWARD = 7
};

/*
 * Sizes for layers: 512 rows, a multiple of any tile, so that no position is
 * unused; one row more and one less; and 16 random sizes, each with another
 * remainder modulo 16.
 */
enum { SPC__SIZES = 20 };

/*
 * Makes awkward scene `i`, within the shape by which the layer clips its
 * inputs; or scene `i` of the sizes. The caller frees it.
 */
spc_status spc__awkward_scene(spc_scene **out, int i, const spc_conv *conv,
                              spc_error *error);
spc_status spc__awkward_size(spc_scene **out, int i, uint64_t seed,
                             const spc_conv *conv, spc_error *error);

/*
 * Makes two sets for a layer with two given sets. Most outputs see no input: no
 * output after the first tile does. The caller frees them.
 */
spc_status spc__awkward_far(spc_scene **out, spc_scene **given,
                            const spc_conv *conv, spc_error *error);

#endif
