/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_form.h - records as lists of texts: what files exchange.
 *
 * A record says all that it means in words; the numbers of its rows are no part
 * of it. As a line it is
 *
 *     trial device="NVIDIA H200" target=sm_90a ... median_us=12.5 ...
 *
 * with the fields of its kind in their order, those that are empty left out.
 * The first fields identify it. Of two records with the same first fields one
 * is above the other, whoever compares them: so files can be merged in any
 * order.
 */
#ifndef SPC_CACHE_RECORD_FORM_H
#define SPC_CACHE_RECORD_FORM_H

#include "base/buf.h"
#include "base/sha256.h"
#include "spc_status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum spc__kind {
    SPC__FACT,  /* of a device */
    SPC__CODE,  /* an artefact */
    SPC__TRIAL, /* before the choices, which refer to them */
    SPC__CHOICE,
    SPC__KINDS
} spc__kind;

enum { SPC__RECORD_FIELDS = 28 };

typedef enum spc__form {
    SPC__FORM_TEXT,
    SPC__FORM_ATTRS,
    SPC__FORM_FEATURES,
    SPC__FORM_STATUS, /* of a trial */
    SPC__FORM_REAL,   /* empty: not a number */
    SPC__FORM_EXCESS, /* a real, or "inf": how wrong what is no number is */
    SPC__FORM_INTEGER,
    SPC__FORM_SEAL, /* the digest of what stands before it */
    SPC__FORM_CODE  /* bytes, as base64 */
} spc__form;

static inline bool spc__form_is_real(spc__form form)
{
    return form == SPC__FORM_REAL || form == SPC__FORM_EXCESS;
}

typedef struct spc__field {
    const char *name;
    spc__form form;
    int most; /* bytes of a text */
} spc__field;

typedef struct spc__record_kind {
    const char *name;
    const spc__field *fields;
    int count, keys; /* so many of them identify it */
    int at;          /* the field with its time; -1: none */
} spc__record_kind;

const spc__record_kind *spc__record_kind_of(spc__kind kind);

typedef struct spc__record {
    spc__kind kind;
    spc__buf text; /* all values, each terminated */
    size_t start[SPC__RECORD_FIELDS];
    int filled;
    spc__buf code; /* of SPC__CODE */
    bool has_code;
} spc__record;

/* A record that is all zero holds nothing. Clearing keeps its memory. */
void spc__record_clear(spc__record *record, spc__kind kind);
void spc__record_release(spc__record *record);
void spc__record_add(spc__record *record, const char *value);
const char *spc__record_value(const spc__record *record, int i);
/* By its name; "" where the kind has no such field. */
const char *spc__record_named(const spc__record *record, const char *name);

/* Empties the field of that name, where the kind has it. */
void spc__record_blank(spc__record *record, const char *name);

/* The line, without its end; the code, with a seal before it, only if asked
 * for. */
void spc__record_format(spc__buf *out, const spc__record *record,
                        bool with_code);
/* The digest of all fields but the seal, and the code, which has its own. A
 * line with code must have it: without, how the code is launched could be
 * anything. */
void spc__record_seal(char hex[SPC__SHA256_HEX], const spc__record *record);
/* The part of the line that identifies it. */
void spc__record_format_key(spc__buf *out, const spc__record *record);

/* Reads a line. SPC_EFORMAT says what is wrong with it: nothing of it is
 * believed unseen. */
spc_status spc__record_parse(spc__record *out, const char *line, size_t length,
                             spc_error *error);

/* By kind and by what identifies them, as strcmp. */
int spc__record_compare_keys(const spc__record *a, const spc__record *b);

/* Of two with the same key: positive where a is above b; 0: they say the same.
 * Choices that a person pinned are above others, then what is newer, then by
 * the bytes of their values. */
int spc__record_compare(const spc__record *a, const spc__record *b);

/* With this word begins the reason of a choice that a person made. */
#define SPC__PINNED "pinned"

#endif
