/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv.h - layers inside the library: their names and their attrs.
 *
 * Public part: spc_conv in spc.h. conv_text.c reads a layer's text, conv_format.c
 * writes it.
 */
#ifndef SPC_RUNTIME_CONV_H
#define SPC_RUNTIME_CONV_H

#include "base/attrs.h"
#include "spc.h"

/* Any layer in use has far fewer; more are a mistake, and products of sizes
 * below it stay within 64 bits. */
enum { SPC__CHANNELS_MOST = 65536 };

/* By spc_operator and spc_rule; both end with NULL. */
extern const char *const spc__operator_names[];
extern const char *const spc__rule_names[];

/* A layer as attrs, in canonical order: op, cin, cout, groups (unless 1), kx,
 * ky, kz, dx, dy, dz, what the rule has besides (rule, sx.., px.., ox.., hx..),
 * dtype, bias, deterministic, and for the templates the derived `offsets` and
 * `centre`: the offset whose input is the output row itself, -1 where there is
 * none. */
void spc__conv_attrs(spc__attrs *out, const spc_conv *conv);

/* The same without what is derived: the words that tell one layer from another. */
void spc__conv_layer(spc__attrs *out, const spc_conv *conv);

/* The layer that such attrs describe (`offsets` and `centre` are not needed);
 * false if they describe none. */
bool spc__conv_from_attrs(spc_conv *out, const spc__attrs *attrs);

int spc__conv_offsets(const spc_conv *conv); /* kernel volume */

/* The input and output channels of one group. */
int spc__conv_group_in(const spc_conv *conv);
int spc__conv_group_out(const spc_conv *conv);

/* Is its geometry read the other way: are outputs found where the formula has
 * inputs? */
bool spc__conv_is_inverse(const spc_conv *conv);

/* Does it run on maps of points, in which an output may see several inputs at
 * one offset? */
bool spc__conv_has_triplets(const spc_conv *conv);

/* Are the rows of the scene that stands for a layer its outputs? Else they are
 * its inputs, or both. */
bool spc__conv_ends_at_scene(const spc_conv *conv);

/* The rule of an operator that has only one; -1: its text says which. */
int spc__operator_only_rule(spc_operator op);

/* Has the operator this rule? */
spc_status spc__operator_check(const spc_conv *conv, spc_error *error);

/* For other values that have a geometry (conv_text.c): sets what the word
 * `name` of a layer means, which is one of its geometry's; writes
 * ",rule=floor,k=2..." and nothing for SPC_RULE_SUBM's rule. */
spc_status spc__geometry_word(spc_geometry *out, const char *name,
                              const char *value, spc_error *error);
int spc__geometry_format(char *out, size_t bytes, const spc_geometry *geometry);

/* "unknown WHAT 'WORD': did you mean ...?"; `names` ends with NULL. */
spc_status spc__fail_unknown(spc_error *error, const char *what,
                             const char *word, const char *const *names);

#endif
