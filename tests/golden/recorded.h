/*
 * recorded.h - for tests: reading primitives.txt, and comparing words with it.
 */
#ifndef SPC_GOLDEN_RECORDED_H
#define SPC_GOLDEN_RECORDED_H

#include "golden/primitives.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

static inline float as_float(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* Compares a word with the recorded one. On a GPU a NaN that arithmetic
 * produces has other bits; here this concerns spc_fma only (from word 2048 on).
 * Inexact sums may differ in the last bits, because the matrix units truncate
 * below the largest term's 24 bits. */
static inline void assert_agree(const golden_case *c, const uint32_t *got,
                                const uint32_t *want, const char *what)
{
    for (int i = 0; i < c->out_words; i++) {
        if (got[i] == want[i] ||
            (i >= 2048 && isnan(as_float(got[i])) && isnan(as_float(want[i]))))
            continue;
        double difference = fabs((double)as_float(got[i]) - as_float(want[i]));
        ck_assert_msg(!c->exact && difference < 1e-5,
                      "%s: word %d is %08x, %s says %08x", c->name, i, got[i],
                      what, want[i]);
    }
}

/* One recorded case. */
typedef struct recorded {
    uint64_t hash;
    uint32_t words[GOLDEN_WORDS];
    int listed; /* words listed in the file; 0: only their hash */
} recorded;

/* Finds a case in the vectors at `path`. A missing file or case is a failure,
 * because nothing would be compared. */
static inline void read_recorded(recorded *out, const char *path,
                                 const golden_case *c)
{
    char line[256], name[64];
    unsigned long long hash = 0;
    int count = -1;
    FILE *file = fopen(path, "r");

    ck_assert_msg(file != NULL, "there is no '%s'", path);
    while (count < 0 && fgets(line, sizeof(line), file))
        if (sscanf(line, "case %63s %d %llx", name, &count, &hash) != 3 ||
            strcmp(name, c->name) != 0)
            count = -1;
    ck_assert_msg(count == c->out_words, "%s: %d words in '%s', not %d",
                  c->name, count, path, c->out_words);
    out->hash = hash;
    out->listed = count <= GOLDEN_LISTED ? count : 0;
    for (int i = 0; i < out->listed; i++)
        ck_assert_msg(fscanf(file, "%x", &out->words[i]) == 1,
                      "%s: word %d of %d is missing", c->name, i, count);
    fclose(file);
}

static inline void assert_recorded(const golden_case *c, const uint32_t *got,
                                   const recorded *want)
{
    if (want->listed > 0)
        assert_agree(c, got, want->words, "the recorded GPU");
    else
        ck_assert_msg(golden_hash(got, c->out_words) == want->hash,
                      "%s differs from the recorded GPU", c->name);
}

#endif
