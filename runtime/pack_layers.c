/*
 * pack_layers.c - the files that a context opens.
 *
 * A pack keeps choices apart from the code for each target. Whoever names the
 * first file means the code for its own device too, which lies beside it.
 */
#include "ctx.h"

#include "error.h"
#include "pack.h"
#include <stdlib.h>
#include <unistd.h>

/* The file of code that goes with a layer; empty: there is none. */
static void find_code(spc__buf *out, const spc_ctx *ctx, const char *layer)
{
    spc__pack_code_file(out, layer, ctx->info.target);
    if (access(spc__buf_text(out), F_OK) != 0)
        spc__buf_clear(out);
}

/* Each layer, and behind it its code. */
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

spc_status spc__ctx_open_cache(spc__cache **out, const spc_ctx *ctx,
                               const char *path, const char *const *layers,
                               int count, const char *key, spc_error *error)
{
    const char **files = calloc(2 * (size_t)count + 1, sizeof(*files));
    spc__buf *code = calloc((size_t)count + 1, sizeof(*code));
    spc_status status = SPC_ENOMEM;

    *out = NULL;
    if (files != NULL && code != NULL)
        status = spc__cache_open_signed(out, path, files,
                                        expand(files, code, ctx, layers, count),
                                        key, error);
    else
        spc__fail_memory(error, (size_t)count * sizeof(*code));
    for (int i = 0; code != NULL && i < count; i++)
        spc__buf_release(&code[i]);
    free(files);
    free(code);
    return status;
}
