/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epilogue.h - the operations of a layer on its sums, and the layout of its
 * tensors in memory: checks, attrs and words. Part of conv.c and conv_text.c.
 */
#ifndef SPC_RUNTIME_EPILOGUE_H
#define SPC_RUNTIME_EPILOGUE_H

#include "base/attrs.h"
#include "base/text/scan.h"
#include "spc.h"

enum { SPC__PITCH_MOST = 1 << 20 };

/* By spc_activation and by spc_out_type. Both end with NULL. */
extern const char *const spc__activation_names[];
extern const char *const spc__out_names[];

/* The type of the outputs in memory, and the actual slope if it is given as
 * 0. */
spc_dtype spc__conv_out(const spc_conv *conv);
float spc__conv_slope(const spc_conv *conv);

/* Checks a slope of leaky or elu: 0 selects the activation's own. Returns
 * SPC_EINVAL outside of 0 to 16. */
spc_status spc__slope_check(float slope, spc_error *error);

/* True if the epilogue does more than add a bias. */
bool spc__has_epilogue(const spc_conv *conv);

/* True if the inputs (or the outputs and the residual) are integers with a
 * scale. */
bool spc__conv_in_is_whole(const spc_conv *conv);
bool spc__conv_out_is_whole(const spc_conv *conv);

/* True if the layer adds its bias before all other operations. */
bool spc__bias_is_in_sum(const spc_conv *conv);

spc_status spc__epilogue_check(const spc_conv *conv, spc_error *error);

/* Writes and reads the attrs scale, act, slope, add, out, in_pitch, out_pitch
 * and add_pitch. An attr with its default value is left out, so layers without
 * it keep their keys. */
void spc__epilogue_attrs(spc__attrs *out, const spc_conv *conv);
bool spc__epilogue_from_attrs(spc_conv *out, const spc__attrs *attrs);

/* True if layers that differ in this attr may replace each other in a look-up.
 * The types must be equal. */
bool spc__epilogue_may_differ(const char *attr);

/* Reads the value of the word `epilogue` into an spc_conv. */
spc_status spc__epilogue_read(void *conv, spc__span value, spc_error *error);

/* Writes ",epilogue=scale+relu,out=f32" and so on, or "" if all is default. */
void spc__epilogue_format(char *out, size_t bytes, const spc_conv *conv);

#endif
