/* SPDX-License-Identifier: Apache-2.0 */
/* geometry_words.h - the words of a geometry, for the tables of all texts. */
#ifndef SPC_RUNTIME_GEOMETRY_WORDS_H
#define SPC_RUNTIME_GEOMETRY_WORDS_H

#include "base/text/words.h"
#include "operators/geometry.h"
#include "operators/offset_list.h"

#define SPC__BOX_WORD(type, kinds, name, field, value, low, high)              \
    {                                                                          \
        name, offsetof(type, geometry.field), value, SPC__AXES(low, high),     \
            .only = kinds                                                      \
    }

/* Rows for a struct with a member `geometry`. */
#define SPC__GEOMETRY_WORDS(type, kinds)                                       \
    SPC__BOX_WORD(type, kinds, "k", kernel, "3x3x1", 1, SPC_MAX_OFFSETS),      \
        SPC__BOX_WORD(type, kinds, "stride", stride, "2x2x1", 1,               \
                      SPC__GEOMETRY_MOST),                                     \
        SPC__BOX_WORD(type, kinds, "dilation", dilation, "2x2x1", 1,           \
                      SPC__GEOMETRY_MOST),                                     \
        SPC__BOX_WORD(type, kinds, "padding", padding, "1x1x0", 0,             \
                      SPC__GEOMETRY_MOST),                                     \
        SPC__BOX_WORD(type, kinds, "origin", origin, "0x0x-1",                 \
                      -SPC__GEOMETRY_MOST, SPC__GEOMETRY_MOST),                \
        SPC__BOX_WORD(type, kinds, "shape", shape, "1408x1600x41", 0,          \
                      SPC__SHAPE_MOST),                                        \
    {                                                                          \
        "offsets", offsetof(type, geometry), "0x0x0+1x0x0",                    \
            SPC__OWN(spc__list_read), .only = kinds                            \
    }

/* Refuses words that exclude each other, and a shape without an end. */
spc_status spc__geometry_words_check(const spc_geometry *geometry,
                                     const spc__word_list *words,
                                     spc_error *error);

#endif
