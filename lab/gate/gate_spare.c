/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_spare.c - a map with spare capacity, refilled in place with one scene
 * after the other, as networks and frames do. Finds candidates that use the
 * capacity as the row count, or that keep data of an earlier map.
 */
#include "lab/gate/gate_launch.h"

#include "base/error.h"
#include "lab/sample/digest.h"
#include "operators/operands.h"
#include "plan/plan.h"
#include <stdlib.h>

enum { NAN_BYTE = 0xff };

/*
 * Digests of one launch: the result, the zones of output and workspace, and the
 * output after its rows.
 */
enum { BEHIND = SPC__RUN_DIGESTS, DIGESTS };

/*
 * Bytes of the output after its rows. A plan that zeroes its output does so up
 * to the capacity; for others this space counts as the output's zone.
 */
static size_t spare_bytes(const spc__gate *g)
{
    const spc__fixture *fixture = g->fixture;
    size_t all = spc__operand_of(&fixture->sample->conv, SPC_OPERAND_OUT,
                                 fixture->capacity)
                     .bytes;
    size_t used = (size_t)(spc__guarded_end(&fixture->out) - fixture->out.data);

    if (!spc__plan_launch(g->tested->plan)->clear || all <= used)
        return 0;
    return (all - used) / 2 * 2; /* rounded to the unit of digests */
}

/* Digests the bytes between the result's end and the zone, then fills them like
 * a zone, as the digests of zones include them. */
static spc_status digest(const spc__gate *g, size_t behind, uint64_t *digests)
{
    spc__fixture *fixture = g->fixture;
    char *end = spc__guarded_end(&fixture->out);
    spc_status status = spc__digester_begin(fixture->digester);

    if (status == SPC_OK && behind > 0 &&
        (status = spc__digester_add(fixture->digester, end, behind)) == SPC_OK)
        status = spc__digester_end(fixture->digester, &digests[BEHIND]);
    if (status == SPC_OK && behind > 0)
        status = fixture->ops->fill(fixture->ctx->device, end, SPC__ZONE_BYTE,
                                    behind, NULL, spc__error_of(fixture->ctx));
    return status == SPC_OK ? spc__gate_digest(g, digests) : status;
}

/* The workspace keeps the data of the previous scene, as in a program. */
static spc_status launch(const spc__gate *g, int s, size_t behind,
                         bool is_first, uint64_t *digests)
{
    spc__fixture *fixture = g->fixture;
    spc_status status = spc__fixture_load(fixture, s, SPC__COUNT);

    if (status == SPC_OK)
        status = spc__fixture_fill_out(fixture, NAN_BYTE);
    if (status == SPC_OK && is_first)
        status =
            spc__guarded_fill(&fixture->guards, &fixture->workspace, NAN_BYTE);
    if (status == SPC_OK)
        status = spc__fixture_execute(fixture, g->tested->plan, s, SPC__COUNT,
                                      spc__gate_packed(g, SPC__COUNT), NULL);
    return status == SPC_OK ? digest(g, behind, digests) : status;
}

/* Rows that do not exist must not be added to. */
static bool is_zero(const spc__gate *g, size_t behind, uint64_t seen)
{
    void *zeros = behind > 0 ? calloc(behind, 1) : NULL;
    bool is = zeros == NULL || spc__digest_host(zeros, behind) == seen;

    free(zeros);
    if (!is)
        spc__gate_wrong(g, "canary: a write after the end of out, with a map "
                           "below its capacity");
    return is;
}

/* Checks the result with a map that has more room than rows. */
static void compare_zones(const spc__gate *g, int s, size_t behind,
                          const uint64_t *digests)
{
    spc__gate_setting at = {.s = s,
                            .dataset = SPC__COUNT,
                            .out_byte = NAN_BYTE,
                            .previous = SPC__COUNT,
                            .work_byte = NAN_BYTE};
    uint64_t result = digests[SPC__RESULT];
    spc__worst worst;

    if (!spc__gate_zones_hold(g, "out, of a map with room to spare",
                              &g->fixture->out, &digests[SPC__OUT_ZONES]) ||
        !spc__gate_zones_hold(g, "workspace, of a map with room to spare",
                              &g->fixture->workspace,
                              &digests[SPC__WORK_ZONES]) ||
        !is_zero(g, behind, digests[BEHIND]) ||
        !spc__gate_compare(g, &at, result, &worst) || worst.error <= 1)
        return;
    spc__gate_reject(g, &at, result, &worst);
}

/* The maps of the fixture are verified, but not the one with spare capacity. */
static void test_scene(const spc__gate *g, int s, bool is_first)
{
    spc__gate of_spare = *g;
    uint64_t digests[DIGESTS] = {0};
    size_t behind = 0;

    of_spare.notes_maps = false;
    if (spc__fixture_take_spare(g->fixture, s) != SPC_OK ||
        spc__fixture_set(g->fixture, g->tested->plan, s) != SPC_OK)
        spc__gate_failed(g);
    else if ((behind = spare_bytes(g),
              launch(g, s, behind, is_first, digests)) != SPC_OK)
        spc__gate_failed(g);
    else
        compare_zones(&of_spare, s, behind, digests);
    spc__fixture_return_spare(g->fixture, s);
}

void spc__gate_test_spare(const spc__gate *g)
{
    int scenes[SPC__SPARE_SCENES];
    int count = spc__fixture_spare_scenes(scenes, g->fixture);

    for (int i = 0; i < count; i++)
        if (g->out->status == SPC__TRIAL_OK)
            test_scene(g, scenes[i], i == 0);
}
