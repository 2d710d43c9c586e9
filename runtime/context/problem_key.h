/* SPDX-License-Identifier: Apache-2.0 */
/*
 * problem_key.h - the key of a layer's records in the database: the layer, the
 * device, and the features by which problems are compared.
 */
#ifndef SPC_CONTEXT_PROBLEM_KEY_H
#define SPC_CONTEXT_PROBLEM_KEY_H

#include "cache/cache.h"
#include "spc.h"

/* Computes the key of a measurement of `conv` on the device of `ctx`, for a map
 * with `rows_in` and `rows_out` rows. `density` is pairs / (rows_out *
 * offsets). */
void spc__problem_key_init(spc__problem_key *out, const spc_ctx *ctx,
                           const spc_conv *conv, int64_t rows_in,
                           int64_t rows_out, double density);

/* The buckets of those features of a key that depend on the scene. A layer has
 * the same key on two scenes with equal buckets. */
typedef struct spc__scene_buckets {
    int rows, ratio, density;
} spc__scene_buckets;

spc__scene_buckets spc__scene_buckets_of(int64_t rows_in, int64_t rows_out,
                                         double density);

/* Reads the sizes and the density from the key of a record. */
void spc__problem_key_scene(double *rows_in, double *rows_out, double *density,
                            const spc__problem_key *key);

#endif
