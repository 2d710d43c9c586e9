/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_large.c - launches on more rows than any earlier scene has, and on a
 * solid block.
 */
#include "lab/gate/gate_launch.h"

#include "base/error.h"
#include "lab/gate/large.h"
#include "operators/operands.h"

/* Compares the chosen rows, exactly. */
static void compare(const spc__gate *g, const spc__large *large)
{
    const spc_conv *conv = &g->fixture->sample->conv;
    bool is_gradient = conv->pass == SPC_WGRAD;
    spc__operand out = spc__operand_of(conv, SPC_OPERAND_OUT, large->count);
    spc__expected expected = {.stored = large->exact,
                              .tolerance = large->slack};
    spc__worst worst = spc__judge(large->got, &out, &expected);

    if (worst.error > 1)
        spc__gate_wrong(
            g,
            "exact: of %lld rows, row %lld%s, channel %d is %.9g, "
            "expected %.9g",
            (long long)large->rows_out,
            (long long)(is_gradient ? worst.row : large->at[worst.row]),
            is_gradient ? " of the gradient" : "", worst.channel, worst.got,
            worst.reference);
}

/* Checks the zones of the output and of the workspace. */
static void check_zones(const spc__gate *g, const spc__large *large)
{
    spc__digester *digester = g->fixture->digester;
    uint64_t digests[4];
    spc_status status = spc__digester_begin(digester);

    if (status == SPC_OK)
        status = spc__gate_add_zones(g, &large->out);
    if (status == SPC_OK)
        status = spc__gate_add_zones(g, &large->workspace);
    if (status == SPC_OK)
        status = spc__digester_end(digester, digests);
    if (status != SPC_OK)
        spc__gate_failed(g);
    else if (spc__gate_zones_hold(g, "out", &large->out, digests))
        spc__gate_zones_hold(g, "workspace", &large->workspace, digests + 2);
}

/* Tests one kind of large scene. Without the time or the memory for it the test
 * is skipped, which does not count against the candidate. */
static void test_large(const spc__gate *g, int kind)
{
    spc__large *large;

    if (spc__fixture_large(&large, g->fixture, kind) != SPC_OK) {
        spc__gate_failed(g);
        return;
    }
    if (!large->is_there)
        return;
    if (spc__large_run(large, g->fixture, g->tested->plan,
                       spc__gate_packed(g, SPC__COUNT)) != SPC_OK) {
        spc__gate_failed(g);
        return;
    }
    if (!large->is_there)
        return;
    compare(g, large);
    if (g->out->status == SPC__TRIAL_OK)
        check_zones(g, large);
}

void spc__gate_test_large(const spc__gate *g)
{
    for (int kind = 0; kind < SPC__LARGES; kind++)
        if (g->out->status == SPC__TRIAL_OK)
            test_large(g, kind);
}
