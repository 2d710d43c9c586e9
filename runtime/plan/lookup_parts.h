/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup_parts.h - the state of one lookup, which the files lookup*.c share.
 */
#ifndef SPC_PLAN_LOOKUP_PARTS_H
#define SPC_PLAN_LOOKUP_PARTS_H

#include "context/related.h"
#include "plan/pick.h"

typedef struct spc__look {
    spc__pick *out;
    spc_ctx *ctx;
    unsigned flags;
    const spc__allow *allow; /* templates that may be used */
    spc_pass pass;
    bool deterministic;
    spc__problem_key key;
    /* The forward layer of a gradient, if has_forward. */
    spc__problem_key forward_key;
    bool has_forward;
    /* the device whose records are tried; NULL: this one */
    const spc__related *device;
    /* The other devices of the database; -1: not asked for yet. */
    const spc__related *related;
    int related_count;
    bool close_only; /* records of other layers have to wait */
    int refusals;
    spc__attrs problem;
    int64_t rows;      /* output rows; 0: unknown */
    int64_t pairs;     /* pairs of the map; 0: unknown */
    char layer[200];   /* canonical text of the layer, for messages */
    char refused[200]; /* why the first record was refused */
    spc_error unread;  /* the last read error that was reported */
    const char *file;  /* file and row of the last refused record */
    int64_t record;
    bool default_is_better; /* better than the nearest record */
    spc_error fault;        /* status of the first faulty template, or SPC_OK */
} spc__look;

/* lookup_record.c */

/* Sets the template and the text of its configuration. */
void spc__look_set_config(spc__pick *out, const char *template_name,
                          const spc__attrs *config);

/* True if the layer may use the template. */
bool spc__look_is_allowed(const spc__look *look, const char *template_name);

/* Check what the constraints of templates do not know: the order of sums, and
 * the library for products. The second opens the library, which is slow. */
spc_status spc__look_check_order(const spc__look *look,
                                 const spc__attrs *launch, spc_error *error);
spc_status spc__look_check_library(const spc__look *look,
                                   const spc__attrs *launch, spc_error *error);

/* Takes the record's code, or compiles its configuration. A failure is noted
 * for the reason of what serves instead. */
spc_status spc__look_try_choice(spc__look *look, const spc__choice *choice);

/* The same for a choice whose template is not allowed: takes the fastest
 * allowed trial of its problem instead. */
spc_status spc__look_replace_choice(spc__look *look, const spc__choice *choice);

/* True for the last record that was refused. */
bool spc__look_was_refused(const spc__look *look, const spc__choice *choice);
void spc__look_refuse_unread(spc__look *look, const spc_error *why);

/* True if the default is the better choice, as the record is of another layer
 * with far channels or another size. */
bool spc__look_knows_less_than_default(spc__look *look,
                                       const spc__choice *choice);

/* Writes the reason of a class's default. */
void spc__look_explain_class(spc__look *look, const spc__choice *choice);

/* lookup_default.c */

/* True if the template of this device's default works on the device whose
 * records are tried. */
bool spc__look_knows_best_template(spc__look *look);

/* Takes the default of the best template. */
spc_status spc__look_at_defaults(spc__look *look);

/* Takes a default of which the database has the code. */
spc_status spc__look_at_stored_defaults(spc__look *look);

#endif
