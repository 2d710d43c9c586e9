/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/plan.h - plans: a layer bound to one loaded kernel, its packed weights,
 * and its execution.
 */
#ifndef SPC_PLAN_H
#define SPC_PLAN_H

#include "context.h"
#include "layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- plans --------------------------------------------------------------- */

enum {
    SPC_PLAN_JIT = 0,              /* compile if the database has no code */
    SPC_PLAN_CACHED_ONLY = 1 << 0, /* never compile: SPC_ENOTFOUND instead */
    SPC_PLAN_ESTIMATE = 1 << 1,    /* ignore the database: use the template's
                                      default */
    SPC_PLAN_BACKGROUND = 1 << 2,  /* use a kernel that is available at once; a
                                      thread prepares a better one:
                                      spc_background_start */
    SPC_PLAN_KRSC = 1 << 3         /* WGRAD only: the gradient is SPC_KRSC */
};

/*
 * Makes a plan for `conv` on maps like `map`. The map's rows and density as of
 * its last check select the record; for a map that was never checked, the
 * capacity is used as the number of rows. Lookup order: a record of exactly
 * this problem; a record of the same layer in a neighbouring bucket; for a
 * gradient of inputs, the same two for the equivalent forward layer; the
 * nearest measured layer with channels less than two octaves away whose
 * configuration passes the constraints, or a nearer record whose template has
 * changed since (SPC_MATCH_NEAREST); the template's default. Records of other
 * devices follow those of the device (spc_level). Prepares the map's
 * layout for the chosen kernel and waits for it, so any stream may then run the
 * plan. If the map was updated and not checked since, its filling may still be
 * running; the call then first waits for all work on the device, as do
 * spc_map_download, spc_map_download_triplets, spc_coords_create_outputs and
 * spc_coords_create_regrouped. It cannot detect a filling that a graph replays;
 * the caller must wait for such a filling first. SPC_ENOTFOUND: the database
 * has no code for the layer, with SPC_PLAN_CACHED_ONLY; SPC_EUNSUPPORTED: no
 * template accepts the layer; SPC_EINVAL: the map belongs to another layer;
 * SPC_ECOMPILE, SPC_EDEVICE. The caller frees *out.
 */
SPC_API spc_status spc_plan_create(spc_plan **out, spc_ctx *ctx,
                                   const spc_conv *conv, spc_map *map,
                                   unsigned flags);

typedef struct spc_plan_options {
    size_t bytes;   /* sizeof this struct: SPC_PLAN_OPTIONS_INIT sets it */
    unsigned flags; /* SPC_PLAN_* */
    /* As spc_ctx_options.allow, for this plan. It replaces the context's list
     * for the passes that it names. NULL: the context's lists. Not with
     * SPC_PLAN_BACKGROUND, whose thread knows the context's lists only. */
    const char *allow;
    /* For a linear layer without a map, as spc_plan_create_linear; else 0. */
    int64_t rows;
} spc_plan_options;

#define SPC_PLAN_OPTIONS_INIT                                                  \
    {                                                                          \
        sizeof(spc_plan_options), SPC_PLAN_JIT, NULL, 0                        \
    }

/* Like spc_plan_create, or for a `map` of NULL like spc_plan_create_linear,
 * with options. `options` may be NULL. SPC_EINVAL also: `allow` is wrong, or
 * rows are given with a map; SPC_EUNSUPPORTED also: no allowed template serves
 * the layer. The caller frees *out. */
SPC_API spc_status spc_plan_create_with(spc_plan **out, spc_ctx *ctx,
                                        const spc_conv *conv, spc_map *map,
                                        const spc_plan_options *options);
SPC_API void spc_plan_free(spc_plan *plan);

typedef enum spc_match {
    SPC_MATCH_EXACT,
    SPC_MATCH_BUCKET,
    SPC_MATCH_NEAREST,
    SPC_MATCH_DEFAULT
} spc_match;

/* Returns how the plan's kernel was found; SPC_MATCH_DEFAULT for NULL. */
SPC_API spc_match spc_plan_match(const spc_plan *plan);

/*
 * The device whose record gave the kernel. Records are looked up for the
 * device by its name, then for the devices of its architecture (an H100 and a
 * GH200 are served the records of an H200), then for the GPU that is nearest by
 * generation, multiprocessors, memory bandwidth and shared memory. A record of
 * another device has the match SPC_MATCH_NEAREST: the layer is not tuned here.
 */
