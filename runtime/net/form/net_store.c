/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_store.c - networks in the database: stores, opens and lists them by name.
 *
 * Opening a stored network needs neither its source file nor Lua nor an
 * importer. Arrays are stored in parts of one megabyte, each within one array,
 * so a reader needs memory for one part and not for the whole file.
 */
#include "net/form/net_text.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/sha256.h"
#include "context/ctx.h"
#include <stdlib.h>
#include <string.h>

enum { PART_BYTES = 1 << 20, NAME_MOST = 63 };

/* Position of a part: its array and range of elements. */
typedef struct part {
    const spc__net_array *array;
    int64_t first, count;
} part;

static int64_t part_elements(const spc__net_array *array)
{
    return PART_BYTES / (int64_t)spc__dtype_of(array->dtype)->bytes;
}

/* The number of parts of an array. */
static int64_t parts_of(const spc__net_array *array)
{
    int64_t elements = part_elements(array);

    return (array->count + elements - 1) / elements;
}

/* Finds part i of all arrays; false past the last. */
static bool find_part(part *out, const spc__net_array *arrays, int count,
                      int64_t i)
{
    for (int a = 0; a < count; a++) {
        int64_t parts = parts_of(&arrays[a]), elements;
        if (i >= parts) {
            i -= parts;
            continue;
        }
        elements = part_elements(&arrays[a]);
        *out = (part){&arrays[a], i * elements, arrays[a].count - i * elements};
        if (out->count > elements)
            out->count = elements;
        return true;
    }
    return false;
}

/* ---- storing ------------------------------------------------------------- */

typedef struct writing {
    const spc_net *net;
    spc__net_array *arrays;
    int count;
    unsigned char *data; /* data of the current part */
} writing;

/* Encodes a part of the weights for the database, which asks for one part at a
 * time. */
static spc_status give_part(const void **data, size_t *bytes, int64_t i,
                            void *payload, spc_error *error)
{
    writing *w = payload;
    part p;

    if (!find_part(&p, w->arrays, w->count, i))
        return spc__fail(error, SPC_EINTERNAL, "there is no part %lld",
                         (long long)i);
    const spc__dtype *type = spc__dtype_of(p.array->dtype);
    const float *values =
        w->net->nodes[p.array->node].params[p.array->param] + p.first;
    type->encode(w->data, values, (size_t)p.count);
    *data = w->data;
    *bytes = (size_t)p.count * type->bytes;
    return SPC_OK;
}

/* Fills in the record without its texts; `hex` receives the digest of all
 * parts. */
static spc_status measure(spc__network *out, char hex[SPC__SHA256_HEX],
                          writing *w, spc_error *error)
{
    spc__sha256 sha;
    spc_status status = SPC_OK;

    spc__sha256_init(&sha);
    for (int a = 0; a < w->count; a++)
        out->parts += parts_of(&w->arrays[a]);
    /* The digest is part of the record, which is written first, so all parts
     * are encoded once for it. */
    for (int64_t i = 0; i < out->parts && status == SPC_OK; i++) {
        const void *data = NULL;
        size_t bytes = 0;
        status = give_part(&data, &bytes, i, w, error);
        spc__sha256_update(&sha, data, bytes);
        out->bytes += (int64_t)bytes;
    }
    spc__sha256_end(hex, &sha);
    out->weights = hex;
    return status;
}

/* Checks the name of a network. */
static spc_status check_name(const char *name, spc_error *error)
{
    size_t length = strlen(name);

    /* A name is a word of the command line. */
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] <= ' ' || name[i] == '/' || name[i] == 0x7f)
            length = 0;
    if (length >= 1 && length <= NAME_MOST && name[0] != '-')
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL,
        "'%.80s' is not a valid name of a network: expected 1 to %d "
        "characters, without blanks and '/', not beginning with '-'",
        name, NAME_MOST);
}

/* True if two networks have the same tensors over the same sets. Otherwise
 * *node is the node that makes the first difference. */
