/* SPDX-License-Identifier: Apache-2.0 */
/* related.c - finds the devices whose choices may serve another device. */
#include "context/related.h"

#include "base/error.h"
#include "base/number.h"
#include "context/ctx.h"
#include "device/architecture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FACT_BYTES = 32 };

/* The list for a context, and the state of the database that it is of. */
struct spc__related_list {
    spc__related *at;
    int count;
    uint64_t version;
};

/* ---- two devices --------------------------------------------------------- */

/* The class names of processors and emulations begin with the name of the
 * device ("cpu avx512"); those of GPUs are the driver's. */
static bool begins_with(const char *name, const char *word)
{
    size_t length = strlen(word);

    return strncmp(name, word, length) == 0 && name[length] == ' ';
}

bool spc__devices_are_related(spc_level *level, const spc__cache_device *here,
                              const spc__cache_device *there)
{
    int sm = spc__architecture_sm(here->target);
    int other = spc__architecture_sm(there->target);

    /* A processor has no GPU target, and is related to none. */
    if (sm == 0 || other == 0 || strcmp(here->device, there->device) == 0 ||
        begins_with(here->device, "cpu") || begins_with(there->device, "cpu") ||
        begins_with(here->device, "sim") != begins_with(there->device, "sim"))
        return false;
    *level = sm == other ? SPC_LEVEL_ARCHITECTURE : SPC_LEVEL_FACTS;
    return true;
}

/* ---- facts --------------------------------------------------------------- */

static double real_fact(const spc__attrs *facts, const char *name)
{
    double value = 0;

    spc__number_read(&value, spc__attrs_text(facts, name, "0"));
    return value > 0 ? value : 0;
}

void spc__device_facts_of(spc__device_facts *out, spc__cache *cache,
                          const spc__cache_device *device)
{
    const spc__architecture *known = spc__architecture_find(device->target);
    spc__attrs facts = {0};

    /* Facts that cannot be read count as unknown. */
    spc__cache_get_device(cache, device->device, &facts, NULL);
    out->sm = spc__architecture_sm(device->target);
    out->multiprocessors = real_fact(&facts, SPC__FACT_MULTIPROCESSORS);
    out->shared_block = real_fact(&facts, SPC__FACT_SHARED_BLOCK);
    if (out->shared_block == 0 && known != NULL)
        out->shared_block = known->shared_block;
    out->memory_gbps = real_fact(&facts, SPC__FACT_MEMORY_GBPS);
}

static void own_facts(spc__device_facts *out, const spc_ctx *ctx)
{
    *out = (spc__device_facts){
        .sm = spc__architecture_sm(ctx->info.target),
        .multiprocessors = ctx->info.multiprocessors,
        .shared_block =
            (double)spc__attrs_number(&ctx->target, "shared_block", 0),
        .memory_gbps = spc__device_memory_gbps(ctx->device)};
}

static double octaves_apart(double a, double b)
{
    return a > 0 && b > 0 ? fabs(log2(a / b)) : 0;
}

double spc__device_facts_distance(const spc__device_facts *a,
                                  const spc__device_facts *b)
{
    /* A generation adds instructions, which changes the best kernels more than
     * any size does. Compute capability 8.6 is of generation 8. */
    const double generation = 2, revision = 0.5;

    return generation * abs(a->sm / 10 - b->sm / 10) +
           revision * (a->sm != b->sm) +
           octaves_apart(a->multiprocessors, b->multiprocessors) +
           octaves_apart(a->shared_block, b->shared_block) +
           octaves_apart(a->memory_gbps, b->memory_gbps);
}

static void set_real(spc__attrs *facts, const char *name, double value)
{
    char text[FACT_BYTES];

    spc__number_print(text, sizeof(text), 6, value);
    if (value > 0)
        spc__attrs_set_text(facts, name, text);
}

void spc__ctx_note_facts(spc_ctx *ctx)
{
    spc__device_facts own;
    spc__attrs known = {0}, facts = {0};
    spc_error error = {0};

    own_facts(&own, ctx);
    if (!ctx->stores || own.sm == 0 ||
        spc__device_ops_of(ctx->device)->is_emulation ||
        (spc__cache_get_device(ctx->cache, ctx->info.name, &known, NULL) ==
             SPC_OK &&
         spc__attrs_find(&known, SPC__FACT_MULTIPROCESSORS) != NULL))
        return;
    set_real(&facts, SPC__FACT_MULTIPROCESSORS, own.multiprocessors);
    set_real(&facts, SPC__FACT_SHARED_BLOCK, own.shared_block);
    set_real(&facts, SPC__FACT_MEMORY_GBPS, own.memory_gbps);
    if (spc__cache_put_device(ctx->cache, ctx->info.name, &facts, &error) !=
        SPC_OK)
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "the facts of the device cannot be stored: %s",
                        error.text);
}