typedef enum spc_level {
    SPC_LEVEL_DEVICE,
    SPC_LEVEL_ARCHITECTURE,
    SPC_LEVEL_FACTS,
    SPC_LEVEL_DEFAULT /* no record */
} spc_level;

/* Returns the level of the plan's record; SPC_LEVEL_DEFAULT for NULL. */
SPC_API spc_level spc_plan_level(const spc_plan *plan);
SPC_API const char *spc_plan_reason(const spc_plan *plan); /* Returns one
                                                              sentence that
                                                              describes the
                                                              plan's choice. */
/* True if the plan's choice comes from a database shipped with the library. */
SPC_API bool spc_plan_is_shipped(const spc_plan *plan);
/* Returns the name of the kernel's template. */
SPC_API const char *spc_plan_template(const spc_plan *plan);
SPC_API const char *spc_plan_config(const spc_plan *plan);   /* "rows=64,..." */
SPC_API size_t spc_plan_weights_bytes(const spc_plan *plan); /* packed */
/* Returns the size for a map that is prepared for the plan. For a map made from
 * a scene or from coordinates it may depend on the number of pairs: call the
 * function again after spc_map_update changed this number. */
SPC_API size_t spc_plan_workspace_bytes(const spc_plan *plan,
                                        const spc_map *map);

/*
 * True if spc_plan_create would look up the same records for `map` as for this
 * plan: the map serves the plan's layer, and its rows and density are in the
 * same bucket (half an octave) as at the plan's creation. A plan that does not
 * fit gives the same results, perhaps more slowly. Reads only the results of
 * the last spc_map_check, no database; any thread may call it. False for NULL,
 * and for a map of another context or another geometry.
 */
SPC_API bool spc_plan_fits(const spc_plan *plan, const spc_map *map);

/* A layer and the known properties of a scene; for a linear layer only the
 * rows. */
typedef struct spc_explain_question {
    size_t bytes; /* sizeof this struct: SPC_EXPLAIN_QUESTION_INIT sets it */
    const spc_conv *conv;
    int64_t rows_in, rows_out, pairs;
    const char *allow; /* as spc_plan_options.allow */
} spc_explain_question;

#define SPC_EXPLAIN_QUESTION_INIT                                              \
    {                                                                          \
        sizeof(spc_explain_question), NULL, 0, 0, 0, NULL                      \
    }

typedef struct spc_explanation {
    spc_match match;
    int has_code; /* 0: no record has the code; a plan may compile it */
    char template_name[32];
    char config[256];
    char reason[512];
    size_t weights_bytes;    /* packed */
    int64_t workspace_bytes; /* -1: depends on the number of resident blocks,
                                which only loaded code can report */
    char layout[64];         /* the layout of the map that the kernel reads */
    spc_level level;         /* as spc_plan_level */
    int64_t reserved[3];     /* 0 */
} spc_explanation;

/*
 * Reports the choice that spc_plan_create would make. Uses only records, keys
 * and templates: it makes no map, and renders, compiles and loads no code.
 * `flags` may be SPC_PLAN_CACHED_ONLY and SPC_PLAN_ESTIMATE. Fails as
 * spc_plan_create does, except for errors that only compiling or loading can
 * find.
 */
SPC_API spc_status spc_explain(spc_explanation *out, spc_ctx *ctx,
                               const spc_explain_question *ask, unsigned flags);

typedef enum spc_weights_layout {
    SPC_KRSC, /* [cout][kx][ky][kz][cin / groups], as in spconv 2 and
                 channels-last filters */
    SPC_RSCK  /* [kx][ky][kz][cin / groups][cout], as TorchSparse and spconv 1
               */
} spc_weights_layout;

/* Packs weights [cout][K][cin / groups], or in another `layout` (device, stored
 * in the problem's type, aligned to the size of an element) into `packed`
 * (device, spc_plan_weights_bytes, 256-byte aligned, not overlapping the
 * weights). Asynchronous on `stream`. SPC_EINVAL: an array is NULL, misaligned
 * or overlaps the other, or the plan is a gradient of weights; SPC_EDEVICE. */
SPC_API spc_status spc_plan_pack(void *packed, const spc_plan *plan,
                                 const void *weights, spc_weights_layout layout,
                                 void *stream);

/*
 * Packs the weights of `count` plans, as after a step of training: weights[i]
 * into packed[i] for plans[i], each as spc_plan_pack does. The plans
 * may be of several contexts on one device. All arguments are checked before
 * anything is enqueued. *failed (may be NULL) receives the index of the plan
 * that failed, whose context has the message; -1 if no plan failed, or if the
 * failure does not belong to one plan. SPC_EINVAL: `count` is negative, an
 * array or a plan is NULL, or spc_plan_pack would refuse the arguments;
 * SPC_EDEVICE: a launch failed; the plans before *failed are enqueued.
 */
