/*
 * search.h - the parts of the search, and what they ask of each other.
 *
 *   search.c    how often which candidate is measured, until the winner stands
 *   moves.c     what is measured first, and where the search goes on from there
 *   sampling.c  candidates are verified, and timed in rounds
 *   doubt.c     times that cannot be are not believed
 *   choice.c    who is faster than whom, and who wins
 */
#ifndef SPC_TUNER_SEARCH_H
#define SPC_TUNER_SEARCH_H

#include "run.h"

/* What an effort means, in samples and candidates. */
typedef struct spc__effort {
    int screening; /* samples that decide whether a candidate is promising */
    int finalists; /* besides the defaults */
    int final;     /* samples of a finalist */
    int cold;      /* with a cold cache */
    int sample;    /* of the space; 0: defaults only, -1: all of it */
} spc__effort;

const spc__effort *spc__effort_of(const spc__run *run);

/* Two candidates within their spread are a tie, but never beyond this. */
#define SPC__TIE 0.02

/* moves.c */

/* What to measure next, given all timed ones, best first: candidates that are
 * new, into `list`, which has room for all; returns their number. */
int spc__next_moves(const spc__run *run, spc__entry *const *ranked,
                    int ranked_count, spc__entry **list);

/* sampling.c */

/* One turn of a candidate, on every scene that has not `wanted` samples. */
spc_status spc__sample_once(spc__run *run, spc__entry *entry, int wanted,
                            bool cold);
/* Rounds over the list until all have `wanted` samples; the order of the list
 * is lost. */
spc_status spc__sample_rounds(spc__run *run, spc__entry **list, int count,
                              int wanted, bool cold);
/* Has it `wanted` samples on every scene, or is it too slow for so many; and a
 * cold one, if `cold`? */
bool spc__entry_has(const spc__run *run, const spc__entry *entry, int wanted,
                    bool cold);
/* Those of the list that are timed must repeat their results before one of them
 * may win; who does not has failed. */
spc_status spc__run_confirm(spc__run *run, spc__entry **list, int count);
/* It fails, and that is stored. */
void spc__entry_fail(spc__run *run, spc__entry *entry,
                     const spc__outcome *outcome);
/* Its code will not be asked for soon. */
spc_status spc__sample_unload(spc__run *run, const spc__entry *entry);

/* doubt.c */

/* Is it timed, and faster than the device could be? */
bool spc__entry_is_doubtful(const spc__run *run, const spc__entry *entry);
/* Such ones are measured again, alone; who stays below the floor has failed. */
spc_status spc__run_doubt(spc__run *run, spc__entry *const *list, int count);

/* choice.c */

/* Keeps the timed ones of the list, best first; returns their number. */
int spc__rank(const spc__run *run, spc__entry **list, int count);
/* All timed candidates, best first, into `list`, which has room for all. */
int spc__rank_all(const spc__run *run, spc__entry **list);
/* Makes the winner of what is timed known to the run and its report; `list` is
 * room for all candidates. */
void spc__choose(spc__run *run, spc__entry **list);
/* Nobody is left: the report of the first failure stands for all. */
spc_status spc__nobody_left(const spc__run *run);

#endif
