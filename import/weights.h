/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.h - a collection of arrays under construction, and the readers that
 * fill it, one for each file format.
 */
#ifndef SPC_IMPORT_WEIGHTS_H
#define SPC_IMPORT_WEIGHTS_H

#include "spc_import.h"

/* A file in memory; stays there as long as the collection. */
typedef struct spc__weight_file {
    const char *path;
    const unsigned char *data;
    size_t bytes;
} spc__weight_file;

/* Adds the contents of the file. */
typedef spc_status (*spc__weight_reader)(spc_weights *out,
                                         const spc__weight_file *file,
                                         spc_error *error);

spc_status spc__weights_read_safetensors(spc_weights *out,
                                         const spc__weight_file *file,
                                         spc_error *error);
spc_status spc__weights_read_npy(spc_weights *out, const spc__weight_file *file,
                                 spc_error *error);
spc_status spc__weights_read_npz(spc_weights *out, const spc__weight_file *file,
                                 spc_error *error);
spc_status spc__weights_read_torch(spc_weights *out,
                                   const spc__weight_file *file,
                                   spc_error *error);

/* Creates an empty collection; returns NULL if out of memory. */
spc_weights *spc__weights_create(void);

/* Adds a copy of *array. The name is copied, the data is not; the name of its
 * file must live as long as the collection. */
spc_status spc__weights_add(spc_weights *weights, const spc_array *array,
                            spc_error *error);

/* Adds an array with elements or a shape that cannot be read. `why` describes
 * the problem ("its elements are ..."). */
spc_status spc__weights_add_unreadable(spc_weights *weights,
                                       const spc_array *array, const char *why,
                                       spc_error *error);

/* Allocates data that is freed with the collection; returns NULL if out of
 * memory. */
void *spc__weights_alloc(spc_weights *weights, size_t bytes);

/* Adds an array in .npy format as `name`; `data` is its contents. */
spc_status spc__weights_add_npy(spc_weights *out, const spc__weight_file *file,
                                const char *name, spc_error *error);

/* Sorts by name and refuses duplicate names. The collection is then
 * complete. */
spc_status spc__weights_finish(spc_weights *weights, spc_error *error);

#endif
