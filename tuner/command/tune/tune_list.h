/* SPDX-License-Identifier: Apache-2.0 */
/* tune_list.h - tunes a list of layers and networks. */
#ifndef SPC_CMD_TUNE_LIST_H
#define SPC_CMD_TUNE_LIST_H

#include "command/tune/tuning.h"

/* spctune tune */
spc_status tune_list_run(cli *self, tuning_args *args);

#endif
