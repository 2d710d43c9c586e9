/*
 * spc_digest.h - the arguments of the kernel of role "digest"; shared by its
 * templates and the runtime. It needs no includes, like spc_abi.h.
 *
 * The kernel adds to sums[0] and sums[1] two hashes of every unit of 16 bits
 * and its place. Both are sums, so threads may work in any order. For a fixed
 * place each step of the first hash is a bijection: a change of a single unit
 * always changes the sum.
 */
#ifndef SPC_DIGEST_H
#define SPC_DIGEST_H

typedef struct spc_digest_args {
    const unsigned short *data;
    unsigned *sums;
    long long units;
    int blocks; /* of SPC_DIGEST_THREADS threads */
} spc_digest_args;

#define SPC_DIGEST_THREADS 256

/* The factors are those of xxHash and MurmurHash3; they are odd, so
 * multiplication is a bijection. */
#define SPC_DIGEST_ADD(first, second, unit, place)                             \
    do {                                                                       \
        unsigned hash_ = ((unsigned)(place)*0x9e3779b1u) ^ (unit);             \
        hash_ *= 0x85ebca6bu;                                                  \
        hash_ ^= hash_ >> 13;                                                  \
        hash_ *= 0xc2b2ae35u;                                                  \
        (first) += hash_;                                                      \
        (second) += (hash_ ^ hash_ >> 16) * 0x27d4eb2fu;                       \
    } while (0)

#endif
