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
 *            for rows of that size: mostly that of rows which the cache next to
 *            the multiprocessor holds, as it may hold them
 *
 *   cache    what must be read, and what must be written, at least once, at
 *            the rates of the last cache
 *
 *   memory   warm: what of that no cache can hold; cold: all that is read
 *
 * What must be read: the input rows that some pair uses, the weights of the
 * offsets that some pair uses, the bias, and the index at its information
 * content: for each pair the row it reads, for each output row a bit an offset;
 * or the dense table, if that is smaller. The centre of a submanifold kernel is
 * the row itself and read from nowhere. What must be written: the output rows.
 *
 * Of a gradient of weights dy is read besides, with the index, and the gradient
 * is what must be written.
 *
 * A floor is for kernels that compute every product, on one kind of unit at a
 * time, and read a map: those of templates/. What they measure must never lie
 * below it; tests/lab/test_floor.c holds every device to that.
 */
#ifndef SPC_RUNTIME_FLOOR_H
#define SPC_RUNTIME_FLOOR_H

#include "spc.h"

/* A layer's work on a scene. */
typedef struct spc__work {
    const spc_conv *conv;
    int64_t rows_in;  /* that some pair reads */
    int64_t rows_out; /* all are written, with pairs or without */
    int64_t pairs;
    int offsets; /* that some pair has */
} spc__work;

typedef struct spc__floor {
    double flops;
    double gathered_bytes;            /* pairs * cin * element */
    double read_bytes, written_bytes; /* compulsory */
    double warm_us, cold_us;          /* 0: nothing is known of the device */
    const char *warm_by, *cold_by;    /* the term that is largest; "" */
    bool measured;                    /* by spc_device_measure; else by class */
} spc__floor;

void spc__floor_compute(spc__floor *out, const spc__work *work,
                        const spc_device_info *device);

/* The same of work that only moves so many bytes, in one launch or more: the
 * terms launch, cache and memory. */
void spc__floor_of_bytes(spc__floor *out, double read, double written,
                         const spc_device_info *device);

#endif
