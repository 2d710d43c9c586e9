/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify_all.c - spctune verify --all: verifies a sample of the matrix.
 *
 * A case is one candidate of one layer on some scenes, one operator on
 * features, or one regrouping. Compiling takes most of the time, including the
 * kernels of maps, so several candidates are verified for each chosen layer.
 */
#include "command/verify/verify.h"

#include "base/clock.h"
#include "base/plural.h"
#include "base/text/scan.h"
#include "command/cli/output.h"
#include "command/verify/corners.h"
#include "command/verify/matrix.h"
#include "command/verify/tallies.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) ((int)(sizeof(a) / sizeof((a)[0])))

enum { CASES = 300, SCENES = 3 };

/*
 * Values in place of a number of cases: all cases, or one for each template in
 * each cell of the matrix.
 */
enum { ALL = INT_MAX, EACH = INT_MAX - 1 };

/* A cell is left after this many layers without a new template. */
enum { MISSES = 9 };

/*
 * The maximum number of weights of a layer. The smaller limit is for the
 * emulation, which takes a second or two for that many; the other limits the
 * time of the oracle.
 */
enum { EMULATION_MOST = 1 << 17, MOST = 1 << 21 };

typedef struct walk {
    cli *self;
    const tuning_args *args;
    spc_ctx *ctx;
    char device[16];
    bool is_emulation;
    progress progress;
    spc__random random;
    spc__json *json;   /* open array for failures; NULL: print them */
    int wanted;        /* number of cases, ALL or EACH */
    int part, parts;   /* each `parts`-th row of the matrix, from `part` on */
    corner_names seen; /* EACH: templates already verified in the cell */
    /* EACH: names of all templates, and of those for weight gradients */
    corner_names names[2];
    uint64_t start_ns;
    int passed, failed, large;
    tallies tallies;
} walk;

/* ---- progress ------------------------------------------------------------ */

static double elapsed_s(const walk *w)
{
    return (double)(spc__now_ns() - w->start_ns) * 1e-9;
}

static bool is_late(const walk *w)
{
    return w->args->minutes > 0 && elapsed_s(w) > 60 * w->args->minutes;
}

static bool wants_all(const walk *w)
{
    return w->wanted == ALL;
}

static bool wants_each(const walk *w)
{
    return w->wanted == EACH;
}

static void show_progress(walk *w, const char *what)
{
    progress_state state = {.done = w->passed + w->failed,
                            .total = w->wanted >= EACH ? 0 : w->wanted,
                            .failed = w->failed,
                            .elapsed_s = elapsed_s(w),
                            .what = what};

    progress_cases(&w->progress, &state);
}

static void count_case(walk *w, const char *kernel, const char *type, bool ok)
{
    tallies_count(&w->tallies, kernel, type, ok);
    w->passed += ok;
    w->failed += !ok;
}

/* ---- failures ------------------------------------------------------------ */

/*
 * Writes the command that repeats a case; `candidate` is "TEMPLATE CONFIG" or
 * NULL.
 */
static void write_command(spc__buf *out, const walk *w, const char *text,
                          const char *candidate, const cli_list *scenes)
{
    const char *templates = w->self->globals.templates;

    spc__buf_printf(out, "spctune -d %s", w->device);
    if (templates != NULL)
        spc__buf_printf(out, " --templates '%s'", templates);
    spc__buf_printf(out, " verify '%s' --seed %llu", text,
                    (unsigned long long)w->args->seed);
    if (candidate != NULL) {
        int name = (int)strcspn(candidate, " ");
        spc__buf_printf(out, " --only %.*s", name, candidate);
        if (candidate[name] != '\0' && candidate[name + 1] != '\0')
            spc__buf_printf(out, " --config '%s'", candidate + name + 1);
    }
    if (w->args->in_process)
        spc__buf_printf(out, " --in-process");
    if (w->args->allow_spills)
        spc__buf_printf(out, " --allow-spills");
    for (int i = 0; i < scenes->count; i++)
        spc__buf_printf(out, " -s %s", scenes->at[i]);
}

