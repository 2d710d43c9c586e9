/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - the one log callback. */
#include "base/log.h"

#include "base/printable.h"
#include <stdarg.h>
#include <stdio.h>

void spc__log_printf(const spc__log *log, spc_log_level level,
                     const char *format, ...)
{
    if (log == NULL || log->write == NULL)
        return;

    /* On the stack, so that a log line can be written when memory ran out. */
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    spc__make_printable(text);
    va_end(args);
    log->write((int)level, text, log->payload);
}
