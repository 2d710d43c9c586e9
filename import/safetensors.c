/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.c - reads .safetensors files.
 *
 *   u64 header length, little endian
 *   {"NAME": {"dtype": "F16", "shape": [16, 3], "data_offsets": [0, 96]}, ...,
 *    "__metadata__": {...}}
 *   data: every byte belongs to exactly one array
 */
#include "import/weights.h"

#include "base/error.h"
#include "import/array.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

/* The limit of the format's reference library. */
static const uint64_t most_header_bytes = 100000000;

struct reader {
    const spc__weight_file *file;
    const unsigned char *data; /* after the header */
    size_t data_bytes;
    spc_error *error;
};

static spc_status bad(const struct reader *r, const char *name,
                      const char *what)
{
    return spc__fail(r->error, SPC_EFORMAT, "cannot read '%s': array '%s' %s",
                     r->file->path, name, what);
}

/* ---- one array ----------------------------------------------------------- */

/* An array of the header; `why` is "" unless it is unreadable. */
struct found {
    spc_array array;
    char why[64];
};

/* The first reason is kept. */
static void set_unreadable(struct found *out, const char *what)
{
    if (out->why[0] == '\0')
        snprintf(out->why, sizeof(out->why), "%s", what);
}

/* Reads the type. An array of an unknown type is listed, but cannot be read. */
static spc_status read_type(struct found *out, const struct reader *r,
                            const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    char what[48];

    if (type == NULL)
        return bad(r, out->array.name, "has no \"dtype\" that is a text");
    out->array.type = spc__element_parse(type);
    snprintf(what, sizeof(what), "its elements are of type %.16s", type);
    if (out->array.type == SPC_ELEMENTS)
        set_unreadable(out, what);
    return SPC_OK;
}

/* All dimensions are checked, even if there are more than an spc_array holds;
 * the array is unreadable then. */
static spc_status read_shape(struct found *out, const struct reader *r,
                             const json_t *entry)
{
    const json_t *shape = json_object_get(entry, "shape");
    size_t rank = json_array_size(shape);
    char what[64];

    if (!json_is_array(shape))
        return bad(r, out->array.name, "has no \"shape\" that is a list");
    for (size_t i = 0; i < rank; i++) {
        const json_t *value = json_array_get(shape, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return bad(r, out->array.name,
                       "has a \"shape\" with something else than "
                       "whole numbers from 0");
        if (i < SPC_ARRAY_RANK)
            out->array.shape[i] = json_integer_value(value);
    }
    snprintf(what, sizeof(what),
             "it has %zu dimensions, and at most 8 are read", rank);
    if (rank > SPC_ARRAY_RANK)
        set_unreadable(out, what);
    out->array.rank = rank > SPC_ARRAY_RANK ? SPC_ARRAY_RANK : (int)rank;
    if (!spc__array_measure(&out->array) && out->why[0] == '\0')
        return bad(r, out->array.name,
                   "has a \"shape\" whose product does not fit "
                   "64 bits");
    return SPC_OK;
}

/* The length of an unreadable array is taken from the file. */
static spc_status read_offsets(struct found *out, const struct reader *r,
                               const json_t *entry)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0);
    const json_t *last = json_array_get(offsets, 1);
    json_int_t begin = json_integer_value(first);
    json_int_t end = json_integer_value(last);
    spc_array *array = &out->array;

    if (json_array_size(offsets) != 2 || !json_is_integer(first) ||
        !json_is_integer(last))
        return bad(r, array->name,
                   "has no \"data_offsets\" of two whole numbers");
    if (begin < 0 || end < begin || (uint64_t)end > r->data_bytes)
        return spc__fail(r->error, SPC_EFORMAT,
                         "cannot read '%s': array '%s' is at bytes %lld to "
                         "%lld of the data, which has %zu",
                         r->file->path, array->name, (long long)begin,
                         (long long)end, r->data_bytes);
    if (out->why[0] != '\0')
        array->bytes = (size_t)(end - begin);
    if ((uint64_t)(end - begin) != array->bytes)
        return spc__fail(r->error, SPC_EFORMAT,
                         "cannot read '%s': array '%s' has %lld bytes, but its "
                         "type and shape take %zu",
                         r->file->path, array->name, (long long)(end - begin),
                         array->bytes);
    array->data = r->data + begin;
    return SPC_OK;
}

