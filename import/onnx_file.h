/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_file.h - an ONNX file as it is: its nodes, their attributes, its arrays.
 *
 * Texts are checked when the file is read, so that they may be printed. What
 * the nodes mean is onnx_net.c's.
 */
#ifndef SPC_IMPORT_ONNX_FILE_H
#define SPC_IMPORT_ONNX_FILE_H

#include "onnx.pb-c.h"
#include "spc_import.h"

struct spc_onnx {
    char *path;
    Spc__Pb__Model *model; /* has a graph, whose nodes have types and outputs */
    spc_array *arrays;     /* the initializers, in their order */
    void **decoded;        /* what of them had to be brought into a row */
};

/* Reads `data`, the contents of the file that sentences call `path`. */
spc_status spc__onnx_read(spc_onnx **out, const char *path, const void *data,
                          size_t bytes, spc_error *error);

/* Its array of this name, or NULL. */
const spc_array *spc__onnx_array(const spc_onnx *onnx, const char *name);

/* A node, for whatever is wrong with it. */
typedef struct spc__onnx_node {
    const spc_onnx *onnx;
    const Spc__Pb__Node *pb;
    int number;
    spc_error *error;
} spc__onnx_node;

spc__onnx_node spc__onnx_node_at(const spc_onnx *onnx, int i, spc_error *error);

/* "cannot read 'scn.onnx': node 3 ('conv1', SparseConvolution) " and then the
 * words; returns `status`. */
spc_status spc__onnx_fail(const spc__onnx_node *node, spc_status status,
                          const char *format, ...) SPC_PRINTF(3, 4);

/*
 * Attributes. What is not there leaves *out as it is; of another kind than
 * asked for it is SPC_EFORMAT.
 */
bool spc__onnx_has(const spc__onnx_node *node, const char *name);
spc_status spc__onnx_int(const spc__onnx_node *node, int *out,
                         const char *name);
spc_status spc__onnx_float(const spc__onnx_node *node, float *out,
                           const char *name);
/* Exactly `count` whole numbers that fit int. */
spc_status spc__onnx_ints(const spc__onnx_node *node, int *out, int count,
                          const char *name);
/* A text of at most `bytes` - 1 letters. */
spc_status spc__onnx_text(const spc__onnx_node *node, char *out, size_t bytes,
                          const char *name);
/* All whole numbers of a list; NULL: there is none. */
const int64_t *spc__onnx_list(const spc__onnx_node *node, int *count,
                              const char *name);

#endif
