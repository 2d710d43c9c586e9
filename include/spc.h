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
 * the database and the laboratory (scenes from files, the oracle, verification
 * and benchmarks) have separate headers: spc/train.h, spc/tune.h, spc/db.h,
 * spc/lab.h. A program that tunes or uses the laboratory links both libspclab
 * and libspc.
 *
 * Conventions
 *  - Functions return an spc_status: 0 or a negative code. The error message is
 *    in the spc_error argument if the function has one, else in
 *    spc_ctx_error(ctx). spc_error_text() reads whichever applies. A call that
 *    succeeds clears the spc_error that it was given.
 *  - A required argument that is NULL gives SPC_EINVAL, and the message names
 *    the argument. (Without a context the message cannot be stored.) Functions
 *    that return no status return 0, "" or NULL, or do nothing, if an argument
 *    is NULL, an index is out of range, or a layer has a value out of range.
 *  - SPC_ESTATE: a set, cloud or map is used before it was filled, or a network
 *    before it was run. A filling counts as soon as it is enqueued or captured.
 *  - The comment above a function names the statuses that it may return. It
 *    need not repeat these: SPC_EINVAL for a NULL or an unknown size,
 *    SPC_ENOMEM if host memory runs out, SPC_EDEVICE or SPC_ENOMEM if device
 *    memory runs out or a launch fails, and SPC_EINTERRUPTED if `cancel` of the
 *    context was set.
 *  - The caller frees what it receives through `T **out`; on failure *out is
 *    NULL. Every free function accepts NULL. A returned `const T *` lives as
 *    long as its parent. Arrays, texts and structs that a caller passes must
 *    stay valid until the call returns, and device arrays until the stream has
 *    finished the work, unless the comment states otherwise.
 *  - Structs of options and buffers start with their size, `bytes`, which
 *    SPC_..._INIT sets: `spc_buffers b = SPC_BUFFERS_INIT;`. Later versions add
 *    fields at the end. The library completes a struct of an earlier version
 *    with the defaults of SPC_..._INIT. Any other size, including 0, gives
 *    SPC_EINVAL.
 *  - All other structs keep their size and layout as long as the major version
 *    stays. Structs that are stored inside other structs and arrays (spc_conv,
 *    spc_geometry, spc_feature, spc_voxelisation), and reports that the library
 *    fills, have `reserved` members instead of a size. Later versions may name
 *    these members; 0 will keep today's behaviour. SPC_..._INIT sets them to 0,
 *    and the library refuses any other value with SPC_EINVAL. In reports they
 *    are 0. Structs that only the library allocates (rows of listings, trials,
 *    progress) may grow at their end.
 *  - Feature buffers, weights, workspace and stream belong to the caller and
 *    live on the context's device (host memory for "cpu" and "sim"). `stream`
 *    is a CUstream for "cuda" (NULL: the default stream), ignored otherwise.
 *  - A context, its coordinate sets and maps serve one thread at a time, and so
 *    do a network, its plans and a training. A plan of a layer is immutable:
 *    any number of threads may execute it at the same time, each with its own
 *    buffers and stream. Functions that only take values (layers, geometries,
 *    texts, status codes) may be called by any thread at any time.
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
