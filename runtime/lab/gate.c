/*
 * gate.c - the tests that a candidate must pass, and what it failed in.
 *
 * On every scene the first launch finds all ones in its output, which are no
 * number; the second, of other data, finds the result of the first, and the
 * workspace as that left it; a third a plausible number. Who leaves its output
 * alone, or adds to it, differs in one of them.
 */
#include "gate.h"

#include "clock.h"
#include "dtype.h"
#include "epilogue.h"
#include "error.h"
#include "plan.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What arrays are filled with: no number in any type; 1.06 in fp16 and 0.0115
 * in fp32. */
enum { NAN_BYTE = 0xff, NUMBER_BYTE = 0x3c };

/* Launches that verifying a deterministic problem repeats. */
enum { REPEATS = 3 };

/* Confirming runs: one fault in thirty launches escapes 200 of them with
 * probability 0.001, 150 with 0.006, and 100 with 0.03: too often where other
 * programs use up the time for more. Small scenes take more in it. */
enum { RUNS_LEAST = 150, RUNS = 200, RUNS_MOST = 2000, RUNS_AT_ONCE = 16 };
enum { REAL_LEAST = 100 }; /* of a deterministic layer, on given scenes */

typedef struct gate {
    spc__verdict *out;
    spc__bed *bed;
    spc__tested *tested;
    uint64_t packed_digest[SPC__DRAWS];
} gate;

/* One launch: on what, and over what. */
typedef struct setting {
    int s;
    spc__draw draw;
    int out_byte;       /* -1: the result of draw `previous` */
    spc__draw previous; /* one of integers */
    int work_byte;      /* -1: as the launch before left it */
} setting;

/* ---- verdicts ------------------------------------------------------------ */

/* Notes a failed call, and whether the device survived it. */
static void note_failure(const gate *g, spc__trial_status status)
{
    spc_ctx *ctx = g->bed->ctx;

    snprintf(g->out->note, sizeof(g->out->note), "%.190s",
             spc__error_of(ctx)->text);
    g->out->status = status;
    g->out->dead = spc_synchronize(ctx) != SPC_OK;
}

__attribute__((format(printf, 2, 3))) static void
note_wrong(const gate *g, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(g->out->note, sizeof(g->out->note), format, args);
    va_end(args);
    g->out->status = SPC__TRIAL_WRONG;
}

static const char *scene_name(const gate *g, int s)
{
    return g->bed->sample->scenes[s].name;
}

static void note_element(const gate *g, const char *test, int s,
                         const spc__worst *worst)
{
    note_wrong(g,
               "%s: scene '%.40s', row %lld, channel %d is %.9g and must "
               "be %.9g",
               test, scene_name(g, s), (long long)worst->row, worst->channel,
               worst->got, worst->reference);
}

/* ---- one launch ---------------------------------------------------------- */

static spc_status fill(const gate *g, const spc__guarded *to, int byte)
{
    const spc__bed *bed = g->bed;

    if (to->bytes == 0)
        return SPC_OK;
    return bed->ops->fill(bed->ctx->device, to->data, byte, to->bytes, NULL,
                          spc__error_of(bed->ctx));
}

static const void *packed_of(const gate *g, spc__draw draw)
{
    return draw == SPC__REAL ? g->tested->packed.data
                             : g->bed->packed[draw].data;
}

static spc_status add_zones(const gate *g, const spc__guarded *of)
{
    spc__digester *digester = g->bed->digester;
    size_t bytes = g->bed->zone_bytes;
    spc_status status = spc__digester_add(digester, of->base, bytes);

    return status == SPC_OK
               ? spc__digester_add(digester, spc__guarded_end(of), bytes)
               : status;
}

/* The two digests of zones at *digests: does a write show in one? */
static bool zones_hold(const gate *g, const char *name, const uint64_t *digests)
{
    for (int i = 0; i < 2; i++)
        if (digests[i] != g->bed->zone_digest) {
            note_wrong(g, "canary: something is written %s %s",
                       i == 0 ? "before" : "behind", name);
            return false;
        }
    return true;
}

/* Out of run_once: of the result, and of the zones of output and workspace. */
enum { RESULT, OUT_ZONES, WORK_ZONES = 3, DIGESTS = 5 };

