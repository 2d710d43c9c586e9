/*
 * ladder.c - compiles the kernels of sets and maps for keys of every width.
 *
 * Keys are as wide as the extent of a scene asks for, and code depends on that.
 * A run's own scenes need some of it, most often the narrow ones; a vehicle
 * that drives out of their extent, with the database and no compiler, needs the
 * rest. They are the largest kernels there are: a measuring process that
 * compiled its own, one after the other, would keep all others waiting. So all
 * of them compile beside the first candidates, the narrow ones first.
 */
#include "ladder.h"

#include "cancel.h"
#include "error.h"
#include "indexer.h"
#include "pool.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct rung {
    const spc__index_code *code;
    spc__template *tpl;
    char key[SPC__SHA256_HEX];
    char *source, *identity;
    bool needs_compiler;
    bool is_stored; /* as far as it will be */
    spc__artefact artefact;
    spc_error error;
} rung;

struct spc__ladder {
    const spc__request *request;
    spc__library *library;
    const spc__attrs *target;
    spc__compiler *compiler;
    spc__compile_job prototype; /* without source */
    spc__index_ladder codes;
    rung missing[SPC__LADDER_MOST]; /* those of narrow keys first */
    int count, narrow;
    spc__pool *pool;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t has_narrow;
    int narrow_left; /* to be compiled */
    bool is_given_up;
};

typedef struct spc__ladder ladder;

/* ---- what is missing ----------------------------------------------------- */

static bool needs_code(const spc__request *request)
{
    const spc_ctx *ctx = request->ctx;

    return ctx->stores &&
           (request->is_foreign ||
            !spc__device_ops_of(ctx->device)->builds_maps_on_host);
}

/* Is there code for the device at hand, with a record that names it? Found
 * without one, code gets its record. */
static bool is_recorded(const ladder *l, const spc__index_code *code)
{
    spc__code found;

    return !l->request->is_foreign &&
           spc__ctx_code(&found, l->request->ctx, code->template_name,
                         &code->problem, NULL, SPC_PLAN_CACHED_ONLY) == SPC_OK;
}

static bool is_narrow(const spc__index_code *code)
{
    const spc__attrs *problem = &code->problem;

    return spc__attrs_number(problem, "key", 32) == 32 &&
           spc__attrs_number(problem, "row_key", 32) == 32 &&
           spc__attrs_number(problem, "in_key", 32) == 32;
}

static void add_missing(ladder *l, bool narrow)
{
    for (int i = 0; i < l->codes.count; i++) {
        const spc__index_code *code = &l->codes.at[i];
        spc__template *tpl = spc__library_find(l->library, code->template_name);
        /* Somebody else's folder of templates may have none that build maps. */
        if (tpl != NULL && is_narrow(code) == narrow && !is_recorded(l, code))
            l->missing[l->count++] = (rung){.code = code, .tpl = tpl};
    }
}

static void find_missing(ladder *l, bool apart)
{
    const spc__request *request = l->request;
    const spc__device_ops *ops = spc__device_ops_of(request->ctx->device);
    unsigned block =
        spc__index_block(l->target, request->is_foreign ? 0 : ops->index_block);

    spc__index_ladder_init(&l->codes, block, &request->conv->geometry,
                           spc__conv_is_inverse(request->conv), apart);
    add_missing(l, true);
    l->narrow = l->count;
    add_missing(l, false);
}

/* ---- compiling ----------------------------------------------------------- */

static bool is_stored(const ladder *l, const rung *r)
{
    spc__code_wanted wanted = {
        .key = r->key, .target = l->request->target, .identity = r->identity};
    void *code = NULL;
    size_t bytes;
    spc_error error;
    bool stored =
        spc__cache_get_artefact(l->request->ctx->cache, &wanted, &code, &bytes,
                                NULL, &error) == SPC_OK;

    free(code);
    return stored;
}

static void identify(rung *r, const spc__attrs *config)
{
    spc__buf identity = SPC__BUF_INIT;

    spc__code_identity(&identity, r->code->template_name, &r->code->problem,
                       config);
    if ((r->identity = spc__buf_detach(&identity)) == NULL)
        spc__fail_memory(&r->error, 1);
    spc__buf_release(&identity);
}

static spc__compile_job job_of(const ladder *l, const rung *r)
{
    spc__compile_job job = l->prototype;

    job.name = r->code->template_name;
    job.source = r->source;
    return job;
}

/* A Lua state serves one thread: all are rendered before any is compiled. */
static void render(ladder *l, rung *r)
{
    spc__attrs config;
    spc__buf source = SPC__BUF_INIT;
    spc_status status = spc__template_default(
        &config, r->tpl, &r->code->problem, l->target, &r->error);

    if (status == SPC_OK)
        status = spc__template_render(&source, r->tpl, &r->code->problem,
                                      l->target, &config, &r->error);
    if (status == SPC_OK && (r->source = spc__buf_detach(&source)) == NULL)
        spc__fail_memory(&r->error, 1);
    spc__buf_release(&source);
    if (r->source != NULL)
        identify(r, &config);
    if (r->identity == NULL)
        return;
    spc__compile_job job = job_of(l, r);
    spc__artefact_key(r->key, l->compiler, &job);
    r->needs_compiler = !is_stored(l, r);
}

