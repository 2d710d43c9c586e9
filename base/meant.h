/* SPDX-License-Identifier: Apache-2.0 */
/* meant.h - suggests the known word for a misspelt one. */
#ifndef SPC_BASE_MEANT_H
#define SPC_BASE_MEANT_H

#include <stddef.h>

/* Returns how many letters must be inserted, deleted or replaced to turn one
 * word into the other. Only the beginning of a long `known` counts. */
int spc__edits(const char *word, const char *known);

/* Returns the known word that is at most two edits away and shares a letter
 * with `word`, or NULL. `known` ends with NULL. */
const char *spc__meant(const char *word, const char *const *known);

/* Writes "unknown effort 'fast' (quick, normal, exhaustive)" for `what` =
 * effort. If `near` is not NULL, adds "did you mean" before the list. A long
 * list is cut to the size of `out`. Returns `out`. */
char *spc__unknown(char *out, size_t bytes, const char *what, const char *word,
                   const char *near, const char *const *known);

#endif
