/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_text.h - networks as lines of an export:
 *
 *     network NAME PARTS BYTES DIGEST UNIX_SECONDS VERSION SOURCE GRAPH
 *     part BYTES_OF_IT
 *     ...
 *
 * The parts follow their network, in order. VERSION, SOURCE, GRAPH and the
 * content of parts are base64, or "-" if empty. The lines are not trusted: if
 * the digest of the parts is not that of the network, all of it is refused.
 */
#ifndef SPC_CACHE_NETWORK_TEXT_H
#define SPC_CACHE_NETWORK_TEXT_H

#include "cache/network/network.h"

/* Writes every intact network of a file. *damaged counts the others. */
spc_status spc__networks_write(spc__layer *layer,
                               spc_status (*write)(const char *text,
                                                   size_t bytes, void *payload),
                               void *payload, int64_t *damaged,
                               spc_error *error);

/*
 * Reads the network whose first line begins at `text`, and takes it into a
 * writable file, within its transaction. *after is the end of its last line,
 * `lines` their number. If it is not accepted, because it is invalid or not
 * above the existing one, *why has the reason. `name` is its name, or the part
 * that was read.
 */
spc_status spc__network_read_lines(spc__fate *fate, spc_error *why,
                                   char name[64], const char **after,
                                   int64_t *lines, spc__layer *to, bool trusts,
                                   const char *text, const char *end,
                                   spc_error *error);

#endif
