/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules.c - loaded code, found by artefact key or by the request that led to
 * it. It stays until the context ends.
 */
#include "context/modules.h"

#include "base/error.h"
#include "compiler/space.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kernel of a loaded module, looked up once. */
typedef struct held {
    char name[16];
    size_t shared_bytes;
    spc__kernel *kernel;
} held;

struct spc__loaded {
    char artefact[SPC__SHA256_HEX];
    spc__module *module;
    spc__attrs resources;
    size_t statics;
    int uses; /* loads minus unloads */
    held *kernels;
    int kernel_count;
};

/* The launch geometry belongs to the name, not to the module, because two
 * configurations may differ only in it. */
typedef struct named {
    char *name;
    char artefact[SPC__SHA256_HEX];
    spc__attrs launch;
} named;

/* Template hashes that were computed. */
typedef struct hashed {
    char template_name[32];
    char hex[SPC__SHA256_HEX];
} hashed;

struct spc__modules {
    spc__loaded **loaded;
    int loaded_count;
    named **names;
    int name_count;
    hashed *hashes;
    int hash_count;
    bool has_warned; /* warn only once about database failures */
};

/* ---- the table of modules ------------------------------------------------ */

/* Makes room for one more element. Returns true on success. */
static bool grow(void *array, int count, size_t element_bytes)
{
    void **at = array;
    if (count & (count - 1)) /* the array is full only at powers of two */
        return true;
    void *more = realloc(*at, element_bytes * (count ? 2u * (size_t)count : 1));
    if (more != NULL)
        *at = more;
    return more != NULL;
}

spc__modules *spc__modules_create(void)
{
    return calloc(1, sizeof(spc__modules));
}

static void free_loaded(spc__loaded *entry, spc__device *device)
{
    spc__device_ops_of(device)->module_unload(device, entry->module);
    free(entry->kernels);
    free(entry);
}

static void free_named(named *name)
{
    free(name->name);
    free(name);
}

void spc__modules_free(spc__modules *modules, spc__device *device)
{
    if (modules == NULL)
        return;
    for (int i = 0; i < modules->loaded_count; i++)
        free_loaded(modules->loaded[i], device);
    for (int i = 0; i < modules->name_count; i++)
        free_named(modules->names[i]);
    free(modules->loaded);
    free(modules->names);
    free(modules->hashes);
    free(modules);
}

/* Modules are looked up when plans are made and not when they run, so a walk
 * will do. */
spc__loaded *spc__modules_find(const spc__modules *modules,
                               const char *artefact)
{
    for (int i = 0; i < modules->loaded_count; i++)
        if (strcmp(modules->loaded[i]->artefact, artefact) == 0)
            return modules->loaded[i];
    return NULL;
}

void spc__loaded_use(spc__loaded *module)
{
    module->uses++;
}

bool spc__modules_first_trouble(spc__modules *modules)
{
    bool first = !modules->has_warned;

    modules->has_warned = true;
    return first;
}

void spc__loaded_code(spc__code *out, const spc__loaded *entry,
                      const spc__attrs *launch)
{
    out->module = entry->module;
    out->resources = entry->resources;
    out->statics = entry->statics;
    if (launch != NULL)
        out->launch = *launch;
    else
        out->launch.count = 0;
    memcpy(out->artefact, entry->artefact, sizeof(out->artefact));
}

spc_status spc__modules_load(spc__loaded **out, spc_ctx *ctx,
                             const char *artefact, const void *code,
                             size_t bytes, const spc__attrs *resources,
                             spc_error *error)
{
    spc__modules *modules = ctx->modules;
    spc__loaded *entry = spc__modules_find(modules, artefact);
    spc_status status;

    if (entry == NULL) {
        /* Room first: after the load, nothing can fail any more. */
        if (!grow(&modules->loaded, modules->loaded_count, sizeof(entry)) ||
            (entry = calloc(1, sizeof(*entry))) == NULL)
            return spc__fail_memory(error, sizeof(*entry));
        status =
            spc__device_ops_of(ctx->device)
                ->module_load(ctx->device, &entry->module, code, bytes, error);
        if (status != SPC_OK) {
            free(entry);
            return status;
        }
        snprintf(entry->artefact, sizeof(entry->artefact), "%s", artefact);
        entry->statics = spc__code_statics(code, bytes);
        if (resources != NULL)
            entry->resources = *resources;
        modules->loaded[modules->loaded_count++] = entry;
    }
    entry->uses++;
    *out = entry;
    return SPC_OK;
}

spc_status spc__ctx_load(spc__code *out, spc_ctx *ctx, const char *artefact_key,
                         const void *code, size_t bytes,
                         const spc__attrs *launch)
{
    spc__loaded *entry;
    spc_status status = spc__modules_load(&entry, ctx, artefact_key, code,
                                          bytes, NULL, spc__error_of(ctx));

    if (status == SPC_OK)
        spc__loaded_code(out, entry, launch);
    return status;
}