static spc_status digest_run(const gate *g, uint64_t digests[DIGESTS])
{
    spc__bed *bed = g->bed;
    spc_status status;

    if ((status = spc__digester_begin(bed->digester)) != SPC_OK ||
        (status = spc__digester_add(bed->digester, bed->out.data,
                                    bed->out.bytes)) != SPC_OK ||
        (status = add_zones(g, &bed->out)) != SPC_OK ||
        (status = add_zones(g, &bed->workspace)) != SPC_OK)
        return status;
    return spc__digester_end(bed->digester, digests);
}

/* Runs on a scene that is set. False: it failed, and that is noted. */
static bool run_once(const gate *g, const setting *at,
                     uint64_t digests[DIGESTS])
{
    spc__bed *bed = g->bed;

    if (spc__bed_load(bed, at->s, at->draw) != SPC_OK ||
        (at->out_byte >= 0 && spc__bed_fill_out(bed, at->out_byte) != SPC_OK) ||
        (at->work_byte >= 0 &&
         fill(g, &bed->workspace, at->work_byte) != SPC_OK) ||
        spc__bed_execute(bed, g->tested->plan, at->s, at->draw,
                         packed_of(g, at->draw), NULL) != SPC_OK) {
        note_failure(g, SPC__TRIAL_LAUNCH);
        return false;
    }
    if (spc_synchronize(bed->ctx) != SPC_OK ||
        digest_run(g, digests) != SPC_OK) {
        note_failure(g, SPC__TRIAL_FAULT);
        return false;
    }
    return true;
}

/* Compares the result with what it must be; true where it could be had, and
 * lies where it should. Exact results are fetched only to say how they differ.
 */
static bool compare(const gate *g, const setting *at, uint64_t digest,
                    spc__worst *worst)
{
    const spc__sample *sample = g->bed->sample;

    *worst = (spc__worst){0};
    if (at->draw != SPC__REAL &&
        digest == sample->scenes[at->s].digest[at->draw])
        return true;
    if (spc__bed_fetch(g->bed) != SPC_OK) {
        note_failure(g, SPC__TRIAL_FAULT);
        return false;
    }
    *worst = spc__sample_compare(sample, at->s, at->draw, g->bed->host);
    if (spc__sample_gaps_hold(sample, at->s, g->bed->host))
        return true;
    note_wrong(g, "canary: something is written between the rows of out");
    return false;
}

/* ---- what is only read --------------------------------------------------- */

/* Of every scene two; weights, bias, scale and the scales of tensors. */
enum { WATCHED = 2 * SPC__SAMPLE_SCENES + 4 };

/* An array as it must still be. */
typedef struct watched {
    const char *name;
    const spc__guarded *array;
    uint64_t digest;
} watched;

static int list_vector(watched *list, int count, const char *name,
                       const spc__guarded *array, const float *values)
{
    if (values != NULL)
        list[count++] =
            (watched){name, array, spc__digest_host(values, array->bytes)};
    return count;
}

static int list_read_only(const gate *g, int draw, watched *list)
{
    const spc__bed *bed = g->bed;
    const spc__sample *sample = bed->sample;
    int count = 0;

    for (int s = 0; s < sample->scene_count; s++) {
        int array = s < sample->given ? draw : 0;
        if (!spc__bed_is_loaded(bed, s, (spc__draw)draw))
            continue;
        list[count++] =
            (watched){"in", &bed->in[s][array], bed->in_digest[s][draw]};
        if (sample->scenes[s].residual[draw] != NULL)
            list[count++] = (watched){"residual", &bed->residual[s][array],
                                      bed->residual_digest[s][draw]};
    }
    list[count++] = (watched){
        "weights", draw == SPC__REAL ? &g->tested->packed : &bed->packed[draw],
        g->packed_digest[draw]};
    count = list_vector(list, count, "bias", &bed->bias[draw],
                        bed->sample->bias[draw]);
    count = list_vector(list, count, "scale", &bed->scale[draw],
                        bed->sample->scale[draw]);
    return list_vector(list, count, "a tensor's scale", &bed->scales[draw],
                       &bed->sample->scales[draw].in);
}

