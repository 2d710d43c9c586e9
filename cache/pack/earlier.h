/* SPDX-License-Identifier: Apache-2.0 */
/* earlier.h - code that an earlier pack of the same name left. */
#ifndef SPC_CACHE_EARLIER_H
#define SPC_CACHE_EARLIER_H

#include "cache/pack/pack.h"

typedef struct spc__earlier {
    const char *manifest; /* the name of that of the pack */
    const char *targets;  /* that it has code for: "\nsm_90a\nsm_100a\n" */
    bool whole;           /* it has that code itself */
} spc__earlier;

/* Removes the code files beside the pack at `path` that are not its own but of
 * an earlier one of its name; report->removed counts them. One that would be
 * read with the pack and is not known as ours stays: report->left. */
spc_status spc__pack_remove_earlier(const spc__earlier *of, const char *path,
                                    spc__pack_report *report, spc_error *error);

#endif
