/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv_table.h - the table of convolutions: one row an operator. Operators
 * differ only in their words and maps; all have the same operands, passes and
 * kernels.
 */
#ifndef SPC_RUNTIME_CONV_TABLE_H
#define SPC_RUNTIME_CONV_TABLE_H

#include "spc.h"

typedef struct spc__conv_row {
    const char *word;          /* the first word of its text */
    unsigned rules;            /* allowed rules, one bit each */
    const char *rules_text;    /* names of these rules, for messages */
    bool inverse;              /* reads its geometry in the reverse direction */
    const char *example;       /* example text, for messages about a missing
                                  word */
    spc_operator_info info[2]; /* listings of the operator; the second may be
                                  empty */
} spc__conv_row;

enum { SPC__CONVS = SPC_POINTS + 1 };

/* The row of an operator. An unknown one is "?" with any rule. */
const spc__conv_row *spc__conv_row_of(spc_operator op);

#endif
