/*
 * search.c - which candidates are measured, how often, and which one wins.
 *
 * The seeds come first: of every template its default (quick); besides those an
 * even sample of the space (normal); the whole space (exhaustive). They are
 * screened with a few samples, then halved again and again, the survivors
 * measured twice as often each time, in interleaved rounds of shuffled order,
 * so that a drift of the clock meets all alike. The best few and all defaults
 * are finalists: they get all samples, and samples with a cold cache.
 *
 * Then the search climbs. A move changes one parameter; or two, where one alone
 * is refused by the constraints or fails. For parameters share what a
 * multiprocessor has: tiles of more rows may be legal only with a shorter
 * pipeline, and who moves one parameter at a time never gets there. Moves start
 * at the best, at what ties with it and has no better neighbour, and at the
 * best of every template that is not far behind: another template may gain
 * more from its parameters. What they lead to and is not known is screened
 * likewise, until nothing new is in reach. The state that decides what is left
 * to do is what the database holds; so a run that was interrupted goes on where
 * it was, and one that was complete has nothing to do.
 */
#include "run.h"

#include "clock.h"
#include "error.h"
#include "lookup.h"
#include "random.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an effort means, in samples and candidates. */
static const struct effort {
    int screening; /* samples that decide whether a candidate is promising */
    int finalists; /* besides the defaults */
    int final;     /* samples of a finalist */
    int cold;      /* with a cold cache */
    int sample;    /* of the space; 0: defaults only, -1: all of it */
} efforts[] = {
    [SPC_EFFORT_QUICK] = {3, 3, 15, 7, 0},
    [SPC_EFFORT_NORMAL] = {5, 4, 31, 11, 160},
    [SPC_EFFORT_EXHAUSTIVE] = {5, 6, 61, 21, -1},
};

/* Measuring one candidate on one scene ends after this long, in seconds, with
 * whatever samples there are: a request, and all of them together. */
static const double request_s = 0.5;
static const double enough_s = 2.0;
/* Two candidates within their spread are a tie, but never beyond this. */
static const double tie = 0.02;
/* The best of a template this far behind the best of all is not given up: its
 * own parameters have been seen to gain as much. */
static const double rival = 1.15;
/* So many times the best will not come back. */
static const double hopeless = 2;

static const struct effort *effort_of(const spc__run *run)
{
    return &efforts[run->options.effort];
}

/* ---- sets of candidates -------------------------------------------------- */

static bool has_value_of(const spc__entry *a, const spc__entry *b, int i)
{
    return strcmp(a->candidate->config.at[i].text,
                  b->candidate->config.at[i].text) == 0;
}

/* The number of parameters in which two candidates differ; INT_MAX if they are
 * not of one template. */
static int distance(const spc__entry *a, const spc__entry *b)
{
    int count = a->candidate->config.count, differ = 0;

    if (a->candidate->tpl != b->candidate->tpl ||
        b->candidate->config.count != count)
        return INT_MAX;
    for (int i = 0; i < count; i++)
        differ += !has_value_of(a, b, i);
    return differ;
}

/* Can `from` take the value that `to` has of parameter i, and nothing else? A
 * failure says that it cannot only if `from` itself works. */
static bool can_take(const spc__run *run, const spc__entry *from,
                     const spc__entry *to, int i)
{
    for (int k = 0; k < run->count; k++) {
        const spc__entry *entry = &run->entries[k];
        if (distance(from, entry) == 1 && has_value_of(entry, to, i))
            return entry->reach != SPC__FAILED || from->reach == SPC__FAILED;
    }
    return false;
}

/* One parameter changes; or two, of which one cannot change alone. */
static bool is_move(const spc__run *run, const spc__entry *from,
                    const spc__entry *to)
{
    int far = distance(from, to);

    if (far != 2)
        return far == 1;
    for (int i = 0; i < to->candidate->config.count; i++)
        if (!has_value_of(from, to, i) && !can_take(run, from, to, i))
            return true;
    return false;
}

