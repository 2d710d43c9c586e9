/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the log callback. The library itself prints nothing. */
#ifndef SPC_BASE_LOG_H
#define SPC_BASE_LOG_H

#include "spc/status.h"

typedef enum spc_log_level {
    SPC_LOG_DEBUG = 0,
    SPC_LOG_INFO = 1,
    SPC_LOG_WARNING = 2
} spc_log_level;

typedef void (*spc__log_fn)(int level, const char *text, void *payload);

typedef struct spc__log {
    spc__log_fn write; /* may be NULL; may be called from any thread */
    void *payload;
} spc__log;

void spc__log_printf(const spc__log *log, spc_log_level level,
                     const char *format, ...) SPC_PRINTF(3, 4);

#endif
