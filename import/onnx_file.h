/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_file.h - the contents of an ONNX file: nodes, attributes and arrays.
 *
 * Texts are checked when the file is read, so they are safe to print.
 * onnx_net.c interprets the nodes.
 */
#ifndef SPC_IMPORT_ONNX_FILE_H
#define SPC_IMPORT_ONNX_FILE_H

#include "onnx.pb-c.h"
#include "spc_import.h"

struct spc_onnx {
    char *path;
    Spc__Pb__Model *model; /* has a graph; every node has a type and an
                            * output */
    spc_array *arrays;     /* the initializers, in file order */
    void **decoded;        /* data that had to be converted to contiguous
                            * arrays */
};

/* Reads `data`, the contents of a file. `path` is its name in messages. */
spc_status spc__onnx_read(spc_onnx **out, const char *path, const void *data,
                          size_t bytes, spc_error *error);

/* Returns the array with this name, or NULL. */
const spc_array *spc__onnx_array(const spc_onnx *onnx, const char *name);

/* A node, with the data that error messages need. */
typedef struct spc__onnx_node {
    const spc_onnx *onnx;
    const Spc__Pb__Node *pb;
    int number;
    spc_error *error;
} spc__onnx_node;

spc__onnx_node spc__onnx_node_at(const spc_onnx *onnx, int i, spc_error *error);

/* Formats "cannot read 'scn.onnx': node 3 ('conv1', SparseConvolution) "
 * followed by the message; returns `status`. */
spc_status spc__onnx_fail(const spc__onnx_node *node, spc_status status,
                          const char *format, ...) SPC_PRINTF(3, 4);

/*
 * Attributes. If one is missing, *out is unchanged. An attribute of another
 * type is SPC_EFORMAT.
 */
bool spc__onnx_has(const spc__onnx_node *node, const char *name);
spc_status spc__onnx_int(const spc__onnx_node *node, int *out,
                         const char *name);
spc_status spc__onnx_float(const spc__onnx_node *node, float *out,
                           const char *name);
/* Reads exactly `count` integers that fit an int. */
spc_status spc__onnx_ints(const spc__onnx_node *node, int *out, int count,
                          const char *name);
/* Reads a text of at most `bytes` - 1 characters. */
spc_status spc__onnx_text(const spc__onnx_node *node, char *out, size_t bytes,
                          const char *name);
/* Returns all integers of a list; NULL if there is no list. */
const int64_t *spc__onnx_list(const spc__onnx_node *node, int *count,
                              const char *name);

#endif
