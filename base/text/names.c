/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - words by the value of an enum, and suggestions for other words. */
#include "base/text/names.h"

#include "base/error.h"
#include <stdio.h>
#include <string.h>

/* ---- tables -------------------------------------------------------------- */

int spc__name_find(const char *const *names, spc__span word)
{
    for (int i = 0; names[i] != NULL; i++)
        if (spc__span_is(word, names[i]))
            return i;
    return -1;
}

int spc__name_index(const char *const *names, const char *word)
{
    return spc__name_find(names, spc__span_of(word));
}

const char *spc__name_at(const char *const *names, unsigned index)
{
    for (unsigned i = 0; names[i] != NULL; i++)
        if (i == index)
            return names[i];
    return "?";
}

/* ---- similar words ------------------------------------------------------- */

enum { MOST_LETTERS = 64, MOST_EDITS = 2 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int most(size_t a, size_t b)
{
    return (int)(a > b ? a : b);
}

/* The Levenshtein distance, computed with one row of its table. */
int spc__edits(const char *word, const char *known)
{
    int row[MOST_LETTERS + 1];
    int columns = (int)strnlen(known, MOST_LETTERS);

    for (int j = 0; j <= columns; j++)
        row[j] = j;
    for (int i = 1; word[i - 1] != '\0'; i++) {
        /* The entry up and to the left, which the loop is about to
         * overwrite. */
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            int change = diagonal + (word[i - 1] != known[j - 1]);
            diagonal = row[j];
            row[j] = least(change, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[columns];
}

const char *spc__meant(const char *word, const char *const *names)
{
    const char *best = NULL;
    int fewest = MOST_EDITS + 1;

    for (; *names != NULL; names++) {
        int edits = spc__edits(word, *names);
        /* A suggestion must share a letter with the word: "ab" is two edits
         * from every word of two letters. */
        if (edits < fewest && edits < most(strlen(word), strlen(*names))) {
            best = *names;
            fewest = edits;
        }
    }
    return best;
}

/* Names of other programs for our words. */
static const struct {
    const char *theirs, *ours;
} synonyms[] = {
    {"kernel", "k"},
    {"kernel_size", "k"},
    {"offset", "offsets"},
    {"in_channels", "cin"},
    {"channels", "c"},
    {"out_channels", "cout"},
    {"act", "epilogue"},
    {"relu", "epilogue"},
    {"activation", "epilogue"},
    {"residual", "epilogue"},
    {"scale", "epilogue"},
    {"add", "epilogue"},
    {"avg", "mean"},
    {"average", "mean"},
    {"half", "f16"},
    {"float", "f32"},
    {"spatial_shape", "shape"},
    {"spconv", "footprint"},
    {"sparse", "conv"},
    {"minkowski", "floor"},
    {"upsample", "unpool"},
    {"batch", "affine"},
    {"batchnorm", "affine"},
    {"swish", "silu"},
    {"cin", "c"},
    {"depthwise", "groups"},
    {"depthwise", "subm"},
    {"submanifold", "subm"},
    {"deconv", "transposed"},
    {"accumulation", "accumulator"},
};

/* Returns the known synonym of `word`, or NULL. */
static const char *known_synonym(const char *const *names, const char *word)
{
    for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++)
        if (strcmp(word, synonyms[i].theirs) == 0 &&
            spc__name_index(names, synonyms[i].ours) >= 0)
            return synonyms[i].ours;
    return NULL;
}

spc_status spc__fail_unknown(spc_error *error, const char *what, spc__span word,
                             const char *const *names)
{
    char bare[41], text[480];

    if (names[0] == NULL)
        return spc__fail(error, SPC_EINVAL, "unknown %s '%.*s': none exist",
                         what, SPC__SPAN(word));
    /* A long word is cut, so that the message keeps room for the names. */
    snprintf(bare, sizeof(bare), "%.*s", SPC__SPAN(word));
    /* A synonym is certain, while a similar word is a guess. */
    const char *near = known_synonym(names, bare);
    if (near == NULL)
        near = spc__meant(bare, names);
    size_t length =
        (size_t)snprintf(text, sizeof(text), "unknown %s '%s'%s%.40s%s", what,
                         bare, near != NULL ? ": did you mean '" : "",
                         near != NULL ? near : "", near != NULL ? "'?" : "");
    for (int i = 0; names[i] != NULL && length < sizeof(text); i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s",
                                   i == 0 ? " (" : ", ", names[i]);
    return spc__fail(error, SPC_EINVAL, "%s)", text);
}
