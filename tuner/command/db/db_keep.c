/* SPDX-License-Identifier: Apache-2.0 */
/* db_keep.c - spctune db pack, prune, pin. */
#include "base/plural.h"
#include "command/cli/output.h"
#include "command/db/db.h"
#include "spc/db.h"

#include <time.h>

/* ---- pack ---------------------------------------------------------------- */

static spc_status write_packed(const char *file, const spc_db_packed *packed)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_text(&json, "file", file);
    spc__json_int(&json, "choices", packed->choices);
    spc__json_int(&json, "trials", packed->trials);
    spc__json_int(&json, "facts", packed->facts);
    spc__json_int(&json, "code", packed->code);
    spc__json_int(&json, "files", packed->files);
    spc__json_int(&json, "bytes", packed->bytes);
    spc__json_int(&json, "code_bytes", packed->code_bytes);
    spc__json_bool(&json, "compressed", packed->compressed);
    spc__json_int(&json, "removed", packed->removed);
    spc__json_end_object(&json);
    spc_status status = output_json(&text);
    spc__buf_release(&text);
    return status;
}

static spc_status print_packed(const char *file, const spc_db_packed *packed)
{
    printf(
        "%s: %s, %s, %s, %s in %s "
        "of %lld bytes (%lld of code%s)\n",
        file, spc__count(packed->choices, "choice"),
        spc__count(packed->trials, "trial"), spc__count(packed->facts, "fact"),
        spc__count(packed->code, "kernel"), spc__count(packed->files, "file"),
        (long long)packed->bytes, (long long)packed->code_bytes,
        packed->compressed ? ", compressed" : "");
    if (packed->removed > 0)
        printf("%s: removed %s of code that an earlier pack of this "
               "name had left\n",
               file, spc__count(packed->removed, "file"));
    return SPC_OK;
}

spc_status db_pack(spc_ctx *ctx, cli *self, const db_args *args,
                   const char *const *words)
{
    spc_db_pack_options options = {.bytes = sizeof(spc_db_pack_options),
                                   .whole = args->whole};
    spc_db_packed packed;
    spc_status status = spc_db_pack(&packed, ctx, words[0], &options);

    if (status != SPC_OK)
        return cli_fail_ctx(status, ctx);
    return (self->globals.json ? write_packed : print_packed)(words[0],
                                                              &packed);
}

/* ---- prune and pin ------------------------------------------------------- */

static spc_status print_count(const cli *self, const char *name, int64_t count,
                              const char *sentence)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    if (!self->globals.json) {
        printf("%lld %s\n", (long long)count, sentence);
        return SPC_OK;
    }
    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_int(&json, name, count);
    spc__json_end_object(&json);
    spc_status status = output_json(&text);
    spc__buf_release(&text);
    return status;
}

spc_status db_prune(spc_ctx *ctx, cli *self, const db_args *args,
                    const char *const *words)
{
    enum { DAY = 86400 };
    spc_db_prune_options options = {.bytes = sizeof(spc_db_prune_options),
                                    .losers = args->losers,
                                    .stale = args->stale};
    int64_t removed = 0;

    (void)words;
    if (args->days > 0)
        options.before_unix_seconds =
            (int64_t)time(NULL) - (int64_t)(args->days * DAY);
    spc_status status = spc_db_prune(&removed, ctx, &options);
    return status == SPC_OK ? print_count(self, "removed", removed,
                                          "trials, choices and kernels removed")
                            : cli_fail_ctx(status, ctx);
}

spc_status db_release(spc_ctx *ctx, cli *self, const db_args *args,
                      const char *const *words)
{
    int64_t released = 0;

    (void)args, (void)words;
    spc_status status = spc_db_restore(&released, ctx);
    return status == SPC_OK
               ? print_count(self, "released", released,
                             "records that were set aside are used again")
               : cli_fail_ctx(status, ctx);
}

spc_status db_pin(spc_ctx *ctx, cli *self, const db_args *args,
                  const char *const *words)
{
    int64_t id = db_read_id(words[0]);

    if (id == 0)
        return cli_fail(SPC_EINVAL, "'%s' is not an ID of a problem", words[0]);
    spc_status status = spc_db_pin(ctx, id, args->only);
    if (status != SPC_OK)
        return cli_fail_ctx(status, ctx);
    return print_count(self, "problem", id,
                       args->only != NULL ? "is pinned" : "is pinned no more");
}
