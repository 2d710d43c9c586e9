/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_form.h - the form of compiled code in a file: plain, or compressed by
 * zstd. The first bytes distinguish them, since no loadable code starts like
 * zstd data.
 */
#ifndef SPC_CACHE_CODE_FORM_H
#define SPC_CACHE_CODE_FORM_H

#include "spc/status.h"
#include <stdbool.h>
#include <stddef.h>

/* True if this was built with zstd. */
bool spc__code_can_pack(void);

bool spc__code_is_packed(const void *code, size_t bytes);

/* The caller owns *out (free()). Plain code is copied. Returns SPC_EDB if the
 * code is damaged or needs zstd and this build lacks it, or SPC_ENOMEM. */
spc_status spc__code_unpack(void **out, size_t *out_bytes, const void *code,
                            size_t bytes, spc_error *error);

/* Compresses code. Returns SPC_EUNSUPPORTED without zstd. */
spc_status spc__code_pack(void **out, size_t *out_bytes, const void *code,
                          size_t bytes, spc_error *error);

#endif
