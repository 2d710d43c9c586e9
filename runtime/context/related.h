/* SPDX-License-Identifier: Apache-2.0 */
/*
 * related.h - the devices whose choices may serve another device.
 *
 * A GPU without choices of its own is served those of a related one. Only GPUs
 * are related to GPUs, and only emulations to emulations: the times of an
 * emulation tell nothing about a GPU. Processors with other instructions are
 * classes of their own.
 */
#ifndef SPC_CONTEXT_RELATED_H
#define SPC_CONTEXT_RELATED_H

#include "cache/cache.h"
#include "spc/plan.h"

typedef struct spc__related {
    spc__cache_device of;
    spc_level level; /* SPC_LEVEL_ARCHITECTURE or SPC_LEVEL_FACTS */
    double distance; /* of their facts, in octaves */
} spc__related;

/* The known properties of a device; 0: unknown. */
typedef struct spc__device_facts {
    int sm;
    double multiprocessors, shared_block, memory_gbps;
} spc__device_facts;

/* Compares two devices by name and target: true if one may be served the
 * choices of the other, at *level. */
bool spc__devices_are_related(spc_level *level, const spc__cache_device *here,
                              const spc__cache_device *there);

/* The facts of a device of the database, by its target and its stored facts. */
void spc__device_facts_of(spc__device_facts *out, spc__cache *cache,
                          const spc__cache_device *device);

/* The distance in octaves. Facts that either device lacks do not count. */
double spc__device_facts_distance(const spc__device_facts *a,
                                  const spc__device_facts *b);

/* Finds the nearest device in a file that the context does not use yet. Returns
 * false if none is related. */
bool spc__ctx_nearest_in(spc__related *out, const spc_ctx *ctx,
                         spc__cache *cache);

/* Orders by nearness: architecture before facts, then by distance, then by
 * name. */
int spc__related_compare(const void *a, const void *b);

/* Lists the devices in the context's database that are related to its device,
 * those of its architecture first and the nearest first among equals. *out
 * lives until the next call. Without a database the list is empty. */
int spc__ctx_related(const spc__related **out, spc_ctx *ctx);

/*
 * Like spc__cache_find_choices for a key of the context's device. If that
 * device has no choice for the layer on a similar scene, the choices of devices
 * of its architecture follow, whose `key` names their device.
 */
spc_status spc__ctx_find_choices(spc_ctx *ctx, const spc__problem_key *key,
                                 spc__choice *out, int capacity, int *count,
                                 spc_error *error);

/* Stores the facts by which later look-ups compare the context's device with
 * others, unless the database has them. Failures are only logged. */
void spc__ctx_note_facts(spc_ctx *ctx);

#endif
