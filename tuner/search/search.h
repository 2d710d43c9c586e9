/* SPDX-License-Identifier: Apache-2.0 */
/* search.h - how often which candidate is measured, until the winner stands. */
#ifndef SPC_TUNER_SEARCH_H
#define SPC_TUNER_SEARCH_H

#include "tuner/pipeline.h"

/* Who wins is decided by what is timed then (choice.h), also after a failure.
 * Without anybody timed: how the first candidate failed. */
spc_status spc__search(spc__pipeline *pipeline);

#endif
