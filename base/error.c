/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - the names of statuses, and sentences for humans. */
#include "base/error.h"

#include "base/printable.h"
#include <stdio.h>
#include <string.h>

const char *spc_status_name(spc_status status)
{
    switch (status) {
#define X(name, value, exit_code, text)                                        \
    case name:                                                                 \
        return #name;
        SPC_STATUS_MAP(X)
#undef X
    }
    return "SPC_E?";
}

const char *spc_status_text(spc_status status)
{
    switch (status) {
#define X(name, value, exit_code, text)                                        \
    case name:                                                                 \
        return text;
        SPC_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

int spc_status_exit_code(spc_status status)
{
    switch (status) {
#define X(name, value, exit_code, text)                                        \
    case name:                                                                 \
        return exit_code;
        SPC_STATUS_MAP(X)
#undef X
    }
    return 1;
}

spc_status spc__fail(spc_error *error, spc_status status, const char *format,
                     ...)
{
    if (error == NULL)
        return status;

    /* The arguments may point into error->text, so format into a copy first. */
    char text[sizeof(error->text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    spc__make_printable(text);
    memcpy(error->text, text, sizeof(text));
    error->status = status;
    return status;
}

spc_status spc__fail_prefix(spc_error *error, const char *format, ...)
{
    if (error == NULL)
        return SPC_EINTERNAL;

    /* Builds the text in a copy, as the old text is part of the new one. */
    char text[sizeof(error->text)];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof(text))
        snprintf(text + length, sizeof(text) - (size_t)length, "%s",
                 error->text);
    spc__make_printable(text);
    memcpy(error->text, text, sizeof(text));
    return error->status;
}

spc_status spc__fail_memory(spc_error *error, size_t bytes)
{
    return spc__fail(error, SPC_ENOMEM, "cannot allocate %zu bytes", bytes);
}

spc_status spc__need(spc_error *error, const char *function, ...)
{
    spc_status status = SPC_OK;
    const char *name;
    va_list args;

    va_start(args, function);
    while (status == SPC_OK && (name = va_arg(args, const char *)) != NULL)
        if (va_arg(args, const void *) == NULL)
            status = spc__fail(error, SPC_EINVAL, "%s: `%s` must not be NULL",
                               function, name);
    va_end(args);
    if (status == SPC_OK)
        spc__error_clear(error);
    return status;
}

void spc__error_clear(spc_error *error)
{
    if (error == NULL)
        return;
    error->status = SPC_OK;
    error->text[0] = '\0';
}
