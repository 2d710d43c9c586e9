/* SPDX-License-Identifier: Apache-2.0 */
/* geometry_words.c - rules between the words of a geometry. */
#include "operators/geometry_words.h"

#include "base/error.h"

spc_status spc__geometry_words_check(const spc_geometry *geometry,
                                     const spc__word_list *words,
                                     spc_error *error)
{
    static const char *const boxes[] = {"k", "dilation", "origin", "padding"};
    const int *shape = geometry->shape;

    for (int i = 0; i < 4; i++) {
        spc_status status = spc__word_list_excludes(
            words, boxes[i], "offsets", "a list of offsets is the whole kernel",
            error);
        if (status != SPC_OK)
            return status;
    }
    if (spc__word_list_has(words, "shape") &&
        (shape[0] | shape[1] | shape[2]) == 0)
        return spc__fail(error, SPC_EINVAL,
                         "shape=0x0x0: expected the shape of a set, as in "
                         "shape=1408x1600x41, where 0 is an axis without an "
                         "end; a network uses the shape of its input");
    return SPC_OK;
}
