/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder.c - compiles the kernels of sets and maps for keys of every width, and
 * the kernel that transposes gradients of weights.
 *
 * The width of keys follows from the extent of a scene, and code depends on the
 * width. A run's own scenes need some of these kernels, most often the narrow
 * ones. A vehicle that drives out of their extent, with the database and no
 * compiler, needs the others. These kernels are the largest of all: a worker
 * that compiled them one after the other would delay all candidates. So they
 * compile in parallel with the first candidates; with few threads, the kernels
 * of wide keys follow those of narrow keys.
 */
#include "tuner/ladder.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/pool.h"
#include "coords/index/indexer.h"
#include "plan/transpose.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct rung {
    spc__index_code code;
    spc__template *tpl;
    char key[SPC__SHA256_HEX];
    char *source, *identity;
    bool is_narrow;
    bool needs_compiler;
    bool is_stored; /* stored, or impossible to store */
    spc__artefact artefact;
    spc_error error;
} rung;

/* The kernels that one parallel loop compiles: those from index `first` on. */
typedef struct flight {
    spc__ladder *ladder;
    int first;
    spc__pool *pool;
} flight;

/* Two loops for narrow and wide keys, and two for kernels that are requested
 * later. */
enum { FLIGHTS = 4 };

struct spc__ladder {
    const spc__request *request;
    spc__library *library;
    const spc__attrs *target;
    spc__compiler *compiler;
    spc__compile_job prototype; /* a job without its source */
    bool apart;
    rung missing[SPC__LADDER_MOST];
    int count;
    flight flights[FLIGHTS];
    int flight_count;
    volatile int is_given_up; /* also stops compilers */
    bool lacks_compiler;
    pthread_mutex_t lock; /* guards the number of remaining kernels */
    pthread_cond_t has_narrow;
    int narrow_left; /* number of kernels still to be compiled */
};

typedef struct spc__ladder ladder;

/* ---- missing kernels ----------------------------------------------------- */

/* True if code of maps is worth compiling: it can be stored, and the device
 * runs it. */
static bool needs_code(const spc__request *request)
{
    const spc_ctx *ctx = request->ctx;

    return ctx->stores &&
           (request->is_foreign ||
            !spc__device_ops_of(ctx->device)->builds_maps_on_host);
}

/*
 * True if the database has code for this device, with a record that names it.
 * Adds a record for code that does not have one.
 */
static bool is_recorded(const ladder *l, const spc__index_code *code)
{
    spc__code found;

    return !l->request->is_foreign &&
           spc__ctx_code(&found, l->request->ctx, code->template_name,
                         &code->problem, NULL, SPC_PLAN_CACHED_ONLY) == SPC_OK;
}

/* True if all keys of the kernel have 32 bits. */
static bool is_narrow(const spc__index_code *code)
{
    const spc__attrs *problem = &code->problem;

    return spc__attrs_number(problem, "key", 32) == 32 &&
           spc__attrs_number(problem, "row_key", 32) == 32 &&
           spc__attrs_number(problem, "in_key", 32) == 32;
}

/* A kernel may be in the list already. */
static bool is_listed(const ladder *l, const spc__index_code *code)
{
    for (int i = 0; i < l->count; i++)
        if (spc__attrs_equal(&l->missing[i].code.problem, &code->problem))
            return true;
    return false;
}

/* Lists kernels of one width that are missing from the database. */
static void add_missing(ladder *l, const spc__index_ladder *codes, bool narrow)
{
    for (int i = 0; i < codes->count; i++) {
        const spc__index_code *code = &codes->at[i];
        spc__template *tpl = spc__library_find(l->library, code->template_name);
        /* A user's folder of templates may lack templates that build maps. */
        if (tpl != NULL && is_narrow(code) == narrow && !is_listed(l, code) &&
            !is_recorded(l, code))
            l->missing[l->count++] =
                (rung){.code = *code, .tpl = tpl, .is_narrow = narrow};
    }
}

/* Plans of a WGRAD with SPC_PLAN_KRSC transpose its result. */
static void add_transpose(spc__index_ladder *out)
{
    spc__index_code *code = &out->at[out->count++];

    code->template_name = SPC__TRANSPOSE;
    spc__transpose_problem(&code->problem);
}

