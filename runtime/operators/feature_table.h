/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_table.h - the table of operators on features: one row states all that
 * the runtime knows of an operator.
 *
 * A new operator is an enumerator of spc_feature_op, a line of
 * SPC__FEATURE_ROWS, a file with its row, and its templates. The definition
 * that its kernels are compared with has a table in
 * lab/oracle/feature_oracle.c.
 */
#ifndef SPC_RUNTIME_FEATURE_TABLE_H
#define SPC_RUNTIME_FEATURE_TABLE_H

#include "base/attrs.h"
#include "operators/feature_steps.h"
#include "spc.h"

/* All operators: the enumerator and the name of the row. Listings have this
 * order, which may differ from the order of the enumerators. */
#define SPC__FEATURE_ROWS(ROW)                                                 \
    ROW(POOL, pool)                                                            \
    ROW(UNPOOL, unpool)                                                        \
    ROW(SLICE, slice)                                                          \
    ROW(UNSLICE, unslice)                                                      \
    ROW(GLOBAL, global)                                                        \
    ROW(MULTIPLY, multiply)                                                    \
    ROW(ADD, add)                                                              \
    ROW(ACT, act)                                                              \
    ROW(ACTGRAD, actgrad)                                                      \
    ROW(AFFINE, affine)                                                        \
    ROW(LAYERNORM, layernorm)                                                  \
    ROW(GROUPNORM, groupnorm)                                                  \
    ROW(GROUPSUM, groupsum)                                                    \
    ROW(GROUPMEAN, groupmean)                                                  \
    ROW(REPEAT, repeat)                                                        \
    ROW(BEV, bev)

/* Words of several operators, for spc_operator_info.words. */
#define SPC__WORDS_MAP                                                         \
    " rule k stride=1 dilation=1 padding=0 origin= shape= offsets="
#define SPC__WORDS_ACT " act=none slope="
#define SPC__WORDS_PASS " dtype=f16 pass=forward"

/* Groups of words, one bit each. An operator takes some of these groups. */
enum {
    SPC__TAKES_PASS = 1 << 0, /* pass */
    /* rule, k, stride and the other words of a map */
    SPC__TAKES_MAP = 1 << 1,
    SPC__TAKES_INDEX = 1 << 2,  /* index */
    SPC__TAKES_ACT = 1 << 3,    /* act, slope */
    SPC__TAKES_SLOPE = 1 << 4,  /* slope */
    SPC__TAKES_EPS = 1 << 5,    /* eps, affine */
    SPC__TAKES_GROUPS = 1 << 6, /* groups */
    SPC__TAKES_BY = 1 << 7,     /* by */
    SPC__TAKES_PLANES = 1 << 8  /* shape, order */
};

/* The inputs on which an output depends, except a row of `add`. */
typedef enum spc__feature_reads {
    SPC__READS_ROW,  /* the input row with the output's number */
    SPC__READS_MAP,  /* the rows that a map gives for the output */
    SPC__READS_BATCH /* the voxels of a batch element, or its number */
} spc__feature_reads;

/* The member of spc_feature that the value of the first word selects. */
typedef enum spc__feature_selects {
    SPC__SELECTS_NOTHING, /* nothing but the operator */
    SPC__SELECTS_REDUCTION,
    SPC__SELECTS_ACTIVATION,
    SPC__SELECTS_INDEX
} spc__feature_selects;

/* One operator. Functions may be NULL where their comment gives a meaning. */
typedef struct spc__feature_row {
    /* ---- text */
    const char *name;          /* name used by templates */
    const char *word;          /* the first word; several rows may have it */
    const char *const *values; /* its values, ended by NULL; NULL: no values */
    const char *value_is;      /* noun for the value in messages */
    spc__feature_selects selects;
    unsigned takes;         /* groups of words */
    spc_operator_info info; /* words for listings: the words of those groups */

    /* ---- checks and attrs */
    /* NULL: no check */
    spc_status (*check)(const spc_feature *f, spc_error *error);
    /* NULL: no further attributes */
    void (*attrs)(spc__attrs *out, const spc_feature *f);

    /* ---- shapes */
    spc__feature_reads reads;
    int64_t (*outputs)(const spc_feature *f); /* adjacent elements of a row of
                                               * outputs; NULL: `channels` */
    bool inverse;                             /* reads the inverse map */
    bool adds;                                /* reads `add` */
    bool add_by_batch; /* `add` has a row for each batch element; its gradient
                        * is the WGRAD */
    bool out_by_batch; /* has a row of outputs for each batch element */
    bool planes;       /* such a row consists of dense planes of shape[] */
    bool stores_index, reads_index; /* if `index` is set */
    /* has scale and shift: always, or if `affine` is set */
    bool scales, scales_if_affine;

    /* ---- passes */
    void (*make_dgrad)(
        spc_feature *out); /* makes a layer's DGRAD, which may be another
                            * operator; NULL: only the pass differs */
    /* true if the operator is its own DGRAD; NULL: if that has launches */
    bool (*has_dgrad)(const spc_feature *f);
    /* true if the DGRAD reads the layer's inputs and dy; NULL: false */
    bool (*needs_in)(const spc_feature *f);

    /* ---- launches, by pass; NULL: it has no such pass */
    const spc__feature_launches *launches[3];
    bool (*counts)(const spc_feature *f); /* spc__feature_counts of a DGRAD */
    const spc__feature_launches *counted; /* launches of a DGRAD that counts
                                             first */
    void (*arrays)(spc__feature_arrays *out, const spc_feature *f,
                   const spc__feature_sizes *s); /* NULL: no workspace */
} spc__feature_row;

#define SPC__FEATURE_ROW(op, name)                                             \
    extern const spc__feature_row spc__feature_row_##name;
SPC__FEATURE_ROWS(SPC__FEATURE_ROW)
#undef SPC__FEATURE_ROW

#define SPC__FEATURE_ROW(op, name) +1
enum { SPC__FEATURES = SPC__FEATURE_ROWS(SPC__FEATURE_ROW) };
#undef SPC__FEATURE_ROW

/* The row of an operator. An unknown one gets an empty row. */
const spc__feature_row *spc__feature_row_of(spc_feature_op op);

/* Row `i` in the order of listings. */
const spc__feature_row *spc__feature_listed(int i);

/* Checks that several operators make. */
spc_status spc__feature_check_range(const char *name, int64_t value,
                                    int64_t low, int64_t high,
                                    spc_error *error);
spc_status spc__feature_check_divisor(const char *name, int value, int channels,
                                      spc_error *error);

/* Writes the activation of a forward pass; gradients have none. */
void spc__feature_set_activation(spc__attrs *out, const spc_feature *f);

/* Turns a gradient into another operator applied to dy. */
void spc__feature_become(spc_feature *out, spc_feature_op op, int channels,
                         int by);

#endif
