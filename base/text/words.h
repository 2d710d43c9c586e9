/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.h - reads ",name=value,name=value..." into the fields of a struct, by a
 * table of the words.
 */
#ifndef SPC_BASE_TEXT_WORDS_H
#define SPC_BASE_TEXT_WORDS_H

#include "base/text/names.h"

typedef enum spc__word_form {
    SPC__WORD_INT,    /* int */
    SPC__WORD_INT64,  /* int64_t */
    SPC__WORD_AXES,   /* int[3]: one number for all axes, or three */
    SPC__WORD_FLAG,   /* bool: 0 or 1 */
    SPC__WORD_REAL,   /* float: any finite number */
    SPC__WORD_LENGTH, /* float: above 0 */
    SPC__WORD_NAME,   /* an enum: the index of one of `names` */
    SPC__WORD_OWN     /* a value that read() reads */
} spc__word_form;

typedef struct spc__word {
    const char *name;
    size_t at;           /* offset of the field in the struct */
    const char *example; /* a valid value */
    spc__word_form form;
    int64_t least, most; /* range of numbers; NAME: least is the first index */
    const char *what;    /* the noun of a number or a name, for messages; a
                            note on axes, or NULL */
    const char *const *names;
    spc_status (*read)(void *field, spc__span value, spc_error *error);
    unsigned only; /* kinds of text that have the word, as bits; 0: all */
    unsigned need; /* kinds of text that must have the word */
} spc__word;

/* The rest of a row after its example, as in {"cin", AT(cin), "64",
 * SPC__INT(...)}. */
#define SPC__INT(low, high, counted)                                           \
    .form = SPC__WORD_INT, .least = low, .most = high, .what = counted
#define SPC__INT64(low, high, counted)                                         \
    .form = SPC__WORD_INT64, .least = low, .most = high, .what = counted
#define SPC__AXES(low, high) .form = SPC__WORD_AXES, .least = low, .most = high
#define SPC__NAME(list) .form = SPC__WORD_NAME, .names = list
#define SPC__OWN(function) .form = SPC__WORD_OWN, .read = function
#define SPC__FLAG .form = SPC__WORD_FLAG
#define SPC__REAL .form = SPC__WORD_REAL
#define SPC__LENGTH .form = SPC__WORD_LENGTH

/* The state of reading one text. */
typedef struct spc__word_list {
    const spc__word
        *table;          /* ends with a row without a name; at most 63 rows */
    unsigned kind;       /* the bit of this kind of text */
    const char *head;    /* the name of this kind */
    const char *example; /* an example of the whole text */
    uint64_t seen;       /* a bit for each row that was read */
} spc__word_list;

/* Takes a word from *rest, which is then missing after the last one. Refuses an
 * empty word, and a name that is too long. `text` is the whole text. */
spc_status spc__word_list_next(spc__span *out, const char *text,
                               spc__span *rest, spc_error *error);

/* Reads all words of `rest` into *out. */
spc_status spc__word_list_read(void *out, spc__word_list *words,
                               const char *text, spc__span rest,
                               spc_error *error);

/* True if the text has the word. */
bool spc__word_list_has(const spc__word_list *words, const char *name);

/* Fails for a word that the text must have. */
spc_status spc__word_list_lacks(const spc__word_list *words, const char *name,
                                spc_error *error);

/* Fails if the text has both words, and gives the reason. */
spc_status spc__word_list_excludes(const spc__word_list *words, const char *one,
                                   const char *other, const char *why,
                                   spc_error *error);

#endif
