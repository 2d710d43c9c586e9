/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture.h - the test fixture: a sample on a device, with every array between
 * two guard zones that no kernel may write to.
 */
#ifndef SPC_RUNTIME_FIXTURE_H
#define SPC_RUNTIME_FIXTURE_H

#include "context/ctx.h"
#include "lab/guarded.h"
#include "lab/sample/digest.h"
#include "lab/sample/sample.h"

/* A result that was compared in full and is correct. */
typedef struct spc__right {
    uint64_t digest;
    spc__worst worst;
    spc__dataset dataset;
} spc__right;

enum {
    SPC__RIGHT = 16
}; /* per scene: candidates with the same order of sums have equal results */

typedef struct spc__large spc__large; /* large.h */
enum { SPC__LARGE_MANY, SPC__LARGE_BLOCK, SPC__LARGES };

typedef struct spc__fixture {
    spc_ctx *ctx;
    const spc__sample *sample; /* owned by the caller */
    const spc__device_ops *ops;
    spc__digester *digester;
    spc__random offsets;
    spc__guards guards;
    uint64_t zone_digest[2];           /* indexed by is_far */
    spc_map *maps[SPC__SAMPLE_SCENES]; /* NULL for a linear layer */
    /*
     * An awkward scene has one array for all data sets, so that a kernel that
     * remembers results by address is found; `loaded` is the data set in it.
     */
    spc__guarded in[SPC__SAMPLE_SCENES][SPC__DATASETS];
    spc__dataset loaded[SPC__SAMPLE_SCENES];
    uint64_t in_digest[SPC__SAMPLE_SCENES][SPC__DATASETS];
    /* The values that are added to the sums, one array for each of inputs. */
    spc__guarded residual[SPC__SAMPLE_SCENES][SPC__DATASETS];
    uint64_t residual_digest[SPC__SAMPLE_SCENES][SPC__DATASETS];
    spc__guarded bias[SPC__DATASETS], scale[SPC__DATASETS];
    spc__guarded scales[SPC__DATASETS]; /* an spc_scales */
    /*
     * Weights as users have them, which packing reads. All candidates share
     * them. The digests cover the existing ones, with their zones.
     */
    spc__guarded weights[SPC__DATASETS];
    uint64_t weights_digest[SPC__DATASETS];
    /* State of the current candidate and scene. */
    spc__guarded packed[SPC__DATASETS], out, workspace;
    int64_t out_rows;
    /*
     * For a linear layer whose scene `counted` has spare capacity: the
     * capacity, and the row count on the device.
     */
    int64_t capacity;
    int32_t *count;
    int counted;
    /*
     * A map with spare capacity, which takes one scene after the other; for a
     * linear layer, a row count. NULL if the layer or the sample does not allow
     * it. While a scene uses it, the scene's own map is kept here.
     */
    spc_map *spare;
    int32_t *spare_coords, *spare_count;
    int64_t spare_capacity; /* in rows of the results */
    void *host;             /* as large as the largest result */
    spc__right right[SPC__SAMPLE_SCENES][SPC__RIGHT];
    int rights[SPC__SAMPLE_SCENES]; /* number of results so far; the latest are
                                     * kept */
    spc__large *large[SPC__LARGES]; /* NULL: not made yet */
    /* Frees a large scene; large.c sets it. */
    void (*free_large)(spc__large *large, const struct spc__fixture *fixture);
} spc__fixture;

/* Builds the maps and uploads the inputs. `sample` must outlive the fixture. */
spc_status spc__fixture_create(spc__fixture **out, spc_ctx *ctx,
                               const spc__sample *sample);
void spc__fixture_free(spc__fixture *fixture);

/*
 * Gives the first scene room for `capacity` voxels, as in a network or a frame.
 * Prepared layouts are lost. SPC_ECAPACITY: the scene has more voxels;
 * SPC_EUNSUPPORTED: the layer has two given sets.
 */
spc_status spc__fixture_set_capacity(spc__fixture *fixture, int64_t capacity);

/* Builds the map of scene `s` between zones; not for a linear layer. */
spc_status spc__fixture_build_map(spc_map **out, const spc__fixture *fixture,
                                  int s);

