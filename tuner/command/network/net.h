/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - shared by the files of spctune net. */
#ifndef SPC_CMD_NET_H
#define SPC_CMD_NET_H

#include "command/network/network.h"

/*
 * Times a stored network from the start to its first result, and prints the
 * parts (net_first.c).
 */
spc_status net_first(cli *self, const network_args *args);

/*
 * Compiles and stores all kernels of a network for each target, such as
 * "sm_87", which need not be here (net_build.c).
 */
spc_status net_build(cli *self, const network_args *args,
                     const cli_list *targets);

#endif
