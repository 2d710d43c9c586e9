/* SPDX-License-Identifier: Apache-2.0 */
/* features.c - spctune features: verifies and times operators on features. */
#include "command/cli/idle.h"
#include "command/cli/output.h"
#include "command/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    cli_list scenes;
    const char *pass;
    uint64_t seed;
};

#define AT(member) offsetof(struct args, member)

static const cli_option options[] = {
    {'s', "scene", "SPEC", CLI_LIST, AT(scenes),
     "a scene to run on (may be repeated)"},
    {0, "pass", "forward|dgrad|wgrad|all", CLI_WORD, AT(pass),
     "a pass of training: forward, dgrad, wgrad, or all that there are"},
    {0, "seed", "N", CLI_SEED, AT(seed), "of the features"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static void defaults(void *to)
{
    ((struct args *)to)->seed = 1;
}

/* ---- list of operators --------------------------------------------------- */

/*
 * Prints an example of each, with defaults for omitted words, and its possible
 * words.
 */
static spc_status list_operators(const cli *self)
{
    static const char *const columns[] = {"operator", "in full", "words", NULL};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    table list;

    table_init(&list, columns);
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    for (int i = 0; spc_feature_example_at(i) != NULL; i++) {
        spc_feature feature;
        char full[200], words[200];
        if (spc_feature_parse(&feature, spc_feature_example_at(i), NULL) !=
            SPC_OK)
            continue;
        spc_feature_format(full, sizeof(full), &feature);
        table_cell(&list, "%s", spc_feature_example_at(i));
        spc_feature_words(words, sizeof(words), feature.op);
        table_cell(&list, "%s", full);
        table_cell(&list, "%s", words);
        spc__json_object(&json, NULL);
        spc__json_text(&json, "operator", spc_feature_example_at(i));
        spc__json_text(&json, "in_full", full);
        spc__json_text(&json, "words", words);
        spc__json_end_object(&json);
    }
    spc__json_end_array(&json);
    if (!self->globals.json)
        table_print(&list, stdout);
    table_release(&list);
    if (self->globals.json)
        return output_json(&text);
    spc__buf_release(&text);
    return SPC_OK;
}

/* ---- one row ------------------------------------------------------------- */

struct sheet {
    spc_ctx *ctx;
    const struct args *args;
    table table;
    spc__json *json; /* NULL: print the table */
};

static const char *const titles[] = {
    "-scene",      "operator", ">warm us",   ">--+-",
    ">-floor us",  ">x floor", ">--cold us", ">---floor us",
    ">---x floor", ">--error", "-template",  NULL};

static void add_time(table *t, double us, double floor_us)
{
    table_us(t, floor_us);
    if (us > 0 && floor_us > 0)
        table_cell(t, "%.2f", us / floor_us);
    else
        table_blank(t);
}

static void add_row(table *t, const char *scene, const char *text,
                    const spc_bench_result *result)
{
    table_cell(t, "%s", scene);
    table_cell(t, "%s", text);
    table_us(t, result->warm_us);
    table_us(t, result->warm_spread_us);
    add_time(t, result->warm_us, result->warm_floor_us);
    table_us(t, result->cold_us);
    add_time(t, result->cold_us, result->cold_floor_us);
    table_cell(t, "%.2g", result->error);
    table_cell(t, "%s", result->plan);
}

/* An unknown value is null. */
static double known(double us)
{
    return us > 0 ? us : NAN;
}

static void write_row(spc__json *json, const char *scene, const char *text,
                      const spc_bench_result *result)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "operator", text);
    spc__json_text(json, "scene", scene);
    spc__json_real(json, "warm_us", result->warm_us);
    spc__json_real(json, "warm_spread_us", result->warm_spread_us);
    spc__json_real(json, "warm_floor_us", known(result->warm_floor_us));
    spc__json_text(json, "warm_floor_by", result->warm_floor_by);
    spc__json_real(json, "cold_us", result->cold_us);
    spc__json_real(json, "cold_spread_us", result->cold_spread_us);
    spc__json_real(json, "cold_floor_us", known(result->cold_floor_us));
    spc__json_text(json, "cold_floor_by", result->cold_floor_by);
    spc__json_real(json, "compulsory_bytes", result->compulsory_bytes);
    spc__json_real(json, "error", result->error);
    spc__json_int(json, "samples", result->samples);
    spc__json_text(json, "template", result->plan);
    spc__json_end_object(json);
}

/* Verifies and times one operator on one scene. */
static spc_status run_row(struct sheet *sheet, const spc_feature *feature,
                          const spc_scene *scene)
{
    const char *name = spc_scene_name(scene);
    spc_bench_result result;
    char text[8192]; /* long enough for a list of offsets */
    spc_status status = spc_feature_bench(&result, sheet->ctx, feature, scene,
                                          sheet->args->seed);

    spc_feature_format(text, sizeof(text), feature);
    if (status != SPC_OK) {
        cli_fail(status, "%s on %s: %s", text, name, spc_ctx_error(sheet->ctx));
        if (sheet->json != NULL)
            job_write_failure(sheet->json, text, name);
    } else if (sheet->json != NULL) {
        write_row(sheet->json, name, text, &result);
    } else {
        add_row(&sheet->table, name, text, &result);
    }
    return status;
}

/* A failing row does not stop the others; the first failure is returned. */
static spc_status run_rows(struct sheet *sheet, const spc_feature *features,
                           int count, const scene_set *scenes)
{
    spc_status first = SPC_OK;

    for (int s = 0; s < scenes->count; s++)
        for (int i = 0; i < count && first != SPC_EINTERRUPTED; i++) {
            spc_status status = run_row(sheet, &features[i], scenes->at[s]);
            /* An interrupt wins over an earlier failure, as it ends the run. */
            if (first == SPC_OK || status == SPC_EINTERRUPTED)
                first = status;
        }
    return first;
}