static spc_status digest_list(const gate *g, const watched *list, int count,
                              uint64_t *digests)
{
    spc__digester *digester = g->bed->digester;
    spc_status status = spc__digester_begin(digester);

    for (int i = 0; i < count && status == SPC_OK; i++) {
        const spc__guarded *array = list[i].array;
        status = spc__digester_add(digester, array->data, array->bytes);
        if (status == SPC_OK)
            status = add_zones(g, array);
    }
    return status == SPC_OK ? spc__digester_end(digester, digests) : status;
}

static void test_read_only(const gate *g, int draw)
{
    watched list[WATCHED];
    uint64_t digests[3 * WATCHED];
    int count = list_read_only(g, draw, list);

    if (digest_list(g, list, count, digests) != SPC_OK) {
        note_failure(g, SPC__TRIAL_FAULT);
        return;
    }
    for (int i = 0; i < count && g->out->status == SPC__TRIAL_OK; i++) {
        if (digests[3 * i] != list[i].digest)
            note_wrong(g, "read-only: %s is written to", list[i].name);
        else
            zones_hold(g, list[i].name, &digests[3 * i + 1]);
    }
    /* Others must find what this one has spoilt. */
    if (g->out->status == SPC__TRIAL_WRONG && spc__bed_refill(g->bed) != SPC_OK)
        note_failure(g, SPC__TRIAL_FAULT);
}

/* ---- what a wrong result is wrong in ------------------------------------- */

static bool is_right(const spc__sample *sample, const setting *at, int64_t i,
                     const void *result)
{
    const spc__sample_scene *scene = &sample->scenes[at->s];
    const spc_conv *conv = &sample->conv;
    double got = spc__result_value(result, conv, i);

    if (at->draw == SPC__REAL)
        return fabs(got - scene->reference[i]) <= scene->tolerance[i];
    double want = spc__result_value(scene->exact[at->draw], conv, i);
    double slack =
        scene->slack[at->draw] != NULL ? scene->slack[at->draw][i] : 0;
    return got == want || fabs(got - want) <= slack;
}

/* Does each wrong element of the fetched result hold what lay there before? */
static bool is_left_alone(const gate *g, const setting *at)
{
    const spc__sample *sample = g->bed->sample;
    const spc__sample_scene *scene = &sample->scenes[at->s];
    const spc_conv *conv = &sample->conv;
    size_t bytes = spc__dtype_of(spc__conv_out(conv))->bytes;
    const void *host = g->bed->host;
    char before[sizeof(float)];

    memset(before, at->out_byte, sizeof(before));
    for (int64_t i = 0; i < spc__sample_results(sample, at->s); i++) {
        if (is_right(sample, at, i, host))
            continue;
        if (at->out_byte < 0)
            memcpy(before, spc__result_at(scene->exact[at->previous], conv, i),
                   bytes);
        if (memcmp(before, spc__result_at(host, conv, i), bytes) != 0)
            return false;
    }
    return true;
}

/* The launch once more, over the same or other contents; false if the result is
 * wrong, or cannot be had. */
static bool succeeds(const gate *g, const setting *at, uint64_t *digest)
{
    const spc__sample_scene *scene = &g->bed->sample->scenes[at->s];
    uint64_t digests[DIGESTS] = {0};
    spc__worst worst;

    if (at->out_byte < 0 && spc_copy_to_device(g->bed->ctx, g->bed->out.data,
                                               scene->exact[at->previous],
                                               g->bed->out.bytes) != SPC_OK)
        return false;
    if (!run_once(g, at, digests) || !compare(g, at, digests[RESULT], &worst))
        return false;
    *digest = digests[RESULT];
    return worst.error <= 1;
}

/* Each question changes one thing; the first that makes a difference is it. */
static const char *diagnose(const gate *g, const setting *at, uint64_t digest)
{
    bool left_alone = is_left_alone(g, at);
    bool may_differ = at->draw == SPC__REAL && g->tested->atomics;
    setting other = *at;
    uint64_t again = digest;

    if (succeeds(g, &other, &again) || (again != digest && !may_differ))
        return "differs from run to run";
    other.out_byte = 0;
    if (succeeds(g, &other, &again))
        return "accumulates";
    if (left_alone)
        return at->out_byte < 0 ? "stale" : "unwritten";
    other = *at;
    other.work_byte = 0;
    if (succeeds(g, &other, &again))
        return "unwritten";
    return at->draw == SPC__REAL ? "rounding" : "exact";
}

