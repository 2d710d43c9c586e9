/* SPDX-License-Identifier: Apache-2.0 */
/* code_form.c - compresses and decompresses code. */
#include "cache/exchange/code_form.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>
#ifdef SPC_WITH_ZSTD
#include <zstd.h>
#endif

/* More than any kernel has. A larger size means damage or an attack. */
enum { MOST_BYTES = 256 << 20 };

bool spc__code_is_packed(const void *code, size_t bytes)
{
    return bytes >= 4 && memcmp(code, "\x28\xb5\x2f\xfd", 4) == 0;
}

/* Copies code that is not compressed. */
static spc_status copy(void **out, size_t *out_bytes, const void *code,
                       size_t bytes, spc_error *error)
{
    *out = malloc(bytes + 1);
    if (*out == NULL)
        return spc__fail_memory(error, bytes + 1);
    if (bytes > 0)
        memcpy(*out, code, bytes);
    *out_bytes = bytes;
    return SPC_OK;
}

#ifdef SPC_WITH_ZSTD

bool spc__code_can_pack(void)
{
    return true;
}

/* Decompresses to the size that the frame states, which is checked before
 * anything is allocated. */
static spc_status unpack(void **out, size_t *out_bytes, const void *code,
                         size_t bytes, spc_error *error)
{
    unsigned long long whole = ZSTD_getFrameContentSize(code, bytes);

    if (whole > MOST_BYTES) /* includes zstd's values for unknown and error */
        return spc__fail(error, SPC_EDB, "its compressed code is damaged");
    *out = malloc((size_t)whole + 1);
    if (*out == NULL)
        return spc__fail_memory(error, (size_t)whole + 1);
    *out_bytes = ZSTD_decompress(*out, (size_t)whole, code, bytes);
    if (*out_bytes == whole)
        return SPC_OK;
    free(*out);
    *out = NULL;
    return spc__fail(error, SPC_EDB, "its compressed code is damaged");
}

/* Code is packed once and read often, so use a slow, strong level. */
spc_status spc__code_pack(void **out, size_t *out_bytes, const void *code,
                          size_t bytes, spc_error *error)
{
    enum { LEVEL = 19 };
    size_t bound = ZSTD_compressBound(bytes);

    *out = malloc(bound);
    if (*out == NULL)
        return spc__fail_memory(error, bound);
    *out_bytes = ZSTD_compress(*out, bound, code, bytes, LEVEL);
    if (!ZSTD_isError(*out_bytes))
        return SPC_OK;
    free(*out);
    *out = NULL;
    return spc__fail(error, SPC_EINTERNAL, "zstd: %s",
                     ZSTD_getErrorName(*out_bytes));
}

#else

bool spc__code_can_pack(void)
{
    return false;
}

static spc_status unpack(void **out, size_t *out_bytes, const void *code,
                         size_t bytes, spc_error *error)
{
    (void)out, (void)out_bytes, (void)code, (void)bytes;
    return spc__fail(error, SPC_EDB,
                     "its code is compressed, and this libspc was built "
                     "without zstd");
}

spc_status spc__code_pack(void **out, size_t *out_bytes, const void *code,
                          size_t bytes, spc_error *error)
{
    (void)out, (void)out_bytes, (void)code, (void)bytes;
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "this libspc was built without zstd");
}

#endif

spc_status spc__code_unpack(void **out, size_t *out_bytes, const void *code,
                            size_t bytes, spc_error *error)
{
    *out = NULL;
    *out_bytes = 0;
    return spc__code_is_packed(code, bytes)
               ? unpack(out, out_bytes, code, bytes, error)
               : copy(out, out_bytes, code, bytes, error);
}
