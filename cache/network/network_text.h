/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_text.h - networks as lines of an export:
 *
 *     network NAME PARTS BYTES DIGEST UNIX_SECONDS VERSION SOURCE GRAPH
 *     part BYTES_OF_IT
 *     ...
 *
 * The parts stand behind their network, in their order. VERSION, SOURCE, GRAPH
 * and what parts hold are base64, "-" where they are empty. Nothing that such
 * lines say is believed: the digest of the parts is that of the network, or all
 * of them are refused.
 */
#ifndef SPC_CACHE_NETWORK_TEXT_H
#define SPC_CACHE_NETWORK_TEXT_H

#include "cache/network/network.h"

/* Writes every sound network of a file; *damaged counts the others too. */
spc_status spc__networks_write(spc__layer *layer,
                               spc_status (*write)(const char *text,
                                                   size_t bytes, void *payload),
                               void *payload, int64_t *damaged,
                               spc_error *error);

/*
 * Reads the network whose first line begins at `text`, and takes it into a
 * file that is written to, within its transaction; *after is where its last
 * line ends, `lines` how many it has. Why it is not taken stands in *why, be it
 * no network or not above what is there. `name` is its name, as far as it was
 * read.
 */
spc_status spc__network_read_lines(spc__fate *fate, spc_error *why,
                                   char name[64], const char **after,
                                   int64_t *lines, spc__layer *to, bool trusts,
                                   const char *text, const char *end,
                                   spc_error *error);

#endif
