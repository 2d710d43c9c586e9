/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h - the test set of a layer: for each scene coordinates, data of all
 * data sets (dataset.h), and the oracle's results.
 *
 * It is one block of shared memory with a file descriptor, so that worker
 * processes map it without a copy, even after a restart.
 */
#ifndef SPC_RUNTIME_SAMPLE_H
#define SPC_RUNTIME_SAMPLE_H

#include "lab/floor.h"
#include "lab/judge.h"
#include "lab/sample/awkward.h"
#include "lab/sample/dataset.h"
#include "lab/sample/expect.h"
#include "lab/sample/odd.h"
#include "operators/operands.h"

enum {
    SPC__SCENES_MAX = 16,
    SPC__ODD_SIZES = SPC__SIZES + 1, /* one more scene, whose outputs see no
                                      * input */
    SPC__ODD_SCENES = SPC__AWKWARD + SPC__ODD_SIZES,
    SPC__SAMPLE_SCENES = SPC__SCENES_MAX + SPC__ODD_SCENES
};

typedef struct spc__sample_scene {
    int64_t rows_in, rows_out, pairs;
    int64_t rows_read; /* number of inputs that some pair reads */
    int offsets_used;  /* number of offsets that some pair uses */
    const char *name;
    /* voxels of the scene: inputs of the layer or, for an inverse layer, of the
     * layer that it inverts */
    int64_t voxels;
    const int32_t *coords; /* [voxels][4] */
    /* The second set of a layer with two given sets, unless it is generated. */
    const int32_t *given; /* [given_voxels][4], or NULL */
    int64_t given_voxels;
    /*
     * In the device's layout: inputs, and the values added to the sums (NULL:
     * none).
     */
    const void *in[SPC__DATASETS];
    const void *residual[SPC__DATASETS];
    /*
     * The expected results: exact for the data sets of integers, in the
     * device's layout; NULL for a data set that the scene does not have.
     */
    const void *exact[SPC__DATASETS];
    uint64_t digest[SPC__DATASETS]; /* digests of `exact` */
    /*
     * [rows_out][cout], the tolerance for rounding in an epilogue; NULL if
     * nothing is rounded.
     */
    const float *slack[SPC__DATASETS];
    /* For the real data set; NULL on awkward scenes. */
    const double *reference; /* [rows_out][cout] */
    const float *tolerance;  /* [rows_out][cout] */
    /*
     * The expected results of operands that are NaN (odd.h), [rows_out][cout]
     * each: on one awkward scene, if the layer can be tested with them.
     */
    const unsigned char *odd[SPC__ODDS];
} spc__sample_scene;

typedef struct spc__sample {
    spc_conv conv;
    uint64_t seed;
    /* canonical weights in the layer's type */
    const void *weights[SPC__DATASETS];
    const float *bias[SPC__DATASETS];   /* [cout]; NULL without a bias */
    const float *scale[SPC__DATASETS];  /* [cout]; NULL without a scale */
    spc_scales scales[SPC__DATASETS];   /* scales of tensors of i8 */
    int given;                       /* the caller's scenes, which come first */
    int scene_count;                 /* number of scenes, including the awkward
                                      * ones */
    spc__sample_scene scenes[SPC__SAMPLE_SCENES];
    int fd;
    void *memory;
    size_t bytes;
} spc__sample;

/* A scene with the layer's relation. */
typedef struct spc__sample_source {
    const spc_scene *scene;
    const spc_relation *relation; /* NULL: the sample computes it */
    const spc_scene *given;       /* NULL: the sample generates it, if the layer
                                   * has such a set */
} spc__sample_source;

typedef struct spc__sample_options {
    uint64_t seed;
    /* all data sets, and the awkward scenes; otherwise only real data */
    bool judges;
    int threads;
    const volatile int *cancel; /* may be NULL; once set: SPC_EINTERRUPTED */
    int sizes; /* number of the SPC__SIZES scenes: the first, and others that
                * the seed selects */
} spc__sample_options;

/* The number of such scenes for an emulation. */
enum { SPC__FEW_SIZES = 3 };

/* SPC_EINVAL for a scene without voxels, which cannot be measured. */
spc_status spc__sample_scene_check(const spc_scene *scene, spc_error *error);

/* Checks an array of scenes, which may be empty. SPC_EINVAL. */
spc_status spc__scenes_check(const spc_scene *const *scenes, int count,
                             spc_error *error);

/*
 * Generates all data and asks the oracle. The caller releases *out even after a
 * failure.
 */
spc_status spc__sample_init(spc__sample *out, const spc_conv *conv,
                            const spc__sample_source *sources, int count,
                            const spc__sample_options *options,
                            spc_error *error);

/*
 * Maps the sample of another process through its descriptor, which *out then
 * owns. SPC_ESTATE: the descriptor holds no sample.
 */
spc_status spc__sample_attach(spc__sample *out, int fd, spc_error *error);

void spc__sample_release(spc__sample *sample);

/* Returns the layer's work on scene `s`, from which its floor is computed. */
spc__work spc__sample_work(const spc__sample *sample, int s);

/* Returns the results on scene `s` as an operand. */
spc__operand spc__sample_out(const spc__sample *sample, int s);

/* True if scene `s` has data of this data set. */
bool spc__sample_has(const spc__sample *sample, int s, spc__dataset dataset);

/* True if the scene has only one data set, as it tests its number of rows. */
bool spc__sample_is_size(const spc__sample *sample, int s);

/*
 * Finds the worst element of a result on scene `s`. The result is wrong if its
 * error is more than 1; it is infinite for a data set of integers that is
 * exact.
 */
spc__worst spc__sample_compare(const spc__sample *sample, int s,
                               spc__dataset dataset, const void *out);

/* Returns element `i` of the result, correct or not. */
spc__worst spc__sample_element(const spc__sample *sample, int s,
                               spc__dataset dataset, const void *out,
                               int64_t i);

#endif