static const spc__entry *default_of(const spc__run *run,
                                    const spc__entry *entry)
{
    for (int i = 0; i < run->count; i++)
        if (run->entries[i].candidate->tpl == entry->candidate->tpl &&
            run->entries[i].candidate->is_default)
            return &run->entries[i];
    return NULL;
}

static bool is_seed(const spc__run *run, int i)
{
    const spc__entry *entry = &run->entries[i];
    const spc__entry *own = default_of(run, entry);
    int sample = effort_of(run)->sample;

    if (sample < 0 || run->count <= sample || own == NULL)
        return true;
    if (sample > 0 && (int64_t)i * sample / run->count !=
                          (int64_t)(i + 1) * sample / run->count)
        return true;
    /* Who times nothing cannot climb: the first step is taken blindly. */
    return run->options.stage != SPC_STAGE_TIME && is_move(run, own, entry);
}

spc__entry **spc__run_seeds(const spc__run *run, int *count)
{
    spc__entry **list = calloc((size_t)run->count + 1, sizeof(*list));

    *count = 0;
    for (int i = 0; list != NULL && i < run->count; i++)
        if (run->entries[i].candidate->is_default)
            list[(*count)++] = &run->entries[i];
    for (int i = 0; list != NULL && i < run->count; i++)
        if (!run->entries[i].candidate->is_default && is_seed(run, i))
            list[(*count)++] = &run->entries[i];
    return list;
}

/* ---- scores -------------------------------------------------------------- */

double spc__entry_score(const spc__run *run, const spc__entry *entry)
{
    double logs = 0;

    for (int s = 0; s < run->scene_count; s++)
        logs += log(entry->timings[s].median_us);
    return exp(logs / run->scene_count);
}

static double relative_spread(const spc__run *run, const spc__entry *entry)
{
    double most = 0;

    for (int s = 0; s < run->scene_count; s++)
        most = fmax(most,
                    entry->timings[s].spread_us / entry->timings[s].median_us);
    return most;
}

static int by_score(const void *a, const void *b, void *payload)
{
    const spc__run *run = payload;
    spc__entry *const *first = a, *const *second = b;
    double one = spc__entry_score(run, *first);
    double two = spc__entry_score(run, *second);

    if (one != two)
        return one < two ? -1 : 1;
    return *first < *second ? -1 : *first > *second;
}

/* Keeps the timed ones of the list, best first; returns their number. */
static int rank(const spc__run *run, spc__entry **list, int count)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (list[i]->reach == SPC__TIMED)
            list[kept++] = list[i];
    qsort_r(list, (size_t)kept, sizeof(*list), by_score, (void *)run);
    return kept;
}

/* All timed candidates, best first. */
static int rank_all(const spc__run *run, spc__entry **list)
{
    for (int i = 0; i < run->count; i++)
        list[i] = &run->entries[i];
    return rank(run, list, run->count);
}

/* ---- measuring ----------------------------------------------------------- */

static spc__rig_code code_of(const spc__entry *entry)
{
    spc__rig_code code = {.config = entry->candidate->config,
                          .launch = entry->trial.launch,
                          .code = entry->code,
                          .code_bytes = entry->code_bytes};

    memcpy(code.template_name, entry->trial.template_name,
           sizeof(code.template_name));
    memcpy(code.artefact, entry->trial.artefact, sizeof(code.artefact));
    return code;
}

static int slot_of(const spc__run *run, const spc__entry *entry)
{
    return (int)(entry - run->entries);
}

static void drop(spc__run *run, spc__entry *entry)
{
    for (int s = 0; s < run->scene_count; s++) {
        free(entry->timings[s].all);
        memset(&entry->timings[s], 0, sizeof(entry->timings[s]));
    }
    free(entry->code);
    entry->code = NULL;
    entry->owes_code = false;
}

static void fail(spc__run *run, spc__entry *entry, const spc__outcome *outcome)
{
    entry->reach = SPC__FAILED;
    entry->trial.status = outcome->status;
    memcpy(entry->trial.note, outcome->note, sizeof(entry->trial.note));
    drop(run, entry);
    spc__run_record(run, entry);
}