/* Prints a failure at once, with the command that repeats it alone. */
static void report_failure(walk *w, const char *text, const char *candidate,
                           const char *how, const char *note,
                           const cli_list *scenes)
{
    spc__buf command = SPC__BUF_INIT;

    write_command(&command, w, text, candidate, scenes);
    progress_clear(&w->progress);
    if (w->json == NULL) {
        printf("%s: %s %s: %s\n    %s\n", how, text,
               candidate != NULL ? candidate : "", note,
               spc__buf_text(&command));
        fflush(stdout); /* the run may be killed before its end */
    } else {
        spc__json_object(w->json, NULL);
        spc__json_text(w->json, "operator", text);
        if (candidate != NULL)
            spc__json_text(w->json, "candidate", candidate);
        spc__json_text(w->json, "status", how);
        spc__json_text(w->json, "note", note);
        spc__json_text(w->json, "command", spc__buf_text(&command));
        spc__json_end_object(w->json);
    }
    spc__buf_release(&command);
}

/* ---- scenes -------------------------------------------------------------- */

/* Chooses a few scenes that the row may run on, or all. */
static spc_status choose_scenes(cli_list *out, walk *w, const char *row)
{
    int left = 0, wanted = SCENES;
    spc_status status = SPC_OK;

    for (int s = 0; matrix_scene(s) != NULL; s++)
        left += matrix_fits(row, s);
    if (wants_all(w))
        wanted = left;
    for (int s = 0; matrix_scene(s) != NULL && status == SPC_OK; s++) {
        if (!matrix_fits(row, s))
            continue;
        if ((int)spc__random_below(&w->random, (uint32_t)left) < wanted) {
            status = cli_append(out, matrix_scene(s));
            wanted--;
        }
        left--;
    }
    return status;
}

/* ---- layers -------------------------------------------------------------- */

/* Returns the most outputs of an input; these rules give more than a few. */
static int64_t fan_out(const spc_conv *layer)
{
    const spc_geometry *g = &layer->geometry;
    bool dilates = g->rule == SPC_RULE_FOOTPRINT &&
                   g->stride[0] * g->stride[1] * g->stride[2] == 1;

    bool expands = layer->op == SPC_GENERATIVE || g->rule == SPC_RULE_EXPAND;

    return dilates || expands ? spc_geometry_offset_count(g) : 1;
}

static bool is_large(const walk *w, const spc_conv *layer)
{
    int64_t weights = (int64_t)layer->cin / layer->groups * layer->cout *
                      spc_geometry_offset_count(&layer->geometry);

    if (wants_all(w))
        return false;
    return w->is_emulation ? weights * fan_out(layer) > EMULATION_MOST
                           : weights > MOST;
}

/* Counts a trial. A candidate that the compiler's figures refuse is not a
 * case. */
static void note_trial(walk *w, const spc_trial *trial, const char *text,
                       const char *type, const cli_list *scenes)
{
    char name[320];

    if (trial_is_refused(trial))
        return;
    snprintf(name, sizeof(name), "%s%s%s", trial->template_name,
             trial->config[0] != '\0' ? " " : "", trial->config);
    if (trial_is_failure(trial))
        report_failure(w, text, name, trial->status, trial->note, scenes);
    count_case(w, trial->template_name, type, !trial_is_failure(trial));
}

/*
 * True if the walk cannot continue: after an interrupt, or if this process has
 * lost the device.
 */
static bool ends_walk(const walk *w, spc_status status)
{
    return status == SPC_EINTERRUPTED ||
           (status == SPC_EDEVICE && w->args->in_process);
}

/*
 * Returns the template of the wanted candidates if all have the same one: then
 * no other space needs to be listed.
 */
