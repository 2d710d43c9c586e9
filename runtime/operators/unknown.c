/* SPDX-License-Identifier: Apache-2.0 */
/* unknown.c - the sentence for an unknown word, with a suggestion. */
#include "operators/conv.h"

#include "base/error.h"
#include "base/meant.h"
#include "base/names.h"
#include <string.h>

/* The names that other programs use. */
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

/* Returns NULL if no name is similar, since a suggestion would mislead. */
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
