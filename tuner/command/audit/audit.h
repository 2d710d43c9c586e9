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
    spc_ctx *served; /* has only choices of the layers' own scenes */
    spc_ctx *own;    /* has those of nearby scenes */
    spc__buf folder; /* a private one, for temporary databases */
    spc__json *json; /* an array to write to, or NULL: print */
    audit_sample samples[AUDIT_FIGURES];
    out_file lines;  /* a line for each figure, if requested */
    bool is_unsaved; /* the last of them could not be written */
    int flips;       /* second tunings that chose another candidate */
    /*
     * Candidates timed by quick, the additional ones of the longer search, and
     * all in the space; seconds of both.
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
 * Makes nearby scene `i`: a part of the scene's voxels, of the same extent but
 * thinner, or as dense but smaller. Its name describes it.
 */
spc_status audit_scene_near(spc_scene **out, const spc_scene *scene, int i);

#endif
