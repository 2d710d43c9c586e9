/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_list.c - spctune tune: a list of layers and networks, one after the
 * other or on several devices at once.
 *
 * A free process takes the next item: one process for one device, or a process
 * for each. They share a board in memory with the next item, the progress of
 * each lane, and the results.
 */
#include "command/tune/tune_list.h"
#include "command/cli/idle.h"
#include "command/cli/output.h"
#include "command/network/network.h"
#include "command/tune/lanes.h"
#include "command/tune/shard.h"

#include "base/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- our part of the list ------------------------------------------------ */

/* Folders differ between machines, so they are not part of a key. */
static const char *without_folder(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool is_ours(const shard *part, const work_item *item)
{
    spc__buf key = SPC__BUF_INIT;

    spc__buf_puts(&key,
                  item->is_network ? without_folder(item->text) : item->text);
    for (int i = 0; i < item->scenes.count; i++)
        spc__buf_printf(&key, " %s", without_folder(item->scenes.at[i]));
    bool ours = shard_has(part, spc__buf_text(&key));
    spc__buf_release(&key);
    return ours;
}

/* Removes the items of other parts from the list. */
static spc_status take_part(worklist *list, const cli *self, const char *text)
{
    shard part;
    worklist others = {0};
    spc_status status = shard_read(&part, text);
    int ours = 0, count = list->count;

    if (status != SPC_OK || part.count == 1)
        return status;
    others.at = calloc((size_t)count + 1, sizeof(*others.at));
    if (others.at == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < count; i++)
        if (is_ours(&part, &list->at[i]))
            list->at[ours++] = list->at[i];
        else
            others.at[others.count++] = list->at[i];
    list->count = ours;
    worklist_free(&others);
    cli_say(self, "spctune: part %d of %d (%s): %d of %d", part.index + 1,
            part.count, part.source, ours, count);
    return SPC_OK;
}

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
    t->loaded = NULL;
    free_scenes(&t->job.scenes);
    spc_status status = load_scenes(&t->job.scenes, t->job.self, &item->scenes);
    if (status == SPC_OK)
        t->loaded = item;
    return status;
}

spc_status tune_list_open(tune_list *t)
{
    spc_status status = SPC_OK;

    if (t->job.ctx == NULL)
        status = cli_open(&t->job.ctx, t->job.self);
    /* the next item will not find a device either */
    t->has_no_device |= status != SPC_OK;
    return status;
}

static spc_status tune_one_layer(tune_list *t, const work_item *item)
{
    spc_status status = load_item(t, item);
    size_t before = t->job.json != NULL ? t->job.json->out->length : 0;

    if (status == SPC_OK)
        status = tune_list_open(t);
    if (status == SPC_OK)
        status = tune_passes(&t->job, &item->layer, item->text);
    if (status != SPC_OK && t->job.json != NULL &&
        t->job.json->out->length == before)
        job_write_failure(t->job.json, item->text, NULL);
    return status;
}

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
    spc_status status = network_tune(t->job.self, &args, t->job.json);
    t->args->timed = args.timed;
    return status;
}

/*
 * Seconds of the budget for one item: an equal share of the rest, as other
 * items wait for theirs; or the whole rest if later items matter less. 0: there
 * is no budget; negative: it is spent.
 */
static double share_of_budget(const progress_board *board, bool in_order)
{
    double spent = (double)(spc__now_ns() - board->started_ns) * 1e-9;
    double left = board->budget_s - spent;
    int waiting = board->items - board->begun + 1;
    int turns = (waiting + board->lanes - 1) / board->lanes;

    if (board->budget_s <= 0)
        return 0;
    if (left <= 0)
        return -1;
    return in_order || turns < 1 ? left : left / turns;
}

