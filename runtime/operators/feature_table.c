/* SPDX-License-Identifier: Apache-2.0 */
/* feature_table.c - finds the row of an operator on features. */
#include "operators/feature_table.h"

static const spc__feature_row unknown;

#define ROW(op, name) [SPC_FEATURE_##op] = &spc__feature_row_##name,
static const spc__feature_row *const rows[] = {SPC__FEATURE_ROWS(ROW)};
#undef ROW

#define ROW(op, name) &spc__feature_row_##name,
static const spc__feature_row *const listed[] = {SPC__FEATURE_ROWS(ROW)};
#undef ROW

/* Each enumerator has exactly one row, so the two numbers are equal. */
_Static_assert(sizeof(rows) == sizeof(listed),
               "an operator has no row, or two");

const spc__feature_row *spc__feature_row_of(spc_feature_op op)
{
    return (unsigned)op < SPC__FEATURES ? rows[op] : &unknown;
}

const spc__feature_row *spc__feature_listed(int i)
{
    return listed[i];
}
