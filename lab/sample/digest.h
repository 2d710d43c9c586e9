/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.h - memory of a device compared where it lies: by 64 bits that say
 * whether it is what it should be.
 */
#ifndef SPC_RUNTIME_DIGEST_H
#define SPC_RUNTIME_DIGEST_H

#include "context/ctx.h"

enum { SPC__DIGESTS_MAX = 320 }; /* that may be under way at once */

/* Digests count in pairs of bytes: behind an odd number of them, on a device,
 * one more of this value is counted. */
enum { SPC__DIGEST_PAD = 0xff };

/* The same as the kernels compute. */
uint64_t spc__digest_host(const void *data, size_t bytes);

typedef struct spc__digester spc__digester;

/* Compiles the template of role "digest", or takes it from the database. Where
 * no compiler is at hand, memory is copied to the host and digested there. */
spc_status spc__digester_create(spc__digester **out, spc_ctx *ctx);
void spc__digester_free(spc__digester *digester);

/* Begins with none. */
spc_status spc__digester_begin(spc__digester *digester);
/* Enqueues one more, in the order of the default stream. */
spc_status spc__digester_add(spc__digester *digester, const void *data,
                             size_t bytes);
/* Waits for all since `begin`, in their order. */
spc_status spc__digester_end(spc__digester *digester, uint64_t *out);

#endif