static bool one_template(char out[64], const cli_list *wanted)
{
    size_t length = strcspn(wanted->at[0], " ");

    for (int i = 1; i < wanted->count; i++)
        if (strncmp(wanted->at[i], wanted->at[0], length + 1) != 0)
            return false;
    snprintf(out, 64, "%.*s", (int)length, wanted->at[0]);
    return true;
}

/*
 * Verifies candidates with spc_tune. If it fails as a whole, that counts as a
 * failed case, unless a candidate has failed.
 */
static spc_status verify_candidates(walk *w, const spc_conv *layer,
                                    const char *text, const cli_list *wanted,
                                    const cli_list *specs)
{
    tuning_args args = *w->args;
    cli_job job = {.self = w->self, .args = &args, .ctx = w->ctx};
    const char *type = spc_dtype_name(layer->dtype);
    spc_status status = load_scenes(&job.scenes, w->self, specs);
    spc_tune_report report;
    trials found;
    int failed = w->failed;
    char only[64];

    if (status != SPC_OK)
        return status;
    if (args.only == NULL && one_template(only, wanted))
        args.only = only;
    status = tuning_run(&found, &report, &job, layer, SPC_STAGE_VERIFY, wanted);
    for (int i = 0; i < found.count; i++)
        note_trial(w, &found.at[i], text, type, specs);
    if (status != SPC_OK && status != SPC_EINTERRUPTED && w->failed == failed) {
        report_failure(w, text, NULL, spc_status_name(status),
                       spc_ctx_error(w->ctx), specs);
        count_case(w, "none", type, false);
    }
    trials_release(&found);
    free_scenes(&job.scenes);
    return ends_walk(w, status) ? status : SPC_OK;
}

/*
 * Returns the number of candidates for a layer, so that even a small sample has
 * several layers.
 */
static int share(const walk *w)
{
    int left = w->wanted - w->passed - w->failed;
    int most = w->wanted / 10;

    most = most < 2 ? 2 : most > 16 ? 16 : most;
    return left < most ? left : most;
}

static spc_status list_candidates(corners *out, walk *w, const spc_conv *layer)
{
    if (w->args->only != NULL)
        return corners_list(out, w->ctx, layer, w->args->only);
    return wants_each(w)
               ? corners_list_unseen(out, w->ctx, layer,
                                     &w->names[layer->pass == SPC_WGRAD],
                                     &w->seen)
               : corners_list(out, w->ctx, layer, NULL);
}

static spc_status choose_candidates(cli_list *out, walk *w, corners *list)
{
    if (wants_each(w))
        return corners_unseen(out, list, &w->seen, &w->random);
    return wants_all(w) ? corners_all(out, list)
                        : corners_draw(out, list, share(w), &w->random);
}

/* Verifies some candidates of a layer on a few scenes. A failure of the layer
 * is a case of its own and does not end the walk. */
static spc_status verify_layer(walk *w, const char *text)
{
    cli_list wanted = {NULL, 0}, scenes = {NULL, 0};
    corners list = {0};
    spc_conv layer;
    spc_status status = spc_conv_parse(&layer, text, NULL);

    if (status != SPC_OK || is_large(w, &layer)) {
        w->large += status == SPC_OK;
        return SPC_OK;
    }
    show_progress(w, text);
    if ((status = choose_scenes(&scenes, w, text)) == SPC_OK &&
        (status = list_candidates(&list, w, &layer)) == SPC_OK)
        status = choose_candidates(&wanted, w, &list);
    if (status == SPC_OK)
        status = wanted.count > 0
                     ? verify_candidates(w, &layer, text, &wanted, &scenes)
                     : SPC_OK;
    else if (status == SPC_EUNSUPPORTED && w->args->only != NULL)
        status = SPC_OK; /* the template refuses the layer */
    else if (status != SPC_EINTERRUPTED && status != SPC_ENOMEM) {
        report_failure(w, text, NULL, spc_status_name(status),
                       spc_ctx_error(w->ctx), &scenes);
        count_case(w, "none", spc_dtype_name(layer.dtype), false);
        status = SPC_OK;
    }
    corners_release(&list);
    free(wanted.at);
    free(scenes.at);
    return status;
}

