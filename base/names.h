/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - tables of the names of enum values, each ended by NULL. */
#ifndef SPC_BASE_NAMES_H
#define SPC_BASE_NAMES_H

/* spc__name_index returns the index of a word, or -1. The inverse returns "?"
 * for a value outside the table, since a caller may have set the enum to any
 * number. */
int spc__name_index(const char *const *names, const char *word);
const char *spc__name_at(const char *const *names, unsigned index);

#endif
