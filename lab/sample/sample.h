/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h - what candidates are judged on: for each scene coordinates, data of
 * three draws (draw.h), and what the oracle makes of it.
 *
 * All of it lies in one block of shared memory behind a file descriptor, so
 * that measuring workers see it without copying, however often one dies.
 */
#ifndef SPC_RUNTIME_SAMPLE_H
#define SPC_RUNTIME_SAMPLE_H

#include "lab/floor.h"
#include "lab/sample/awkward.h"
#include "lab/sample/draw.h"
#include "lab/sample/expect.h"
#include "lab/sample/odd.h"
#include "operators/operands.h"

/* What lies between the rows of slices, and around arrays on a device: no
 * number in any type. A kernel that reads it shows that it did, even if it
 * multiplies it by zero. */
enum { SPC__ZONE_BYTE = 0xff };

enum {
    SPC__SCENES_MAX = 16,
    SPC__ODD_SIZES = SPC__SIZES + 1, /* one whose outputs see no input */
    SPC__ODD_SCENES = SPC__AWKWARD + SPC__ODD_SIZES,
    SPC__SAMPLE_SCENES = SPC__SCENES_MAX + SPC__ODD_SCENES
};

typedef struct spc__sample_scene {
    int64_t rows_in, rows_out, pairs;
    int64_t rows_read; /* inputs that some pair reads */
    int offsets_used;  /* offsets that some pair has */
    const char *name;
    int64_t voxels;        /* of the scene: the inputs, or those of the layer
                              that an inverse one inverts */
    const int32_t *coords; /* [voxels][4] */
    /* The second set of a layer that is given both, if it is not drawn. */
    const int32_t *given; /* [given_voxels][4], or NULL */
    int64_t given_voxels;
    /* As they lie on a device: inputs, and what is added to the sums (NULL:
     * nothing is). */
    const void *in[SPC__DRAWS];
    const void *residual[SPC__DRAWS];
    /* What must come out: of the draws of integers exactly this, as it lies on
     * a device; NULL for a draw that the scene has not. */
    const void *exact[SPC__DRAWS];
    uint64_t digest[SPC__DRAWS]; /* of that */
    /* [rows_out][cout], how far from it an epilogue's rounding may lead; NULL
     * where there is none. */
    const float *slack[SPC__DRAWS];
    /* Of the real draw; NULL on awkward scenes. */
    const double *reference; /* [rows_out][cout] */
    const float *tolerance;  /* [rows_out][cout] */
    /* What must come of operands that are no numbers (odd.h), [rows_out][cout]
     * each: of one awkward scene, where the layer has such. */
    const unsigned char *odd[SPC__ODDS];
} spc__sample_scene;

typedef struct spc__sample {
    spc_conv conv;
    uint64_t seed;
    const void *weights[SPC__DRAWS]; /* canonical, the layer's type */
    const float *bias[SPC__DRAWS];   /* [cout], or NULL: the layer has none */
    const float *scale[SPC__DRAWS];  /* as the bias */
    spc_scales scales[SPC__DRAWS];   /* of tensors of i8 */
    int given;                       /* the caller's scenes, which come first */
    int scene_count;                 /* with the awkward ones */
    spc__sample_scene scenes[SPC__SAMPLE_SCENES];
    int fd;
    void *memory;
    size_t bytes;
} spc__sample;

/* A scene with what the layer makes of it. */
typedef struct spc__sample_source {
    const spc_scene *scene;
    const spc_relation *relation; /* NULL: found here */
    const spc_scene *given;       /* NULL: drawn, if the layer has such a set */
} spc__sample_source;

typedef struct spc__sample_options {
    uint64_t seed;
    bool judges; /* all draws, and the awkward scenes; else real data alone */
    int threads;
    const volatile int *cancel; /* may be NULL; set: SPC_EINTERRUPTED */
    int sizes; /* of SPC__SIZES scenes so many, if it judges: the first, and
                  others by the seed */
} spc__sample_options;

/* What an emulation has time for. */
enum { SPC__FEW_SIZES = 3 };

/* SPC_EINVAL for a scene without voxels: there is nothing to measure on it. */
spc_status spc__sample_scene_check(const spc_scene *scene, spc_error *error);

/* Are there so many scenes, which may be none? SPC_EINVAL. */
spc_status spc__scenes_check(const spc_scene *const *scenes, int count,
                             spc_error *error);

/* Draws all data and asks the oracle. The caller releases *out also after a
 * failure. */
spc_status spc__sample_init(spc__sample *out, const spc_conv *conv,
                            const spc__sample_source *sources, int count,
                            const spc__sample_options *options,
                            spc_error *error);

/* Sees the sample of another process through its descriptor, which *out then
 * owns. SPC_ESTATE: what lies there is none. */
spc_status spc__sample_attach(spc__sample *out, int fd, spc_error *error);

void spc__sample_release(spc__sample *sample);

/* The rows of an operand as they lie on a device, gaps included. */
void spc__encode_rows(void *to, const spc__operand *as, const float *from);

/* The layer's work on scene `s`, which its floor is counted from. */
spc__work spc__sample_work(const spc__sample *sample, int s);

/* The elements of a result on scene `s`. */
int64_t spc__sample_results(const spc__sample *sample, int s);

/* Has scene `s` data of this draw? */
bool spc__sample_has(const spc__sample *sample, int s, spc__draw draw);

/* Has it only one draw, to see whether the number of rows matters? */
bool spc__sample_is_size(const spc__sample *sample, int s);

/* The worst element of a result on scene `s`: more than 1, or infinite for a
 * draw of integers that is exact, if it is wrong. */
spc__worst spc__sample_compare(const spc__sample *sample, int s, spc__draw draw,
                               const void *out);

/* Is there still what was there between the rows of a result? */
bool spc__sample_gaps_hold(const spc__sample *sample, int s, const void *out);

#endif
