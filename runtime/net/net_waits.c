/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_waits.c - which layers of a graph wait for which.
 *
 * In a run each layer follows the one before it. In a graph it need only follow
 * those that write what it reads, or that still use memory which it writes: the
 * heads of a detector, a shortcut and the convolutions that it goes around are
 * launched side by side. What is waited for is found from where tensors and
 * workspaces lie, so it is right wherever they lie; and so that they do not
 * share memory that would make one layer wait for another, pieces live on for
 * some works that could run beside their last one.
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "context/ctx.h"
#include <limits.h>
#include <stdlib.h>

/* So many works behind its last one a piece is kept at most: eight heads of two
 * layers. Where layers follow each other nothing is kept at all. */
enum { KEPT_FOR = 16 };

/* Channels of a piece that a work reads or writes. */
typedef struct use {
    int piece;
    int64_t begin, end;
    bool writes;
} use;

enum { MOST_USES = SPC__NET_SOURCES + 4 };

/* ---- what works use ------------------------------------------------------ */

/* What is the caller's is only read. */
static int add_use(use *list, int count, const spc_net_plan *plan, int tensor,
                   bool writes)
{
    const spc__net_place *place;

    if (tensor == SPC_NO_TENSOR || plan->places[tensor].piece < 0)
        return count;
    const spc__net_tensor *t = &plan->net->tensors[tensor];
    place = &plan->places[tensor];
    list[count] = (use){place->piece, place->channel,
                        place->channel + t->elements, writes};
    if (t->dense)
        list[count].begin = 0, list[count].end = INT64_MAX;
    return count + 1;
}

static int find_uses(use list[MOST_USES], const spc_net_plan *plan, int i)
{
    const spc__net_work *work = &plan->works[i];
    const spc__net_node *node =
        work->kind == SPC_NET_GATHER ? &plan->net->nodes[work->node] : NULL;
    int count = add_use(list, 0, plan, work->in, false);

    count = add_use(list, count, plan, work->add, false);
    count = add_use(list, count, plan, work->index,
                    work->feature.op == SPC_FEATURE_POOL);
    for (int j = 0; node != NULL && j < node->ins; j++)
        count = add_use(list, count, plan, node->in[j], false);
    count = add_use(list, count, plan, work->out, true);
    if (work->kind == SPC_NET_CONV) /* several layers', where they are one */
        list[count - 1].end = list[count - 1].begin + work->conv.cout;
    return count;
}

static bool meet(const use *a, const use *b)
{
    return a->piece == b->piece && a->begin < b->end && b->begin < a->end;
}

/* Does work i read what j writes, or write what j reads or writes? */
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

/* Does a piece that work i writes lie where one of j's does? */
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
        for (int a = 0; a < count; a++)
            if (mine[a].writes && mine[a].piece != other[b].piece &&
                lie_together(&plan->pieces[mine[a].piece], it))
                return true;
    }
    return lie_together(work, their);
}

static bool meet_in_memory(const spc_net_plan *plan, int i, int j)
{
    use mine[MOST_USES];
    int count = find_uses(mine, plan, i);
    const spc__net_piece *their = workspace_of(plan, j);

    for (int a = 0; a < count; a++)
        if (lie_together(&plan->pieces[mine[a].piece], their))
            return true;
    return writes_over(plan, i, j) || writes_over(plan, j, i);
}

/* ---- who follows whom ---------------------------------------------------- */

/* Sets that features choose are made among the layers; their networks, and
 * those without branches, run one after the other. */
bool spc__net_layers_branch(const spc_net_plan *plan)
{
    for (int i = plan->branch_count; i < plan->work_count; i++)
        if (plan->works[i].kind < SPC_NET_CONV)
            return false;
    return plan->branch_count > 0;
}

/* Row by row: does work i follow j, itself or through others? Of works before
 * the first layer nothing is said. `by_place`: memory that they share counts
 * too. NULL: out of memory. */
static bool *find_follows(const spc_net_plan *plan, bool by_place)
{
    size_t n = (size_t)plan->work_count;
    bool *follows = calloc(n * n + 1, sizeof(*follows));

    for (size_t i = (size_t)plan->branch_count; i < n && follows != NULL; i++)
        for (size_t j = i; j-- > (size_t)plan->branch_count;) {
            if (follows[i * n + j] ||
                !(share_tensors(plan, (int)i, (int)j) ||
                  (by_place && meet_in_memory(plan, (int)i, (int)j))))
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

/* The last ones that it follows: those that none of the others follows. */
int spc__net_waits_of(int *list, const spc__net_waits *waits, int i)
{
    int count = 0;

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

static bool uses_piece(const spc_net_plan *plan, int i, int piece)
{
    use list[MOST_USES];
    int count = find_uses(list, plan, i);
    bool uses = workspace_of(plan, i) == &plan->pieces[piece];

    for (int u = 0; u < count; u++)
        uses |= list[u].piece == piece;
    return uses;
}

/* The last work, of the next few, that could run beside work i. */
static int last_beside(const spc_net_plan *plan, const bool *follows, int i,
                       int end)
{
    int n = plan->work_count, last = 0;

    for (int s = i + 1; s < n && s <= end; s++)
        if (!follows[(size_t)s * (size_t)n + (size_t)i])
            last = s;
    return last;
}

/* The same of all that use the piece. */
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
    bool *follows =
        spc__net_layers_branch(plan) ? find_follows(plan, false) : NULL;

    if (!spc__net_layers_branch(plan))
        return SPC_OK;
    if (follows == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx),
                                (size_t)plan->work_count);
    for (int p = 0; p < plan->piece_count; p++) {
        spc__net_piece *piece = &plan->pieces[p];
        if (piece->last >= plan->branch_count && piece->last < plan->work_count)
            piece->last = last_beside_users(plan, follows, p);
    }
    free(follows);
    return SPC_OK;
}