void spc__ctx_unload(spc_ctx *ctx, const char *artefact_key)
{
    spc__modules *modules = ctx->modules;

    for (int i = 0; i < modules->loaded_count; i++) {
        spc__loaded *entry = modules->loaded[i];
        if (strcmp(entry->artefact, artefact_key) != 0)
            continue;
        if (--entry->uses > 0)
            return;
        free_loaded(entry, ctx->device);
        /* The order does not matter, so the last entry fills the gap. */
        modules->loaded[i] = modules->loaded[--modules->loaded_count];
        return;
    }
}

spc_status spc__ctx_kernel(spc__kernel **out, spc_ctx *ctx,
                           const spc__code *code, const char *name,
                           size_t shared_bytes)
{
    /* NULL if the code was unloaded meanwhile. The kernel is then not
     * remembered. */
    spc__loaded *entry = spc__modules_find(ctx->modules, code->artefact);
    spc_status status;

    *out = NULL;
    for (int i = 0; entry != NULL && i < entry->kernel_count; i++)
        if (strcmp(entry->kernels[i].name, name) == 0 &&
            entry->kernels[i].shared_bytes == shared_bytes) {
            *out = entry->kernels[i].kernel;
            return SPC_OK;
        }
    status = spc__device_ops_of(ctx->device)
                 ->kernel_get(ctx->device, code->module, name, shared_bytes,
                              out, spc__error_of(ctx));
    /* Without memory for the list, the kernel is only looked up again next
     * time. */
    if (status == SPC_OK && entry != NULL &&
        grow(&entry->kernels, entry->kernel_count, sizeof(held))) {
        held *kept = &entry->kernels[entry->kernel_count++];
        snprintf(kept->name, sizeof(kept->name), "%s", name);
        kept->shared_bytes = shared_bytes;
        kept->kernel = *out;
    }
    return status;
}

bool spc__modules_named(spc__code *out, spc_ctx *ctx, const char *name)
{
    const spc__modules *modules = ctx->modules;

    for (int i = 0; i < modules->name_count; i++) {
        const named *entry = modules->names[i];
        if (strcmp(entry->name, name) != 0)
            continue;
        spc__loaded *module = spc__modules_find(modules, entry->artefact);
        if (module == NULL) /* the tuner unloaded the module */
            return false;
        module->uses++;
        spc__loaded_code(out, module, &entry->launch);
        return true;
    }
    return false;
}

void spc__modules_name(spc__modules *modules, const char *name,
                       const spc__code *code)
{
    named *entry = NULL;

    /* The tuner may unload a module and load the name's code again. */
    for (int i = 0; i < modules->name_count && entry == NULL; i++)
        if (strcmp(modules->names[i]->name, name) == 0)
            entry = modules->names[i];
    if (entry == NULL) {
        if (!grow(&modules->names, modules->name_count, sizeof(entry)) ||
            (entry = calloc(1, sizeof(*entry))) == NULL)
            return;
        if ((entry->name = strdup(name)) == NULL) {
            free(entry);
            return;
        }
        modules->names[modules->name_count++] = entry;
    }
    entry->launch = code->launch;
    memcpy(entry->artefact, code->artefact, sizeof(entry->artefact));
}

/* ---- template hashes ----------------------------------------------------- */

static bool hash_in_library(char hex[SPC__SHA256_HEX], spc_ctx *ctx,
                            const char *template_name)
{
    spc__template *tpl = spc__library_find(ctx->library, template_name);
    if (tpl != NULL)
        memcpy(hex, spc__template_hash(tpl), SPC__SHA256_HEX);
    return tpl != NULL;
}

bool spc__ctx_template_hash(char hex[SPC__SHA256_HEX], spc_ctx *ctx,
                            const char *template_name)
{
    spc__modules *modules = ctx->modules;

    for (int i = 0; i < modules->hash_count; i++)
        if (strcmp(modules->hashes[i].template_name, template_name) == 0) {
            memcpy(hex, modules->hashes[i].hex, SPC__SHA256_HEX);
            return true;
        }
    if (ctx->library != NULL ? !hash_in_library(hex, ctx, template_name)
                             : !spc__builtin_template_hash(hex, template_name))
        return false;
    if (grow(&modules->hashes, modules->hash_count, sizeof(hashed))) {
        hashed *entry = &modules->hashes[modules->hash_count++];
        snprintf(entry->template_name, sizeof(entry->template_name), "%s",
                 template_name);
        memcpy(entry->hex, hex, SPC__SHA256_HEX);
    }
    return true;
}
