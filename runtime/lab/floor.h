/*
 * floor.h - the least time a device could need for a layer.
 *
 * The largest of flops / matrix rate, gathered bytes / rate of gathers out of
 * cache, compulsory bytes / copy bandwidth. The matrix rate of fp32 is that of
 * three tf32 products where these are faster. No kernel is expected to reach
 * it; the ratio to it says how far there is to go.
 */
#ifndef SPC_RUNTIME_FLOOR_H
#define SPC_RUNTIME_FLOOR_H

#include "spc.h"

typedef struct spc__floor {
    double flops;            /* 2 * pairs * cin * cout */
    double gathered_bytes;   /* pairs * cin * element */
    double compulsory_bytes; /* in, out, weights and the dense map, once */
    double us;               /* 0 if nothing is known of the device */
    bool measured;           /* by spc_device_measure; else by class */
} spc__floor;

void spc__floor_compute(spc__floor *out, const spc_conv *conv, int64_t rows,
                        int64_t pairs, const spc_device_info *device);

#endif
