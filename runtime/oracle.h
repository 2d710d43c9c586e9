/* oracle.h - how far a kernel may be from the oracle. */
#ifndef SPC_RUNTIME_ORACLE_H
#define SPC_RUNTIME_ORACLE_H

#include "spc.h"

/*
 * The largest error that rounding alone can explain in one output of `conv`:
 * `reference` and `magnitude` are the oracle's, for inputs and weights as
 * they are stored; `terms` is the number of products in the longest sum
 * (pairs of the output times cin). See oracle.c for the derivation. A kernel
 * is right if |result - reference| is at most this everywhere.
 */
double spc__tolerance(const spc_conv *conv, double reference, double magnitude,
                      int64_t terms);

#endif
