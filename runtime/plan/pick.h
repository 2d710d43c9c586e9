/* SPDX-License-Identifier: Apache-2.0 */
/* pick.h - the kernel that a lookup has chosen. */
#ifndef SPC_PLAN_PICK_H
#define SPC_PLAN_PICK_H

#include "context/ctx.h"

typedef struct spc__pick {
    spc__code code;
    spc_match origin;
    spc_level level;
    bool is_shipped; /* from a database that is installed with the library */
    char template_name[32];
    char config[256];
    char reason[512]; /* one sentence: which record, how far away, and why */
} spc__pick;

#endif
