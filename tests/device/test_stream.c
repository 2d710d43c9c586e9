/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stream.c - how the kernels' streams distribute tiles among workers,
 * tested on the emulation with random tables of tiles.
 *
 * The output of a convolution does not show that a tile was computed twice or
 * by the wrong worker. Here workers record their steps, and the records must
 * have every step of every tile once. The load of each worker is compared with
 * a plain implementation of the same rule.
 *
 * Tables are random. A message names the seed; `test_stream SEED` uses another
 * one.
 */
#include "harness/sim_harness.h"

#include "base/random.h"
#include "harness/suite.h"
#include "templates/sim/stream_args.h"

#include <stdint.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

enum {
    STEP_LAST = 0x10000,
    STEP_END = 0x20000,
    STEP_OFFSET = 0xffff,
    SHARE_TILES = 30, /* SPC_SHARE_TILES */
};

/* How many trials run: for each kernel size; of the 13 stream ends; at most for
 * a block. */
#if defined(__SANITIZE_THREAD__)
enum { TRIALS = 1, LONG_TRIALS = 1, ENDS = 3, WARPS = 8 };
#else
enum { TRIALS = 10, LONG_TRIALS = 2, ENDS = 13, WARPS = 32 };
#endif

static uint64_t first_seed = 1;

static const int kernel_sizes[] = {1, 8, 27, 32, 33, 125, 343};

/* ---- tables of tiles --------------------------------------------------- */

/* How the numbers of offsets of tiles are distributed. */
enum style { SPREAD, CLOSE, FULL, FEW_DEAR, STYLES };
static const char *const style_names[] = {"spread", "close", "full",
                                          "few dear"};

typedef struct table {
    spc_map_view view; /* the table has capacity for more tiles */
    int tiles;
    int *cost; /* steps of the t-th tile in the order, descending */
    int *rank; /* rank of each tile in the order */
    int steps; /* sum over all tiles */
} table;

static void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* Returns the share of the offsets that tile `t` has. */
static double density(spc__random *random, enum style style, int tile)
{
    switch (style) {
    case SPREAD:
        return spc__random_unit(random);
    case CLOSE:
        return 0.3;
    case FULL:
        return 1;
    default:
        return tile % 37 == 5 ? 1 : 0;
    }
}

static bool has_offset(const table *t, int rank, int offset)
{
    unsigned word = t->view.tile_mask[offset / 32 * t->view.tiles + rank];
    return word >> offset % 32 & 1;
}

/* Orders tiles by descending cost, equal ones by number, and fills `begin` as
 * in spc_abi.h. A tile without offsets still has one step. */
static void sort_tiles(table *t, int *order, int *begin, const int *cost)
{
    int rank = 0;
    for (int d = 0; d <= t->view.offsets; d++) {
        if (d < t->view.offsets)
            begin[d] = rank;
        for (int tile = 0; tile < t->tiles; tile++)
            if (cost[tile] == t->view.offsets - d) {
                order[rank] = tile;
                t->cost[rank] = cost[tile] > 0 ? cost[tile] : 1;
                t->steps += t->cost[rank];
                t->rank[tile] = rank++;
            }
    }
    for (; rank < t->view.tiles; rank++)
        order[rank] = -1;
}

static void table_make(table *t, spc__random *random, int offsets, int centre,
                       int tiles, int room, int tile_rows, enum style style)
{
    int words = (offsets + 31) / 32, table_tiles = tiles + room;
    size_t count = (size_t)table_tiles;
    int *order = allocate(count, sizeof(int));
    int *begin = allocate((size_t)offsets, sizeof(int));
    int *cost = allocate(count, sizeof(int));
    unsigned *mask = allocate(count * (size_t)words, sizeof(unsigned));
    unsigned *sorted = allocate(count * (size_t)words, sizeof(unsigned));

    memset(t, 0, sizeof(*t));
    t->view = (spc_map_view){
        .tile_order = order,
        .tile_mask = sorted,
        .tile_begin = begin,
        .rows = table_tiles * tile_rows,
        .rows_padded = (table_tiles * tile_rows + SPC_ROW_PAD - 1) /
                       SPC_ROW_PAD * SPC_ROW_PAD,
        .rows_in = table_tiles * tile_rows,
        .offsets = offsets,
        .mask_words = words,
        .centre = centre,
        .tile_rows = tile_rows,
        .tiles = table_tiles,
    };
    t->tiles = tiles;
    t->cost = allocate(count, sizeof(int));
    t->rank = allocate(count, sizeof(int));
    for (int tile = 0; tile < tiles; tile++) {
        double part = density(random, style, tile);
        for (int k = 0; k < offsets; k++)
            if (k == centre || spc__random_unit(random) < part) {
                mask[tile * words + k / 32] |= 1u << k % 32;
                cost[tile]++;
            }
    }
    sort_tiles(t, order, begin, cost);
    for (int w = 0; w < words; w++)
        for (int rank = 0; rank < tiles; rank++)
            sorted[w * table_tiles + rank] = mask[order[rank] * words + w];
    free(mask);
    free(cost);
}

