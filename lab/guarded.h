/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guarded.h - arrays on a device, each between two guard zones that no kernel
 * may write to. All fixtures place their arrays with them.
 */
#ifndef SPC_LAB_GUARDED_H
#define SPC_LAB_GUARDED_H

#include "context/ctx.h"
#include "operators/operands.h"

/*
 * Positions of arrays. spc.h promises a multiple of some bytes: 16 for tensors,
 * 4 for vectors, one element for weights before packing. An array that no
 * timing reads is placed at an odd multiple of these from a multiple of
 * SPC__ALIGN_TIMED on, drawn by the sample's seed, and at another one each
 * time. Arrays of a timing are placed at a multiple of SPC__ALIGN_TIMED, as
 * rows that cross sectors cost more.
 */
enum { SPC__ALIGN_TIMED = 256, SPC__ALIGN_TENSOR = 16, SPC__ALIGN_VECTOR = 4 };

/* The device, and the sizes of the zones. */
typedef struct spc__guards {
    spc_ctx *ctx;
    const spc__device_ops *ops;
    size_t zone_bytes[2]; /* zone sizes of read-only and of written arrays */
} spc__guards;

/*
 * Device memory: zone, data, zone. The second zone begins right after the data,
 * or a byte later at an even address: the byte between belongs to the zone.
 */
typedef struct spc__guarded {
    char *base;
    char *data; /* one zone after the base, and up to SPC__ALIGN_TIMED bytes
                   more */
    size_t bytes, capacity;
    bool is_far; /* candidates write to the array, so its zones are large */
} spc__guarded;

/*
 * A faulty kernel writes whole tiles, so zones have room for many rows of
 * results, of this many bytes each.
 */
void spc__guards_init(spc__guards *out, spc_ctx *ctx, size_t row_bytes);

/* The first zone and the second. */
char *spc__guarded_zone(const spc__guards *guards, const spc__guarded *of);
char *spc__guarded_end(const spc__guarded *of);

/* Reserves at least `bytes`; the content is lost. */
spc_status spc__guarded_reserve(const spc__guards *guards, spc__guarded *to,
                                size_t bytes);
void spc__guarded_release(const spc__guards *guards, spc__guarded *arrays,
                          int count);

/*
 * Places an array of exactly `bytes` in the reserved memory, `behind` bytes
 * after a multiple of SPC__ALIGN_TIMED, with zones around it.
 */
spc_status spc__guarded_lay(const spc__guards *guards, spc__guarded *to,
                            size_t bytes, size_t behind);

/* Fills the data with a byte. */
spc_status spc__guarded_fill(const spc__guards *guards, const spc__guarded *to,
                             int byte);

/* Places an array and fills it with SPC__ZONE_BYTE, like its zones. */
spc_status spc__guarded_clear(const spc__guards *guards, spc__guarded *to,
                              size_t bytes, size_t behind);

/* Places the rows of an operand, encoded in its type, with gaps like zones. */
spc_status spc__guarded_encode(const spc__guards *guards, spc__guarded *to,
                               const spc__operand *as, const float *from,
                               size_t behind);

/*
 * Compares the zones of a table of arrays on the host. *written is 0 if none
 * was written to; else -1 or 1, for the first or the second zone of the array
 * *which.
 */
spc_status spc__guarded_check(int *written, int *which,
                              const spc__guards *guards,
                              const spc__guarded *arrays, int count);

#endif
