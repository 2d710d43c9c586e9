/* SPDX-License-Identifier: Apache-2.0 */
/* sample_block.h - the memory block of a sample, and its contents. */
#ifndef SPC_LAB_SAMPLE_BLOCK_H
#define SPC_LAB_SAMPLE_BLOCK_H

#include "lab/sample/sample.h"

/*
 * The block starts with this header. Everything else is found by offset; offset
 * 0 means absent.
 */
typedef struct spc__sample_header {
    char magic[16];
    spc_conv conv;  /* the layer, whose list of offsets is at `offsets` */
    size_t offsets; /* 0 for a layer without a list */
    uint64_t seed;
    int given, scene_count;
    size_t weights[SPC__DATASETS], bias[SPC__DATASETS], scale[SPC__DATASETS];
    spc_scales scales[SPC__DATASETS];
    struct {
        int64_t rows_in, rows_out, pairs, rows_read, voxels, given_voxels;
        int offsets_used;
        char name[64];
        size_t coords, given, in[SPC__DATASETS], residual[SPC__DATASETS];
        size_t exact[SPC__DATASETS], slack[SPC__DATASETS];
        uint64_t digest[SPC__DATASETS];
        size_t reference, tolerance, odd[SPC__ODDS];
    } scenes[SPC__SAMPLE_SCENES];
    size_t bytes;
} spc__sample_header;

/* A sample while it is being made. */
typedef struct spc__sample_maker {
    spc__sample *sample;
    spc__sample_header *header; /* the header in the block */
    const spc__sample_options *options;
    spc__random random;
    float *weights[SPC__DATASETS]; /* weights in the oracle's layout */
    spc_error *error;
} spc__sample_maker;

/* Makes a block with room for everything that the scenes need. */
spc_status spc__sample_block_create(spc__sample *out, const spc_conv *conv,
                                    const spc__sample_source *sources,
                                    int given, int count,
                                    const spc__sample_options *options,
                                    spc_error *error);

/* Sets the pointers of *out from the current header. */
void spc__sample_block_see(spc__sample *out);

/*
 * Generates the data of all scenes, and asks the oracle for the results
 * (sample_fill.c).
 */
spc_status spc__sample_fill(spc__sample_maker *m,
                            const spc__sample_source *sources, int count);

#endif
