/* SPDX-License-Identifier: Apache-2.0 */
/* public_headers.h - finds the headers in include/spc. */
#ifndef SPC_TESTS_PUBLIC_HEADERS_H
#define SPC_TESTS_PUBLIC_HEADERS_H

#include "harness/suite.h"

#include <glob.h>

/* The paths of all headers in include/spc. The caller calls globfree(). */
static inline void find_headers(glob_t *out)
{
    char pattern[4400];

    snprintf(pattern, sizeof(pattern), "%s/../include/spc/*.h", SPC_TEST_DATA);
    ck_assert_int_eq(glob(pattern, 0, NULL, out), 0);
    ck_assert_uint_gt(out->gl_pathc, 10);
}

#endif
