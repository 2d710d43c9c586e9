/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_form.h - records as lists of texts, the form in which files exchange
 * them.
 *
 * A record is complete without the row numbers of its file. As a line it is
 *
 *     trial device="NVIDIA H200" target=sm_90a ... median_us=12.5 ...
 *
 * with the fields of its kind in order, and empty fields omitted. The first
 * fields identify it. Two records with equal first fields have a fixed order,
 * independent of the file. Files can therefore be merged in any order.
 */
#ifndef SPC_CACHE_RECORD_FORM_H
#define SPC_CACHE_RECORD_FORM_H

#include "base/buf.h"
#include "base/sha256.h"
#include "spc/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum spc__kind {
    SPC__FACT,  /* a fact of a device */
    SPC__CODE,  /* an artefact */
    SPC__TRIAL, /* comes before the choices, which refer to trials */
    SPC__CHOICE,
    SPC__KINDS
} spc__kind;

enum { SPC__RECORD_FIELDS = 28 };

typedef enum spc__form {
    SPC__FORM_TEXT,
    SPC__FORM_ATTRS,
    SPC__FORM_FEATURES,
    SPC__FORM_STATUS, /* the status of a trial */
    SPC__FORM_REAL,   /* empty for NaN */
    SPC__FORM_EXCESS, /* a real, or "inf" for the error of a NaN */
    SPC__FORM_INTEGER,
    SPC__FORM_SEAL, /* the digest of the preceding fields */
    SPC__FORM_CODE  /* bytes, as base64 */
} spc__form;

static inline bool spc__form_is_real(spc__form form)
{
    return form == SPC__FORM_REAL || form == SPC__FORM_EXCESS;
}

typedef struct spc__field {
    const char *name;
    spc__form form;
    int most; /* longest text, in bytes */
} spc__field;

typedef struct spc__record_kind {
    const char *name;
    const spc__field *fields;
    int count, keys; /* the first `keys` fields identify a record */
    int at;          /* the field with the record's time, or -1 */
} spc__record_kind;

const spc__record_kind *spc__record_kind_of(spc__kind kind);

typedef struct spc__record {
    spc__kind kind;
    spc__buf text; /* all values, each terminated */
    size_t start[SPC__RECORD_FIELDS];
    int filled;
    spc__buf code; /* code of SPC__CODE */
    bool has_code;
} spc__record;

/* A record that is all zero holds nothing. Clearing keeps its memory. */
void spc__record_clear(spc__record *record, spc__kind kind);
void spc__record_release(spc__record *record);
void spc__record_add(spc__record *record, const char *value);
const char *spc__record_value(const spc__record *record, int i);
/* Returns the field of this name, or "" if the kind lacks it. */
const char *spc__record_named(const spc__record *record, const char *name);

/* Clears the field of this name, if the kind has it. */
void spc__record_blank(spc__record *record, const char *name);

/* Writes the line, without a line feed. The code, preceded by a seal, is
 * included only on request. */
void spc__record_format(spc__buf *out, const spc__record *record,
                        bool with_code);
/* Hashes all fields except the seal and the code, which has its own digest. A
 * line with code must have a seal: otherwise its launch could be changed. */
void spc__record_seal(char hex[SPC__SHA256_HEX], const spc__record *record);
/* Writes the identifying part of the line. */
void spc__record_format_key(spc__buf *out, const spc__record *record);

/* Checks the values of a complete record. Returns SPC_EFORMAT and the error. */
spc_status spc__record_check(const spc__record *record, spc_error *error);

/* Writes a value as it is, or in '"' if it has special characters or `quoted`
 * is set. */
void spc__value_put(spc__buf *out, const char *value, bool quoted);
/* Reads such a value, which ends at a space or at `end`, and appends it. */
spc_status spc__value_read(spc__buf *out, const char **at, const char *end,
                           spc_error *error);

/* Reads and checks a line. Returns SPC_EFORMAT and the error. */
spc_status spc__record_parse(spc__record *out, const char *line, size_t length,
                             spc_error *error);

/* Compares kind and identity. Returns a value as strcmp does. */
int spc__record_compare_keys(const spc__record *a, const spc__record *b);

/* Compares the problems of a choice and a trial, and their candidates: these
 * are the first fields of both. */
int spc__record_compare_problems(const spc__record *a, const spc__record *b);
bool spc__record_same_candidate(const spc__record *a, const spc__record *b);

/* Compares two records with the same key. Returns a positive value if a is
 * above b, 0 if they are equal. Pinned choices are above others, then the newer
 * record, then the larger bytes. */
int spc__record_compare(const spc__record *a, const spc__record *b);

/* The reason of a choice made by a person starts with this word. */
#define SPC__PINNED "pinned"

#endif
