/*
 * build.c - from candidates to compiled code.
 *
 * A batch is rendered one after the other (one Lua state), then what neither
 * the database nor an earlier candidate has is compiled on all cores. The
 * resource report decides before any launch.
 */
#include "run.h"

#include "cancel.h"
#include "clock.h"
#include "error.h"
#include "parallel.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail_entry(spc__entry *entry, spc__trial_status status,
                       const char *note)
{
    entry->state = SPC__FAILED;
    entry->trial.status = status;
    snprintf(entry->trial.note, sizeof(entry->trial.note), "%.190s", note);
    free(entry->source);
    entry->source = NULL;
}

/* ---- compilers ----------------------------------------------------------- */

static spc_status open_compiler(spc__run *run)
{
    spc_status status;

    if (run->compiler != NULL)
        return SPC_OK;
    if (run->options.target == NULL) {
        status = spc__ctx_compiler(&run->compiler, &run->job, run->ctx);
    } else {
        status = spc__nvrtc_open(&run->own_compiler, run->error);
        run->compiler = run->own_compiler;
        run->job = (spc__compile_job){.target = run->options.target,
                                      .options = "",
                                      .headers = run->library};
    }
    if (status == SPC_OK)
        snprintf(run->provenance.compiler, sizeof(run->provenance.compiler),
                 "%s", spc__compiler_identity(run->compiler));
    return status;
}

static spc__compile_job job_of(const spc__run *run, const spc__entry *entry)
{
    spc__compile_job job = run->job;

    job.name = entry->trial.template_name;
    job.source = entry->source;
    job.cancel = run->ctx->cancel;
    return job;
}

/* ---- rendering ----------------------------------------------------------- */

static void hash(char out[65], const char *text, const char *more)
{
    unsigned char digest[SPC__SHA256_BYTES];
    spc__sha256 sha;

    spc__sha256_init(&sha);
    spc__sha256_field(&sha, text, strlen(text));
    spc__sha256_field(&sha, more, strlen(more));
    spc__sha256_final(&sha, digest);
    spc__sha256_hex(out, digest);
}

/* What the code comes to, without the comment at the head of the source, which
 * names the configuration; and that with its launch. */
static void identify(spc__entry *entry)
{
    const char *body = strstr(entry->source, "*/");
    spc__buf launch = SPC__BUF_INIT;

    spc__attrs_format(&launch, &entry->trial.launch);
    hash(entry->body, body != NULL ? body : entry->source, "");
    hash(entry->identity, entry->body, spc__buf_text(&launch));
    spc__buf_release(&launch);
}

/* SPC_ENOMEM and SPC_EINTERRUPTED only; a template's own failure is the
 * candidate's. */
static spc_status render(spc__run *run, spc__entry *entry)
{
    spc__buf source = SPC__BUF_INIT;
    spc_error error = {0};
    spc_status status =
        spc__template_render(&source, entry->candidate->tpl, &run->problem,
                             &run->target, &entry->candidate->config, &error);

    if (status == SPC_OK && (entry->source = spc__buf_detach(&source)) == NULL)
        status = spc__fail_memory(run->error, 1);
    else if (status != SPC_OK && status != SPC_EINTERRUPTED)
        fail_entry(entry, SPC__TRIAL_TEMPLATE, error.text);
    spc__buf_release(&source);
    if (entry->source != NULL) {
        spc__compile_job job = job_of(run, entry);
        spc__artefact_key(entry->trial.artefact, run->compiler, &job);
        identify(entry);
    }
    return status == SPC_ENOMEM || status == SPC_EINTERRUPTED ? status : SPC_OK;
}

/* The same code twice would only be compiled and measured twice. */
static bool merge_twin(const spc__run *run, spc__entry *entry)
{
    char note[192];

    if (entry->candidate->is_default)
        return false;
    for (int i = 0; i < run->count; i++) {
        const spc__entry *other = &run->entries[i];
        if (other == entry || other->is_twin ||
            strcmp(other->identity, entry->identity) != 0)
            continue;
        snprintf(note, sizeof(note),
                 "the same code and launch as '%.32s %.120s'",
                 other->trial.template_name, other->config);
        entry->is_twin = true;
        fail_entry(entry, SPC__TRIAL_CONSTRAINT, note);
        return true;
    }
    return false;
}

