/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc.h - sparse convolution on 3D point clouds: layers, scenes, kernel maps,
 * tuned plans.
 *
 * The headers follow the order in which a caller works: open a context on a
 * device, describe a layer, load a scene or pass coordinates, build the kernel
 * map, make a plan, pack the weights once, execute many times. A caller with a
 * new scene for every frame reserves coordinate sets and maps once and then
 * only updates them.
 *
 * It includes the seven headers that such a program needs. Training, tuning,
 * the database, and the laboratory (scenes of files, the oracle, verification
 * and benchmarks) have headers of their own: spc/train.h, spc/tune.h, spc/db.h,
 * spc/lab.h. A program that tunes, or uses the laboratory, links libspclab
 * besides libspc.
 *
 * Conventions
 *  - Functions return an spc_status: 0 or a negative code. The sentence for a
 *    human is in the spc_error of a call that takes one, else in
 *    spc_ctx_error(ctx); spc_error_text() finds it in either. A call that
 *    succeeds clears the spc_error that it was given.
 *  - A NULL where something is needed is SPC_EINVAL, and the sentence names it
 *    (without a context there is no place for one). Functions that return no
 *    status answer 0, "" or NULL, or do nothing, for a NULL, an index that is
 *    out of range or a layer whose numbers are.
 *  - SPC_ESTATE: a set, cloud, map or network is used before anything has
 *    filled or run it. The call that fills it counts when it is enqueued or
 *    captured.
 *  - The comment above a function names the statuses that it may return. It need
 *    not repeat these: SPC_EINVAL for a NULL or an unknown size, SPC_ENOMEM if
 *    the memory of the host is short, SPC_EDEVICE or SPC_ENOMEM if that of the
 *    device is short or a launch fails, and SPC_EINTERRUPTED if `cancel` of the
 *    context was set.
 *  - `T **out` is the caller's to free; on failure *out is NULL. Every free
 *    accepts NULL. A returned `const T *` lives as long as its parent. Arrays,
 *    texts and structs that a caller passes are needed until the call returns,
 *    and device arrays until the stream has done the work, unless the comment
 *    says otherwise.
 *  - Structs of options and buffers start with their size, `bytes`, which
 *    SPC_..._INIT sets: `spc_buffers b = SPC_BUFFERS_INIT;`. Later versions add
 *    fields at their end. The library completes a struct of an earlier version
 *    with the defaults of SPC_..._INIT, and refuses any other size with
 *    SPC_EINVAL, 0 included.
 *  - All other structs keep their size and layout as long as the major version
 *    stays. Values that other structs and arrays hold (spc_conv, spc_geometry,
 *    spc_feature, spc_voxelisation) and reports that the library fills have
 *    `reserved` members instead of a size: later versions give these a name,
 *    and 0 will mean what it means now. SPC_..._INIT sets them to 0, the
 *    library refuses any other value with SPC_EINVAL, and reports have 0 there.
 *    Structs that only the library allocates (rows of listings, trials,
 *    progress) may grow at their end.
 *  - Feature buffers, weights, workspace and stream belong to the caller and
 *    live on the context's device (host memory for "cpu" and "sim"). `stream`
 *    is a CUstream for "cuda" (NULL: the default stream), ignored otherwise.
 *  - A context, its coordinate sets and maps serve one thread at a time, and so
 *    do a network, its plans and a training. A plan of a layer is immutable:
 *    any number of threads may execute it at the same time, each with its own
 *    buffers and stream. Functions of values alone (layers, geometries, texts,
 *    status codes) may be called by any thread at any time.
 *  - Coordinates are rows of four int32: batch, x, y, z. Features are row
 *    major, [rows][channels].
 *  - The library prints nothing, and no global state changes what a call does.
 */
#ifndef SPC_H
#define SPC_H

#include "spc/context.h"
#include "spc/coords.h"
#include "spc/features.h"
#include "spc/layer.h"
#include "spc/net.h"
#include "spc/plan.h"
#include "spc/points.h"

#endif
