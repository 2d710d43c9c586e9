/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layers.h - shared by the commands on layers: parses the operands, loads the
 * scenes, opens the context, and runs a function for each layer.
 */
#ifndef SPC_CMD_LAYERS_H
#define SPC_CMD_LAYERS_H

#include "base/json.h"
#include "command/cli/cli.h"
#include "spc/lab.h"

typedef struct scene_set {
    spc_scene **at;
    int count;
} scene_set;

typedef struct cli_job {
    cli *self;
    void *args; /* options of the command */
    spc_ctx *ctx;
    scene_set scenes;
    bool is_alone; /* the only layer: the command shows its progress */
    /* a search that goes on until the program ends still uses the scenes */
    bool left_scenes;
    spc__json *json; /* array that objects are written to; NULL: print text */
} cli_job;

typedef spc_status (*job_body)(cli_job *job, const spc_conv *layer,
                               const char *text);

/*
 * Calls `body` for each layer of the command line; `specs` NULL: the command
 * needs no scenes. A failing layer does not stop the others, but an interrupt
 * does; the first failure is returned.
 */
spc_status job_run(cli *self, void *args, const cli_list *specs, job_body body);

/*
 * Writes an object with cli_last_error() instead of a result; `scene` may be
 * NULL. job_run does this for a layer whose body wrote nothing.
 */
void job_write_failure(spc__json *json, const char *layer, const char *scene);

/* As spc_scene_load; also returns SPC_EINTERRUPTED. */
spc_status load_scene(spc_scene **out, const char *spec, spc_error *error);
/* Loads several scenes; reports points that are left out. */
spc_status load_scenes(scene_set *out, const cli *self, const cli_list *specs);
void free_scenes(scene_set *set);

/* Reports how many points were left out and why, if any were. */
void say_left_out_of(const cli *self, const char *name,
                     const spc_scene_info *info);
void scene_say_left_out(const cli *self, const spc_scene *scene);

#endif
