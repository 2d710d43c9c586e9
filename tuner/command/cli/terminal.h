/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - the width of the terminal. */
#ifndef SPC_CMD_TERMINAL_H
#define SPC_CMD_TERMINAL_H

#include <stdio.h>

/*
 * Returns the number of columns of the terminal that `to` writes to: $COLUMNS,
 * else the terminal's own value, else 80. Returns 0 if `to` is not a terminal.
 */
int terminal_width(FILE *to);

#endif
