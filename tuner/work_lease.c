/* SPDX-License-Identifier: Apache-2.0 */
/* work_lease.c - waiting for other processes that tune the same layer. */
#include "tuner/work_lease.h"
#include "spc/lab.h"

#include "base/clock.h"
#include "base/error.h"
#include "cache/lease.h"
#include <string.h>
#include <time.h>

/*
 * A holder renews its lease while it works. If one is killed in another
 * container or on another machine, others wait until its lease expires.
 */
enum { LEASE_SECONDS = 600, RENEW_SECONDS = 60 };

/*
 * The layer on these scenes: other scenes have other records, and other work.
 */
static void name_work(spc__buf *out, const spc__request *request)
{
    spc_ctx *ctx = request->ctx;
    spc__attrs layer = {0};

    spc__conv_attrs(&layer, request->conv);
    spc__buf_printf(out, "tune %s|%s|", ctx->info.name, request->target);
    spc__attrs_format(out, &layer);
    if (request->options.only != NULL)
        spc__buf_printf(out, "|%s", request->options.only);
    if (ctx->allow.text != NULL)
        spc__buf_printf(out, "|%s", ctx->allow.text);
    for (int s = 0; s < request->scene_count; s++)
        spc__buf_printf(out, "|%lld",
                        (long long)spc_scene_rows(request->scenes[s]));
}

static void pause_shortly(void)
{
    const struct timespec pause = {0, 100 * 1000 * 1000};

    nanosleep(&pause, NULL);
}

/* Logs each holder once. */
static void say_holder(const spc__work_lease *lease,
                       char said[SPC__LEASE_OWNER],
                       const char holder[SPC__LEASE_OWNER])
{
    if (strcmp(said, holder) != 0)
        spc__log_printf(&lease->ctx->log, SPC_LOG_WARNING,
                        "process %s tunes this layer: waiting for its result",
                        holder);
    memcpy(said, holder, SPC__LEASE_OWNER);
}

/* SPC_OK: try again. */
static spc_status wait_for(const char *holder, const spc__request *request)
{
    if (spc__request_cancelled(request))
        return spc__fail(request->error, SPC_EINTERRUPTED, "interrupted");
    if (spc__request_out_of_time(request, 0))
        return spc__fail(request->error, SPC_ETIMEOUT,
                         "process %s tunes this layer, and did not end within "
                         "the budget of %g s: run again when it has ended",
                         holder, request->options.budget_s);
    pause_shortly();
    return SPC_OK;
}

spc_status spc__work_lease_take(spc__work_lease *lease,
                                const spc__request *request)
{
    char holder[SPC__LEASE_OWNER], said[SPC__LEASE_OWNER] = "";
    bool taken = false;
    spc_status status = SPC_OK;

    lease->ctx = request->ctx;
    if (!request->ctx->stores)
        return SPC_OK;
    name_work(&lease->work, request);
    /* A failed lease does not stop the run, because two runs of one layer only
     * waste time. */
    while (status == SPC_OK && !lease->work.failed &&
           spc__lease_take(&taken, holder, lease->ctx->cache,
                           spc__buf_text(&lease->work), LEASE_SECONDS,
                           NULL) == SPC_OK &&
           !taken) {
        say_holder(lease, said, holder);
        status = wait_for(holder, request);
    }
    /* Without the lease there is nothing to renew or to drop. */
    if (!taken)
        spc__buf_clear(&lease->work);
    lease->renewed_ns = spc__now_ns();
    return status;
}

void spc__work_lease_renew(spc__work_lease *lease)
{
    bool taken;

    if (lease->work.length == 0 ||
        spc__now_ns() - lease->renewed_ns < RENEW_SECONDS * 1000000000ull)
        return;
    lease->renewed_ns = spc__now_ns();
    spc__lease_take(&taken, NULL, lease->ctx->cache,
                    spc__buf_text(&lease->work), LEASE_SECONDS, NULL);
}

void spc__work_lease_drop(spc__work_lease *lease)
{
    if (lease->work.length > 0)
        spc__lease_drop(lease->ctx->cache, spc__buf_text(&lease->work));
    spc__buf_release(&lease->work);
}
