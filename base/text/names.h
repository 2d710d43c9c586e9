/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - tables of the names of enum values, each ended by NULL, and the
 * error for a word that is not in its table.
 */
#ifndef SPC_BASE_TEXT_NAMES_H
#define SPC_BASE_TEXT_NAMES_H

#include "base/text/scan.h"
#include "spc/status.h"

/* Returns the index of a word, or -1. */
int spc__name_index(const char *const *names, const char *word);
int spc__name_find(const char *const *names, spc__span word);

/* The inverse. Returns "?" for a value outside the table, since a caller may
 * have set the enum to any number. */
const char *spc__name_at(const char *const *names, unsigned index);

/* Returns how many letters must be inserted, deleted or replaced to turn one
 * word into the other. Only the beginning of a long `known` counts. */
int spc__edits(const char *word, const char *known);

/* Returns the known word that is at most two edits away and shares a letter
 * with `word`, or NULL. */
const char *spc__meant(const char *word, const char *const *names);

/* Writes "unknown effort 'fast' (quick, normal, exhaustive)" for `what` =
 * effort, with "did you mean" before the list if one of the names is similar,
 * or is what another program calls `word`. */
spc_status spc__fail_unknown(spc_error *error, const char *what, spc__span word,
                             const char *const *names);

#endif
