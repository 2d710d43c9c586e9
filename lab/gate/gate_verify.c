/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_verify.c - the tests that a candidate must pass, and the name of the
 * first failed test.
 *
 * On every scene the output of the first launch starts as all ones, which is
 * NaN. The second launch has other data and starts with the result of the
 * first, and with the workspace as the first left it. The third starts with a
 * plausible number. A candidate that does not write its output, or adds to it,
 * fails in at least one of them.
 */
#include "lab/gate/gate.h"

#include "base/clock.h"
#include "lab/gate/gate_launch.h"
#include "plan/plan_parts.h"
#include <stdlib.h>
#include <string.h>

/* The fill of arrays: NaN in every type; 1.06 in fp16 and 0.0115 in fp32. */
enum { NAN_BYTE = 0xff, NUMBER_BYTE = 0x3c };

/* Launches that verifying a deterministic problem repeats. */
enum { REPEATS = 3 };

/*
 * Confirming runs: a fault of one launch in thirty escapes 200 of them with
 * probability 0.001, 150 with 0.006, and 100 with 0.03. On a busy machine there
 * may be time for only a hundred runs, which would miss it too often. Small
 * scenes have more runs in the same time.
 */
enum { RUNS_LEAST = 150, RUNS = 200, RUNS_MOST = 2000, RUNS_AT_ONCE = 16 };
/* runs of a deterministic layer on the given scenes */
enum { REAL_LEAST = 100 };

/* ---- verifying ----------------------------------------------------------- */

/* A deterministic problem must return the same bits. */
static void test_again(const spc__gate *g, const spc__gate_setting *at)
{
    spc__gate_setting again = *at;
    uint64_t digests[SPC__RUN_DIGESTS];

    again.out_byte = again.work_byte = NUMBER_BYTE;
    for (int i = 0; i < REPEATS && spc__gate_run(g, &again, digests); i++)
        if (digests[SPC__RESULT] != g->tested->first[at->s][at->dataset]) {
            spc__gate_wrong(g,
                            "differs from run to run: scene '%.40s', launch %d "
                            "gives other bits than the first",
                            spc__gate_scene(g, at->s), 2 + i);
            return;
        }
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_test_addresses(g, at);
}

void spc__gate_test_launch(const spc__gate *g, const spc__gate_setting *at)
{
    uint64_t digests[SPC__RUN_DIGESTS];
    spc__worst worst;

    if (!spc__gate_run(g, at, digests) ||
        !spc__gate_compare(g, at, digests[SPC__RESULT], &worst))
        return;
    if (at->dataset == SPC__REAL && worst.error > g->out->error)
        g->out->error = worst.error;
    /* The comparison also refuses NaN. */
    if (!(worst.error <= 1)) {
        spc__gate_reject(g, at, digests[SPC__RESULT], &worst);
        return;
    }
    /* All later runs are compared with these bits. */
    g->tested->first[at->s][at->dataset] = digests[SPC__RESULT];
    if (spc__gate_zones_hold(g, "out", &g->fixture->out,
                             &digests[SPC__OUT_ZONES]))
        spc__gate_zones_hold(g, "workspace", &g->fixture->workspace,
                             &digests[SPC__WORK_ZONES]);
    if (g->out->status == SPC__TRIAL_OK && at->dataset == SPC__REAL &&
        g->fixture->sample->conv.deterministic)
        test_again(g, at);
}

/* Runs a candidate on scene s with every kind of data. Outputs and workspace
 * begin with other bytes each time (-1: with the bytes of the previous launch),
 * so that no result can depend on them. */
static void test_scene(const spc__gate *g, int s)
{
    static const struct {
        int out_byte, work_byte;
    } contents[SPC__DATASETS] = {{NAN_BYTE, NAN_BYTE},
                                 {-1, -1},
                                 {NUMBER_BYTE, NUMBER_BYTE},
                                 {NAN_BYTE, NUMBER_BYTE}};
    spc__gate_setting at = {.s = s};
    int launches = 0;

    if (spc__fixture_set(g->fixture, g->tested->plan, s) != SPC_OK) {
        spc__gate_failed(g);
        return;
    }
    for (int d = 0; d < SPC__DATASETS && g->out->status == SPC__TRIAL_OK; d++) {
        if (!spc__sample_has(g->fixture->sample, s, (spc__dataset)d))
            continue;
        at.previous = at.dataset;
        at.dataset = (spc__dataset)d;
        at.out_byte = contents[launches].out_byte;
        at.work_byte = contents[launches].work_byte;
        at.read_only = launches == 0;
        if (launches == 0 && s % 2 == 1)
            at.work_byte = NUMBER_BYTE;
        spc__gate_test_launch(g, &at);
        if (launches++ == 0 && g->out->status == SPC__TRIAL_OK)
            spc__gate_map_holds(g, s);
    }
    if (g->out->status == SPC__TRIAL_OK &&
        s == g->fixture->sample->given + SPC__AWKWARD_BORDER)
        spc__gate_test_no_numbers(g, s);
}

