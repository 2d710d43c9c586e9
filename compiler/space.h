/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.h - the search space: every candidate of every template for one
 * problem on one target, with what refused the others.
 */
#ifndef SPC_COMPILER_SPACE_H
#define SPC_COMPILER_SPACE_H

#include "base/attrs.h"
#include "compiler/template.h"
#include "spc_status.h"

typedef struct spc__candidate {
    spc__template *tpl;
    spc__attrs config;
    spc__attrs launch;
    bool is_default; /* its template's default */
    bool admitted;   /* false: `why` says what refused it */
    char why[192];
} spc__candidate;

typedef struct spc__space {
    spc__candidate *candidates; /* admitted and refused, template by template */
    int count;
    int admitted;
    /* Templates that refused the problem as a whole, one sentence each: by
     * their `accepts`, or because a mistake of theirs left no answer. */
    struct spc__refusal {
        const char *template_name;
        bool is_mistake;
        char why[192];
    } * refusals;
    int refusal_count;
} spc__space;

/* The device whose templates a target runs: another's, for an emulation. */
const char *spc__target_templates(const spc__attrs *target);

/*
 * Enumerates the space of all templates of `role` for target's device. The
 * constraints include resource limits of the target, checked here for all
 * templates alike: launch.shared against target.shared_block, launch.block
 * against target.max_threads. SPC_EUNSUPPORTED if no candidate is admitted,
 * with the most specific reason. `only` (NULL: all) names one template.
 */
spc_status spc__space_create(spc__space **out, spc__library *library,
                             const char *role, const char *only,
                             const spc__attrs *problem,
                             const spc__attrs *target, spc_error *error);
void spc__space_free(spc__space *space);

#endif
