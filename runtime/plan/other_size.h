/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_size.h - is a record of a map of another size a good word for this one?
 */
#ifndef SPC_RUNTIME_OTHER_SIZE_H
#define SPC_RUNTIME_OTHER_SIZE_H

#include "cache/cache.h"
#include "context/ctx.h"

/*
 * On maps of few rows some templates divide the work of a tile among blocks,
 * and their defaults say how. Where the default of the record's template does
 * so on a map of `rows` rows, or on the record's, and those are more than twice
 * as many or fewer than half, what was the fastest there says little here, and
 * the default knows more. A template that cannot be asked has no objection.
 */
bool spc__is_of_other_size(spc_ctx *ctx, const spc__attrs *problem,
                           const spc__choice *choice, int64_t rows);

#endif
