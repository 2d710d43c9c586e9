/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joint_layouts.c - chooses the layouts of a map for all of its layers
 * together.
 */
#include "command/network/joint_layouts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The search tries every subset of the orders. */
enum { MOST_ORDERS = 12 };

/* ---- options of layers --------------------------------------------------- */

/* Returns the value of a parameter, such as "order=", or NULL. */
static const char *value_of(const char *config, const char *word)
{
    const char *at = strstr(config, word);

    /* Matches a whole word only, not the end of another parameter's name. */
    while (at != NULL && at != config && at[-1] != ',' && at[-1] != ' ')
        at = strstr(at + 1, word);
    return at != NULL ? at + strlen(word) : NULL;
}

void joint_order_of(char out[JOINT_NAME], const char *template_name,
                    const char *config)
{
    const char *order = value_of(config, "order=");
    const char *near = value_of(config, "near=");
    const char *text = order != NULL  ? order
                       : near == NULL ? template_name
                       : *near == '0' ? "pairs"
                                      : "gray+pairs";

    snprintf(out, JOINT_NAME, "%.*s", (int)strcspn(text, ","), text);
}

/* Returns the layer's option for an order, and adds it if necessary; NULL if
 * the list is full. */
static joint_option *option_of(joint_layer *layer, const char *order)
{
    for (int i = 0; i < layer->count; i++)
        if (strcmp(layer->options[i].order, order) == 0)
            return &layer->options[i];
    if (layer->count == JOINT_ORDERS)
        return NULL;
    joint_option *option = &layer->options[layer->count++];
    snprintf(option->order, sizeof(option->order), "%s", order);
    option->kernel = NULL;
    option->us = INFINITY;
    return option;
}

static char *name_kernel(const char *template_name, const char *config)
{
    size_t bytes = strlen(template_name) + strlen(config) + 2;
    char *name = malloc(bytes);

    if (name != NULL)
        snprintf(name, bytes, "%s %s", template_name, config);
    return name;
}

/*
 * A layer's own choice was the fastest beside others, so it wins over earlier
 * times.
 */
bool joint_layer_add(joint_layer *layer, const char *template_name,
                     const char *config, double us, bool is_own)
{
    char order[JOINT_NAME];

    joint_order_of(order, template_name, config);
    joint_option *option = option_of(layer, order);
    bool has_own = option != NULL && layer->own == option - layer->options;
    if (option == NULL || (!is_own && (has_own || us >= option->us)))
        return true;
    free(option->kernel);
    option->us = us;
    option->kernel = name_kernel(template_name, config);
    if (is_own)
        layer->own = layer->chosen = (int)(option - layer->options);
    return option->kernel != NULL;
}

void joint_layer_release(joint_layer *layer)
{
    for (int i = 0; i < layer->count; i++)
        free(layer->options[i].kernel);
    layer->count = 0;
}

/* ---- choosing ------------------------------------------------------------ */

/* Lists the orders that the layers of a map can use, except the map's own
 * order. */
typedef struct orders {
    char name[MOST_ORDERS][JOINT_NAME];
    int count;
} orders;

/* Copies the next order of a name such as "gray+pairs". Returns the rest of the
 * name, or NULL after the last. */
static const char *next_order(char out[JOINT_NAME], const char *name)
{
    size_t length = strcspn(name, "+");

    snprintf(out, JOINT_NAME, "%.*s", (int)length, name);
    return name[length] == '+' ? name + length + 1 : NULL;
}

static bool is_plain(const char *order)
{
    return strcmp(order, "none") == 0;
}

static int find_order(const orders *all, const char *name)
{
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->name[i], name) == 0)
            return i;
    return -1;
}

static void collect(orders *all, const joint_layer *layer)
{
    for (int i = 0; i < layer->count; i++) {
        const char *name = layer->options[i].order;
        while (name != NULL) {
            char one[JOINT_NAME];
            name = next_order(one, name);
            if (!is_plain(one) && find_order(all, one) < 0 &&
                all->count < MOST_ORDERS)
                memcpy(all->name[all->count++], one, JOINT_NAME);
        }
    }
}

/* The orders that an option reads, one bit each. Returns false if one of them
 * is not in the list, which was full. */
static bool orders_of(unsigned *out, const orders *all, const char *name)
{
    bool known = true;

    *out = 0;
    while (name != NULL) {
        char one[JOINT_NAME];
        name = next_order(one, name);
        int order = find_order(all, one);
        if (order >= 0)
            *out |= 1u << order;
        else
            known &= is_plain(one);
    }
    return known;
}

/* Returns the layer's fastest option among the available orders, or -1. */
static int best_of(const joint_layer *layer, const orders *all, unsigned there)
{
    int best = -1;

    for (int i = 0; i < layer->count; i++) {
        const joint_option *option = &layer->options[i];
        unsigned reads;
        bool has = orders_of(&reads, all, option->order) && !(reads & ~there);
        if (has && (best < 0 || option->us < layer->options[best].us))
            best = i;
    }
    return best;
}

/* Returns the time of one replay if exactly the orders in the bits of `there`
 * are made: the time of their layouts, and of each layer with its best kernel
 * for these orders. */
static double cost_of(const joint_layer *layers, int count, int map,
                      const orders *all, unsigned there, double price_us)
{
    double cost = price_us * __builtin_popcount(there);

    for (int i = 0; i < count; i++) {
        if (layers[i].map != map || layers[i].own < 0)
            continue;
        int best = best_of(&layers[i], all, there);
        cost +=
            best >= 0 ? layers[i].uses * layers[i].options[best].us : INFINITY;
    }
    return cost;
}

/* Returns the orders that the layers chose alone. */
static unsigned own_orders(const joint_layer *layers, int count, int map,
                           const orders *all)
{
    unsigned there = 0;

    for (int i = 0; i < count; i++) {
        const joint_layer *layer = &layers[i];
        unsigned reads;
        if (layer->map != map || layer->own < 0)
            continue;
        orders_of(&reads, all, layer->options[layer->own].order);
        there |= reads;
    }
    return there;
}

/*
 * If its orders stay available, a layer keeps its choice: times from different
 * moments do not justify a change.
 */
static void take(joint_layer *layer, const orders *all, unsigned there)
{
    unsigned reads;

    orders_of(&reads, all, layer->options[layer->own].order);
    if (reads & ~there)
        layer->chosen = best_of(layer, all, there);
}

double joint_choose(joint_layer *layers, int count, int map, double price_us)
{
    orders all = {.count = 0};

    for (int i = 0; i < count; i++)
        if (layers[i].map == map && layers[i].own >= 0)
            collect(&all, &layers[i]);
    /* Tries the choices that layers made alone first, so that only a smaller
     * cost changes them. */
    unsigned best = own_orders(layers, count, map, &all);
    double before = cost_of(layers, count, map, &all, best, price_us);
    double least = before;
    for (unsigned there = 0; there < 1u << all.count; there++) {
        double cost = cost_of(layers, count, map, &all, there, price_us);
        if (cost < least) {
            least = cost;
            best = there;
        }
    }
    for (int i = 0; i < count; i++)
        if (layers[i].map == map && layers[i].own >= 0)
            take(&layers[i], &all, best);
    return before - least;
}