/* Spoilt inputs explain all that follows. A diagnosis may end in a fault; that
 * is then what is noted. */
static void reject(const gate *g, const setting *at, uint64_t digest,
                   const spc__worst *worst)
{
    test_read_only(g, at->draw);
    if (g->out->status != SPC__TRIAL_OK)
        return;
    const char *test = diagnose(g, at, digest);
    if (g->out->status == SPC__TRIAL_OK)
        note_element(g, test, at->s, worst);
}

/* ---- verifying ----------------------------------------------------------- */

/* A deterministic problem asks for the same bits. */
static void test_again(const gate *g, const setting *at)
{
    setting again = *at;
    uint64_t digests[DIGESTS];

    again.out_byte = again.work_byte = NUMBER_BYTE;
    for (int i = 0; i < REPEATS && run_once(g, &again, digests); i++)
        if (digests[RESULT] != g->tested->first[at->s][at->draw]) {
            note_wrong(g,
                       "differs from run to run: scene '%.40s', launch %d "
                       "gives other bits than the first",
                       scene_name(g, at->s), 2 + i);
            return;
        }
}

static void test_launch(const gate *g, const setting *at)
{
    uint64_t digests[DIGESTS];
    spc__worst worst;

    if (!run_once(g, at, digests) || !compare(g, at, digests[RESULT], &worst))
        return;
    if (at->draw == SPC__REAL && worst.error > g->out->error)
        g->out->error = worst.error;
    if (!(worst.error <= 1)) {
        reject(g, at, digests[RESULT], &worst);
        return;
    }
    g->tested->first[at->s][at->draw] = digests[RESULT];
    if (at->draw == SPC__REAL && g->bed->sample->conv.deterministic)
        test_again(g, at);
    if (g->out->status == SPC__TRIAL_OK &&
        zones_hold(g, "out", &digests[OUT_ZONES]))
        zones_hold(g, "workspace", &digests[WORK_ZONES]);
}

static void test_scene(const gate *g, int s)
{
    static const struct {
        int out_byte, work_byte;
    } contents[SPC__DRAWS] = {
        {NAN_BYTE, NAN_BYTE}, {-1, -1}, {NUMBER_BYTE, NUMBER_BYTE}};
    setting at = {.s = s};
    int launches = 0;

    if (spc__bed_set(g->bed, g->tested->plan, s) != SPC_OK) {
        note_failure(g, SPC__TRIAL_LAUNCH);
        return;
    }
    for (int d = 0; d < SPC__DRAWS && g->out->status == SPC__TRIAL_OK; d++) {
        if (!spc__sample_has(g->bed->sample, s, (spc__draw)d))
            continue;
        at.previous = at.draw;
        at.draw = (spc__draw)d;
        at.out_byte = contents[launches].out_byte;
        at.work_byte = contents[launches].work_byte;
        if (launches == 0 && s % 2 == 1)
            at.work_byte = NUMBER_BYTE;
        test_launch(g, &at);
        launches++;
    }
}

static bool has_draw(const gate *g, int draw)
{
    return g->bed->sample->weights[draw] != NULL;
}

/* Packs the integers, and notes what the packed forms are. */
static bool pack_draws(gate *g)
{
    spc__bed *bed = g->bed;
    spc_status status = spc__digester_begin(bed->digester);
    uint64_t digests[SPC__DRAWS];
    int count = 0;

    for (int d = 0; d < SPC__DRAWS && status == SPC_OK; d++) {
        if (!has_draw(g, d))
            continue;
        spc__guarded *to =
            d == SPC__REAL ? &g->tested->packed : &bed->packed[d];
        if (d != SPC__REAL)
            status = spc__bed_pack(bed, to, g->tested->plan, (spc__draw)d);
        if (status == SPC_OK)
            status = spc__digester_add(bed->digester, to->data, to->bytes);
    }
    if (status == SPC_OK)
        status = spc__digester_end(bed->digester, digests);
    for (int d = 0; d < SPC__DRAWS; d++)
        if (has_draw(g, d))
            g->packed_digest[d] = digests[count++];
    if (status != SPC_OK)
        note_failure(g, SPC__TRIAL_LAUNCH);
    return status == SPC_OK;
}

