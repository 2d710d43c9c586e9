/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.h - a flag that another thread sets to stop long work early. */
#ifndef SPC_BASE_CANCEL_H
#define SPC_BASE_CANCEL_H

#include "base/error.h"
#include <stdbool.h>

/* True if the flag is set. NULL means that the work cannot be cancelled. Any
 * thread or signal handler may set the flag. */
static inline bool spc__cancelled(const volatile int *cancel)
{
    return cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0;
}

static inline spc_status spc__interrupted(spc_error *error)
{
    return spc__fail(error, SPC_EINTERRUPTED, "interrupted");
}

#endif
