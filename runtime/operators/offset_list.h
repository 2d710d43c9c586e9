/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offset_list.h - a list of offsets that replaces a box, as text:
 * "0x0x0+1x0x0+-1x0x0", in the order of the weights.
 */
#ifndef SPC_RUNTIME_OFFSET_LIST_H
#define SPC_RUNTIME_OFFSET_LIST_H

#include "base/text/scan.h"
#include "spc.h"

/* The size of the longest list: three 16-bit numbers for each offset. */
enum { SPC__LIST_BYTES = SPC_MAX_OFFSETS * 21 + 1 };

/* Reads a list into an spc_geometry, which refers to a stored copy
 * (offset_store.h). SPC_EINVAL names an invalid offset. spc_geometry_check
 * finds duplicates. */
spc_status spc__list_read(void *geometry, spc__span text, spc_error *error);
/* Returns the length as snprintf does. Writes "" for a box. */
size_t spc__list_format(char *out, size_t bytes, const spc_geometry *geometry);

#endif
