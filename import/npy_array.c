/* npy_array.c - one array of NumPy's form, alone in a file or in an archive. */
#include "weights.h"

#include "array.h"
#include "error.h"
#include "npy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static spc_element type_of(const spc__npy *npy)
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
        if (types[i].kind == npy->kind && types[i].bytes == npy->item_bytes)
            return types[i].type;
    return SPC_ELEMENTS;
}

/* What NumPy can write and we do not read. */
static spc_status check_form(const spc_array *array, const spc__npy *npy,
                             spc_error *error)
{
    if (array->type == SPC_ELEMENTS)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': elements of type '%c%d' are "
                         "neither integers nor floats",
                         array->file, npy->kind, npy->item_bytes);
    if (npy->big_endian && npy->item_bytes > 1)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "cannot read '%s': its elements are big-endian; write "
                         "array.astype('<%c%d')",
                         array->file, npy->kind, npy->item_bytes);
    if (npy->fortran && npy->rank > 1)
        return spc__fail(
            error, SPC_EUNSUPPORTED,
            "cannot read '%s': its first index runs fastest "
            "(fortran_order); write numpy.ascontiguousarray(array)",
            array->file);
    return SPC_OK;
}

static spc_status check_size(const spc_array *array, size_t have,
                             spc_error *error)
{
    char shape[256];

    spc__array_print_shape(shape, sizeof(shape), array);
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': %zu bytes of data follow the header, "
                     "which is not what its shape %s takes",
                     array->file, have, shape);
}

spc_status spc__weights_add_npy(spc_weights *out, const spc__weight_file *file,
                                const char *name, spc_error *error)
{
    spc__npy npy;
    spc_status status =
        spc__npy_read(&npy, file->path, file->data, file->bytes, error);

    if (status != SPC_OK)
        return status;
    spc_array array = {.name = name,
                       .file = file->path,
                       .type = type_of(&npy),
                       .rank = npy.rank,
                       .data = file->data + npy.data};
    memcpy(array.shape, npy.shape, sizeof(npy.shape));
    if ((status = check_form(&array, &npy, error)) != SPC_OK)
        return status;
    if (!spc__array_measure(&array) || array.bytes != file->bytes - npy.data)
        return check_size(&array, file->bytes - npy.data, error);
    return spc__weights_add(out, &array, error);
}

/* The array's name is the file's, without folder and suffix. */
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
