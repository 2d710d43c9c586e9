/*
 * ladder.h - what makes a database serve scenes of any extent.
 */
#ifndef SPC_TUNER_LADDER_H
#define SPC_TUNER_LADDER_H

#include "request.h"

/*
 * Stores the code of all kernels that sets and maps of the layer can come to
 * need on the target, keys of both widths included: what the scenes of a run
 * happened to need is only part of it. What is stored already costs next to
 * nothing. Kernels that do not compile are logged: they keep nobody from using
 * the others. With `apart` those of row orders that have kernels of their own
 * (spc__row_order_is_apart) are among them. SPC_EDB: the database does not take
 * the code; SPC_EINTERRUPTED.
 */
spc_status spc__ladder_store(const spc__request *request, spc__library *library,
                             const spc__attrs *target, bool apart);

#endif
