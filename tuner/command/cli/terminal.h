/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - how wide the terminal is. */
#ifndef SPC_CMD_TERMINAL_H
#define SPC_CMD_TERMINAL_H

#include <stdio.h>

/* Columns of the terminal that `to` writes to: $COLUMNS, else what the terminal
 * says, else 80. 0: `to` is no terminal. */
int terminal_width(FILE *to);

#endif
