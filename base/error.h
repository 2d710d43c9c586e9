/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - writing an spc_error where the facts are known. */
#ifndef SPC_BASE_ERROR_H
#define SPC_BASE_ERROR_H

#include "spc/status.h"
#include <stdarg.h>

/*
 * Records `status` and the formatted sentence in *error (NULL is fine) and
 * returns `status`, so that a failure is one line: return spc__fail(...).
 */
spc_status spc__fail(spc_error *error, spc_status status, const char *format,
                     ...) SPC_PRINTF(3, 4);

/* Like spc__fail, but puts the new words before the text already recorded:
 * "cannot tune 'os_mma': " + the inner function's sentence. */
spc_status spc__fail_prefix(spc_error *error, const char *format, ...)
    SPC_PRINTF(2, 3);

/* Reports a failed allocation of `bytes`. */
spc_status spc__fail_memory(spc_error *error, size_t bytes);

/*
 * Checks that no argument of a public function is NULL. Every public function
 * calls it first, with pairs of name and pointer, ended by NULL:
 * spc__need(error, __func__, "ctx", ctx, "out", out, NULL). Returns SPC_EINVAL
 * and names the first argument that is NULL. Otherwise it clears *error and
 * returns SPC_OK, so that a successful call does not leave an earlier message.
 */
#if defined(__GNUC__)
__attribute__((__sentinel__))
#endif
spc_status
spc__need(spc_error *error, const char *function, ...);

void spc__error_clear(spc_error *error);

#endif
