/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epilogue.h - what a layer does to its sums, and how its tensors lie in
 * memory: checked, as attrs, and as words. Part of conv.c and conv_text.c.
 */
#ifndef SPC_RUNTIME_EPILOGUE_H
#define SPC_RUNTIME_EPILOGUE_H

#include "base/attrs.h"
#include "spc.h"

enum { SPC__PITCH_MOST = 1 << 20 };

extern const char *const spc__activation_names[]; /* by spc_activation; NULL */

/* The type of the outputs in memory, and what slope of 0 stands for. */
spc_dtype spc__conv_out(const spc_conv *conv);
float spc__conv_slope(const spc_conv *conv);

/* A slope of leaky or elu, 0 for the activation's own: SPC_EINVAL out of 0 to 16. */
spc_status spc__slope_check(float slope, spc_error *error);

/* Does it do more than add a bias? */
bool spc__has_epilogue(const spc_conv *conv);

/* Are inputs (outputs and residual) whole numbers, which have a scale? */
bool spc__conv_in_is_whole(const spc_conv *conv);
bool spc__conv_out_is_whole(const spc_conv *conv);

/* Has the layer a bias that is added before all else? */
bool spc__bias_is_in_sum(const spc_conv *conv);

spc_status spc__epilogue_check(const spc_conv *conv, spc_error *error);

/* The attrs scale, act, slope, add, out, in_pitch, out_pitch, add_pitch; each
 * is left out at its default, so that keys of layers without it are as they
 * were. And back. */
void spc__epilogue_attrs(spc__attrs *out, const spc_conv *conv);
bool spc__epilogue_from_attrs(spc_conv *out, const spc__attrs *attrs);

/* Is it one of those attrs in which layers that stand in for each other may
 * differ? The types must be the same. */
bool spc__epilogue_may_differ(const char *attr);

/* The value of the word `epilogue`, and of slope and out. */
spc_status spc__epilogue_read(spc_conv *conv, const char *value,
                              spc_error *error);
spc_status spc__slope_read(spc_conv *conv, const char *value, spc_error *error);
spc_status spc__out_read(spc_conv *conv, const char *value, spc_error *error);

/* ",epilogue=scale+relu,out=f32" and so on, "" where all is default. */
void spc__epilogue_format(char *out, size_t bytes, const spc_conv *conv);

#endif