/* Lists missing kernels that are not listed yet. */
static void find_missing(ladder *l, bool narrow)
{
    const spc__request *request = l->request;
    const spc__device_ops *ops = spc__device_ops_of(request->ctx->device);
    spc__index_ladder codes;
    unsigned block =
        spc__index_block(l->target, request->is_foreign ? 0 : ops->index_block);

    spc__index_ladder_init(&codes, block, &request->conv->geometry,
                           spc__conv_is_inverse(request->conv), l->apart);
    if (request->conv->pass == SPC_WGRAD)
        add_transpose(&codes);
    add_missing(l, &codes, narrow);
}

/* ---- compiling ----------------------------------------------------------- */

/* True if the database has code of this source. */
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

/* Sets the name by which a plan without a compiler finds the code. */
static void identify(rung *r, const spc__attrs *config)
{
    spc__buf identity = SPC__BUF_INIT;

    spc__code_identity(&identity, r->code.template_name, &r->code.problem,
                       config);
    if ((r->identity = spc__buf_detach(&identity)) == NULL)
        spc__fail_memory(&r->error, 1);
    spc__buf_release(&identity);
}

static spc__compile_job job_of(const ladder *l, const rung *r)
{
    spc__compile_job job = l->prototype;

    job.name = r->code.template_name;
    job.source = r->source;
    return job;
}

/* A Lua state serves one thread, so all kernels are rendered before the first
 * is compiled. */
