/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c - SHA-256 as FIPS 180-4 writes it; the names are the standard's. */
#include "base/sha256.h"

#include "base/sha256_rounds.h"
#include <stdatomic.h>
#include <string.h>

#define K spc__sha256_constants
const uint32_t spc__sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* The message schedule of FIPS 180-4, section 6.2.2, step 1. */
static void schedule(uint32_t w[64], const unsigned char block[64])
{
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (int t = 16; t < 64; t++) {
        uint32_t x = w[t - 15], y = w[t - 2];
        uint32_t sigma0 = rotr(x, 7) ^ rotr(x, 18) ^ x >> 3;
        uint32_t sigma1 = rotr(y, 17) ^ rotr(y, 19) ^ y >> 10;
        w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
    }
}

/* The compression of one block (FIPS 180-4, section 6.2.2), in portable C. */
static void compress_plainly(uint32_t state[8], const unsigned char block[64])
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

    schedule(w, block);
    for (int t = 0; t < 64; t++) {
        uint32_t sum1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
        uint32_t ch = (e & f) ^ (~e & g);
        uint32_t t1 = h + sum1 + ch + K[t] + w[t];
        uint32_t sum0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
        uint32_t maj = (a & b) ^ (a & c) ^ (b & c);
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + sum0 + maj;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

/* The processor is queried once. A race is harmless: all threads get the same
 * answer. */
static void compress(uint32_t state[8], const unsigned char block[64])
{
    static atomic_int is_fast; /* 0: not queried; 1: no; 2: yes */
    int known = atomic_load_explicit(&is_fast, memory_order_relaxed);

    if (known == 0) {
        known = spc__sha256_is_fast() ? 2 : 1;
        atomic_store_explicit(&is_fast, known, memory_order_relaxed);
    }
    if (known == 2)
        spc__sha256_compress_fast(state, block);
    else
        compress_plainly(state, block);
}

void spc__sha256_init(spc__sha256 *sha)
{
    static const uint32_t initial[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    memcpy(sha->state, initial, sizeof(initial));
    sha->bytes = 0;
}

void spc__sha256_update(spc__sha256 *sha, const void *data, size_t bytes)
{
    const unsigned char *next = data;

    while (bytes > 0) {
        size_t filled = (size_t)(sha->bytes % 64);
        size_t take = bytes < 64 - filled ? bytes : 64 - filled;
        /* Whole blocks are read in place, without a copy. */
        if (take == 64)
            compress(sha->state, next);
        else
            memcpy(sha->block + filled, next, take);
        sha->bytes += take;
        next += take;
        bytes -= take;
        if (take < 64 && filled + take == 64)
            compress(sha->state, sha->block);
    }
}

void spc__sha256_field(spc__sha256 *sha, const void *data, size_t bytes)
{
    /* The length comes first, so that bytes that move from one field to the
     * next change the digest. */
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)((uint64_t)bytes >> (8 * i));
    spc__sha256_update(sha, prefix, sizeof(prefix));
    spc__sha256_update(sha, data, bytes);
}

void spc__sha256_final(spc__sha256 *sha, unsigned char out[SPC__SHA256_BYTES])
{
    static const unsigned char padding[64] = {0x80};
    unsigned char tail[8];
    uint64_t bits = sha->bytes * 8;

    for (int i = 0; i < 8; i++)
        tail[i] = (unsigned char)(bits >> (56 - 8 * i));
    size_t filled = (size_t)(sha->bytes % 64);
    /* The length takes the last 8 bytes of a block. If they do not fit, another
     * block follows. */
    spc__sha256_update(sha, padding, filled < 56 ? 56 - filled : 120 - filled);
    spc__sha256_update(sha, tail, sizeof(tail));
    for (int i = 0; i < SPC__SHA256_BYTES; i++)
        out[i] = (unsigned char)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}

void spc__sha256_hex(char out[SPC__SHA256_HEX],
                     const unsigned char digest[SPC__SHA256_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < SPC__SHA256_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[SPC__SHA256_HEX - 1] = '\0';
}

void spc__sha256_end(char out[SPC__SHA256_HEX], spc__sha256 *sha)
{
    unsigned char digest[SPC__SHA256_BYTES];

    spc__sha256_final(sha, digest);
    spc__sha256_hex(out, digest);
}

void spc__sha256_of(char out[SPC__SHA256_HEX], const void *data, size_t bytes)
{
    spc__sha256 sha;

    spc__sha256_init(&sha);
    spc__sha256_update(&sha, data, bytes);
    spc__sha256_end(out, &sha);
}
