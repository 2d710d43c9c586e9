/* SPDX-License-Identifier: Apache-2.0 */
/* ctx.c - contexts: a device, a database, templates, and the last failure of
 * each thread. */
#include "context/ctx.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/forks.h"
#include "base/parallel.h"
#include "base/sized.h"
#include "context/background.h"
#include "context/ceilings.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the database -------------------------------------------------------- */

/* A file below $XDG_CACHE_HOME or ~/.cache. Empty if neither is known. */
static void default_database(spc__buf *out)
{
    const char *named = getenv("SPC_DATABASE");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (named != NULL)
        spc__buf_puts(out, named);
    else if (cache != NULL && cache[0] == '/') /* relative paths must be
                                                * ignored */
        spc__buf_printf(out, "%s/spctune/spctune.db", cache);
    else if (home != NULL && home[0] != '\0')
        spc__buf_printf(out, "%s/.cache/spctune/spctune.db", home);
}

/* Checks that the content of the user's file may be executed. */
static spc_status check_owner(const spc_ctx *ctx, const char *path,
                              spc_error *error)
{
    return path == NULL || ctx->trusts_layers
               ? SPC_OK
               : spc__cache_check_owner(path, error);
}

/* Opens all files that can be opened. Each file is checked separately. */
static void open_what_works(spc_ctx *ctx, const char *path,
                            const spc_ctx_options *options)
{
    const char **good = calloc((size_t)options->layer_count + 1, sizeof(*good));
    int count = 0;
    spc__cache *probe = NULL;
    spc_error error;

    /* Each file is first opened separately, so that one damaged file does not
     * cost the others. */
    for (int i = 0; good != NULL && i < options->layer_count; i++) {
        if (spc__ctx_open_cache(&probe, ctx, NULL, &options->layers[i], 1,
                                options->key, &error) == SPC_OK)
            good[count++] = options->layers[i];
        else
            spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                            "continuing without this layer: %s", error.text);
        spc__cache_close(probe);
        probe = NULL;
    }
    if (path != NULL &&
        (check_owner(ctx, path, &error) != SPC_OK ||
         spc__cache_open(&probe, path, NULL, 0, &error) != SPC_OK)) {
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "continuing without this database: %s", error.text);
        /* Kept, so that a later attempt to store can give the reason. */
        ctx->no_store = error;
        path = NULL;
    }
    spc__cache_close(probe);
    if ((path != NULL || count > 0 || ctx->shipped != NULL) &&
        spc__ctx_open_cache(&ctx->cache, ctx, path, good, count, options->key,
                            &error) != SPC_OK) {
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "continuing without a database: %s", error.text);
        ctx->no_store = error;
    }
    ctx->stores = path != NULL && ctx->cache != NULL;
    free(good);
}

/* An empty name, given here or in the environment, disables the database. */
static bool wants_none(const char *named)
{
    const char *path = named != NULL ? named : getenv("SPC_DATABASE");

    return path != NULL && path[0] == '\0';
}

static spc_status fail_nameless(spc_error *error)
{
    return spc__fail(error, SPC_EDB,
                     "no database is named: give a path, or set SPC_DATABASE, "
                     "XDG_CACHE_HOME or HOME");
}

/* Warns before anything is measured that the results will be lost. */
static void go_nameless(spc_ctx *ctx)
{
    fail_nameless(&ctx->no_store);
    spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                    "continuing without a database: %s", ctx->no_store.text);
}

/* Opens the user's database and the read-only ones. Unless the user requires a
 * database, files that cannot be opened are left out. */
static spc_status open_files(spc_ctx *ctx, const char *path,
                             const spc_ctx_options *options, spc_error *error)
{
    if (path == NULL && options->layer_count == 0 && ctx->shipped == NULL)
        return SPC_OK;
    spc_status status = check_owner(ctx, path, error);
    if (status == SPC_OK)
        status = spc__ctx_open_cache(&ctx->cache, ctx, path, options->layers,
                                     options->layer_count, options->key, error);
    if (status == SPC_OK) {
        ctx->stores = path != NULL;
    } else if (!options->need_database) {
        open_what_works(ctx, path, options);
        status = SPC_OK;
    }
    return status;
}

/* Finds the shipped database. It has no signature, so a context that requires
 * signatures does not use it. Neither does one whose caller disabled the
 * database. */