/* Another with the same code, of this batch or compiled before: candidates may
 * differ in their launch alone, in the row order they ask for. */
static const spc__entry *same_code(const spc__run *run, const spc__entry *entry,
                                   spc__entry *const *batch, int count)
{
    for (int i = 0; i < run->count; i++) {
        const spc__entry *other = &run->entries[i];
        if (other != entry && other->code != NULL &&
            strcmp(other->body, entry->body) == 0)
            return other;
    }
    for (int i = 0; i < count; i++)
        if (strcmp(batch[i]->body, entry->body) == 0)
            return batch[i];
    return NULL;
}

static bool take_stored(spc__run *run, spc__entry *entry)
{
    spc_error error;

    return run->ctx->cache != NULL &&
           spc__cache_get_artefact(run->ctx->cache, entry->trial.artefact,
                                   &entry->code, &entry->code_bytes, NULL,
                                   &entry->trial.resources, &error) == SPC_OK;
}

/* ---- what the report says ------------------------------------------------ */

/* Registers are handed out by the warp, in units of 256. */
static int64_t block_registers(int64_t registers, int64_t block)
{
    int64_t warps = (block + 31) / 32;
    int64_t of_warp = (registers * 32 + 255) / 256 * 256;

    return (warps + 3) / 4 * 4 * of_warp;
}

/* Writes why the candidate must not be launched; false if it may be. */
static bool refuse(char *why, size_t bytes, const spc__run *run,
                   const spc__entry *entry)
{
    const spc__attrs *resources = &entry->trial.resources;
    const spc__attrs *launch = &entry->trial.launch;
    int64_t spills = spc__attrs_number(resources, "spill_bytes", 0);
    int64_t local = spc__attrs_number(resources, "local_bytes", 0);
    int64_t registers = spc__attrs_number(resources, "registers", 0);
    int64_t all = spc__attrs_number(&run->target, "registers_sm", 0);
    int64_t shared = spc__attrs_number(launch, "shared", 0) +
                     spc__attrs_number(resources, "static_shared_bytes", 0);
    int64_t limit = spc__attrs_number(&run->target, "shared_block", 0);
    int64_t needs =
        block_registers(registers, spc__attrs_number(launch, "block", 0));

    /* A default is what untuned plans run: it stays, to be compared with. */
    if ((spills > 0 || local > 0) && !run->options.allow_spills &&
        !entry->candidate->is_default)
        snprintf(why, bytes,
                 "spills: %lld bytes spilled, %lld bytes of local memory",
                 (long long)spills, (long long)local);
    else if (all > 0 && needs > all)
        snprintf(why, bytes,
                 "registers: a block needs %lld of the %lld of a "
                 "multiprocessor",
                 (long long)needs, (long long)all);
    else if (limit > 0 && shared > limit)
        snprintf(why, bytes,
                 "shared memory: a block needs %lld of at most %lld bytes",
                 (long long)shared, (long long)limit);
    else
        return false;
    return true;
}

static void judge(const spc__run *run, spc__entry *entry)
{
    char why[192];

    entry->state = SPC__BUILT;
    if (refuse(why, sizeof(why), run, entry))
        fail_entry(entry, SPC__TRIAL_CONSTRAINT, why);
}

/* ---- compiling ----------------------------------------------------------- */

struct batch {
    spc__run *run;
    spc__entry **list;        /* those to compile, then those that share */
    const spc__entry **model; /* whose code an entry shares, or NULL */
    int count, shared;
    pthread_mutex_t lock; /* the database, the report and callbacks */
};

static void keep(spc__run *run, spc__entry *entry, spc__artefact *artefact)
{
    entry->code = artefact->code;
    entry->code_bytes = artefact->code_bytes;
    artefact->code = NULL;
    entry->trial.resources = artefact->resources;
    entry->trial.compile_ms = (double)artefact->compile_ns * 1e-6;
    run->report->compiled++;
    run->ctx->stats.compiles++;
    judge(run, entry);
    spc__run_record_code(run, entry);
}

