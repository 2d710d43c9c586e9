/* stream_args.h - the arguments of the kernels of stream.cu.lua and
 * schedule.cu.lua; plain C. */
#ifndef SPC_TEST_STREAM_ARGS_H
#define SPC_TEST_STREAM_ARGS_H

#include "spc_abi.h"

/* A step changed in the ring between the first and the last read. */
#define STREAM_CHANGED 0x80000000u

/* The result of a worker or a reader. */
typedef struct stream_result {
    int taken;       /* recorded steps, including those after the end */
    int filled;      /* steps by the stream's own count */
    int count, rest; /* tiles of the share, or -1 */
} stream_result;

typedef struct stream_args {
    spc_map_view map;
    unsigned *steps; /* [worker][room][2] */
    stream_result *results;
    int room;
    int depth; /* steps that are read at once or ahead */
    int lag;   /* each step is read again after this many steps */
    unsigned pace;
} stream_args;

#endif