static spc_status find_shipped(spc_ctx *ctx, const spc_ctx_options *options,
                               spc_error *error)
{
    spc__buf file = SPC__BUF_INIT;
    spc_status status = SPC_OK;

    if (options->key != NULL || wants_none(options->database))
        return SPC_OK;
    if (options->shipped != NULL &&
        (ctx->shipped_folder = strdup(options->shipped)) == NULL)
        return spc__fail_memory(error, strlen(options->shipped) + 1);
    spc__ctx_find_shipped(&file, options->shipped, ctx);
    if (file.length > 0 &&
        (ctx->shipped = strdup(spc__buf_text(&file))) == NULL)
        status = spc__fail_memory(error, file.length + 1);
    spc__buf_release(&file);
    return status;
}

/* Determines the path of the database: the given path, the default path for
 * NULL, no database for "". */
static spc_status open_database(spc_ctx *ctx, const spc_ctx_options *options,
                                spc_error *error)
{
    spc__buf standard = SPC__BUF_INIT;
    const char *path = options->database;
    spc_status status;

    if (path == NULL) {
        default_database(&standard);
        path = spc__buf_text(&standard);
    }
    if (path[0] == '\0')
        path = NULL;
    if (path == NULL && options->layer_count == 0 && options->need_database) {
        status = fail_nameless(error);
    } else {
        if (path == NULL && !wants_none(options->database))
            go_nameless(ctx);
        status = open_files(ctx, path, options, error);
    }
    spc__buf_release(&standard);
    return status;
}

/* Reads figures that spc_device_measure stored earlier. */
static void read_measured(spc_ctx *ctx)
{
    spc__attrs facts = {0};
    spc_error error;

    if (ctx->cache == NULL)
        return;
    spc_status status =
        spc__cache_get_device(ctx->cache, ctx->info.name, &facts, &error);
    if (status != SPC_OK && status != SPC_ENOTFOUND)
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "the device's measured figures cannot be read: %s",
                        error.text);
    if (status != SPC_OK)
        return;
    spc__ceilings_read(&ctx->info, &facts);
}

/* ---- failures ------------------------------------------------------------ */

/* The last failure of one thread. When a thread ends, the system may give its
 * pthread_t to a new thread. The new thread then reuses the record but not the
 * sentence, so there are never more records than threads at one time. */
struct spc__failure {
    spc__failure *next;
    pthread_t thread;
    uint64_t number; /* unique number of the thread */
    spc_error error;
};

/* A number that no other thread of the process has or had, unlike a
 * pthread_t. */
static uint64_t thread_number(void)
{
    static uint64_t last;
    static _Thread_local uint64_t mine;

    /* Numbers begin at 1, as 0 means "none yet". */
    if (mine == 0)
        mine = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    return mine;
}

/* Returns NULL if the calling thread has no record. */
static spc__failure *find_failure(const spc_ctx *ctx)
{
    spc__failure *at = ctx->failures;

    while (at != NULL && !pthread_equal(at->thread, pthread_self()))
        at = at->next;
    if (at != NULL && at->number != thread_number()) {
        at->number = thread_number();
        spc__error_clear(&at->error);
    }
    return at;
}

/* Adds a record of the last error for this thread. The caller holds the
 * lock. */
static spc__failure *add_failure(spc_ctx *ctx)
{
    spc__failure *mine = calloc(1, sizeof(*mine));

    if (mine == NULL)
        return NULL;
    mine->thread = pthread_self();
    mine->number = thread_number();
    mine->next = ctx->failures;
    ctx->failures = mine;
    return mine;
}

static void free_failures(spc__failure *first)
{
    while (first != NULL) {
        spc__failure *next = first->next;
        free(first);
        first = next;
    }
}

spc_error *spc__error_of(spc_ctx *ctx)
{
    static _Thread_local spc_error lost; /* used if a record cannot be
                                          * allocated */

    if (ctx == NULL)
        return NULL;
    /* Only the list is locked. The record itself belongs to the calling
     * thread. */
    pthread_mutex_lock(&ctx->failures_lock);
    spc__failure *mine = find_failure(ctx);
    if (mine == NULL)
        mine = add_failure(ctx);
    pthread_mutex_unlock(&ctx->failures_lock);
    return mine != NULL ? &mine->error : &lost;
}

