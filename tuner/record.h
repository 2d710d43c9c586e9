/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - the link of a run to the database: recalls earlier results and
 * stores new ones.
 */
#ifndef SPC_TUNER_RECORD_H
#define SPC_TUNER_RECORD_H

#include "tuner/search/candidates.h"
#include "tuner/search/choice.h"

typedef struct spc__record {
    spc_ctx *ctx;
    const char *target;
    spc__attrs problem; /* facts for which code is compiled */
    /* compiled code that cannot be stored now is stored later */
    bool keeps_code;
    int scene_count;
    /* The database key of each scene; scenes may share one. */
    spc__problem_key keys[SPC__SCENES_MAX];
    spc__provenance provenance;
    bool has_warned;   /* warned about a failure of the database */
    spc_error trouble; /* last failed write; SPC_OK: none */
    uint64_t trouble_ns;
    struct spc__work_lease *lease; /* renewed by each write */
} spc__record;

void spc__record_init(spc__record *out, const spc__request *request);
/* Adds the next sample scene of the run, with the layer's relation on it. */
void spc__record_add_scene(spc__record *record, const spc_conv *conv,
                           const spc_relation *relation, const char *name);
/*
 * Marks the candidates that plans would use without this run: for each scene
 * the first record that is exact, of its bucket, or nearest, and whose
 * configuration is legal.
 */
void spc__record_find_serving(const spc__record *record,
                              const spc__candidates *candidates);
/* The candidate that a complete search has chosen for every scene, or NULL. */
spc__entry *spc__record_chosen(const spc__record *record,
                               const spc__candidates *candidates);
/* Marks the candidate that a network has chosen for every scene. */
void spc__record_mark_network(const spc__record *record,
                              const spc__candidates *candidates);
/*
 * In a run without measurements the earlier choice, which was made side by side
 * with others, remains: it becomes the only finalist. It is dropped if others
 * are now known to be faster by more than any drift of the clock.
 */
void spc__record_keep_choice(const spc__record *record,
                             const spc__candidates *candidates);
void spc__record_note_compiler(spc__record *record, const char *identity);

/*
 * The candidate with a trial's configuration and the same version of its
 * template, or NULL.
 */
spc__entry *spc__record_alike(const spc__candidates *candidates,
                              const spc__trial *trial);
spc__entry *spc__record_entry_of(const spc__candidates *candidates,
                                 const spc__trial *trial);

/*
 * Recalls the database's results for these exact templates; returns the number
 * of candidates. Unreadable records are logged and measured again.
 */
int spc__record_recall(const spc__record *record,
                       const spc__candidates *candidates);

/*
 * Stores the pending results of a candidate: its code, and its trial in the key
 * of every scene. A failure of the database is logged once; unwritten results
 * stay pending.
 */
void spc__record_entry(spc__record *record, spc__entry *entry);
void spc__record_list(spc__record *record, spc__entry *const *list, int count);

/*
 * Writes everything that is still pending, then the choice, if there is a
 * winner. On failure *lost describes what is not stored, and why; its status is
 * returned.
 */
spc_status spc__record_finish(const spc__record *record,
                              const spc__candidates *candidates,
                              const spc__winner *winner, spc_error *lost);

/* True if there is a database for measurements, or should be. */
bool spc__record_keeps(const spc__record *record);

#endif
