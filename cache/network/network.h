/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - networks that go from file to file. */
#ifndef SPC_CACHE_NETWORK_H
#define SPC_CACHE_NETWORK_H

#include "cache/cache_internal.h"
#include "cache/exchange/exchange.h"

/*
 * Takes the networks of another file into one that is written to, within its
 * transaction. Of two of one name the newer stays; of two of one moment that
 * with the greater digest: so it does not matter in which order files are
 * joined. Only a file that is trusted may replace a network that is there: its
 * date is its own word. Calls each(fate, name, reason) for every one; what is
 * damaged or set aside there is rejected.
 */
spc_status
spc__networks_merge(spc__layer *to, spc__layer *from, bool trusts,
                    spc_status (*each)(spc__fate fate, const char *name,
                                       const char *reason, void *payload),
                    void *payload, spc_error *error);

/* Takes a network from anywhere, by the same rules; *reason says why it is
 * not taken, or "". The parts are read only if it is accepted. */
spc_status spc__network_offer(spc__fate *fate, const char **reason,
                              spc__layer *to, const spc__network *network,
                              bool trusts, const spc__network_source *source,
                              spc_error *error);

/* All networks of a file; the one of a name, read; and is that sound? */
spc_status spc__networks_each(spc__layer *layer,
                              spc_status (*each)(const spc__network *at,
                                                 void *payload),
                              void *payload, spc_error *error);
spc_status spc__network_get(spc__layer *layer, const char *name,
                            const spc__network_reader *reader,
                            spc_error *error);
spc_status spc__network_check(spc__layer *layer, const char *name,
                              spc_error *error);

/* Adds a line for each network and each part of the file, which will be called
 * `name`, to a manifest. */
spc_status spc__networks_list(spc__buf *out, spc__layer *layer,
                              const char *name, spc_error *error);

#endif
