/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder.h - makes a database serve scenes of any extent: compiles all kernels
 * that sets and maps of a layer can need on a target, with keys of both widths.
 * They include the kernels that the scenes of a run need.
 */
#ifndef SPC_TUNER_LADDER_H
#define SPC_TUNER_LADDER_H

#include "tuner/request.h"

typedef struct spc__ladder spc__ladder;

/* *out is NULL if no database stores code. */
spc_status spc__ladder_begin(spc__ladder **out, const spc__request *request,
                             spc__library *library, const spc__attrs *target);

/*
 * Starts compiling in the background the kernels that the database lacks for
 * narrow keys, and, with enough threads, the kernels for wide keys. Stored
 * kernels cost almost nothing. `apart` includes the kernels of row orders that
 * have their own (spc__row_order_is_apart); a caller that does not know yet may
 * call again. NULL is fine.
 */
spc_status spc__ladder_climb(spc__ladder *ladder, bool apart);

/*
 * Waits for the kernels of narrow keys, which most scenes need, stores them,
 * and starts the wide kernels if necessary; `end` waits for all kernels. Call
 * it on the thread that began; NULL is fine. Kernels that do not compile are
 * logged: the others remain usable. SPC_EDB: the database refused the code;
 * SPC_EINTERRUPTED.
 */
spc_status spc__ladder_await(spc__ladder *ladder);
spc_status spc__ladder_end(spc__ladder *ladder);

/* Cancels kernels that have not started; NULL is fine. */
void spc__ladder_free(spc__ladder *ladder);

#endif
