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

/* True if this shard has the item. The hash leaves out folders, as machines may
 * have the scenes elsewhere. */
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

/* ---- the list ------------------------------------------------------------ */

/* Works through the list in this process. */
static spc_status work_alone(tune_list *t)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    cli_catch_signals(t->job.self); /* loading takes long too */
    spc_status prepared = tune_work_prepare(t);
    if (prepared != SPC_OK) {
        free_scenes(&t->job.scenes);
        return prepared;
    }
    if (!t->job.self->globals.json) {
        tune_work_take(t, &t->shared->board.lane[0]);
        return (spc_status)t->shared->status;
    }
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    t->job.json = &json;
    tune_work_take(t, &t->shared->board.lane[0]);
    spc__json_end_array(&json);
    spc_status status = output_json(&text);
    return t->shared->status != SPC_OK ? (spc_status)t->shared->status : status;
}

/* ---- entry --------------------------------------------------------------- */

/* Reads the operands as layers, lists or networks, and keeps this shard's
 * part. */
static spc_status read_list(tune_list *t, cli *self)
{
    tuning_args *args = t->args;
    worklist_source from = {&self->operands, &args->scenes, args->folder,
                            "tune", args->points.count > 0};
    spc_status status;

    if (args->network != NULL && (self->operands.count > 0 || args->maps))
        return cli_fail(SPC_EINVAL, "--network has its own layers: omit LAYER and --maps");
    if (args->missing && (args->again || args->maps))
        return cli_fail(
            SPC_EINVAL,
            "--missing skips known kernels: leave out --again and --maps");
    if (args->network == NULL && (args->int8 || args->points.count > 0))
        return cli_fail(SPC_EINVAL, "--int8 and --points are words on a "
                                    "--network");
    status = args->network != NULL
                 ? worklist_add_network(&t->list, &from, args->network, NULL)
                 : worklist_read(&t->list, &from);
    return status == SPC_OK ? take_part(&t->list, self, args->shard) : status;
}

/* Reports options that do not apply to this form of the command. */
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

/* Reports items that were not begun. The exit status is still 0, as nothing
 * failed. */
static void say_what_is_left(const tune_list *t, spc_status status)
{
    const progress_board *board = &t->shared->board;
    int left = board->items - board->begun;

    if (board->budget_s > 0 && left > 0 && status == SPC_OK)
        cli_say(t->job.self,
                "spctune: the budget has ended: %d of %d are not started; run "
                "the command again to continue",
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
        if (devices.count == 1) /* one device, or all GPUs of the machine */
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
