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
#include "base/text/words.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- words after the name ------------------------------------------------ */

enum { OF_FILE = 1, OF_GENERATOR = 2 };

static const spc__word words[] = {
    {"level", offsetof(spc__scene_spec, level), "3",
     SPC__INT(0, 30, "halvings of the resolution")},
    {"columns", offsetof(spc__scene_spec, columns), "xyzir",
     SPC__OWN(spc__columns_read), .only = OF_FILE},
    {0},
};

/* Reads one size for all axes, or three. The words after them have an '='. */
static spc_status read_sizes(double sizes[3], spc__span *rest, spc_error *error)
{
    int count = 0;

    do {
        spc__span size = spc__scan_part(rest, ',');
        if (!spc__scan_real(&sizes[count++], size) || !(sizes[count - 1] > 0) ||
            !isfinite(sizes[count - 1]))
            return spc__fail(error, SPC_EINVAL,
                             "voxel size '%.*s': expected a number above 0, as "
                             "in FILE.bin@0.05 or FILE.bin@0.05,0.05,0.1",
                             SPC__SPAN(size));
    } while (count < 3 && rest->at != NULL &&
             strcspn(rest->at, "=") >= strcspn(rest->at, ","));
    if (count == 2)
        return spc__fail(error, SPC_EINVAL,
                         "two voxel sizes: expected one for all axes, or one "
                         "for each of x, y and z");
    if (count == 1)
        sizes[1] = sizes[2] = sizes[0];
    return SPC_OK;
}

/* Reads "@0.05,0.05,0.1,level=2". */
static spc_status read_tail(spc__scene_spec *out, const char *tail,
                            const char *spec, spc_error *error)
{
    spc__word_list list = {.table = words,
                           .kind = out->is_file ? OF_FILE : OF_GENERATOR};
    spc__span rest = {NULL, 0};
    spc_status status = SPC_OK;

    if (*tail != '\0')
        rest = spc__span_of(tail + 1);
    if (*tail == '@')
        status = read_sizes(out->voxel, &rest, error);
    if (status == SPC_OK)
        status = spc__word_list_read(out, &list, spec, rest, error);
    return status == SPC_OK ? SPC_OK
                            : spc__fail_prefix(error, "scene '%s': ", spec);
}

/* Returns the length of the file's name; 0 if the text names no file. */
static size_t file_length(const char *spec)
{
    for (size_t end = strlen(spec); end > 0; end--)
        if ((spec[end] == '\0' || spec[end] == '@' || spec[end] == ',') &&
            spc__scene_has_suffix(spec, end))
            return end;
    return 0;
}

/* Finds the start of the words that every generator has. */
static size_t generator_length(const char *spec)
{
    size_t length = strcspn(spec, "@");
    const char *level = strstr(spec, ",level=");

    return level != NULL && level < spec + length ? (size_t)(level - spec)
                                                  : length;
}

/* The first `length` characters are the name. */
static spc_status split(spc__scene_spec *out, const char *spec, size_t length,
                        spc_error *error)
{
    spc_status status;

    out->name = strndup(spec, length);
    if (out->name == NULL)
        return spc__fail_memory(error, length + 1);
    if ((status = read_tail(out, spec + length, spec, error)) != SPC_OK)
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
                         "'%s' is not a scene: expected a file .bin, .npy, "
                         ".ply, .pcd, .las, .laz, .xyz, .txt or .csv, or "
                         "gen:NAME",
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
