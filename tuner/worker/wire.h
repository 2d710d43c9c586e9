/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - the protocol between a tuner and its worker over a socket. Both are
 * the same build of libspc, so structs are sent as they are; the magic number
 * includes their sizes to detect a mismatch.
 */
#ifndef SPC_TUNER_WIRE_H
#define SPC_TUNER_WIRE_H

#include "tuner/worker/harness.h"

enum {
    SPC__WIRE_SOCKET = 3, /* the worker's end of the socket */
    SPC__WIRE_SAMPLE = 4  /* memory for spc__sample_attach */
};

typedef enum spc__wire_op {
    SPC__WIRE_LOAD,
    SPC__WIRE_VERIFY,
    SPC__WIRE_TIME,
    SPC__WIRE_CONFIRM,
    SPC__WIRE_UNLOAD,
    SPC__WIRE_PROBE /* checks that the device runs a small kernel */
} spc__wire_op;

typedef struct spc__wire_request {
    unsigned magic;
    unsigned number; /* counts the requests to all workers of a run */
    spc__wire_op op;
    int slot;
    /* limit of the worker's wall-clock time (worker_limits.h) */
    double limit_s;
    spc__harness_order order;
    spc__harness_code code; /* followed by code_bytes bytes */
} spc__wire_request;

/*
 * The worker sends the first reply without a request, when its harness is ready
 * or has failed. A candidate may write to any descriptor: the number detects
 * data that is not the reply to this very request.
 */
typedef struct spc__wire_reply {
    unsigned magic;
    unsigned number; /* number of the request; 0: the first reply */
    spc_error run;   /* a failure that the candidate did not cause */
    spc__outcome outcome;
} spc__wire_reply;

#define SPC__WIRE_MAGIC                                                        \
    (0x73706300u ^                                                             \
     (unsigned)(sizeof(spc__wire_request) * 31 + sizeof(spc__wire_reply)))

/*
 * Send and receive whole messages. `wait_s` < 0 waits for ever; otherwise
 * SPC_ETIMEOUT. SPC_EIO: the other side closed the socket. *cancel (may be
 * NULL) non-zero: SPC_EINTERRUPTED.
 */
spc_status spc__wire_send(int fd, const void *data, size_t bytes, double wait_s,
                          const volatile int *cancel);
spc_status spc__wire_receive(int fd, void *data, size_t bytes, double wait_s,
                             const volatile int *cancel);

/* True if no unrequested data is waiting to be read. */
bool spc__wire_is_silent(int fd);

#endif
