/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_form.h - compiled code as it lies in a file: plain, or compressed by
 * zstd, which shows in its first bytes. Nothing that a device loads begins so.
 */
#ifndef SPC_CACHE_CODE_FORM_H
#define SPC_CACHE_CODE_FORM_H

#include "spc_status.h"
#include <stdbool.h>
#include <stddef.h>

/* Was zstd there when this was built? */
bool spc__code_can_pack(void);

bool spc__code_is_packed(const void *code, size_t bytes);

/* *out is the caller's (free()). SPC_EDB: it is damaged, or zstd is needed and
 * not there; SPC_ENOMEM. Of plain code it is a copy. */
spc_status spc__code_unpack(void **out, size_t *out_bytes, const void *code,
                            size_t bytes, spc_error *error);

/* Compresses; SPC_EUNSUPPORTED without zstd. */
spc_status spc__code_pack(void **out, size_t *out_bytes, const void *code,
                          size_t bytes, spc_error *error);

#endif
