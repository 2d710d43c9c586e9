/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.c - background mode: a thread that compiles or tunes kernels for
 * plans.
 *
 * The thread has its own context on the same device and files. It stores its
 * results in the database, where the host's next plan finds them. So the two
 * share only the list of jobs and some flags.
 */
#include "plan/background.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sized.h"
#include "context/background.h"
#include "context/problem_key.h"
#include "coords/coords.h"
#include "coords/map.h"
#include "operators/offset_store.h"
#include "plan/lookup.h"
#include "spc/tune.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef enum job_state { WAITING, UNDER_WAY, DONE, FAILED } job_state;

/* One problem; kept until the context ends, as plans read its flag. */
typedef struct job {
    struct job *next;
    spc_conv conv;
    spc__problem_key key;
    spc_scene *scene; /* scene to tune on; NULL: only compile */
    int64_t rows_in, rows_out;
    double density;
    job_state state; /* the lock guards it */
    int is_better;   /* atomic: the plan's flag */
} job;

typedef struct background {
    spc__background face;
    spc_ctx *host; /* context of the thread that requests */
    spc_background_options options;
    /* a copy of options.worker, ended by NULL; NULL: no worker */
    char **worker;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the list, states and `ends` */
    pthread_cond_t changed;
    job *jobs;
    int ends; /* also cancels the current job */
} background;

/* ---- the thread's side --------------------------------------------------- */

/* A context like the host's. */
static spc_status open_own(spc_ctx **out, background *b, spc_error *error)
{
    const spc_ctx *host = b->host;
    int files = spc__cache_files(host->cache);
    const char **layers = calloc((size_t)files, sizeof(*layers));
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;

    *out = NULL;
    if (layers == NULL)
        return spc__fail_memory(error, (size_t)files * sizeof(*layers));
    /*
     * The user's file comes first and the shipped one last; the new context
     * finds the shipped file again by itself.
     */
    files -= host->shipped != NULL;
    for (int i = 1; i < files; i++)
        layers[i - 1] = spc__cache_file(host->cache, i);
    options.shipped = host->shipped != NULL ? host->shipped_folder : "";
    options.device = host->info.id;
    options.database = spc__cache_user_file(host->cache);
    options.layers = layers;
    options.layer_count = files - 1;
    options.template_dir = host->template_dir;
    options.threads = host->threads;
    options.need_database = true;
    options.log = host->log.write;
    options.log_payload = host->log.payload;
    /* The end of the host context must not wait for a long compilation. */
    options.cancel = &b->ends;
    options.trust = host->trusts_layers;
    options.key = host->key;
    options.allow = host->allow.text;
    spc_status status = spc_ctx_create(out, &options, error);
    free(layers);
    return status;
}

/* Tunes a layer until the program ends or the effort is spent. */
static spc_status tune(spc_ctx *ctx, const background *b, const job *wanted)
{
    const spc_scene *scene = wanted->scene;
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;

    options.effort = b->options.effort;
    options.worker = (const char *const *)b->worker;
    options.cancel = &b->ends;
    return b->options.tune(NULL, ctx, &wanted->conv, &scene, 1, &options);
}

/* The lookup of a plan that may compile also stores the compiled code. */
static spc_status compile(spc_ctx *ctx, const job *wanted)
{
    spc__pick *pick = malloc(sizeof(*pick));

    if (pick == NULL)
        return SPC_ENOMEM;
    spc_status status =
        spc__lookup(pick, ctx, &wanted->conv, wanted->rows_in, wanted->rows_out,
                    wanted->density, SPC_PLAN_JIT, NULL);
    free(pick);
    return status;
}

/* Does a job. Failures are only logged: the program has a kernel, if not the
 * best one. */
static spc_status work_on(spc_ctx *ctx, const background *b, const job *wanted)
{
    spc_status status =
        wanted->scene != NULL ? tune(ctx, b, wanted) : compile(ctx, wanted);

    if (status != SPC_OK && status != SPC_EINTERRUPTED)
        spc__log_printf(&b->host->log, SPC_LOG_WARNING, "in the background: %s",
                        spc_ctx_error(ctx));
    return status;
}

/*
 * The oldest waiting job: the list has the newest first. Waits for one; NULL at
 * the end. The lock must be held.
 */
static job *next_job(background *b)
{
    job *found = NULL;

    while (!b->ends && found == NULL) {
        /* The last match is the oldest, so the loop does not stop at the
         * first. */
        for (job *at = b->jobs; at != NULL; at = at->next)
            if (at->state == WAITING)
                found = at;
        if (found == NULL)
            pthread_cond_wait(&b->changed, &b->lock);
    }
    if (b->ends)
        return NULL;
    found->state = UNDER_WAY;
    return found;
}

