/* SPDX-License-Identifier: Apache-2.0 */
/* scene_las.h - the header of a LAS file, for both readers of its points. */
#ifndef SPC_LAB_SCENE_LAS_H
#define SPC_LAB_SCENE_LAS_H

#include "lab/scene/scene.h"

enum { SPC__LAS_FORMATS = 11 };

typedef struct spc__las {
    int format, record_bytes;
    bool is_compressed;
    int64_t count, first_byte;
    double scale[3], offset[3];
} spc__las;

/* Announces the points, with the columns of their format. */
spc_status spc__las_begin(spc__rows *to, const spc__las *las, spc_error *error);

/* Reads compressed points, through laszip. SPC_EUNSUPPORTED: this library was
 * built without it. */
spc_status spc__laz_take_points(spc__rows *to, const spc__las *las,
                                const spc__scene_file *file, spc_error *error);

/* Returns the numbers of a point, and whether they include the GPS time. */
int spc__las_columns(int format);
bool spc__las_has_time(int format);

#endif