/*
 * Builds the map with spare capacity, if the layer can have one, and reserves
 * the arrays of its scenes before data is placed there.
 */
spc_status spc__fixture_build_spare(spc__fixture *fixture);
void spc__fixture_free_spare(spc__fixture *fixture);
/*
 * Lists the awkward scenes that fit this map, first few rows, then many, then
 * few again. Leaves out scenes that exceed the capacity for the largest.
 * Returns their number.
 */
enum { SPC__SPARE_SCENES = 4 };
int spc__fixture_spare_scenes(int scenes[SPC__SPARE_SCENES],
                              const spc__fixture *fixture);
/*
 * Refills the map in place with scene `s`. The scene uses it until it is
 * returned.
 */
spc_status spc__fixture_take_spare(spc__fixture *fixture, int s);
void spc__fixture_return_spare(spc__fixture *fixture, int s);

/* Uploads all inputs again, after one was written to. */
spc_status spc__fixture_refill(spc__fixture *fixture);

/*
 * Verifies the weights that packing reads, and the zones around them. Restores
 * them if they have changed.
 */
spc_status spc__fixture_mend_weights(bool *held, spc__fixture *fixture);

/*
 * Builds all maps again, after one was written to. None is then prepared for a
 * plan or has spare capacity.
 */
spc_status spc__fixture_remake_maps(spc__fixture *fixture);

/* Prepares all maps for a plan, and reserves what it needs. */
spc_status spc__fixture_prepare(spc__fixture *fixture, spc_plan *plan);

/*
 * The layout of the weights of a data set before packing: WIDE has RSCK, the
 * others KRSC.
 */
spc_weights_layout spc__fixture_layout(spc__dataset dataset);

/* Packs the weights of a data set for a plan, into `to`. */
spc_status spc__fixture_pack(const spc__fixture *fixture, spc__guarded *to,
                             const spc_plan *plan, spc__dataset dataset);

/*
 * Fills the output with a byte; the gaps between its rows get the zones' byte.
 */
spc_status spc__fixture_fill_out(spc__fixture *fixture, int byte);

/* Uploads a data set as the inputs of scene `s`. */
spc_status spc__fixture_load(spc__fixture *fixture, int s,
                             spc__dataset dataset);

/* The same even if the data set is loaded, after it was changed. */
spc_status spc__fixture_reload(spc__fixture *fixture, int s,
                               spc__dataset dataset);

/* True if that data set is loaded. */
bool spc__fixture_is_loaded(const spc__fixture *fixture, int s,
                            spc__dataset dataset);

/*
 * Prepares output and workspace for scene `s`; the second function for a
 * timing.
 */
spc_status spc__fixture_set(spc__fixture *fixture, const spc_plan *plan, int s);
spc_status spc__fixture_set_timed(spc__fixture *fixture, const spc_plan *plan,
                                  int s);

/* The arrays of a data set on scene `s`, except packed weights. */
void spc__fixture_buffers(spc_buffers *out, const spc__fixture *fixture, int s,
                          spc__dataset dataset);

/*
 * Enqueues a run on scene `s`, which must be set and loaded, with packed
 * weights.
 */
spc_status spc__fixture_execute(const spc__fixture *fixture,
                                const spc_plan *plan, int s,
                                spc__dataset dataset, const void *packed,
                                void *stream);

/* The same with other arrays instead of the fixture's. */
spc_status spc__fixture_execute_on(const spc__fixture *fixture,
                                   const spc_plan *plan, int s,
                                   const spc_buffers *buffers, void *stream);

/*
 * A plan on a map or, without one, on the rows of a linear layer; their number
 * on the device may be NULL.
 */
size_t spc__fixture_workspace_bytes(const spc_plan *plan, const spc_map *map,
                                    int64_t rows);
spc_status spc__fixture_launch(const spc_plan *plan, const spc_map *map,
                               int64_t rows, const int32_t *count,
                               const spc_buffers *buffers, void *stream);

/* Copies the result to fixture->host. */
spc_status spc__fixture_fetch(const spc__fixture *fixture);

#endif