/* The thread: does one job after the other until the program ends. */
static void *tune_in_background(void *payload)
{
    background *b = payload;
    spc_error error = {0};
    spc_ctx *ctx = NULL;
    job *wanted;

    pthread_mutex_lock(&b->lock);
    while ((wanted = next_job(b)) != NULL) {
        pthread_mutex_unlock(&b->lock);
        spc_status status = SPC_OK;
        /* Opens the context for the first job and not at the start, as a
         * program with only tuned layers never needs it. */
        if (ctx == NULL)
            status = open_own(&ctx, b, &error);
        if (ctx == NULL)
            spc__log_printf(&b->host->log, SPC_LOG_WARNING,
                            "in the background: %s", error.text);
        else
            status = work_on(ctx, b, wanted);
        /* The record is in the database before the flag is set, so a plan made
         * after it finds the record. */
        if (status == SPC_OK)
            __atomic_store_n(&wanted->is_better, 1, __ATOMIC_RELEASE);
        pthread_mutex_lock(&b->lock);
        wanted->state = status == SPC_OK ? DONE : FAILED;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    spc_ctx_free(ctx);
    return NULL;
}

/* ---- the host's side ----------------------------------------------------- */

/* Copies the voxels of a checked set, in the order of their keys. */
static spc_status fetch_voxels(int32_t **out, const spc_coords *set,
                               spc_error *error)
{
    const spc__device_ops *ops = spc__device_ops_of(set->ctx->device);
    const spc_index_key *layout = &set->key;
    size_t rows = (size_t)set->rows;
    /* The host indexer always works with u64 keys. */
    bool wide = ops->builds_maps_on_host || spc__key_bits(layout) > 32;
    size_t bytes = rows * (wide ? 8 : 4);
    char *keys = malloc(bytes + 1);
    spc_status status;

    *out = malloc(rows * 16 + 1);
    if (keys == NULL || *out == NULL) {
        free(keys);
        return spc__fail_memory(error, bytes + rows * 16);
    }
    /* Keys have the coordinates, while the caller's rows may be gone by now. */
    status = spc_memory_download(keys, set->ctx, set->keys, bytes);
    for (size_t i = 0; i < 4 * rows && status == SPC_OK; i++) {
        uint64_t key = wide ? ((const uint64_t *)keys)[i / 4]
                            : ((const uint32_t *)keys)[i / 4];
        (*out)[i] = spc__key_coordinate(layout, key, (int)(i % 4));
    }
    free(keys);
    return status;
}

/*
 * Makes a scene from the map's set. The row count of an unchecked set is
 * unknown, so there is no scene to tune on.
 */
static void take_scene(job *out, const spc__lack *lack)
{
    const spc_map *map = lack->map;
    int32_t *voxels = NULL;
    spc_error error;

    if (map == NULL)
        return;
    const spc_coords *set =
        spc__conv_ends_at_scene(lack->conv) ? map->to : map->in;
    if (!set->checked || set->rows == 0)
        return;
    if (fetch_voxels(&voxels, set, &error) == SPC_OK)
        spc_scene_create(&out->scene, voxels, set->rows, "background", &error);
    free(voxels);
}

/* Finds a job for this layer on similar scenes, whose result would serve
 * both. */
static job *find_job(background *b, const spc__problem_key *key)
{
    for (job *at = b->jobs; at != NULL; at = at->next)
        if (spc__attrs_equal(&at->key.layer, &key->layer) &&
            spc__same_buckets(&at->key, key))
            return at;
    return NULL;
}

/* Makes a job. Without a scene to tune on, it only compiles. */
static job *make_job(background *b, const spc__lack *lack,
                     const spc__problem_key *key)
{
    job *out = calloc(1, sizeof(*out));

    if (out == NULL)
        return NULL;
    out->conv = *lack->conv;
    if (spc__geometry_keep(&out->conv.geometry, NULL) != SPC_OK) {
        free(out);
        return NULL;
    }
    out->key = *key;
    out->rows_in = lack->rows_in;
    out->rows_out = lack->rows_out;
    out->density = lack->density;
    if (b->options.tune != NULL)
        take_scene(out, lack);
    return out;
}

/*
 * A finished job is ignored: the plan has its result already, or there is
 * nothing better.
 */
const int *spc__background_ask(spc_ctx *ctx, const spc__lack *lack)
{
    background *b = (background *)ctx->background;
    spc__problem_key *key = malloc(sizeof(*key));
    const int *flag = NULL;

    if (key == NULL)
        return NULL;
    spc__problem_key_init(key, b->host, lack->conv, lack->rows_in,
                          lack->rows_out, lack->density);
    pthread_mutex_lock(&b->lock);
    job *wanted = find_job(b, key);
    if (wanted == NULL && (wanted = make_job(b, lack, key)) != NULL) {
        /* Under the lock, which the thread takes before it walks the list. */
        wanted->next = b->jobs;
        b->jobs = wanted;
        pthread_cond_broadcast(&b->changed);
    }
    if (wanted != NULL && wanted->state < DONE)
        flag = &wanted->is_better;
    pthread_mutex_unlock(&b->lock);
    free(key);
    return flag;
}

static bool is_idle(const background *b)
{
    for (const job *at = b->jobs; at != NULL; at = at->next)
        if (at->state < DONE)
            return false;
    return true;
}

void spc_background_wait(spc_ctx *ctx)
{
    background *b = ctx != NULL ? (background *)ctx->background : NULL;

    if (b == NULL)
        return;
    pthread_mutex_lock(&b->lock);
    while (!is_idle(b))
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static void free_words(char **words)
{
    for (int i = 0; words != NULL && words[i] != NULL; i++)
        free(words[i]);
    free(words);
}

/*
 * Copies the strings: the thread starts workers long after the caller's array
 * is gone.
 */
static spc_status copy_words(char ***out, const char *const *words,
                             spc_error *error)
{
    size_t count = 0;

    *out = NULL;
    if (words == NULL)
        return SPC_OK;
    while (words[count] != NULL)
        count++;
    char **copy = calloc(count + 1, sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < count; i++)
        if ((copy[i] = strdup(words[i])) == NULL) {
            free_words(copy);
            copy = NULL;
        }
    *out = copy;
    return copy != NULL ? SPC_OK : spc__fail_memory(error, count + 1);
}

/* Frees everything. The thread has ended. */
static void release(background *b)
{
    free_words(b->worker);
    while (b->jobs != NULL) {
        job *next = b->jobs->next;
        spc_scene_free(b->jobs->scene);
        free(b->jobs);
        b->jobs = next;
    }
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* Ends the thread and waits for it. */
static void end(spc__background *self)
{
    background *b = (background *)self;

    pthread_mutex_lock(&b->lock);
    /* Atomic although the lock is held: the tuner and the compiler read this
     * flag without it. */
    __atomic_store_n(&b->ends, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    /* Joins the thread before anything is freed, as it uses the jobs and the
     * host's log. */
    pthread_join(b->thread, NULL);
}

static void release_ended(spc__background *self)
{
    release((background *)self);
}

/* Starts the thread. */
static spc_status start_thread(background *b)
{
    sigset_t before;

    /* The thread inherits the blocked signals, so Ctrl-C reaches the program's
     * own threads. */
    spc__signals_block(&before);
    int failed = pthread_create(&b->thread, NULL, tune_in_background, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0
               ? SPC_OK
               : spc__fail(spc__error_of(b->host), SPC_ENOMEM,
                           "no thread can be started: %s", strerror(failed));
}

spc_status spc_background_start(spc_ctx *ctx,
                                const spc_background_options *options)
{
    static const spc_background_options usual = SPC_BACKGROUND_OPTIONS_INIT;
    spc_error *error = spc__error_of(ctx);
    spc_status status = spc__need(error, __func__, "ctx", ctx, NULL);

    if (status != SPC_OK)
        return status;
    if (ctx->background != NULL)
        return spc__fail(error, SPC_ESTATE,
                         "background mode was started before");
    if (!ctx->stores)
        return spc__fail(error, SPC_EDB,
                         "background mode needs a database that may be "
                         "written: name one when the context is made");
    if (options == NULL)
        options = &usual;
    if ((status = SPC__TAKE(spc_background_options, options, error)) != SPC_OK)
        return status;
    if ((unsigned)options->effort > SPC_EFFORT_EXHAUSTIVE)
        return spc__fail(error, SPC_EINVAL,
                         "unknown effort %d: expected SPC_EFFORT_QUICK, "
                         "_NORMAL or _EXHAUSTIVE",
                         (int)options->effort);
    background *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return spc__fail_memory(error, sizeof(*b));
    b->face = (spc__background){end, release_ended};
    b->host = ctx;
    b->options = *options;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    if ((status = copy_words(&b->worker, options->worker, error)) == SPC_OK)
        status = start_thread(b);
    if (status == SPC_OK)
        ctx->background = &b->face;
    else
        release(b);
    return status;
}
