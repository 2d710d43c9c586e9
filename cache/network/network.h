/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - exchanges networks between files. */
#ifndef SPC_CACHE_NETWORK_H
#define SPC_CACHE_NETWORK_H

#include "cache/cache_internal.h"
#include "cache/exchange/fate.h"

/*
 * Merges the networks of another file into a writable one, within its
 * transaction. Of two networks of one name the newer stays; if their times are
 * equal, the one with the greater digest stays. The order of merges therefore
 * does not matter. Only a trusted file may replace an existing network, because
 * it chooses its own dates. Calls each(fate, name, reason) for every network.
 * Networks that are damaged or in quarantine are rejected.
 */
spc_status
spc__networks_merge(spc__layer *to, spc__layer *from, bool trusts,
                    spc_status (*each)(spc__fate fate, const char *name,
                                       const char *reason, void *payload),
                    void *payload, spc_error *error);

/* Offers a network from any source, under the same rules. *reason is why it is
 * not accepted, or "". The parts are read only if it is accepted. */
spc_status spc__network_offer(spc__fate *fate, const char **reason,
                              spc__layer *to, const spc__network *network,
                              bool trusts, const spc__network_source *source,
                              spc_error *error);

/* Lists all networks of a file, reads the one of a name, and checks whether it
 * is intact. */
spc_status spc__networks_each(spc__layer *layer,
                              spc_status (*each)(const spc__network *at,
                                                 void *payload),
                              void *payload, spc_error *error);
spc_status spc__network_get(spc__layer *layer, const char *name,
                            const spc__network_reader *reader,
                            spc_error *error);
spc_status spc__network_check(spc__layer *layer, const char *name,
                              spc_error *error);

/* Adds a line to a manifest for each network and each part of the file, which
 * will be called `name`. */
spc_status spc__networks_list(spc__buf *out, spc__layer *layer,
                              const char *name, spc_error *error);

#endif
