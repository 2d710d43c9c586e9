/*
 * scene.h - scenes inside the runtime: voxels while they are collected, the
 * readers of files and the generators.
 *
 * A new file format is a file scene_<format>.c and a row in scene_file.c; a new
 * generator is a row in scene_gen.c.
 */
#ifndef SPC_RUNTIME_SCENE_H
#define SPC_RUNTIME_SCENE_H

#include "base/buf.h"
#include "base/random.h"
#include "spc.h"

struct spc_scene {
    int32_t *coords; /* [rows][4] */
    int64_t rows;
    char *name;
};

/* How a network turns points into voxels: floor((p - low) / size) in float, as
 * detectors have it; of those outside 0 to cells - 1 there is none. */
typedef struct spc__grid {
    float low[3], size[3];
    int cells[3];
} spc__grid;

/* Rows batch, x, y, z in the order of arrival. */
typedef struct spc__voxels {
    int32_t *at;
    int64_t count;
    int64_t capacity;
    const spc__grid *grid; /* of points; NULL: the voxel size says all */
} spc__voxels;

enum { SPC__SCENE_MAX_POINTS = INT32_MAX };

void spc__voxels_release(spc__voxels *voxels);

/* Makes room for `more` rows. */
spc_status spc__voxels_reserve(spc__voxels *voxels, int64_t more,
                               spc_error *error);

/* Appends one row; room must have been reserved. */
void spc__voxels_push(spc__voxels *voxels, int32_t batch, int32_t x, int32_t y,
                      int32_t z);

/* Where a row was read, for the sentence of a failure. */
typedef struct spc__place {
    const char *path;
    int64_t row;  /* counted from 0 */
    int64_t byte; /* its offset in the file */
} spc__place;

/*
 * Appends the voxel floor(point / voxel) in batch 0; room must have been
 * reserved. SPC_EFORMAT: NaN or infinite; SPC_ERANGE: does not fit int32.
 */
spc_status spc__voxels_add_point(spc__voxels *voxels, const double point[3],
                                 double voxel, const spc__place *place,
                                 spc_error *error);

/* Orders the rows by (batch, x, y, z) and merges equal ones. */
spc_status spc__voxels_sort(spc__voxels *voxels, spc_error *error);

/* A scene of a file whose points become voxels of a grid; a file of voxels is
 * taken as it is. */
spc_status spc__scene_load_grid(spc_scene **out, const char *path,
                                const spc__grid *grid, spc_error *error);

/* ---- files --------------------------------------------------------------- */

/* What a reader gets: the whole file, terminated. */
typedef struct spc__scene_file {
    const char *path;
    const char *data;
    size_t bytes;
    double voxel; /* 0: the specification has none */
    bool gridded; /* the voxels have a grid instead */
} spc__scene_file;

typedef spc_status (*spc__scene_reader)(spc__voxels *out,
                                        const spc__scene_file *file,
                                        spc_error *error);

spc_status spc__scene_read_npy(spc__voxels *out, const spc__scene_file *file,
                               spc_error *error);
spc_status spc__scene_read_ply(spc__voxels *out, const spc__scene_file *file,
                               spc_error *error);

/* Whether `path` ends in the suffix of a known format. */
bool spc__scene_is_file(const char *path);

/* Reads any known format. `voxel` 0: none was given. */
spc_status spc__scene_read(spc__voxels *out, const char *path, double voxel,
                           spc_error *error);

/* SPC_EINVAL if a file of points came without @VOXEL. */
spc_status spc__scene_need_voxel(const spc__scene_file *file, spc_error *error);

/* ---- generators ---------------------------------------------------------- */

/* The values of a generator's options, in the order of its table. */
typedef struct spc__scene_values {
    int64_t at[4];
    double voxel;
    bool has_voxel; /* it was given, and is no default */
} spc__scene_values;

/* The sine and cosine of an angle in turns. Of +, - and * alone, so that every
 * machine gets the same bits, which libm does not promise. */
void spc__scene_turn(double *cosine, double *sine, double turns);

/* Mean 0, deviation 1, at most 3.5: a sum of uniform numbers, for the same
 * reason. */
double spc__scene_noise(spc__random *random);

/* Rounded to float, as a file would store it. */
double spc__scene_float(double value);

spc_status spc__scene_street(spc__voxels *out, const spc__scene_values *values,
                             spc_error *error);
spc_status spc__scene_room(spc__voxels *out, const spc__scene_values *values,
                           spc_error *error);

/* Runs "shell,r=256" (what stands between "gen:" and "@"). `voxel` 0: none. */
spc_status spc__scene_generate(spc__voxels *out, const char *text, double voxel,
                               spc_error *error);

#endif
