/* stream_args.h - the arguments of the kernels of stream.cu.lua and
 * schedule.cu.lua; plain C. */
#ifndef SPC_TEST_STREAM_ARGS_H
#define SPC_TEST_STREAM_ARGS_H

#include "spc_abi.h"

/* A step changed in the ring between the first look at it and the last. */
#define STREAM_CHANGED 0x80000000u

/* The result of a worker or a reader. */
typedef struct stream_result {
    int taken;       /* steps, including those after the end */
    int filled;      /* by the stream's own count */
    int count, rest; /* of the share, or -1 */
} stream_result;

typedef struct stream_args {
    spc_map_view map;
    unsigned *steps; /* [worker][room][2] */
    stream_result *results;
    int room;
    int depth; /* steps that are taken at once, or read ahead */
    int lag;   /* after this many steps one is read again */
    unsigned pace;
} stream_args;

#endif