/* ---- the list ------------------------------------------------------------ */

int spc__related_compare(const void *a, const void *b)
{
    const spc__related *x = a, *y = b;

    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return strcmp(x->of.device, y->of.device);
}

/* Writes those of the devices that are related, and returns how many. */
static int choose(spc__related *out, const spc_ctx *ctx, spc__cache *cache,
                  const spc__cache_device *devices, int count)
{
    spc__cache_device here = {0};
    spc__device_facts own = {0}, other;
    int found = 0;

    memcpy(here.device, ctx->info.name, sizeof(here.device));
    memcpy(here.target, ctx->info.target, sizeof(here.target));
    for (int i = 0; i < count; i++) {
        spc__related *next = &out[found];
        if (!spc__devices_are_related(&next->level, &here, &devices[i]))
            continue;
        /* Only now, as most databases have no related device, and the driver
         * is asked. */
        if (found == 0)
            own_facts(&own, ctx);
        next->of = devices[i];
        spc__device_facts_of(&other, cache, &devices[i]);
        next->distance = spc__device_facts_distance(&own, &other);
        found++;
    }
    qsort(out, (size_t)found, sizeof(*out), spc__related_compare);
    return found;
}

bool spc__ctx_nearest_in(spc__related *out, const spc_ctx *ctx,
                         spc__cache *cache)
{
    const spc__cache_device *devices;
    uint64_t version;
    int count;
    bool found = false;

    if (spc__cache_devices(&devices, &count, &version, cache, NULL) != SPC_OK)
        return false;
    spc__related *all = malloc(((size_t)count + 1) * sizeof(*all));
    if (all != NULL && choose(all, ctx, cache, devices, count) > 0) {
        *out = all[0];
        found = true;
    }
    free(all);
    return found;
}

int spc__ctx_related(const spc__related **out, spc_ctx *ctx)
{
    const spc__cache_device *devices;
    uint64_t version;
    int count;

    *out = NULL;
    if (ctx->cache == NULL || spc__architecture_sm(ctx->info.target) == 0 ||
        spc__cache_devices(&devices, &count, &version, ctx->cache, NULL) !=
            SPC_OK)
        return 0;
    spc__related_list *list = ctx->related;
    if (list == NULL &&
        (list = ctx->related = calloc(1, sizeof(*list))) == NULL)
        return 0;
    if (list->version != version) {
        /* One more than there are, as realloc(0) may return NULL. */
        spc__related *at = realloc(list->at, ((size_t)count + 1) * sizeof(*at));
        if (at == NULL)
            return 0;
        list->at = at;
        list->count = choose(at, ctx, ctx->cache, devices, count);
        list->version = version;
    }
    *out = list->at;
    return list->count;
}

void spc__ctx_related_free(spc_ctx *ctx)
{
    if (ctx->related != NULL)
        free(ctx->related->at);
    free(ctx->related);
    ctx->related = NULL;
}

/* ---- choices ------------------------------------------------------------- */

/* True if one of them is of the layer itself, on a similar scene. */
static bool has_close(const spc__choice *found, int count)
{
    return count > 0 && found[0].match != SPC__MATCH_NEAREST;
}

spc_status spc__ctx_find_choices(spc_ctx *ctx, const spc__problem_key *key,
                                 spc__choice *out, int capacity, int *count,
                                 spc_error *error)
{
    const spc__related *related;
    spc__problem_key *theirs = NULL;
    spc_status status =
        spc__cache_find_choices(ctx->cache, key, out, capacity, count, error);
    int all = has_close(out, *count) ? 0 : spc__ctx_related(&related, ctx);

    if (all > 0 && (theirs = malloc(sizeof(*theirs))) != NULL)
        *theirs = *key;
    for (int i = 0; i < all && theirs != NULL && *count < capacity &&
                    related[i].level == SPC_LEVEL_ARCHITECTURE;
         i++) {
        int more = 0;
        memcpy(theirs->device, related[i].of.device, sizeof(theirs->device));
        memcpy(theirs->target, related[i].of.target, sizeof(theirs->target));
        /* The failure of one file was reported by the first query. */
        spc__cache_find_choices(ctx->cache, theirs, out + *count,
                                capacity - *count, &more, NULL);
        *count += more;
    }
    free(theirs);
    return status;
}
