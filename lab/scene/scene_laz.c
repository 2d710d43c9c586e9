/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_laz.c - the points of compressed LAS files, through laszip.
 *
 * laszip opens the file by its name. The LAS reader has checked the header
 * before.
 */
#include "lab/scene/scene_las.h"

#include "base/error.h"

#ifdef SPC_WITH_LASZIP
#include <laszip/laszip_api.h>

/* The columns of scene_las.c. */
static void read_point(double *out, const spc__las *las,
                       const laszip_point_struct *point)
{
    bool wide = las->format >= 6;
    const laszip_I32 at[3] = {point->X, point->Y, point->Z};
    int n = 7;

    for (int a = 0; a < 3; a++)
        out[a] = at[a] * las->scale[a] + las->offset[a];
    out[3] = point->intensity;
    out[4] = wide ? point->extended_return_number : point->return_number;
    out[5] =
        wide ? point->extended_number_of_returns : point->number_of_returns;
    out[6] = wide ? point->extended_classification : point->classification;
    if (spc__las_has_time(las->format))
        out[n++] = point->gps_time;
    for (int c = 0; n < spc__las_columns(las->format); c++)
        out[n++] = point->rgb[c];
}

static spc_status fail(laszip_POINTER zip, const spc__source_position *place,
                       spc_error *error)
{
    laszip_CHAR *why = NULL;

    if (laszip_get_error(zip, &why) != 0 || why == NULL)
        why = "unknown error";
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': laszip at point %lld: %.200s",
                     place->path, (long long)place->row, why);
}

static spc_status take_points(spc__rows *to, laszip_POINTER zip,
                              const spc__las *las, const char *path,
                              spc_error *error)
{
    laszip_point_struct *point;
    laszip_BOOL is_compressed;
    spc__source_position place = {path, 0, las->first_byte};
    spc_status status;

    if (laszip_open_reader(zip, path, &is_compressed) != 0 ||
        laszip_get_point_pointer(zip, &point) != 0)
        return fail(zip, &place, error);
    status = spc__las_begin(to, las, error);
    for (; place.row < las->count && status == SPC_OK; place.row++) {
        double numbers[SPC__COLUMNS_MOST];
        if (laszip_read_point(zip) != 0)
            return fail(zip, &place, error);
        read_point(numbers, las, point);
        status = to->take(to, numbers, &place, error);
    }
    return status;
}

spc_status spc__laz_take_points(spc__rows *to, const spc__las *las,
                                const spc__scene_file *file, spc_error *error)
{
    laszip_POINTER zip;

    if (laszip_create(&zip) != 0)
        return spc__fail(error, SPC_ENOMEM, "cannot read '%s': laszip failed",
                         file->path);
    spc_status status = take_points(to, zip, las, file->path, error);
    laszip_close_reader(zip);
    laszip_destroy(zip);
    return status;
}

#else

spc_status spc__laz_take_points(spc__rows *to, const spc__las *las,
                                const spc__scene_file *file, spc_error *error)
{
    (void)to, (void)las;
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "cannot read '%s': its points are compressed (LAZ), and "
                     "this library was built without laszip; decompress the "
                     "file to .las, or build with laszip installed",
                     file->path);
}
#endif
