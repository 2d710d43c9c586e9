/*
 * subject.h - what every candidate of a run is measured on: for each sample
 * scene coordinates, random inputs and the oracle's answer; and the weights.
 *
 * All of it lies in one block of shared memory behind a file descriptor, so
 * that measuring workers see it without copying, however often one dies.
 */
#ifndef SPC_TUNER_SUBJECT_H
#define SPC_TUNER_SUBJECT_H

#include "expect.h"

enum { SPC__SCENES_MAX = 16 };

typedef struct spc__subject_scene {
    int64_t rows;
    const int32_t *coords;   /* [rows][4] */
    const void *in;          /* [rows][cin], the layer's type */
    const double *reference; /* [rows][cout] */
    const float *tolerance;  /* [rows][cout] */
} spc__subject_scene;

typedef struct spc__subject {
    spc_conv conv;
    const void *weights; /* KRSC, the layer's type */
    const float *bias;   /* [cout] or NULL */
    int scene_count;
    spc__subject_scene scenes[SPC__SCENES_MAX];
    int fd;
    void *memory;
    size_t bytes;
} spc__subject;

/*
 * Draws inputs, weights and bias from `seed`, uniform in [-1, 1] and rounded
 * to the layer's type, and asks the oracle. index[s] is the plain map of scene
 * s (spc_oracle_map). Once *cancel (may be NULL) is set: SPC_EINTERRUPTED. The
 * caller releases *out also after a failure.
 */
spc_status spc__subject_init(spc__subject *out, const spc_conv *conv,
                             const spc_scene *const *scenes, int scene_count,
                             const int32_t *const *index, uint64_t seed,
                             int threads, const volatile int *cancel,
                             spc_error *error);

/* Sees the subject of another process through its descriptor, which *out
 * then owns. SPC_ESTATE: what lies there is no subject. */
spc_status spc__subject_attach(spc__subject *out, int fd, spc_error *error);

void spc__subject_release(spc__subject *subject);

/* Holds a result on scene `s` against the oracle's. */
spc__worst spc__subject_compare(const spc__subject *subject, int s,
                                const void *out);

size_t spc__subject_element_bytes(const spc__subject *subject);

#endif
