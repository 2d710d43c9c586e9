/*
 * safetensors.c - reads .safetensors files.
 *
 *   u64 header length, little endian
 *   {"NAME": {"dtype": "F16", "shape": [16, 3], "data_offsets": [0, 96]}, ...,
 *    "__metadata__": {...}}
 *   data: all of it belongs to arrays, none of it to two
 */
#include "weights.h"

#include "array.h"
#include "error.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

/* The limit of the format's own library. */
static const uint64_t most_header_bytes = 100000000;

struct reader {
    const spc__weight_file *file;
    const unsigned char *data; /* behind the header */
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

static spc_status read_type(spc_array *out, const struct reader *r,
                            const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));

    if (type == NULL)
        return bad(r, out->name, "has no \"dtype\" that is a text");
    out->type = spc__element_parse(type);
    if (out->type != SPC_ELEMENTS)
        return SPC_OK;
    return spc__fail(r->error, SPC_EFORMAT,
                     "cannot read '%s': array '%s' has elements of the unknown "
                     "type '%.16s'",
                     r->file->path, out->name, type);
}

static spc_status read_shape(spc_array *out, const struct reader *r,
                             const json_t *entry)
{
    const json_t *shape = json_object_get(entry, "shape");
    size_t rank = json_array_size(shape);

    if (!json_is_array(shape) || rank > SPC_ARRAY_RANK)
        return bad(r, out->name, "has no \"shape\" of at most 8 numbers");
    out->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *value = json_array_get(shape, i);
        out->shape[i] = json_integer_value(value);
        if (!json_is_integer(value) || out->shape[i] < 0)
            return bad(r, out->name,
                       "has a \"shape\" with something else than "
                       "whole numbers from 0");
    }
    if (!spc__array_measure(out))
        return bad(r, out->name,
                   "has a \"shape\" whose product does not fit "
                   "64 bits");
    return SPC_OK;
}

static spc_status read_place(spc_array *out, const struct reader *r,
                             const json_t *entry)
{
    const json_t *place = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(place, 0);
    const json_t *last = json_array_get(place, 1);
    json_int_t begin = json_integer_value(first);
    json_int_t end = json_integer_value(last);

    if (json_array_size(place) != 2 || !json_is_integer(first) ||
        !json_is_integer(last))
        return bad(r, out->name,
                   "has no \"data_offsets\" of two whole numbers");
    if (begin < 0 || end < begin || (uint64_t)end > r->data_bytes)
        return spc__fail(r->error, SPC_EFORMAT,
                         "cannot read '%s': array '%s' lies at bytes %lld to "
                         "%lld of the data, which has %zu",
                         r->file->path, out->name, (long long)begin,
                         (long long)end, r->data_bytes);
    if ((uint64_t)(end - begin) != out->bytes)
        return spc__fail(r->error, SPC_EFORMAT,
                         "cannot read '%s': array '%s' has %lld bytes, but its "
                         "type and shape take %zu",
                         r->file->path, out->name, (long long)(end - begin),
                         out->bytes);
    out->data = r->data + begin;
    return SPC_OK;
}

static spc_status read_array(spc_array *out, const struct reader *r,
                             const char *name, const json_t *entry)
{
    spc_status status;

    *out = (spc_array){.name = name, .file = r->file->path};
    if (!json_is_object(entry))
        return bad(r, name, "is not described by a JSON object");
    if ((status = read_type(out, r, entry)) != SPC_OK ||
        (status = read_shape(out, r, entry)) != SPC_OK)
        return status;
    return read_place(out, r, entry);
}

/* ---- all of them --------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const spc_array *x = a, *y = b;

    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Every byte of the data belongs to one array, as the format demands: a gap is
 * a file that was put together wrongly. */
static spc_status check_cover(const struct reader *r, spc_array *arrays,
                              size_t count)
{
    const unsigned char *at = r->data;

    qsort(arrays, count, sizeof(*arrays), by_place);
    for (size_t i = 0; i < count; i++) {
        if (arrays[i].data != at)
            return bad(r, arrays[i].name,
                       (const unsigned char *)arrays[i].data < at
                           ? "lies on bytes of another one"
                           : "has bytes before it that belong to no array");
        at += arrays[i].bytes;
    }
    if (at == r->data + r->data_bytes)
        return SPC_OK;
    return spc__fail(r->error, SPC_EFORMAT,
                     "cannot read '%s': the last %zu bytes of its data belong "
                     "to no array",
                     r->file->path, (size_t)(r->data + r->data_bytes - at));
}

static spc_status read_arrays(spc_weights *out, const struct reader *r,
                              json_t *header)
{
    size_t most = json_object_size(header), count = 0;
    spc_array *arrays = calloc(most + 1, sizeof(*arrays));
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
        status = spc__weights_add(out, &arrays[i], r->error);
    free(arrays);
    return status;
}

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
            "cannot read '%s': its header is no JSON object: %s "
            "at byte %d",
            file->path, header == NULL ? mistake.text : "another value",
            header == NULL ? LENGTH_BYTES + mistake.position : LENGTH_BYTES);
    json_decref(header);
    return status;
}
