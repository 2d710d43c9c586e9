/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor.h - the least time a device could need for a layer.
 *
 * The largest of
 *
 *   launch   a kernel that does nothing
 *
 *   matrix   2 * pairs * cin * cout / groups operations at the matrix rate of
 *            the type; for f32 that of three products of tf32, where these are
 *            faster (Henry, Tang and Heinecke, 2019)
 *
 *   gather   a row of `cin` inputs for every pair, or the `cout` fp32 sums that
 *            a kernel would add to instead, whichever is less, at the best rate
 *            for rows of that size: mostly the rate of rows in the cache next
 * to the multiprocessor, as that cache may hold them
 *
 *   cache    compulsory reads and writes, each once, at the rates of the last
 *            cache
 *
 *   memory   warm: the part of these that no cache can hold; cold: all reads
 *
 * Compulsory reads: the input rows that some pair uses, the weights of the
 * offsets that some pair uses, the bias, and the index at its information
 * content: for each pair the row it reads, for each output row a bit per
 * offset; or the dense table, if that is smaller. The centre of a submanifold
 * kernel is the row itself and needs no read. Compulsory writes: the output
 * rows.
 *
 * A gradient of weights also reads dy with its index, and writes the gradient.
 *
 * The floor is valid for kernels that compute every product, on one kind of
 * unit at a time, and read a map, as those of templates/ do. No measured time
 * may be below it; tests/lab/test_floor.c checks this on every device.
 */
#ifndef SPC_RUNTIME_FLOOR_H
#define SPC_RUNTIME_FLOOR_H

#include "spc.h"

/* A layer's work on a scene. */
typedef struct spc__work {
    const spc_conv *conv;
    int64_t rows_in;  /* number of inputs that some pair reads */
    int64_t rows_out; /* number of outputs; all are written, with or without
                       * pairs */
    int64_t pairs;
    int offsets; /* number of offsets that some pair uses */
} spc__work;

typedef struct spc__floor {
    double flops;
    double gathered_bytes;            /* pairs * cin * element */
    double read_bytes, written_bytes; /* compulsory */
    double warm_us, cold_us;          /* 0 for an unknown device */
    const char *warm_by, *cold_by;    /* name of the largest term, or "" */
    /* computed from spc_device_measure, not from the class */
    bool measured;
} spc__floor;

void spc__floor_compute(spc__floor *out, const spc__work *work,
                        const spc_device_info *device);

/*
 * Computes the floor of work that only moves these bytes, in one or more
 * launches: the terms launch, cache and memory.
 */
void spc__floor_of_bytes(spc__floor *out, double read, double written,
                         const spc_device_info *device);

/* Describes a device by its name, with the measurements of its class in the
 * database, if there are any. */
void spc__floor_device(spc_device_info *out, const spc_ctx *ctx,
                       const char *device);

#endif
