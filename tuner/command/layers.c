/* SPDX-License-Identifier: Apache-2.0 */
/* layers.c - shared by the commands on layers. */
#include "command/layers.h"

#include "base/plural.h"
#include "command/cli/output.h"
#include "command/layer_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- scenes -------------------------------------------------------------- */

struct loading {
    char *spec;
    spc_scene *scene;
    spc_status status;
    spc_error error;
};

/* Runs on a separate thread, as reading a large scene does not check the
 * interrupt flag. */
static void *load(void *payload)
{
    struct loading *at = payload;

    at->status = spc_scene_load(&at->scene, at->spec, &at->error);
    return NULL;
}

spc_status load_scene(spc_scene **out, const char *spec, spc_error *error)
{
    struct loading *at = calloc(1, sizeof(*at));
    spc_status status = SPC_ENOMEM;

    *out = NULL;
    *error = (spc_error){SPC_ENOMEM, "out of memory"};
    if (at != NULL && (at->spec = strdup(spec)) != NULL) {
        if (cli_run_apart(load, at) != SPC_OK) { /* the thread still needs
                                                  * *at */
            *error = (spc_error){SPC_EINTERRUPTED, "interrupted"};
            return error->status;
        }
        *out = at->scene;
        *error = at->error;
        status = at->status;
        free(at->spec);
    }
    free(at);
    return status;
}

void say_left_out_of(const cli *self, const char *name,
                     const spc_scene_info *info)
{
    if (info->bad > 0)
        cli_say(self,
                "%s: left out %lld of %s: a coordinate is NaN or infinite; "
                "the first is point %lld",
                name, (long long)info->bad, spc__count(info->points, "point"),
                (long long)info->first_bad);
    if (info->outside > 0)
        cli_say(self, "%s: left out %lld of %s: outside the network's range",
                name, (long long)info->outside,
                spc__count(info->points, "point"));
}

void scene_say_left_out(const cli *self, const spc_scene *scene)
{
    spc_scene_info info;

    spc_scene_describe(&info, scene);
    say_left_out_of(self, spc_scene_name(scene), &info);
}

spc_status load_scenes(scene_set *out, const cli *self, const cli_list *specs)
{
    spc_error error = {0};

    memset(out, 0, sizeof(*out));
    if (specs->count == 0)
        return cli_fail(SPC_EINVAL, "a scene is needed: --scene SPEC, such as "
                                    "scan.bin@0.05 or gen:lidar@0.1");
    out->at = calloc((size_t)specs->count, sizeof(*out->at));
    if (out->at == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (; out->count < specs->count; out->count++) {
        if (load_scene(&out->at[out->count], specs->at[out->count], &error) !=
            SPC_OK) {
            free_scenes(out);
            return cli_fail(error.status, "%s", error.text);
        }
        scene_say_left_out(self, out->at[out->count]);
    }
    return SPC_OK;
}

void free_scenes(scene_set *set)
{
    for (int i = 0; i < set->count; i++)
        spc_scene_free(set->at[i]);
    free(set->at);
    memset(set, 0, sizeof(*set));
}

/* ---- layers -------------------------------------------------------------- */

/* Reads all operands as layers; there must be at least one. */
static spc_status read_layers(spc_conv **out, const cli *self)
{
    int count = self->operands.count;
    spc_error error = {0};

    *out = NULL;
    if (count == 0)
        return cli_fail(SPC_EINVAL,
                        "%s needs a layer, such as "
                        "subm,cin=64,cout=64,k=3,dtype=f16",
                        self->command->name);
    spc_conv *layers = calloc((size_t)count, sizeof(*layers));
    if (layers == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < count; i++)
        if (read_layer(&layers[i], self->operands.at[i], &error) != SPC_OK) {
            free(layers);
            return cli_fail(error.status, "%s", error.text);
        }
    *out = layers;
    return SPC_OK;
}

void job_write_failure(spc__json *json, const char *layer, const char *scene)
{
    const spc_error *error = cli_last_error();

    spc__json_object(json, NULL);
    spc__json_text(json, "layer", layer);
    if (scene != NULL)
        spc__json_text(json, "scene", scene);
    json_error(json, error->status, error->text);
    spc__json_end_object(json);
}

/* Runs the command on one layer. If it fails before it has written anything,
 * the JSON array gets an object with the error. */
static spc_status one_layer(cli_job *job, const spc_conv *layer,
                            const char *text, job_body body)
{
    if (*cli_cancel_flag())
        return cli_fail(SPC_EINTERRUPTED, "%s: interrupted", text);
    size_t before = job->json != NULL ? job->json->out->length : 0;
    spc_status status = body(job, layer, text);
    if (status != SPC_OK && job->json != NULL &&
        job->json->out->length == before)
        job_write_failure(job->json, text, NULL);
    return status;
}

/* Runs the command on all layers; a failure does not stop the others. Layers
 * are named by their canonical text. */
static spc_status each_layer(cli_job *job, const spc_conv *layers,
                             job_body body)
{
    spc_status first = SPC_OK;

    for (int i = 0; i < job->self->operands.count; i++) {
        if (i > 0 && job->json == NULL)
            putchar('\n');
        char *text = cli_spell(&layers[i]);
        spc_status status =
            text != NULL ? one_layer(job, &layers[i], text, body) : SPC_ENOMEM;
        free(text);
        if (first == SPC_OK || status == SPC_EINTERRUPTED)
            first = status;
        if (status == SPC_EINTERRUPTED)
            break;
    }
    return first;
}

/* The same within a JSON array, which is printed as a whole. */
static spc_status each_layer_json(cli_job *job, const spc_conv *layers,
                                  job_body body)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    job->json = &json;
    spc_status first = each_layer(job, layers, body);
    spc__json_end_array(&json);
    spc_status status = output_json(&text);
    return first != SPC_OK ? first : status;
}

spc_status job_run(cli *self, void *args, const cli_list *specs, job_body body)
{
    cli_job job = {.self = self, .args = args, .is_alone = true};
    spc_conv *layers = NULL;
    spc_status status;

    if ((status = read_layers(&layers, self)) != SPC_OK)
        return status;
    cli_catch_signals(self); /* loading takes long too */
    if ((specs == NULL ||
         (status = load_scenes(&job.scenes, self, specs)) == SPC_OK) &&
        (status = cli_open(&job.ctx, self)) == SPC_OK)
        status = self->globals.json ? each_layer_json(&job, layers, body)
                                    : each_layer(&job, layers, body);
    spc_ctx_free(job.ctx);
    /* A thread that is still running may read the scenes. */
    if (!job.left_scenes)
        free_scenes(&job.scenes);
    free(layers);
    return status;
}
