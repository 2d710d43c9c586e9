/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_waits.c - finds which layers of a graph wait for which.
 *
 * In a run each layer follows the preceding one. In a graph it waits only for
 * layers that write its inputs or still use memory that it writes. So the heads
 * of a detector run side by side, and so do a shortcut and the convolutions
 * that it bypasses. Dependences are computed from the memory of tensors and
 * workspaces, so they are correct for any placement. Shared memory would add
 * dependences between independent layers. To avoid that, pieces stay live
 * during some works that could run at the same time as their last user.
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "context/ctx.h"
#include "operators/feature.h"
#include <limits.h>
#include <stdlib.h>

/* A piece stays live for at most this many works after its last user: eight
 * heads of two layers. It is not extended where layers form a chain. */
enum { KEPT_FOR = 16 };

/* Range of channels of a piece that a work reads or writes. */
typedef struct use {
    int piece;
    int64_t begin, end;
    bool writes;
} use;

enum { MOST_USES = SPC__NET_SOURCES + 4 };

/* ---- uses of memory ------------------------------------------------------ */

/* The caller's memory is only read, so it is left out. */
static int add_use(use *list, int count, const spc_net_plan *plan, int tensor,
                   bool writes)
{
    const spc__net_position *position;

    if (tensor == SPC_NO_TENSOR || plan->positions[tensor].piece < 0)
        return count;
    const spc__net_tensor *t = &plan->net->tensors[tensor];
    position = &plan->positions[tensor];
    /* Channels and not bytes: parts of one row that do not meet may be written
     * side by side. */
    list[count] = (use){position->piece, position->channel,
                        position->channel + t->elements, writes};
    /* A dense tensor is not made of rows of its piece, so it takes all of
     * it. */
    if (t->dense)
        list[count].begin = 0, list[count].end = INT64_MAX;
    return count + 1;
}

/* Lists the channels of memory that a work reads or writes. Returns their
 * number. */
static int find_uses(use list[MOST_USES], const spc_net_plan *plan, int i)
{
    const spc__net_work *work = &plan->works[i];
    const spc__net_node *node =
        work->kind == SPC_NET_GATHER ? &plan->net->nodes[work->node] : NULL;
    int count = add_use(list, 0, plan, work->in, false);

    count = add_use(list, count, plan, work->add, false);
    count = add_use(list, count, plan, work->index,
                    spc__feature_stores_index(&work->feature));
    for (int j = 0; node != NULL && j < node->ins; j++)
        count = add_use(list, count, plan, node->in[j], false);
    count = add_use(list, count, plan, work->out, true);
    if (work->kind == SPC_NET_CONV) /* may be several merged layers */
        list[count - 1].end = list[count - 1].begin + work->conv.cout;
    return count;
}

static bool meet(const use *a, const use *b)
{
    return a->piece == b->piece && a->begin < b->end && b->begin < a->end;
}

/* True if work i reads an array that j writes, or writes an array that j reads
 * or writes. */
static bool share_tensors(const spc_net_plan *plan, int i, int j)
{
    use mine[MOST_USES], other[MOST_USES];
    int count = find_uses(mine, plan, i), others = find_uses(other, plan, j);

    for (int a = 0; a < count; a++)
        for (int b = 0; b < others; b++)
            if ((mine[a].writes || other[b].writes) &&
                meet(&mine[a], &other[b]))
                return true;
    return false;
}

static const spc__net_piece *workspace_of(const spc_net_plan *plan, int i)
{
    return &plan->pieces[plan->piece_count - plan->work_count + i];
}

