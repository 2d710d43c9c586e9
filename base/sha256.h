/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 (FIPS 180-4), for artefact keys. */
#ifndef SPC_BASE_SHA256_H
#define SPC_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct spc__sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} spc__sha256;

enum { SPC__SHA256_BYTES = 32, SPC__SHA256_HEX = 65 };

void spc__sha256_init(spc__sha256 *sha);
void spc__sha256_update(spc__sha256 *sha, const void *data, size_t bytes);
/* Length-prefixed update (u64 little endian): "ab","c" differs from "a","bc" */
void spc__sha256_field(spc__sha256 *sha, const void *data, size_t bytes);
void spc__sha256_final(spc__sha256 *sha, unsigned char out[SPC__SHA256_BYTES]);
void spc__sha256_hex(char out[SPC__SHA256_HEX],
                     const unsigned char digest[SPC__SHA256_BYTES]);
/* Ends with the digest in hex. The second hashes these bytes alone. */
void spc__sha256_end(char out[SPC__SHA256_HEX], spc__sha256 *sha);
void spc__sha256_of(char out[SPC__SHA256_HEX], const void *data, size_t bytes);

#endif
