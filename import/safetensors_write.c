/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - writes arrays as a .safetensors file. */
#include "spc_import.h"

#include "base/error.h"
#include "base/json.h"
#include "base/overwrite.h"
#include "import/array.h"
#include <stdlib.h>
#include <string.h>

/* Describes one array; offsets count from the end of the header. */
static void write_entry(spc__json *json, const spc_array *array, size_t at)
{
    spc__json_object(json, array->name);
    spc__json_text(json, "dtype", spc_element_name(array->type));
    spc__json_array(json, "shape");
    for (int i = 0; i < array->rank; i++)
        spc__json_int(json, NULL, array->shape[i]);
    spc__json_end_array(json);
    spc__json_array(json, "data_offsets");
    spc__json_int(json, NULL, (int64_t)at);
    spc__json_int(json, NULL, (int64_t)(at + array->bytes));
    spc__json_end_array(json);
    spc__json_end_object(json);
}

/* Larger elements come first, so every array is aligned to its element size. */
static int by_element(const void *a, const void *b)
{
    const spc_array *x = *(const spc_array *const *)a;
    const spc_array *y = *(const spc_array *const *)b;
    size_t wide = spc_element_bytes(x->type),
           narrow = spc_element_bytes(y->type);

    return wide != narrow ? (wide > narrow ? -1 : 1) : strcmp(x->name, y->name);
}

/* Writes the JSON header. */
static void write_header(spc__buf *out, const spc_array *const *arrays,
                         int count, const char *note)
{
    spc__json json;
    size_t at = 0;

    spc__json_init(&json, out);
    spc__json_object(&json, NULL);
    if (note != NULL) {
        spc__json_object(&json, "__metadata__");
        spc__json_text(&json, "spctune", note);
        spc__json_end_object(&json);
    }
    for (int i = 0; i < count; i++) {
        write_entry(&json, arrays[i], at);
        at += arrays[i]->bytes;
    }
    spc__json_end_object(&json);
    while (out->length % 8 != 0) /* pads with spaces to align the data */
        spc__buf_append(out, " ", 1);
}

/* Writes length, header and arrays in one go, so that a failure leaves the old
 * file. */
static spc_status write_all(const char *path, const spc_array *const *arrays,
                            int count, const char *note, spc_error *error)
{
    spc__buf header = SPC__BUF_INIT;
    spc__piece *pieces = malloc(((size_t)count + 2) * sizeof(*pieces));
    unsigned char length[8];
    spc_status status;

    write_header(&header, arrays, count, note);
    if (pieces == NULL || header.failed) {
        status = spc__fail_memory(error, header.length);
    } else {
        for (int i = 0; i < 8; i++)
            length[i] = (unsigned char)(header.length >> 8 * i);
        pieces[0] = (spc__piece){length, sizeof(length)};
        pieces[1] = (spc__piece){header.data, header.length};
        for (int i = 0; i < count; i++)
            pieces[i + 2] = (spc__piece){arrays[i]->data, arrays[i]->bytes};
        status = spc__overwrite(path, pieces, count + 2, error);
    }
    spc__buf_release(&header);
    free(pieces);
    return status;
}

spc_status spc_weights_save(const char *path, const spc_array *arrays,
                            int count, const char *note, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "path", path, "arrays", arrays, NULL);
    const spc_array **order =
        calloc((size_t)(count > 0 ? count : 0) + 1, sizeof(*order));

    if (status == SPC_OK && order == NULL)
        status = spc__fail_memory(error, (size_t)count * sizeof(*order));
    for (int i = 0; i < count && status == SPC_OK; i++) {
        order[i] = &arrays[i];
        status = spc__array_check_data(&arrays[i], error);
    }
    if (status == SPC_OK) {
        qsort(order, (size_t)(count > 0 ? count : 0), sizeof(*order),
              by_element);
        status = write_all(path, order, count > 0 ? count : 0, note, error);
    }
    free(order);
    return status;
}
