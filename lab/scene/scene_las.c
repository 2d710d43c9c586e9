/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_las.c - LAS files of versions 1.0 to 1.4, with the point formats 0 to
 * 10 (ASPRS, LAS specification 1.4-R15): rows are x, y, z, intensity, return
 * number, number of returns, classification, then what the format has of GPS
 * time, red, green, blue and near infrared.
 *
 * Compressed files (.laz) are read by laszip, if it was found at configure
 * time.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/plural.h"
#include "lab/scene/cell.h"
#include "lab/scene/scene_las.h"
#include <math.h>
#include <string.h>

enum {
    SIGNATURE_BYTES = 4,
    MINOR = 25,
    HEADER_BYTES = 94,
    DATA_BYTE = 96,
    FORMAT = 104,
    RECORD_BYTES = 105,
    COUNT_32 = 107,
    SCALE = 131,
    OFFSET = 155,
    COUNT_64 = 247,
    LEAST_HEADER = 227,
    LEAST_HEADER_1_4 = 375
};

/* Bytes of a record and offsets of its parts, by point format; 0: the format
 * lacks the part. */
static const struct las_format {
    int bytes, time, colour, infrared;
} formats[SPC__LAS_FORMATS] = {
    {20, 0, 0, 0},    {28, 20, 0, 0},  {26, 0, 20, 0},   {34, 20, 28, 0},
    {57, 20, 0, 0},   {63, 20, 28, 0}, {30, 22, 0, 0},   {36, 22, 30, 0},
    {38, 22, 30, 36}, {59, 22, 0, 0},  {67, 22, 30, 36},
};

static spc_status fail(const spc__scene_file *file, spc_error *error,
                       const char *what)
{
    return spc__fail(error, SPC_EFORMAT, "cannot read '%s': %s", file->path,
                     what);
}

static double number(const spc__scene_file *file, spc__cell type, int byte)
{
    return spc__cell_read(type, file->data + byte, false);
}

/* ---- the header ---------------------------------------------------------- */

static spc_status read_axes(spc__las *out, const spc__scene_file *file,
                            spc_error *error)
{
    for (int a = 0; a < 3; a++) {
        out->scale[a] = number(file, SPC__CELL_F64, SCALE + 8 * a);
        out->offset[a] = number(file, SPC__CELL_F64, OFFSET + 8 * a);
        if (!isfinite(out->scale[a]) || out->scale[a] == 0 ||
            !isfinite(out->offset[a]))
            return spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': the scale of %c is %g and its "
                             "offset %g (byte %d); expected finite numbers, "
                             "and a scale that is not 0",
                             file->path, "xyz"[a], out -> scale[a],
                             out -> offset[a], SCALE + 8 * a);
    }
    return SPC_OK;
}

/* Version 1.4 has a second count, which is 0 in files of some writers. */
static double count_of(const spc__scene_file *file, int minor)
{
    double count = minor >= 4 ? number(file, SPC__CELL_U64, COUNT_64) : 0;

    return count > 0 ? count : number(file, SPC__CELL_U32, COUNT_32);
}

static spc_status read_format(spc__las *out, const spc__scene_file *file,
                              spc_error *error)
{
    int format = (int)number(file, SPC__CELL_U8, FORMAT);

    /* The two upper bits mark compressed points. */
    out->is_compressed = format >= 64;
    out->format = format & 63;
    out->record_bytes = (int)number(file, SPC__CELL_U16, RECORD_BYTES);
    if (out->format >= SPC__LAS_FORMATS)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "cannot read '%s': its points have format %d (byte "
                         "%d); formats 0 to 10 are known",
                         file->path, out->format, FORMAT);
    if (out->record_bytes < formats[out->format].bytes)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': its points have %d bytes (byte "
                         "%d); points of format %d have at least %d",
                         file->path, out->record_bytes, RECORD_BYTES,
                         out->format, formats[out->format].bytes);
    return SPC_OK;
}

