/* SPDX-License-Identifier: Apache-2.0 */
/*
 * builder.c - compiles candidates in the background.
 *
 * The caller renders (one Lua state) and appends jobs to a list. Threads take
 * them, compile them, and append them to a second list, from which the caller
 * handles the results. The compiler's resource report decides before any
 * launch.
 */
#include "tuner/builder.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/pool.h"
#include "tuner/resources.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct job { /* a candidate to compile */
    spc__entry *entry;
    spc__compile_job what;
    spc__artefact artefact;
    spc_status status;
    spc_error error;
    int troubles; /* failures of the machine, not of the source */
    struct job *next;
} job;

typedef struct job_list {
    job *first, *last;
} job_list;

typedef struct entry_list { /* has room for all candidates */
    spc__entry **at;
    int first, count;
} entry_list;

struct spc__builder {
    const spc__request *request;
    const spc__candidates *candidates;
    spc__compiler *compiler;
    bool owns_compiler;         /* compiles for a target other than the
                                 * device */
    spc__compile_job prototype; /* the job of every candidate, without its
                                 * source */

    /* Only the caller uses these members. */
    entry_list done; /* finished candidates, ready to be returned */
    /* candidates that wait for another candidate's code, which they share */
    entry_list sharing;
    int pending, compiled;
    bool works;

    spc__pool *pool;
    bool caller_compiles; /* the caller compiles instead of only waiting */
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t has_waiting, has_finished;
    job_list waiting, finished;
    int underway;
    bool is_closed; /* no more jobs will arrive */
};

/* Appends: candidates are compiled in the order in which they were added. */
static void push_job(job_list *list, job *j)
{
    j->next = NULL;
    if (list->last != NULL)
        list->last->next = j;
    else
        list->first = j;
    list->last = j;
}

/* Takes the first job; returns NULL if the queue is empty. The caller holds the
 * lock. */
static job *pop_job(job_list *list)
{
    job *j = list->first;

    if (j == NULL)
        return NULL;
    list->first = j->next;
    if (list->first == NULL)
        list->last = NULL;
    return j;
}

static void free_job(job *j)
{
    if (j == NULL)
        return;
    spc__artefact_release(&j->artefact);
    free(j);
}

/* ---- compiling ----------------------------------------------------------- */

/*
 * True for failures that say nothing about the candidate: the compiler found no
 * memory or disk space, or was stopped.
 */
static bool is_trouble(spc_status status)
{
    return status == SPC_EINTERRUPTED || status == SPC_ENOMEM ||
           status == SPC_EIO;
}

/* Many compilers at once may need too much memory; a later try can succeed. */
static bool is_tried_again(job *j)
{
    enum { TRIES = 3 };
    struct timespec pause = {0, 200 * 1000 * 1000};

    if (!is_trouble(j->status) || j->status == SPC_EINTERRUPTED ||
        ++j->troubles == TRIES)
        return false;
    /* Gives another compiler time to end and to free its memory. */
    nanosleep(&pause, NULL);
    return true;
}

/*
 * Compiles the next waiting job without the lock, which it takes again
 * afterwards. A job to be retried goes to the end of the list.
 */
static void compile_next(spc__builder *builder)
{
    job *j = pop_job(&builder->waiting);

    /* Counts under the lock: otherwise await_job() could see neither a waiting
     * nor a running job, and give up too early. */
    builder->underway++;
    pthread_mutex_unlock(&builder->lock);
    j->status = spc__compile(&j->artefact, builder->compiler, &j->what, NULL,
                             &j->error);
    bool again = is_tried_again(j);
    pthread_mutex_lock(&builder->lock);
    builder->underway--;
    /* After spc__builder_stop() jobs are only returned, as the run is over. */
    if (again && !builder->is_closed) {
        push_job(&builder->waiting, j);
        pthread_cond_signal(&builder->has_waiting);
    } else {
        push_job(&builder->finished, j);
        pthread_cond_signal(&builder->has_finished);
    }
}

