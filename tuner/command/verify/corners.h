/* SPDX-License-Identifier: Apache-2.0 */
/*
 * corners.h - selects the candidates of a layer that differ most: the defaults,
 * and those where parameters have the first or the last of their values.
 */
#ifndef SPC_CMD_CORNERS_H
#define SPC_CMD_CORNERS_H

#include "base/random.h"
#include "command/cli/cli.h"

enum { CORNER_PARAMETERS = 16, CORNER_VALUES = 32, CORNER_TEMPLATES = 32 };

/* The values of a template's parameters, in the order of its declaration. */
typedef struct corner_template {
    char name[64];
    char values[CORNER_PARAMETERS][CORNER_VALUES][16];
    int value_count[CORNER_PARAMETERS];
    int parameters;
    int first, count; /* indices of its candidates in `at` */
} corner_template;

typedef struct corner_candidate {
    char *name; /* "TEMPLATE CONFIG" */
    bool is_default;
    bool taken;
} corner_candidate;

/* Names of templates. */
typedef struct corner_names {
    char at[CORNER_TEMPLATES][64];
    int count;
} corner_names;

typedef struct corners {
    corner_template *templates;
    int template_count;
    corner_candidate *at; /* admitted, template by template */
    int count;
    /* names of all templates, also of those that refuse the layer; NULL: not
     * requested */
    corner_names *names;
    bool failed; /* out of memory */
} corners;

/*
 * Fills *out with a layer's candidates, of all templates or of `only`. The
 * caller releases it even after a failure.
 */
spc_status corners_list(corners *out, spc_ctx *ctx, const spc_conv *layer,
                        const char *only);
/*
 * Adds the names of all templates for such a layer, including those that refuse
 * it.
 */
spc_status corners_templates(corner_names *out, spc_ctx *ctx,
                             const spc_conv *layer);
/*
 * The same for the templates that are not in `seen`; a single template may have
 * thousands of candidates. If `names` is empty, it gets the names of all
 * templates for such a layer.
 */
spc_status corners_list_unseen(corners *out, spc_ctx *ctx,
                               const spc_conv *layer, corner_names *names,
                               const corner_names *seen);
void corners_release(corners *list);

/*
 * Appends the names of up to `wanted` candidates that were not taken before,
 * equally from all templates. The names live as long as the list.
 */
spc_status corners_draw(cli_list *out, corners *list, int wanted,
                        spc__random *random);
/*
 * Appends one candidate of each template that is not in `seen`, and adds the
 * template to it.
 */
spc_status corners_unseen(cli_list *out, corners *list, corner_names *seen,
                          spc__random *random);
/* All defaults, all corners, and all that differ from a default in one
 * parameter. */
spc_status corners_all(cli_list *out, corners *list);

#endif