static void render(ladder *l, rung *r)
{
    spc__attrs config;
    spc__buf source = SPC__BUF_INIT;
    spc_status status = spc__template_default(&config, r->tpl, &r->code.problem,
                                              l->target, &r->error);

    if (status == SPC_OK)
        status = spc__template_render(&source, r->tpl, &r->code.problem,
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

/* True if the run is over or interrupted: no further kernel starts. */
static bool is_given_up(const ladder *l)
{
    return spc__cancelled(&l->is_given_up) ||
           spc__cancelled(l->request->ctx->cancel);
}

/* The last narrow kernel wakes spc__ladder_await(). */
static void note_done(ladder *l, const rung *r)
{
    if (!r->is_narrow)
        return;
    pthread_mutex_lock(&l->lock);
    if (--l->narrow_left == 0)
        pthread_cond_signal(&l->has_narrow);
    pthread_mutex_unlock(&l->lock);
}

/* The body of a pool thread. */
static void compile(void *payload, int64_t i)
{
    const flight *f = payload;
    ladder *l = f->ladder;
    rung *r = &l->missing[f->first + i];

    if (is_given_up(l)) {
        r->error.status = SPC_EINTERRUPTED;
    } else if (r->needs_compiler) {
        spc__compile_job job = job_of(l, r);
        spc__compile(&r->artefact, l->compiler, &job, NULL, &r->error);
    }
    note_done(l, r);
}

/* ---- storing ------------------------------------------------------------- */

/* Stores one kernel. Called by the run's own thread, as a context belongs to
 * one. A kernel that does not compile causes only a warning, since its scenes
 * may never occur. */
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
        is_recorded(l, &r->code); /* notes that the code is recorded */
    return status;
}

/* The run does not fail if an optional kernel does not compile. */
static spc_status store_all(ladder *l, bool wide)
{
    spc_error before = *l->request->error;
    spc_status status = SPC_OK;

    for (int i = 0; i < l->count && status == SPC_OK; i++)
        if (wide || l->missing[i].is_narrow)
            status = store(l, &l->missing[i]);
    if (status == SPC_OK)
        *l->request->error = before;
    return status;
}

/* ---- all of it ----------------------------------------------------------- */

/* Opens the compiler at the first need; warns once if that fails. */
static bool has_compiler(ladder *l)
{
    if (l->compiler != NULL || l->lacks_compiler)
        return l->compiler != NULL;
    l->lacks_compiler = spc__request_compiler(&l->compiler, &l->prototype,
                                              l->request, l->library) != SPC_OK;
    if (l->lacks_compiler)
        spc__log_printf(&l->request->ctx->log, SPC_LOG_WARNING,
                        "without a compiler some scenes cannot be indexed: %s",
                        l->request->error->text);
    else
        /* Uses its own flag instead of the context's, as the end of the run
         * must stop the compilers too. */
        l->prototype.cancel = &l->is_given_up;
    return !l->lacks_compiler;
}

/* Compiles the kernels from index `first` on. */
static spc_status start_flight(ladder *l, int first)
{
    flight *f = &l->flights[l->flight_count];
    int count = l->count - first, threads = l->request->ctx->threads;
    int narrow = 0;

    for (int i = first; i < l->count; i++) {
        render(l, &l->missing[i]);
        narrow += l->missing[i].is_narrow;
    }
    /* Sets the count before the pool starts, as its threads count down. */
    pthread_mutex_lock(&l->lock);
    l->narrow_left += narrow;
    pthread_mutex_unlock(&l->lock);
    *f = (flight){.ladder = l, .first = first};
    spc_status status = spc__pool_create(
        &f->pool, 1 + (threads < count ? threads : count), l->request->error);
    if (status != SPC_OK)
        return status;
    l->flight_count++;
    spc__pool_start(f->pool, count, compile, f);
    return SPC_OK;
}

/* Starts one parallel loop over missing kernels. An optional kernel leaves no
 * error in the context. */
static spc_status climb(ladder *l, bool narrow)
{
    spc_error before = *l->request->error;
    spc_status status = SPC_OK;
    int first = l->count;

    if (l->flight_count == FLIGHTS)
        return SPC_OK;
    find_missing(l, narrow);
    if (l->count > first && !has_compiler(l))
        l->count = first;
    if (l->count > first)
        status = start_flight(l, first);
    if (status == SPC_OK)
        *l->request->error = before;
    return status;
}

spc_status spc__ladder_climb(spc__ladder *l, bool apart)
{
    if (l == NULL)
        return SPC_OK;
    l->apart |= apart;
    spc_status status = climb(l, true);
    /*
     * With a thread for each kernel, the wide kernels start now, so that the
     * end of the run need not wait.
     */
    if (status == SPC_OK && l->request->ctx->threads > SPC__LADDER_MOST)
        status = climb(l, false);
    return status;
}

spc_status spc__ladder_begin(spc__ladder **out, const spc__request *request,
                             spc__library *library, const spc__attrs *target)
{
    ladder *l;

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
    *out = l;
    return SPC_OK;
}

/* Waits for all threads, and compiles remaining kernels itself. */
static void finish_flights(ladder *l)
{
    for (int i = 0; i < l->flight_count; i++)
        spc__pool_finish(l->flights[i].pool);
}

/*
 * With few threads the wide kernels come last: they would take cores that the
 * narrow kernels need.
 */
spc_status spc__ladder_await(spc__ladder *l)
{
    if (l == NULL)
        return SPC_OK;
    for (int i = 0; i < l->flight_count; i++)
        /* Without helper threads no kernel was compiled yet, so the caller
         * compiles. */
        if (spc__pool_helpers(l->flights[i].pool) == 0)
            spc__pool_finish(l->flights[i].pool);
    pthread_mutex_lock(&l->lock);
    while (l->narrow_left > 0)
        pthread_cond_wait(&l->has_narrow, &l->lock);
    pthread_mutex_unlock(&l->lock);
    spc_status status = store_all(l, false);
    return status == SPC_OK ? climb(l, false) : status;
}

spc_status spc__ladder_end(spc__ladder *l)
{
    spc_status status = l != NULL ? climb(l, false) : SPC_OK;

    if (l == NULL || status != SPC_OK)
        return status;
    finish_flights(l);
    return store_all(l, true);
}

void spc__ladder_free(spc__ladder *l)
{
    if (l == NULL)
        return;
    /* Relaxed order is enough: the flag only stops work early, and joining the
     * pool orders everything else. */
    __atomic_store_n(&l->is_given_up, 1, __ATOMIC_RELAXED);
    finish_flights(l);
    for (int i = 0; i < l->flight_count; i++)
        spc__pool_free(l->flights[i].pool);
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
