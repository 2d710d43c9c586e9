/* SPDX-License-Identifier: Apache-2.0 */
/* npy_array.c - reads an array in NumPy's format, from a file or a member of an
 * archive. */
#include "import/weights.h"

#include "base/error.h"
#include "base/numpy.h"
#include "import/array.h"
#include <stdlib.h>
#include <string.h>

/* Our type of a NumPy one; SPC_ELEMENTS for other ones. */
static spc_element type_of(const spc__numpy_field *field)
{
    static const struct {
        char kind;
        int bytes;
        spc_element type;
    } types[] = {
        {'b', 1, SPC_ELEMENT_BOOL}, {'u', 1, SPC_ELEMENT_U8},
        {'u', 2, SPC_ELEMENT_U16},  {'u', 4, SPC_ELEMENT_U32},
        {'u', 8, SPC_ELEMENT_U64},  {'i', 1, SPC_ELEMENT_I8},
        {'i', 2, SPC_ELEMENT_I16},  {'i', 4, SPC_ELEMENT_I32},
        {'i', 8, SPC_ELEMENT_I64},  {'f', 2, SPC_ELEMENT_F16},
        {'f', 4, SPC_ELEMENT_F32},  {'f', 8, SPC_ELEMENT_F64},
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (types[i].kind == field->kind && types[i].bytes == field->bytes)
            return types[i].type;
    return SPC_ELEMENTS;
}

/* Refers to the elements in place, or copies them to C order. */
static spc_status take_data(spc_array *array, spc_weights *out,
                            const spc__numpy *numpy, spc_error *error)
{
    array->data = numpy->data;
    if (spc__numpy_is_plain(numpy))
        return SPC_OK;
    void *copy = spc__weights_alloc(out, array->bytes);
    if (copy == NULL)
        return spc__fail_memory(error, array->bytes);
    spc__numpy_copy(copy, numpy);
    array->data = copy;
    return SPC_OK;
}

spc_status spc__weights_add_npy(spc_weights *out, const spc__weight_file *file,
                                const char *name, spc_error *error)
{
    spc__numpy numpy;
    spc_status status =
        spc__numpy_open(&numpy, file->path, file->data, file->bytes, error);
    spc_array array = {.name = name, .file = file->path};

    if (status != SPC_OK)
        return status;
    if (numpy.unreadable[0] != '\0')
        return spc__weights_add_unreadable(out, &array, numpy.unreadable,
                                           error);
    if (numpy.is_record)
        return spc__weights_add_unreadable(
            out, &array, "its elements are records, not numbers", error);
    array.type = type_of(&numpy.fields[0]);
    array.rank = numpy.rank;
    array.bytes = (size_t)numpy.elements * numpy.item_bytes;
    memcpy(array.shape, numpy.shape, sizeof(numpy.shape));
    status = take_data(&array, out, &numpy, error);
    return status == SPC_OK ? spc__weights_add(out, &array, error) : status;
}

/* The array is named after the file, without folder and suffix. */
spc_status spc__weights_read_npy(spc_weights *out, const spc__weight_file *file,
                                 spc_error *error)
{
    const char *slash = strrchr(file->path, '/');
    const char *begin = slash != NULL ? slash + 1 : file->path;
    const char *dot = strrchr(begin, '.');
    char *name =
        strndup(begin, dot != NULL ? (size_t)(dot - begin) : strlen(begin));

    if (name == NULL)
        return spc__fail_memory(error, strlen(begin) + 1);
    spc_status status = spc__weights_add_npy(out, file, name, error);
    free(name);
    return status;
}
