/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain.c - spctune explain: shows which kernel a layer would run, and why.
 */
#include "base/plural.h"
#include "command/cli/output.h"
#include "command/layers.h"
#include "command/verify/relate.h"

#include <stdio.h>

struct args {
    cli_list scenes;
    bool cached_only, estimate;
};

#define AT(member) offsetof(struct args, member)

static const cli_option options[] = {
    {'s', "scene", "SPEC", CLI_LIST, AT(scenes),
     "the scene it would run on (may be repeated)"},
    {0, "cached-only", NULL, CLI_FLAG, AT(cached_only),
     "only what the database can serve"},
    {0, "estimate", NULL, CLI_FLAG, AT(estimate),
     "without the database: the template's default"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

/* A lookup: the layer and scene, and the choice that was found. */
typedef struct answer {
    const char *layer;
    const spc_scene *scene;
    int64_t rows, pairs;
    double density;
    spc_explanation is;
} answer;

static void print_workspace(int64_t bytes)
{
    if (bytes >= 0)
        printf("workspace  %lld bytes\n", (long long)bytes);
    else
        printf("workspace  by the blocks that are resident\n");
}

static void print_answer(const answer *a)
{
    printf("layer      %s\n", a->layer);
    printf("scene      %s: %s, %s, density %.4f\n", spc_scene_name(a->scene),
           spc__count(a->rows, "row"), spc__count(a->pairs, "pair"),
           a->density);
    printf("kernel     %s %s\n", a->is.template_name, a->is.config);
    printf("origin     %s\n", origin_name(a->is.match));
    printf("level      %s\n", level_name(a->is.level));
    printf("reason     %s\n", a->is.reason);
    printf("code       %s\n",
           a->is.has_code ? "in the database" : "to be compiled");
    printf("weights    %zu bytes packed\n", a->is.weights_bytes);
    print_workspace(a->is.workspace_bytes);
    printf("map        %s\n", a->is.layout);
}

static void write_answer(spc__json *json, const answer *a)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "layer", a->layer);
    spc__json_text(json, "scene", spc_scene_name(a->scene));
    spc__json_int(json, "rows", a->rows);
    spc__json_int(json, "pairs", a->pairs);
    spc__json_real(json, "density", a->density);
    spc__json_text(json, "template", a->is.template_name);
    spc__json_text(json, "config", a->is.config);
    spc__json_text(json, "origin", origin_name(a->is.match));
    spc__json_text(json, "level", level_name(a->is.level));
    spc__json_text(json, "reason", a->is.reason);
    spc__json_bool(json, "has_code", a->is.has_code);
    spc__json_int(json, "weights_bytes", (int64_t)a->is.weights_bytes);
    if (a->is.workspace_bytes >= 0)
        spc__json_int(json, "workspace_bytes", a->is.workspace_bytes);
    spc__json_text(json, "layout", a->is.layout);
    spc__json_end_object(json);
}

/* Computes the figures that the map of the layer has on the scene. */
static spc_status count(spc_explain_question *ask, answer *out,
                        const spc_conv *layer, int threads)
{
    spc_relation r;
    spc_status status = relate(&r, layer, out->scene, threads);

    if (status != SPC_OK)
        return status;
    *ask = (spc_explain_question){.bytes = sizeof(spc_explain_question),
                                  layer,
                                  r.rows_in,
                                  r.rows_out,
                                  r.pairs};
    out->rows = r.rows_out;
    out->pairs = r.pairs;
    out->density =
        r.rows_out > 0 ? (double)r.pairs / ((double)r.rows_out * r.offsets) : 0;
    spc_relation_release(&r);
    return SPC_OK;
}

static spc_status ask(answer *out, cli_job *job, const spc_conv *layer)
{
    const struct args *args = job->args;
    unsigned flags = (args->cached_only ? SPC_PLAN_CACHED_ONLY : 0u) |
                     (args->estimate ? SPC_PLAN_ESTIMATE : 0u);
    spc_explain_question question = SPC_EXPLAIN_QUESTION_INIT;
    spc_status status =
        count(&question, out, layer, job->self->globals.threads);

    if (status != SPC_OK)
        return status;
    status = spc_explain(&out->is, job->ctx, &question, flags);
    return status == SPC_OK
               ? SPC_OK
               : cli_fail(status, "%s on %s: %s", out->layer,
                          spc_scene_name(out->scene), spc_ctx_error(job->ctx));
}

/* Explains a layer on one scene. */
static spc_status explain_on(cli_job *job, const spc_conv *layer,
                             const spc_scene *scene, const char *text)
{
    answer found = {.layer = text, .scene = scene};
    spc_status status = ask(&found, job, layer);

    /* After an interrupt a thread may still read a scene, so it is not
     * freed. */
    job->left_scenes = status == SPC_EINTERRUPTED;

    if (status == SPC_OK && job->json == NULL)
        print_answer(&found);
    else if (status == SPC_OK)
        write_answer(job->json, &found);
    else if (job->json != NULL)
        job_write_failure(job->json, text, spc_scene_name(scene));
    return status;
}

static spc_status explain_layer(cli_job *job, const spc_conv *layer,
                                const char *text)
{
    spc_status first = SPC_OK;

    for (int i = 0; i < job->scenes.count; i++) {
        if (i > 0 && job->json == NULL)
            putchar('\n');
        spc_status status = explain_on(job, layer, job->scenes.at[i], text);
        if (first == SPC_OK)
            first = status;
    }
    return first;
}

static spc_status command_explain(cli *self, void *args)
{
    return job_run(self, args, &((struct args *)args)->scenes, explain_layer);
}

const cli_command cli_explain = {
    .name = "explain",
    .operands = "LAYER... --scene SPEC...",
    .summary = "show which kernel a layer would run, and why",
    .more =
        "Says which kernel a program would get and where it would come from: a "
        "record of\nexactly this problem, of the same layer on a similar "
        "scene, of the forward\nlayer that a gradient of inputs computes as, "
        "the "
        "nearest measured layer, or a\ntemplate's default. The level is the "
        "device whose record it is: this device, another\none of its "
        "architecture, or the nearest by its facts. "
        "Records, keys and the scene's statistics, counted\non the host, "
        "answer: nothing is compiled, loaded or run.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_explain,
};
