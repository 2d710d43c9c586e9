/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - the width of the terminal. */
#ifndef SPC_CMD_TERMINAL_H
#define SPC_CMD_TERMINAL_H

#include <stdio.h>

/*
 * Columns of the terminal that `to` writes to: $COLUMNS, or the terminal's own
 * value, or 80. 0: `to` is no terminal.
 */
int terminal_width(FILE *to);

#endif