static void verify(gate *g)
{
    const spc__sample *sample = g->bed->sample;

    if (!pack_draws(g))
        return;
    for (int s = 0; s < sample->scene_count; s++)
        if (g->out->status == SPC__TRIAL_OK)
            test_scene(g, s);
    for (int d = 0; d < SPC__DRAWS; d++)
        if (has_draw(g, d) && g->out->status == SPC__TRIAL_OK)
            test_read_only(g, d);
    g->tested->verified = g->out->status == SPC__TRIAL_OK;
}

/* ---- after timing -------------------------------------------------------- */

static setting real_run(int s)
{
    return (setting){s, SPC__REAL, NUMBER_BYTE, SPC__REAL, NAN_BYTE};
}

/* Is what lies in the output the first result of the real draw again? */
static void compare_first(const gate *g, int s, uint64_t digest)
{
    setting at = real_run(s);
    spc__worst worst;

    if (!g->tested->verified || digest == g->tested->first[s][SPC__REAL] ||
        !compare(g, &at, digest, &worst))
        return;
    if (g->tested->atomics && worst.error <= 1)
        return;
    if (worst.error <= 1)
        note_wrong(g,
                   "after timing: the result on scene '%.40s' is right, but "
                   "not bit by bit the first one",
                   scene_name(g, s));
    else
        note_element(g, "after timing", s, &worst);
}

/* ---- run after run ------------------------------------------------------- */

/* The draws that must repeat: sums of integers do in any order. */
static bool repeats(const gate *g, int s, int draw)
{
    return spc__sample_has(g->bed->sample, s, (spc__draw)draw) &&
           (draw != SPC__REAL || !g->tested->atomics);
}

/* `count` runs of a draw, one behind the other; notes how many differ. */
static void run_many(const gate *g, int s, spc__draw draw, int count)
{
    spc__bed *bed = g->bed;
    uint64_t digests[RUNS_AT_ONCE];
    spc_status status = spc__digester_begin(bed->digester);
    int differ = 0;

    for (int i = 0; i < count && status == SPC_OK; i++) {
        int byte = i % 2 ? NAN_BYTE : NUMBER_BYTE;
        if ((status = spc__bed_load(bed, s, draw)) == SPC_OK &&
            (status = spc__bed_fill_out(bed, byte)) == SPC_OK &&
            (status = fill(g, &bed->workspace, byte)) == SPC_OK &&
            (status = spc__bed_execute(bed, g->tested->plan, s, draw,
                                       packed_of(g, draw), NULL)) == SPC_OK)
            status =
                spc__digester_add(bed->digester, bed->out.data, bed->out.bytes);
    }
    if (status == SPC_OK)
        status = spc__digester_end(bed->digester, digests);
    if (status != SPC_OK) {
        note_failure(g, SPC__TRIAL_FAULT);
        return;
    }
    for (int i = 0; i < count; i++)
        differ += digests[i] != g->tested->first[s][draw];
    if (differ > 0)
        note_wrong(g,
                   "differs from run to run: %d of %d results on scene "
                   "'%.40s' are not the first one",
                   differ, count, scene_name(g, s));
}

/* `count` runs of each draw of a scene; returns how many there were. */
static int run_scene(const gate *g, int s, int count)
{
    int done = 0;

    if (spc__bed_set(g->bed, g->tested->plan, s) != SPC_OK) {
        note_failure(g, SPC__TRIAL_LAUNCH);
        return 0;
    }
    for (int d = 0; d < SPC__DRAWS && g->out->status == SPC__TRIAL_OK; d++)
        if (repeats(g, s, d)) {
            run_many(g, s, (spc__draw)d, count);
            done += count;
        }
    return done;
}

/* Given scenes while there is time for them, awkward ones but the first two,
 * which have hardly a row, and when time is up the smallest of these. */
static int next_scene(const gate *g, int turn, bool given, bool hurry)
{
    const spc__sample *sample = g->bed->sample;
    int awkward = sample->scene_count - sample->given;

    if (given || awkward == 0)
        return turn % sample->given;
    return sample->given + 2 + (hurry ? 0 : turn % (awkward - 2));
}