static void table_free(table *t)
{
    free((void *)t->view.tile_order);
    free((void *)t->view.tile_begin);
    free((void *)t->view.tile_mask);
    free(t->cost);
    free(t->rank);
}

/* ---- expected loads ------------------------------------------------------ */

/* Returns the index of the least load, the first of equal ones. */
static int least_of(const int *load, int count)
{
    int least = 0;
    for (int i = 1; i < count; i++)
        if (load[i] < load[least])
            least = i;
    return least;
}

static int most_of(const int *load, int count)
{
    int most = 0;
    for (int i = 1; i < count; i++)
        if (load[i] > load[most])
            most = i;
    return load[most];
}

/* Gives each tile, by descending cost, to the worker with the least load. */
static void share_longest_first(int *load, int workers, const int *cost,
                                int count)
{
    memset(load, 0, (size_t)workers * sizeof(*load));
    for (int i = 0; i < count; i++)
        load[least_of(load, workers)] += cost[i];
}

/* Lists the costs of the tiles that a snake deals to one of `owners`. */
static int deal(int *to, const table *t, int owner, int owners)
{
    int count = 0, rank = owner;
    for (int round = 1; rank < t->tiles; round++) {
        to[count++] = t->cost[rank];
        rank = round * owners + (round % 2 ? owners - 1 - owner : owner);
    }
    return count;
}

/* Computes the loads if tiles are dealt to blocks, and the workers of a block
 * share its tiles. A single worker gets all tiles of its block. */
static void expect_shared(int *load, const table *t, int blocks, int workers)
{
    int *cost = allocate((size_t)t->tiles, sizeof(int));
    for (int b = 0; b < blocks; b++) {
        int count = deal(cost, t, b, blocks);
        share_longest_first(load + b * workers, workers, cost, count);
    }
    free(cost);
}

/* ---- a launch ----------------------------------------------------------- */

enum kernel { DEALT, SHARED, BALANCED, SCHEDULED };
static const char *const kernel_names[] = {"dealt", "shared", "balanced",
                                           "scheduled"};

typedef struct trial {
    enum kernel kernel;
    enum style style;
    uint64_t seed;
    int offsets, centre, tiles, room, tile_rows; /* capacity for more tiles */
    int blocks, workers; /* workers or readers of a block */
    int depth, lag;
    const char *schedule;
} trial;

/* The records of the workers, and derived values. */
typedef struct outcome {
    table table;
    int workers, room;
    unsigned *steps;
    stream_result *results;
    int *load; /* steps of each worker */
    int *seen; /* the worker of each rank, or -1 */
} outcome;

static const char *name_of(const trial *t)
{
    static char text[256];
    snprintf(text, sizeof(text),
             "%s, seed %llu: %d offsets, centre %d, %d tiles (%s), room for %d "
             "more, %d blocks of %d, depth %d, lag %d, schedule %s",
             kernel_names[t->kernel], (unsigned long long)t->seed, t->offsets,
             t->centre, t->tiles, style_names[t->style], t->room, t->blocks,
             t->workers, t->depth, t->lag, t->schedule);
    return text;
}

#define require(condition, format, ...)                                        \
    do {                                                                       \
        if (!(condition))                                                      \
            ck_abort_msg("%s: " format, name_of(trial_), __VA_ARGS__);         \
    } while (0)

/* A device for all trials: opening one takes the race checker longer than most
 * trials. */
static spc__device *device;
static char device_schedule[32];

static void close_device(void)
{
    if (device == NULL)
        return;
    ops->close(device);
    device = NULL;
}

