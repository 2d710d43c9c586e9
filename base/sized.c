/* SPDX-License-Identifier: Apache-2.0 */
/* sized.c - completes structs of earlier versions with defaults. */
#include "base/sized.h"

#include "base/error.h"

#include <string.h>

/* The sizes of earlier versions: none yet, since 1.0 is the first version. */
static const size_t earlier[SPC__SIZED_COUNT][4] = {{0}};

#define X(type, init) static const type init_##type = init;
SPC__SIZED_MAP(X)
#undef X

const spc__sized spc__sized_types[SPC__SIZED_COUNT] = {
#define X(type, init)                                                          \
    {#type, sizeof(type), earlier[SPC__SIZED_##type], &init_##type},
    SPC__SIZED_MAP(X)
#undef X
};

/* True if a released version of the struct had this size. */
static bool is_earlier(const spc__sized *type, size_t bytes)
{
    const size_t *at = type->earlier;

    while (*at != 0 && *at != bytes)
        at++;
    return *at != 0;
}

/* "SPC_BUFFERS_INIT" for spc_buffers. */
static void write_macro(char out[64], const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < length; i++)
        out[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A')
                                                  : name[i];
    memcpy(out + length, "_INIT", sizeof("_INIT"));
}

spc_status spc__check_reserved(const char *type, const int *reserved,
                               size_t count, spc_error *error)
{
    char macro[64];

    for (size_t i = 0; i < count; i++)
        if (reserved[i] != 0) {
            write_macro(macro, type);
            return spc__fail(error, SPC_EINVAL,
                             "%s.reserved[%zu] is %d, and this library (%s) "
                             "knows 0: initialise the struct with %s",
                             type, i, reserved[i], SPC_VERSION_TEXT, macro);
        }
    return SPC_OK;
}

const void *spc__sized_whole(void *whole, const spc__sized *type,
                             const void *given, spc_error *error)
{
    char macro[64];
    size_t bytes;

    memcpy(&bytes, given, sizeof(bytes)); /* the first field */
    if (bytes == type->bytes)
        return given;
    if (bytes != 0 && is_earlier(type, bytes)) {
        memcpy(whole, type->init, type->bytes);
        memcpy((char *)whole + sizeof(bytes),
               (const char *)given + sizeof(bytes), bytes - sizeof(bytes));
        return whole;
    }
    write_macro(macro, type->name);
    spc__fail(error, SPC_EINVAL,
              "%s.bytes is %zu, and this library (%s) knows %zu: initialise "
              "the struct with %s",
              type->name, bytes, SPC_VERSION_TEXT, type->bytes, macro);
    return NULL;
}