static void compile_one(void *payload, int64_t i)
{
    struct batch *batch = payload;
    spc__run *run = batch->run;
    spc__entry *entry = batch->list[i];
    spc__artefact artefact = {0};
    spc_error error = {0};

    if (spc__run_cancelled(run))
        return;
    spc__compile_job job = job_of(run, entry);
    spc_status status =
        spc__compile(&artefact, run->compiler, &job, NULL, &error);
    pthread_mutex_lock(&batch->lock);
    if (status == SPC_OK)
        keep(run, entry, &artefact);
    else if (status != SPC_EINTERRUPTED) /* which is not its fault */
        fail_entry(entry, SPC__TRIAL_COMPILE, error.text);
    free(entry->source);
    entry->source = NULL;
    run->built++;
    spc__run_progress(run, SPC_STAGE_BUILD, run->built, run->to_build);
    pthread_mutex_unlock(&batch->lock);
    spc__artefact_release(&artefact);
}

static void take_shared(spc__run *run, spc__entry *entry,
                        const spc__entry *model)
{
    free(entry->source);
    entry->source = NULL;
    if (model->code == NULL) {
        fail_entry(entry, model->trial.status, model->trial.note);
        return;
    }
    if ((entry->code = malloc(model->code_bytes)) == NULL) {
        fail_entry(entry, SPC__TRIAL_COMPILE, "out of memory");
        return;
    }
    memcpy(entry->code, model->code, model->code_bytes);
    entry->code_bytes = model->code_bytes;
    entry->trial.resources = model->trial.resources;
    judge(run, entry);
    spc__run_record_code(run, entry);
}

/* Renders the batch and sorts out what must be compiled, and what shares the
 * code of another. */
static spc_status render_all(struct batch *batch)
{
    spc__run *run = batch->run;
    int kept = 0, count = batch->count;
    spc__entry **shared = batch->list + count;
    spc_status status;

    for (int i = 0; i < count && !spc__run_cancelled(run); i++) {
        spc__entry *entry = batch->list[i];
        const spc__entry *model;
        if ((status = render(run, entry)) != SPC_OK)
            return status;
        if (entry->state == SPC__FAILED || merge_twin(run, entry))
            continue;
        if (take_stored(run, entry)) {
            free(entry->source);
            entry->source = NULL;
            judge(run, entry);
        } else if ((model = same_code(run, entry, batch->list, kept)) != NULL) {
            batch->model[batch->shared] = model;
            shared[batch->shared++] = entry;
        } else {
            batch->list[kept++] = entry;
        }
    }
    batch->count = kept;
    return SPC_OK;
}

spc_status spc__run_build(spc__run *run, spc__entry **list, int count)
{
    struct batch batch = {.run = run, .lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t since = spc__now_ns();
    size_t room = (size_t)count + 1;
    spc_status status;

    batch.list = calloc(2 * room, sizeof(*batch.list));
    batch.model = calloc(room, sizeof(*batch.model));
    if (batch.list == NULL || batch.model == NULL) {
        status = spc__fail_memory(run->error, room * sizeof(*list));
        goto done;
    }
    for (int i = 0; i < count; i++)
        if (list[i]->state == SPC__NEW)
            batch.list[batch.count++] = list[i];
    if (batch.count > 0 && (status = open_compiler(run)) != SPC_OK)
        goto done;
    int wanted = batch.count;
    if ((status = render_all(&batch)) != SPC_OK)
        goto done;
    run->built = 0;
    run->to_build = batch.count;
    run->builds += batch.count;
    spc__parallel_for(batch.count, run->ctx->threads, compile_one, &batch);
    if (spc__run_cancelled(run))
        status = spc__interrupted(run->error);
    for (int i = 0; i < batch.shared && status == SPC_OK; i++)
        take_shared(run, batch.list[wanted + i], batch.model[i]);
    run->build_s += (double)(spc__now_ns() - since) * 1e-9;
done:
    free(batch.model);
    free(batch.list);
    return status;
}
