/* SPDX-License-Identifier: Apache-2.0 */
/* printable.h - text of anybody's files, before it reaches a terminal. */
#ifndef SPC_BASE_PRINTABLE_H
#define SPC_BASE_PRINTABLE_H

/* Sentences and tables repeat words of files, which may be a stranger's, and a
 * terminal obeys what is no letter: that becomes '?'. Lines may have ends. */
static inline void spc__make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if (((unsigned char)*text < ' ' && *text != '\n' && *text != '\t') ||
            *text == 0x7f)
            *text = '?';
}

#endif
