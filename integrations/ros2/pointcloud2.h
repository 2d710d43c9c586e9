/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pointcloud2.h - the points of a sensor_msgs/PointCloud2 message as rows of
 * float, as spc_net_buffers.points has them. It needs no ROS: the caller passes
 * the members of the message separately.
 */
#ifndef SPC_POINTCLOUD2_H
#define SPC_POINTCLOUD2_H

#include <spc/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of a field, numbered as in sensor_msgs/PointField. */
typedef struct spc_pointcloud2_field {
    const char *name;
    uint32_t offset;  /* offset of its first byte in a point */
    uint8_t datatype; /* 1 (INT8) to 8 (FLOAT64) */
} spc_pointcloud2_field;

/* The members of the message. is_dense is not used: points that are not finite
 * are always dropped. */
typedef struct spc_pointcloud2 {
    const spc_pointcloud2_field *fields;
    size_t field_count;
    uint32_t height, width;
    uint32_t point_step, row_step; /* bytes per row, including padding */
    bool is_bigendian;
    const uint8_t *data;
    size_t data_bytes;
} spc_pointcloud2;

/* One number of an output row: `scale` times the field, or `absent` if the
 * message lacks the field. If `absent` is NaN, a message without the field is
 * refused. */
typedef struct spc_pointcloud2_column {
    const char *field;
    float scale, absent;
} spc_pointcloud2_column;

enum { SPC_POINTCLOUD2_COLUMNS = 16 }; /* maximum number of columns */

typedef struct spc_pointcloud2_counts {
    int64_t rows;    /* written */
    int64_t dropped; /* points with a number that is not finite as a float */
} spc_pointcloud2_counts;

/*
 * Writes the points to out[capacity][count], in the order of the message.
 * 'columns' has 1 to SPC_POINTCLOUD2_COLUMNS elements. If a field has several
 * elements, the first is read. Integers above 2^24 are rounded to float.
 * Allocates nothing. SPC_EINVAL: an argument is NULL, a field is missing or has
 * an unknown type, or the sizes contradict each other; SPC_ECAPACITY: more
 * points than `capacity`; *counts has their number. *error (may be NULL)
 * receives the message.
 */
spc_status spc_pointcloud2_read(float *out, spc_pointcloud2_counts *counts,
                                const spc_pointcloud2 *cloud,
                                const spc_pointcloud2_column *columns,
                                int count, int64_t capacity, spc_error *error);

#ifdef __cplusplus
}
#endif
#endif