/* Blocks are independent, so one thread runs them all. */
static void use_device(const char *schedule)
{
    if (device != NULL && strcmp(schedule, device_schedule) != 0)
        close_device();
    if (device == NULL)
        device = open_device(schedule, "eager", 1);
    snprintf(device_schedule, sizeof(device_schedule), "%s", schedule);
}

static void launch(const trial *trial_, outcome *o)
{
    /* The shared memory holds exactly what the kernels use: rings, a share and
     * its barrier, or a schedule and a share. */
    static const struct {
        int more_warps, bytes, worker_bytes;
    } needs[] = {{0, 0, 384}, {0, 0, 384}, {1, 136, 384}, {2, 976 + 128, 0}};
    int warps = trial_->workers + needs[trial_->kernel].more_warps;
    int bytes = needs[trial_->kernel].bytes +
                needs[trial_->kernel].worker_bytes * trial_->workers;
    spc__launch geometry = {
        .grid_x = (unsigned)trial_->blocks,
        .grid_y = 1,
        .block = 32 * (unsigned)warps,
        .shared_bytes = (unsigned)bytes,
    };
    const char *template_name =
        trial_->kernel == SCHEDULED ? "schedule" : "stream";
    stream_args args = {
        o->table.view,
        o->steps,
        o->results,
        o->room,
        trial_->depth,
        trial_->lag,
        (unsigned)trial_->seed,
    };
    spc__module *module;
    spc__kernel *kernel;

    use_device(trial_->schedule);
    const spc__artefact *artefact = build(device, template_name, NULL);
    assert_ok(ops->module_load(device, &module, artefact->code,
                               artefact->code_bytes, &error));
    assert_ok(ops->kernel_get(device, module, kernel_names[trial_->kernel],
                              geometry.shared_bytes, &kernel, &error));
    spc_status status = ops->launch(device, kernel, &geometry, &args,
                                    sizeof(args), NULL, &error);
    require(status == SPC_OK, "%s", error.text);
    ops->module_unload(device, module);
}

/* Room for twice a worker's part. */
static int room_for(const trial *t, int steps)
{
    int part = steps / (t->blocks * t->workers);
    if (t->kernel == SCHEDULED)
        part = steps / t->blocks;
    return 2 * part + 2 * t->offsets + 128;
}

static void run_trial(outcome *o, const trial *trial_)
{
    spc__random random;
    spc__random_init(&random, trial_->seed);
    memset(o, 0, sizeof(*o));
    table_make(&o->table, &random, trial_->offsets, trial_->centre,
               trial_->tiles, trial_->room, trial_->tile_rows, trial_->style);
    o->workers = trial_->blocks * trial_->workers;
    o->room = room_for(trial_, o->table.steps);
    o->steps = allocate((size_t)o->workers * (size_t)o->room, 8);
    o->results = allocate((size_t)o->workers, sizeof(*o->results));
    o->load = allocate((size_t)o->workers, sizeof(int));
    o->seen = allocate((size_t)trial_->tiles, sizeof(int));
    for (int i = 0; i < trial_->tiles; i++)
        o->seen[i] = -1;
    launch(trial_, o);
}

static void release(outcome *o)
{
    table_free(&o->table);
    free(o->steps);
    free(o->results);
    free(o->load);
    free(o->seen);
}

/* ---- a worker's steps ---------------------------------------------- */

/* Returns the tile of a step, found by the position of its indices. */
static int rank_of_step(const outcome *o, const unsigned *step)
{
    const spc_map_view *view = &o->table.view;
    unsigned offset = step[1] & STEP_OFFSET;
    unsigned tile = (step[0] - offset * (unsigned)view->rows_padded) /
                    (unsigned)view->tile_rows;
    return tile < (unsigned)o->table.tiles ? o->table.rank[tile] : -1;
}

static bool tile_is_empty(const table *t, int rank)
{
    for (int k = 0; k < t->view.offsets; k++)
        if (has_offset(t, rank, k))
            return false;
    return true;
}

/* Lists the offsets of a tile in the order of its steps: ascending, with the
 * centre last. Returns their number. */
static int offsets_of_tile(int *out, const table *t, int rank)
{
    int count = 0;
    for (int k = 0; k < t->view.offsets; k++)
        if (k != t->view.centre && has_offset(t, rank, k))
            out[count++] = k;
    if (t->view.centre >= 0)
        out[count++] = t->view.centre;
    if (count == 0 && tile_is_empty(t, rank))
        out[count++] = 0;
    return count;
}

