/* SPDX-License-Identifier: Apache-2.0 */
/* pack_report.h - the content of a pack, and how an earlier one differs. */
#ifndef SPC_CACHE_PACK_REPORT_H
#define SPC_CACHE_PACK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct spc__pack_report {
    int64_t choices, trials, facts, code;
    int files;          /* databases, including the first */
    int64_t bytes;      /* size of all of them */
    int64_t code_bytes; /* size of the code before compression */
    bool compressed;
    int removed;     /* removed code files of an earlier pack of this name */
    char left[1024]; /* a foreign file that will be read with the pack, or "" */
} spc__pack_report;

#endif
