/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signature.h - signatures of minisign (Ed25519), checked.
 *
 * https://jedisct1.github.io/minisign: a key is "Ed", a number of 8 bytes and
 * 32 bytes of Ed25519; a signature names the key's number, and signs the bytes
 * ("Ed") or their BLAKE2b ("ED"); a second one signs the first and the trusted
 * comment.
 */
#ifndef SPC_CACHE_SIGNATURE_H
#define SPC_CACHE_SIGNATURE_H

#include "spc_status.h"

/* `key`: the text of a public key, with its comment line or without;
 * `signature`: that of a .minisig file. SPC_EWRONG: the bytes are not what was
 * signed, or with another key; SPC_EFORMAT: one of the texts makes no sense;
 * SPC_EUNSUPPORTED: built without libsodium. */
spc_status spc__signature_check(const char *key, const char *signature,
                                const void *bytes, size_t count,
                                spc_error *error);

#endif
