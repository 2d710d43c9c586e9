/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cublaslt.h - settings of the double of cuBLASLt, and what it records. */
#ifndef SPC_TESTS_FAKE_CUBLASLT_H
#define SPC_TESTS_FAKE_CUBLASLT_H

#include <stdint.h>

typedef struct fake_cublaslt {
    int fails_to_start, fails_with; /* statuses to return; 0: success */
    int handles, products;
    /* the last product */
    int compute, type, result_type;
    int64_t rows, columns, depth;
    const void *matrix, *weights;
    void *result, *stream;
} fake_cublaslt;

/*
 * The double exports its functions and this object:
 *     extern fake_cublaslt the_fake_cublaslt;
 */

#endif
