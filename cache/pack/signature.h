/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signature.h - checks signatures of minisign (Ed25519).
 *
 * https://jedisct1.github.io/minisign: a key is "Ed", a number of 8 bytes and
 * 32 bytes of Ed25519. A signature has the key's number and signs the bytes
 * ("Ed") or their BLAKE2b ("ED"). A second signature covers the first and the
 * trusted comment.
 */
#ifndef SPC_CACHE_SIGNATURE_H
#define SPC_CACHE_SIGNATURE_H

#include "spc/status.h"

/* `key` is the text of a public key, with or without its comment line;
 * `signature` is that of a .minisig file. Returns SPC_EWRONG if the bytes are
 * not the signed ones or the key differs, SPC_EFORMAT if one of the texts is
 * invalid, SPC_EUNSUPPORTED without libsodium. */
spc_status spc__signature_check(const char *key, const char *signature,
                                const void *bytes, size_t count,
                                spc_error *error);

#endif
