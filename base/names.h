/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - tables of words by the value of an enum, which end with NULL. */
#ifndef SPC_BASE_NAMES_H
#define SPC_BASE_NAMES_H

/* The index of a word, or -1; and back, "?" of an enum that a caller may have
 * filled with anything. */
int spc__name_index(const char *const *names, const char *word);
const char *spc__name_at(const char *const *names, unsigned index);

#endif
