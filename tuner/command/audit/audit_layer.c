/* SPDX-License-Identifier: Apache-2.0 */
/* audit_layer.c - one layer on one scene, tuned, served and compared. */
#include "base/clock.h"
#include "base/file.h"
#include "base/plural.h"
#include "command/audit/audit.h"
#include "command/cli/output.h"
#include "command/tune/trials.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The number of the best candidates from a search of the whole space that are
 * compared again, as its times are from different moments.
 */
enum { BEST = 6, NAME = 320 };

/* Candidates that alternate, and their times. */
typedef struct contest {
    char names[BEST + 4][NAME];
    double us[BEST + 4]; /* 0: the candidate was not measured */
    int count;
} contest;

/* Results for one layer on one scene, as far as they are known. */
typedef struct finding {
    const spc_conv *layer;
    const char *text;
    const spc_scene *scene;
    spc_tune_report quick, again, whole;
    contest rivals;
    double regret, flip, served; /* ratios; NAN: not measured */
    bool flipped;
} finding;

/* ---- life ---------------------------------------------------------------- */

/* Opens one of the audit's own databases: 0 is tuned once and serves, 1 gets
 * the tunings of near scenes, which must not find the first one's records. */
static spc_status open_database(spc_ctx **out, audit *a, int i)
{
    const char *given = a->self->globals.database;
    spc__buf path = SPC__BUF_INIT;

    spc__buf_printf(&path, "%s/audit-%d.db", spc__buf_text(&a->folder), i);
    a->self->globals.database =
        i == 0 && a->args->keep != NULL ? a->args->keep : spc__buf_text(&path);
    a->self->globals.shipped = ""; /* known records would shorten the search */
    spc_status status = cli_open(out, a->self);
    a->self->globals.database = given;
    spc__buf_release(&path);
    return status;
}

spc_status audit_open(audit *a)
{
    a->started_s = (double)spc__now_ns() * 1e-9;
    spc_error error;
    spc_status status = spc__temp_dir_create(&a->folder, &error);

    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    status = open_database(&a->served, a, 0);
    return status == SPC_OK ? open_database(&a->own, a, 1) : status;
}

void audit_close(audit *a)
{
    spc_ctx_free(a->served);
    spc_ctx_free(a->own);
    if (a->folder.length > 0)
        spc__temp_dir_remove(spc__buf_text(&a->folder));
    spc__buf_release(&a->folder);
    for (int i = 0; i < AUDIT_FIGURES; i++)
        free(a->samples[i].at);
}

bool audit_is_late(const audit *a)
{
    double spent = (double)spc__now_ns() * 1e-9 - a->started_s;

    return a->args->minutes > 0 && spent > 60 * a->args->minutes;
}

/* Adds a figure to its sample, and a line to the file of figures. NAN, a figure
 * that was not measured, is left out. */
static void add_sample(audit *a, const finding *f, audit_figure figure,
                       double share)
{
    if (isnan(share))
        return;
    audit_add(&a->samples[figure], share);
    if (a->lines.to == NULL)
        return;
    const char *scene = spc_scene_name(f->scene);
    const char *slash = strrchr(scene, '/');
    fprintf(a->lines.to, "%s %.6g %s on %s\n", audit_names[figure], share,
            f->text, slash != NULL ? slash + 1 : scene);
    if (!a->is_unsaved) /* an interrupted audit still prints its results */
        a->is_unsaved = out_file_save(&a->lines) != SPC_OK;
}

/* ---- tuning -------------------------------------------------------------- */

/* Tunes with the audit's options; *found gets the candidates. */
static spc_status tune(trials *found, spc_tune_report *report, audit *a,
                       spc_ctx *ctx, const finding *f,
                       const spc_tune_options *how)
{
    spc_tune_options options = *how;

    trials_init(found, a->self);
    options.only = a->args->only;
    options.limit_s = a->args->limit_s;
    options.on_trial = trials_collect;
    options.on_progress = trials_progress;
    options.payload = found;
    if (!a->args->in_process)
        options.worker = cli_worker_arguments(a->self);
    spc_status status = spc_tune(report, ctx, f->layer, &f->scene, 1, &options);
    progress_clear(&found->progress);
    if (status != SPC_OK)
        cli_fail(status, "%s on %s: %s", f->text, spc_scene_name(f->scene),
                 spc_ctx_error(ctx));
    return status;
}