/* Checks the steps of one tile from `n` on. Returns the position after them. */
static int check_tile(const trial *trial_, const outcome *o, int worker,
                      int rank, int n)
{
    const spc_map_view *view = &o->table.view;
    const unsigned *steps = o->steps + 2 * (size_t)worker * (size_t)o->room;
    int first_row = view->tile_order[rank] * view->tile_rows;
    int offsets[512], count = offsets_of_tile(offsets, &o->table, rank);

    for (int i = 0; i < count; i++, n++) {
        unsigned at = (unsigned)(offsets[i] * view->rows_padded + first_row);
        unsigned code =
            (unsigned)offsets[i] | (i == count - 1 ? STEP_LAST : 0u);
        require(steps[2 * n] == at && steps[2 * n + 1] == code,
                "step %d of worker %d is (%u, %x), not (%u, %x), in tile %d", n,
                worker, steps[2 * n], steps[2 * n + 1], at, code,
                view->tile_order[rank]);
    }
    return n;
}

static void check_end(const trial *trial_, const outcome *o, int worker, int n)
{
    const unsigned *steps = o->steps + 2 * (size_t)worker * (size_t)o->room;
    const stream_result *result = &o->results[worker];

    require(result->filled == n, "worker %d has filled %d steps of %d", worker,
            result->filled, n);
    require(result->taken > n, "worker %d does not end", worker);
    for (int i = n; i < result->taken; i++)
        require(steps[2 * i] == 0 && steps[2 * i + 1] == STEP_END,
                "step %d of worker %d, %d past the end, is (%u, %x)", i, worker,
                i - n, steps[2 * i], steps[2 * i + 1]);
}

/* Checks the steps of a worker, and adds up its load. */
static void check_worker(const trial *trial_, outcome *o, int worker)
{
    const unsigned *steps = o->steps + 2 * (size_t)worker * (size_t)o->room;
    int taken = o->results[worker].taken, n = 0, before = -1;

    require(taken <= o->room, "worker %d has taken %d steps and has not ended",
            worker, taken);
    while (n < taken && !(steps[2 * n + 1] & STEP_END)) {
        int rank = rank_of_step(o, steps + 2 * n);
        require(rank >= 0, "step %d of worker %d is of no tile: (%u, %x)", n,
                worker, steps[2 * n], steps[2 * n + 1]);
        require(rank > before, "worker %d takes rank %d after %d", worker, rank,
                before);
        require(o->seen[rank] < 0, "rank %d is done by %d and by %d", rank,
                o->seen[rank], worker);
        require(n + o->table.cost[rank] < o->room,
                "worker %d has far too much to do", worker);
        n = check_tile(trial_, o, worker, rank, n);
        o->seen[rank] = worker;
        o->load[worker] += o->table.cost[rank];
        before = rank;
    }
    check_end(trial_, o, worker, n);
}

/* Checks that every tile is done. Workers at multiples of `stride` have steps
 * of their own. */
static void check_steps(const trial *trial_, outcome *o, int stride)
{
    for (int worker = 0; worker < o->workers; worker += stride)
        check_worker(trial_, o, worker);
    for (int rank = 0; rank < trial_->tiles; rank++)
        require(o->seen[rank] >= 0, "rank %d of %d is done by nobody", rank,
                trial_->tiles);
}

/* ---- trials -------------------------------------------------------------- */

static int any_of(spc__random *random, const int *values, int count)
{
    return values[spc__random_below(random, (uint32_t)count)];
}
#define ANY_OF(random, values) any_of(random, values, LENGTH(values))

/*
 * Returns a random number of tiles for one owner of the snake: none, one, fewer
 * than there are workers, more than 32, or more than 64. All tiles together
 * have at most `most_steps` steps.
 */
static int draw_tiles(spc__random *random, const trial *t, int most_steps)
{
    static const int of_an_owner[] = {0,  1,  2,  5,  8,  20, 31,
                                      32, 33, 34, 63, 64, 66, 97};
    int owners = t->blocks * (t->kernel == DEALT ? t->workers : 1);
    int tiles = ANY_OF(random, of_an_owner) * owners;
    int most = most_steps / ((t->offsets + 3) / 4) + 1;

    if (spc__random_below(random, 8) == 0)
        return (int)spc__random_below(random, (uint32_t)owners + 2);
    if (tiles > 0 && owners > 1)
        tiles += (int)spc__random_below(random, (uint32_t)owners * 2) - owners;
    return tiles < most ? tiles : most;
}