/* The oracle runs, and the measuring side starts, when something must be
 * verified: not at all if everything is known. */
static spc_status prepare(spc__run *run)
{
    spc__runner_options options = {run->options.worker, run->options.limit_s};
    spc_status status;

    if (run->runner != NULL)
        return SPC_OK;
    if ((status = spc__subject_init(
             &run->subject, run->conv, run->scenes, run->scene_count,
             (const int32_t *const *)run->index, run->options.seed,
             run->ctx->threads, run->ctx->cancel, run->error)) != SPC_OK)
        return status;
    for (int s = 0; s < run->scene_count; s++) {
        free(run->index[s]);
        run->index[s] = NULL;
    }
    return spc__runner_create(&run->runner, run->ctx, &run->subject, &options,
                              run->error);
}

spc_status spc__run_verify(spc__run *run, spc__entry **list, int count)
{
    spc__outcome outcome;
    spc_status status = prepare(run);

    for (int i = 0; i < count && status == SPC_OK; i++) {
        spc__entry *entry = list[i];
        if (entry->reach != SPC__BUILT)
            continue;
        spc__rig_code code = code_of(entry);
        status = spc__runner_verify(&outcome, run->runner, slot_of(run, entry),
                                    &code, run->error);
        if (status != SPC_OK)
            break;
        entry->trial.error = outcome.error;
        entry->trial.verified = outcome.status == SPC__TRIAL_OK;
        entry->reach = SPC__VERIFIED;
        run->report->verified += entry->trial.verified;
        if (!entry->trial.verified)
            fail(run, entry, &outcome);
    }
    return status;
}

static bool add_samples(spc__timing *timing, const spc__outcome *outcome)
{
    if (timing->all == NULL) /* what the database knew gives way */
        timing->count = timing->room = 0;
    if (timing->count + outcome->count > timing->room) {
        int room = 2 * (timing->count + outcome->count);
        double *more = realloc(timing->all, (size_t)room * sizeof(*more));
        if (more == NULL)
            return false;
        timing->all = more;
        timing->room = room;
    }
    memcpy(timing->all + timing->count, outcome->samples,
           (size_t)outcome->count * sizeof(double));
    timing->count += outcome->count;
    timing->median_us = spc__median(timing->all, timing->count);
    timing->spread_us = spc__half_iqr(timing->all, timing->count);
    return true;
}

/* One request: `samples` more of a candidate on scene s. */
static spc_status take(spc__run *run, spc__entry *entry, int s, int samples,
                       bool cold)
{
    spc__rig_order order = {s, samples, cold, request_s};
    spc__rig_code code = code_of(entry);
    spc__timing *timing = &entry->timings[s];
    spc__outcome outcome;
    spc_status status = spc__runner_time(
        &outcome, run->runner, slot_of(run, entry), &code, &order, run->error);

    if (status != SPC_OK)
        return status;
    if (outcome.status == SPC__TRIAL_OK && outcome.count == 0) {
        outcome.status = SPC__TRIAL_FAULT;
        snprintf(outcome.note, sizeof(outcome.note), "gave no sample");
    }
    if (outcome.status != SPC__TRIAL_OK)
        fail(run, entry, &outcome);
    else if (cold)
        timing->cold_us = spc__median(outcome.samples, outcome.count);
    else if (!add_samples(timing, &outcome))
        return spc__fail_memory(run->error, sizeof(outcome));
    return SPC_OK;
}

/* Enough samples for `wanted`, or too slow for so many? */
static bool has_enough(const spc__timing *timing, int wanted)
{
    return timing->count >= wanted ||
           timing->count * timing->median_us >= enough_s * 1e6;
}

static bool entry_has(const spc__run *run, const spc__entry *entry, int wanted,
                      bool cold)
{
    for (int s = 0; s < run->scene_count; s++)
        if (!has_enough(&entry->timings[s], wanted) ||
            (cold && entry->timings[s].cold_us <= 0))
            return false;
    return true;
}

