/* SPDX-License-Identifier: Apache-2.0 */
/* unknown.c - the sentence for a word that is not known: which was meant. */
#include "operators/conv.h"

#include "base/error.h"
#include "base/meant.h"
#include "base/names.h"
#include <string.h>

/* What other programs call it. */
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

/* Of these the one that is known; NULL: none is. */
static const char *known_synonym(const char *const *names, const char *word)
{
    for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++)
        if (strcmp(word, synonyms[i].theirs) == 0 &&
            spc__name_index(names, synonyms[i].ours) >= 0)
            return synonyms[i].ours;
    return NULL;
}

/* NULL: it is like none of them, and to name one would mislead. */
static const char *nearest_name(const char *const *names, const char *word)
{
    const char *best = known_synonym(names, word);

    return best != NULL ? best : spc__meant(word, names);
}

spc_status spc__fail_unknown(spc_error *error, const char *what,
                             const char *word, const char *const *names)
{
    char text[480];

    if (names[0] == NULL)
        return spc__fail(error, SPC_EINVAL, "unknown %s '%.40s': there is none",
                         what, word);
    return spc__fail(error, SPC_EINVAL, "%s",
                     spc__unknown(text, sizeof(text), what, word,
                                  nearest_name(names, word), names));
}
