/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.c - a collection of named arrays: opens files and finds arrays.
 */
#include "import/weights.h"

#include "base/error.h"
#include "import/array.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Memory that is freed with the collection. */
struct block {
    struct block *next;
    void *data;
    size_t mapped_bytes; /* 0: allocated */
};

struct spc_weights {
    spc_array *at;
    int count, capacity;
    struct block *blocks;
};

/* ---- the collection ------------------------------------------------------ */

spc_weights *spc__weights_create(void)
{
    return calloc(1, sizeof(spc_weights));
}

/* Frees memory and unmaps files. */
static void free_blocks(struct block *block)
{
    while (block != NULL) {
        struct block *next = block->next;
        if (block->mapped_bytes > 0)
            munmap(block->data, block->mapped_bytes);
        else
            free(block->data);
        free(block);
        block = next;
    }
}

void spc_weights_free(spc_weights *weights)
{
    if (weights == NULL)
        return;
    for (int i = 0; i < weights->count; i++)
        free((char *)weights->at[i].name);
    free(weights->at);
    free_blocks(weights->blocks);
    free(weights);
}

/* Adds an empty block. Its memory is freed with the collection. */
static struct block *add_block(spc_weights *weights)
{
    struct block *block = calloc(1, sizeof(*block));

    if (block == NULL)
        return NULL;
    block->next = weights->blocks;
    weights->blocks = block;
    return block;
}

void *spc__weights_alloc(spc_weights *weights, size_t bytes)
{
    struct block *block = add_block(weights);

    if (block == NULL)
        return NULL;
    return block->data = malloc(bytes > 0 ? bytes : 1);
}

/* Doubles the room of the list; false without memory. */
static bool grow(spc_weights *weights)
{
    int capacity = weights->capacity > 0 ? 2 * weights->capacity : 64;
    spc_array *more =
        realloc(weights->at, (size_t)capacity * sizeof(*weights->at));

    if (more == NULL)
        return false;
    weights->at = more;
    weights->capacity = capacity;
    return true;
}

/* Names are printed, so they must not contain terminal control sequences. */
static spc_status check_name(const spc_array *array, spc_error *error)
{
    for (const char *c = array->name; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': the name of an array has a "
                             "control character (byte %d)",
                             array->file, *c);
    if (array->name[0] != '\0')
        return SPC_OK;
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': an array has no name", array->file);
}

spc_status spc__weights_add(spc_weights *weights, const spc_array *array,
                            spc_error *error)
{
    spc_status status = check_name(array, error);

    if (status != SPC_OK)
        return status;
    if (weights->count == weights->capacity && !grow(weights))
        return spc__fail_memory(error, sizeof(*array));
    char *name = strdup(array->name);
    if (name == NULL)
        return spc__fail_memory(error, strlen(array->name) + 1);
    spc_array *own = &weights->at[weights->count++];
    *own = *array;
    own->name = name;
    return SPC_OK;
}

spc_status spc__weights_add_unreadable(spc_weights *weights,
                                       const spc_array *array, const char *why,
                                       spc_error *error)
{
    spc_array own = {
        .name = array->name, .file = array->file, .type = SPC_ELEMENTS};
    size_t bytes = strlen(why) + 1;
    char *text = spc__weights_alloc(weights, bytes);

    if (text == NULL)
        return spc__fail_memory(error, bytes);
    own.unreadable = memcpy(text, why, bytes);
    return spc__weights_add(weights, &own, error);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const spc_array *)a)->name, ((const spc_array *)b)->name);
}

spc_status spc__weights_finish(spc_weights *weights, spc_error *error)
{
    /* Sorts for spc_weights_find(). Equal names are then next to each other. */
    if (weights->count > 0)
        qsort(weights->at, (size_t)weights->count, sizeof(*weights->at),
              by_name);
    for (int i = 1; i < weights->count; i++)
        if (by_name(&weights->at[i - 1], &weights->at[i]) == 0)
            return spc__fail(error, SPC_EDUPLICATE,
                             "'%s' and '%s' both hold an array '%s': which one "
                             "is meant?",
                             weights->at[i - 1].file, weights->at[i].file,
                             weights->at[i].name);
    return SPC_OK;
}

int spc_weights_count(const spc_weights *weights)
{
    return weights != NULL ? weights->count : 0;
}

const spc_array *spc_weights_at(const spc_weights *weights, int i)
{
    return i >= 0 && i < spc_weights_count(weights) ? &weights->at[i] : NULL;
}

const spc_array *spc_weights_find(const spc_weights *weights, const char *name)
{
    spc_array key = {.name = name};

    if (spc_weights_count(weights) == 0 || name == NULL)
        return NULL;
    return bsearch(&key, weights->at, (size_t)weights->count,
                   sizeof(*weights->at), by_name);
}

/* ---- files --------------------------------------------------------------- */