static bool same_tensors(int *node, const spc_net *a, const spc_net *b)
{
    *node = 0;
    for (int i = 0; i < a->tensor_count && i < b->tensor_count; i++) {
        const spc__net_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        *node = x->node >= 0 ? x->node : 0;
        if (x->channels != y->channels || x->dtype != y->dtype ||
            x->dense != y->dense || x->elements != y->elements ||
            x->scale != y->scale ||
            !spc__net_set_equal(&a->sets[x->set], &b->sets[y->set]))
            return false;
    }
    return a->tensor_count == b->tensor_count;
}

/* Checks that the written text reads back as the same network, so that a node
 * that the form cannot represent is refused when it is stored. */
static spc_status check_text(const writing *w, const spc__buf *graph,
                             int64_t bytes, spc_error *error)
{
    spc__net_array *arrays;
    spc_net *back;
    int count, node = 0;
    spc_status status = spc__net_read(&back, &arrays, &count,
                                      spc__buf_text(graph), bytes, error);

    if (status == SPC_OK && !same_tensors(&node, w->net, back))
        status = spc__fail(error, SPC_EUNSUPPORTED,
                           "layer '%s' is of a kind that cannot be stored",
                           w->net->nodes[node].name);
    spc_net_free(back);
    free(arrays);
    return status;
}

/* Writes the network's text and weights as one record. */
static spc_status put(spc_ctx *ctx, writing *w, const char *name,
                      const char *source, bool replace, spc_error *error)
{
    spc__network_source from = {give_part, w};
    spc__provenance here;
    spc__network record = {.name = name, .source = source};
    char hex[SPC__SHA256_HEX];
    spc__buf graph = SPC__BUF_INIT;
    spc_status status;

    spc__ctx_provenance(&here, ctx);
    record.version = here.version;
    record.unix_seconds = here.unix_seconds;
    status = spc__net_write(&graph, w->net, w->arrays, w->count, error);
    if (status == SPC_OK)
        status = measure(&record, hex, w, error);
    if (status == SPC_OK)
        status = check_text(w, &graph, record.bytes, error);
    record.graph = spc__buf_text(&graph);
    if (status == SPC_OK)
        status =
            spc__cache_put_network(ctx->cache, &record, &from, replace, error);
    spc__buf_release(&graph);
    return status;
}

spc_status spc_net_store(spc_ctx *ctx, const spc_net *net, const char *name,
                         const char *source, bool replace)
{
    spc_error *error = spc__error_of(ctx);
    writing w = {.net = net};
    spc_status status =
        spc__need(error, __func__, "ctx", ctx, "net", net, "name", name, NULL);

    if (status != SPC_OK || (status = check_name(name, error)) != SPC_OK ||
        (status = spc__ctx_check_database(ctx, error)) != SPC_OK ||
        (status = spc__net_arrays(&w.arrays, &w.count, net, error)) != SPC_OK)
        return status;
    if ((w.data = malloc(PART_BYTES)) == NULL)
        status = spc__fail_memory(error, PART_BYTES);
    if (status == SPC_OK)
        status =
            put(ctx, &w, name, source != NULL ? source : "", replace, error);
    free(w.data);
    free(w.arrays);
    return status;
}

/* ---- opening ------------------------------------------------------------- */

typedef struct opening {
    spc_net *net;
    spc__net_array *arrays;
    int count;
} opening;

/* Frees the parts read so far. */
static void forget(opening *o)
{
    spc_net_free(o->net);
    free(o->arrays);
    memset(o, 0, sizeof(*o));
}

/* Called again if the network is then read from a lower layer of the database,
 * so it must start from scratch. */
static spc_status begin(const spc__network *network, void *payload,
                        spc_error *error)
{
    opening *o = payload;

    forget(o);
    return spc__net_read(&o->net, &o->arrays, &o->count, network->graph,
                         network->bytes, error);
}