/* One turn of a candidate in a round. */
static spc_status measure_turn(spc__run *run, spc__entry *entry, int wanted,
                               bool cold)
{
    const struct effort *effort = effort_of(run);
    uint64_t since = spc__now_ns();
    spc_status status = SPC_OK;

    for (int s = 0; s < run->scene_count && status == SPC_OK; s++) {
        spc__timing *timing = &entry->timings[s];
        if (entry->reach == SPC__FAILED)
            break;
        if (cold && timing->cold_us <= 0)
            status = take(run, entry, s, effort->cold, true);
        else if (!cold && (timing->all == NULL || !has_enough(timing, wanted)))
            status = take(run, entry, s, effort->screening, false);
    }
    run->measure_s += (double)(spc__now_ns() - since) * 1e-9;
    return status;
}

static void shuffle(spc__entry **list, int count, spc__random *random)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)spc__random_below(random, (uint32_t)i + 1);
        spc__entry *kept = list[i];
        list[i] = list[j];
        list[j] = kept;
    }
}

/* Rounds over the list until all have `wanted` samples; the order of the list
 * is lost. */
static spc_status measure_rounds(spc__run *run, spc__entry **list, int count,
                                 int wanted, bool cold)
{
    spc__random random;
    spc_status status = SPC_OK;
    bool more = true;

    spc__random_init(&random, run->options.seed);
    while (more && status == SPC_OK) {
        more = false;
        shuffle(list, count, &random);
        for (int i = 0; i < count && status == SPC_OK; i++) {
            if (list[i]->reach != SPC__TIMED ||
                entry_has(run, list[i], wanted, cold))
                continue;
            status = measure_turn(run, list[i], wanted, cold);
            more = true;
        }
    }
    return status;
}

static void record_all(spc__run *run, spc__entry **list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i]->reach == SPC__TIMED)
            spc__run_record(run, list[i]);
}

/* ---- screening and halving ----------------------------------------------- */

static spc_status screen_one(spc__run *run, spc__entry *entry)
{
    spc_status status;

    if ((status = spc__run_verify(run, &entry, 1)) != SPC_OK ||
        entry->reach != SPC__VERIFIED)
        return status;
    status = measure_turn(run, entry, effort_of(run)->screening, false);
    if (status != SPC_OK || entry->reach == SPC__FAILED)
        return status;
    entry->reach = SPC__TIMED;
    run->report->timed++;
    spc__run_record(run, entry);
    if (run->best == NULL || run->best->reach != SPC__TIMED ||
        spc__entry_score(run, entry) < spc__entry_score(run, run->best))
        run->best = entry;
    else if (spc__entry_score(run, entry) >
             hopeless * spc__entry_score(run, run->best))
        return spc__runner_unload(run->runner, slot_of(run, entry), run->error);
    return SPC_OK;
}

/* Compile failures say something about a candidate only if the compiler can
 * do better at all. */
static void record_failures(spc__run *run, spc__entry **list, int count)
{
    bool compiler_works = false;

    for (int i = 0; i < run->count; i++)
        compiler_works |= run->entries[i].code != NULL;
    for (int i = 0; i < count; i++) {
        if (list[i]->reach == SPC__FAILED &&
            (list[i]->trial.status != SPC__TRIAL_COMPILE || compiler_works))
            spc__run_record(run, list[i]);
    }
}

static spc_status screen_batch(spc__run *run, spc__entry **list, int count)
{
    spc_status status = spc__run_build(run, list, count);

    if (status == SPC_OK || status == SPC_EINTERRUPTED)
        record_failures(run, list, count);
    for (int i = 0; i < count && status == SPC_OK; i++) {
        if (list[i]->reach == SPC__BUILT)
            status = screen_one(run, list[i]);
        run->measured++;
        run->measures++;
        spc__run_progress(run, SPC_STAGE_TIME, run->measured, run->to_measure);
    }
    return status;
}

