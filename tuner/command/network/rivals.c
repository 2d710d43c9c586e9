/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rivals.c - tests whether a network is faster with another kernel of a layer.
 */
#include "command/network/rivals.h"

#include <stdlib.h>
#include <string.h>

/*
 * Two medians of the same replays differ by less than this ratio
 * (docs/performance.md, networks).
 */
static const double noise = 0.004;

/* ---- kernels of a layer -------------------------------------------------- */

static char *copy(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *out = malloc(bytes);

    if (out != NULL)
        memcpy(out, text, bytes);
    return out;
}

/* Moves one element forward to index `to`; the elements between move back by
 * one. */
static void move_up(rivals *layer, int from, int to)
{
    char *kernel = layer->other[from];
    double us = layer->us[from];

    for (int i = from; i > to; i--) {
        layer->other[i] = layer->other[i - 1];
        layer->us[i] = layer->us[i - 1];
    }
    layer->other[to] = kernel;
    layer->us[to] = us;
}

bool rivals_add(rivals *layer, const char *kernel, double us)
{
    int last = layer->count;
    int rank = 0;

    /* A full list replaces its last element, the slowest. */
    if (last == RIVALS_MOST && us >= layer->us[--last])
        return true;
    char *owned = copy(kernel);
    if (owned == NULL)
        return false;
    if (last < layer->count)
        free(layer->other[last]);
    layer->other[last] = owned;
    layer->us[last] = us;
    layer->count = last + 1;
    while (layer->us[rank] < us)
        rank++;
    move_up(layer, last, rank);
    return true;
}

/* Returns the index of a kernel, or the count if it is not listed. */
static int find(const rivals *layer, const char *kernel)
{
    int i = 0;

    while (i < layer->count && strcmp(layer->other[i], kernel) != 0)
        i++;
    return i;
}

void rivals_put_first(rivals *layer, const char *kernel)
{
    int rank = find(layer, kernel);

    if (rank < layer->count)
        move_up(layer, rank, 0);
}

/* A full list loses its last element. */
bool rivals_give_way(rivals *layer, const char *kernel)
{
    int rank = find(layer, kernel);
    char *owned = layer->now != NULL ? copy(kernel) : NULL;

    if (owned == NULL)
        return false;
    if (rank == RIVALS_MOST)
        rank--;
    if (rank < layer->count)
        free(layer->other[rank]);
    else
        layer->count++;
    layer->other[rank] = layer->now;
    layer->us[rank] = 0;
    layer->now = owned;
    move_up(layer, rank, 0);
    return true;
}

void rivals_release(rivals *layer)
{
    for (int i = 0; i < layer->count; i++)
        free(layer->other[i]);
    free(layer->now);
    layer->now = NULL;
    layer->count = 0;
}

/* ---- trying -------------------------------------------------------------- */

bool rivals_is_faster(double us, double than)
{
    return us < than * (1 - noise);
}

typedef struct trial {
    rivals *layer;
    int number;
    const rivals_network *network;
} trial;

/* Stores the kernel as the layer's choice. */
static spc_status take(const trial *t, const char *kernel, bool back)
{
    return t->network->take(t->network->payload, t->number, kernel, back);
}

/* Returns the time of a replay with this kernel. */
static spc_status time_with(double *us, const trial *t, const char *kernel)
{
    spc_status status = take(t, kernel, false);

    return status == SPC_OK ? t->network->time(t->network->payload, us)
                            : status;
}

/*
 * A kernel that looked faster once is timed again beside the current one: of
 * many kernels, some look faster by chance.
 */
static spc_status compare(bool *better, const trial *t, const char *kernel,
                          double *us)
{
    double first, without, again;
    spc_status status = time_with(&first, t, kernel);

    *better = false;
    if (status != SPC_OK || !rivals_is_faster(first, *us))
        return status;
    if ((status = time_with(&without, t, t->layer->now)) != SPC_OK ||
        (status = time_with(&again, t, kernel)) != SPC_OK)
        return status;
    *better =
        rivals_is_faster(first, without) && rivals_is_faster(again, without);
    /* The newest time becomes the time to beat, as clocks drift during a long
     * search. */
    *us = *better ? again : without;
    return SPC_OK;
}

/* The layer always ends with a kernel that was compared. */
static spc_status try_one(const trial *t, int i, double *us, int *changed)
{
    rivals *layer = t->layer;
    bool better;
    spc_status status = compare(&better, t, layer->other[i], us);

    if (better) {
        char *before = layer->now;
        layer->now = layer->other[i];
        layer->other[i] = before;
        ++*changed;
        return SPC_OK;
    }
    spc_status back = take(t, layer->now, true);
    return status != SPC_OK ? status : back;
}

/* Also false for the current kernel, which may be in the list. */
static bool has_rival(const rivals *layer, int i)
{
    return layer->now != NULL && i < layer->count &&
           strcmp(layer->other[i], layer->now) != 0;
}

spc_status rivals_try(rivals *layers, int count, const rivals_network *network,
                      double *us, int *changed)
{
    spc_status status = SPC_OK;

    *changed = 0;
    /* Tries the best rival of every layer before the second rival of any layer,
     * since time may run out. */
    for (int i = 0; i < RIVALS_MOST; i++)
        for (int l = 0; l < count && status == SPC_OK; l++) {
            const trial t = {&layers[l], l, network};
            if (!has_rival(&layers[l], i))
                continue;
            if (!network->has_time(network->payload))
                return SPC_OK;
            status = try_one(&t, i, us, changed);
        }
    return status;
}