/* The loop of a thread as long as the builder lives. */
static void serve(void *payload, int64_t i)
{
    spc__builder *builder = payload;

    pthread_mutex_lock(&builder->lock);
    for (;;) {
        while (builder->waiting.first == NULL && !builder->is_closed)
            pthread_cond_wait(&builder->has_waiting, &builder->lock);
        /* The queue is closed and empty: the thread ends. */
        if (builder->waiting.first == NULL)
            break;
        compile_next(builder);
    }
    pthread_mutex_unlock(&builder->lock);
}

/* Waits for the next compiled job; NULL if nothing is being compiled. */
static job *await_job(spc__builder *builder)
{
    pthread_mutex_lock(&builder->lock);
    while (builder->finished.first == NULL &&
           (builder->waiting.first != NULL || builder->underway > 0)) {
        /* With no helper thread the caller would otherwise wait for ever. */
        if (builder->waiting.first != NULL && builder->caller_compiles)
            compile_next(builder);
        else
            pthread_cond_wait(&builder->has_finished, &builder->lock);
    }
    job *j = pop_job(&builder->finished);
    pthread_mutex_unlock(&builder->lock);
    return j;
}

/* Hands a rendered candidate to the threads. The source is freed only when the
 * job has come back, as a thread reads it until then. */
static spc_status enqueue(spc__builder *builder, spc__entry *entry)
{
    job *j = calloc(1, sizeof(*j));

    if (j == NULL)
        return spc__fail_memory(builder->request->error, sizeof(*j));
    j->entry = entry;
    j->what = builder->prototype;
    j->what.name = entry->trial.template_name;
    j->what.source = entry->source;
    entry->state = SPC__COMPILING;
    pthread_mutex_lock(&builder->lock);
    push_job(&builder->waiting, j);
    pthread_cond_signal(&builder->has_waiting);
    pthread_mutex_unlock(&builder->lock);
    return SPC_OK;
}

/* ---- results of a candidate ---------------------------------------------- */

/* Sources are large, and there may be thousands of candidates. */
static void drop_source(spc__entry *entry)
{
    free(entry->source);
    entry->source = NULL;
}

/* Makes a candidate ready for spc__builder_next(). The list has room for all
 * candidates, each of which is in it at most once. */
static void give_back(spc__builder *builder, spc__entry *entry)
{
    entry_list *done = &builder->done;

    drop_source(entry);
    if (done->first == done->count)
        done->first = done->count = 0;
    done->at[done->count++] = entry;
}

/* Gives a failed candidate back. */
static void fail(spc__builder *builder, spc__entry *entry,
                 spc__trial_status status, const char *note)
{
    spc__entry_fail(entry, status, note);
    give_back(builder, entry);
}

/* Handles a candidate whose code exists. */
static void check_resources(spc__builder *builder, spc__entry *entry)
{
    char why[192];

    /* Code exists, so the compiler works, and a failure of another candidate is
     * its own. */
    builder->works = true;
    entry->state = SPC__BUILT;
    if (spc__resources_refuse(why, sizeof(why), entry,
                              &builder->candidates->target,
                              builder->request->options.allow_spills))
        spc__entry_fail(entry, SPC__TRIAL_CONSTRAINT, why);
    give_back(builder, entry);
}

/* Moves the code from the job to the candidate. */
static void take_compiled(spc__builder *builder, spc__entry *entry,
                          spc__artefact *artefact)
{
    entry->code = artefact->code;
    entry->code_bytes = artefact->code_bytes;
    /* The job's release would free it. */
    artefact->code = NULL;
    entry->trial.resources = artefact->resources;
    entry->trial.compile_ms = (double)artefact->compile_ns * 1e-6;
    entry->code_pending = true;
    builder->compiled++;
    builder->request->ctx->stats.compiles++;
    check_resources(builder, entry);
}

/* Uses code from the database, if it has some for this source and target. If
 * reading fails for any reason, the candidate is compiled. */
