/* SPDX-License-Identifier: Apache-2.0 */
/* array.h - arrays inside the import library: checked when they are made. */
#ifndef SPC_IMPORT_ARRAY_H
#define SPC_IMPORT_ARRAY_H

#include "spc_import.h"

/* The type with this name, or SPC_ELEMENTS. */
spc_element spc__element_parse(const char *name);

/*
 * Computes `bytes` from type and shape. Returns false if a size is negative or
 * the product overflows: the shape in a file is not trusted.
 */
bool spc__array_measure(spc_array *array);

/* Returns SPC_EUNSUPPORTED if the array is unreadable, SPC_EINVAL if it has no
 * name or an impossible rank. */
spc_status spc__array_check(const spc_array *array, spc_error *error);
/* Also returns SPC_EINVAL if the data is missing or does not have the array's
 * type and shape. */
spc_status spc__array_check_data(const spc_array *array, spc_error *error);

/* Formats a shape for messages: "(16, 3, 3, 3, 4)". */
void spc__array_print_shape(char *out, size_t bytes, const spc_array *array);

#endif
