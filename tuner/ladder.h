/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder.h - what makes a database serve scenes of any extent: the code of all
 * kernels that sets and maps of a layer can come to need on a target, keys of
 * both widths included. What the scenes of a run happen to need is part of it.
 */
#ifndef SPC_TUNER_LADDER_H
#define SPC_TUNER_LADDER_H

#include "tuner/request.h"

typedef struct spc__ladder spc__ladder;

/* *out is NULL where no database wants code. */
spc_status spc__ladder_begin(spc__ladder **out, const spc__request *request,
                             spc__library *library, const spc__attrs *target);

/* Begins to compile in the background what the database lacks for narrow keys,
 * and, with threads enough, for wide ones; what is stored already costs next to
 * nothing. With `apart` the kernels of row orders that have their own
 * (spc__row_order_is_apart) are among them: who does not know yet whether they
 * are asked for calls again when he does. NULL is fine. */
spc_status spc__ladder_climb(spc__ladder *ladder, bool apart);

/* Waits for the kernels of narrow keys, which most scenes need, stores them,
 * and begins the others, if that was not done; `end` waits for all. On the
 * thread that began; NULL is fine. Kernels that do not compile are logged: they
 * keep nobody from using the others. SPC_EDB: the database does not take the
 * code; SPC_EINTERRUPTED. */
spc_status spc__ladder_await(spc__ladder *ladder);
spc_status spc__ladder_end(spc__ladder *ladder);

/* Gives up what is not begun; NULL is fine. */
void spc__ladder_free(spc__ladder *ladder);

#endif