static trial draw(enum kernel kernel, int i, int most_steps)
{
    static const int few_blocks[] = {1, 1, 2, 3, 5};
    static const int grids[] = {1, 2, 7, 31, 33, 64, 132, 140};
    static const int block_workers[] = {1, 2, 4, 8, 12, 16, 32};
    static const int block_readers[] = {2, 3, 9, 13};
    static const int depths[] = {1, 2, 3, 4, 6, 8};
    static const int aheads[] = {1, 2, 3};
    static const int rooms[] = {0, 0, 1, 50, 3000};
    static const int tile_rows[] = {8, 16, 32, 64, 128, 192, 256};
    static const char *const schedules[] = {"forward", "reverse", "random:1",
                                            "random:2", "random:3"};
    spc__random random;
    trial t = {.kernel = kernel};

    t.seed = first_seed + (uint64_t)i;
    spc__random_init(&random, ~t.seed);
    t.offsets = kernel_sizes[i % LENGTH(kernel_sizes)];
    t.centre = (int)spc__random_below(&random, (uint32_t)t.offsets);
    if (spc__random_below(&random, 4) == 0)
        t.centre = spc__random_below(&random, 2) ? t.offsets - 1 : 0;
    if (i / LENGTH(kernel_sizes) % 2 == 1)
        t.centre = -1;
    t.room = ANY_OF(&random, rooms);
    t.style = (enum style)spc__random_below(&random, STYLES);
    t.blocks = ANY_OF(&random, few_blocks);
    t.workers = ANY_OF(&random, block_workers);
    t.workers = t.workers < WARPS ? t.workers : WARPS;
    t.depth = ANY_OF(&random, depths);
    t.lag = t.depth == 1 ? (int)spc__random_below(&random, 8) : 0;
    t.tile_rows = ANY_OF(&random, tile_rows);
    if (kernel == DEALT) {
        t.workers = t.workers < 4 ? t.workers : 4;
    } else if (kernel == BALANCED) {
        t.blocks = ANY_OF(&random, grids);
        t.workers = 1;
    } else if (kernel == SCHEDULED) {
        t.workers = ANY_OF(&random, block_readers);
        t.depth = ANY_OF(&random, aheads);
        t.lag = 0;
    }
    t.tiles = draw_tiles(&random, &t, most_steps);
    t.schedule = schedules[spc__random_below(&random, LENGTH(schedules))];
    return t;
}

static void check_loads(const trial *trial_, const outcome *o, const int *want)
{
    for (int i = 0; i < o->workers; i++)
        require(o->load[i] == want[i], "worker %d has %d steps, not %d", i,
                o->load[i], want[i]);
}

/* A snake over workers gives the same result as a snake over blocks of one
 * worker. */
static void check_trial(const trial *trial_)
{
    outcome o;
    run_trial(&o, trial_);
    int *want = allocate((size_t)o.workers, sizeof(int));
    check_steps(trial_, &o, 1);
    if (trial_->kernel == DEALT)
        expect_shared(want, &o.table, o.workers, 1);
    else
        expect_shared(want, &o.table, trial_->blocks, trial_->workers);
    check_loads(trial_, &o, want);
    free(want);
    release(&o);
}

START_TEST(tiles_dealt_to_workers_are_done_once)
{
    trial t = draw(DEALT, _i, 12000);
    check_trial(&t);
}
END_TEST

START_TEST(tiles_shared_in_a_block_are_done_once_by_who_has_least)
{
    trial t = draw(SHARED, _i, 12000);
    check_trial(&t);
}
END_TEST

START_TEST(every_small_number_of_tiles_is_shared)
{
    trial t = draw(SHARED, 2, 0); /* tiles have 27 offsets */
    t.style = SPREAD;
    t.blocks = 1;
    t.workers = 8;
    for (t.tiles = 0; t.tiles < 100; t.tiles++)
        check_trial(&t);
}
END_TEST

/* ---- the balance over a grid --------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static int class_of(const table *t, int rank)
{
    return (t->cost[rank] + t->view.mask_words - 1) / t->view.mask_words;
}

/* Checks the first `rest` tiles by class of cost. Only the distribution of
 * loads matters, and not which block has which load. */
