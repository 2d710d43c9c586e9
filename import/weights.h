/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.h - a collection of arrays while it is filled, and who fills it: one
 * reader for each format of files.
 */
#ifndef SPC_IMPORT_WEIGHTS_H
#define SPC_IMPORT_WEIGHTS_H

#include "spc_import.h"

/* A file as it lies in memory, for as long as the collection lives. */
typedef struct spc__weight_file {
    const char *path;
    const unsigned char *data;
    size_t bytes;
} spc__weight_file;

/* Adds what the file holds. */
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

/* An empty collection; NULL: out of memory. */
spc_weights *spc__weights_create(void);

/* Adds a copy of *array: its name is copied, its data is not, and its file's
 * name must live as long as the collection. */
spc_status spc__weights_add(spc_weights *weights, const spc_array *array,
                            spc_error *error);

/* Adds an array that has a name and a file, but elements or a shape that are
 * not read: *array says which, `why` what they are ("its elements are ..."). */
spc_status spc__weights_add_unreadable(spc_weights *weights,
                                       const spc_array *array, const char *why,
                                       spc_error *error);

/* Room for data that lies in no file, freed with the collection; NULL: out of
 * memory. */
void *spc__weights_alloc(spc_weights *weights, size_t bytes);

/* One array of .npy form, `data` of so many bytes: adds it as `name`. */
spc_status spc__weights_add_npy(spc_weights *out, const spc__weight_file *file,
                                const char *name, spc_error *error);

/* Sorts by name, and refuses two of one name; then the collection is whole. */
spc_status spc__weights_finish(spc_weights *weights, spc_error *error);

#endif
