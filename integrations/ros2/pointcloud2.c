/* SPDX-License-Identifier: Apache-2.0 */
/* pointcloud2.c - reads PointCloud2 messages (pointcloud2.h). */
#include "pointcloud2.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#if defined(__GNUC__)
__attribute__((__format__(__printf__, 3, 4)))
#endif
static spc_status
fail(spc_error *error, spc_status status, const char *format, ...)
{
    va_list args;

    if (error == NULL)
        return status;
    error->status = status;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return status;
}

/* ---- numbers ------------------------------------------------------------- */

static uint8_t same(uint8_t bits)
{
    return bits;
}

/* load_NAME reads one number; its bytes are reversed if `swap` is set. A field
 * may be unaligned, so the bytes are copied. */
#define LOAD(name, type, bits_type, reverse)                                   \
    static double load_##name(const uint8_t *at, bool swap)                    \
    {                                                                          \
        bits_type bits;                                                        \
        type value;                                                            \
                                                                               \
        memcpy(&bits, at, sizeof(bits));                                       \
        if (swap)                                                              \
            bits = reverse(bits);                                              \
        memcpy(&value, &bits, sizeof(value));                                  \
        return (double)value;                                                  \
    }
LOAD(int8, int8_t, uint8_t, same)
LOAD(uint8, uint8_t, uint8_t, same)
LOAD(int16, int16_t, uint16_t, __builtin_bswap16)
LOAD(uint16, uint16_t, uint16_t, __builtin_bswap16)
LOAD(int32, int32_t, uint32_t, __builtin_bswap32)
LOAD(uint32, uint32_t, uint32_t, __builtin_bswap32)
LOAD(float32, float, uint32_t, __builtin_bswap32)
LOAD(float64, double, uint64_t, __builtin_bswap64)

/* Indexed by PointField's datatype. */
static const struct {
    uint32_t bytes;
    double (*load)(const uint8_t *at, bool swap);
} types[] = {
    {0, NULL},        {1, load_int8},    {1, load_uint8},
    {2, load_int16},  {2, load_uint16},  {4, load_int32},
    {4, load_uint32}, {4, load_float32}, {8, load_float64},
};

static bool host_is_bigendian(void)
{
    const uint16_t one = 1;
    uint8_t first;

    memcpy(&first, &one, 1);
    return first == 0;
}

/* ---- the message --------------------------------------------------------- */

/* A column and its offset in a point; `load` is NULL for a constant. */
typedef struct source {
    double (*load)(const uint8_t *at, bool swap);
    uint32_t offset;
    float scale, constant;
} source;

static spc_status no_field(spc_error *error, const spc_pointcloud2 *cloud,
                           const char *name)
{
    char names[160] = "";
    size_t used = 0;

    for (size_t i = 0; i < cloud->field_count && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                 i > 0 ? ", " : "", cloud->fields[i].name);
    return fail(error, SPC_EINVAL,
                "the cloud has no field '%.40s'; its fields are: %s", name,
                cloud->field_count > 0 ? names : "none");
}

static spc_status find_source(source *out, const spc_pointcloud2 *cloud,
                              const spc_pointcloud2_column *column,
                              spc_error *error)
{
    const spc_pointcloud2_field *field = cloud->fields;
    const spc_pointcloud2_field *end = field + cloud->field_count;

    *out = (source){NULL, 0, column->scale, column->absent};
    while (field < end && strcmp(field->name, column->field) != 0)
        field++;
    if (field == end)
        return isnan(column->absent) ? no_field(error, cloud, column->field)
                                     : SPC_OK;
    if (field->datatype < 1 || field->datatype > 8)
        return fail(error, SPC_EINVAL,
                    "field '%.40s' has the datatype %u; PointCloud2 has 1 "
                    "(INT8) to 8 (FLOAT64)",
                    field->name, field->datatype);
    uint64_t last = (uint64_t)field->offset + types[field->datatype].bytes;
    if (last > cloud->point_step)
        return fail(error, SPC_EINVAL,
                    "field '%.40s' ends at byte %" PRIu64 " of a point, but "
                    "point_step is %" PRIu32,
                    field->name, last, cloud->point_step);
    out->load = types[field->datatype].load;
    out->offset = field->offset;
    return SPC_OK;
}

/* Checks that the sizes agree. The products fit, because each factor is below
 * 2^32. */