/* Tunes without keeping the candidates. */
static spc_status tune_only(spc_tune_report *report, audit *a, spc_ctx *ctx,
                            const finding *f, const spc_tune_options *how)
{
    trials found;
    spc_status status = tune(&found, report, a, ctx, f, how);

    trials_release(&found);
    return status;
}

/* ---- contests ------------------------------------------------------------ */

static int find(const contest *c, const char *name)
{
    int i = 0;

    while (i < c->count && strcmp(c->names[i], name) != 0)
        i++;
    return i < c->count ? i : -1;
}

/* Adds a candidate once, even if several tunings chose it. */
static void enter(contest *c, const char *name)
{
    if (name[0] != '\0' && find(c, name) < 0)
        snprintf(c->names[c->count++], NAME, "%s", name);
}

static double time_of(const contest *c, const char *name)
{
    int i = find(c, name);

    return i >= 0 ? c->us[i] : 0;
}

static double best_of(const contest *c)
{
    double best = 0;

    for (int i = 0; i < c->count; i++)
        if (c->us[i] > 0 && (best == 0 || c->us[i] < best))
            best = c->us[i];
    return best;
}

/* Returns the extra time of one candidate relative to another. */
static double share(double us, double than_us)
{
    return us > 0 && than_us > 0 ? us / than_us - 1 : NAN;
}

typedef struct hearing {
    trials found; /* must be first, as callbacks of trials.h get its address */
    const contest *contest;
} hearing;

/* The filter of candidates for spc_tune(). */
static bool takes_part(const char *template_name, const char *config,
                       void *payload)
{
    const hearing *h = payload;
    char name[NAME];

    snprintf(name, sizeof(name), "%s %s", template_name, config);
    return find(h->contest, name) >= 0;
}

/* Notes the times of the contest. */
static void take_times(contest *c, const trials *found)
{
    char name[NAME];

    for (int i = 0; i < found->count; i++) {
        snprintf(name, sizeof(name), "%s %s", found->at[i].template_name,
                 found->at[i].config);
        int at = find(c, name);
        if (at >= 0 && trial_is_ok(&found->at[i]))
            c->us[at] = found->at[i].median_us;
    }
}

/* Times the candidates alternately. Does nothing if there is only one. */
static spc_status run_contest(contest *c, audit *a, const finding *f)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    hearing h = {.contest = c};

    if (c->count < 2)
        return SPC_OK;
    trials_init(&h.found, a->self);
    options.effort = SPC_EFFORT_EXHAUSTIVE; /* exhaustive takes the most
                                             * samples */
    options.seed = a->args->seed;
    options.limit_s = a->args->limit_s;
    options.wants = takes_part;
    options.on_trial = trials_collect;
    options.payload = &h;
    if (!a->args->in_process)
        options.worker = cli_worker_arguments(a->self);
    spc_status status =
        spc_tune(&report, a->served, f->layer, &f->scene, 1, &options);
    if (status != SPC_OK)
        cli_fail(status, "%s on %s: %s", f->text, spc_scene_name(f->scene),
                 spc_ctx_error(a->served));
    take_times(c, &h.found);
    trials_release(&h.found);
    return status;
}

/* ---- on its own scene ---------------------------------------------------- */

/* Times a plan as a program gets it. A difference in either direction would
 * mean that records are wrong. */
static spc_status time_served(finding *f, audit *a)
{
    spc_bench_result result;
    spc_status status =
        spc_bench(&result, a->served, f->layer, f->scene, a->args->seed);

    if (status != SPC_OK)
        return cli_fail(status, "%s on %s: %s", f->text,
                        spc_scene_name(f->scene), spc_ctx_error(a->served));
    f->served = fabs(share(result.warm_us, f->quick.winner_us));
    return SPC_OK;
}

/* Adds the best of a search of the whole space to the comparison. */
static spc_status search_all(finding *f, audit *a)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    trials found;
    char name[NAME];

    options.effort = a->args->against;
    options.seed = a->args->seed;
    spc_status status = tune(&found, &f->whole, a, a->served, f, &options);
    trials_sort(&found);
    for (int i = 0; i < found.count && i < BEST; i++) {
        snprintf(name, sizeof(name), "%s %s", found.at[i].template_name,
                 found.at[i].config);
        if (trial_is_ok(&found.at[i]))
            enter(&f->rivals, name);
    }
    enter(&f->rivals, f->whole.winner);
    trials_release(&found);
    return status;
}

