/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c - the width of the terminal. */
#include "command/cli/terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

int terminal_width(FILE *to)
{
    enum { LEAST = 20, MOST = 10000 };
    const char *text = getenv("COLUMNS");
    int columns = text != NULL ? atoi(text) : 0;
    struct winsize size;

    if (!isatty(fileno(to)))
        return 0;
    if (columns >= LEAST && columns <= MOST)
        return columns;
    if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col > LEAST ? size.ws_col : LEAST;
    return 80;
}
