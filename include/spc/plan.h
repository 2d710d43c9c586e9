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
    SPC_PLAN_ESTIMATE = 1 << 1,    /* ignore the database: template's default */
    SPC_PLAN_BACKGROUND = 1 << 2,  /* the kernel available at once; a thread
                                      prepares a better one:
                                      spc_background_start */
    SPC_PLAN_KRSC = 1 << 3         /* WGRAD alone: the gradient is SPC_KRSC */
};

/*
 * Makes a plan for `conv` on maps like `map`. The map's rows and density as of
 * its last check choose the record; a map that was never checked counts its
 * capacity as its rows. Lookup order: a record of exactly this problem; of the
 * same layer in a neighbouring bucket; of a gradient of inputs the same of the
 * forward layer that it computes as; the nearest measured layer, its channels
 * less than two octaves away, whose configuration passes this one's
 * constraints, or a nearer record whose template has changed since
 * (SPC_MATCH_NEAREST); the template's default. Prepares the map's layout for
 * the kernel chosen and waits for it: any stream may then run the plan. A map
 * that was updated and not checked since may still be being filled: then it
 * first waits for all work on the device, as spc_map_download,
 * spc_map_download_triplets, spc_coords_create_outputs and
 * spc_coords_create_regrouped do. It does not know of a filling that a graph
 * replays: wait for that first. SPC_ENOTFOUND: with SPC_PLAN_CACHED_ONLY the
 * database cannot serve; SPC_EUNSUPPORTED: no template accepts the layer;
 * SPC_EINVAL: the map is another layer's; SPC_ECOMPILE, SPC_EDEVICE. The caller
 * frees *out.
 */
SPC_API spc_status spc_plan_create(spc_plan **out, spc_ctx *ctx,
                                   const spc_conv *conv, spc_map *map,
                                   unsigned flags);
SPC_API void spc_plan_free(spc_plan *plan);

typedef enum spc_match {
    SPC_MATCH_EXACT,
    SPC_MATCH_BUCKET,
    SPC_MATCH_NEAREST,
    SPC_MATCH_DEFAULT
} spc_match;

/* Returns how the plan's kernel was found; SPC_MATCH_DEFAULT for NULL. */
SPC_API spc_match spc_plan_match(const spc_plan *plan);
SPC_API const char *spc_plan_reason(const spc_plan *plan); /* one sentence */
/* True if its choice comes from a database shipped with the library. */
SPC_API bool spc_plan_is_shipped(const spc_plan *plan);
/* Returns the name of the kernel's template. */
SPC_API const char *spc_plan_template(const spc_plan *plan);
SPC_API const char *spc_plan_config(const spc_plan *plan);   /* "rows=64,..." */
SPC_API size_t spc_plan_weights_bytes(const spc_plan *plan); /* packed */
/* Returns the size for a map that is prepared for the plan. For a map made from
 * a scene or from coordinates it may depend on the number of pairs: call again
 * after spc_map_update changed them. */
SPC_API size_t spc_plan_workspace_bytes(const spc_plan *plan,
                                        const spc_map *map);

/*
 * Would spc_plan_create look up the same records for `map` as it did for this
 * plan? True if the map serves the plan's layer and its rows and density are in
 * the bucket (half an octave) of those that the plan was made for. A plan that
 * does not fit gives the same results, perhaps more slowly. Reads what the last
 * spc_map_check learned, and no database; any thread may call it. False for
 * NULL, and for a map of another context or another geometry.
 */
SPC_API bool spc_plan_fits(const spc_plan *plan, const spc_map *map);

/* A layer, and what is known of a scene: of a linear layer rows alone. */
typedef struct spc_explain_question {
    size_t bytes; /* sizeof this struct: SPC_EXPLAIN_QUESTION_INIT sets it */
    const spc_conv *conv;
    int64_t rows_in, rows_out, pairs;
} spc_explain_question;

#define SPC_EXPLAIN_QUESTION_INIT                                              \
    {                                                                          \
        sizeof(spc_explain_question), NULL, 0, 0, 0                            \
    }

typedef struct spc_explanation {
    spc_match match;
    int has_code; /* 0: no record names code of it; a plan may compile it */
    char template_name[32];
    char config[256];
    char reason[512];
    size_t weights_bytes;    /* packed */
    int64_t workspace_bytes; /* -1: depends on how many blocks are resident,
                                which only loaded code says */
    char layout[64];         /* the form of the map that it reads */
    int64_t reserved[4];     /* 0 */
} spc_explanation;

/*
 * Reports the choice that spc_plan_create would make, from records, keys and
 * templates alone: no map is made, no code is rendered, compiled or loaded.
 * `flags` are SPC_PLAN_CACHED_ONLY and SPC_PLAN_ESTIMATE. Fails as
 * spc_plan_create does, except for errors that only compiling or loading can
 * find.
 */
