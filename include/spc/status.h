/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/status.h - the status codes of libspc and the error record that carries
 * the sentence for a human.
 *
 * Part of the public interface: every other header includes it.
 */
#ifndef SPC_STATUS_H
#define SPC_STATUS_H

#include <stddef.h>

#if defined(__GNUC__)
#define SPC_API __attribute__((visibility("default")))
#define SPC_PRINTF(text, first)                                                \
    __attribute__((__format__(__printf__, text, first)))
#else
#define SPC_API
#define SPC_PRINTF(text, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One list feeds the enum, the names and the texts. A program acts on the
 * code; a human reads spc_error.text. The exit status of the spctune command
 * is the third column.
 */
#define SPC_STATUS_MAP(X)                                                      \
    X(SPC_OK, 0, 0, "success")                                                 \
    X(SPC_EINVAL, -1, 2, "invalid argument")                                   \
    X(SPC_ENOMEM, -2, 3, "out of memory")                                      \
    X(SPC_EIO, -3, 4, "input or output failed")                                \
    X(SPC_EFORMAT, -4, 5, "malformed data")                                    \
    X(SPC_ENOTFOUND, -5, 6, "not found")                                       \
    X(SPC_EUNSUPPORTED, -6, 7, "not supported")                                \
    X(SPC_ETEMPLATE, -7, 8, "template error")                                  \
    X(SPC_ECOMPILE, -8, 9, "compilation failed")                               \
    X(SPC_EDEVICE, -9, 10, "device error")                                     \
    X(SPC_ENODEVICE, -10, 11, "no such device")                                \
    X(SPC_EDB, -11, 12, "database error")                                      \
    X(SPC_EDBVERSION, -12, 13, "database has another schema")                  \
    X(SPC_ERANGE, -13, 14, "numbers or coordinates out of range")              \
    X(SPC_EDUPLICATE, -14, 15, "duplicate coordinates")                        \
    X(SPC_ECAPACITY, -15, 16, "capacity exceeded")                             \
    X(SPC_EWRONG, -16, 17, "result differs from the oracle")                   \
    X(SPC_ETIMEOUT, -17, 18, "time limit exceeded")                            \
    X(SPC_ESTATE, -18, 19, "call out of order")                                \
    X(SPC_EINTERRUPTED, -19, 130, "interrupted")                               \
    X(SPC_EINTERNAL, -20, 20, "internal error")

typedef enum spc_status {
#define X(name, value, exit_code, text) name = value,
    SPC_STATUS_MAP(X)
#undef X
} spc_status;

/* A failure in words. `text` is one sentence, always terminated. */
typedef struct spc_error {
    spc_status status;
    char text[1024];
} spc_error;

/* The constant's name ("SPC_EINVAL") and its meaning; never NULL. */
SPC_API const char *spc_status_name(spc_status status);
SPC_API const char *spc_status_text(spc_status status);

/* The exit status with which the spctune command reports `status`. */
SPC_API int spc_status_exit_code(spc_status status);

#ifdef __cplusplus
}
#endif
#endif
