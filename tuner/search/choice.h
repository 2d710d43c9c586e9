/* SPDX-License-Identifier: Apache-2.0 */
/* choice.h - who is faster than whom, and who wins. */
#ifndef SPC_TUNER_CHOICE_H
#define SPC_TUNER_CHOICE_H

#include "tuner/search/candidates.h"

typedef struct spc__winner {
    const spc__entry *entry; /* NULL: nobody was confirmed */
    char reason[192];
    double us, default_us; /* 0: the default was not timed beside it */
    int worst_scene;       /* where it loses most against the scene's best */
    double worst_ratio;
} spc__winner;

/* How the reason begins for which a network chose. */
#define SPC__IN_NETWORK "chosen in a network"

/* Two candidates within their spread are a tie, but never beyond this. */
#define SPC__TIE 0.02
/* Times of different moments within this may be in the wrong order: so far were
 * the clocks of power-limited kernels seen to wander. */
#define SPC__NEAR_BEST 1.1
/* The best of a template this far behind the best of all is not given up: its
 * own parameters have been seen to gain as much. */
#define SPC__RIVAL 1.15

/* The default that a plan would take untuned: the first that compiles. NULL: it
 * is not among the candidates. */
const spc__entry *spc__untuned(const spc__request *request,
                               const spc__candidates *candidates);
/* As spc__entry_score; of a finalist the time that it took beside the others.
 */
double spc__final_score(const spc__entry *entry, int scenes);
/* Half of the interquartile range over the median; of the scenes, the most. */
double spc__relative_spread(const spc__entry *entry, int scenes);
/* Keeps the timed ones of the list, best first; returns their number. */
int spc__rank(spc__entry **list, int count, int scenes);
/* All timed candidates, best first, into `list`, which has room for all. */
int spc__rank_all(const spc__candidates *candidates, spc__entry **list,
                  int scenes);
/* The winner of what is timed and confirmed; of the finalists, if there are
 * any. */
spc_status spc__choose(spc__winner *out, const spc__request *request,
                       const spc__candidates *candidates);
/* Nobody is left: the report of the first failure stands for all. `is_cut`: the
 * time was up before the others were measured. */
spc_status spc__nobody_left(const spc__candidates *candidates,
                            const spc__request *request, bool is_cut);

#endif
