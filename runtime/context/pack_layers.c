/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack_layers.c - finds the files that a context opens.
 *
 * A pack keeps choices separate from the code for each target. If the caller
 * names the file of choices, the file with the code for the device, in the same
 * folder, is opened too.
 */
#include "context/ctx.h"

#include "base/error.h"
#include "cache/pack/pack.h"
#include <stdlib.h>
#include <unistd.h>

/* Finds the file of code that belongs to a layer. Empty if it does not exist. */
static void find_code(spc__buf *out, const spc_ctx *ctx, const char *layer)
{
    spc__pack_code_file(out, layer, ctx->info.target);
    if (access(spc__buf_text(out), F_OK) != 0)
        spc__buf_clear(out);
}

/* Lists each layer, followed by its code. */
static int expand(const char **out, spc__buf *code, const spc_ctx *ctx,
                  const char *const *layers, int count)
{
    int files = 0;

    for (int i = 0; i < count; i++) {
        out[files++] = layers[i];
        find_code(&code[i], ctx, layers[i]);
        if (code[i].length > 0)
            out[files++] = spc__buf_text(&code[i]);
    }
    return files;
}

static void swap(const char **a, const char **b)
{
    const char *kept = *a;

    *a = *b;
    *b = kept;
}

/* Opens the files, with the shipped database as the lowest, unless that is
 * NULL. */
static spc_status open_files(spc__cache **out, const spc_ctx *ctx,
                             const char *path, const char *const *layers,
                             int count, const char *key, const char *shipped,
                             spc_error *error)
{
    /* Two files a layer, two of the shipped database, and a final NULL. */
    const char **files = calloc(2 * (size_t)count + 3, sizeof(*files));
    spc__buf *code = calloc((size_t)count + 1, sizeof(*code));
    spc_status status = SPC_ENOMEM;

    *out = NULL;
    if (files != NULL && code != NULL) {
        int all = expand(files, code, ctx, layers, count);
        if (shipped != NULL)
            all += expand(files + all, &code[count], ctx, &shipped, 1);
        if (shipped != NULL && code[count].length > 0) /* the shipped database
                                                          is the lowest */
            swap(&files[all - 1], &files[all - 2]);
        status = spc__cache_open_signed(out, path, files, all, key, error);
    } else {
        spc__fail_memory(error, (size_t)count * sizeof(*code));
    }
    for (int i = 0; code != NULL && i <= count; i++)
        spc__buf_release(&code[i]);
    free(files);
    free(code);
    if (status == SPC_OK && shipped != NULL)
        spc__cache_yield_lowest(*out);
    return status;
}

spc_status spc__ctx_open_cache(spc__cache **out, spc_ctx *ctx, const char *path,
                               const char *const *layers, int count,
                               const char *key, spc_error *error)
{
    spc_error with = {SPC_OK, ""};
    spc_status status;

    if (ctx->shipped == NULL)
        return open_files(out, ctx, path, layers, count, key, NULL, error);
    if (open_files(out, ctx, path, layers, count, key, ctx->shipped, &with) ==
        SPC_OK)
        return SPC_OK;
    /* Tries again without the shipped file, to learn whether it was the
     * cause. */
    status = path != NULL || count > 0
                 ? open_files(out, ctx, path, layers, count, key, NULL, error)
                 : SPC_OK;
    if (status != SPC_OK)
        return status; /* the shipped database was not the cause */
    spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                    "continuing without shipped databases: %s", with.text);
    free(ctx->shipped);
    ctx->shipped = NULL;
    return SPC_OK;
}
