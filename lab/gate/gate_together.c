/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_together.c - two concurrent launches of a plan on one map, each with its
 * own data, output and workspace.
 *
 * On processors two threads launch repeatedly. A GPU gets a graph of two
 * branches that do not wait for each other. An emulation runs launches one by
 * one: there gate_pages.c finds writes to shared data.
 */
#include "lab/gate/gate_launch.h"

#include "base/error.h"
#include "base/pool.h"
#include "operators/operands.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SIDES = 2, LAUNCHES = 8, ROUNDS = 8, NAN_BYTE = 0xff };

/* On a processor: how many launches of a side must overlap with the other
 * side's, and after how many launches it ends without them. */
enum { OVERLAPS = 4, MOST_LAUNCHES = 64 * LAUNCHES * ROUNDS };

/* One of the two launches: its data and its results. */
typedef struct side {
    spc__dataset dataset;
    uint64_t right;                /* the digest of its result */
    spc_buffers buffers[LAUNCHES]; /* on a processor only the first is used */
    spc_status status;
    atomic_int launched;
    atomic_bool has_ended; /* on a processor */
    int wrong;
} side;

typedef struct together {
    const spc__gate *g;
    int s;
    size_t out_bytes;
    side sides[SIDES];
    char *memory; /* device memory of all arrays */
} together;

static size_t padded(size_t bytes)
{
    return (bytes + SPC__ALIGN_TIMED) / SPC__ALIGN_TIMED * SPC__ALIGN_TIMED;
}

/* Copies an array to *at, and advances *at past it. */
static spc_status copy(const together *t, const void **to, char **at,
                       const void *from, size_t bytes)
{
    if (from == NULL)
        return SPC_OK;
    *to = *at;
    *at += padded(bytes);
    return spc_memory_upload((void *)*to, t->g->fixture->ctx, from, bytes);
}

/* Places the inputs of a side's data set, a workspace, and an output for each
 * launch. */
static spc_status lay_side(const together *t, side *one, char **at,
                           int launches)
{
    const spc__fixture *fixture = t->g->fixture;
    const spc__sample_scene *scene = &fixture->sample->scenes[t->s];
    spc__operand all[SPC_OPERANDS];
    spc_buffers b = SPC_BUFFERS_INIT;

    spc__operands(all, &fixture->sample->conv, scene->rows_in, scene->rows_out);
    spc__fixture_buffers(&b, fixture, t->s, one->dataset);
    b.weights = spc__gate_packed(t->g, one->dataset);
    b.workspace = *at;
    *at += padded(fixture->workspace.bytes);
    spc_status status =
        copy(t, &b.in, at, scene->in[one->dataset], all[SPC_OPERAND_IN].bytes);
    if (status == SPC_OK)
        status = copy(t, &b.residual, at, scene->residual[one->dataset],
                      all[SPC_OPERAND_RESIDUAL].bytes);
    for (int n = 0; n < launches; n++, *at += padded(t->out_bytes)) {
        one->buffers[n] = b;
        one->buffers[n].out = *at;
    }
    return status;
}

/* Lays out the arrays of both sides in one block. */
static spc_status allocate(together *t, int launches)
{
    const spc__fixture *fixture = t->g->fixture;
    const spc__sample_scene *scene = &fixture->sample->scenes[t->s];
    spc__operand all[SPC_OPERANDS];

    spc__operands(all, &fixture->sample->conv, scene->rows_in, scene->rows_out);
    size_t bytes = SIDES * (padded(all[SPC_OPERAND_IN].bytes) +
                            padded(all[SPC_OPERAND_RESIDUAL].bytes) +
                            padded(fixture->workspace.bytes) +
                            (size_t)launches * padded(t->out_bytes));
    spc_status status =
        spc_memory_alloc((void **)&t->memory, fixture->ctx, bytes);
    char *at = t->memory;
    for (int i = 0; i < SIDES && status == SPC_OK; i++)
        status = lay_side(t, &t->sides[i], &at, launches);
    return status;
}

static spc_status execute(const together *t, const spc_buffers *buffers,
                          void *stream)
{
    return spc__fixture_execute_on(t->g->fixture, t->g->tested->plan, t->s,
                                   buffers, stream);
}

/* ---- two threads --------------------------------------------------------- */

/*
 * The body of one thread: launches, and compares each result. On a busy
 * machine a thread may end before the other one gets a core, so both continue
 * until their launches have overlapped.
 */
static void run_side(void *payload, int64_t i)
{
    together *t = payload;
    side *one = &t->sides[i], *other = &t->sides[SIDES - 1 - i];
    const spc_buffers *b = &one->buffers[0];
    int overlaps = 0;

    for (int n = 0;
         one->status == SPC_OK && n < MOST_LAUNCHES &&
         (n < LAUNCHES * ROUNDS || (overlaps < OVERLAPS && !other->has_ended));
         n++) {
        int before = other->launched;
        /* Overwrites the output, so that a launch that writes nothing cannot
         * pass with the previous result. */
        memset(b->out, NAN_BYTE, t->out_bytes);
        one->status = execute(t, b, NULL);
        one->wrong += one->status == SPC_OK &&
                      spc__digest_host(b->out, t->out_bytes) != one->right;
        overlaps += other->launched != before;
        one->launched++;
    }
    one->has_ended = true;
}

/* Runs both sides at once on the host. */
static spc_status run_threads(together *t)
{
    spc__pool *pool = NULL;
    spc_status status = allocate(t, 1);

    if (status == SPC_OK)
        status =
            spc__pool_create(&pool, SIDES, spc__error_of(t->g->fixture->ctx));
    if (status == SPC_OK && !spc__pool_run_together(pool, SIDES, run_side, t))
        status = spc__fail(spc__error_of(t->g->fixture->ctx), SPC_ENOMEM,
                           "cannot start a second thread for the launches "
                           "that run at once");
    spc__pool_free(pool);
    for (int i = 0; i < SIDES && status == SPC_OK; i++)
        status = t->sides[i].status;
    return status;
}

