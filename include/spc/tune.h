/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/tune.h - tuning: of layers and maps, in the background, and of what an
 * application met. What begins with spc_tune, and spc_candidate_render, is in
 * libspclab; the rest in libspc.
 */
#ifndef SPC_TUNE_H
#define SPC_TUNE_H

#include "net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tuning -------------------------------------------------------------- */

/* How far spc_tune goes with every candidate; each stage includes the earlier
 * ones. */
typedef enum spc_stage {
    SPC_STAGE_LIST,   /* enumerate, check constraints */
    SPC_STAGE_BUILD,  /* compile, read the resource report */
    SPC_STAGE_VERIFY, /* compare with the oracle on the device */
    SPC_STAGE_TIME    /* time, choose, store */
} spc_stage;

typedef enum spc_effort {
    SPC_EFFORT_QUICK,
    SPC_EFFORT_NORMAL,
    SPC_EFFORT_EXHAUSTIVE
} spc_effort;

/* One candidate's record, as reported to a callback; strings live during it. */
typedef struct spc_trial {
    const char *template_name;
    const char *config;
    /* "ok", "constraint", "template", "compile", "timeout", "launch" (it could
     * not be loaded), "fault" (a call failed when it ran), "wrong" */
    const char *status;
    const char *note; /* text of a failure, else "" */
    bool is_default;
    bool from_database; /* known before; neither compiled nor timed now */
    bool is_finalist;   /* its time is of the turns that chose the winner; times
                           of others are of other moments */
    bool verified;
    double error; /* largest error / tolerance; <= 1 passes */
    double median_us, spread_us, cold_us;
    int samples;
    int registers, spill_bytes, shared_bytes;
    double compile_ms;
} spc_trial;

typedef struct spc_progress {
    spc_stage stage;
    int done, total;          /* of this stage */
    double elapsed_s, left_s; /* left_s < 0: not known yet */
    double best_us;           /* 0: none yet */
    const char *best;         /* "os_warp rows=16,..." or NULL */
} spc_progress;

typedef struct spc_tune_options {
    size_t bytes;    /* sizeof this struct: SPC_TUNE_OPTIONS_INIT sets it */
    spc_stage stage; /* the last one; SPC_STAGE_TIME to tune */
    spc_effort effort;
    const char *only;   /* a template's name; NULL: all */
    const char *target; /* compile for this target instead of the device's
                           (stages LIST and BUILD only) */
    uint64_t seed;      /* of weights, inputs and order */
    double limit_s;     /* time limit for one candidate's run; 0: 10 s, and
                           120 s for stage VERIFY, where nothing is timed */
    bool again;         /* measure even what the database knows */
    /* Called after every candidate's last stage; and on progress. */
    void (*on_trial)(const spc_trial *trial, void *payload);
    void (*on_progress)(const spc_progress *progress, void *payload);
    void *payload;
    const volatile int *cancel; /* non-zero: stop soon, SPC_EINTERRUPTED;
                                   what was measured is kept; NULL: the
                                   context's */
    /* Arguments (ended by NULL) of a program that opens a context on the same
     * device and calls spc_tune_worker: candidates then run there, so that a
     * crash or a hang costs that process and not the caller's. NULL: they run
     * in the caller's process, where limit_s cannot be enforced. */
    const char *const *worker;
    bool allow_spills; /* run also what spills registers */
    /* Those of all candidates for which this is true, whatever the effort;
     * NULL: those of the effort. Stage TIME then compares: all of them are
     * measured anew, in turns, with as many samples as the effort's finalists,
     * and none is chosen. */
    bool (*wants)(const char *template_name, const char *config, void *payload);
    /* Stage TIME: seconds after which no further candidate is started. The best
     * measured one is chosen, and a later run continues from there. At least
     * one is measured, if that takes at most another limit_s. 0: no limit. */
    double budget_s;
    /* Stage TIME: nothing is measured, and "TEMPLATE CONFIG" is chosen, which
     * the database must have times of, whatever is faster alone; SPC_ENOTFOUND.
     * For a caller that knows more than one layer shows: which other layers
     * read the same layout. */
    const char *chosen;
    /* Stage TIME: measure nothing where the database has a choice for this very
     * layer on each scene's buckets, of templates as they are now and of a
     * search that went to its end. Nothing is stored then. */
    bool missing;
} spc_tune_options;

