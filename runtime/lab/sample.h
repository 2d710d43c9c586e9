/*
 * sample.h - random data for one layer on one scene, and the oracle's answer
 * to it: what a plan's result is held against before it is timed.
 */
#ifndef SPC_RUNTIME_SAMPLE_H
#define SPC_RUNTIME_SAMPLE_H

#include "ctx.h"

typedef struct spc__sample {
    spc_conv conv;
    int64_t rows;
    int64_t pairs;
    size_t in_bytes, out_bytes, weights_bytes;
    void *in, *weights; /* on the host, in the layer's type; weights KRSC */
    float *bias;        /* NULL if the layer has none */
    double *reference;  /* [rows][cout], of the oracle */
    float *tolerance;
    /* The same on the device, and a result for it. */
    void *device_in, *device_out, *device_weights;
    float *device_bias;
} spc__sample;

/* SPC_EINVAL for a scene without voxels: there is nothing to measure on it. */
spc_status spc__sample_scene_check(const spc_scene *scene, spc_error *error);

/* The caller releases *out also after a failure, with the same context. */
spc_status spc__sample_init(spc__sample *out, spc_ctx *ctx,
                            const spc_conv *conv, const spc_scene *scene,
                            uint64_t seed);
void spc__sample_release(spc__sample *sample, spc_ctx *ctx);

/* Fills the result with 0xFF bytes: no element may keep them. */
spc_status spc__sample_poison(spc__sample *sample, spc_ctx *ctx);

/*
 * Compares every element of the result with the oracle: *error is the largest
 * |difference| / tolerance. SPC_EWRONG, naming the worst element, if it is more
 * than 1 or not a number.
 */
spc_status spc__sample_compare(double *error, const spc__sample *sample,
                               spc_ctx *ctx);

#endif