spc_status spc__ctx_fail(spc_ctx *ctx, const spc_error *error)
{
    *spc__error_of(ctx) = *error;
    return error->status;
}

/* The lock may change in a const context, since callers cannot see it. */
const char *spc_ctx_error(const spc_ctx *ctx)
{
    pthread_mutex_t *lock;

    if (ctx == NULL)
        return "the context is NULL";
    lock = &((spc_ctx *)ctx)->failures_lock;
    pthread_mutex_lock(lock);
    const spc__failure *mine = find_failure(ctx);
    pthread_mutex_unlock(lock);
    return mine != NULL ? mine->error.text : "";
}

const char *spc_error_text(const spc_error *error, const spc_ctx *ctx)
{
    if (error != NULL && error->status != SPC_OK)
        return error->text;
    return ctx != NULL ? spc_ctx_error(ctx) : "";
}

/* ---- create and free ----------------------------------------------------- */

/* Opens the device and stores its properties. */
static spc_status open_device(spc_ctx *ctx, const char *id,
                              const spc_memory_hook *memory, spc_error *error)
{
    spc__device_options options = {ctx->threads, &ctx->log, *memory};

    if ((memory->alloc == NULL) != (memory->free == NULL))
        return spc__fail(error, SPC_EINVAL,
                         "spc_ctx_create: the memory hook has `%s` without "
                         "`%s`: it needs both",
                         memory->alloc != NULL ? "alloc" : "free",
                         memory->alloc != NULL ? "free" : "alloc");
    spc_status status = spc__device_open(&ctx->device, id, &options, error);

    if (status != SPC_OK)
        return status;
    const spc__device_ops *ops = spc__device_ops_of(ctx->device);
    ops->info(ctx->device, &ctx->info);
    ops->target(ctx->device, &ctx->target);
    return SPC_OK;
}

static spc_status check_layers(const spc_ctx_options *options, spc_error *error)
{
    int count = options->layer_count;

    if (count < 0 || (count > 0 && options->layers == NULL))
        return spc__fail(error, SPC_EINVAL,
                         "spc_ctx_create: %d database layers%s are impossible",
                         count,
                         count > 0 ? " in `layers`, which is NULL," : "");
    for (int i = 0; i < count; i++)
        if (options->layers[i] == NULL)
            return spc__fail(error, SPC_EINVAL,
                             "spc_ctx_create: `layers[%d]` must not be NULL",
                             i);
    return SPC_OK;
}

spc_status spc__ctx_allow(spc__allow *out, spc_ctx *ctx, const char *text,
                          const char *what, spc_error *error)
{
    spc__library *library = NULL;
    spc_status status = spc__ctx_library(&library, ctx);

    /* A libspc without a compiler has no library. */
    if (status != SPC_OK && status != SPC_EUNSUPPORTED) {
        if (error != NULL)
            *error = *spc__error_of(ctx);
        return status;
    }
    return spc__allow_read(out, status == SPC_OK ? library : NULL, text, what,
                           error);
}

/* Reads the lists of allowed templates, after the templates themselves. */
static spc_status read_allowed(spc_ctx *ctx, const char *given,
                               spc_error *error)
{
    const char *text = given != NULL ? given : getenv("SPC_ALLOW");

    if (text == NULL)
        return SPC_OK;
    return spc__ctx_allow(&ctx->allow, ctx, text,
                          given != NULL ? "allow" : "SPC_ALLOW", error);
}