static bool take_stored(spc__builder *builder, spc__entry *entry)
{
    const spc__request *request = builder->request;
    spc__cache *cache = request->ctx->cache;
    spc__buf identity = SPC__BUF_INIT;
    spc__code_wanted wanted = {
        .key = entry->trial.artefact,
        .target = request->target,
        .own_only =
            !request->is_foreign && spc__ctx_wants_own_code(request->ctx),
    };
    spc_error error;

    if (cache == NULL)
        return false;
    spc__code_identity(&identity, entry->trial.template_name,
                       &builder->candidates->problem,
                       &entry->candidate->config);
    wanted.identity = spc__buf_text(&identity);
    spc_status status = spc__cache_get_artefact(
        cache, &wanted, &entry->code, &entry->code_bytes,
        &entry->trial.resources, &error);
    spc__buf_release(&identity);
    if (status == SPC_OK)
        check_resources(builder, entry);
    return status == SPC_OK;
}

/* Copies the other candidate's code, or its failure. */
static void take_shared(spc__builder *builder, spc__entry *entry,
                        const spc__entry *model)
{
    if (model->code == NULL) {
        fail(builder, entry, model->trial.status, model->trial.note);
        return;
    }
    /* A copy, as each candidate frees its own code when it loses. */
    if ((entry->code = malloc(model->code_bytes)) == NULL) {
        fail(builder, entry, SPC__TRIAL_COMPILE, "out of memory");
        return;
    }
    memcpy(entry->code, model->code, model->code_bytes);
    entry->code_bytes = model->code_bytes;
    entry->trial.resources = model->trial.resources;
    /* The copy is stored too, since the database finds code by its
     * configuration. */
    entry->code_pending = true;
    check_resources(builder, entry);
}

/* Returns the candidate to its state before it was added. */
static void forget(spc__builder *builder, spc__entry *entry)
{
    drop_source(entry);
    entry->state = SPC__NEW;
    builder->pending--;
}

/* Handles the candidates that waited for this one's code. */
static void settle_sharing(spc__builder *builder, const spc__entry *model)
{
    entry_list *sharing = &builder->sharing;
    int kept = 0;

    for (int i = 0; i < sharing->count; i++) {
        spc__entry *entry = sharing->at[i];
        if (strcmp(entry->body, model->body) != 0)
            sharing->at[kept++] = entry;
        else if (model->state == SPC__NEW)
            forget(builder, entry);
        else
            take_shared(builder, entry, model);
    }
    sharing->count = kept;
}

/* Sets the state of a finished job's candidate, and of candidates that share
 * its code. */
static void settle(spc__builder *builder, job *j)
{
    spc__entry *entry = j->entry;

    if (j->status == SPC_OK)
        take_compiled(builder, entry, &j->artefact);
    else if (is_trouble(j->status)) /* the candidate is not at fault */
        forget(builder, entry);
    else
        fail(builder, entry, SPC__TRIAL_COMPILE, j->error.text);
    settle_sharing(builder, entry);
    free_job(j);
}

/* ---- rendering ----------------------------------------------------------- */

/* Hashes each field with its length, so that different fields cannot give the
 * same bytes. */
static void hash(char out[65], const char *text, const char *more)
{
    spc__sha256 sha;

    spc__sha256_init(&sha);
    spc__sha256_field(&sha, text, strlen(text));
    spc__sha256_field(&sha, more, strlen(more));
    spc__sha256_end(out, &sha);
}

/*
 * Hashes the code without the head comment, which names the configuration; and
 * a second time with its launch. A linear layer has no map whose rows could be
 * sorted, so all row orders are equal to it.
 */
static void identify(const spc__builder *builder, spc__entry *entry)
{
    const char *body = strstr(entry->source, "*/");
    spc__attrs of_rows = entry->trial.launch;
    spc__buf launch = SPC__BUF_INIT;

    if (spc_conv_is_linear(builder->request->conv))
        spc__attrs_set_text(&of_rows, "order", "none");
    spc__attrs_format(&launch, &of_rows);
    hash(entry->body, body != NULL ? body : entry->source, "");
    hash(entry->identity, entry->body, spc__buf_text(&launch));
    spc__buf_release(&launch);
}

