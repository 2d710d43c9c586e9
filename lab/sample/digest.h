/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - compares memory of a device in place, by a digest of 64 bits. */
#ifndef SPC_RUNTIME_DIGEST_H
#define SPC_RUNTIME_DIGEST_H

#include "context/ctx.h"

enum { SPC__DIGESTS_MAX = 320 }; /* how many digests may be enqueued at once */

/*
 * Digests count in pairs of bytes: an odd number of them on a device is
 * followed by one more of this value.
 */
enum { SPC__DIGEST_PAD = 0xff };

/* Computes the result of the kernels on the host. */
uint64_t spc__digest_host(const void *data, size_t bytes);

typedef struct spc__digester spc__digester;

/*
 * Compiles the template of role "digest", or takes it from the database.
 * Without a compiler, memory is copied to the host and digested there.
 */
spc_status spc__digester_create(spc__digester **out, spc_ctx *ctx);
void spc__digester_free(spc__digester *digester);

/* Starts a batch of digests. */
spc_status spc__digester_begin(spc__digester *digester);
/* Enqueues a digest on the default stream. */
spc_status spc__digester_add(spc__digester *digester, const void *data,
                             size_t bytes);
/* Waits for all digests since `begin` and returns them in order. */
spc_status spc__digester_end(spc__digester *digester, uint64_t *out);

#endif
