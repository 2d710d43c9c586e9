/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offset_list.h - a list of offsets in the place of a box, as text:
 * "0x0x0+1x0x0+-1x0x0", in the order of the weights.
 */
#ifndef SPC_RUNTIME_OFFSET_LIST_H
#define SPC_RUNTIME_OFFSET_LIST_H

#include "spc.h"

/* What the longest list may take: three numbers of 16 bits an offset. */
enum { SPC__LIST_BYTES = SPC_MAX_OFFSETS * 21 + 1 };

/* SPC_EINVAL names what is no offset; spc_geometry_check finds those that are
 * there twice. */
spc_status spc__list_read(spc_geometry *out, const char *text,
                          spc_error *error);
/* Returns the length as snprintf does; "" for a box. */
size_t spc__list_format(char *out, size_t bytes, const spc_geometry *geometry);

#endif
