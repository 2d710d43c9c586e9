/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_file.c - scene files: the table of formats, opening, rows as voxels.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/file.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- the table ----------------------------------------------------------- */

static const struct format {
    const char *suffix;
    spc__scene_reader read;
} formats[] = {
    {".bin", spc__scene_read_raw},
    {".npy", spc__scene_read_npy},
    {".ply", spc__scene_read_ply},
    {".pcd", spc__scene_read_pcd},
    {".las", spc__scene_read_las},
    {".laz", spc__scene_read_las},
    {".xyz", spc__scene_read_text},
    {".txt", spc__scene_read_text},
    {".csv", spc__scene_read_text},
};

static const struct format *find_format(const char *path, size_t length)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        size_t suffix = strlen(formats[i].suffix);
        if (length >= suffix && strncasecmp(path + length - suffix,
                                            formats[i].suffix, suffix) == 0)
            return &formats[i];
    }
    return NULL;
}

bool spc__scene_has_suffix(const char *path, size_t length)
{
    return find_format(path, length) != NULL;
}

spc_status spc__fail_columns(const spc__scene_file *file, spc_error *error)
{
    return spc__fail(error, SPC_EINVAL,
                     "'%s' names its columns itself: drop the columns=",
                     file->path);
}

/* ---- opening ------------------------------------------------------------- */

/* The largest size of a file: 2^31 - 1 rows of four numbers. */
static const int64_t most_bytes = (int64_t)SPC__SCENE_MAX_POINTS * 16;

/* Makes the checks that do not read the file. */
static spc_status check_path(const char *path, spc_error *error)
{
    struct stat facts;

    if (stat(path, &facts) != 0)
        return SPC_OK; /* opening the file gives a better error message */
    if (S_ISDIR(facts.st_mode))
        return spc__fail(error, SPC_EIO,
                         "cannot read '%s': it is a directory, not a file of "
                         "points",
                         path);
    /* opening a pipe blocks, and a device never ends */
    if (!S_ISREG(facts.st_mode))
        return spc__fail(error, SPC_EIO,
                         "cannot read '%s': it is a pipe, a socket or a "
                         "device, not a plain file of points",
                         path);
    if (facts.st_size > most_bytes)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': its %lld bytes are more than the "
                         "%lld of 2^31 - 1 points; cut it into smaller scenes",
                         path, (long long)facts.st_size, (long long)most_bytes);
    return SPC_OK;
}

spc_status spc__scene_read_file(spc__rows *to, const spc__scene_spec *spec,
                                const int expected[SPC__EXPECTED],
                                spc_error *error)
{
    const char *path = spec->name;
    const struct format *format = find_format(path, strlen(path));
    spc__buf data = SPC__BUF_INIT;
    spc_status status;

    if (format == NULL)
        format = &formats[0];
    if ((status = check_path(path, error)) != SPC_OK)
        return status;
    status = spc__file_read(&data, path, (size_t)most_bytes, error);
    /* A frame may have no points; other formats have at least a header. */
    if (status == SPC_OK && data.length == 0 && format != &formats[0])
        status =
            spc__fail(error, SPC_EFORMAT,
                      "cannot read '%s': the file is empty (0 bytes)", path);
    if (status == SPC_OK) {
        spc__scene_file file = {path,
                                data.length > 0 ? data.data : "",
                                data.length,
                                spec->columns,
                                {expected[0], expected[1]}};
        status = format->read(to, &file, error);
    }
    spc__buf_release(&data);
    return status;
}

/* ---- rows as voxels ------------------------------------------------------ */

typedef struct voxel_rows {
    spc__rows rows;
    spc__voxels *out;
    const char *path;
    spc__columns columns;
    bool whole;
} voxel_rows;

/* Checks that integers come without a voxel size, and points with one. */
static spc_status begin_voxels(spc__rows *to, int64_t rows,
                               const spc__columns *columns, bool whole,
                               spc_error *error)
{
    voxel_rows *v = (voxel_rows *)to;
    bool has_size = v->out->size[0] > 0;

    v->columns = *columns;
    v->whole = whole;
    if (whole && has_size)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' holds integer voxels, which take no voxel size; "
                         "drop the @%g",
                         v->path, v->out->size[0]);
    if (!whole && !has_size && v->out->grid == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' holds points and needs a voxel size in its "
                         "unit: write %s@0.05",
                         v->path, v->path);
    return spc__voxels_reserve(v->out, rows, error);
}

/* Converts a number of a row to int32, which must be at least `least`. */
static spc_status read_int(int32_t *out, double value, int column, double least,
                           const spc__source_position *source, spc_error *error)
{
    *out = 0;
    if (!(value >= INT32_MIN && value <= INT32_MAX))
        return spc__fail(error, SPC_ERANGE,
                         "cannot read '%s': column %d of row %lld does not fit "
                         "32 bits",
                         source->path, column, (long long)source->row);
    if (value < least || value != floor(value))
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': the batch of row %lld (byte %lld) "
                         "is %g; batches are whole numbers from 0",
                         source->path, (long long)source->row,
                         (long long)source->byte, value);
    *out = (int32_t)value;
    return SPC_OK;
}

/* Adds one row as a voxel or as a point. */
static spc_status take_voxel(spc__rows *to, const double *numbers,
                             const spc__source_position *source,
                             spc_error *error)
{
    voxel_rows *v = (voxel_rows *)to;
    const int *at = v->columns.at;
    int32_t row[4] = {0};
    spc_status status = SPC_OK;

    if (at[0] >= 0)
        status = read_int(&row[0], numbers[at[0]], at[0], 0, source, error);
    if (status == SPC_OK && !v->whole) {
        double point[3] = {numbers[at[1]], numbers[at[2]], numbers[at[3]]};
        return spc__voxels_add_point(v->out, row[0], point, source, error);
    }
    for (int i = 1; i < 4 && status == SPC_OK; i++)
        status =
            read_int(&row[i], numbers[at[i]], at[i], INT32_MIN, source, error);
    if (status == SPC_OK)
        spc__voxels_push(v->out, row[0], row[1], row[2], row[3]);
    return status;
}

/* Rows of raw files have KITTI's four numbers, or as many as the network
 * takes. */
spc_status spc__scene_read(spc__voxels *out, const spc__scene_spec *spec,
                           int channels, spc_error *error)
{
    enum { KITTI = 4, MOST_OF_FILES = 8 };
    bool likely = channels >= 3 && channels <= MOST_OF_FILES;
    const int expected[SPC__EXPECTED] = {likely ? channels : KITTI,
                                         likely && channels != KITTI ? KITTI
                                                                     : 0};
    voxel_rows to = {{begin_voxels, take_voxel}, out, spec->name, {0}, false};

    return spc__scene_read_file(&to.rows, spec, expected, error);
}