static spc_status check_sizes(const spc_pointcloud2 *cloud, spc_error *error)
{
    uint64_t row = (uint64_t)cloud->width * cloud->point_step;

    if (cloud->width == 0 || cloud->height == 0)
        return SPC_OK;
    if (cloud->point_step == 0)
        return fail(error, SPC_EINVAL,
                    "point_step is 0, but the cloud has %" PRIu32 " x %" PRIu32
                    " points",
                    cloud->height, cloud->width);
    if (row > cloud->row_step)
        return fail(error, SPC_EINVAL,
                    "a row of %" PRIu32 " points of %" PRIu32 " bytes has "
                    "%" PRIu64 " bytes, but row_step is %" PRIu32,
                    cloud->width, cloud->point_step, row, cloud->row_step);
    /* The padding after the last row may be missing, because it is never
     * read. */
    uint64_t need = (uint64_t)(cloud->height - 1) * cloud->row_step + row;
    if (cloud->data == NULL || need > cloud->data_bytes)
        return fail(error, SPC_EINVAL,
                    "the data have %zu bytes, but height %" PRIu32
                    ", width %" PRIu32 ", row_step %" PRIu32
                    " and point_step %" PRIu32 " need %" PRIu64,
                    cloud->data == NULL ? 0 : cloud->data_bytes, cloud->height,
                    cloud->width, cloud->row_step, cloud->point_step, need);
    return SPC_OK;
}

/* Returns false if a number is not finite or too large for float. */
static bool read_point(float *out, const uint8_t *point, const source *sources,
                       int count, bool swap)
{
    for (int i = 0; i < count; i++) {
        if (sources[i].load == NULL) {
            out[i] = sources[i].constant;
            continue;
        }
        double value = sources[i].load(point + sources[i].offset, swap) *
                       (double)sources[i].scale;
        if (!(fabs(value) <= FLT_MAX)) /* also false for NaN */
            return false;
        out[i] = (float)value;
    }
    return true;
}

static spc_status check_arguments(const float *out,
                                  const spc_pointcloud2_counts *counts,
                                  const spc_pointcloud2 *cloud,
                                  const spc_pointcloud2_column *columns,
                                  int count, spc_error *error)
{
    const char *null = out == NULL       ? "out"
                       : counts == NULL  ? "counts"
                       : cloud == NULL   ? "cloud"
                       : columns == NULL ? "columns"
                                         : NULL;

    if (null != NULL)
        return fail(error, SPC_EINVAL, "spc_pointcloud2_read: %s is NULL",
                    null);
    if (count < 1 || count > SPC_POINTCLOUD2_COLUMNS)
        return fail(error, SPC_EINVAL,
                    "%d columns were asked for; there can be 1 to %d", count,
                    SPC_POINTCLOUD2_COLUMNS);
    return SPC_OK;
}

spc_status spc_pointcloud2_read(float *out, spc_pointcloud2_counts *counts,
                                const spc_pointcloud2 *cloud,
                                const spc_pointcloud2_column *columns,
                                int count, int64_t capacity, spc_error *error)
{
    source sources[SPC_POINTCLOUD2_COLUMNS];
    float spare[SPC_POINTCLOUD2_COLUMNS]; /* points beyond the capacity are only
                                             counted */
    spc_status status =
        check_arguments(out, counts, cloud, columns, count, error);

    if (status != SPC_OK)
        return status;
    *counts = (spc_pointcloud2_counts){0, 0};
    for (int i = 0; i < count && status == SPC_OK; i++)
        status = find_source(&sources[i], cloud, &columns[i], error);
    if (status != SPC_OK || (status = check_sizes(cloud, error)) != SPC_OK)
        return status;
    bool swap = cloud->is_bigendian != host_is_bigendian();
    for (uint32_t y = 0; y < cloud->height && cloud->width > 0; y++) {
        const uint8_t *point = cloud->data + (size_t)y * cloud->row_step;
        for (uint32_t x = 0; x < cloud->width; x++) {
            float *row =
                counts->rows < capacity ? out + counts->rows * count : spare;
            if (read_point(row, point, sources, count, swap))
                counts->rows++;
            else
                counts->dropped++;
            point += cloud->point_step;
        }
    }
    if (counts->rows > capacity)
        return fail(error, SPC_ECAPACITY,
                    "the cloud has %" PRId64 " finite points, but there is "
                    "room for %" PRId64,
                    counts->rows, capacity);
    return SPC_OK;
}