/* Fills a context that is zero except for its lock. */
static spc_status fill(spc_ctx *ctx, const spc_ctx_options *options,
                       spc_error *error)
{
    spc_status status = check_layers(options, error);

    if (status != SPC_OK)
        return status;
    /* First of all, as every later step may log. */
    ctx->log.write = options->log;
    ctx->log.payload = options->log_payload;
    ctx->cancel = options->cancel;
    ctx->trusts_layers = options->trust;
    ctx->threads = options->threads > 0 ? options->threads : spc__cpu_count();
    if (options->template_dir != NULL &&
        (ctx->template_dir = strdup(options->template_dir)) == NULL)
        return spc__fail_memory(error, strlen(options->template_dir) + 1);
    if (options->key != NULL && (ctx->key = strdup(options->key)) == NULL)
        return spc__fail_memory(error, strlen(options->key) + 1);
    if ((ctx->modules = spc__modules_create()) == NULL)
        return spc__fail_memory(error, sizeof(void *));
    /* The device comes before the database, whose shipped part depends on the
     * device's name. */
    if ((status = open_device(ctx, options->device, &options->memory, error)) !=
            SPC_OK ||
        (status = find_shipped(ctx, options, error)) != SPC_OK ||
        (status = open_database(ctx, options, error)) != SPC_OK)
        return status;
    read_measured(ctx);
    /* Load the caller's own templates now, so that errors in them are reported
     * here. The built-in ones are loaded when they are needed. */
    if (ctx->template_dir != NULL)
        status = spc__library_open(&ctx->library, ctx->template_dir,
                                   &ctx->cancel, error);
    return status == SPC_OK ? read_allowed(ctx, options->allow, error) : status;
}

spc_status spc_ctx_create(spc_ctx **out, const spc_ctx_options *options,
                          spc_error *error)
{
    static const spc_ctx_options standard = SPC_CTX_OPTIONS_INIT;
    spc_status status = spc__need(error, __func__, "out", out, NULL);

    if (status != SPC_OK)
        return status;
    *out = NULL;
    if ((status = SPC__TAKE(spc_ctx_options, options, error)) != SPC_OK)
        return status;
    spc_ctx *ctx = calloc(1, sizeof(*ctx));
    if (ctx == NULL)
        return spc__fail_memory(error, sizeof(*ctx));
    pthread_mutex_init(&ctx->failures_lock, NULL);
    ctx->users = 1;
    ctx->forks = spc__forks();
    status = fill(ctx, options != NULL ? options : &standard, error);
    if (status != SPC_OK) {
        spc_ctx_free(ctx);
        return status;
    }
    *out = ctx;
    return SPC_OK;
}

spc_ctx *spc__ctx_share(spc_ctx *ctx)
{
    __atomic_fetch_add(&ctx->users, 1, __ATOMIC_RELAXED);
    return ctx;
}

