/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - spctune net: what its files share. */
#ifndef SPC_CMD_NET_H
#define SPC_CMD_NET_H

#include "command/network/network.h"

/* Times a stored network from nothing to its first result, and prints where
 * that goes (net_first.c). */
spc_status net_first(cli *self, const network_args *args);

#endif