#define SPC_TUNE_OPTIONS_INIT                                                  \
    {                                                                          \
        sizeof(spc_tune_options), SPC_STAGE_TIME, SPC_EFFORT_NORMAL, NULL,     \
            NULL, 1, 0, false, NULL, NULL, NULL, NULL, NULL, false, NULL, 0,   \
            NULL, false                                                        \
    }

typedef struct spc_tune_report {
    int candidates; /* admitted */
    int refused;    /* by constraints or resource limits */
    int compiled, verified, timed;
    int failed; /* candidates, and templates that a mistake kept out */
    int known;
    bool out_of_time; /* options.budget_s ended the search */
    bool was_there;   /* the winner is the choice that options.missing found */
    double elapsed_s;
    double gate_s; /* of that: comparing results, of all candidates and, run
                      after run, of those that might win */
    /* And, of that: drawing the sample and what is right on it; until the
     * measuring process was ready; loading and verifying candidates, gate_s
     * included; timing them; waiting for compilers with nothing to measure. */
    double draw_s, start_s, verify_s, time_s, wait_s;
    char winner[256]; /* "os_warp rows=16,depth=4,...", "" if none */
    double winner_us, default_us;
    /* Time to build the parts of a map that the winner reads: part of its cost
     * if a map serves only one layer. 0 where this run did not measure it. */
    double layout_us;
    /* The scene on which the winner loses most against that scene's own best
     * candidate, and winner / best there; "" and 0 without a winner. */
    char worst_scene[128];
    double worst_ratio;
    int64_t reserved[4]; /* 0 */
} spc_tune_report;

/*
 * Tunes a layer on sample scenes: every candidate is compiled, verified
 * against the oracle and timed; the winner by geometric mean over the scenes is
 * stored as the choice for each scene's bucket. Measurements that the database
 * already has are not repeated.
 *
 * SPC_EINVAL: an argument that cannot be; SPC_EUNSUPPORTED: no candidate is
 * admitted; SPC_ERANGE: a scene's coordinates do not fit the keys of a map;
 * SPC_EIO, SPC_EDEVICE: the worker cannot be started or talked to;
 * SPC_EINTERRUPTED. If no candidate at all can be used, how the first one
 * fails: SPC_ETEMPLATE, SPC_ECOMPILE, SPC_ETIMEOUT, SPC_EDEVICE (it crashes),
 * SPC_EWRONG (its result differs from the oracle's). SPC_EDB (or
 * SPC_EDBVERSION): all went well and *report is complete, but the choice or
 * some measurements (SPC_STAGE_BUILD: compiled code) could not be stored. It is
 * no failure where no database was asked for, by an empty name.
 */
SPC_API spc_status spc_tune(spc_tune_report *report, spc_ctx *ctx,
                            const spc_conv *conv,
                            const spc_scene *const *scenes, int scene_count,
                            const spc_tune_options *options);

/*
 * Tunes the search of a layer's map: every configuration of the template
 * "index" makes the map of each scene, is compared with the oracle's relation
 * entry by entry, and timed. The fastest by geometric mean is stored as the
 * choice for this geometry, and maps that are created later use it. Of the
 * options only the callbacks count. SPC_EUNSUPPORTED where the host builds
 * maps: there is nothing to choose. Else as spc_tune.
 */
SPC_API spc_status spc_tune_map(spc_tune_report *report, spc_ctx *ctx,
                                const spc_conv *conv,
                                const spc_scene *const *scenes, int scene_count,
                                const spc_tune_options *options);

