/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle.h - reads the pickle of a PyTorch checkpoint as data.
 *
 * A pickle is a program for a machine with a stack. This reader knows the
 * operations that write tensors, containers, numbers and texts, and the few
 * globals that PyTorch's tensors need. It refuses all others by name, and never
 * executes anything.
 */
#ifndef SPC_IMPORT_PICKLE_H
#define SPC_IMPORT_PICKLE_H

#include "spc_import.h"

typedef enum spc__pickle_kind {
    SPC__PICKLE_OTHER, /* None, a real number, or a very long integer */
    SPC__PICKLE_INT,   /* also True and False */
    SPC__PICKLE_TEXT,
    SPC__PICKLE_TUPLE,
    SPC__PICKLE_LIST,
    SPC__PICKLE_DICT,    /* items: key, value, key, value, ... */
    SPC__PICKLE_GLOBAL,  /* text: "torch.FloatStorage" */
    SPC__PICKLE_STORAGE, /* items: 'storage', type, key, location, elements */
    SPC__PICKLE_TENSOR,  /* items: the arguments of _rebuild_tensor_v2 */
    SPC__PICKLE_MARK     /* private to the reader */
} spc__pickle_kind;

typedef struct spc__pickle spc__pickle;
struct spc__pickle {
    spc__pickle_kind kind;
    int64_t number;
    const char *text; /* TEXT and GLOBAL; terminated, without zeros inside */
    spc_element type; /* GLOBAL: elements of a storage; else SPC_ELEMENTS */
    spc__pickle **items;
    size_t count, capacity;
    spc__pickle *next; /* list of all values, to free them */
};

/* Reads a whole pickle. *root is a value of the list *all, which the caller
 * frees with spc__pickle_free, also after a failure. `path` is for messages. */
spc_status spc__pickle_read(spc__pickle **root, spc__pickle **all,
                            const char *path, const unsigned char *data,
                            size_t bytes, spc_error *error);
void spc__pickle_free(spc__pickle *all);

#endif