static bool lie_together(const spc__net_piece *a, const spc__net_piece *b)
{
    return a->bytes > 0 && b->bytes > 0 && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* True if a piece that work i writes overlaps the memory of work j. */
static bool writes_over(const spc_net_plan *plan, int i, int j)
{
    use mine[MOST_USES], other[MOST_USES];
    int count = find_uses(mine, plan, i), others = find_uses(other, plan, j);
    const spc__net_piece *work = workspace_of(plan, i);
    const spc__net_piece *their = workspace_of(plan, j);

    for (int b = 0; b < others; b++) {
        const spc__net_piece *it = &plan->pieces[other[b].piece];
        if (lie_together(work, it))
            return true;
        /* Uses of one piece are compared by channels (share_tensors). */
        for (int a = 0; a < count; a++)
            if (mine[a].writes && mine[a].piece != other[b].piece &&
                lie_together(&plan->pieces[mine[a].piece], it))
                return true;
    }
    return lie_together(work, their);
}

/* True if the order of the two works affects the data that either reads. */
static bool meet_in_memory(const spc_net_plan *plan, int i, int j)
{
    use mine[MOST_USES];
    int count = find_uses(mine, plan, i);
    const spc__net_piece *their = workspace_of(plan, j);

    /* A workspace is written, so it conflicts even with a read. */
    for (int a = 0; a < count; a++)
        if (lie_together(&plan->pieces[mine[a].piece], their))
            return true;
    return writes_over(plan, i, j) || writes_over(plan, j, i);
}

/* ---- dependences --------------------------------------------------------- */

/* Sets that depend on features are made between layers. Networks with such
 * sets, or without branches, run their layers one after the other. */
bool spc__net_layers_branch(const spc_net_plan *plan)
{
    for (int i = plan->branch_count; i < plan->work_count; i++)
        if (plan->works[i].kind < SPC_NET_CONV)
            return false;
    return plan->branch_count > 0;
}

/* Computes row by row whether work i follows j, directly or indirectly. Covers
 * only works from the first layer on. With `by_memory` shared memory counts as
 * a dependence. Returns NULL if out of memory. */
static bool *find_follows(const spc_net_plan *plan, bool by_memory)
{
    size_t n = (size_t)plan->work_count;
    bool *follows = calloc(n * n + 1, sizeof(*follows));

    for (size_t i = (size_t)plan->branch_count; i < n && follows != NULL; i++)
        /* From the nearest j back: the predecessors of j are then already
         * marked for i and need no comparison. */
        for (size_t j = i; j-- > (size_t)plan->branch_count;) {
            if (follows[i * n + j] ||
                !(share_tensors(plan, (int)i, (int)j) ||
                  (by_memory && meet_in_memory(plan, (int)i, (int)j))))
                continue;
            follows[i * n + j] = true;
            for (size_t k = 0; k < j; k++)
                follows[i * n + k] |= follows[j * n + k];
        }
    return follows;
}

spc_status spc__net_find_waits(spc__net_waits *out, const spc_net_plan *plan)
{
    out->count = plan->work_count;
    out->follows = find_follows(plan, true);
    return out->follows != NULL
               ? SPC_OK
               : spc__fail_memory(spc__error_of(plan->ctx),
                                  (size_t)out->count * (size_t)out->count);
}

bool spc__net_follows(const spc__net_waits *waits, int i, int j)
{
    return waits->follows[(size_t)i * (size_t)waits->count + (size_t)j];
}

/* The direct predecessors: those that no other predecessor follows. */
int spc__net_waits_of(int *list, const spc__net_waits *waits, int i)
{
    int count = 0;

    /* From the nearest back, so that a predecessor is listed before those that
     * it follows itself. */
    for (int j = i - 1; j >= 0; j--) {
        bool last = spc__net_follows(waits, i, j);
        for (int k = 0; k < count && last; k++)
            last = !spc__net_follows(waits, list[k], j);
        if (last)
            list[count++] = j;
    }
    return count;
}

/* ---- memory -------------------------------------------------------------- */

/* True if the work touches the piece. */
static bool uses_piece(const spc_net_plan *plan, int i, int piece)
{
    use list[MOST_USES];
    int count = find_uses(list, plan, i);
    bool uses = workspace_of(plan, i) == &plan->pieces[piece];

    for (int u = 0; u < count; u++)
        uses |= list[u].piece == piece;
    return uses;
}

/* The last of the next few works that could run at the same time as work i. */
static int last_beside(const spc_net_plan *plan, const bool *follows, int i,
                       int end)
{
    int n = plan->work_count, last = 0;

    for (int s = i + 1; s < n && s <= end; s++)
        if (!follows[(size_t)s * (size_t)n + (size_t)i])
            last = s;
    return last;
}

/* The same for all users of the piece. */
static int last_beside_users(const spc_net_plan *plan, const bool *follows,
                             int piece)
{
    int last = plan->pieces[piece].last, end = last + KEPT_FOR;

    for (int i = plan->branch_count; i < plan->work_count; i++) {
        int beside =
            uses_piece(plan, i, piece) ? last_beside(plan, follows, i, end) : 0;
        last = beside > last ? beside : last;
    }
    return last;
}

spc_status spc__net_keep_apart(spc_net_plan *plan)
{
    /* Computes waits without shared memory, which is not placed yet. */
    bool *follows =
        spc__net_layers_branch(plan) ? find_follows(plan, false) : NULL;

    if (!spc__net_layers_branch(plan))
        return SPC_OK;
    if (follows == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx),
                                (size_t)plan->work_count);
    for (int p = 0; p < plan->piece_count; p++) {
        spc__net_piece *piece = &plan->pieces[p];
        /* Pieces of outputs live to the end anyway. */
        if (piece->last >= plan->branch_count && piece->last < plan->work_count)
            piece->last = last_beside_users(plan, follows, p);
    }
    free(follows);
    return SPC_OK;
}
