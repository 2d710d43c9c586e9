/* SPDX-License-Identifier: Apache-2.0 */
/* earlier.h - code files left by an earlier pack of the same name. */
#ifndef SPC_CACHE_EARLIER_H
#define SPC_CACHE_EARLIER_H

#include "cache/pack/pack_report.h"
#include "spc/status.h"

typedef struct spc__earlier {
    const char *manifest; /* the name of the pack's manifest */
    /* targets with code in the pack: "\nsm_90a\nsm_100a\n" */
    const char *targets;
    bool whole; /* the pack itself contains the code */
} spc__earlier;

/* Removes the code files next to the pack at `path` that belong to an earlier
 * pack of its name. report->removed counts them. report->left names a file that
 * would be read with the pack but is not known as ours, and stays. */
spc_status spc__pack_remove_earlier(const spc__earlier *of, const char *path,
                                    spc__pack_report *report, spc_error *error);

#endif