void spc__ctx_leave(spc_ctx *ctx)
{
    if (__atomic_sub_fetch(&ctx->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    /* In a child process, the driver's objects and threads still belong to the
     * parent. */
    if (!spc_ctx_is_from_this_process(ctx) && ctx->device != NULL &&
        spc__device_ops_of(ctx->device)->stays_in_process)
        return;
    if (ctx->background != NULL && spc_ctx_is_from_this_process(ctx))
        ctx->background->release(ctx->background);
    /* The device unloads the modules, so it is closed after them. */
    spc__modules_free(ctx->modules, ctx->device);
    spc__library_close(ctx->library);
    spc__cache_close(ctx->cache);
    spc__device_close(ctx->device);
    pthread_mutex_destroy(&ctx->failures_lock);
    free_failures(ctx->failures);
    spc__ctx_related_free(ctx);
    spc__allow_release(&ctx->allow);
    free(ctx->template_dir);
    free(ctx->key);
    free(ctx->shipped);
    free(ctx->shipped_folder);
    free(ctx);
}

/* The background thread ends now. Plans may still read its flags. */
void spc_ctx_free(spc_ctx *ctx)
{
    if (ctx == NULL)
        return;
    if (ctx->background != NULL && spc_ctx_is_from_this_process(ctx))
        ctx->background->end(ctx->background);
    spc__ctx_leave(ctx);
}

spc_status spc__ctx_check_cancel(spc_ctx *ctx)
{
    return spc__cancelled(ctx->cancel) ? spc__interrupted(spc__error_of(ctx))
                                       : SPC_OK;
}

bool spc_ctx_is_from_this_process(const spc_ctx *ctx)
{
    return ctx != NULL && ctx->forks == spc__forks();
}

spc_stats spc_ctx_stats(const spc_ctx *ctx)
{
    return ctx != NULL ? ctx->stats : (spc_stats){0};
}

/* ---- for other files ----------------------------------------------------- */

spc_status spc__ctx_library(spc__library **out, spc_ctx *ctx)
{
    spc_status status = SPC_OK;

    if (ctx->library == NULL)
        status = spc__library_open(&ctx->library, ctx->template_dir,
                                   &ctx->cancel, spc__error_of(ctx));
    *out = ctx->library;
    return status;
}

void spc__ctx_provenance(spc__provenance *out, const spc_ctx *ctx)
{
    memset(out, 0, sizeof(*out));
    snprintf(out->version, sizeof(out->version), "%s", SPC_VERSION_TEXT);
    snprintf(out->driver, sizeof(out->driver), "%s", ctx->info.driver);
    /* One byte less, as a cut name may lack its final zero. */
    if (gethostname(out->host, sizeof(out->host) - 1) != 0)
        out->host[0] = '\0';
    out->unix_seconds = spc__unix_seconds();
}

/* ---- devices ------------------------------------------------------------- */

int spc_devices_list(spc_device_info *out, int capacity)
{
    int count = 0;

    for (int i = 0; spc__device_table[i] != NULL; i++) {
        int left = out != NULL && capacity > count ? capacity - count : 0;
        count +=
            spc__device_table[i]->list(left > 0 ? out + count : NULL, left);
    }
    return count;
}

spc_status spc_ctx_device(spc_device_info *out, const spc_ctx *ctx)
{
    spc_status status = spc__need(spc__error_of((spc_ctx *)ctx), __func__,
                                  "ctx", ctx, "out", out, NULL);

    if (status == SPC_OK)
        *out = ctx->info;
    return status;
}

spc_status spc_memory_alloc(void **out, spc_ctx *ctx, size_t bytes)
{
    spc_error *error = spc__error_of(ctx);
    spc_status status =
        spc__need(error, __func__, "out", out, "ctx", ctx, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    return spc__device_ops_of(ctx->device)
        ->alloc(ctx->device, out, bytes > 0 ? bytes : 1, error);
}

void spc_memory_free(spc_ctx *ctx, void *memory)
{
    if (ctx != NULL && memory != NULL)
        spc__device_ops_of(ctx->device)->dealloc(ctx->device, memory);
}

spc_status spc_memory_upload(void *device, spc_ctx *ctx, const void *host,
                             size_t bytes)
{
    spc_error *error = spc__error_of(ctx);
    spc_status status = spc__need(error, __func__, "ctx", ctx, NULL);

    if (status == SPC_OK && bytes > 0)
        status =
            spc__need(error, __func__, "device", device, "host", host, NULL);
    if (status != SPC_OK)
        return status;
    const spc__device_ops *ops = spc__device_ops_of(ctx->device);
    status = ops->copy_in(ctx->device, device, host, bytes, NULL, error);
    /* The caller may free the host's memory at once. */
    return status == SPC_OK ? ops->sync(ctx->device, NULL, error) : status;
}

spc_status spc_memory_download(void *host, spc_ctx *ctx, const void *device,
                               size_t bytes)
{
    spc_error *error = spc__error_of(ctx);
    spc_status status = spc__need(error, __func__, "ctx", ctx, NULL);

    if (status == SPC_OK && bytes > 0)
        status =
            spc__need(error, __func__, "host", host, "device", device, NULL);
    if (status != SPC_OK)
        return status;
    const spc__device_ops *ops = spc__device_ops_of(ctx->device);
    status = ops->copy_out(ctx->device, host, device, bytes, NULL, error);
    return status == SPC_OK ? ops->sync(ctx->device, NULL, error) : status;
}

spc_status spc_ctx_synchronize(spc_ctx *ctx)
{
    spc_error *error = spc__error_of(ctx);
    spc_status status = spc__need(error, __func__, "ctx", ctx, NULL);

    if (status != SPC_OK)
        return status;
    return spc__device_ops_of(ctx->device)->sync(ctx->device, NULL, error);
}

spc_status spc__ctx_check_database(const spc_ctx *ctx, spc_error *error)
{
    if (ctx->cache != NULL)
        return SPC_OK;
    return spc__fail(error, SPC_ENOTFOUND, "no database is open: %s",
                     ctx->no_store.status != SPC_OK
                         ? ctx->no_store.text
                         : "give its path when the context is made");
}

spc_status spc__ctx_need_database(spc_ctx *ctx, const char *function,
                                  const char *name, const void *needed)
{
    spc_status status =
        spc__need(spc__error_of(ctx), function, "ctx", ctx, name, needed, NULL);

    return status == SPC_OK ? spc__ctx_check_database(ctx, spc__error_of(ctx))
                            : status;
}