SPC_API spc_status spc_plan_pack_many(int *failed, void *const *packed,
                                      const spc_plan *const *plans,
                                      const void *const *weights, int count,
                                      spc_weights_layout layout, void *stream);

/* Prepares `map` for `plan`, on `stream`; needed for any map except the one
 * given to spc_plan_create. Allocates, so it does not belong in the execute
 * path. Other streams, and other calls that prepare or read this map
 * (spc_plan_create, spc_map_download), must wait until the preparation has
 * ended: spc_ctx_synchronize. It also computes the launch arguments that all
 * launches of the plan on the map share. A plan can also run on a map whose
 * layout another plan prepared. For the first such map the first launch
 * computes these arguments; for further maps every launch does. SPC_EINVAL: a
 * map of another geometry or context; SPC_EDEVICE, also where memory is
 * short. */
SPC_API spc_status spc_map_prepare(spc_map *map, const spc_plan *plan,
                                   void *stream);

/* Rows are those of the map's sets. `out` has as many rows as the capacity of
 * the set of outputs, because kernels that add to `out` first clear all of
 * it. */
typedef struct spc_buffers {
    size_t bytes;        /* sizeof this struct: SPC_BUFFERS_INIT sets it */
    const void *in;      /* [rows in][cin], 16-byte aligned */
    void *out;           /* [rows out][cout], 16-byte aligned; apart from in */
    const void *weights; /* packed */
    const float *bias;   /* [cout], if the layer has one */
    void *workspace;     /* spc_plan_workspace_bytes, 256-byte aligned */
    const float *scale;  /* [cout], if the layer has one */
    union {
        const void *residual; /* [rows out][cout] in the type of out, 16-byte
                                 aligned, if the layer adds one; apart from
                                 out */
        const void *grad;     /* for WGRAD: dy [rows out][cout], with the same
                                 alignment */
    };
    /* One fp32 number each (device), for tensors of I8: above 0, and large
     * enough that 1 / *out_scale is finite. */
    const float *in_scale, *out_scale, *residual_scale;
} spc_buffers;

#define SPC_BUFFERS_INIT                                                       \
    {                                                                          \
        sizeof(spc_buffers), NULL, NULL, NULL, NULL, NULL, NULL, {NULL}, NULL, \
            NULL, NULL                                                         \
    }

/*
 * Runs the layer: enqueues on `stream` and returns (the cpu and sim devices
 * return when done). No allocation, no synchronisation, no file access; may be
 * captured into a CUDA graph. SPC_ESTATE: the map was never filled, or is not
 * prepared for this plan; SPC_EINVAL: a missing or misaligned buffer, or an
 * output buffer that overlaps another (disjoint slices of one pitch do not
 * overlap); SPC_EDEVICE: the launch failed.
 */
SPC_API spc_status spc_plan_execute(const spc_plan *plan, const spc_map *map,
                                    const spc_buffers *buffers, void *stream);

/*
 * A linear layer ("linear,...", a submanifold kernel of one offset) needs no
 * map, no coordinates and no set: row i of the outputs depends only on row i of
 * the inputs. spc_plan_create_linear makes a plan for about `rows` rows; this
 * number selects the record. The plan runs on any number of rows, and also on
 * maps. SPC_EINVAL: the layer is not linear; else as spc_plan_create. The
 * caller frees *out.
 */
SPC_API spc_status spc_plan_create_linear(spc_plan **out, spc_ctx *ctx,
                                          const spc_conv *conv, int64_t rows,
                                          unsigned flags);
/* Returns the workspace for `rows` rows; 0 if a plan cannot run on this number
 * of rows. */
SPC_API size_t spc_plan_workspace_bytes_linear(const spc_plan *plan,
                                               int64_t rows);
/* Runs a linear layer like spc_plan_execute, on at most `rows` rows. The number
 * of rows is *count (device), or `rows` if `count` is NULL. If *count is more
 * than `rows`, no row is computed. Output rows from `rows` on are left
 * unchanged. SPC_ESTATE: the plan was made for maps. */
SPC_API spc_status spc_plan_execute_linear(const spc_plan *plan, int64_t rows,
                                           const int32_t *count,
                                           const spc_buffers *buffers,
                                           void *stream);

#ifdef __cplusplus
}
#endif
#endif
