/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bed.h - a sample on a device, each array between two zones of a pattern that
 * nobody may write to.
 */
#ifndef SPC_RUNTIME_BED_H
#define SPC_RUNTIME_BED_H

#include "context/ctx.h"
#include "lab/sample/digest.h"
#include "lab/sample/sample.h"

/* Device memory: zone, data, zone. The second begins right behind the data, or
 * a byte later where that is even: the byte between is a zone's, too. */
typedef struct spc__guarded {
    char *base;
    char *data; /* a zone behind the base, and up to SPC__PLACES bytes more */
    size_t bytes, room;
    bool is_far; /* its zones reach far, as candidates write to it */
} spc__guarded;

/*
 * Where arrays lie. What spc.h promises is a multiple of some bytes: 16 of
 * tensors, 4 of vectors, an element of weights that are to be packed. An array
 * that no timing reads lies at an odd multiple of these, drawn by the sample's
 * seed, from a multiple of SPC__PLACES on, and elsewhere each time it is laid.
 * Those of a timing lie at that multiple, as rows that cross sectors cost more.
 */
enum { SPC__PLACES = 256, SPC__TENSOR_PLACE = 16, SPC__VECTOR_PLACE = 4 };

/* A result that was compared in full and is right. */
typedef struct spc__right {
    uint64_t digest;
    spc__worst worst;
    spc__draw draw;
} spc__right;

enum {
    SPC__RIGHT = 16
}; /* of a scene: candidates that sum in one order agree */

typedef struct spc__large spc__large; /* large.h */
enum { SPC__LARGE_MANY, SPC__LARGE_BLOCK, SPC__LARGES };

typedef struct spc__bed {
    spc_ctx *ctx;
    const spc__sample *sample; /* the caller's */
    const spc__device_ops *ops;
    spc__digester *digester;
    spc__random places;
    size_t zone_bytes[2]; /* of arrays that are only read; that are written */
    uint64_t zone_digest[2];
    spc_map *maps[SPC__SAMPLE_SCENES]; /* NULL: a linear layer needs none */
    /* An awkward scene has one array for all draws, so that who remembers
     * results by address is found out; `loaded` is the draw in it. */
    spc__guarded in[SPC__SAMPLE_SCENES][SPC__DRAWS];
    spc__draw loaded[SPC__SAMPLE_SCENES];
    uint64_t in_digest[SPC__SAMPLE_SCENES][SPC__DRAWS];
    /* What is added to the sums lies beside the inputs, array by array. */
    spc__guarded residual[SPC__SAMPLE_SCENES][SPC__DRAWS];
    uint64_t residual_digest[SPC__SAMPLE_SCENES][SPC__DRAWS];
    spc__guarded bias[SPC__DRAWS], scale[SPC__DRAWS];
    spc__guarded scales[SPC__DRAWS]; /* an spc_scales */
    /* As users have them, which packing reads: they belong to all candidates.
     * The digests are of those that are there, with their zones. */
    spc__guarded weights[SPC__DRAWS];
    uint64_t weights_digest[SPC__DRAWS];
    /* Of the candidate at hand, and of the scene at hand. */
    spc__guarded packed[SPC__DRAWS], out, workspace;
    int64_t out_rows;
    /* Of a linear layer's scene `counted`, if it was given room for more rows
     * than there are: the capacity, and how many there are, on the device. */
    int64_t capacity;
    int32_t *count;
    int counted;
    /* A map with room to spare, which takes scenes one after the other, or of a
     * linear layer a number of rows; NULL: the layer, or the sample, has none.
     * While a scene has it, what was that scene's lies here. */
    spc_map *spare;
    int32_t *spare_coords, *spare_count;
    int64_t spare_capacity; /* rows of results */
    void *host;             /* as large as the largest result */
    spc__right right[SPC__SAMPLE_SCENES][SPC__RIGHT];
    int rights[SPC__SAMPLE_SCENES]; /* ever; the latest are kept */
    spc__large *large[SPC__LARGES]; /* NULL: nobody asked yet */
} spc__bed;

/* The first zone; the second. */
char *spc__guarded_zone(const spc__bed *bed, const spc__guarded *of);
char *spc__guarded_end(const spc__guarded *of);

/* Builds the maps and moves the inputs. `sample` must outlive the bed. */
spc_status spc__bed_create(spc__bed **out, spc_ctx *ctx,
                           const spc__sample *sample);