/* A format whose library was missing at build time has no reader. */
static const struct format {
    const char *suffix;
    spc__weight_reader read;
    const char *needs;
} formats[] = {
#ifdef SPC_WITH_JANSSON
    {".safetensors", spc__weights_read_safetensors, NULL},
#else
    {".safetensors", NULL, "libjansson"},
#endif
#ifdef SPC_WITH_LIBZIP
    {".npz", spc__weights_read_npz, NULL},
    {".pth", spc__weights_read_torch, NULL},
    {".pt", spc__weights_read_torch, NULL},
    {".ckpt", spc__weights_read_torch, NULL},
#else
    {".npz", NULL, "libzip"},
    {".pth", NULL, "libzip"},
    {".pt", NULL, "libzip"},
    {".ckpt", NULL, "libzip"},
#endif
    {".npy", spc__weights_read_npy, NULL},
};

/* Chooses the reader by the file's name. */
static spc_status find_format(const struct format **out, const char *path,
                              spc_error *error)
{
    size_t length = strlen(path);

    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        size_t suffix = strlen(formats[i].suffix);
        if (length < suffix ||
            strcasecmp(path + length - suffix, formats[i].suffix) != 0)
            continue;
        *out = &formats[i];
        if ((*out)->read != NULL)
            return SPC_OK;
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "cannot read '%s': spctune was built without %s", path,
                         (*out)->needs);
    }
    return spc__fail(error, SPC_EINVAL,
                     "'%s' is not a file of weights: expected .safetensors, "
                     ".pth, .pt, .ckpt, .npz or .npy",
                     path);
}

static spc_status fail_errno(spc_error *error, const char *what,
                             const char *path)
{
    return spc__fail(error, errno == ENOENT ? SPC_ENOTFOUND : SPC_EIO,
                     "cannot %s '%s': %s", what, path, strerror(errno));
}

/* Mapping a file of no bytes would fail without a clear reason. */
static spc_status check_facts(const struct stat *facts, const char *path,
                              spc_error *error)
{
    if (!S_ISREG(facts->st_mode)) /* pipes and devices cannot be mapped */
        return spc__fail(error, SPC_EIO,
                         "cannot read '%s': it is not a plain file of weights",
                         path);
    if (facts->st_size == 0)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': the file is empty (0 bytes)", path);
    return SPC_OK;
}

/* Maps an open file. The mapping remains valid after the file is closed. */
static spc_status map_open(spc__weight_file *out, spc_weights *weights, int fd,
                           spc_error *error)
{
    struct stat facts;
    spc_status status;

    if (fstat(fd, &facts) != 0)
        return fail_errno(error, "read", out->path);
    if ((status = check_facts(&facts, out->path, error)) != SPC_OK)
        return status;
    /* The block first, so that the mapping has an owner from the start. */
    struct block *block = add_block(weights);
    if (block == NULL)
        return spc__fail_memory(error, sizeof(*block));
    size_t bytes = (size_t)facts.st_size;
    /* Maps the file instead of reading it, so that only pages of used arrays
     * are loaded. */
    void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return fail_errno(error, "map", out->path);
    block->data = data;
    block->mapped_bytes = bytes;
    out->data = data;
    out->bytes = bytes;
    return SPC_OK;
}

/* Maps a file. Its name is kept with the weights, for messages about their
 * arrays. */
static spc_status map_file(spc__weight_file *out, spc_weights *weights,
                           const char *path, spc_error *error)
{
    /* With O_NONBLOCK, opening a pipe does not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t length = strlen(path) + 1;
    char *name = spc__weights_alloc(weights, length);
    spc_status status = SPC_OK;

    if (fd < 0)
        return fail_errno(error, "open", path);
    if (name == NULL)
        status = spc__fail_memory(error, length);
    else
        out->path = memcpy(name, path, length);
    if (status == SPC_OK)
        status = map_open(out, weights, fd, error);
    close(fd);
    return status;
}

static spc_status add_file(spc_weights *weights, const char *path,
                           spc_error *error)
{
    const struct format *format = NULL;
    spc__weight_file file = {0};
    spc_status status = find_format(&format, path, error);

    if (status == SPC_OK)
        status = map_file(&file, weights, path, error);
    return status == SPC_OK ? format->read(weights, &file, error) : status;
}

spc_status spc_weights_open(spc_weights **out, const char *const *paths,
                            int count, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "out", out, "paths", paths, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    spc_weights *weights = spc__weights_create();
    if (weights == NULL)
        return spc__fail_memory(error, sizeof(*weights));
    for (int i = 0; i < count && status == SPC_OK; i++)
        status = paths[i] != NULL ? add_file(weights, paths[i], error)
                                  : spc__fail(error, SPC_EINVAL,
                                              "path %d of spc_weights_open is "
                                              "NULL",
                                              i);
    if (status == SPC_OK)
        status = spc__weights_finish(weights, error);
    if (status == SPC_OK) {
        *out = weights;
        weights = NULL;
    }
    spc_weights_free(weights);
    return status;
}
