/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/tune.h - tuning of layers and maps, also in the background, and recording
 * of an application's layers. Functions that begin with spc_tune, and
 * spc_candidate_render, are in libspclab, all others in libspc.
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
    SPC_STAGE_TIME    /* time, select the fastest, store */
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
     * not be loaded), "fault" (a call failed during its run), "wrong" */
    const char *status;
    const char *note; /* error message, or "" */
    bool is_default;
    bool from_database; /* known from earlier; neither compiled nor timed now */
    bool is_finalist;   /* its time was measured in the same rounds as the
                           winner's; times of other candidates are from other
                           moments */
    bool verified;
    double error; /* largest error / tolerance; <= 1 passes */
    double median_us, spread_us, cold_us;
    int samples;
    int registers, spill_bytes, shared_bytes;
    double compile_ms;
} spc_trial;

typedef struct spc_progress {
    spc_stage stage;
    int done, total;          /* number of candidates in this stage */
    double elapsed_s, left_s; /* negative: not known yet */
    double best_us;           /* 0: none yet */
    const char *best;         /* "os_warp rows=16,..." or NULL */
} spc_progress;

typedef struct spc_tune_options {
    size_t bytes;    /* sizeof this struct: SPC_TUNE_OPTIONS_INIT sets it */
    spc_stage stage; /* the last stage; SPC_STAGE_TIME to tune */
    spc_effort effort;
    const char *only;   /* name of a template; NULL: all */
    const char *target; /* compile for this target instead of the device's
                           (stages LIST and BUILD only) */
    uint64_t seed;      /* seed of weights, inputs and order */
    double limit_s;     /* time limit for one candidate's run; 0: 10 s, and
                           120 s for stage VERIFY, where nothing is timed */
    bool again;         /* measure again even if the database has the
                           measurement */
    /* Called after every candidate's last stage, and to report progress. */
    void (*on_trial)(const spc_trial *trial, void *payload);
    void (*on_progress)(const spc_progress *progress, void *payload);
    void *payload;
    const volatile int *cancel; /* non-zero: stop soon with SPC_EINTERRUPTED and
                                   keep the measurements; NULL: the flag of the
                                   context */
    /* Arguments (ended by NULL) of a program that opens a context on the same
     * device and calls spc_tune_worker: candidates then run there, so that a
     * crash or a hang costs that process and not the caller's. NULL: they run
     * in the caller's process, where limit_s cannot be enforced. */
    const char *const *worker;
    bool allow_spills; /* also run candidates that spill registers */
    /* Selects the candidates for which it returns true, whatever the effort;
     * NULL: the effort selects them. With it, stage TIME only compares: it
     * measures all selected candidates anew, in interleaved rounds, with as
     * many samples as the finalists of the effort, and stores no choice. */
    bool (*wants)(const char *template_name, const char *config, void *payload);
    /* Stage TIME: seconds after which no further candidate is started. The best
     * measured one is chosen, and a later run continues from there. At least
     * one is measured, if that takes at most another limit_s. 0: no limit. */
    double budget_s;
    /* Stage TIME: measures nothing and chooses "TEMPLATE CONFIG", even if
     * another candidate is faster. Without a time of it in the database,
     * returns SPC_ENOTFOUND. For callers that consider several layers together,
     * for example layers that read the same layout. */
    const char *chosen;
    /* Stage TIME: measure and store nothing if the database already has a
     * choice for exactly this layer in each scene's bucket, made with the
     * current templates by a complete search. */
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
    int failed; /* candidates, and templates that an error excluded */
    int known;
    bool out_of_time; /* options.budget_s ended the search */
    bool was_there;   /* the winner is the existing choice that options.missing
                         found */
    double elapsed_s;
    double gate_s; /* part of it: comparing results of all candidates, and of
                      possible winners after every run */
    /* Further parts: making the sample and its reference result; starting the
     * measuring process; loading and verifying candidates, including gate_s;
     * timing them; waiting for compilers with nothing to measure. */
    double draw_s, start_s, verify_s, time_s, wait_s;
    char winner[256]; /* "os_warp rows=16,depth=4,...", "" if none */
    double winner_us, default_us;
    /* Time to build the parts of a map that the winner reads: part of its cost
     * if a map serves only one layer. 0 if this run did not measure it. */
    double layout_us;
    /* The scene on which the winner is slowest relative to the best candidate
     * for that scene, and the ratio winner / best; "" and 0 without a
     * winner. */
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
 * SPC_EINVAL: an invalid argument; SPC_EUNSUPPORTED: no candidate is admitted;
 * SPC_ERANGE: a scene's coordinates do not fit the keys of a map; SPC_EIO,
 * SPC_EDEVICE: the worker cannot be started or does not answer;
 * SPC_EINTERRUPTED. If no candidate can be used, the failure of the first
 * candidate: SPC_ETEMPLATE, SPC_ECOMPILE, SPC_ETIMEOUT, SPC_EDEVICE (it
 * crashes), SPC_EWRONG (its result differs from the oracle's). SPC_EDB (or
 * SPC_EDBVERSION): tuning succeeded and *report is complete, but the choice or
 * some measurements (SPC_STAGE_BUILD: compiled code) could not be stored. A
 * context whose database was disabled by an empty name does not fail.
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
 * options only the callbacks are used. SPC_EUNSUPPORTED: the host builds the
 * maps, so there is nothing to choose. Otherwise the same as spc_tune.
 */
SPC_API spc_status spc_tune_map(spc_tune_report *report, spc_ctx *ctx,
                                const spc_conv *conv,
                                const spc_scene *const *scenes, int scene_count,
                                const spc_tune_options *options);

/*
 * Runs in the process that spc_tune_options.worker starts: measures candidates
 * for the tuner, through the inherited descriptors 3 and 4, until the tuner
 * closes them. Errors are reported to that tuner. SPC_ESTATE if no tuner is
 * connected.
 */
SPC_API spc_status spc_tune_worker(spc_ctx *ctx);

/* Renders candidate number `i` (from 0) of SPC_STAGE_LIST, in the order of
 * on_trial. The caller releases *out with free(). SPC_EINVAL: the number, the
 * layer or the target is invalid; SPC_EUNSUPPORTED: the candidate is refused
 * (the message gives the reason); SPC_ETEMPLATE: its template cannot be
 * rendered. */
SPC_API spc_status spc_candidate_render(char **out, spc_ctx *ctx,
                                        const spc_conv *conv,
                                        const char *target, int i);

/* ---- background mode ----------------------------------------------------- */

/*
 * Background mode: a thread of the context prepares better kernels for plans
 * while they run. A plan made with SPC_PLAN_BACKGROUND uses a kernel that the
 * database has compiled; without such a kernel, the call waits for a default
 * kernel. The thread compiles, and tunes if requested, until a record of
 * exactly this problem exists. Once it is stored, spc_plan_is_outdated returns
 * true, and another spc_plan_create finds it in some microseconds. Weights are
 * then packed again, because each kernel reads its own layout. So an existing
 * plan never changes, and no execute ever waits. The thread processes each
 * problem once, whatever the number of plans. If another process already tunes
 * the problem, the thread waits for the result and uses it.
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

/* `options` may be NULL: compile only. SPC_EDB: the context has no writable
 * database, through which the thread returns its results; SPC_ESTATE: the
 * thread was started before. */
SPC_API spc_status spc_background_start(spc_ctx *ctx,
                                        const spc_background_options *options);
/* Waits until the thread has no more work. spc_ctx_free does not wait for this:
 * work in progress ends soon, and a later process resumes it. */
SPC_API void spc_background_wait(spc_ctx *ctx);
/* True if a better kernel is available by now. Takes a few nanoseconds. */
SPC_API bool spc_plan_is_outdated(const spc_plan *plan);

/*
 * Records a layer of an application for later tuning: the layer, and the rows
 * [rows][4] (device) of its scene, as spc_map_create_from_rows would take them.
 * `folder`, which is created if needed, receives a file for each scene and a
 * line for each layer on a scene, without duplicates. `spctune tune
 * FOLDER/layers.txt` reads them. Several processes may write to one folder.
 * Waits for `stream`, so call it only for representative frames. SPC_EIO;
 * SPC_EINVAL: no rows, or the folder's path has a blank in it.
 */
SPC_API spc_status spc_record_layer(spc_ctx *ctx, const char *folder,
                                    const spc_conv *conv, const int32_t *coords,
                                    int64_t rows, void *stream);

/*
 * Records every convolution of the last run with the voxels of its level in
 * `folder`, as spc_record_layer does. spc_net_plan_check must have found no
 * error in that run; `buffers` are those of the run. Waits. SPC_ESTATE: there
 * is no checked run.
 */
SPC_API spc_status spc_record_layers(const spc_net_plan *plan,
                                     const char *folder,
                                     const spc_net_buffers *buffers);

#ifdef __cplusplus
}
#endif
#endif
