/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h - measures candidates, each as often as needed, until there is a
 * winner.
 */
#ifndef SPC_TUNER_SEARCH_H
#define SPC_TUNER_SEARCH_H

#include "tuner/pipeline.h"

/*
 * spc__choose picks the winner from the timed candidates afterwards (choice.h),
 * even after a failure. If no candidate was timed, returns the failure of the
 * first.
 */
spc_status spc__search(spc__pipeline *pipeline);

#endif
