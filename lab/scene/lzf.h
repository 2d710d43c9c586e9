/* SPDX-License-Identifier: Apache-2.0 */
/* lzf.h - decompresses LZF, the format of compressed .pcd files. */
#ifndef SPC_LAB_LZF_H
#define SPC_LAB_LZF_H

#include <stdbool.h>
#include <stddef.h>

/* True if `in` is such data, of exactly `out_bytes` when decompressed. Never
 * writes outside `out`, whatever `in` is. */
bool spc__lzf_decompress(void *out, size_t out_bytes, const void *in,
                         size_t in_bytes);

/* The most bytes that data of `in_bytes` can hold. */
size_t spc__lzf_most(size_t in_bytes);

#endif
