/*
 * gate_streak.c - does a run still compute its result, after as many runs as a
 * timing has?
 *
 * Who counts the runs that find all as the one before left it, and skips work
 * from the tenth or the hundredth on, is honest to all other tests, none of
 * which makes as many. So nothing is filled again behind a timing but a few
 * elements, of the output at first: the next run must restore them. Then of the
 * inputs, by their sign: a run over the last result must give the bits of one
 * over poison, which nobody can take for a result of before. Sums in the order
 * of arrival have no bits to compare, and show in the output alone.
 */
#include "gate_launch.h"

#include "clock.h"
#include "dtype.h"
#include "error.h"
#include "operands.h"
#include "random.h"
#include <string.h>

enum { POISON = 0xff, SPOTS = 8 };

/* Runs of one that may win, where timings are short: so many, if there is time,
 * the least of them in more of it. */
enum { RUNS_LEAST = 64, RUNS_MOST = 256, RUNS_AT_ONCE = 16 };
static const double enough_s = 0.02, most_s = 0.5;

/* An element, and what it becomes. */
typedef struct spot {
    char *device;
    size_t bytes;
    unsigned char right[sizeof(float)], other[sizeof(float)];
} spot;

typedef struct streak {
    const spc__gate *g;
    int s;
    spot spots[SPOTS];
    int count;
    spc__random random;
} streak;

/* ---- a few elements ------------------------------------------------------ */

static int64_t below(streak *k, int64_t bound)
{
    return (int64_t)(spc__random_u64(&k->random) % (uint64_t)bound);
}

/* All bits turn, or the first of all. */
static spc_status draw_spot(streak *k, spot *to, const spc__operand *operand,
                            char *device, bool all_bits)
{
    size_t bytes = spc__dtype_of(operand->dtype)->bytes;

    to->device = device + (size_t)(below(k, operand->rows) * operand->pitch +
                                   below(k, operand->columns)) *
                              bytes;
    to->bytes = bytes;
    spc_status status =
        spc_copy_to_host(k->g->bed->ctx, to->right, to->device, bytes);
    for (size_t i = 0; i < bytes; i++)
        to->other[i] = to->right[i] ^ (all_bits ? 0xff : 0);
    if (!all_bits)
        to->other[bytes - 1] ^= 0x80;
    return status;
}

/* One, in every other timing, or a few. */
static spc_status draw_spots(streak *k, spc_operand name, char *device)
{
    const spc__sample *sample = k->g->bed->sample;
    const spc__sample_scene *scene = &sample->scenes[k->s];
    int wanted = k->g->tested->timings % 2 == 0 ? SPOTS : 1;
    spc__operand all[SPC_OPERANDS];
    spc_status status = SPC_OK;

    spc__operands(all, &sample->conv, scene->rows_in, scene->rows_out);
    k->count = 0;
    if (all[name].rows * all[name].columns == 0)
        return SPC_OK;
    while (k->count < wanted && status == SPC_OK)
        status = draw_spot(k, &k->spots[k->count++], &all[name], device,
                           name == SPC_OUT);
    return status;
}

/* All are drawn before any is written: one that is drawn twice is right. */
static spc_status write_spots(const streak *k, bool right)
{
    const spc__bed *bed = k->g->bed;
    spc_status status = SPC_OK;

    for (int i = 0; i < k->count && status == SPC_OK; i++) {
        const spot *at = &k->spots[i];
        status = bed->ops->copy_in(bed->ctx->device, at->device,
                                   right ? at->right : at->other, at->bytes,
                                   NULL, spc__error_of(bed->ctx));
    }
    return status;
}

/* ---- the run behind them ------------------------------------------------- */

static spc_status run(const streak *k, uint64_t *digest)
{
    const spc__gate *g = k->g;
    spc__digester *digester = g->bed->digester;
    spc_status status =
        spc__bed_execute(g->bed, g->tested->plan, k->s, SPC__REAL,
                         spc__gate_packed(g, SPC__REAL), NULL);

    if (status == SPC_OK)
        status = spc__digester_begin(digester);
    if (status == SPC_OK)
        status =
            spc__digester_add(digester, g->bed->out.data, g->bed->out.bytes);
    return status == SPC_OK ? spc__digester_end(digester, digest) : status;
}

static void reject(const streak *k, const char *changed)
{
    spc__gate_wrong(k->g,
                    "stale: scene '%.40s': where nothing but %s "
                    "is not as many launches left it, elements of their result "
                    "stay",
                    spc__gate_scene(k->g, k->s), changed);
}

static void spoil_output(streak *k, uint64_t first)
{
    spc__gate_setting at = {.s = k->s, .draw = SPC__REAL};
    spc__worst worst = {0};
    uint64_t digest = first;
    spc_status status = draw_spots(k, SPC_OUT, k->g->bed->out.data);

    if (status == SPC_OK && (status = write_spots(k, false)) == SPC_OK)
        status = run(k, &digest);
    if (status != SPC_OK)
        spc__gate_failed(k->g, SPC__TRIAL_FAULT);
    else if (digest != first &&
             (!k->g->tested->atomics ||
              (spc__gate_compare(k->g, &at, digest, &worst) &&
               !(worst.error <= 1))))
        reject(k, "the output");
}

static spc_status run_twice(const streak *k, uint64_t digests[2])
{
    spc_status status = write_spots(k, false), after;

    if (status == SPC_OK && (status = run(k, &digests[0])) == SPC_OK &&
        (status = spc__bed_fill_out(k->g->bed, POISON)) == SPC_OK)
        status = run(k, &digests[1]);
    after = write_spots(k, true);
    if (after == SPC_OK) /* the spots are the caller's */
        after = spc_synchronize(k->g->bed->ctx);
    return status == SPC_OK ? after : status;
}

static void spoil_inputs(streak *k)
{
    uint64_t digests[2] = {0};
    spc_status status =
        draw_spots(k, SPC_IN, k->g->bed->in[k->s][SPC__REAL].data);

    if (status == SPC_OK)
        status = run_twice(k, digests);
    if (status != SPC_OK)
        spc__gate_failed(k->g, SPC__TRIAL_FAULT);
    else if (digests[0] != digests[1])
        reject(k, "the inputs");
}

void spc__gate_streak(const spc__gate *g, int s, uint64_t first)
{
    streak k = {.g = g, .s = s};

    g->tested->timings++;
    spc__random_init(&k.random, first + g->tested->timings);
    spoil_output(&k, first);
    if (g->out->status == SPC__TRIAL_OK && !g->tested->atomics)
        spoil_inputs(&k);
}

/* ---- as many runs as a long timing has ----------------------------------- */

static bool is_patient(uint64_t start_ns, int runs)
{
    double spent_s = (double)(spc__now_ns() - start_ns) * 1e-9;

    return runs >= RUNS_MOST || spent_s > most_s ||
           (runs >= RUNS_LEAST && spent_s > enough_s);
}

void spc__gate_long_streak(const spc__gate *g, int s)
{
    streak k = {.g = g, .s = s};
    uint64_t start = spc__now_ns(), digest = 0;
    spc_status status = run(&k, &digest);

    for (int i = 1; status == SPC_OK && !is_patient(start, i); i++) {
        status = spc__bed_execute(g->bed, g->tested->plan, s, SPC__REAL,
                                  spc__gate_packed(g, SPC__REAL), NULL);
        if (status == SPC_OK && i % RUNS_AT_ONCE == 0)
            status = spc_synchronize(g->bed->ctx);
    }
    if (status != SPC_OK)
        spc__gate_failed(g, SPC__TRIAL_FAULT);
    else
        spc__gate_streak(g, s, digest);
}
