/* SPDX-License-Identifier: Apache-2.0 */
/* signature.c - checks signatures of minisign. Only this file needs libsodium,
 * and only this file knows the format. */
#include "cache/pack/signature.h"

#include "base/base64.h"
#include "base/error.h"
#include <string.h>
#ifdef SPC_WITH_SODIUM
#include <sodium.h>

enum { ALGORITHM = 2, NUMBER = 8, KEY = 32, SIGNATURE = 64 };

typedef struct public_key {
    unsigned char algorithm[ALGORITHM], number[NUMBER], key[KEY];
} public_key;

typedef struct signed_by {
    unsigned char algorithm[ALGORITHM], number[NUMBER], signature[SIGNATURE];
} signed_by;

/* Reads a line of base64 that decodes to exactly `bytes` bytes. */
static bool read_line(void *out, size_t bytes, const char *line)
{
    spc__buf read = SPC__BUF_INIT;
    bool right = spc__base64_read(&read, line, strcspn(line, "\r\n")) &&
                 read.length == bytes && !read.failed;

    if (right)
        memcpy(out, read.data, bytes);
    spc__buf_release(&read);
    return right;
}

/* Returns the start of line n, or "" past the last. */
static const char *line_of(const char *text, int n)
{
    for (; n > 0 && *text != '\0'; n--) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return text;
}

static bool read_key(public_key *out, const char *text)
{
    bool has_comment = strncmp(text, "untrusted comment:", 18) == 0;

    return read_line(out, sizeof(*out), line_of(text, has_comment)) &&
           memcmp(out->algorithm, "Ed", ALGORITHM) == 0;
}

/* True if it is the key's signature of the bytes or of their digest. */
static bool verify_bytes(const signed_by *by, const public_key *key,
                         const void *bytes, size_t count)
{
    unsigned char digest[crypto_generichash_BYTES_MAX];
    bool hashed = memcmp(by->algorithm, "ED", ALGORITHM) == 0;

    if (!hashed && memcmp(by->algorithm, "Ed", ALGORITHM) != 0)
        return false;
    /* minisign's newer form signs the BLAKE2b digest of a file, so that large
     * files need not be in memory. */
    if (hashed)
        crypto_generichash(digest, sizeof(digest), bytes, count, NULL, 0);
    return crypto_sign_verify_detached(by->signature, hashed ? digest : bytes,
                                       hashed ? sizeof(digest) : count,
                                       key->key) == 0;
}

/* The comment is signed together with the signature. */
static bool verify_comment(const signed_by *by, const public_key *key,
                           const char *comment, const char *signature)
{
    unsigned char second[SIGNATURE];
    spc__buf both = SPC__BUF_INIT;

    if (!read_line(second, sizeof(second), signature))
        return false;
    spc__buf_append(&both, by->signature, SIGNATURE);
    spc__buf_append(&both, comment, strcspn(comment, "\r\n"));
    bool right = !both.failed && crypto_sign_verify_detached(
                                     second, (const unsigned char *)both.data,
                                     both.length, key->key) == 0;
    spc__buf_release(&both);
    return right;
}

spc_status spc__signature_check(const char *key, const char *signature,
                                const void *bytes, size_t count,
                                spc_error *error)
{
    static const char trusted[] = "trusted comment: ";
    public_key with;
    signed_by by;
    const char *comment = line_of(signature, 2);

    if (sodium_init() < 0)
        return spc__fail(error, SPC_EINTERNAL, "libsodium does not start");
    if (!read_key(&with, key))
        return spc__fail(error, SPC_EFORMAT,
                         "the key is not a public key of minisign");
    if (!read_line(&by, sizeof(by), line_of(signature, 1)) ||
        strncmp(comment, trusted, strlen(trusted)) != 0)
        return spc__fail(error, SPC_EFORMAT,
                         "the signature is not one of minisign");
    /* The number only gives a better message. It proves nothing. */
    if (memcmp(by.number, with.number, NUMBER) != 0)
        return spc__fail(error, SPC_EWRONG, "it was signed with another key");
    if (!verify_bytes(&by, &with, bytes, count) ||
        !verify_comment(&by, &with, comment + strlen(trusted),
                        line_of(signature, 3)))
        return spc__fail(error, SPC_EWRONG, "it differs from the signed text");
    return SPC_OK;
}

#else

spc_status spc__signature_check(const char *key, const char *signature,
                                const void *bytes, size_t count,
                                spc_error *error)
{
    (void)key, (void)signature, (void)bytes, (void)count;
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "this libspc was built without libsodium, and can check "
                     "no signature");
}

#endif
