/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv.h - layers inside the library: their names and their attrs.
 *
 * The public part is spc_conv in spc/layer.h. conv_text.c parses the text of a
 * layer, conv_format.c writes it.
 */
#ifndef SPC_RUNTIME_CONV_H
#define SPC_RUNTIME_CONV_H

#include "base/attrs.h"
#include "operators/conv_shape.h"
#include "spc.h"

/* Real layers have far fewer channels, so more are treated as an error.
 * Products of sizes below this limit fit 64 bits. */
enum { SPC__CHANNELS_MOST = 65536 };

/* Names by spc_rule, with NULL at the end. */
extern const char *const spc__rule_names[];

/* Writes a layer as attrs in canonical order: op, cin, cout, groups (unless 1),
 * kx, ky, kz, dx, dy, dz, the attrs of the rule (rule, sx.., px.., ox.., hx..),
 * dtype, bias, deterministic. Adds the derived `offsets` and `centre` for the
 * templates. `centre` is the offset whose input is the output row itself, or
 * -1. */
void spc__conv_attrs(spc__attrs *out, const spc_conv *conv);

/* Writes the attrs without the derived ones. They identify the layer. */
void spc__conv_layer(spc__attrs *out, const spc_conv *conv);

/* Reads a layer from such attrs (`offsets` and `centre` are not needed).
 * Returns false if they do not describe a layer. */
bool spc__conv_from_attrs(spc_conv *out, const spc__attrs *attrs);

/* True if the geometry is read in reverse: outputs are at the positions that
 * the formula gives to inputs. */
bool spc__conv_is_inverse(const spc_conv *conv);

/* True if the layer runs on maps of points, in which an output may see several
 * inputs at one offset. */
bool spc__conv_has_triplets(const spc_conv *conv);

/* True if the rows of the layer's sample scene are its outputs. Otherwise they
 * are its inputs, or both. */
bool spc__conv_ends_at_scene(const spc_conv *conv);

/* Returns the operator of this word, or -1. */
int spc__operator_find(const char *word);

/* Returns the rule of an operator that has only one, or -1 if the text selects
 * it. */
int spc__operator_only_rule(spc_operator op);

/* Checks that the operator supports the rule. */
spc_status spc__operator_check(const spc_conv *conv, spc_error *error);

/* Writes ",rule=floor,k=2...", without the rule if it is SPC_RULE_SUBM. */
int spc__geometry_format(char *out, size_t bytes, const spc_geometry *geometry);

#endif
