/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_spec.c - parses the text of a scene:
 *
 *   FILE[@VOXEL][,columns=COLUMNS][,level=N]
 *   gen:NAME[,OPTION=VALUE]...[@VOXEL][,level=N]
 *
 * VOXEL is one size, or three: 0.05,0.05,0.1. A file's name may hold any
 * character, also '@', commas and "gen:": the name is the longest beginning of
 * the text that ends in a known suffix and is followed by '@', ',' or nothing.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns ------------------------------------------------------------- */

enum { FEWEST_COLUMNS = 3 };

static spc_status fail_columns(const char *text, spc_error *error)
{
    return spc__fail(error, SPC_EINVAL,
                     "columns '%s': write their number, %d to %d, if x, y and "
                     "z come first, or a letter for each: x, y, z, b (batch) "
                     "and any others, such as xyzir",
                     text, FEWEST_COLUMNS, SPC__COLUMNS_MOST);
}

void spc__columns_count(spc__columns *out, int count)
{
    *out = (spc__columns){count, {-1, 0, 1, 2}};
}

static bool read_letters(spc__columns *out, const char *text)
{
    static const char axes[] = "bxyz";

    *out = (spc__columns){(int)strlen(text), {-1, -1, -1, -1}};
    for (int i = 0; i < out->count; i++) {
        const char *axis = strchr(axes, text[i]);
        if (text[i] < 'a' || text[i] > 'z')
            return false;
        if (axis != NULL && out->at[axis - axes] >= 0)
            return false;
        if (axis != NULL)
            out->at[axis - axes] = i;
    }
    return out->at[1] >= 0 && out->at[2] >= 0 && out->at[3] >= 0;
}

spc_status spc__columns_read(spc__columns *out, const char *text,
                             spc_error *error)
{
    size_t length = strlen(text), digits = strspn(text, "0123456789");
    int count = digits == length && length > 0 && length < 4 ? atoi(text) : 0;

    if (count >= FEWEST_COLUMNS && count <= SPC__COLUMNS_MOST) {
        spc__columns_count(out, count);
        return SPC_OK;
    }
    if (length <= SPC__COLUMNS_MOST && read_letters(out, text))
        return SPC_OK;
    return fail_columns(text, error);
}

/* ---- words after the name ------------------------------------------------ */

static spc_status read_level(spc__scene_spec *out, const char *text,
                             const char *spec, spc_error *error)
{
    double value = 0;

    if (!spc__number_read(&value, text) || value != floor(value) || value < 0 ||
        value > 30)
        return spc__fail(error, SPC_EINVAL,
                         "scene '%s': level '%s' is wrong; a whole number from "
                         "0 to 30 is right, as in FILE.bin@0.05,level=3",
                         spec, text);
    out->level = (int)value;
    return SPC_OK;
}

static spc_status read_columns(spc__scene_spec *out, const char *text,
                               const char *spec, spc_error *error)
{
    if (out->is_file)
        return spc__columns_read(&out->columns, text, error);
    return spc__fail(error, SPC_EINVAL,
                     "scene '%s': only files of points have columns", spec);
}

static const struct word {
    const char *name;
    spc_status (*read)(spc__scene_spec *out, const char *text, const char *spec,
                       spc_error *error);
} words[] = {{"level", read_level}, {"columns", read_columns}};

enum { WORDS = sizeof(words) / sizeof(*words) };

static const struct word *find_word(const char *text)
{
    size_t length = strcspn(text, "=");

    for (int i = 0; i < WORDS && text[length] == '='; i++)
        if (strlen(words[i].name) == length &&
            strncmp(text, words[i].name, length) == 0)
            return &words[i];
    return NULL;
}

/* One word of the tail, "level=3". */
static spc_status read_word(spc__scene_spec *out, unsigned *seen,
                            const char *text, const char *spec,
                            spc_error *error)
{
    const struct word *word = find_word(text);

    if (word == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "scene '%s': '%s' is no word of a scene: level=N and, "
                         "of files, columns=N are known",
                         spec, text);
    if (*seen & 1u << (word - words))
        return spc__fail(error, SPC_EINVAL,
                         "scene '%s': '%s' is given twice; once is right", spec,
                         word->name);
    *seen |= 1u << (word - words);
    return word->read(out, text + strlen(word->name) + 1, spec, error);
}

/* ---- the voxel size ------------------------------------------------------ */