/* Computes the figures from the times of the contest, which are comparable, and
 * not from those of the searches. */
static void compare_winners(finding *f)
{
    double quick = time_of(&f->rivals, f->quick.winner);
    double again = time_of(&f->rivals, f->again.winner);

    f->flipped = strcmp(f->quick.winner, f->again.winner) != 0;
    f->flip = f->flipped ? fabs(share(quick, again)) : 0;
    f->regret = share(quick, best_of(&f->rivals));
    if (f->rivals.count == 1) /* no other candidate was equally good */
        f->regret = 0;
}

/* All tunings of one layer on its scene. The plan is timed before the second
 * tuning, which replaces the choice. */
static spc_status study(finding *f, audit *a)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_status status;

    options.effort = SPC_EFFORT_QUICK;
    options.seed = a->args->seed;
    if ((status = tune_only(&f->quick, a, a->served, f, &options)) != SPC_OK ||
        (status = time_served(f, a)) != SPC_OK)
        return status;
    options.again = true;
    /* Other weights and inputs, and another order of candidates: a robust
     * choice does not change. */
    options.seed++;
    if ((status = tune_only(&f->again, a, a->served, f, &options)) != SPC_OK)
        return status;
    enter(&f->rivals, f->quick.winner);
    enter(&f->rivals, f->again.winner);
    if ((status = search_all(f, a)) != SPC_OK ||
        (status = run_contest(&f->rivals, a, f)) != SPC_OK)
        return status;
    compare_winners(f);
    add_sample(a, f, AUDIT_REGRET, f->regret);
    add_sample(a, f, AUDIT_FLIP, f->flip);
    add_sample(a, f, AUDIT_SERVED, f->served);
    a->flips += f->flipped;
    a->timed += f->quick.timed;
    a->more += f->whole.timed;
    a->space += f->quick.candidates;
    a->timed_s += f->quick.elapsed_s;
    a->more_s += f->whole.elapsed_s;
    return SPC_OK;
}

static void print_finding(const audit *a, const finding *f)
{
    if (a->json != NULL)
        return;
    printf("%s on %s\n", f->text, spc_scene_name(f->scene));
    printf("  quick   %s, %d of %s in %.3g s\n", f->quick.winner,
           f->quick.timed, spc__count(f->quick.candidates, "candidate"),
           f->quick.elapsed_s);
    printf("  again   %s in %.3g s\n",
           f->flipped ? f->again.winner : "the same", f->again.elapsed_s);
    printf("  whole   %s, %s more in %.3g s\n",
           strcmp(f->whole.winner, f->quick.winner) != 0 ? f->whole.winner
                                                         : "the same",
           spc__count(f->whole.timed, "candidate"), f->whole.elapsed_s);
    printf("  regret %.2f %%, flip %.2f %%, served %.2f %%\n", 100 * f->regret,
           100 * f->flip, 100 * f->served);
}

static void write_finding(spc__json *json, const finding *f)
{
    spc__json_text(json, "layer", f->text);
    spc__json_text(json, "scene", spc_scene_name(f->scene));
    spc__json_text(json, "quick", f->quick.winner);
    spc__json_real(json, "quick_s", f->quick.elapsed_s);
    spc__json_int(json, "quick_timed", f->quick.timed);
    spc__json_int(json, "candidates", f->quick.candidates);
    spc__json_text(json, "again", f->again.winner);
    spc__json_text(json, "whole", f->whole.winner);
    spc__json_real(json, "whole_s", f->whole.elapsed_s);
    spc__json_real(json, "regret", f->regret);
    spc__json_real(json, "flip", f->flip);
    spc__json_real(json, "served", f->served);
    spc__json_array(json, "rivals");
    for (int i = 0; i < f->rivals.count; i++) {
        spc__json_object(json, NULL);
        spc__json_text(json, "candidate", f->rivals.names[i]);
        spc__json_real(json, "us", f->rivals.us[i]);
        spc__json_end_object(json);
    }
    spc__json_end_array(json);
}

/* ---- on scenes around it ------------------------------------------------- */

/*
 * Finds the choice that a program would get for the nearby scene, from the
 * database that has only the layer's own scene.
 */