static bool has_dataset(const spc__gate *g, int dataset)
{
    return g->fixture->sample->weights[dataset] != NULL;
}

/* Packs the integers and digests the packed forms. */
static bool pack_datasets(spc__gate *g)
{
    spc__fixture *fixture = g->fixture;
    spc_status status = spc__digester_begin(fixture->digester);
    uint64_t digests[SPC__DATASETS];
    int count = 0;

    for (int d = 0; d < SPC__DATASETS && status == SPC_OK; d++) {
        if (!has_dataset(g, d))
            continue;
        spc__guarded *to =
            d == SPC__REAL ? &g->tested->packed : &fixture->packed[d];
        /* REAL is packed into a separate array when the candidate is loaded
         * (pack_real), as timings of several candidates alternate. */
        if (d != SPC__REAL)
            status = spc__fixture_pack(fixture, to, g->tested->plan,
                                       (spc__dataset)d);
        if (status == SPC_OK)
            status = spc__digester_add(fixture->digester, to->data, to->bytes);
    }
    if (status == SPC_OK)
        status = spc__digester_end(fixture->digester, digests);
    for (int d = 0; d < SPC__DATASETS; d++)
        if (has_dataset(g, d))
            g->packed_digest[d] = digests[count++];
    if (status != SPC_OK)
        spc__gate_failed(g);
    spc__gate_weights_hold(g);
    return g->out->status == SPC__TRIAL_OK;
}

/*
 * True if the kernel has static memory, which is not allowed: a value left
 * there by one launch is visible to later launches and on other streams. Tests
 * allow static memory for planted kernels whose fault needs it.
 */
static bool remembers(const spc__gate *g)
{
    size_t bytes = g->tested->plan->statics;

    if (bytes == 0 || g->fixture->ctx->allows_statics)
        return false;
    spc__gate_wrong(g,
                    "remembers: its code has %zu bytes of static memory, in "
                    "which a launch can leave what later ones find",
                    bytes);
    return true;
}

/* The tests before any timing. The first failure ends them, as later ones would
 * only repeat it. */
static void verify(spc__gate *g)
{
    const spc__sample *sample = g->fixture->sample;

    if (remembers(g) || !pack_datasets(g) || !spc__gate_note_maps(g))
        return;
    for (int s = 0; s < sample->scene_count; s++)
        if (g->out->status == SPC__TRIAL_OK && !spc__sample_is_size(sample, s))
            test_scene(g, s);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_test_sizes(g);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_test_spare(g);
    for (int d = 0; d < SPC__DATASETS; d++)
        if (has_dataset(g, d) && g->out->status == SPC__TRIAL_OK)
            spc__gate_read_only(g, d);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_maps_hold(g);
    g->tested->verified = g->out->status == SPC__TRIAL_OK;
}

/* ---- after timing -------------------------------------------------------- */

static spc__gate_setting real_run(int s)
{
    return (spc__gate_setting){.s = s,
                               .dataset = SPC__REAL,
                               .out_byte = NUMBER_BYTE,
                               .previous = SPC__REAL,
                               .work_byte = NAN_BYTE};
}

/* Compares the output with the first result of the real data set. */
static void compare_first(const spc__gate *g, int s, uint64_t digest)
{
    spc__gate_setting at = real_run(s);
    spc__worst worst;

    if (!g->tested->verified || digest == g->tested->first[s][SPC__REAL] ||
        !spc__gate_compare(g, &at, digest, &worst))
        return;
    /* Atomics add in the order of arrival, so other bits are allowed. */
    if (g->tested->atomics && worst.error <= 1)
        return;
    if (worst.error <= 1)
        spc__gate_wrong(g,
                        "after timing: the result on scene '%.40s' is correct, "
                        "but differs in bits from the first one",
                        spc__gate_scene(g, s));
    else
        spc__gate_wrong_at(g, "after timing", s, &worst);
}