/* Compiles, verifies and times those of the list that are new. */
static spc_status screen(spc__run *run, spc__entry **list, int count)
{
    int batch;
    spc_status status = SPC_OK;

    run->to_measure += count;
    for (int i = 0; i < count && status == SPC_OK; i += batch) {
        batch = spc__run_batch(run, count - i);
        status = screen_batch(run, list + i, batch);
    }
    return status;
}

static spc_status halve(spc__run *run, spc__entry **list, int count)
{
    const struct effort *effort = effort_of(run);
    int wanted = effort->screening;
    spc_status status = SPC_OK;

    count = rank(run, list, count);
    while (count > effort->finalists && wanted < effort->final &&
           status == SPC_OK) {
        int keep = (count + 1) / 2;
        if (keep < effort->finalists)
            keep = effort->finalists;
        double limit = hopeless * spc__entry_score(run, list[0]);
        while (keep > 1 && spc__entry_score(run, list[keep - 1]) > limit)
            keep--;
        for (int i = keep; i < count && status == SPC_OK; i++)
            status = spc__runner_unload(run->runner, slot_of(run, list[i]),
                                        run->error);
        wanted *= 2;
        if (status == SPC_OK)
            status = measure_rounds(run, list, keep, wanted, false);
        record_all(run, list, keep);
        count = rank(run, list, keep);
    }
    return status;
}

/* ---- finals -------------------------------------------------------------- */

/* What the database knew of this candidate is not enough: build it again. */
static spc_status revive(spc__run *run, spc__entry *entry)
{
    spc_status status;

    if (entry->code != NULL || entry->reach != SPC__TIMED)
        return SPC_OK;
    entry->reach = SPC__NEW;
    entry->trial.note[0] = '\0';
    entry->known = false;
    if ((status = spc__run_build(run, &entry, 1)) == SPC_OK) {
        if (entry->reach == SPC__FAILED)
            record_failures(run, &entry, 1);
        for (int s = 0; s < run->scene_count; s++)
            entry->timings[s].cold_us = 0;
        status = screen_one(run, entry);
    }
    /* Interrupted on the way: what was known of it still holds. */
    if (status != SPC_OK && entry->reach != SPC__FAILED)
        entry->reach = SPC__TIMED;
    return status;
}

/* Who must have all samples and has not: the best few, and the defaults. */
static int unfinished(const spc__run *run, spc__entry **list)
{
    const struct effort *effort = effort_of(run);
    int count = rank_all(run, list), found = 0;

    for (int i = 0; i < count; i++)
        if ((i < effort->finalists || list[i]->candidate->is_default) &&
            !entry_has(run, list[i], effort->final, true))
            list[found++] = list[i];
    return found;
}

static spc_status finals(spc__run *run, spc__entry **list)
{
    const struct effort *effort = effort_of(run);
    spc_status status = SPC_OK;
    int count;

    while (status == SPC_OK && (count = unfinished(run, list)) > 0) {
        for (int i = 0; i < count && status == SPC_OK; i++)
            status = revive(run, list[i]);
        if (status == SPC_OK)
            status = measure_rounds(run, list, count, effort->final, false);
        record_all(run, list, count);
        if (status == SPC_OK)
            status = measure_rounds(run, list, count, 0, true);
        record_all(run, list, count);
        spc__run_progress(run, SPC_STAGE_TIME, run->measured, run->to_measure);
    }
    return status;
}

/* ---- the winner ---------------------------------------------------------- */

/* Among equals: a default before others (it must be beaten by something), then
 * fewer registers, less shared memory, and the order of the space. */
static bool is_preferred(const spc__entry *a, const spc__entry *b)
{
    int64_t ra = spc__attrs_number(&a->trial.resources, "registers", 0);
    int64_t rb = spc__attrs_number(&b->trial.resources, "registers", 0);
    int64_t sa = spc__attrs_number(&a->trial.launch, "shared", 0);
    int64_t sb = spc__attrs_number(&b->trial.launch, "shared", 0);

    if (a->candidate->is_default != b->candidate->is_default)
        return a->candidate->is_default;
    if (ra != rb)
        return ra < rb;
    return sa != sb ? sa < sb : a < b;
}

