/* SPDX-License-Identifier: Apache-2.0 */
/* audit.h - one audit: its databases and results. */
#ifndef SPC_CMD_AUDIT_H
#define SPC_CMD_AUDIT_H

#include "base/buf.h"
#include "command/audit/audit_figures.h"
#include "command/cli/out_file.h"
#include "command/layers.h"
#include "spc/tune.h"

#include <stdio.h>

enum { AUDIT_AROUND = 8 };

typedef struct audit_args {
    cli_list scenes;
    const char *folder, *only, *keep;
    const char *output; /* a file of figures, for report */
    spc_effort against;
    const char *around_text;
    int around;
    uint64_t seed;
    double limit_s, minutes;
    bool in_process;
} audit_args;

typedef struct audit {
    cli *self;
    const audit_args *args;
    spc_ctx *served; /* database with only the choices of the layers' own
                      * scenes */
    spc_ctx *own;    /* database with the choices of nearby scenes */
    spc__buf folder; /* private folder for temporary databases */
    spc__json *json; /* an array to write to, or NULL: print */
    audit_sample samples[AUDIT_FIGURES];
    out_file lines;  /* file with a line for each figure, if requested */
    bool is_unsaved; /* the last line could not be written */
    int flips;       /* how many second tunings chose another candidate */
    /*
     * Numbers of candidates that quick timed, that the longer search timed in
     * addition, and in the whole space; seconds of both searches.
     */
    int timed, more, space;
    double timed_s, more_s;
    double started_s;
} audit;

spc_status audit_open(audit *a);
void audit_close(audit *a);
/* True if the time of --minutes is over. */
bool audit_is_late(const audit *a);

/* Tunes, compares and prints one layer on one scene. */
spc_status audit_layer(audit *a, const spc_conv *layer, const char *text,
                       const spc_scene *scene);

/*
 * Makes nearby scene `i`: a part of the scene's voxels, with the same extent
 * but fewer voxels, or with the same density but a smaller extent. Its name
 * describes it.
 */
spc_status audit_scene_near(spc_scene **out, const spc_scene *scene, int i);

#endif