static void note_end(progress_board *board, uint64_t began_ns, int timed)
{
    uint64_t took = spc__now_ns() - began_ns;

    if (timed > 0) {
        __atomic_fetch_add(&board->timed, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&board->timed_ns, (int64_t)took, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&board->ended, 1, __ATOMIC_RELAXED);
}

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

/* ---- all items ----------------------------------------------------------- */

/* The list fails with its first failure; an interrupt takes precedence. */
void tune_list_note(tune_shared *shared, spc_status status)
{
    int none = SPC_OK, now = status;

    if (status == SPC_EINTERRUPTED)
        __atomic_store(&shared->status, &now, __ATOMIC_RELAXED);
    else if (status != SPC_OK)
        __atomic_compare_exchange(&shared->status, &none, &now, false,
                                  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void tune_list_work(tune_list *t, progress_lane *lane)
{
    tune_shared *shared = t->shared;
    int i;

    t->job.self->lane = lane;
    while (!t->has_no_device &&
           (i = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED)) <
               shared->board.items) {
        if (*cli_cancel_flag()) {
            tune_list_note(shared, cli_fail(SPC_EINTERRUPTED, "%s: interrupted",
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
        lanes_begin(t, i);
        spc_status status = tune_item(t, i);
        lanes_end(t);
        lane->item = -1;
        tune_list_note(shared, status);
        if (status == SPC_EINTERRUPTED)
            break;
    }
    free_scenes(&t->job.scenes);
    spc_ctx_free(t->job.ctx);
    t->job.ctx = NULL;
}

/* Loads what all layers need, so that a failure is reported once. */
static spc_status prepare(tune_list *t)
{
    const work_item *first = &t->list.at[0];

    for (int i = 0; i < t->list.count; i++)
        if (t->list.at[i].is_network ||
            (i > 0 && !same_scenes(first, &t->list.at[i])))
            return SPC_OK;
    spc_status status = t->list.count > 0 ? load_item(t, first) : SPC_OK;
    return status == SPC_OK ? tune_list_open(t) : status;
}

static spc_status work_alone(tune_list *t)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    cli_catch_signals(t->job.self); /* loading takes long too */
    spc_status prepared = prepare(t);
    if (prepared != SPC_OK) {
        free_scenes(&t->job.scenes);
        return prepared;
    }
    if (!t->job.self->globals.json) {
        tune_list_work(t, &t->shared->board.lane[0]);
        return (spc_status)t->shared->status;
    }
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    t->job.json = &json;
    tune_list_work(t, &t->shared->board.lane[0]);
    spc__json_end_array(&json);
    spc_status status = output_json(&text);
    return t->shared->status != SPC_OK ? (spc_status)t->shared->status : status;
}

/* ---- entry --------------------------------------------------------------- */

static spc_status read_list(tune_list *t, cli *self)
{
    tuning_args *args = t->args;
    worklist_source from = {&self->operands, &args->scenes, args->folder,
                            "tune", args->points != NULL};
    spc_status status;

    if (args->network != NULL && (self->operands.count > 0 || args->maps))
        return cli_fail(SPC_EINVAL, "--network brings its own layers: leave "
                                    "out yours, and --maps");
    if (args->missing && (args->again || args->maps))
        return cli_fail(SPC_EINVAL, "--missing leaves alone what is known of "
                                    "kernels: leave out --again and --maps");
    if (args->network == NULL && (args->int8 || args->points != NULL))
        return cli_fail(SPC_EINVAL, "--int8 and --points are words on a "
                                    "--network");
    status = args->network != NULL
                 ? worklist_add_network(&t->list, &from, args->network, NULL)
                 : worklist_read(&t->list, &from);
    return status == SPC_OK ? take_part(&t->list, self, args->shard) : status;
}

/* Reports options that do not apply to this kind of work. */
static void say_idle(const tune_list *t, const cli *self)
{
    int networks = 0, from_files = 0;

    for (int i = 0; i < t->list.count; i++) {
        const cli_list *scenes = &t->list.at[i].scenes;
        networks += t->list.at[i].is_network;
        for (int s = 0; s < scenes->count; s++)
            from_files += worklist_is_in_folder(scenes->at[s]);
    }
    if (t->list.count == 0)
        return; /* another part of the list may use them */
    if (from_files == 0)
        idle_say(self, "without a scene that is a file in a folder", "scenes");
    if (networks == 0)
        idle_say(self, "without a network", "dtype capacity growth");
    if (networks == t->list.count)
        idle_say(self, "on networks", "maps");
    else if (t->args->maps)
        idle_say(self, "with --maps, where all are measured again",
                 "effort seed limit only in-process allow-spills again");
    if (t->args->whole_budget_s <= 0)
        idle_say(self, "without --budget", "in-order");
}

static void say_what_is_left(const tune_list *t, spc_status status)
{
    const progress_board *board = &t->shared->board;
    int left = board->items - board->begun;

    if (board->budget_s > 0 && left > 0 && status == SPC_OK)
        cli_say(t->job.self,
                "spctune: the time is over: %d of %d are not begun; the same "
                "command goes on with them",
                left, board->items);
}

spc_status tune_list_run(cli *self, tuning_args *args)
{
    tune_list t = {.args = args};
    lanes devices;
    spc_status status;

    t.job = (cli_job){.self = self, .args = args, .is_alone = true};
    if ((status = read_list(&t, self)) == SPC_OK &&
        (status = lanes_read(&devices, self)) == SPC_OK &&
        (status = lanes_share(&t, &devices)) == SPC_OK) {
        t.shared->board.items = t.list.count;
        t.shared->board.budget_s = args->whole_budget_s;
        t.shared->board.started_ns = spc__now_ns();
        self->board = &t.shared->board;
        say_idle(&t, self);
        if (devices.count == 1) /* all GPUs of the machine, or a list of one */
            self->globals.device = devices.device[0];
        status = devices.count > 1 ? lanes_run(&t, &devices) : work_alone(&t);
        say_what_is_left(&t, status);
    }
    self->board = NULL;
    self->lane = NULL;
    lanes_unshare(&t);
    worklist_free(&t.list);
    return status;
}
