/* SPDX-License-Identifier: Apache-2.0 */
/* meant.h - which of the known words somebody meant. */
#ifndef SPC_BASE_MEANT_H
#define SPC_BASE_MEANT_H

#include <stddef.h>

/* How many letters must be put in, left out or exchanged to make one word of
 * the other; of long words only the beginning of `known` counts. */
int spc__edits(const char *word, const char *known);

/* The known word that is at most two edits away, and has a letter in common
 * that stays; NULL: none is. `known` ends with NULL. */
const char *spc__meant(const char *word, const char *const *known);

/* Writes "unknown effort 'fast' (quick, normal, exhaustive)" for `what` effort,
 * and asks "did you mean" before the list if `near` is not NULL. `out` may be
 * too small for a long list. Returns `out`. */
char *spc__unknown(char *out, size_t bytes, const char *what, const char *word,
                   const char *near, const char *const *known);

#endif
