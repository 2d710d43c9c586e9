/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - the log callback. */
#include "base/log.h"

#include "base/printable.h"
#include <stdarg.h>
#include <stdio.h>

void spc__log_printf(const spc__log *log, spc_log_level level,
                     const char *format, ...)
{
    if (log == NULL || log->write == NULL)
        return;

    /* The text is on the stack, so that a line can be logged when memory ran
     * out. */
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    spc__make_printable(text);
    va_end(args);
    log->write((int)level, text, log->payload);
}
