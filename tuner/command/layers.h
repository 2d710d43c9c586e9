/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layers.h - what the commands on layers have in common: read the operands as
 * layers, load the scenes, open the context, do it for each layer.
 */
#ifndef SPC_CMD_LAYERS_H
#define SPC_CMD_LAYERS_H

#include "base/json.h"
#include "command/cli/cli.h"

typedef struct scene_set {
    spc_scene **at;
    int count;
} scene_set;

typedef struct cli_job {
    cli *self;
    void *args; /* the command's */
    spc_ctx *ctx;
    scene_set scenes;
    bool is_alone;    /* its progress is the command's */
    bool left_scenes; /* to a search that goes on until the program ends */
    spc__json *json;  /* an array to write objects to, or NULL: print */
} cli_job;

typedef spc_status (*job_body)(cli_job *job, const spc_conv *layer,
                               const char *text);

/*
 * Calls `body` for each layer of the command line; `specs` NULL: the command
 * needs no scenes. A layer that fails does not keep the others from their turn
 * (an interrupt does); the first failure is returned.
 */
spc_status job_run(cli *self, void *args, const cli_list *specs, job_body body);

/* Writes an object about cli_last_error() in the place of a result; `scene` may
 * be NULL. job_run does so for a layer for which the body wrote nothing. */
void job_write_failure(spc__json *json, const char *layer, const char *scene);

/* As spc_scene_load, and SPC_EINTERRUPTED. */
spc_status load_scene(spc_scene **out, const char *spec, spc_error *error);
/* Of several; says what is left out of them. */
spc_status load_scenes(scene_set *out, const cli *self, const cli_list *specs);
void free_scenes(scene_set *set);

/* Says how many points were left out and why, if any were. */
void say_left_out_of(const cli *self, const char *name,
                     const spc_scene_info *info);
void scene_say_left_out(const cli *self, const spc_scene *scene);

#endif