static void check_classes(const trial *trial_, const outcome *o, int stride,
                          int rest)
{
    int blocks = trial_->blocks;
    int *got = allocate((size_t)blocks, sizeof(int));
    int *want = allocate((size_t)blocks, sizeof(int));
    int *cost = allocate((size_t)rest, sizeof(int));

    for (int rank = 0; rank < rest; rank++) {
        cost[rank] = class_of(&o->table, rank);
        got[o->seen[rank] / stride] += cost[rank];
    }
    share_longest_first(want, blocks, cost, rest);
    qsort(got, (size_t)blocks, sizeof(int), by_value);
    qsort(want, (size_t)blocks, sizeof(int), by_value);
    for (int i = 0; i < blocks; i++)
        require(got[i] == want[i],
                "of %d tiles the %d-th least block has %d units, not %d", rest,
                i, got[i], want[i]);
    free(got);
    free(want);
    free(cost);
}

/*
 * Checks the load of the busiest block, in steps. Rounding adds less than a
 * step for each mask word to a tile's cost. A block gets a tile only while its
 * load, by rounded costs, is at most the mean, and the mean is at most the load
 * that sharing by exact costs leaves.
 */
static void check_busiest(const trial *trial_, const outcome *o, int stride)
{
    const table *t = &o->table;
    int blocks = trial_->blocks, words = t->view.mask_words, allowed = 0;
    int *want = allocate((size_t)blocks, sizeof(int));

    share_longest_first(want, blocks, t->cost, t->tiles);
    if (words > 1)
        allowed = (words - 1) * (t->tiles / blocks + 1) + words;
    for (int b = 0; b < blocks; b++) {
        int cheapest = 0, most = most_of(want, blocks) + allowed;
        for (int rank = 0; rank < t->tiles; rank++)
            if (o->seen[rank] == b * stride)
                cheapest = t->cost[rank];
        if (words > 1)
            most += cheapest;
        require(o->load[b * stride] <= most, "block %d has %d steps, above %d",
                b, o->load[b * stride], most);
    }
    free(want);
}

/*
 * Returns the first rank that is dealt in a snake, because some block has as
 * many tiles as a share holds. A share also has entries past the last tile.
 */
static int check_share(const trial *trial_, const outcome *o, int stride)
{
    int all = o->table.view.tiles, rest = all, most = 0;
    for (int b = 0; b < trial_->blocks; b++) {
        const stream_result *r = &o->results[b * stride];
        if (r->rest < 0)
            continue;
        rest = b == 0 ? r->rest : rest;
        require(r->rest == rest, "block %d's rest is %d, block 0's %d", b,
                r->rest, rest);
        most = r->count > most ? r->count : most;
    }
    require(most <= SHARE_TILES, "a share has %d tiles", most);
    require(
        rest == all || most == SHARE_TILES,
        "the rest begins at %d of %d though no share has more than %d tiles",
        rest, all, most);
    require(rest <= all, "the rest begins at %d of %d", rest, all);
    return rest < trial_->tiles ? rest : trial_->tiles;
}

/* Returns whether a block had more tiles than a share holds. */
static bool check_balance(const trial *trial_, const outcome *o, int stride)
{
    if (trial_->tiles <= trial_->blocks)
        return false;
    int rest = check_share(trial_, o, stride);
    check_classes(trial_, o, stride, rest);
    if (rest == trial_->tiles)
        check_busiest(trial_, o, stride);
    return rest < trial_->tiles;
}

START_TEST(tiles_balanced_over_a_grid_are_done_once_by_who_has_least)
{
    outcome o;
    trial t = draw(BALANCED, _i, 6000);
    run_trial(&o, &t);
    check_steps(&t, &o, 1);
    check_balance(&t, &o, 1);
    release(&o);
}
END_TEST

/* There are few expensive tiles, and more cheap ones than a share can hold. */
START_TEST(a_block_may_have_more_tiles_than_a_share_holds)
{
    static const int grids[] = {1, 2, 3, 7, 33};
    outcome o;
    trial t = draw(BALANCED, _i, 0);
    t.style = FEW_DEAR;
    t.blocks = grids[_i % LENGTH(grids)];
    t.tiles = t.blocks * (SHARE_TILES + 35) + _i;
    run_trial(&o, &t);
    check_steps(&t, &o, 1);
    ck_assert_msg(check_balance(&t, &o, 1), "%s: no share was full",
                  name_of(&t));
    release(&o);
}
END_TEST

