/* SPDX-License-Identifier: Apache-2.0 */
/* array.c - element types, sizes, and conversion of elements to fp32. */
#include "import/array.h"

#include "base/dtype.h"
#include "base/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} elements[] = {
#define X(name, bytes) {#name, bytes},
    SPC_ELEMENT_MAP(X)
#undef X
};

const char *spc_element_name(spc_element type)
{
    return (unsigned)type < SPC_ELEMENTS ? elements[type].name : "?";
}

size_t spc_element_bytes(spc_element type)
{
    return (unsigned)type < SPC_ELEMENTS ? elements[type].bytes : 0;
}

spc_element spc__element_parse(const char *name)
{
    int type = 0;
    /* Ends at SPC_ELEMENTS, which means an unknown type. */
    while (type < SPC_ELEMENTS && strcmp(elements[type].name, name) != 0)
        type++;
    return (spc_element)type;
}

bool spc__array_measure(spc_array *array)
{
    int64_t bytes = (int64_t)spc_element_bytes(array->type);

    for (int i = 0; i < array->rank; i++)
        if (array->shape[i] < 0 ||
            __builtin_mul_overflow(bytes, array->shape[i], &bytes))
            return false;
    array->bytes = (size_t)bytes;
    return true;
}

/* Arrays from files were checked when they were read, but a caller may fill in
 * anything. */
spc_status spc__array_check_data(const spc_array *array, spc_error *error)
{
    spc_status status = spc__array_check(array, error);
    spc_array measured = *array;

    if (status != SPC_OK)
        return status;
    if (spc_element_bytes(array->type) > 0 && spc__array_measure(&measured) &&
        measured.bytes == array->bytes &&
        (array->bytes == 0 || array->data != NULL))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "the array '%s' has %zu bytes%s: expected the size that "
                     "its type and shape give",
                     array->name, array->bytes,
                     array->data == NULL ? " at NULL" : "");
}

spc_status spc__array_check(const spc_array *array, spc_error *error)
{
    if (array->name == NULL || array->rank < 0 || array->rank > SPC_ARRAY_RANK)
        return spc__fail(error, SPC_EINVAL,
                         "an array has no name, or %d sizes: expected a name "
                         "and at most %d sizes",
                         array->rank, SPC_ARRAY_RANK);
    if (array->unreadable == NULL)
        return SPC_OK;
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "cannot use the array '%s' of '%s': %s", array->name,
                     array->file != NULL ? array->file : "?",
                     array->unreadable);
}

void spc__array_print_shape(char *out, size_t bytes, const spc_array *array)
{
    size_t used = (size_t)snprintf(out, bytes, "(");

    for (int i = 0; i < array->rank && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%lld",
                                 i > 0 ? ", " : "", (long long)array->shape[i]);
    if (used < bytes)
        snprintf(out + used, bytes - used, ")");
}

int64_t spc_array_elements(const spc_array *array)
{
    size_t each = array != NULL ? spc_element_bytes(array->type) : 0;
    return each > 0 ? (int64_t)(array->bytes / each) : 0;
}

/* ---- as fp32 ------------------------------------------------------------- */

/* Elements may be unaligned, so each is copied before it is read. */
static void decode_halves(float *out, const unsigned char *data, int64_t count,
                          float (*decode)(uint16_t))
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, data + 2 * i, sizeof(bits));
        out[i] = decode(bits);
    }
}

/* Narrows fp64 to fp32. A finite number that becomes infinite is refused;
 * infinities themselves pass. */
static spc_status narrow(float *out, const spc_array *array, int64_t count,
                         spc_error *error)
{
    const unsigned char *data = array->data;

    for (int64_t i = 0; i < count; i++) {
        double wide;
        /* A file may hold the array at any address. */
        memcpy(&wide, data + 8 * i, sizeof(wide));
        out[i] = (float)wide;
        if (isfinite(wide) && !isfinite(out[i]))
            return spc__fail(error, SPC_ERANGE,
                             "element %lld of '%s' is %g, which does not fit "
                             "fp32",
                             (long long)i, array->name, wide);
    }
    return SPC_OK;
}

spc_status spc_array_floats(float *out, const spc_array *array,
                            spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "out", out, "array", array, NULL);
    int64_t count = spc_array_elements(array);

    if (status != SPC_OK || (status = spc__array_check(array, error)) != SPC_OK)
        return status;
    if (count > 0 && array->data == NULL)
        return spc__fail(error, SPC_EINVAL, "the array '%s' has no data",
                         array->name);
    switch (array->type) {
    case SPC_ELEMENT_F16:
        decode_halves(out, array->data, count, spc__half_to_float);
        return SPC_OK;
    case SPC_ELEMENT_BF16:
        decode_halves(out, array->data, count, spc__bfloat_to_float);
        return SPC_OK;
    case SPC_ELEMENT_F32:
        memcpy(out, array->data, array->bytes);
        return SPC_OK;
    case SPC_ELEMENT_F64:
        return narrow(out, array, count, error);
    default:
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "the elements of '%s' are %s: only F16, BF16, F32 and "
                         "F64 are read as weights",
                         array->name, spc_element_name(array->type));
    }
}