/* More at once with each turn, so that slow ones see the clock in time. What a
 * deterministic layer promises, the bits of sums of real numbers, only given
 * scenes show: of those it gets enough, however long that takes. */
static void run_repeatedly(const gate *g, double limit_s)
{
    uint64_t limit_ns = (uint64_t)(limit_s * 1e9), start = spc__now_ns();
    int real_least = g->bed->sample->conv.deterministic ? REAL_LEAST : 0;
    int done = 0, real = 0, count = 1;

    for (int turn = 0; g->out->status == SPC__TRIAL_OK; turn++) {
        uint64_t spent = spc__now_ns() - start;
        bool given = spent < limit_ns || real < real_least;
        bool hurry = spent > 2 * limit_ns;
        if (real >= real_least &&
            (done >= RUNS_MOST || (spent >= limit_ns && done >= RUNS) ||
             (hurry && done >= RUNS_LEAST)))
            break;
        done += run_scene(g, next_scene(g, turn, given, hurry), count);
        real += given ? count : 0;
        if (count < RUNS_AT_ONCE)
            count *= 2;
    }
}

/* ---- entry --------------------------------------------------------------- */

static gate begin(spc__verdict *out, spc__bed *bed, spc__tested *tested)
{
    memset(out, 0, sizeof(*out));
    return (gate){.out = out, .bed = bed, .tested = tested};
}

spc_status spc__gate_enter(spc__tested *tested, spc__bed *bed, spc_plan *plan)
{
    spc_status status;

    tested->plan = plan;
    tested->verified = false;
    tested->atomics = spc__plan_launch(plan)->atomics;
    if ((status = spc__bed_prepare(bed, plan)) != SPC_OK ||
        (status = spc__bed_pack(bed, &tested->packed, plan, SPC__REAL)) !=
            SPC_OK)
        return status;
    return spc_synchronize(bed->ctx);
}

void spc__gate_leave(spc__tested *tested, const spc__bed *bed)
{
    spc__bed_release(bed, &tested->packed);
    memset(tested, 0, sizeof(*tested));
}

void spc__gate_verify(spc__verdict *out, spc__bed *bed, spc__tested *tested)
{
    gate g = begin(out, bed, tested);

    verify(&g);
}

void spc__gate_before_timing(spc__verdict *out, spc__bed *bed,
                             spc__tested *tested, int s)
{
    gate g = begin(out, bed, tested);

    if (spc__bed_set(bed, tested->plan, s) != SPC_OK ||
        spc__bed_fill_out(bed, NUMBER_BYTE) != SPC_OK)
        note_failure(&g, SPC__TRIAL_LAUNCH);
}

void spc__gate_after_timing(spc__verdict *out, spc__bed *bed,
                            spc__tested *tested, int s)
{
    gate g = begin(out, bed, tested);
    uint64_t digests[DIGESTS];

    if (digest_run(&g, digests) != SPC_OK) {
        note_failure(&g, SPC__TRIAL_FAULT);
        return;
    }
    compare_first(&g, s, digests[RESULT]);
    if (out->status == SPC__TRIAL_OK &&
        zones_hold(&g, "out", &digests[OUT_ZONES]))
        zones_hold(&g, "workspace", &digests[WORK_ZONES]);
}

void spc__gate_confirm(spc__verdict *out, spc__bed *bed, spc__tested *tested,
                       double limit_s)
{
    gate g = begin(out, bed, tested);
    uint64_t digests[DIGESTS];

    if (!tested->verified)
        verify(&g);
    else
        pack_draws(&g);
    for (int s = 0; s < bed->sample->given; s++) {
        setting at = real_run(s);
        if (out->status != SPC__TRIAL_OK)
            return;
        if (spc__bed_set(bed, tested->plan, s) != SPC_OK)
            note_failure(&g, SPC__TRIAL_LAUNCH);
        else if (run_once(&g, &at, digests))
            compare_first(&g, s, digests[RESULT]);
    }
    run_repeatedly(&g, limit_s);
    for (int d = 0; d < SPC__DRAWS; d++)
        if (has_draw(&g, d) && out->status == SPC__TRIAL_OK)
            test_read_only(&g, d);
}