static bool are_tied(const spc__run *run, const spc__entry *best,
                     const spc__entry *other)
{
    double spread =
        fmax(relative_spread(run, best), relative_spread(run, other));

    return spc__entry_score(run, other) <=
           spc__entry_score(run, best) * (1 + fmin(spread, tie));
}

/* The winner by rule among those that tie with the fastest. */
static const spc__entry *pick(const spc__run *run, spc__entry **ranked,
                              int count, char *reason, size_t bytes)
{
    const spc__entry *winner = ranked[0];
    int tied = 0;

    for (int i = 1; i < count; i++) {
        if (!entry_has(run, ranked[i], effort_of(run)->final, true) ||
            !are_tied(run, ranked[0], ranked[i]))
            continue;
        tied++;
        if (is_preferred(ranked[i], winner))
            winner = ranked[i];
    }
    int used =
        snprintf(reason, bytes,
                 "the fastest of %d by geometric mean "
                 "over %d scene%s",
                 count, run->scene_count, run->scene_count == 1 ? "" : "s");
    if (tied > 0)
        snprintf(reason + used, bytes - (size_t)used,
                 "; chosen by rule among %d within %.3g %%", tied + 1,
                 100 * tie);
    return winner;
}

/* The default that a plan would take untuned: the first that compiles. NULL: it
 * is not among the candidates. */
static const spc__entry *untuned(const spc__run *run)
{
    const spc__entry *found = NULL;
    spc__pick *pick = calloc(1, sizeof(*pick));
    bool more = pick != NULL;

    for (int i = 0; more; i++) {
        found = NULL;
        if (spc__lookup_default(pick, run->ctx, run->conv, i) == SPC_OK)
            found = spc__run_find(run, pick->template_name, pick->config);
        more = found != NULL && found->trial.status == SPC__TRIAL_COMPILE;
    }
    free(pick);
    return found;
}

/* Where does the winner lose most against a scene's own best? */
static void find_worst(spc__run *run, const spc__entry *winner,
                       spc__entry **ranked, int count)
{
    spc_tune_report *report = run->report;

    for (int s = 0; s < run->scene_count; s++) {
        double best = winner->timings[s].median_us;
        for (int i = 0; i < count; i++)
            best = fmin(best, ranked[i]->timings[s].median_us);
        double ratio = winner->timings[s].median_us / best;
        if (ratio <= report->worst_ratio)
            continue;
        report->worst_ratio = ratio;
        snprintf(report->worst_scene, sizeof(report->worst_scene), "%s",
                 spc_scene_name(run->scenes[s]));
    }
}

static void choose(spc__run *run, spc__entry **list)
{
    spc_tune_report *report = run->report;
    int count = rank_all(run, list);

    if (count == 0)
        return;
    const spc__entry *winner =
        pick(run, list, count, run->winner_reason, sizeof(run->winner_reason));
    const spc__entry *start = untuned(run);
    run->winner = winner;
    snprintf(report->winner, sizeof(report->winner), "%s %s",
             winner->trial.template_name, winner->config);
    report->winner_us = spc__entry_score(run, winner);
    if (start != NULL && start->reach == SPC__TIMED)
        report->default_us = spc__entry_score(run, start);
    find_worst(run, winner, list, count);
}

