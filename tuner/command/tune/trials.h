/* SPDX-License-Identifier: Apache-2.0 */
/* trials.h - collects and prints the candidates that the library reports. */
#ifndef SPC_CMD_TRIALS_H
#define SPC_CMD_TRIALS_H

#include "command/cli/output.h"
#include "command/cli/progress.h"

/* Collects the reports of spc_tune. */
typedef struct trials {
    spc_trial *at; /* strings are owned */
    int count;
    bool failed;
    const cli_list *wanted; /* names of candidates; NULL: all candidates of the
                             * effort */
    progress progress;
} trials;

void trials_init(trials *t, const cli *self);
void trials_release(trials *t);

/* Callbacks for spc_tune_options; the payload is a trials. */
void trials_collect(const spc_trial *trial, void *payload);
void trials_progress(const spc_progress *state, void *payload);
/* True if it is one of `wanted`. */
bool trials_want(const char *template_name, const char *config, void *payload);

bool trial_is_ok(const spc_trial *trial);
/* true if a constraint refused it */
bool trial_is_refused(const spc_trial *trial);

/* true if neither correct nor refused */
bool trial_is_failure(const spc_trial *trial);
/* True if it represents a whole template that a mistake has excluded. */
bool trial_is_template(const spc_trial *trial);
void trial_print_failure(const spc_trial *trial);

/*
 * Reports that candidates fail, as "`label`: 1 of 2 candidates `how`".
 * Returns SPC_ETEMPLATE if all failures are mistakes in templates, otherwise
 * `other`.
 */
spc_status trials_fail(const trials *t, spc_status other, int candidates,
                       const char *how, const char *label);

/*
 * Sorts finalists first, then other timed ones, each fastest first; then
 * untimed ones, then failures.
 */
void trials_sort(trials *t);

/* Prints a table of at most `most` rows (0: all), without refused ones. */
void trials_print(const trials *t, int most);
void trials_json(spc__json *json, const char *key, const trials *t);

#endif
