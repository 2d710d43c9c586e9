/* SPDX-License-Identifier: Apache-2.0 */
/* choice.h - ranks candidates and picks the winner. */
#ifndef SPC_TUNER_CHOICE_H
#define SPC_TUNER_CHOICE_H

#include "tuner/search/candidates.h"

typedef struct spc__winner {
    const spc__entry *entry; /* NULL: no candidate was confirmed */
    char reason[192];
    /* default_us 0: the default was not timed in the same rounds */
    double us, default_us;
    /* the scene with the largest loss against its best */
    int worst_scene;
    double worst_ratio;
} spc__winner;

/* The prefix of the reason if a network has chosen. */
#define SPC__IN_NETWORK "chosen in a network"

/* Two candidates within their spread tie, but never beyond this difference. */
#define SPC__TIE 0.02
/*
 * Times of different moments within this ratio may be in the wrong order: the
 * clocks of power-limited kernels were seen to drift this far.
 */
#define SPC__NEAR_BEST 1.1
/*
 * The best of a template within this ratio of the best of all stays in the
 * search: tuning its parameters was seen to gain as much.
 */
#define SPC__RIVAL 1.15

/*
 * The default that an untuned plan would run: the first that compiles. NULL if
 * it is not among the candidates.
 */
const spc__entry *spc__untuned(const spc__request *request,
                               const spc__candidates *candidates);
/* Like spc__entry_score, but for a finalist its time in the rounds of the
 * finalists. */
double spc__final_score(const spc__entry *entry, int scenes);
/*
 * Returns half of the interquartile range divided by the median: the largest
 * value of all scenes.
 */
double spc__relative_spread(const spc__entry *entry, int scenes);
/* Keeps the timed ones of the list, best first; returns their number. */
int spc__rank(spc__entry **list, int count, int scenes);
/*
 * Puts all timed candidates, best first, into `list`, which has room for all.
 */
int spc__rank_all(const spc__candidates *candidates, spc__entry **list,
                  int scenes);
/*
 * Returns the winner among the confirmed and timed candidates or, if there are
 * finalists, among these.
 */
spc_status spc__choose(spc__winner *out, const spc__request *request,
                       const spc__candidates *candidates);
/*
 * Reports that no candidate is left, with the failure of the first one.
 * `is_cut`: the time was up before the others were measured.
 */
spc_status spc__nobody_left(const spc__candidates *candidates,
                            const spc__request *request, bool is_cut);

#endif
