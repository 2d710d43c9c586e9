/*
 * run.h - the state of one tuning run, shared by the stages.
 *
 *   tune.c        the stages in order, and what spc.h promises
 *   candidates.c  the space, and its admitted candidates as entries
 *   report.c     what the caller is told on the way
 *   build.c       rendering and compiling, in batches over the cores
 *   record.c      what the database knew, and what it learns
 *   search.c      which candidates are measured, how often, and which one wins;
 *                 search.h names its parts
 */
#ifndef SPC_TUNER_RUN_H
#define SPC_TUNER_RUN_H

#include "cache.h"
#include "runner.h"
#include "space.h"

/* How far a candidate has come. */
typedef enum spc__state {
    SPC__NEW,
    SPC__FAILED,   /* trial.status says how */
    SPC__BUILT,    /* code is at hand */
    SPC__VERIFIED, /* right on every scene */
    SPC__TIMED     /* timings are there, from now or from the database */
} spc__state;

typedef struct spc__timing { /* of one candidate on one scene */
    double *all;             /* samples of this run */
    int count;               /* samples behind the median */
    int room;
    double median_us, spread_us, cold_us;
} spc__timing;

typedef struct spc__entry { /* a candidate in this run */
    const spc__candidate *candidate;
    char *config; /* canonical text */
    spc__state state;
    spc__trial trial; /* all that is known but the timings */
    spc__timing timings[SPC__SCENES_MAX];
    bool known;   /* from the database */
    bool is_twin; /* another has the same code and launch */
    /* What the database was to get and has not got yet. */
    bool trial_pending, code_pending;
    char identity[65]; /* by which twins know each other; "" until rendered */
    char body[65];     /* by which those of one code do */
    char *source;      /* rendered, until compiled */
    void *code;
    size_t code_bytes;
} spc__entry;

typedef struct spc__place { /* a key of the database; scenes may share one */
    spc__problem_key key;
    double pairs;
} spc__place;

typedef struct spc__run {
    spc_ctx *ctx;
    const spc_conv *conv;
    const spc_scene *const *scenes;
    int scene_count;
    spc_tune_options options;
    spc_tune_report *report;
    spc_error *error; /* the context's */

    spc__library *library;
    spc__attrs problem;
    spc__attrs target;
    spc__compiler *compiler;     /* opened with the first batch */
    spc__compiler *own_compiler; /* for another target than the device's */
    spc__compile_job job;        /* without source */

    spc__space *space;
    spc__entry
        *entries; /* the admitted candidates, in the order of the space */
    int count;
    spc__entry **by_config; /* sorted by template and configuration */

    int32_t *index[SPC__SCENES_MAX];    /* plain maps, until the oracle ran */
    spc__place places[SPC__SCENES_MAX]; /* by scene */
    spc__provenance provenance;
    bool told;         /* of trouble with the database */
    spc_error trouble; /* SPC_OK: the last write worked */
    uint64_t trouble_ns;

    spc__sample sample;
    spc__runner *runner;

    const spc__entry *best;   /* of those measured so far, for the progress */
    const spc__entry *winner; /* the choice; NULL: none yet */
    char winner_reason[192];
    uint64_t started_ns;
    int built, to_build; /* of the batch at hand, for the time left */
    int measured, to_measure;
    double build_s, measure_s; /* spent so far */
    int builds, measures;      /* finished so far */
} spc__run;

/* build.c */

/* Renders and compiles those of `list` that are new; finds twins; refuses what
 * spills or does not fit the target. SPC_EINTERRUPTED, or a compiler that
 * is not there. */
spc_status spc__run_build(spc__run *run, spc__entry **list, int count);

/* record.c */

/* Takes over what the database knows of these very templates. Records that
 * cannot be read are logged, and measured again. */
void spc__run_recall(spc__run *run);
/* Makes a candidate's trial durable, in the place of every scene. Trouble with
 * the database is logged once; the trial is then owed. */
void spc__run_record(spc__run *run, spc__entry *entry);
/* Stores compiled code, or owes it. */
void spc__run_record_code(spc__run *run, spc__entry *entry);
/* Writes what is owed, then the choice. Else *lost says what is not stored, and
 * why; its status is returned. */
spc_status spc__run_store(spc__run *run, spc_error *lost);
/* Is there, or should there be, a database that keeps what is measured? */
bool spc__run_keeps(const spc__run *run);
spc__entry *spc__run_find(const spc__run *run, const char *template_name,
                          const char *config);

/* The search: sampling.c, search.c, moves.c, choice.c */

/* Verifies one batch of built candidates on all scenes. */
spc_status spc__run_verify(spc__run *run, spc__entry **list, int count);
/* Measures until the winner stands. */
spc_status spc__run_search(spc__run *run);
/* The candidates that the chosen effort begins with, or, of a stage that times
 * nothing, consists of; defaults first. The array is the caller's. */
spc__entry **spc__run_seeds(const spc__run *run, int *count);
/* Geometric mean over the scenes of the medians, in microseconds. */
double spc__entry_score(const spc__run *run, const spc__entry *entry);

/* candidates.c */

/* Is `target` what the context's own compiler compiles for? NULL is. */
bool spc__run_is_native(const spc_ctx *ctx, const char *target);
/* Finds problem, target and space of the run. */
spc_status spc__run_open_space(spc__run *run);
/* Refuses what no template's constraints know. */
void spc__run_refuse(spc__run *run);
/* The entries of the admitted candidates. */
spc_status spc__run_make_entries(spc__run *run);

/* report.c */

void spc__run_progress(spc__run *run, spc_stage stage, int done, int total);
/* Tells the caller about a candidate that has come as far as it will. */
void spc__run_report(spc__run *run, const spc__entry *entry);
/* About all that are timed or failed. */
void spc__run_report_all(spc__run *run);
/* About templates that make a mistake. */
void spc__run_report_mistakes(spc__run *run);
/* About every candidate in the order of the space, then whole templates. */
void spc__run_report_space(spc__run *run);

/* tune.c */

/* How many of `left` candidates the next batch takes: few at first, so that
 * there is soon something to tell and to judge the time left by. */
int spc__run_batch(const spc__run *run, int left);
bool spc__run_cancelled(const spc__run *run);

#endif