/* ---- two branches of a graph --------------------------------------------- */

/* Captures the launches of one side, which start at the same time as the other
 * side's. */
static spc_status enqueue_branch(const together *t, const side *one,
                                 const spc__mark *begin, spc__mark *end,
                                 void *stream)
{
    const spc__fixture *fixture = t->g->fixture;
    spc__device *device = fixture->ctx->device;
    spc_error *error = spc__error_of(fixture->ctx);
    spc_status status =
        fixture->ops->graph_depend(device, begin, 1, stream, error);

    for (int n = 0; n < LAUNCHES && status == SPC_OK; n++)
        status = execute(t, &one->buffers[n], stream);
    return status == SPC_OK
               ? fixture->ops->graph_mark(device, end, stream, error)
               : status;
}

/* Captures a graph with a branch for each side; the end waits for both. */
static spc_status enqueue(void *payload, void *stream)
{
    const together *t = payload;
    const spc__fixture *fixture = t->g->fixture;
    spc_error *error = spc__error_of(fixture->ctx);
    spc__mark begin, ends[SIDES];
    spc_status status =
        fixture->ops->graph_mark(fixture->ctx->device, &begin, stream, error);

    for (int i = 0; i < SIDES && status == SPC_OK; i++)
        status = enqueue_branch(t, &t->sides[i], &begin, &ends[i], stream);
    return status == SPC_OK
               ? fixture->ops->graph_depend(fixture->ctx->device, ends, SIDES,
                                            stream, error)
               : status;
}

/* Runs the graph once and compares all results. Fills outputs first, so that a
 * launch that writes nothing is detected. */
static spc_status run_graph(together *t, spc__graph *graph)
{
    const spc__fixture *fixture = t->g->fixture;
    spc_error *error = spc__error_of(fixture->ctx);
    uint64_t digests[SIDES * LAUNCHES];
    spc_status status = SPC_OK;

    for (int i = 0; i < SIDES * LAUNCHES && status == SPC_OK; i++)
        status =
            fixture->ops->fill(fixture->ctx->device,
                               t->sides[i / LAUNCHES].buffers[i % LAUNCHES].out,
                               NAN_BYTE, t->out_bytes, NULL, error);
    if (status == SPC_OK)
        status = spc_ctx_synchronize(fixture->ctx);
    if (status == SPC_OK)
        status = fixture->ops->graph_launch(fixture->ctx->device, graph, NULL,
                                            error);
    if (status == SPC_OK)
        status = spc_ctx_synchronize(fixture->ctx);
    if (status == SPC_OK)
        status = spc__digester_begin(fixture->digester);
    for (int i = 0; i < SIDES * LAUNCHES && status == SPC_OK; i++)
        status = spc__digester_add(
            fixture->digester, t->sides[i / LAUNCHES].buffers[i % LAUNCHES].out,
            t->out_bytes);
    if (status == SPC_OK)
        status = spc__digester_end(fixture->digester, digests);
    for (int i = 0; i < SIDES * LAUNCHES && status == SPC_OK; i++) {
        side *one = &t->sides[i / LAUNCHES];
        one->wrong += digests[i] != one->right;
        one->launched++;
    }
    return status;
}

/* Runs both sides at once on a GPU, as branches of a graph. */
static spc_status run_branches(together *t)
{
    const spc__fixture *fixture = t->g->fixture;
    spc__graph *graph = NULL;
    spc_status status = allocate(t, LAUNCHES);

    if (status == SPC_OK)
        status =
            fixture->ops->graph_create(fixture->ctx->device, &graph, enqueue, t,
                                       spc__error_of(fixture->ctx));
    for (int i = 0; i < ROUNDS && status == SPC_OK; i++)
        status = run_graph(t, graph);
    fixture->ops->graph_free(fixture->ctx->device, graph);
    return status;
}

/* ---- the test ------------------------------------------------------------ */

/*
 * The digest of an output that is a slice includes its gaps, which are filled
 * like zones.
 */
void spc__gate_test_together(const spc__gate *g)
{
    const spc__sample *sample = g->fixture->sample;
    spc__fixture *fixture = g->fixture;
    bool on_host = fixture->ops->runs_on_host_cores;
    together t = {.g = g, .s = sample->given + SPC__AWKWARD_MOST};

    if (fixture->ops->is_emulation || sample->scene_count == sample->given ||
        (!on_host && fixture->ops->graph_mark == NULL))
        return;
    /* Uses two data sets, so that a result reveals if it used the other
     * launch's data. */
    for (int i = 0; i < SIDES; i++) {
        t.sides[i].dataset = i == 0 ? SPC__COUNT : SPC__WIDE;
        t.sides[i].right = g->tested->first[t.s][t.sides[i].dataset];
    }
    spc_status status = spc__fixture_set(fixture, g->tested->plan, t.s);
    t.out_bytes = fixture->out.bytes;
    if (status == SPC_OK && t.out_bytes > 0)
        status = on_host ? run_threads(&t) : run_branches(&t);
    spc_memory_free(fixture->ctx, t.memory);
    int wrong = t.sides[0].wrong + t.sides[1].wrong;
    if (status != SPC_OK)
        spc__gate_failed(g);
    else if (wrong > 0)
        spc__gate_wrong(g,
                        "together: %d of %d results on scene '%.40s' are "
                        "wrong where two launches run at once",
                        wrong, t.sides[0].launched + t.sides[1].launched,
                        spc__gate_scene(g, t.s));
}