SPC_API spc_status spc_explain(spc_explanation *out, spc_ctx *ctx,
                               const spc_explain_question *ask, unsigned flags);

typedef enum spc_weights_layout {
    SPC_KRSC, /* [cout][kx][ky][kz][cin / groups], as spconv 2 and
                 MinkowskiEngine-like channels-last filters */
    SPC_RSCK  /* [kx][ky][kz][cin / groups][cout], as TorchSparse and spconv 1
               */
} spc_weights_layout;

/* Packs canonical weights [cout][K][cin / groups], or as `layout` says (device,
 * the problem's type in memory, at a multiple of its size) into `packed`
 * (device, spc_plan_weights_bytes, 256-byte aligned, apart from them).
 * Asynchronous on `stream`. SPC_EINVAL: an array is NULL, misaligned or
 * overlaps the other, or the plan is a gradient of weights; SPC_EDEVICE. */
SPC_API spc_status spc_plan_pack(void *packed, const spc_plan *plan,
                                 const void *weights, spc_weights_layout layout,
                                 void *stream);

/*
 * Packs the weights of `count` plans, as after a step of training: weights[i]
 * into packed[i] for plans[i], each as spc_plan_pack does. The plans
 * may be of several contexts on one device. All arguments are checked before
 * anything is enqueued. *failed (may be NULL) is the index of the plan that
 * failed, and its context has the sentence; -1: none, or the failure is not
 * that of one plan. SPC_EINVAL: `count` is negative, an array or a plan is
 * NULL, and what spc_plan_pack refuses; SPC_EDEVICE: a launch failed,
 * and those before *failed are enqueued.
 */
SPC_API spc_status spc_plan_pack_many(int *failed, void *const *packed,
                                      const spc_plan *const *plans,
                                      const void *const *weights, int count,
                                      spc_weights_layout layout, void *stream);

/* Makes `map` ready for `plan` (a map that was not the one given to
 * spc_plan_create), on `stream`. Allocates; not for the execute path. Other
 * streams, and other calls that prepare or read this map (spc_plan_create,
 * spc_map_download), must wait until that is done: spc_ctx_synchronize.
 * What all launches of the plan on the map have in common is decided here. A
 * plan also runs on a map that has its layout because of another plan. On the
 * first such map the first launch decides it, on others every launch does.
 * SPC_EINVAL: a map of another geometry or context; SPC_EDEVICE, also where
 * memory is short. */
SPC_API spc_status spc_map_prepare(spc_map *map, const spc_plan *plan,
                                   void *stream);

/* Rows are those of the map's sets; of `out` there are as many as the capacity
 * of the outputs' set, as kernels that add to it clear all of it first. */
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
        const void *grad;     /* of WGRAD: dy [rows out][cout], as aligned */
    };
    /* One number each, for tensors of I8: above 0, and not so small that 1 /
     * *out_scale is infinite. */
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
 * prepared for this plan; SPC_EINVAL: a missing or misaligned buffer, or one
 * that is written and overlaps another (slices of one pitch, side by side, do
 * not); SPC_EDEVICE: the launch failed.
 */
SPC_API spc_status spc_plan_execute(const spc_plan *plan, const spc_map *map,
                                    const spc_buffers *buffers, void *stream);

/*
 * A linear layer ("linear,...", a submanifold kernel of one offset) needs no
 * map, no coordinates and no set: row i of the outputs is made of row i of the
 * inputs. spc_plan_create_linear makes a plan for about `rows` rows, which
 * choose the record; it runs on any number of them, and on maps too.
 * SPC_EINVAL: the layer sees other rows than its own; else as spc_plan_create.
 * The caller frees *out.
 */
SPC_API spc_status spc_plan_create_linear(spc_plan **out, spc_ctx *ctx,
                                          const spc_conv *conv, int64_t rows,
                                          unsigned flags);
/* The workspace for `rows` rows; 0 for more than a plan can run on. */
SPC_API size_t spc_plan_workspace_bytes_linear(const spc_plan *plan,
                                               int64_t rows);
/* As spc_plan_execute, for at most `rows` rows. *count (device) is the number
 * of rows; if `count` is NULL, `rows` is. If *count is more than `rows`, no row
 * is computed. Output rows from `rows` on are left unchanged. SPC_ESTATE: the
 * plan was made for maps. */
SPC_API spc_status spc_plan_execute_linear(const spc_plan *plan, int64_t rows,
                                           const int32_t *count,
                                           const spc_buffers *buffers,
                                           void *stream);

#ifdef __cplusplus
}
#endif
#endif
