/* stream_args.h - what the kernels of stream.cu.lua and schedule.cu.lua take;
 * plain C. */
#ifndef SPC_TEST_STREAM_ARGS_H
#define SPC_TEST_STREAM_ARGS_H

#include "spc_abi.h"

/* A step changed in the ring between the first look at it and the last. */
#define STREAM_CHANGED 0x80000000u

/* How a worker, or a reader, fared. */
typedef struct stream_result {
    int taken;       /* steps, with those after the end */
    int filled;      /* by the stream's own count */
    int count, rest; /* of the share, or -1 */
} stream_result;

typedef struct stream_args {
    spc_map_view map;
    unsigned *steps; /* [worker][room][2] */
    stream_result *results;
    int room;
    int depth; /* steps that are taken together, or ahead */
    int lag;   /* after how many steps one is looked at again */
    unsigned pace;
} stream_args;

#endif
