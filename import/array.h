/* SPDX-License-Identifier: Apache-2.0 */
/* array.h - arrays inside the import library: checked when they are made. */
#ifndef SPC_IMPORT_ARRAY_H
#define SPC_IMPORT_ARRAY_H

#include "spc_import.h"

/* The type of that name, or SPC_ELEMENTS. */
spc_element spc__element_parse(const char *name);

/*
 * Sets `bytes` from type and shape. False if a number is negative or the
 * product does not fit: nothing is assumed of a shape that a file states.
 */
bool spc__array_measure(spc_array *array);

/* SPC_EUNSUPPORTED: the array is unreadable; SPC_EINVAL: it has no name or an
 * impossible rank. */
spc_status spc__array_check(const spc_array *array, spc_error *error);
/* Besides, SPC_EINVAL: its data is missing or not of its type and shape. */
spc_status spc__array_check_data(const spc_array *array, spc_error *error);

/* "(16, 3, 3, 3, 4)" for sentences. */
void spc__array_print_shape(char *out, size_t bytes, const spc_array *array);

#endif