/* ---- run after run ------------------------------------------------------- */

/* True for data sets whose results must repeat: sums of integers repeat in any
 * order. */
static bool repeats(const spc__gate *g, int s, int dataset)
{
    return spc__sample_has(g->fixture->sample, s, (spc__dataset)dataset) &&
           (dataset != SPC__REAL || !g->tested->atomics);
}

/* Runs a data set `count` times in sequence and notes how many results differ.
 */
static void run_many(const spc__gate *g, int s, spc__dataset dataset, int count)
{
    spc__fixture *fixture = g->fixture;
    uint64_t digests[RUNS_AT_ONCE];
    spc_status status = spc__digester_begin(fixture->digester);
    int differ = 0;

    for (int i = 0; i < count && status == SPC_OK; i++) {
        /* Uses other contents each time, which must not affect the result. */
        int byte = i % 2 ? NAN_BYTE : NUMBER_BYTE;
        if ((status = spc__fixture_load(fixture, s, dataset)) == SPC_OK &&
            (status = spc__fixture_fill_out(fixture, byte)) == SPC_OK &&
            (status = spc__guarded_fill(&fixture->guards, &fixture->workspace,
                                        byte)) == SPC_OK &&
            (status = spc__fixture_execute(fixture, g->tested->plan, s, dataset,
                                           spc__gate_packed(g, dataset),
                                           NULL)) == SPC_OK)
            status = spc__digester_add(fixture->digester, fixture->out.data,
                                       fixture->out.bytes);
    }
    if (status == SPC_OK)
        status = spc__digester_end(fixture->digester, digests);
    if (status != SPC_OK) {
        spc__gate_failed(g);
        return;
    }
    for (int i = 0; i < count; i++)
        differ += digests[i] != g->tested->first[s][dataset];
    if (differ > 0)
        spc__gate_wrong(g,
                        "differs from run to run: %d of %d results on scene "
                        "'%.40s' are not the first one",
                        differ, count, spc__gate_scene(g, s));
}

/* Runs each data set of a scene `count` times; returns the number of runs. */
static int run_scene(const spc__gate *g, int s, int count)
{
    int done = 0;

    if (spc__fixture_set(g->fixture, g->tested->plan, s) != SPC_OK) {
        spc__gate_failed(g);
        return 0;
    }
    for (int d = 0; d < SPC__DATASETS && g->out->status == SPC__TRIAL_OK; d++)
        if (repeats(g, s, d)) {
            run_many(g, s, (spc__dataset)d, count);
            done += count;
        }
    return done;
}

/*
 * Chooses the given scenes while there is time for them, then awkward ones
 * except the first two, which have at most one row. When the time is up it
 * chooses the smallest of these.
 */
static int next_scene(const spc__gate *g, int round, bool given, bool hurry)
{
    const spc__sample *sample = g->fixture->sample;
    int awkward = sample->scene_count - sample->given;

    if (given || awkward == 0)
        return round % sample->given;
    return sample->given + 2 + (hurry ? 0 : round % (awkward - 2));
}

/*
 * The number of runs doubles each time, so that slow candidates check the clock
 * in time. Only the given scenes can show that a deterministic layer repeats
 * the bits of sums of real numbers, so they get the required number of runs
 * however long that takes.
 */
static void run_repeatedly(const spc__gate *g, double limit_s)
{
    uint64_t limit_ns = (uint64_t)(limit_s * 1e9), start = spc__now_ns();
    int real_least = g->fixture->sample->conv.deterministic ? REAL_LEAST : 0;
    int done = 0, real = 0, count = 1;

    for (int round = 0; g->out->status == SPC__TRIAL_OK; round++) {
        uint64_t spent = spc__now_ns() - start;
        bool given = spent < limit_ns || real < real_least;
        bool hurry = spent > 2 * limit_ns;
        if (real >= real_least &&
            (done >= RUNS_MOST || (spent >= limit_ns && done >= RUNS) ||
             (hurry && done >= RUNS_LEAST)))
            break;
        done += run_scene(g, next_scene(g, round, given, hurry), count);
        real += given ? count : 0;
        if (count < RUNS_AT_ONCE)
            count *= 2;
    }
}

/* ---- entry --------------------------------------------------------------- */

