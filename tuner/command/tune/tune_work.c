/* SPDX-License-Identifier: Apache-2.0 */
/* tune_work.c - takes items of the list and tunes them (tune_work.h). */
#include "command/tune/tune_work.h"
#include "command/cli/output.h"
#include "command/network/network.h"

#include "base/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one item ------------------------------------------------------------ */

static bool same_scenes(const work_item *a, const work_item *b)
{
    if (a == NULL || a->scenes.count != b->scenes.count)
        return false;
    for (int i = 0; i < a->scenes.count; i++)
        if (strcmp(a->scenes.at[i], b->scenes.at[i]) != 0)
            return false;
    return true;
}

/* Consecutive items mostly share their scenes. */
static spc_status load_item(tune_list *t, const work_item *item)
{
    if (same_scenes(t->loaded, item))
        return SPC_OK;
    /* Clears the name first, so that a failure does not leave the name of freed
     * scenes. */
    t->loaded = NULL;
    free_scenes(&t->job.scenes);
    spc_status status = load_scenes(&t->job.scenes, t->job.self, &item->scenes);
    if (status == SPC_OK)
        t->loaded = item;
    return status;
}

spc_status tune_work_open(tune_list *t)
{
    spc_status status = SPC_OK;

    if (t->job.ctx == NULL)
        status = cli_open(&t->job.ctx, t->job.self);
    /* the next item will not find a device either */
    t->has_no_device |= status != SPC_OK;
    return status;
}

/* Tunes a layer. A failure before it has written anything gets a JSON object
 * here, so that each item has one. */
static spc_status tune_one_layer(tune_list *t, const work_item *item)
{
    spc_status status = load_item(t, item);
    size_t before = t->job.json != NULL ? t->job.json->out->length : 0;

    if (status == SPC_OK)
        status = tune_work_open(t);
    if (status == SPC_OK)
        status = tune_passes(&t->job, &item->layer, item->text);
    if (status != SPC_OK && t->job.json != NULL &&
        t->job.json->out->length == before)
        job_write_failure(t->job.json, item->text, NULL);
    return status;
}

/* Tunes a network with a copy of the arguments, as its scenes are those of the
 * item. */
static spc_status tune_one_network(tune_list *t, const work_item *item)
{
    tuning_args args = *t->args;

    if (args.pass != NULL)
        return cli_fail(SPC_EINVAL,
                        "%s: --pass is of layers: a network is tuned as it "
                        "runs, forward alone",
                        item->text);
    args.network = item->text;
    args.scenes = item->scenes;
    if (item->dtype != NULL)
        args.dtype = item->dtype;
    args.int8 = args.int8 || item->int8;
    spc_status status = network_tune(t->job.self, &args, t->job.json);
    t->args->timed = args.timed;
    return status;
}

/*
 * Returns the seconds of the budget for one item: an equal share of the rest,
 * or the whole rest if later items matter less. Returns 0 without a budget, and
 * a negative number if it is spent.
 */
static double share_of_budget(const progress_board *board, bool in_order)
{
    double spent = (double)(spc__now_ns() - board->started_ns) * 1e-9;
    double left = board->budget_s - spent;
    int waiting = board->items - board->begun + 1;
    /* Lanes work at the same time, so an item waits only for those of its own
     * lane. */
    int rounds = (waiting + board->lanes - 1) / board->lanes;

    if (board->budget_s <= 0)
        return 0;
    if (left <= 0)
        return -1;
    return in_order || rounds < 1 ? left : left / rounds;
}

/* Counts an item as done. Uses atomics, as the processes of all lanes share the
 * board. Items that were known already took no time and predict none. */
static void note_end(progress_board *board, uint64_t began_ns, int timed)
{
    uint64_t took = spc__now_ns() - began_ns;

    if (timed > 0) {
        __atomic_fetch_add(&board->timed, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&board->timed_ns, (int64_t)took, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&board->ended, 1, __ATOMIC_RELAXED);
}

/* Tunes number i of the list. */
static spc_status tune_item(tune_list *t, int i)
{
    const work_item *item = &t->list.at[i];
    uint64_t began = spc__now_ns();

    t->args->timed = 0;
    spc_status status =
        item->is_network ? tune_one_network(t, item) : tune_one_layer(t, item);
    note_end(&t->shared->board, began, t->args->timed);
    return status;
}

/* ---- the output of an item ----------------------------------------------- */

/* Separates the output of items. In a lane each item is a JSON text of its own,
 * which the parent joins. */
static void begin_item(tune_list *t, int item)
{
    cli *self = t->job.self;

    if (!self->is_lane) {
        if (item > 0 && t->job.json == NULL)
            putchar('\n');
        return;
    }
    if (t->job.json == NULL)
        return;
    spc__buf_clear(&t->text);
    spc__json_init(t->job.json, &t->text);
    spc__json_array(t->job.json, NULL);
}

/*
 * Writes the elements of a JSON array without the brackets, which the parent
 * writes.
 */
static void end_item(tune_list *t)
{
    if (!t->job.self->is_lane) {
        fflush(stdout); /* show the progress of a long list */
        return;
    }
    if (t->job.json != NULL) {
        spc__json_end_array(t->job.json);
        if (t->text.length > 2)
            fwrite(t->text.data + 1, 1, t->text.length - 2, stdout);
    }
    /* The end of the item, at which the parent prints it. */
    putchar('\0');
    fflush(stdout);
}

/* ---- all items ----------------------------------------------------------- */

/* The list fails with its first failure; an interrupt takes precedence. */
void tune_work_note(tune_shared *shared, spc_status status)
{
    int none = SPC_OK, now = status;

    if (status == SPC_EINTERRUPTED)
        __atomic_store(&shared->status, &now, __ATOMIC_RELAXED);
    else if (status != SPC_OK)
        __atomic_compare_exchange(&shared->status, &none, &now, false,
                                  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void tune_work_take(tune_list *t, progress_lane *lane)
{
    tune_shared *shared = t->shared;
    int i;

    t->job.self->lane = lane;
    /* Each lane takes the next item of the shared counter, so that a fast lane
     * takes more items. */
    while (!t->has_no_device &&
           (i = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED)) <
               shared->board.items) {
        if (*cli_cancel_flag()) {
            tune_work_note(shared, cli_fail(SPC_EINTERRUPTED, "%s: interrupted",
                                            t->list.at[i].text));
            break;
        }
        double budget_s = share_of_budget(&shared->board, t->args->in_order);
        if (budget_s < 0)
            break;
        t->args->budget_s = budget_s;
        __atomic_fetch_add(&shared->board.begun, 1, __ATOMIC_RELAXED);
        lane->item = i;
        lane->left_s = -1;
        begin_item(t, i);
        spc_status status = tune_item(t, i);
        end_item(t);
        lane->item = -1;
        tune_work_note(shared, status);
        if (status == SPC_EINTERRUPTED)
            break;
    }
    free_scenes(&t->job.scenes);
    spc_ctx_free(t->job.ctx);
    t->job.ctx = NULL;
}

spc_status tune_work_prepare(tune_list *t)
{
    const work_item *first = &t->list.at[0];

    /* If scenes differ, each item loads its own scenes later. */
    for (int i = 0; i < t->list.count; i++)
        if (t->list.at[i].is_network ||
            (i > 0 && !same_scenes(first, &t->list.at[i])))
            return SPC_OK;
    spc_status status = t->list.count > 0 ? load_item(t, first) : SPC_OK;
    return status == SPC_OK ? tune_work_open(t) : status;
}