/*
 * Returns SPC_ENOMEM and SPC_EINTERRUPTED only; if the template itself fails,
 * the candidate has failed.
 */
static spc_status render(spc__builder *builder, spc__entry *entry)
{
    const spc__candidates *candidates = builder->candidates;
    spc__buf source = SPC__BUF_INIT;
    spc_error error = {0};
    spc_status status = spc__template_render(
        &source, entry->candidate->tpl, &candidates->problem,
        &candidates->target, &entry->candidate->config, &error);

    if (status == SPC_OK && (entry->source = spc__buf_detach(&source)) == NULL)
        status = spc__fail_memory(&error, 1);
    spc__buf_release(&source);
    if (status == SPC_ENOMEM || status == SPC_EINTERRUPTED)
        return spc__fail(builder->request->error, status, "%s", error.text);
    if (status != SPC_OK) {
        spc__entry_fail(entry, SPC__TRIAL_TEMPLATE, error.text);
        return SPC_OK;
    }
    spc__compile_job what = builder->prototype;
    what.name = entry->trial.template_name;
    what.source = entry->source;
    spc__artefact_key(entry->trial.artefact, builder->compiler, &what);
    identify(builder, entry);
    return SPC_OK;
}

/* Avoids compiling and measuring the same code twice. */
static bool merge_duplicate(spc__builder *builder, spc__entry *entry)
{
    const spc__entry *other =
        entry->candidate->is_default
            ? NULL
            : spc__candidates_original(builder->candidates, entry);
    char note[192];

    if (other == NULL)
        return false;
    snprintf(note, sizeof(note), "the same code and launch as '%.32s %.120s'",
             other->trial.template_name, other->config);
    entry->is_duplicate = true;
    fail(builder, entry, SPC__TRIAL_CONSTRAINT, note);
    return true;
}

spc_status spc__builder_add(spc__builder *builder, spc__entry *entry)
{
    spc_status status;

    if (spc__request_cancelled(builder->request))
        return spc__interrupted(builder->request->error);
    if ((status = render(builder, entry)) != SPC_OK)
        return status;
    /* From here on spc__builder_next() returns the candidate, even if it
     * fails. */
    builder->pending++;
    if (entry->state == SPC__FAILED) {
        give_back(builder, entry);
        return SPC_OK;
    }
    if (merge_duplicate(builder, entry) || take_stored(builder, entry))
        return SPC_OK;
    const spc__entry *model = spc__candidates_model(builder->candidates, entry);
    if (model == NULL)
        return enqueue(builder, entry);
    if (model->state == SPC__COMPILING) {
        entry->state = SPC__COMPILING;
        builder->sharing.at[builder->sharing.count++] = entry;
    } else {
        take_shared(builder, entry, model);
    }
    return SPC_OK;
}

/* ---- returning ----------------------------------------------------------- */

/* A failure due to the machine ends the run and is reported. */
static bool note_trouble(const spc__builder *builder, const job *j)
{
    bool ends = !builder->is_closed && j->status != SPC_EINTERRUPTED &&
                is_trouble(j->status);

    if (ends)
        spc__fail(builder->request->error, j->status,
                  "the compiler fails, not the candidates: %s", j->error.text);
    return ends;
}

spc_status spc__builder_next(spc__builder *builder, spc__entry **out)
{
    entry_list *done = &builder->done;
    job *j;

    *out = NULL;
    while (done->first == done->count && (j = await_job(builder)) != NULL) {
        if (note_trouble(builder, j)) {
            settle(builder, j);
            return builder->request->error->status;
        }
        settle(builder, j);
        if (!builder->is_closed && spc__request_cancelled(builder->request))
            return spc__interrupted(builder->request->error);
    }
    if (done->first == done->count)
        return SPC_OK;
    *out = done->at[done->first++];
    builder->pending--;
    return SPC_OK;
}

