/* explain.c - spctune explain: which kernel a layer would run, and why. */
#include "layers.h"
#include "output.h"

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
     "do not compile: what the database alone can serve"},
    {0, "estimate", NULL, CLI_FLAG, AT(estimate),
     "without the database: the template's default"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

/* A linear layer runs on rows, without a map. */
static size_t workspace_bytes(const spc_plan *plan, const spc_scene *scene,
                              const spc_map *map)
{
    return map != NULL ? spc_plan_workspace_bytes(plan, map)
                       : spc_plan_workspace_rows(plan, spc_scene_rows(scene));
}

static void print_scene(const spc_scene *scene, const spc_map *map)
{
    if (map == NULL)
        printf("scene      %s: %lld rows, no map\n", spc_scene_name(scene),
               (long long)spc_scene_rows(scene));
    else
        printf("scene      %s: %lld voxels, %lld pairs, density %.4f, %d-bit "
               "keys\n",
               spc_scene_name(scene), (long long)spc_map_rows(map),
               (long long)spc_map_pairs(map), spc_map_density(map),
               spc_map_key_bits(map));
}

static void print_plan(const cli_job *job, const spc_scene *scene,
                       const spc_map *map, const spc_plan *plan,
                       const char *text)
{
    spc_stats stats = spc_ctx_stats(job->ctx);

    printf("layer      %s\n", text);
    print_scene(scene, map);
    printf("kernel     %s %s\n", spc_plan_template(plan),
           spc_plan_config(plan));
    printf("origin     %s\n", origin_name(spc_plan_origin(plan)));
    printf("reason     %s\n", spc_plan_reason(plan));
    printf("weights    %zu bytes packed\n", spc_plan_weights_bytes(plan));
    printf("workspace  %zu bytes\n", workspace_bytes(plan, scene, map));
    printf("so far     %lld compiled, %lld taken from the database\n",
           (long long)stats.compiles, (long long)stats.artefacts_loaded);
}

static void write_plan(const cli_job *job, const spc_scene *scene,
                       const spc_map *map, const spc_plan *plan,
                       const char *text)
{
    spc_stats stats = spc_ctx_stats(job->ctx);
    spc__json *json = job->json;

    spc__json_object(json, NULL);
    spc__json_text(json, "layer", text);
    spc__json_text(json, "scene", spc_scene_name(scene));
    spc__json_int(json, "voxels",
                  map != NULL ? spc_map_rows(map) : spc_scene_rows(scene));
    spc__json_int(json, "pairs",
                  map != NULL ? spc_map_pairs(map) : spc_scene_rows(scene));
    spc__json_real(json, "density", map != NULL ? spc_map_density(map) : 1);
    spc__json_int(json, "key_bits", spc_map_key_bits(map));
    spc__json_text(json, "template", spc_plan_template(plan));
    spc__json_text(json, "config", spc_plan_config(plan));
    spc__json_text(json, "origin", origin_name(spc_plan_origin(plan)));
    spc__json_text(json, "reason", spc_plan_reason(plan));
    spc__json_int(json, "weights_bytes", (int64_t)spc_plan_weights_bytes(plan));
    spc__json_int(json, "workspace_bytes",
                  (int64_t)workspace_bytes(plan, scene, map));
    spc__json_int(json, "compiled", stats.compiles);
    spc__json_int(json, "artefacts_loaded", stats.artefacts_loaded);
    spc__json_end_object(json);
}

static spc_status make_plan(spc_plan **plan, spc_map **map, cli_job *job,
                            const spc_conv *layer, const spc_scene *scene,
                            unsigned flags)
{
    spc_status status;

    if (spc_conv_is_linear(layer))
        return spc_plan_create_rows(plan, job->ctx, layer,
                                    spc_scene_rows(scene), flags);
    status = spc_map_create_from_scene(map, job->ctx, layer, scene);
    return status == SPC_OK
               ? spc_plan_create(plan, job->ctx, layer, *map, flags)
               : status;
}

static spc_status explain_on(cli_job *job, const spc_conv *layer,
                             const spc_scene *scene, const char *text)
{
    const struct args *args = job->args;
    unsigned flags = (args->cached_only ? SPC_PLAN_CACHED_ONLY : 0u) |
                     (args->estimate ? SPC_PLAN_ESTIMATE : 0u);
    spc_map *map = NULL;
    spc_plan *plan = NULL;
    spc_status status;

    if ((status = make_plan(&plan, &map, job, layer, scene, flags)) == SPC_OK)
        (job->json != NULL ? write_plan : print_plan)(job, scene, map, plan,
                                                      text);
    else
        cli_fail(status, "%s on %s: %s", text, spc_scene_name(scene),
                 spc_ctx_error(job->ctx));
    if (status != SPC_OK && job->json != NULL)
        job_write_failure(job->json, text, spc_scene_name(scene));
    spc_plan_free(plan);
    spc_map_free(map);
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

static spc_status run(cli *self, void *args)
{
    return job_run(self, args, &((struct args *)args)->scenes, explain_layer);
}

const cli_command cli_explain = {
    .name = "explain",
    .operands = "LAYER... --scene SPEC...",
    .summary = "say which kernel a layer would run, and why",
    .more = "Makes the plan that a program would get and prints where it came "
            "from: a record\nof exactly this problem, of the same layer on a "
            "similar scene, the nearest\nmeasured layer, or a template's "
            "default.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = run,
};
