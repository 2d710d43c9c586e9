/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - writing an spc_error where the facts are known. */
#ifndef SPC_BASE_ERROR_H
#define SPC_BASE_ERROR_H

#include "spc_status.h"
#include <stdarg.h>

/*
 * Records `status` and the formatted sentence in *error (NULL is fine) and
 * returns `status`, so that a failure is one line: return spc__fail(...).
 */
spc_status spc__fail(spc_error *error, spc_status status, const char *format,
                     ...) SPC_PRINTF(3, 4);

/* As spc__fail, but puts the new words before the text already recorded:
 * "cannot tune 'os_mma': " + what the inner function said. */
spc_status spc__fail_prefix(spc_error *error, const char *format, ...)
    SPC_PRINTF(2, 3);

/* The common case of a failed allocation of `bytes`. */
spc_status spc__fail_memory(spc_error *error, size_t bytes);

/*
 * The first call of a public function: checks that its arguments are not NULL.
 * Names and pointers in turn, ended by NULL:
 * spc__need(error, __func__, "ctx", ctx, "out", out, NULL). Returns SPC_EINVAL,
 * naming the first that is NULL; or SPC_OK, and clears *error, so that a call
 * that succeeds does not leave the sentence of an earlier one.
 */
#if defined(__GNUC__)
__attribute__((__sentinel__))
#endif
spc_status
spc__need(spc_error *error, const char *function, ...);

void spc__error_clear(spc_error *error);

#endif
