/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.h - a flag by which somebody else ends long work early. */
#ifndef SPC_BASE_CANCEL_H
#define SPC_BASE_CANCEL_H

#include "base/error.h"
#include <stdbool.h>

/* Is it set? NULL: nobody can. Any thread, or a signal handler, may set it. */
static inline bool spc__cancelled(const volatile int *cancel)
{
    return cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0;
}

static inline spc_status spc__interrupted(spc_error *error)
{
    return spc__fail(error, SPC_EINTERRUPTED, "interrupted");
}

#endif
