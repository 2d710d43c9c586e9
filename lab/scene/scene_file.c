/*
 * scene_file.c - scene files: the table of formats, opening, KITTI rows.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/file.h"
#include <string.h>
#include <sys/stat.h>

/* ---- KITTI: rows of float32 x y z intensity, little endian --------------- */

enum { KITTI_ROW = 16 };

static float read_f32(const unsigned char *bytes)
{
    uint32_t bits = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
                    (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static spc_status read_kitti(spc__voxels *out, const spc__scene_file *file,
                             spc_error *error)
{
    int64_t rows = (int64_t)(file->bytes / KITTI_ROW);
    spc_status status = spc__scene_need_voxel(file, error);

    if (status != SPC_OK)
        return status;
    if (file->bytes % KITTI_ROW != 0)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': it ends at byte %zu in the middle "
                         "of row %lld; rows are 16 bytes (float32 x y z "
                         "intensity)",
                         file->path, file->bytes, (long long)rows);
    status = spc__voxels_reserve(out, rows, error);
    for (int64_t row = 0; row < rows && status == SPC_OK; row++) {
        const unsigned char *bytes =
            (const unsigned char *)file->data + row * KITTI_ROW;
        double point[3] = {read_f32(bytes), read_f32(bytes + 4),
                           read_f32(bytes + 8)};
        spc__place place = {file->path, row, row * KITTI_ROW};
        status = spc__voxels_add_point(out, point, file->voxel, &place, error);
    }
    return status;
}

/* ---- the table ----------------------------------------------------------- */

static const struct format {
    const char *suffix;
    spc__scene_reader read;
} formats[] = {
    {".bin", read_kitti},
    {".npy", spc__scene_read_npy},
    {".ply", spc__scene_read_ply},
};

static const struct format *find_format(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        size_t suffix = strlen(formats[i].suffix);
        if (length >= suffix &&
            strcmp(path + length - suffix, formats[i].suffix) == 0)
            return &formats[i];
    }
    return NULL;
}

bool spc__scene_is_file(const char *path)
{
    return find_format(path) != NULL;
}

spc_status spc__scene_need_voxel(const spc__scene_file *file, spc_error *error)
{
    if (file->voxel > 0 || file->gridded)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "'%s' holds points and needs a voxel size in its unit: "
                     "write %s@0.05",
                     file->path, file->path);
}

/* What can be refused before any byte is read. */
static spc_status check_path(const char *path, spc_error *error)
{
    struct stat facts;
    const int64_t most = (int64_t)SPC__SCENE_MAX_POINTS * KITTI_ROW;

    if (stat(path, &facts) != 0)
        return SPC_OK; /* opening it gives the better sentence */
    if (S_ISDIR(facts.st_mode))
        return spc__fail(error, SPC_EIO,
                         "cannot read '%s': it is a directory, not a file of "
                         "points",
                         path);
    if (!S_ISREG(facts.st_mode)) /* opening a pipe waits, a device never ends */
        return spc__fail(error, SPC_EIO,
                         "cannot read '%s': it is a pipe, a socket or a "
                         "device, not a plain file of points",
                         path);
    if (facts.st_size > most)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': its %lld bytes are more than the "
                         "%lld of 2^31 - 1 points; cut it into smaller scenes",
                         path, (long long)facts.st_size, (long long)most);
    return SPC_OK;
}

spc_status spc__scene_read(spc__voxels *out, const char *path, double voxel,
                           spc_error *error)
{
    const struct format *format = find_format(path);
    spc__buf data = SPC__BUF_INIT;
    spc_status status;

    if (format == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' is no scene: files end in .bin, .npy or .ply, "
                         "generated scenes begin with gen:",
                         path);
    if ((status = check_path(path, error)) != SPC_OK)
        return status;
    status = spc__file_read(&data, path,
                            (size_t)SPC__SCENE_MAX_POINTS * KITTI_ROW, error);
    if (status == SPC_OK && data.length == 0)
        status =
            spc__fail(error, SPC_EFORMAT,
                      "cannot read '%s': the file is empty (0 bytes)", path);
    if (status == SPC_OK) {
        spc__scene_file file = {path, data.data, data.length, voxel,
                                out->grid != NULL};
        status = format->read(out, &file, error);
    }
    spc__buf_release(&data);
    return status;
}
