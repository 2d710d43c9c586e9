/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.h - the search space: every candidate of every template for one problem
 * on one target, and why others were refused.
 */
#ifndef SPC_COMPILER_SPACE_H
#define SPC_COMPILER_SPACE_H

#include "base/attrs.h"
#include "compiler/template.h"
#include "spc/status.h"

typedef struct spc__candidate {
    spc__template *tpl;
    spc__attrs config;
    spc__attrs launch;
    bool is_default; /* its template's default */
    bool admitted;   /* if false, `why` gives the reason */
    char why[192];
} spc__candidate;

typedef struct spc__space {
    spc__candidate *candidates; /* admitted and refused, grouped by template */
    int count;
    int admitted;
    /* Templates that refused the whole problem, one sentence each: by their
     * `accepts`, or because an error in them left no answer. */
    struct spc__refusal {
        const char *template_name;
        bool is_mistake;
        char why[192];
    } * refusals;
    int refusal_count;
} spc__space;

/* Returns the device whose templates a target runs. For an emulation this is
 * another device. */
const char *spc__target_templates(const spc__attrs *target);

/*
 * Enumerates the space of all templates of `role` for the target's device. The
 * constraints include resource limits of the target, which are checked here for
 * all templates: launch.shared against target.shared_block, launch.block
 * against target.max_threads. If no candidate is admitted, returns
 * SPC_EUNSUPPORTED with the most specific reason. `only` (NULL: all) names one
 * template.
 */
spc_status spc__space_create(spc__space **out, spc__library *library,
                             const char *role, const char *only,
                             const spc__attrs *problem,
                             const spc__attrs *target, spc_error *error);
void spc__space_free(spc__space *space);

#endif