/* ---- other operators ----------------------------------------------------- */

/* Returns "f16" for "...,dtype=f16", or "". */
static const char *type_of(const char *text)
{
    const char *type = strstr(text, "dtype=");

    return type != NULL ? type + strlen("dtype=") : "";
}

/* Verifies an operator without templates. */
static spc_status verify_other(walk *w, const char *text)
{
    cli_list specs = {NULL, 0};
    scene_set scenes = {0};
    char kernel[64];
    double error;
    spc_status status;

    show_progress(w, text);
    if ((status = choose_scenes(&specs, w, text)) != SPC_OK ||
        (status = load_scenes(&scenes, w->self, &specs)) != SPC_OK)
        return status;
    status = verify_operator(w->ctx, text, &scenes, w->args->seed, &error);
    snprintf(kernel, sizeof(kernel), "%.*s", (int)strcspn(text, ","), text);
    if (status != SPC_EINTERRUPTED) {
        if (status != SPC_OK)
            report_failure(w, text, NULL,
                           status == SPC_EWRONG ? "wrong"
                                                : spc_status_name(status),
                           spc_ctx_error(w->ctx), &specs);
        count_case(w, kernel, type_of(text), status == SPC_OK);
        /* other cases can still run on this device */
        if (status != SPC_EDEVICE)
            status = SPC_OK;
    }
    free_scenes(&scenes);
    free(specs.at);
    return status;
}

/* ---- the sample ---------------------------------------------------------- */

static spc_status verify_row(walk *w, matrix_kind kind, const char *text)
{
    if (*cli_cancel_flag())
        return cli_fail(SPC_EINTERRUPTED, "interrupted");
    return kind == MATRIX_LAYERS ? verify_layer(w, text)
                                 : verify_other(w, text);
}

/*
 * Verifies rows of a cell until MISSES rows in sequence add no template; one
 * row for kinds other than layers.
 */
static spc_status walk_cell(walk *w, matrix_kind kind, int cell)
{
    int row, misses = 0, wanted = kind == MATRIX_LAYERS ? MISSES : 1;
    spc_status status = SPC_OK;
    char text[240];

    w->seen.count = 0;
    for (int n = 0; status == SPC_OK && misses < wanted && !is_late(w) &&
                    (row = matrix_cell_row(kind, cell, n)) >= 0;
         n++) {
        int before = w->passed + w->failed;
        if (!matrix_row(text, sizeof(text), kind, row, NULL))
            continue;
        status = verify_row(w, kind, text);
        misses = kind == MATRIX_LAYERS && w->passed + w->failed > before
                     ? 0
                     : misses + 1;
    }
    return status;
}

/* Takes every `parts`th cell from `part` on: together the parts cover all
 * cells. */
static spc_status walk_cells(walk *w, matrix_kind kind)
{
    spc_status status = SPC_OK;

    for (int cell = w->part; cell < matrix_cells(kind) && status == SPC_OK;
         cell += w->parts)
        status = walk_cell(w, kind, cell);
    return status;
}

