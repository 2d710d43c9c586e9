/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_size.h - decides if a record of a map of another size applies.
 */
#ifndef SPC_RUNTIME_OTHER_SIZE_H
#define SPC_RUNTIME_OTHER_SIZE_H

#include "cache/cache.h"
#include "context/ctx.h"

/*
 * For maps of few rows some templates split a tile among several blocks, and
 * their defaults choose how. Returns true if the record should not be used: the
 * default of its template splits for `rows` rows or for the record's rows, and
 * the two numbers differ by more than a factor of two. The fastest
 * configuration there is then worse than the default here. Returns false if the
 * template is not available.
 */
bool spc__is_of_other_size(spc_ctx *ctx, const spc__attrs *problem,
                           const spc__choice *choice, int64_t rows);

#endif
