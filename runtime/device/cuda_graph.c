/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_graph.c - many launches in one graph, captured on a private stream and
 * launched on the caller's stream.
 */
#include "base/error.h"
#include "device/cuda_device.h"
#include <stdlib.h>

struct spc__graph {
    CUgraphExec exec;
};

static spc_status instantiate(const spc__cuda *api, spc__graph *out,
                              CUgraph graph, spc_error *error)
{
    return spc__cuda_check(api, api->GraphInstantiate(&out->exec, graph, 0),
                           error, "instantiate a graph");
}

/* The capture must end even after a failure. Its sentence takes precedence. */
static spc_status capture(const spc__cuda *api, spc__graph *out,
                          CUstream stream,
                          spc_status (*enqueue)(void *payload, void *stream),
                          void *payload, spc_error *error)
{
    CUgraph graph = NULL;
    spc_status status = spc__cuda_check(
        api,
        api->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        error, "begin to capture a graph");

    if (status != SPC_OK)
        return status;
    status = enqueue(payload, stream);
    CUresult ended = api->StreamEndCapture(stream, &graph);
    if (status == SPC_OK)
        status = spc__cuda_check(api, ended, error, "capture a graph");
    if (status == SPC_OK)
        status = instantiate(api, out, graph, error);
    if (graph)
        api->GraphDestroy(graph);
    return status;
}

/* Capturing executes nothing, so it need not wait for work on other streams. */
static spc_status create(const spc__cuda *api, spc__graph *out,
                         spc_status (*enqueue)(void *payload, void *stream),
                         void *payload, spc_error *error)
{
    CUstream stream = NULL;
    /* The caller's stream may be the default one, which cannot be captured. */
    spc_status status =
        spc__cuda_check(api, api->StreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                        error, "create a stream");

    if (status != SPC_OK)
        return status;
    status = capture(api, out, stream, enqueue, payload, error);
    api->StreamDestroy(stream);
    return status;
}

spc_status spc__cuda_graph_create(spc__device *device, spc__graph **out,
                                  spc_status (*enqueue)(void *payload,
                                                        void *stream),
                                  void *payload, spc_error *error)
{
    const spc__cuda_device *d = (const spc__cuda_device *)device;
    spc__graph *graph = calloc(1, sizeof *graph);
    bool pushed;
    spc_status status;

    *out = NULL;
    if (!graph)
        return spc__fail_memory(error, sizeof *graph);
    if ((status = spc__cuda_enter(d, &pushed, error)) == SPC_OK) {
        status = create(&d->api, graph, enqueue, payload, error);
        spc__cuda_leave(d, pushed);
    }
    if (status == SPC_OK)
        *out = graph;
    else
        free(graph);
    return status;
}

spc_status spc__cuda_graph_launch(spc__device *device, spc__graph *graph,
                                  void *stream, spc_error *error)
{
    const spc__cuda_device *d = (const spc__cuda_device *)device;
    bool pushed;
    spc_status status = spc__cuda_enter(d, &pushed, error);

    if (status != SPC_OK)
        return status;
    status = spc__cuda_check(&d->api, d->api.GraphLaunch(graph->exec, stream),
                             error, "launch a graph");
    spc__cuda_leave(d, pushed);
    return status;
}

void spc__cuda_graph_free(spc__device *device, spc__graph *graph)
{
    const spc__cuda_device *d = (const spc__cuda_device *)device;
    bool pushed;

    if (!graph)
        return;
    if (spc__cuda_enter(d, &pushed, NULL) == SPC_OK) {
        d->api.GraphExecDestroy(graph->exec);
        spc__cuda_leave(d, pushed);
    }
    free(graph);
}

/* ---- branches ----------------------------------------------------------- */

/* The current end of a capture. If not *active, the stream is not captured. */
typedef struct place {
    bool active;
    const CUgraphNode *nodes;
    size_t count;
} place;

/* Finds the nodes on which the next work of a capture would depend. */
static spc_status find_place(const spc__cuda *api, place *out, CUstream stream,
                             spc_error *error)
{
    int state = 0;
    spc_status status =
        spc__cuda_check(api,
                        api->StreamGetCaptureInfo(stream, &state, NULL, NULL,
                                                  &out->nodes, &out->count),
                        error, "query the nodes of a capture");

    out->active = status == SPC_OK && state == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return status;
}

/* Copies the current place of a capture. */
static spc_status mark(const spc__cuda *api, spc__mark *out, CUstream stream,
                       spc_error *error)
{
    place at = {0};
    spc_status status = find_place(api, &at, stream, error);

    out->count = 0;
    if (status != SPC_OK || !at.active)
        return status;
    /* The driver's array is valid only until the next call on the stream, so
     * marks are copies of a fixed size. */
    if (at.count > SPC__MARK_NODES)
        return spc__fail(
            error, SPC_EUNSUPPORTED,
            "a capture depends on %zu nodes: at most %d can be marked",
            at.count, SPC__MARK_NODES);
    for (size_t i = 0; i < at.count; i++)
        out->nodes[out->count++] = at.nodes[i];
    return SPC_OK;
}

spc_status spc__cuda_graph_mark(spc__device *device, spc__mark *out,
                                void *stream, spc_error *error)
{
    const spc__cuda_device *d = (const spc__cuda_device *)device;
    bool pushed;
    spc_status status = spc__cuda_enter(d, &pushed, error);

    if (status != SPC_OK)
        return status;
    status = mark(&d->api, out, stream, error);
    spc__cuda_leave(d, pushed);
    return status;
}

/* Makes the next work of a capture depend only on these nodes. */
static spc_status depend(const spc__cuda *api, CUgraphNode *nodes, size_t count,
                         CUstream stream, spc_error *error)
{
    place at = {0};
    spc_status status = find_place(api, &at, stream, error);

    if (status != SPC_OK || !at.active)
        return status;
    return spc__cuda_check(
        api,
        api->StreamUpdateCaptureDependencies(
            stream, nodes, count, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
        error, "begin a branch of a graph");
}

spc_status spc__cuda_graph_depend(spc__device *device, const spc__mark *on,
                                  int count, void *stream, spc_error *error)
{
    const spc__cuda_device *d = (const spc__cuda_device *)device;
    /* One more, as malloc(0) may return NULL. No marks means that the next work
     * waits for nothing. */
    CUgraphNode *nodes =
        malloc(((size_t)count + 1) * SPC__MARK_NODES * sizeof(*nodes));
    size_t used = 0;
    bool pushed;
    spc_status status;

    if (nodes == NULL)
        return spc__fail_memory(error, (size_t)count * sizeof(*nodes));
    for (int i = 0; i < count; i++)
        for (int j = 0; j < on[i].count; j++)
            nodes[used++] = on[i].nodes[j];
    if ((status = spc__cuda_enter(d, &pushed, error)) == SPC_OK) {
        status = depend(&d->api, nodes, used, stream, error);
        spc__cuda_leave(d, pushed);
    }
    free(nodes);
    return status;
}