static bool is_given_up(ladder *l)
{
    pthread_mutex_lock(&l->lock);
    bool given_up = l->is_given_up;
    pthread_mutex_unlock(&l->lock);
    return given_up || spc__cancelled(l->request->ctx->cancel);
}

static void note_done(ladder *l, int64_t i)
{
    if (i >= l->narrow)
        return;
    pthread_mutex_lock(&l->lock);
    if (--l->narrow_left == 0)
        pthread_cond_signal(&l->has_narrow);
    pthread_mutex_unlock(&l->lock);
}

/* What a thread of the pool does. */
static void compile(void *payload, int64_t i)
{
    ladder *l = payload;
    rung *r = &l->missing[i];

    if (is_given_up(l)) {
        r->error.status = SPC_EINTERRUPTED;
    } else if (r->needs_compiler) {
        spc__compile_job job = job_of(l, r);
        spc__compile(&r->artefact, l->compiler, &job, NULL, &r->error);
    }
    note_done(l, i);
}

/* ---- storing ------------------------------------------------------------- */

static spc_status store(const ladder *l, rung *r)
{
    spc_ctx *ctx = l->request->ctx;
    const spc__attrs no_launch = {0};
    spc_status status;

    if (r->error.status == SPC_EINTERRUPTED)
        return spc__interrupted(l->request->error);
    if (r->is_stored)
        return SPC_OK;
    r->is_stored = true;
    if (r->error.status != SPC_OK) {
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "without a compiler some scenes cannot be indexed: %s",
                        r->error.text);
        return SPC_OK;
    }
    if (!r->needs_compiler)
        return SPC_OK;
    ctx->stats.compiles++;
    status = spc__cache_put_artefact(
        ctx->cache, r->key, l->request->target, r->artefact.compiler,
        r->identity, &no_launch, &r->artefact.resources, r->artefact.code,
        r->artefact.code_bytes, l->request->error);
    if (status == SPC_OK)
        is_recorded(l, r->code); /* from now on */
    return status;
}

/* What was only tried is no failure of the run. */
static spc_status store_first(ladder *l, int count)
{
    spc_error before = *l->request->error;
    spc_status status = SPC_OK;

    for (int i = 0; i < count && status == SPC_OK; i++)
        status = store(l, &l->missing[i]);
    if (status == SPC_OK)
        *l->request->error = before;
    return status;
}

/* ---- all of it ----------------------------------------------------------- */

static spc_status start_compiling(ladder *l)
{
    const spc_ctx *ctx = l->request->ctx;
    int threads = ctx->threads < l->count ? ctx->threads : l->count;
    spc_status status = spc__request_compiler(&l->compiler, &l->prototype,
                                              l->request, l->library);

    if (status != SPC_OK) {
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "without a compiler some scenes cannot be indexed: %s",
                        l->request->error->text);
        l->count = 0;
        return SPC_OK;
    }
    for (int i = 0; i < l->count; i++)
        render(l, &l->missing[i]);
    l->narrow_left = l->narrow;
    status = spc__pool_create(&l->pool, threads + 1, l->request->error);
    if (status == SPC_OK)
        spc__pool_start(l->pool, l->count, compile, l);
    return status;
}

spc_status spc__ladder_begin(spc__ladder **out, const spc__request *request,
                             spc__library *library, const spc__attrs *target,
                             bool apart)
{
    spc_error before = *request->error;
    ladder *l;
    spc_status status = SPC_OK;

    *out = NULL;
    if (!needs_code(request))
        return SPC_OK;
    if ((l = calloc(1, sizeof(*l))) == NULL)
        return spc__fail_memory(request->error, sizeof(*l));
    l->request = request;
    l->library = library;
    l->target = target;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->has_narrow, NULL);
    find_missing(l, apart);
    if (l->count > 0)
        status = start_compiling(l);
    if (status == SPC_OK) {
        *request->error = before;
        *out = l;
    } else {
        spc__ladder_free(l);
    }
    return status;
}

spc_status spc__ladder_await(spc__ladder *l)
{
    if (l == NULL || l->count == 0)
        return SPC_OK;
    if (spc__pool_helpers(l->pool) == 0)
        spc__pool_finish(l->pool);
    pthread_mutex_lock(&l->lock);
    while (l->narrow_left > 0)
        pthread_cond_wait(&l->has_narrow, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return store_first(l, l->narrow);
}

spc_status spc__ladder_end(spc__ladder *l)
{
    if (l == NULL || l->count == 0)
        return SPC_OK;
    spc__pool_finish(l->pool);
    return store_first(l, l->count);
}

void spc__ladder_free(spc__ladder *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->is_given_up = true;
    pthread_mutex_unlock(&l->lock);
    if (l->pool != NULL)
        spc__pool_finish(l->pool);
    spc__pool_free(l->pool);
    for (int i = 0; i < l->count; i++) {
        spc__artefact_release(&l->missing[i].artefact);
        free(l->missing[i].source);
        free(l->missing[i].identity);
    }
    if (l->request->is_foreign && l->compiler != NULL)
        spc__compiler_close(l->compiler);
    pthread_cond_destroy(&l->has_narrow);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