void spc__builder_stop(spc__builder *builder)
{
    job *j;

    pthread_mutex_lock(&builder->lock);
    builder->is_closed = true;
    while ((j = pop_job(&builder->waiting)) != NULL) {
        j->status = SPC_EINTERRUPTED;
        push_job(&builder->finished, j);
    }
    pthread_cond_broadcast(&builder->has_waiting);
    pthread_mutex_unlock(&builder->lock);
    spc__pool_finish(builder->pool);
}

int spc__builder_pending(const spc__builder *builder)
{
    return builder->pending;
}

int spc__builder_compiled(const spc__builder *builder)
{
    return builder->compiled;
}

bool spc__builder_works(const spc__builder *builder)
{
    return builder->works;
}

const char *spc__builder_compiler(const spc__builder *builder)
{
    return spc__compiler_identity(builder->compiler);
}

/* ---- life ---------------------------------------------------------------- */

/* Returns the context's own compiler, or a new one for a foreign target. */
static spc_status open_compiler(spc__builder *builder)
{
    const spc__request *request = builder->request;
    spc_status status =
        spc__request_compiler(&builder->compiler, &builder->prototype, request,
                              builder->candidates->library);

    builder->owns_compiler = status == SPC_OK && request->is_foreign;
    return status;
}

/* Starts the compiling threads. If kernels run on the host's cores, one thread
 * is left for the caller, which measures; it compiles as well while it
 * waits. */
static spc_status start_threads(spc__builder *builder)
{
    const spc_ctx *ctx = builder->request->ctx;
    bool shares = spc__device_ops_of(ctx->device)->runs_on_host_cores;
    int threads = shares ? ctx->threads - 1 : ctx->threads;
    spc_status status =
        spc__pool_create(&builder->pool, threads + 1, builder->request->error);

    if (status != SPC_OK)
        return status;
    builder->caller_compiles = shares || spc__pool_helpers(builder->pool) == 0;
    spc__pool_start(builder->pool, spc__pool_helpers(builder->pool), serve,
                    builder);
    return SPC_OK;
}

/* Allocates room for all candidates now, so that returning them cannot fail. */
static spc_status make_lists(spc__builder *builder)
{
    size_t capacity = (size_t)builder->candidates->count + 1;

    builder->done.at = calloc(capacity, sizeof(*builder->done.at));
    builder->sharing.at = calloc(capacity, sizeof(*builder->sharing.at));
    if (builder->done.at == NULL || builder->sharing.at == NULL)
        return spc__fail_memory(builder->request->error,
                                capacity * sizeof(*builder->done.at));
    return SPC_OK;
}

spc_status spc__builder_create(spc__builder **out, const spc__request *request,
                               const spc__candidates *candidates)
{
    spc__builder *builder = calloc(1, sizeof(*builder));
    spc_status status;

    *out = NULL;
    if (builder == NULL)
        return spc__fail_memory(request->error, sizeof(*builder));
    builder->request = request;
    builder->candidates = candidates;
    pthread_mutex_init(&builder->lock, NULL);
    pthread_cond_init(&builder->has_waiting, NULL);
    pthread_cond_init(&builder->has_finished, NULL);
    if ((status = open_compiler(builder)) != SPC_OK ||
        (status = make_lists(builder)) != SPC_OK ||
        (status = start_threads(builder)) != SPC_OK)
        spc__builder_free(builder);
    else
        *out = builder;
    return status;
}

void spc__builder_free(spc__builder *builder)
{
    job *j;

    if (builder == NULL)
        return;
    /* Threads use the lock and the compiler: they end before either is
     * destroyed. */
    if (builder->pool != NULL && !builder->is_closed)
        spc__builder_stop(builder);
    spc__pool_free(builder->pool);
    while ((j = pop_job(&builder->finished)) != NULL)
        free_job(j);
    pthread_cond_destroy(&builder->has_finished);
    pthread_cond_destroy(&builder->has_waiting);
    pthread_mutex_destroy(&builder->lock);
    if (builder->owns_compiler)
        spc__compiler_close(builder->compiler);
    free(builder->sharing.at);
    free(builder->done.at);
    free(builder);
}
