/* SPDX-License-Identifier: Apache-2.0 */
/* lzf.h - decompresses LZF, the format of compressed .pcd files. */
#ifndef SPC_LAB_LZF_H
#define SPC_LAB_LZF_H

#include <stdbool.h>
#include <stddef.h>

/* Returns true if `in` is valid and has exactly `out_bytes` when decompressed.
 * Never writes outside `out`, even for invalid data. */
bool spc__lzf_decompress(void *out, size_t out_bytes, const void *in,
                         size_t in_bytes);

/* Returns the most bytes to which `in_bytes` can decompress. */
size_t spc__lzf_most(size_t in_bytes);

#endif
