/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sha256_x86.c - SHA-256 by the instructions of x86 processors, ten times as
 * fast as the plain rounds.
 *
 * One instruction does two rounds. It takes the state as two vectors, ABEF and
 * CDGH, and two words of the schedule with their constants in the low half of a
 * third. The schedule is computed four words at a time.
 */
#include "base/sha256_rounds.h"

/* AddressSanitizer builds use the plain rounds, so that both are tested. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#include <cpuid.h>
#include <immintrin.h>

bool spc__sha256_is_fast(void)
{
    unsigned a, b, c, d;
    bool sse = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_1) != 0 &&
               (c & bit_SSSE3) != 0;

    return sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
           (b & 1u << 29) != 0; /* SHA */
}

#define FAST __attribute__((__target__("sha,sse4.1,ssse3")))

/* Computes words 4 * i + 0 .. 3 of the schedule from the 16 before these. */
FAST static __m128i extend(const __m128i words[4], int i)
{
    __m128i w0 = words[i & 3], w1 = words[(i + 1) & 3];
    __m128i w2 = words[(i + 2) & 3], w3 = words[(i + 3) & 3];
    __m128i sum =
        _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));

    return _mm_sha256msg2_epu32(sum, w3);
}

FAST static void rounds(__m128i *abef, __m128i *cdgh, const void *block)
{
    /* The algorithm reads big-endian words. */
    const __m128i reverse =
        _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i words[4];

    for (int i = 0; i < 16; i++) {
        words[i & 3] =
            i < 4 ? _mm_shuffle_epi8(
                        _mm_loadu_si128((const __m128i *)block + i), reverse)
                  : extend(words, i);
        __m128i sum = _mm_add_epi32(
            words[i & 3],
            _mm_loadu_si128((const __m128i *)(spc__sha256_constants + 4 * i)));
        *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
        *abef =
            _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
}

FAST void spc__sha256_compress_fast(uint32_t state[8], const void *block)
{
    __m128i low = _mm_loadu_si128((const __m128i *)state);        /* DCBA */
    __m128i high = _mm_loadu_si128((const __m128i *)(state + 4)); /* HGFE */

    low = _mm_shuffle_epi32(low, 0xb1);   /* CDAB */
    high = _mm_shuffle_epi32(high, 0x1b); /* EFGH */
    __m128i abef = _mm_alignr_epi8(low, high, 8);
    __m128i cdgh = _mm_blend_epi16(high, low, 0xf0);
    __m128i abef_before = abef, cdgh_before = cdgh;
    rounds(&abef, &cdgh, block);
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
    abef = _mm_shuffle_epi32(abef, 0x1b); /* FEBA */
    cdgh = _mm_shuffle_epi32(cdgh, 0xb1); /* DCHG */
    low = _mm_blend_epi16(abef, cdgh, 0xf0);
    high = _mm_alignr_epi8(cdgh, abef, 8);
    _mm_storeu_si128((__m128i *)state, low);
    _mm_storeu_si128((__m128i *)(state + 4), high);
}

#else

bool spc__sha256_is_fast(void)
{
    return false;
}

void spc__sha256_compress_fast(uint32_t state[8], const void *block)
{
    (void)state;
    (void)block;
}
#endif