/* ---- one warp's steps, many readers -------------------------------------- */

/* Checks that a block's other readers have seen the same steps as the first. */
static void check_readers(const trial *trial_, const outcome *o)
{
    for (int worker = 0; worker < o->workers; worker++) {
        int first = worker - worker % trial_->workers;
        bool once = worker % trial_->workers == trial_->workers - 1;
        const stream_result *a = &o->results[first], *b = &o->results[worker];
        const unsigned *steps = o->steps;
        require(b->filled == a->filled, "reader %d ends after %d steps, not %d",
                worker, b->filled, a->filled);
        require(b->taken == a->filled + (once ? 1 : trial_->depth),
                "reader %d has taken %d steps of %d", worker, b->taken,
                a->filled);
        require(memcmp(steps + 2 * (size_t)first * (size_t)o->room,
                       steps + 2 * (size_t)worker * (size_t)o->room,
                       8 * (size_t)b->taken) == 0,
                "reader %d has not seen what reader %d has", worker, first);
    }
}

static int check_scheduled(const trial *t)
{
    outcome o;
    run_trial(&o, t);
    check_steps(t, &o, t->workers);
    check_readers(t, &o);
    check_balance(t, &o, t->workers);
    int steps = o.table.steps / t->blocks;
    release(&o);
    return steps;
}

START_TEST(readers_see_the_steps_of_the_stream)
{
    if (!suite_takes(_i))
        return;
    trial t = draw(SCHEDULED, _i, 4000);
    check_scheduled(&t);
}
END_TEST

/* The ring of steps holds 96 entries. */
START_TEST(readers_see_every_step_of_a_ring_that_is_filled_again)
{
    if (!suite_takes(_i))
        return;
    char schedule[32];
    trial t = draw(SCHEDULED, _i, 0);
    snprintf(schedule, sizeof(schedule), "random:%d", _i + 1);
    t.schedule = schedule;
    t.style = SPREAD;
    t.blocks = 2;
    t.tiles = 2400 / (t.offsets + 1) + 40;
    ck_assert_int_gt(check_scheduled(&t), 200);
}
END_TEST

/* Tiles have single steps, so that the end falls on every position of a section
 * and of the ring. */
START_TEST(a_stream_may_end_anywhere_in_the_ring)
{
    trial t = draw(SCHEDULED, 0, 0);
    t.blocks = 1;
    t.workers = 3;
    t.depth = 3;
    for (t.tiles = _i; t.tiles < 204; t.tiles += 13)
        check_scheduled(&t);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

/* Runs in the process that the tests are forked from. */
static void build_both(void)
{
    use_device("forward");
    build(device, "stream", NULL);
    build(device, "schedule", NULL);
    close_device();
}

static TCase *add_case(Suite *s, const char *name)
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 300);
    tcase_add_unchecked_fixture(tc, build_both, NULL);
    tcase_add_checked_fixture(tc, NULL, close_device);
    suite_add_tcase(s, tc);
    return tc;
}

static Suite *suite(void)
{
    int trials = TRIALS * LENGTH(kernel_sizes);
    Suite *s = suite_create("stream");
    TCase *tc = add_case(s, "stream");
    tcase_add_loop_test(tc, tiles_dealt_to_workers_are_done_once, 0, trials);
    tcase_add_loop_test(
        tc, tiles_shared_in_a_block_are_done_once_by_who_has_least, 0, trials);
    tcase_add_test(tc, every_small_number_of_tiles_is_shared);

    tc = add_case(s, "balance");
    tcase_add_loop_test(
        tc, tiles_balanced_over_a_grid_are_done_once_by_who_has_least, 0,
        trials);
    tcase_add_loop_test(tc, a_block_may_have_more_tiles_than_a_share_holds, 0,
                        LENGTH(kernel_sizes));

    tc = add_case(s, "schedule");
    tcase_add_loop_test(tc, readers_see_the_steps_of_the_stream, 0, trials);
    tcase_add_loop_test(tc,
                        readers_see_every_step_of_a_ring_that_is_filled_again,
                        0, LONG_TRIALS * LENGTH(kernel_sizes));
    tcase_add_loop_test(tc, a_stream_may_end_anywhere_in_the_ring, 0, ENDS);
    return s;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
#ifdef SPC_SANITIZE /* sanitizers need more time */
    suite_sample(2);
#endif
    int status = run_suite(suite());
    forget_builds();
    return status;
}
