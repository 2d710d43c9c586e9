/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - whole messages over a socket, with a deadline. */
#include "tuner/worker/wire.h"

#include "base/cancel.h"
#include "base/clock.h"
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

/* Waits until the socket is ready for `events`. Polls in short steps, so that a
 * cancel is noticed even if its signal came to another thread. */
static spc_status await(int fd, short events, double wait_s, uint64_t since,
                        const volatile int *cancel)
{
    for (;;) {
        struct pollfd one = {fd, events, 0};
        int ready = poll(&one, 1, 50);
        if (spc__cancelled(cancel))
            return SPC_EINTERRUPTED;
        if (ready > 0)
            return SPC_OK;
        if (ready < 0 && errno != EINTR)
            return SPC_EIO;
        if (wait_s >= 0 && (double)(spc__now_ns() - since) * 1e-9 > wait_s)
            return SPC_ETIMEOUT;
    }
}

spc_status spc__wire_send(int fd, const void *data, size_t bytes, double wait_s,
                          const volatile int *cancel)
{
    uint64_t since = spc__now_ns();
    const char *at = data;
    spc_status status;

    while (bytes > 0) {
        if ((status = await(fd, POLLOUT, wait_s, since, cancel)) != SPC_OK)
            return status;
        /* A dead worker must not end the tuner by SIGPIPE, nor a slow one block
         * it past the deadline. */
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (sent <= 0)
            return SPC_EIO;
        at += sent;
        bytes -= (size_t)sent;
    }
    return SPC_OK;
}

spc_status spc__wire_receive(int fd, void *data, size_t bytes, double wait_s,
                             const volatile int *cancel)
{
    uint64_t since = spc__now_ns();
    char *at = data;
    spc_status status;

    while (bytes > 0) {
        if ((status = await(fd, POLLIN, wait_s, since, cancel)) != SPC_OK)
            return status;
        ssize_t got = recv(fd, at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        /* 0: the other end is closed. */
        if (got <= 0)
            return SPC_EIO;
        at += got;
        bytes -= (size_t)got;
    }
    return SPC_OK;
}

bool spc__wire_is_silent(int fd)
{
    struct pollfd one = {fd, POLLIN, 0};

    return poll(&one, 1, 0) == 0;
}