static spc_status read_size(double *out, const char *text, const char *spec,
                            spc_error *error)
{
    if (!spc__number_read(out, text))
        return spc__fail(error, SPC_EINVAL,
                         "scene '%s': voxel size '%s' is not a number; write "
                         "it as in FILE.bin@0.05 or FILE.bin@0.05,0.05,0.1",
                         spec, text);
    if (!(*out > 0) || !isfinite(*out))
        return spc__fail(error, SPC_EINVAL,
                         "scene '%s': voxel size %s must be positive and "
                         "finite, as in FILE.bin@0.05",
                         spec, text);
    return SPC_OK;
}

/* ---- the whole ----------------------------------------------------------- */

/* Reads "@0.05,0.05,0.1,level=2", cutting `tail` at its commas: sizes come
 * first, and words have an '='. */
static spc_status read_tail(spc__scene_spec *out, char *tail, const char *spec,
                            spc_error *error)
{
    bool has_size = *tail == '@';
    spc_status status = SPC_OK;
    unsigned seen = 0;
    int sizes = 0;

    for (char *at = tail; *at != '\0' && status == SPC_OK;) {
        bool is_size = *at == '@' || (has_size && sizes < 3 && sizes > 0 &&
                                      strcspn(at + 1, "=") >=
                                          strcspn(at + 1, ","));
        char *end = at + 1 + strcspn(at + 1, ",");
        char kept = *end;
        *end = '\0';
        status = is_size ? read_size(&out->voxel[sizes++], at + 1, spec, error)
                         : read_word(out, &seen, at + 1, spec, error);
        *end = kept;
        at = end;
    }
    if (status != SPC_OK || sizes == 0 || sizes == 3)
        return status;
    if (sizes == 2)
        return spc__fail(error, SPC_EINVAL,
                         "scene '%s': two voxel sizes; one for all axes or "
                         "three, of x, y and z, are right",
                         spec);
    out->voxel[1] = out->voxel[2] = out->voxel[0];
    return SPC_OK;
}

/* The length of the file's name; 0 if the text names no file. */
static size_t file_length(const char *spec)
{
    for (size_t end = strlen(spec); end > 0; end--)
        if ((spec[end] == '\0' || spec[end] == '@' || spec[end] == ',') &&
            spc__scene_has_suffix(spec, end))
            return end;
    return 0;
}

/* The start of the words that every generator has: at "@" or at a word. */
static size_t generator_length(const char *spec)
{
    size_t at = strcspn(spec, "@");

    for (size_t i = 0; i < at; i++)
        if (spec[i] == ',' && find_word(spec + i + 1) != NULL)
            return i;
    return at;
}

/* The first `length` characters are the name. */
static spc_status split(spc__scene_spec *out, const char *spec, size_t length,
                        spc_error *error)
{
    char *tail = strdup(spec + length);
    out->name = strndup(spec, length);
    spc_status status = tail != NULL && out->name != NULL
                            ? read_tail(out, tail, spec, error)
                            : spc__fail_memory(error, strlen(spec) + 1);
    free(tail);
    if (status != SPC_OK)
        spc__scene_spec_release(out);
    return status;
}

spc_status spc__scene_spec_read(spc__scene_spec *out, const char *spec,
                                spc_error *error)
{
    size_t length = spec != NULL ? file_length(spec) : 0;

    *out = (spc__scene_spec){.is_file = length > 0};
    if (spec == NULL || *spec == '\0')
        return spc__fail(error, SPC_EINVAL,
                         "a scene needs a specification such as "
                         "FILE.bin@0.05 or gen:shell,r=256");
    if (!out->is_file && strncmp(spec, "gen:", 4) != 0)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' is no scene: files end in .bin, .npy or .ply, "
                         "generated scenes begin with gen:",
                         spec);
    return split(out, spec, out->is_file ? length : generator_length(spec),
                 error);
}

spc_status spc__file_spec_read(spc__scene_spec *out, const char *spec,
                               spc_error *error)
{
    size_t length = file_length(spec);
    const char *columns = strstr(spec, ",columns=");

    *out = (spc__scene_spec){.is_file = true};
    if (length == 0)
        length = columns != NULL ? (size_t)(columns - spec) : strlen(spec);
    return split(out, spec, length, error);
}

void spc__scene_spec_release(spc__scene_spec *spec)
{
    free(spec->name);
    spec->name = NULL;
}