static spc_status read_header(spc__las *out, const spc__scene_file *file,
                              spc_error *error)
{
    spc_status status;

    if (file->bytes < SIGNATURE_BYTES || memcmp(file->data, "LASF", 4) != 0)
        return fail(file, error, "it does not begin with 'LASF'");
    if (file->bytes < LEAST_HEADER)
        return fail(file, error, "it ends inside its header of 227 bytes");
    int minor = (int)number(file, SPC__CELL_U8, MINOR);
    if (number(file, SPC__CELL_U8, MINOR - 1) != 1 || minor > 4)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "cannot read '%s': it has version %d.%d of LAS; 1.0 "
                         "to 1.4 are known",
                         file->path, (int)number(file, SPC__CELL_U8, MINOR - 1),
                         minor);
    double header = number(file, SPC__CELL_U16, HEADER_BYTES);
    int least = minor >= 4 ? LEAST_HEADER_1_4 : LEAST_HEADER;
    if (header < least || header > (double)file->bytes)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': its header is stated to have %g "
                         "bytes; version 1.%d has at least %d, and the file "
                         "%zu",
                         file->path, header, minor, least, file->bytes);
    out->first_byte = (int64_t)number(file, SPC__CELL_U32, DATA_BYTE);
    double count = count_of(file, minor);
    if (count > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': its header announces %.0f points; "
                         "at most 2^31 - 1 are possible",
                         file->path, count);
    out->count = (int64_t)count;
    if ((status = read_format(out, file, error)) != SPC_OK)
        return status;
    return read_axes(out, file, error);
}

/* ---- points -------------------------------------------------------------- */

int spc__las_columns(int format)
{
    const struct las_format *f = &formats[format];

    return 7 + (f->time > 0) + 3 * (f->colour > 0) + (f->infrared > 0);
}

bool spc__las_has_time(int format)
{
    return formats[format].time > 0;
}

spc_status spc__las_begin(spc__rows *to, const spc__las *las, spc_error *error)
{
    spc__columns columns;

    spc__columns_count(&columns, spc__las_columns(las->format));
    return to->begin(to, las->count, &columns, false, error);
}

static double part(const char *point, spc__cell type, int byte)
{
    return spc__cell_read(type, point + byte, false);
}

/* Formats from 6 on have wider fields for returns and classes. */
static void read_point(double *out, const spc__las *las, const char *point)
{
    const struct las_format *f = &formats[las->format];
    int returns = (int)part(point, SPC__CELL_U8, 14);
    int n = 7, wide = las->format >= 6;

    for (int a = 0; a < 3; a++)
        out[a] =
            part(point, SPC__CELL_I32, 4 * a) * las->scale[a] + las->offset[a];
    out[3] = part(point, SPC__CELL_U16, 12);
    out[4] = returns & (wide ? 15 : 7);
    out[5] = wide ? returns >> 4 : returns >> 3 & 7;
    out[6] = wide ? part(point, SPC__CELL_U8, 16)
                  : (int)part(point, SPC__CELL_U8, 15) & 31;
    if (f->time > 0)
        out[n++] = part(point, SPC__CELL_F64, f->time);
    for (int c = 0; c < 3 && f->colour > 0; c++)
        out[n++] = part(point, SPC__CELL_U16, f->colour + 2 * c);
    if (f->infrared > 0)
        out[n++] = part(point, SPC__CELL_U16, f->infrared);
}

static spc_status take_points(spc__rows *to, const spc__las *las,
                              const spc__scene_file *file, spc_error *error)
{
    int64_t left = (int64_t)file->bytes - las->first_byte;
    int64_t whole = left > 0 ? left / las->record_bytes : 0;
    spc_status status;

    if (las->first_byte < LEAST_HEADER || whole < las->count)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': its header announces %s of %d "
                         "bytes from byte %lld on, but the file has %zu bytes",
                         file->path, spc__count(las->count, "point"),
                         las->record_bytes, (long long)las->first_byte,
                         file->bytes);
    status = spc__las_begin(to, las, error);
    for (int64_t row = 0; row < las->count && status == SPC_OK; row++) {
        double numbers[SPC__COLUMNS_MOST];
        spc__source_position place = {
            file->path, row, las->first_byte + row * las->record_bytes};
        read_point(numbers, las, file->data + place.byte);
        status = to->take(to, numbers, &place, error);
    }
    return status;
}

spc_status spc__scene_read_las(spc__rows *to, const spc__scene_file *file,
                               spc_error *error)
{
    spc__las las;
    spc_status status = read_header(&las, file, error);

    if (status != SPC_OK)
        return status;
    if (file->columns.count > 0)
        return spc__fail_columns(file, error);
    return las.is_compressed ? spc__laz_take_points(to, &las, file, error)
                             : take_points(to, &las, file, error);
}