static spc_status find_served(char name[NAME], spc_match *origin, audit *a,
                              const finding *f)
{
    spc_map *map = NULL;
    spc_plan *plan = NULL;
    spc_status status;

    if (spc_conv_is_linear(f->layer))
        status = spc_plan_create_linear(&plan, a->served, f->layer,
                                        spc_scene_rows(f->scene), SPC_PLAN_JIT);
    else if ((status = spc_map_create_from_scene(&map, a->served, f->layer,
                                                 f->scene)) == SPC_OK)
        status = spc_plan_create(&plan, a->served, f->layer, map, SPC_PLAN_JIT);
    if (status == SPC_OK) {
        snprintf(name, NAME, "%s %s", spc_plan_template(plan),
                 spc_plan_config(plan));
        *origin = spc_plan_match(plan);
    } else {
        cli_fail(status, "%s on %s: %s", f->text, spc_scene_name(f->scene),
                 spc_ctx_error(a->served));
    }
    spc_plan_free(plan);
    spc_map_free(map);
    return status;
}

static void print_neighbour(audit *a, const finding *f, spc_match origin,
                            const char *served, double cost)
{
    if (a->json == NULL) {
        printf("  %.2f %% on %s: served %s (%s)%s%s; %d timed in %.3g s\n",
               100 * cost, spc_scene_name(f->scene), served,
               origin_name(origin), cost > 0 ? ", tuned " : "",
               cost > 0 ? f->quick.winner : "", f->quick.timed,
               f->quick.elapsed_s);
        return;
    }
    spc__json_object(a->json, NULL);
    spc__json_text(a->json, "scene", spc_scene_name(f->scene));
    spc__json_int(a->json, "voxels", spc_scene_rows(f->scene));
    spc__json_text(a->json, "origin", origin_name(origin));
    spc__json_text(a->json, "served", served);
    spc__json_text(a->json, "tuned", f->quick.winner);
    spc__json_real(a->json, "regret", cost);
    spc__json_end_object(a->json);
}

/*
 * Compares the served choice with one tuned for this scene. Either may be
 * better: a tuning may miss a candidate that the neighbour's tuning found.
 */
static spc_status study_neighbour(audit *a, finding *f)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    char served[NAME];
    spc_match origin;
    spc_status status;

    options.effort = SPC_EFFORT_QUICK;
    options.seed = a->args->seed;
    options.again = true; /* another scene in the same bucket may have
                           * records */
    if ((status = find_served(served, &origin, a, f)) != SPC_OK ||
        (status = tune_only(&f->quick, a, a->own, f, &options)) != SPC_OK)
        return status;
    enter(&f->rivals, served);
    enter(&f->rivals, f->quick.winner);
    if ((status = run_contest(&f->rivals, a, f)) != SPC_OK)
        return status;
    double cost = f->rivals.count < 2
                      ? 0
                      : share(time_of(&f->rivals, served), best_of(&f->rivals));
    add_sample(a, f, AUDIT_BUCKET, cost);
    print_neighbour(a, f, origin, served, cost);
    return SPC_OK;
}

/* Audits scenes near this one, for which the database serves this scene's
 * choice. */
static spc_status study_around(audit *a, const finding *middle)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < a->args->around && status == SPC_OK; i++) {
        finding f = {.layer = middle->layer, .text = middle->text};
        spc_scene *scene;
        if (audit_is_late(a))
            break;
        if ((status = audit_scene_near(&scene, middle->scene, i)) != SPC_OK)
            return status;
        f.scene = scene;
        status = study_neighbour(a, &f);
        spc_scene_free(scene);
    }
    return status;
}

spc_status audit_layer(audit *a, const spc_conv *layer, const char *text,
                       const spc_scene *scene)
{
    finding f = {.layer = layer,
                 .text = text,
                 .scene = scene,
                 .regret = NAN,
                 .flip = NAN,
                 .served = NAN};
    spc_status status = study(&f, a);

    if (status != SPC_OK && a->json != NULL)
        job_write_failure(a->json, text, spc_scene_name(scene));
    if (status != SPC_OK)
        return status;
    if (a->json != NULL) {
        spc__json_object(a->json, NULL);
        write_finding(a->json, &f);
        spc__json_array(a->json, "around");
    } else {
        print_finding(a, &f);
    }
    status = study_around(a, &f);
    if (a->json != NULL) {
        spc__json_end_array(a->json);
        spc__json_end_object(a->json);
    }
    return status;
}
