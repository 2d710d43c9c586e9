/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cuda.h - how a test controls the double of the CUDA driver (fake_cuda.c)
 * and reads what it recorded.
 */
#ifndef SPC_TESTS_FAKE_CUDA_H
#define SPC_TESTS_FAKE_CUDA_H

#include "device/cuda_driver.h"
#include "templates/shared/spc_abi.h"
/* index_abi.h needs spc_abi.h. */
#include "templates/shared/index_abi.h"
#include "templates/shared/spc_measure.h"
/* These need index_abi.h. */
#include "templates/shared/feature_abi.h"
#include "templates/shared/points_abi.h"
#include "templates/shared/regroup_abi.h"
#include "templates/shared/voxelise_abi.h"
#include <stdbool.h>

/* One number for every call of the driver. */
enum {
#define X(member, symbol, params) FAKE_##member,
    SPC__CUDA_MAP(X)
#undef X
        FAKE_CALLS
};

/* Statuses of the driver that cuda_driver.h does not name. */
enum {
    FAKE_INVALID_VALUE = 1,
    FAKE_NOT_INITIALIZED = 3,
    FAKE_UNAVAILABLE = 46,
    FAKE_NO_DEVICE = 100,
    FAKE_INVALID_DEVICE = 101,
    FAKE_INVALID_CONTEXT = 201,
    FAKE_ECC_UNCORRECTABLE = 214,
    FAKE_INVALID_HANDLE = 400,
    FAKE_ILLEGAL_ADDRESS = 700,
    FAKE_LAUNCH_FAILED = 719,
    FAKE_TOO_MANY_BLOCKS = 720,
    FAKE_NOT_READY = 802,
    FAKE_DRIVER_MISMATCH = 803,
    FAKE_CAPTURE_UNSUPPORTED = 900,
    FAKE_CAPTURE_INVALIDATED = 901,
    FAKE_INVALID_CLUSTER = 912
};

enum { FAKE_DEVICES = 2, FAKE_LAUNCHES = 128, FAKE_STATS = 9, FAKE_OPEN = 16 };

typedef struct fake_launch {
    char kernel[24];
    unsigned grid[2], block;
    size_t shared_bytes;
    CUstream stream;
    bool pdl, cooperative;
    unsigned cluster;
    bool captured; /* recorded into a graph, not run */
    size_t node;   /* number in the graph; `after` has its predecessors */
    size_t after[FAKE_OPEN];
    int after_count;
    int unwaited; /* on another stream: pending works of the default one */
    int loose;    /* on the default stream: pending works of others */
    union {
        spc_conv_args conv;
        spc_pack_args pack;
        spc_index_args index;
        spc_derive_args derive;
        spc_merge_args merge;
        spc_measure_args measure;
        spc_regroup_args regroup;
        spc_mask_args mask;
        spc_gather_args gather;
        spc_feature_args feature;
        spc_voxelise_args voxelise;
        spc_radius_args radius; /* the largest arguments of point kernels */
    } args;
} fake_launch;

typedef struct fake_live {
    int memory, modules, streams, events, graphs, graph_execs;
} fake_live;

typedef struct fake_cuda {
    /* ---- settings ---- */
    int devices, version;
    char name[64];    /* of every device */
    int major, minor; /* compute capability */
    int multiprocessors, shared_block, memory_khz, bus_bits;
    size_t memory_bytes, l2_bytes;
    double launch_us;      /* time of a launch on the events' clock */
    bool hangs;            /* no event ever completes */
    void (*on_wait)(void); /* called while a thread waits for a stream */
    int stats[FAKE_STATS]; /* results of each set that is built */
    int pairs;             /* pairs of each map that is built */
    /*
     * Makes the call with number fail_at (from 1) fail, and every call of the
     * kind fail_call; 0 and -1 mean no failure. Calls that free or end
     * something still have their effect, as if a driver reported an earlier
     * failure.
     */
    int fail_at, fail_call;
    CUresult fail_with;

    /* ---- records ---- */
    int calls, count[FAKE_CALLS];
    int failed; /* the last call that failed on request, or -1 */
    fake_live live;
    int retained;     /* references to primary contexts */
    int reclaimed;    /* objects that were freed by their context's end */
    int pending;      /* works of the default stream not waited for */
    size_t bytes_set; /* bytes of all memory fills */
    int copies;       /* copies from device to device */
    int launches;     /* launch[] has the last of them */
    fake_launch launch[FAKE_LAUNCHES];
    CUstream replayed; /* the stream of the last graph launch */

    /* ---- actions of a host application ---- */
    CUcontext (*context_create)(int device); /* creates a context and makes it
                                              * current */
    void (*context_destroy)(CUcontext context);
    int (*context_depth)(void); /* contexts on the calling thread's stack */
} fake_cuda;

/*
 * The double exports the driver's functions and this object:
 *     extern fake_cuda the_fake_cuda;
 */

static const char *const fake_symbols[] = {
#define X(member, symbol, params) symbol,
    SPC__CUDA_MAP(X)
#undef X
};

#endif
