/* SPDX-License-Identifier: Apache-2.0 */
/* printable.h - cleans text from untrusted files before it is printed. */
#ifndef SPC_BASE_PRINTABLE_H
#define SPC_BASE_PRINTABLE_H

/* Replaces control characters by '?', except line ends. Messages and tables
 * repeat words of files from unknown sources, and a terminal would obey control
 * characters. */
static inline void spc__make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if (((unsigned char)*text < ' ' && *text != '\n' && *text != '\t') ||
            *text == 0x7f)
            *text = '?';
}

#endif