/* Nobody is left: the report of the first failure stands for all. */
static spc_status nobody(const spc__run *run)
{
    static const spc_status of[] = {
        [SPC__TRIAL_OK] = SPC_EINTERNAL,
        [SPC__TRIAL_CONSTRAINT] = SPC_EUNSUPPORTED,
        [SPC__TRIAL_TEMPLATE] = SPC_ETEMPLATE,
        [SPC__TRIAL_COMPILE] = SPC_ECOMPILE,
        [SPC__TRIAL_TIMEOUT] = SPC_ETIMEOUT,
        [SPC__TRIAL_LAUNCH] = SPC_EDEVICE,
        [SPC__TRIAL_FAULT] = SPC_EDEVICE,
        [SPC__TRIAL_WRONG] = SPC_EWRONG,
    };

    for (int i = 0; i < run->count; i++) {
        const spc__entry *entry = &run->entries[i];
        if (entry->reach == SPC__FAILED)
            return spc__fail(
                run->error, of[entry->trial.status],
                "none of %d candidates can be used; '%s %s' "
                "fails (%s): %s",
                run->count, entry->trial.template_name, entry->config,
                spc__trial_status_name(entry->trial.status), entry->trial.note);
    }
    return spc__fail(run->error, SPC_EINTERNAL, "no candidate was tried");
}

/* ---- climbing ------------------------------------------------------------ */

static bool contains(spc__entry *const *list, int count,
                     const spc__entry *entry)
{
    int i = 0;

    while (i < count && list[i] != entry)
        i++;
    return i < count;
}

/* Unknown ones that a move from `from` leads to, appended to list. */
static int add_moves(const spc__run *run, const spc__entry *from,
                     spc__entry **list, int count)
{
    for (int i = 0; i < run->count; i++) {
        spc__entry *to = &run->entries[i];
        if (to->reach == SPC__NEW && is_move(run, from, to) &&
            !contains(list, count, to))
            list[count++] = to;
    }
    return count;
}

/* Does the search climb on from number i of all timed ones? */
static bool is_start(const spc__run *run, spc__entry *const *ranked, int i)
{
    double behind =
        spc__entry_score(run, ranked[i]) / spc__entry_score(run, ranked[0]);
    bool first = true; /* of its template */

    for (int k = 0; k < i && behind <= rival; k++) {
        int far = distance(ranked[k], ranked[i]);
        if (far == 1)
            return false;
        first &= far == INT_MAX;
    }
    return behind <= (first ? rival : 1 + tie);
}

/* A default that fails says nothing about its template's other candidates. */
static bool is_failed_start(const spc__run *run, const spc__entry *entry)
{
    if (!entry->candidate->is_default || entry->reach != SPC__FAILED)
        return false;
    for (int i = 0; i < run->count; i++)
        if (run->entries[i].reach == SPC__TIMED &&
            distance(&run->entries[i], entry) != INT_MAX)
            return false;
    return true;
}

/* What to measure next, given all timed ones. */
static int next_batch(const spc__run *run, spc__entry *const *ranked,
                      int ranked_count, spc__entry **list)
{
    int count = 0;

    for (int i = 0; i < ranked_count; i++)
        if (is_start(run, ranked, i))
            count = add_moves(run, ranked[i], list, count);
    for (int i = 0; i < run->count; i++)
        if (is_failed_start(run, &run->entries[i]))
            count = add_moves(run, &run->entries[i], list, count);
    return count;
}

/* ---- the whole search ---------------------------------------------------- */

static int only_new(spc__entry **list, int count)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (list[i]->reach == SPC__NEW)
            list[kept++] = list[i];
    return kept;
}

spc_status spc__run_search(spc__run *run)
{
    int count = 0;
    spc__entry **batch = spc__run_seeds(run, &count);
    spc__entry **list = calloc((size_t)run->count + 1, sizeof(*list));
    spc_status status = SPC_OK;

    if (batch == NULL || list == NULL) {
        status = spc__fail_memory(run->error, sizeof(*list));
        goto done;
    }
    count = only_new(batch, count);
    do {
        if (count > 0 && (status = screen(run, batch, count)) == SPC_OK)
            status = halve(run, batch, count);
        if (status == SPC_OK)
            status = finals(run, list);
        count = next_batch(run, list, rank_all(run, list), batch);
    } while (status == SPC_OK && count > 0);
    if (status == SPC_OK && rank_all(run, list) == 0)
        status = nobody(run);
    else if (status == SPC_OK || !run->options.again)
        choose(run, list); /* also what an interrupted run knows */
done:
    free(batch);
    free(list);
    return status;
}
