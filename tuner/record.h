/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - a run and the database: what it knew, and what it learns.
 */
#ifndef SPC_TUNER_RECORD_H
#define SPC_TUNER_RECORD_H

#include "tuner/search/candidates.h"
#include "tuner/search/choice.h"

typedef struct spc__record {
    spc_ctx *ctx;
    const char *target;
    spc__attrs problem; /* what code is compiled for */
    bool keeps_code; /* compiled code that cannot be stored is stored later */
    int scene_count;
    /* By scene, the keys of the database; scenes may share one. */
    spc__problem_key keys[SPC__SCENES_MAX];
    spc__provenance provenance;
    bool has_warned;   /* of trouble with the database */
    spc_error trouble; /* SPC_OK: the last write worked */
    uint64_t trouble_ns;
    struct spc__turn *turn; /* is renewed with what is stored */
} spc__record;

void spc__record_init(spc__record *out, const spc__request *request);
/* The next sample scene of the run, and what the layer makes of it. */
void spc__record_add_scene(spc__record *record, const spc_conv *conv,
                           const spc_relation *relation, const char *name);
/* Marks what plans would take without this run: for each scene the first record
 * that is exact, of its bucket, or nearest, whose configuration is legal. */
void spc__record_find_serving(const spc__record *record,
                              const spc__candidates *candidates);
/* The candidate that is chosen already, for every scene, by a search that went
 * to its end; NULL: there is none. */
spc__entry *spc__record_chosen(const spc__record *record,
                               const spc__candidates *candidates);
/* Marks the candidate that is chosen already, for every scene, by a network. */
void spc__record_mark_network(const spc__record *record,
                              const spc__candidates *candidates);
/* Where a run measures nothing, what was chosen before stays chosen, as it was
 * chosen side by side with others: it becomes the only finalist. Not if others
 * are now known to be so much faster that no clock explains it. */
void spc__record_keep_choice(const spc__record *record,
                             const spc__candidates *candidates);
void spc__record_note_compiler(spc__record *record, const char *identity);

/* The candidate of a trial's configuration, and of its template as it was
 * then; NULL: there is none. */
spc__entry *spc__record_alike(const spc__candidates *candidates,
                              const spc__trial *trial);
spc__entry *spc__record_entry_of(const spc__candidates *candidates,
                                 const spc__trial *trial);

/* Takes over what the database knows of these very templates; returns of how
 * many. Records that cannot be read are logged, and measured again. */
int spc__record_recall(const spc__record *record,
                       const spc__candidates *candidates);

/* Makes durable what is pending of a candidate: its code, and its trial in the
 * key of every scene. Trouble with the database is logged once, and what it
 * did not take stays pending. */
void spc__record_entry(spc__record *record, spc__entry *entry);
void spc__record_list(spc__record *record, spc__entry *const *list, int count);

/* Writes what is still pending, then the choice, if there is a winner. Else
 * *lost says what is not stored, and why; its status is returned. */
spc_status spc__record_finish(const spc__record *record,
                              const spc__candidates *candidates,
                              const spc__winner *winner, spc_error *lost);

/* Is there, or should there be, a database that keeps what is measured? */
bool spc__record_keeps(const spc__record *record);

#endif
