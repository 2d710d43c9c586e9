/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_launch.c - runs a candidate once between guard zones, compares its
 * result and describes failures.
 */
#include "lab/gate/gate_launch.h"

#include "base/error.h"
#include "plan/plan.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- verdicts ------------------------------------------------------------ */

void spc__gate_failed(const spc__gate *g)
{
    spc_ctx *ctx = g->fixture->ctx;

    snprintf(g->out->note, sizeof(g->out->note), "%.190s",
             spc__error_of(ctx)->text);
    g->out->status = SPC__TRIAL_FAULT;
    /* An error that stays means that the device is lost to this process. */
    g->out->dead = spc_ctx_synchronize(ctx) != SPC_OK;
}

void spc__gate_wrong(const spc__gate *g, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(g->out->note, sizeof(g->out->note), format, args);
    va_end(args);
    g->out->status = SPC__TRIAL_WRONG;
}

const char *spc__gate_scene(const spc__gate *g, int s)
{
    return g->fixture->sample->scenes[s].name;
}

void spc__gate_wrong_at(const spc__gate *g, const char *test, int s,
                        const spc__worst *worst)
{
    char text[SPC__WORST_TEXT];

    spc__gate_wrong(g, "%s: scene '%.40s', %s", test, spc__gate_scene(g, s),
                    spc__worst_text(text, worst));
}

/* ---- one launch ---------------------------------------------------------- */

const spc__guarded *spc__gate_packed_array(const spc__gate *g,
                                           spc__dataset dataset)
{
    return dataset == SPC__REAL ? &g->tested->packed
                                : &g->fixture->packed[dataset];
}

const void *spc__gate_packed(const spc__gate *g, spc__dataset dataset)
{
    return spc__gate_packed_array(g, dataset)->data;
}

spc_status spc__gate_add_zones(const spc__gate *g, const spc__guarded *of)
{
    spc__digester *digester = g->fixture->digester;
    size_t bytes = g->fixture->guards.zone_bytes[of->is_far];
    spc_status status = spc__digester_add(
        digester, spc__guarded_zone(&g->fixture->guards, of), bytes);

    return status == SPC_OK
               ? spc__digester_add(digester, spc__guarded_end(of), bytes)
               : status;
}

bool spc__gate_zones_hold(const spc__gate *g, const char *name,
                          const spc__guarded *of, const uint64_t *digests)
{
    for (int i = 0; i < 2; i++)
        if (digests[i] != g->fixture->zone_digest[of->is_far]) {
            spc__gate_wrong(g, "canary: something is written %s %s",
                            i == 0 ? "before" : "behind", name);
            return false;
        }
    return true;
}

spc_status spc__gate_digest(const spc__gate *g,
                            uint64_t digests[SPC__RUN_DIGESTS])
{
    spc__fixture *fixture = g->fixture;
    spc_status status;

    if ((status = spc__digester_begin(fixture->digester)) != SPC_OK ||
        (status = spc__digester_add(fixture->digester, fixture->out.data,
                                    fixture->out.bytes)) != SPC_OK ||
        (status = spc__gate_add_zones(g, &fixture->out)) != SPC_OK ||
        (status = spc__gate_add_zones(g, &fixture->workspace)) != SPC_OK)
        return status;
    return spc__digester_end(fixture->digester, digests);
}

/* Launches with closed pages; a write to them becomes the verdict. */
static spc_status launch(const spc__gate *g, const spc__gate_setting *at)
{
    if (at->read_only)
        spc__gate_close_pages(g, at);
    spc_status status =
        spc__fixture_execute(g->fixture, g->tested->plan, at->s, at->dataset,
                             spc__gate_packed(g, at->dataset), NULL);
    if (status == SPC_OK)
        status = spc_ctx_synchronize(g->fixture->ctx);
    if (at->read_only)
        spc__gate_open_pages(g);
    return status;
}

bool spc__gate_run(const spc__gate *g, const spc__gate_setting *at,
                   uint64_t digests[SPC__RUN_DIGESTS])
{
    spc__fixture *fixture = g->fixture;

    if (spc__fixture_load(fixture, at->s, at->dataset) != SPC_OK ||
        (at->out_byte >= 0 &&
         spc__fixture_fill_out(fixture, at->out_byte) != SPC_OK) ||
        (at->work_byte >= 0 &&
         spc__guarded_fill(&fixture->guards, &fixture->workspace,
                           at->work_byte) != SPC_OK) ||
        launch(g, at) != SPC_OK || spc__gate_digest(g, digests) != SPC_OK) {
        /* A write to a closed page has given the verdict already. */
        if (g->out->status == SPC__TRIAL_OK)
            spc__gate_failed(g);
        return false;
    }
    return g->out->status == SPC__TRIAL_OK;
}

/* Returns NULL if this result is not known yet. */
static const spc__right *find_right(const spc__fixture *fixture,
                                    const spc__gate_setting *at,
                                    uint64_t digest)
{
    for (int i = 0; i < SPC__RIGHT && i < fixture->rights[at->s]; i++) {
        const spc__right *right = &fixture->right[at->s][i];
        if (right->dataset == at->dataset && right->digest == digest)
            return right;
    }
    return NULL;
}

/* Keeps the digest of a correct result, so that the next candidate with the
 * same bits needs no comparison on the host. */
static void keep_right(spc__fixture *fixture, const spc__gate_setting *at,
                       uint64_t digest, const spc__worst *worst)
{
    int i = fixture->rights[at->s]++ % SPC__RIGHT;

    fixture->right[at->s][i] = (spc__right){digest, *worst, at->dataset};
}

bool spc__gate_compare(const spc__gate *g, const spc__gate_setting *at,
                       uint64_t digest, spc__worst *worst)
{
    const spc__sample *sample = g->fixture->sample;
    spc__operand out = spc__sample_out(sample, at->s);

    *worst = (spc__worst){0};
    /* An exact result has one digest, which the sample has. */
    if (at->dataset != SPC__REAL &&
        digest == sample->scenes[at->s].digest[at->dataset])
        return true;
    const spc__right *right = find_right(g->fixture, at, digest);
    if (right != NULL) {
        *worst = right->worst;
        return true;
    }
    if (spc__fixture_fetch(g->fixture) != SPC_OK) {
        spc__gate_failed(g);
        return false;
    }
    *worst = spc__sample_compare(sample, at->s, at->dataset, g->fixture->host);
    if (spc__gaps_hold(g->fixture->host, &out)) {
        if (worst->error <= 1)
            keep_right(g->fixture, at, digest, worst);
        return true;
    }
    spc__gate_wrong(g, "canary: something is written between the rows of out");
    return false;
}
