/*
 * fake_cuda.h - what a test says to, and learns from, the double of the CUDA
 * driver (fake_cuda.c).
 */
#ifndef SPC_TESTS_FAKE_CUDA_H
#define SPC_TESTS_FAKE_CUDA_H

#include "device/cuda_driver.h"
#include "templates/shared/spc_abi.h"
/* After spc_abi.h. */
#include "templates/shared/index_abi.h"
#include "templates/shared/spc_measure.h"
/* After index_abi.h. */
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

/* What a driver answers besides that which cuda_driver.h names. */
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
    bool captured; /* into a graph, instead of being run: */
    size_t node;   /* its number there, and those that it waits for */
    size_t after[FAKE_OPEN];
    int after_count;
    int unwaited; /* on the default stream then, if this is on another */
    int loose;    /* on other streams then, if this is on the default one */
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
        spc_radius_args radius; /* the largest of points */
    } args;
} fake_launch;

typedef struct fake_live {
    int memory, modules, streams, events, graphs, graph_execs;
} fake_live;

typedef struct fake_cuda {
    /* ---- what it is to be ---- */
    int devices, version;
    int major, minor; /* compute capability */
    size_t memory_bytes, l2_bytes;
    double launch_us;      /* what each launch takes, by the events' clock */
    bool hangs;            /* no event is ever reached */
    int stats[FAKE_STATS]; /* what building a set leaves */
    int pairs;             /* and a map */
    /* The call of this number (from 1) fails, or every call of a kind: neither
     * with 0 and -1. What frees or ends something does so all the same, as
     * where a driver reports an earlier failure. */
    int fail_at, fail_call;
    CUresult fail_with;

    /* ---- what happened ---- */
    int calls, count[FAKE_CALLS];
    int failed; /* the last call that was told to fail, or -1 */
    fake_live live;
    int retained;  /* primary contexts, by count */
    int reclaimed; /* objects that only the end of their context freed */
    int pending;   /* what was put on the default stream and not waited for */
    size_t bytes_set; /* by all fills */
    int launches;     /* the last of which are in launch[] */
    fake_launch launch[FAKE_LAUNCHES];
    CUstream replayed; /* where the last graph was launched */

    /* ---- what a host application does ---- */
    CUcontext (*context_create)(int device); /* and makes it current */
    void (*context_destroy)(CUcontext context);
    int (*context_depth)(void); /* of the calling thread's stack */
} fake_cuda;

/* The only object of the library besides the driver's functions:
 *     extern fake_cuda the_fake_cuda; */

static const char *const fake_symbols[] = {
#define X(member, symbol, params) symbol,
    SPC__CUDA_MAP(X)
#undef X
};

#endif