static spc__gate begin(spc__verdict *out, spc__fixture *fixture,
                       spc__tested *tested)
{
    memset(out, 0, sizeof(*out));
    return (spc__gate){.out = out, .fixture = fixture, .tested = tested};
}

/*
 * Other candidates pack their weights before this one is tested, so packing
 * must leave the weights unchanged.
 */
static spc_status pack_real(spc__tested *tested, spc__fixture *fixture)
{
    bool held = true;
    spc_status status = spc__fixture_mend_weights(&held, fixture);

    if (status == SPC_OK)
        status = spc__fixture_pack(fixture, &tested->packed, tested->plan,
                                   SPC__REAL);
    if (status == SPC_OK)
        status = spc__fixture_mend_weights(&held, fixture);
    tested->spoils = !held;
    return status;
}

spc_status spc__gate_enter(spc__tested *tested, spc__fixture *fixture,
                           spc_plan *plan)
{
    spc_status status;

    tested->plan = plan;
    tested->verified = false;
    tested->atomics = spc__plan_launch(plan)->atomics;
    if ((status = spc__fixture_prepare(fixture, plan)) != SPC_OK ||
        (status = pack_real(tested, fixture)) != SPC_OK)
        return status;
    return spc_ctx_synchronize(fixture->ctx);
}

void spc__gate_leave(spc__tested *tested, const spc__fixture *fixture)
{
    spc__guarded_release(&fixture->guards, &tested->packed, 1);
    memset(tested, 0, sizeof(*tested));
}

void spc__gate_verify(spc__verdict *out, spc__fixture *fixture,
                      spc__tested *tested)
{
    spc__gate g = begin(out, fixture, tested);

    verify(&g);
    spc__gate_weights_hold(&g);
}

void spc__gate_before_timing(spc__verdict *out, spc__fixture *fixture,
                             spc__tested *tested, int s)
{
    spc__gate g = begin(out, fixture, tested);

    /* Overwrites the output, so that a kernel that writes nothing does not
     * leave a correct result. */
    if (spc__fixture_set_timed(fixture, tested->plan, s) != SPC_OK ||
        spc__fixture_fill_out(fixture, NUMBER_BYTE) != SPC_OK)
        spc__gate_failed(&g);
}

void spc__gate_after_timing(spc__verdict *out, spc__fixture *fixture,
                            spc__tested *tested, int s)
{
    spc__gate g = begin(out, fixture, tested);
    uint64_t digests[SPC__RUN_DIGESTS];

    if (spc__gate_digest(&g, digests) != SPC_OK) {
        spc__gate_failed(&g);
        return;
    }
    compare_first(&g, s, digests[SPC__RESULT]);
    if (out->status == SPC__TRIAL_OK &&
        spc__gate_zones_hold(&g, "out", &fixture->out,
                             &digests[SPC__OUT_ZONES]))
        spc__gate_zones_hold(&g, "workspace", &fixture->workspace,
                             &digests[SPC__WORK_ZONES]);
    spc__gate_weights_hold(&g);
}

/* The longer tests of a finalist. Only a few candidates get here, so they may
 * take long. */
static void confirm(spc__gate *g, double limit_s)
{
    spc__fixture *fixture = g->fixture;
    uint64_t digests[SPC__RUN_DIGESTS];

    if (!g->tested->verified)
        verify(g);
    /* Packs the integers again, as the fixture may hold another candidate's
     * packed integers by now. */
    else if (pack_datasets(g))
        spc__gate_note_maps(g);
    for (int s = 0; s < fixture->sample->given; s++) {
        spc__gate_setting at = real_run(s);
        if (g->out->status != SPC__TRIAL_OK)
            return;
        if (spc__fixture_set(fixture, g->tested->plan, s) != SPC_OK)
            spc__gate_failed(g);
        else if (spc__gate_run(g, &at, digests))
            compare_first(g, s, digests[SPC__RESULT]);
    }
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_test_together(g);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_test_large(g);
    run_repeatedly(g, limit_s);
    for (int d = 0; d < SPC__DATASETS; d++)
        if (has_dataset(g, d) && g->out->status == SPC__TRIAL_OK)
            spc__gate_read_only(g, d);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_maps_hold(g);
}

void spc__gate_confirm(spc__verdict *out, spc__fixture *fixture,
                       spc__tested *tested, double limit_s)
{
    spc__gate g = begin(out, fixture, tested);

    confirm(&g, limit_s);
    spc__gate_weights_hold(&g);
}