/* Reads the description of one array. */
static spc_status read_array(struct found *out, const struct reader *r,
                             const char *name, const json_t *entry)
{
    spc_status status;

    *out = (struct found){.array = {.name = name, .file = r->file->path}};
    if (!json_is_object(entry))
        return bad(r, name, "is not described by a JSON object");
    if ((status = read_type(out, r, entry)) != SPC_OK ||
        (status = read_shape(out, r, entry)) != SPC_OK)
        return status;
    return read_offsets(out, r, entry);
}

/* ---- all of them --------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const spc_array *x = &((const struct found *)a)->array;
    const spc_array *y = &((const struct found *)b)->array;

    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Every byte of the data must belong to exactly one array, as the format
 * requires. A gap shows that the file was written incorrectly. */
static spc_status check_cover(const struct reader *r, struct found *arrays,
                              size_t count)
{
    const unsigned char *at = r->data;

    qsort(arrays, count, sizeof(*arrays), by_offset);
    for (size_t i = 0; i < count; i++) {
        const spc_array *array = &arrays[i].array;
        if (array->data != at)
            return bad(r, array->name,
                       (const unsigned char *)array->data < at
                           ? "overlaps another one"
                           : "has bytes before it that belong to no array");
        at += array->bytes;
    }
    if (at == r->data + r->data_bytes)
        return SPC_OK;
    return spc__fail(r->error, SPC_EFORMAT,
                     "cannot read '%s': the last %zu bytes of its data belong "
                     "to no array",
                     r->file->path, (size_t)(r->data + r->data_bytes - at));
}

static spc_status add(spc_weights *out, const struct found *found,
                      spc_error *error)
{
    if (found->why[0] == '\0')
        return spc__weights_add(out, &found->array, error);
    return spc__weights_add_unreadable(out, &found->array, found->why, error);
}

/* Reads all descriptions, then checks that they cover the data without gap or
 * overlap: an array is added only after that. */
static spc_status read_arrays(spc_weights *out, const struct reader *r,
                              json_t *header)
{
    size_t most = json_object_size(header), count = 0;
    struct found *arrays = calloc(most + 1, sizeof(*arrays));
    spc_status status = SPC_OK;
    const char *name;
    json_t *entry;

    if (arrays == NULL)
        return spc__fail_memory(r->error, (most + 1) * sizeof(*arrays));
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        status = read_array(&arrays[count++], r, name, entry);
        if (status != SPC_OK)
            break;
    }
    if (status == SPC_OK)
        status = check_cover(r, arrays, count);
    for (size_t i = 0; i < count && status == SPC_OK; i++)
        status = add(out, &arrays[i], r->error);
    free(arrays);
    return status;
}

/* Reads the first eight bytes, little-endian. The limit stops a damaged length
 * from taking all memory. */
static spc_status read_header_length(uint64_t *out, const struct reader *r)
{
    const spc__weight_file *file = r->file;

    if (file->bytes < LENGTH_BYTES)
        return spc__fail(r->error, SPC_EFORMAT,
                         "cannot read '%s': it ends at byte %zu, inside the "
                         "length of its header",
                         file->path, file->bytes);
    *out = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        *out |= (uint64_t)file->data[i] << 8 * i;
    if (*out <= most_header_bytes && *out <= file->bytes - LENGTH_BYTES)
        return SPC_OK;
    return spc__fail(r->error, SPC_EFORMAT,
                     "cannot read '%s': byte 0 announces a header of %llu "
                     "bytes, but %zu follow, and at most %llu are allowed",
                     file->path, (unsigned long long)*out,
                     file->bytes - LENGTH_BYTES,
                     (unsigned long long)most_header_bytes);
}

spc_status spc__weights_read_safetensors(spc_weights *out,
                                         const spc__weight_file *file,
                                         spc_error *error)
{
    struct reader r = {.file = file, .error = error};
    uint64_t length = 0;
    json_error_t mistake;
    spc_status status = read_header_length(&length, &r);

    if (status != SPC_OK)
        return status;
    /* Of two arrays with one name jansson would drop one silently. */
    json_t *header =
        json_loadb((const char *)file->data + LENGTH_BYTES, (size_t)length,
                   JSON_REJECT_DUPLICATES, &mistake);
    r.data = file->data + LENGTH_BYTES + length;
    r.data_bytes = file->bytes - LENGTH_BYTES - (size_t)length;
    if (json_is_object(header))
        status = read_arrays(out, &r, header);
    else
        status = spc__fail(
            error, SPC_EFORMAT,
            "cannot read '%s': its header is not a JSON object: %s at byte %d",
            file->path, header == NULL ? mistake.text : "another value",
            header == NULL ? LENGTH_BYTES + mistake.position : LENGTH_BYTES);
    json_decref(header);
    return status;
}