void spc__bed_free(spc__bed *bed);

/* The first scene has room for `capacity` voxels from now on, as in a network
 * or a frame; layouts that were prepared are gone. SPC_ECAPACITY: those are
 * fewer than it has; SPC_EUNSUPPORTED: a layer with two sets that are given. */
spc_status spc__bed_make_room(spc__bed *bed, int64_t capacity);

/* The map of scene `s`, between zones; a linear layer has none. */
spc_status spc__bed_build_map(spc_map **out, const spc__bed *bed, int s);

/* Builds the map with room to spare, if the layer can have one, and room for
 * the arrays of its scenes, before anything is moved there. */
spc_status spc__bed_build_spare(spc__bed *bed);
void spc__bed_free_spare(spc__bed *bed);
/* The scenes that it takes, awkward ones: of few rows, of many, of few again;
 * not those that what has room for the largest has none for. Returns how many.
 */
enum { SPC__SPARE_SCENES = 4 };
int spc__bed_spare_scenes(int scenes[SPC__SPARE_SCENES], const spc__bed *bed);
/* It becomes that of scene `s`, where it is, and scene `s` has it until it is
 * returned. */
spc_status spc__bed_take_spare(spc__bed *bed, int s);
void spc__bed_return_spare(spc__bed *bed, int s);

/* Room for `bytes`, at the least; what was in it is lost. */
spc_status spc__bed_reserve(const spc__bed *bed, spc__guarded *to,
                            size_t bytes);
void spc__bed_release(const spc__bed *bed, spc__guarded *guarded);
/* The room becomes an array of exactly `bytes`, with zones around it, at a
 * multiple of SPC__PLACES. */
spc_status spc__bed_lay(const spc__bed *bed, spc__guarded *to, size_t bytes);

/* Moves all inputs there again: one was written to. */
spc_status spc__bed_refill(spc__bed *bed);

/* Are the weights that packing reads, and the zones around them, what they were
 * made? If not, they are now. */
spc_status spc__bed_mend_weights(bool *held, spc__bed *bed);

/* Builds all maps anew: one was written to. None is ready for a plan then, and
 * none has room. */
spc_status spc__bed_remake_maps(spc__bed *bed);

/* Makes all maps ready for a plan, and room for what it needs. */
spc_status spc__bed_prepare(spc__bed *bed, spc_plan *plan);

/* The layout in which the weights of a draw lie for packing: WIDE has RSCK, the
 * others KRSC. */
spc_weights_layout spc__bed_layout(spc__draw draw);

/* Packs the weights of a draw for a plan, into `to`. */
spc_status spc__bed_pack(const spc__bed *bed, spc__guarded *to,
                         const spc_plan *plan, spc__draw draw);

/* Fills the output with a byte; what lies between its rows becomes that of
 * zones. */
spc_status spc__bed_fill_out(spc__bed *bed, int byte);

/* The inputs of scene `s` become those of a draw. */
spc_status spc__bed_load(spc__bed *bed, int s, spc__draw draw);

/* The same also where they are: they were changed. */
spc_status spc__bed_reload(spc__bed *bed, int s, spc__draw draw);

/* Are they? */
bool spc__bed_is_loaded(const spc__bed *bed, int s, spc__draw draw);

/* Out and workspace become those of scene `s`; the same for a timing. */
spc_status spc__bed_set(spc__bed *bed, const spc_plan *plan, int s);
spc_status spc__bed_set_timed(spc__bed *bed, const spc_plan *plan, int s);

/* The arrays of a draw on scene `s`, but for packed weights. */
void spc__bed_buffers(spc_buffers *out, const spc__bed *bed, int s,
                      spc__draw draw);

/* Runs on scene `s`, which is set and loaded, with weights that are packed;
 * enqueues. */
spc_status spc__bed_execute(const spc__bed *bed, const spc_plan *plan, int s,
                            spc__draw draw, const void *packed, void *stream);

/* The same with other arrays in place of the bed's. */
spc_status spc__bed_execute_on(const spc__bed *bed, const spc_plan *plan, int s,
                               const spc_buffers *buffers, void *stream);

/* The result, copied to bed->host. */
spc_status spc__bed_fetch(const spc__bed *bed);

#endif
