/*
 * other_size.h - is a record of a map of another size a good word for this one?
 */
#ifndef SPC_RUNTIME_OTHER_SIZE_H
#define SPC_RUNTIME_OTHER_SIZE_H

#include "cache.h"
#include "ctx.h"

/*
 * Some templates divide the work among blocks by the number of tiles, and their
 * defaults say how. Where the default of the record's template is one on a map
 * of `rows` rows and another on the record's, what was the fastest there says
 * little here, and the default knows more. A template that cannot be asked has
 * no objection.
 */
bool spc__is_of_other_size(spc_ctx *ctx, const spc__attrs *problem,
                           const spc__choice *choice, int64_t rows);

#endif