/* Decodes a part of the weights that the database read. */
static spc_status take_part(int64_t i, const void *data, size_t bytes,
                            void *payload, spc_error *error)
{
    opening *o = payload;
    part p;

    /* The size is checked before anything is decoded: the data come from a
     * file. */
    if (!find_part(&p, o->arrays, o->count, i) ||
        bytes != (size_t)p.count * spc__dtype_of(p.array->dtype)->bytes)
        return spc__fail(
            error, SPC_EFORMAT,
            "part %lld of its weights differs in size from its layers",
            (long long)i);
    float **to = &o->net->nodes[p.array->node].params[p.array->param];
    size_t whole = (size_t)p.array->count * sizeof(float);
    /* The whole array is allocated by its first part. */
    if (*to == NULL && (*to = malloc(whole)) == NULL)
        return spc__fail_memory(error, whole);
    spc__dtype_of(p.array->dtype)->decode(*to + p.first, data, (size_t)p.count);
    return SPC_OK;
}

/* An array that has a first part has all of its parts. */
static spc_status end(void *payload, spc_error *error)
{
    const opening *o = payload;
    spc_status status = SPC_OK;

    for (int a = 0; a < o->count && status == SPC_OK; a++) {
        spc__net_node *node = &o->net->nodes[o->arrays[a].node];
        int j = o->arrays[a].param;
        status = node->params[j] == NULL
                     ? spc__fail(error, SPC_EFORMAT, "an array has no parts")
                     : spc__net_note_values(node, j, node->params[j], error);
    }
    return status == SPC_OK ? spc__net_copy_shared(o->net, error) : status;
}

spc_status spc_net_open(spc_net **out, spc_ctx *ctx, const char *name)
{
    spc_error *error = spc__error_of(ctx);
    opening o = {0};
    spc__network_reader reader = {begin, take_part, end, &o};
    spc_status status =
        spc__need(error, __func__, "out", out, "ctx", ctx, "name", name, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK || (status = spc__ctx_check_database(ctx, error)) != SPC_OK)
        return status;
    status = spc__cache_get_network(ctx->cache, name, &reader, error);
    if (status == SPC_OK) {
        *out = o.net; /* ownership moves to the caller */
        o.net = NULL;
    }
    forget(&o);
    return status;
}

/* ---- listing and removing ------------------------------------------------ */

typedef struct listing {
    spc_status (*each)(const spc_net_row *row, void *payload);
    void *payload;
} listing;

/* Shows a stored network to the user's function. */
static spc_status list_row(const spc__network *at, void *payload)
{
    const listing *to = payload;
    spc_net_row row = {
        .file = at->file,
        .name = at->name,
        .source = at->source,
        .version = at->version,
        .graph = at->graph,
        .weights_bytes = at->bytes,
        .unix_seconds = at->unix_seconds,
        .fault = at->fault,
    };

    return to->each(&row, to->payload);
}

spc_status spc_net_each(spc_ctx *ctx,
                        spc_status (*each)(const spc_net_row *row,
                                           void *payload),
                        void *payload)
{
    spc_error *error = spc__error_of(ctx);
    listing to = {each, payload};
    /* A function pointer cannot be converted to void *, so another pointer is
     * checked in its place. */
    spc_status status = spc__need(error, __func__, "ctx", ctx, "each",
                                  each != NULL ? __func__ : NULL, NULL);

    if (status != SPC_OK || (status = spc__ctx_check_database(ctx, error)) != SPC_OK)
        return status;
    return spc__cache_each_network(ctx->cache, list_row, &to, error);
}

spc_status spc_net_remove(spc_ctx *ctx, const char *name)
{
    spc_error *error = spc__error_of(ctx);
    spc_status status =
        spc__need(error, __func__, "ctx", ctx, "name", name, NULL);

    if (status != SPC_OK || (status = spc__ctx_check_database(ctx, error)) != SPC_OK)
        return status;
    return spc__cache_drop_network(ctx->cache, name, error);
}