/* Orders rows as in the table if all are wanted, otherwise by the seed. */
static int *order_rows(walk *w, int rows)
{
    int *order = malloc((size_t)rows * sizeof(*order));

    for (int i = 0; order != NULL && i < rows; i++)
        order[i] = i;
    /* Fisher and Yates. */
    for (int i = rows - 1; order != NULL && !wants_all(w) && i > 0; i--) {
        int j = (int)spc__random_below(&w->random, (uint32_t)i + 1);
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    return order;
}

/* Verifies rows of a kind until there are `until` cases. */
static spc_status walk_kind(walk *w, matrix_kind kind, int until)
{
    int rows = matrix_rows(kind), *order = order_rows(w, rows);
    spc_status status = SPC_OK;
    char text[240];

    if (order == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < rows && status == SPC_OK; i++) {
        if (w->passed + w->failed >= until || is_late(w))
            break;
        if (order[i] % w->parts == w->part &&
            matrix_row(text, sizeof(text), kind, order[i], NULL))
            status = verify_row(w, kind, text);
    }
    free(order);
    return status;
}

/* Returns one `one_in`-th of a sample's cases, rounded at random. */
static int part(walk *w, int one_in)
{
    int more = (int)spc__random_below(&w->random, (uint32_t)one_in);

    if (wants_all(w))
        return INT_MAX / 2;
    return w->wanted / one_in + (w->wanted % one_in + more >= one_in);
}

/* Verifies layers only, as only they have templates. */
static spc_status walk_template(walk *w)
{
    return wants_each(w) ? walk_cells(w, MATRIX_LAYERS)
                         : walk_kind(w, MATRIX_LAYERS, w->wanted);
}

/* One case in twenty is a set and one in six an operator on features; the rest
 * are layers, which have by far the most candidates. */
static spc_status walk_all(walk *w)
{
    if (w->args->only != NULL)
        return walk_template(w);
    int sets = part(w, 20), features = sets + part(w, 6);
    spc_status status = SPC_OK;

    for (int kind = MATRIX_KINDS - 1; wants_each(w) && kind >= 0; kind--)
        if (status == SPC_OK)
            status = walk_cells(w, (matrix_kind)kind);
    if (wants_each(w))
        return status;
    if ((status = walk_kind(w, MATRIX_SETS, sets)) != SPC_OK ||
        (status = walk_kind(w, MATRIX_FEATURES, features)) != SPC_OK)
        return status;
    return walk_kind(w, MATRIX_LAYERS, w->wanted);
}

/* ---- results ------------------------------------------------------------- */

static void print_end(walk *w)
{
    tallies_print(&w->tallies);
    printf("%d passed, %d failed on %s, seed %llu, %.3g s", w->passed,
           w->failed, w->device, (unsigned long long)w->args->seed,
           elapsed_s(w));
    if (w->large > 0)
        printf("; %s too large for a sample: --cases all includes them",
               spc__count(w->large, "layer"));
    puts("");
}

static void write_end(walk *w, spc_status status)
{
    spc__json *json = w->json;

    spc__json_end_array(json);
    tallies_write(&w->tallies, json);
    spc__json_text(json, "device", w->device);
    spc__json_int(json, "seed", (int64_t)w->args->seed);
    spc__json_int(json, "passed", w->passed);
    spc__json_int(json, "failed", w->failed);
    spc__json_int(json, "too_large", w->large);
    spc__json_real(json, "elapsed_s", elapsed_s(w));
    if (status != SPC_OK)
        json_error(json, status, cli_last_error()->text);
    spc__json_end_object(json);
}

/* ---- entry --------------------------------------------------------------- */

static spc_status read_cases(int *out, const char *text)
{
    int64_t count;

    *out = text == NULL ? CASES : strcmp(text, "each") == 0 ? EACH : ALL;
    if (text == NULL || *out == EACH || strcmp(text, "all") == 0)
        return SPC_OK;
    if (!spc__scan_integer(&count, spc__span_of(text), 1, 1000000))
        return cli_fail(SPC_EINVAL,
                        "--cases: '%s' is not a whole number from 1 to "
                        "1000000, each or all",
                        text);
    *out = (int)count;
    return SPC_OK;
}

/* "2/8" is the second of eight parts. */
static spc_status read_part(walk *w, const char *text)
{
    w->part = 0;
    w->parts = 1;
    if (text != NULL &&
        !spc__scan_share(&w->part, &w->parts, spc__span_of(text), 9999))
        return cli_fail(SPC_EINVAL,
                        "--part: '%s' is not a part such as 1/8 to 8/8", text);
    return SPC_OK;
}

static spc_status open_walk(walk *w)
{
    spc_device_info info;
    spc_status status = cli_open(&w->ctx, w->self);

    if (status != SPC_OK || (status = spc_ctx_device(&info, w->ctx)) != SPC_OK)
        return status;
    snprintf(w->device, sizeof(w->device), "%s", info.id);
    w->is_emulation = info.emulates;
    progress_init(&w->progress, w->self);
    spc__random_init(&w->random, w->args->seed);
    w->start_ns = spc__now_ns();
    return SPC_OK;
}

/*
 * Layers that together name all templates. One layer is not enough, because
 * every template may refuse it, and all templates of a folder may be for one
 * type.
 */
static const char *const samples[] = {
    "subm,cin=16,cout=16,k=3",
    "subm,cin=16,cout=16,k=3,dtype=bf16",
    "subm,cin=16,cout=16,k=3,dtype=tf32",
    "subm,cin=16,cout=16,k=3,dtype=f32",
    "subm,cin=16,cout=16,k=3,dtype=i8",
    "subm,cin=16,cout=16,k=3,groups=16",
    "points,cin=16,cout=16,k=3,radius=0.1",
    "subm,cin=16,cout=16,k=3,pass=wgrad",
};

/* Checks that the requested template exists. */
static spc_status check_only(walk *w)
{
    const char *only = w->args->only;
    corner_names names = {.count = 0};
    spc__buf list = SPC__BUF_INIT;
    spc_status status = SPC_OK;
    spc_conv layer;
    bool found = only == NULL;

    for (int i = 0; i < LENGTH(samples) && !found && status == SPC_OK; i++) {
        spc_conv_parse(&layer, samples[i], NULL);
        status = corners_templates(&names, w->ctx, &layer);
        if (status == SPC_EUNSUPPORTED) /* no template accepts the layer */
            status = SPC_OK;
    }
    for (int i = 0; i < names.count; i++) {
        found |= strcmp(names.at[i], only) == 0;
        spc__buf_printf(&list, "%s%s", i > 0 ? ", " : "", names.at[i]);
    }
    if (status != SPC_OK)
        cli_fail(status, "%s", spc_ctx_error(w->ctx));
    else if (!found)
        status = cli_fail(SPC_EUNSUPPORTED,
                          "there is no template '%s' of layers for device "
                          "'%s', only %s",
                          only, w->device, spc__buf_text(&list));
    spc__buf_release(&list);
    return status;
}

/* Prints the summary, also after an interrupt, and fails if a case failed. */
static spc_status end_walk(walk *w, spc_status status)
{
    progress_clear(&w->progress);
    if (status == SPC_OK && w->failed > 0)
        status = cli_fail(SPC_EWRONG, "%d of %d cases failed", w->failed,
                          w->passed + w->failed);
    if (w->json == NULL)
        print_end(w);
    else
        write_end(w, status);
    return status;
}

spc_status verify_all(cli *self, const tuning_args *args)
{
    walk w = {.self = self, .args = args};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    spc_status status = read_cases(&w.wanted, args->cases);

    if (status != SPC_OK || (status = read_part(&w, args->part)) != SPC_OK)
        return status;
    if (self->operands.count > 0 || args->scenes.count > 0)
        return cli_fail(SPC_EINVAL,
                        "verify --all has layers and scenes of its "
                        "own: leave out '%s'",
                        self->operands.count > 0 ? self->operands.at[0]
                                                 : "--scene");
    cli_catch_signals(self);
    if ((status = open_walk(&w)) != SPC_OK ||
        (status = check_only(&w)) != SPC_OK) {
        spc_ctx_free(w.ctx);
        return status;
    }
    if (self->globals.json) {
        spc__json_init(&json, &text);
        w.json = &json;
        spc__json_object(&json, NULL);
        spc__json_array(&json, "failures");
    }
    status = end_walk(&w, walk_all(&w));
    spc_ctx_free(w.ctx);
    if (w.json == NULL)
        return status;
    spc_status printed = output_json(&text);
    return status != SPC_OK ? status : printed;
}