static spc_status run_sheet(struct sheet *sheet, const spc_feature *features,
                            int count, const scene_set *scenes, bool as_json)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    sheet->json = as_json ? &json : NULL;
    table_init(&sheet->table, titles);
    spc_status status = run_rows(sheet, features, count, scenes);
    spc__json_end_array(&json);
    if (sheet->table.rows > 0)
        table_print(&sheet->table, stdout);
    table_release(&sheet->table);
    if (as_json) {
        spc_status written = output_json(&text);
        return status != SPC_OK ? status : written;
    }
    spc__buf_release(&text);
    return status;
}

/* ---- the command --------------------------------------------------------- */

enum {
    PASSES = 3,
    MOST_ROWS = 4
}; /* MOST_ROWS limits the rows of an
    * operator */
static const char *const passes[PASSES] = {"forward", "dgrad", "wgrad"};

/* In training, an activation is a separate step with the first gradient. */
static bool split_activation(spc_feature *step, spc_feature *rest)
{
    spc_feature act = SPC_FEATURE_INIT;

    if (rest->op == SPC_FEATURE_ACT || rest->op == SPC_FEATURE_ACTGRAD ||
        rest->activation == SPC_ACT_NONE)
        return false;
    act.channels = rest->channels;
    act.dtype = rest->dtype;
    act.activation = rest->activation;
    act.slope = rest->slope;
    *step = act;
    rest->activation = SPC_ACT_NONE;
    return true;
}

/* Lists the parts of an operator's pass. An activation adds a second part. */
static spc_status add_pass(spc_feature *out, int *count,
                           const spc_feature *feature, spc_pass pass,
                           spc_error *error)
{
    spc_feature act, rest = *feature;
    bool is_split = pass != SPC_FORWARD && split_activation(&act, &rest);
    spc_status status = SPC_OK;

    if (is_split && pass == SPC_DGRAD)
        status = spc_feature_pass(&out[(*count)++], &act, pass, error);
    if (status == SPC_OK)
        status = spc_feature_pass(&out[*count], &rest, pass, error);
    if (status == SPC_OK)
        ++*count;
    return status;
}

/*
 * Appends the passes of an operator that `word` names; NULL: as it is. "all"
 * leaves out passes that do not exist. *count grows.
 */
static spc_status add_passes(spc_feature *out, int *count,
                             const spc_feature *feature, const char *word)
{
    bool all = word != NULL && strcmp(word, "all") == 0;
    spc_error error = {0};

    if (word == NULL) {
        out[(*count)++] = *feature;
        return SPC_OK;
    }
    for (int p = 0; p < PASSES; p++) {
        if (!all && strcmp(word, passes[p]) != 0)
            continue;
        spc_status status = add_pass(out, count, feature, (spc_pass)p, &error);
        /* "all" leaves out the gradient of weights of operators that have no
         * weights. */
        if (status != SPC_OK && (!all || p != SPC_WGRAD))
            return cli_fail(status, "%s", error.text);
    }
    return SPC_OK;
}

static spc_status read_features(spc_feature **out, int *count,
                                const cli_list *texts, const char *pass)
{
    spc_error error = {0};
    spc_status status = SPC_OK;

    *count = 0;
    /* An operator has at most three passes, and one more row for its
     * activation. */
    *out = calloc((size_t)texts->count * MOST_ROWS, sizeof(**out));
    if (*out == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < texts->count && status == SPC_OK; i++) {
        spc_feature feature;
        status = spc_feature_parse(&feature, texts->at[i], &error);
        status = status != SPC_OK ? cli_fail(status, "%s", error.text)
                                  : add_passes(*out, count, &feature, pass);
    }
    if (status != SPC_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

static spc_status command_features(cli *self, void *payload)
{
    struct sheet sheet = {.args = payload};
    spc_feature *features = NULL;
    scene_set scenes = {0};
    spc_status status;
    int count;

    if (self->operands.count == 0) {
        idle_say_but(self, "without an OPERATOR", "");
        return list_operators(self);
    }
    if ((status = read_features(&features, &count, &self->operands,
                                sheet.args->pass)) != SPC_OK)
        return status;
    cli_catch_signals(self); /* loading takes long too */
    if ((status = load_scenes(&scenes, self, &sheet.args->scenes)) == SPC_OK &&
        (status = cli_open(&sheet.ctx, self)) == SPC_OK)
        status =
            run_sheet(&sheet, features, count, &scenes, self->globals.json);
    spc_ctx_free(sheet.ctx);
    free_scenes(&scenes);
    free(features);
    return status;
}

const cli_command cli_features = {
    .name = "features",
    .operands = "[OPERATOR... --scene SPEC...]",
    .summary = "operators on features: list them, or check and time some",
    .more =
        "Without an OPERATOR: an example of each, the same in full, with the "
        "defaults of\nwords that are left out, and all its words. With some: "
        "the result on random\nfeatures of the voxels of each SPEC is compared "
        "with the operator's definition, before\nand after it is timed, warm "
        "and with flushed caches, and set beside its floor.\n`error` is the "
        "largest difference over what rounding explains. Of an unpool the\n"
        "voxels are the outputs. With --pass all the gradients of each "
        "operator "
        "have their\nrows, too; of an activation after it, which is a step of "
        "its own in training, first.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_features,
    .defaults = defaults,
};