/*
 * The other side of spc_tune_options.worker: measures candidates for the
 * tuner that started this process, through the descriptors 3 and 4 which it
 * inherited, until that tuner closes them. Errors are reported to that tuner.
 * SPC_ESTATE if no tuner is connected.
 */
SPC_API spc_status spc_tune_worker(spc_ctx *ctx);

/* Renders candidate number `i` (from 0) of SPC_STAGE_LIST, in the order of
 * on_trial. The caller releases *out with free(). SPC_EINVAL: there is no such
 * number, or a bad layer or target; SPC_EUNSUPPORTED: the candidate is refused,
 * with the reason; SPC_ETEMPLATE: its template cannot be rendered. */
SPC_API spc_status spc_candidate_render(char **out, spc_ctx *ctx,
                                        const spc_conv *conv,
                                        const char *target, int i);

/* ---- background mode ----------------------------------------------------- */

/*
 * Background mode: a thread of the context prepares what plans lack, while
 * these run. A plan made with SPC_PLAN_BACKGROUND uses the kernel that the
 * database can serve without a compiler; only if that is impossible it waits
 * for a default kernel. The thread compiles, and tunes if told to, until a
 * record of exactly this problem exists. Once it is stored,
 * spc_plan_is_outdated returns true, and another spc_plan_create finds it in
 * some microseconds. Weights are then packed again, because each kernel reads
 * its own layout. So no plan changes under its caller, and no execute ever
 * waits. A problem is worked on once, however many plans ask for it; other
 * processes that tune it are waited for, and what they find is taken.
 */
typedef struct spc_background_options {
    size_t bytes; /* sizeof this struct: SPC_BACKGROUND_OPTIONS_INIT sets it */
    /* spc_tune, of libspclab: the thread also tunes, on the coordinates of the
     * plan's map. NULL: it only compiles. */
    spc_status (*tune)(spc_tune_report *report, spc_ctx *ctx,
                       const spc_conv *conv, const spc_scene *const *scenes,
                       int scene_count, const spc_tune_options *options);
    spc_effort effort;
    const char *const *worker; /* as in spc_tune_options */
} spc_background_options;

#define SPC_BACKGROUND_OPTIONS_INIT                                            \
    {                                                                          \
        sizeof(spc_background_options), NULL, SPC_EFFORT_QUICK, NULL           \
    }

/* `options` may be NULL: compile only. SPC_EDB: the context has no database
 * that may be written, through which its thread hands over what it finds;
 * SPC_ESTATE: it was started before. */
SPC_API spc_status spc_background_start(spc_ctx *ctx,
                                        const spc_background_options *options);
/* Waits until nothing is left to do. spc_ctx_free does not: what is under way
 * ends soon, and is resumed another time. */
SPC_API void spc_background_wait(spc_ctx *ctx);
/* Is there a better kernel by now? A question of a few nanoseconds. */
SPC_API bool spc_plan_is_outdated(const spc_plan *plan);

/*
 * Writes down what a host application meets, to be tuned on later: the layer,
 * and the rows [rows][4] (device) of its scene, those that
 * spc_map_create_from_rows would take. `folder`, which is made if need be,
 * gets a file for each scene and a line for each layer on a scene, each once:
 * `spctune tune FOLDER/layers.txt` takes them. Several processes may write to
 * one folder. Waits for `stream`; call it for the frames that are worth it.
 * SPC_EIO; SPC_EINVAL: no rows, or the folder's path has a blank in it.
 */
SPC_API spc_status spc_record_layer(spc_ctx *ctx, const char *folder,
                                    const spc_conv *conv, const int32_t *coords,
                                    int64_t rows, void *stream);

/*
 * Writes every convolution of the last run, which spc_net_plan_check has found
 * well, with the voxels of its level into `folder`, as spc_record_layer does.
 * `buffers` are those that were run. Waits. SPC_ESTATE: nothing was run and
 * checked.
 */
SPC_API spc_status spc_record_layers(const spc_net_plan *plan,
                                     const char *folder,
                                     const spc_net_buffers *buffers);

#ifdef __cplusplus
}
#endif
#endif
