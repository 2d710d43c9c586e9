/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene.h - scenes from specifications: voxels while they are collected, the
 * readers of files and the generators.
 *
 * A new file format is a file scene_<format>.c and a row in scene_file.c; a new
 * generator is a row in scene_gen.c.
 */
#ifndef SPC_LAB_SCENE_H
#define SPC_LAB_SCENE_H

#include "base/buf.h"
#include "base/random.h"
#include "base/text/columns.h"
#include "coords/scene.h"
#include "spc.h"
#include "spc/lab.h"

/*
 * The rule by which a network turns points into voxels: floor((p - low) / size)
 * in float, as in detectors. Cells outside of 0 to cells - 1 are dropped.
 */
typedef struct spc__grid {
    float low[3], size[3];
    int cells[3];
} spc__grid;

/* Rows batch, x, y, z in the order of arrival. */
typedef struct spc__voxels {
    int32_t *at;
    int64_t count;
    int64_t capacity;
    double size[3];        /* size of a voxel; 0: not given */
    const spc__grid *grid; /* grid that replaces sizes; may be NULL */
    spc_scene_info info;
} spc__voxels;

void spc__voxels_release(spc__voxels *voxels);

/* Makes room for `more` rows. */
spc_status spc__voxels_reserve(spc__voxels *voxels, int64_t more,
                               spc_error *error);

/* Appends one row; room must have been reserved. */
void spc__voxels_push(spc__voxels *voxels, int32_t batch, int32_t x, int32_t y,
                      int32_t z);

/* The position of a row in a file, for error messages. */
typedef struct spc__source_position {
    const char *path;
    int64_t row;  /* index from 0 */
    int64_t byte; /* offset in the file, in bytes */
} spc__source_position;

/*
 * Appends the voxel of a point, floor(point / size) or that of the grid; room
 * must have been reserved. A point with a coordinate that is NaN or infinite is
 * left out and counted, as is one outside the grid. SPC_ERANGE: the voxel does
 * not fit int32.
 */
spc_status spc__voxels_add_point(spc__voxels *voxels, int32_t batch,
                                 const double point[3],
                                 const spc__source_position *source,
                                 spc_error *error);

/* Orders the rows by (batch, x, y, z) and merges equal ones. */
spc_status spc__voxels_sort(spc__voxels *voxels, spc_error *error);

/* Drops and counts voxels outside of 0 to shape - 1; 0: no limit. */
void spc__voxels_crop(spc__voxels *voxels, const int shape[3]);

/* ---- specifications ------------------------------------------------------ */

typedef struct spc__scene_spec {
    /* the name of a file, or a generator and its options with "gen:" */
    char *name;
    bool is_file;
    double voxel[3]; /* 0: not given */
    spc__columns columns;
    int level;
} spc__scene_spec;

spc_status spc__scene_spec_read(spc__scene_spec *out, const char *spec,
                                spc_error *error);
/* Reads the specification of a file, whose name may have any suffix. */
spc_status spc__file_spec_read(spc__scene_spec *out, const char *spec,
                               spc_error *error);
void spc__scene_spec_release(spc__scene_spec *spec);

/* The requirements of a network on its scenes. */
typedef struct spc__scene_range {
    const spc__grid *grid; /* grid of points; may be NULL */
    const int *shape;      /* spatial shape [3]; may be NULL */
    int channels;          /* columns of file rows; 0: any number */
} spc__scene_range;

/* Loads the scene of a specification; `range` may be NULL. */
spc_status spc__scene_load(spc_scene **out, const char *text,
                           const spc__scene_spec *spec,
                           const spc__scene_range *range, spc_error *error);

/* ---- files --------------------------------------------------------------- */

/* Receives the rows of a file. */
typedef struct spc__rows {
    /* `whole`: the numbers are integers, which are voxels. */
    spc_status (*begin)(struct spc__rows *to, int64_t rows,
                        const spc__columns *columns, bool whole,
                        spc_error *error);
    spc_status (*take)(struct spc__rows *to, const double *numbers,
                       const spc__source_position *source, spc_error *error);
} spc__rows;

enum { SPC__EXPECTED = 2 };

/* The input of a reader: the whole file, terminated by a zero. */
typedef struct spc__scene_file {
    const char *path;
    const char *data;
    size_t bytes;
    spc__columns columns; /* columns that the specification states */
    /*
     * Otherwise the likely numbers of columns, the likeliest first; 0 ends the
     * list. Formats that state the number ignore them.
     */
    int expected[SPC__EXPECTED];
} spc__scene_file;

typedef spc_status (*spc__scene_reader)(spc__rows *to,
                                        const spc__scene_file *file,
                                        spc_error *error);

spc_status spc__scene_read_raw(spc__rows *to, const spc__scene_file *file,
                               spc_error *error);
spc_status spc__scene_read_npy(spc__rows *to, const spc__scene_file *file,
                               spc_error *error);
spc_status spc__scene_read_ply(spc__rows *to, const spc__scene_file *file,
                               spc_error *error);
spc_status spc__scene_read_pcd(spc__rows *to, const spc__scene_file *file,
                               spc_error *error);
spc_status spc__scene_read_las(spc__rows *to, const spc__scene_file *file,
                               spc_error *error);
spc_status spc__scene_read_text(spc__rows *to, const spc__scene_file *file,
                                spc_error *error);

/* Refuses stated columns for a format that names its columns. */
spc_status spc__fail_columns(const spc__scene_file *file, spc_error *error);

/*
 * True if the first `length` characters end in the suffix of a known format, in
 * letters of any case.
 */
bool spc__scene_has_suffix(const char *path, size_t length);

/* Reads a file of any known format; with an unknown suffix, as raw rows. */
spc_status spc__scene_read_file(spc__rows *to, const spc__scene_spec *spec,
                                const int expected[SPC__EXPECTED],
                                spc_error *error);

/* Reads the rows of a file as voxels. */
spc_status spc__scene_read(spc__voxels *out, const spc__scene_spec *spec,
                           int channels, spc_error *error);

/* ---- generators ---------------------------------------------------------- */

/* The values of a generator's options, in the order of its table. */
typedef struct spc__scene_values {
    int64_t at[4];
    bool has_voxel; /* true if the caller has set out->size */
} spc__scene_values;

/*
 * The sine and cosine of an angle in turns, computed only with +, - and *, so
 * that every machine gets the same bits. libm does not promise this.
 */
void spc__scene_sincos(double *cosine, double *sine, double turns);

/*
 * Returns a random number with mean 0, deviation 1 and magnitude at most 3.5: a
 * sum of uniform numbers, for the same reason.
 */
double spc__scene_noise(spc__random *random);

/* Rounds to float, as a file would store the number. */
double spc__scene_float(double value);

spc_status spc__scene_street(spc__voxels *out, const spc__scene_values *values,
                             spc_error *error);
spc_status spc__scene_room(spc__voxels *out, const spc__scene_values *values,
                           spc_error *error);

/*
 * Runs "shell,r=256" (the text between "gen:" and "@"). out->size 0: the
 * generator's default.
 */
spc_status spc__scene_generate(spc__voxels *out, const char *text,
                               spc_error *error);

#endif
