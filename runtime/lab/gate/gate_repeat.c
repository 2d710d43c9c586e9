/*
 * gate_repeat.c - launches that find almost all as the one before left it.
 *
 * A timing consists of such launches: the same operands, run after run, over
 * the result of the run before. Who skips work because some part of what it
 * sees is what it saw last time, is fast there, leaves the right result, and
 * is wrong in a program.
 *
 * What a launch sees are its output, inputs, weights, vectors, what it adds,
 * the map, the workspace, their addresses, and what it remembers. For each
 * array X of these that a result depends on, a launch is made on another X,
 * over an output that is no number; then X becomes what it was, and the next
 * launch must give the right result, over that of the other X. X is another in
 * a few elements, at places that are drawn; in all else both launches see the
 * same, addresses and workspace too. The output itself is an X: then a few
 * elements of the right result are spoilt between two launches.
 *
 * Let P be what a kernel compares before it skips work. It skips the first
 * launch only if P leaves out the output: every comparison of results, over
 * poison, finds that. It skips the second, or a part of it, if P misses the
 * places; then the result is that of the other X, there, and is found to be.
 * So who passes has a P that holds the places, whatever X is. If P is a share f
 * of X, one launch with n places passes with probability f^n where all depends
 * on one comparison, which is why some launches have one place; and with (1 -
 * (1 - f) q)^n where each tile decides for itself, and a share q of tiles does,
 * which is why others have many. Who looks at all of every X computes its
 * layer: what that costs, a timing over other results tells (gate_dirty.c).
 *
 * A kernel may keep a form of X in the workspace, or packing in what it packed,
 * and not look at X again. So the launch on another X is made twice, the second
 * time over a workspace that is filled, with weights that are packed over other
 * bytes: both must give the same bits, but where sums come in any order.
 *
 * P may also be a sum over what it looks at, or a hash that forgets the order.
 * So in some rounds two rows of X change places, or two elements, or two
 * entries of the map: of inputs two that a tile sees equally often, as such a
 * sum is of all that a tile sees. Other tiles do see that, and compute; where
 * not all tiles skip, or not whole ones, it takes several such pairs until one
 * of a tile that does is met: with half of them, TWINS pairs miss with 2^-16.
 */
#include "gate_launch.h"

#include "clock.h"
#include "dtype.h"
#include "epilogue.h"
#include "error.h"
#include "map.h"
#include "operands.h"
#include "plan_parts.h"
#include "random.h"
#include <string.h>

enum { POISON = 0xff, PLACES = 32, MAP_PLACES = 4, MOST_ROUNDS = 12 };
enum { TWINS = 16 }; /* rounds in which two inputs change places */
enum { MAP_APART = 8, MAP_EXCHANGED = 16 }; /* entries: eight pairs */

/* Seconds after which no round begins but the first two, and none at all: who
 * is that slow, on a processor, must not be taken to hang. */
enum { ENOUGH_S = 1, MOST_S = 4 };

/* An array that a result depends on; element (row, column) lies at row * pitch
 * + column, on the device and on the host. */
typedef struct subject {
    const char *name;
    char *device; /* NULL: the map */
    const char *host;
    int64_t rows, columns, pitch;
    size_t bytes; /* of an element */
    bool is_whole, is_packed, is_input;
} subject;

enum { SUBJECTS = 8 };

/* Bytes on the device, and what they become: two arrays of as many on the host,
 * for which those of an element may be here. */
typedef struct place {
    char *device;
    size_t bytes;
    const void *right, *other;
    unsigned char kept[2][sizeof(float)];
} place;

typedef struct round {
    const spc__gate *g;
    spc__gate_setting at;
    const subject *of;
    place places[PLACES];
    int count;
    spc__random random;
} round;

/* ---- what there is to change --------------------------------------------- */

static subject subject_of(const char *name, const spc__operand *operand,
                          const spc__guarded *array, const void *host)
{
    return (subject){.name = name,
                     .device = array->data,
                     .host = host,
                     .rows = operand->rows,
                     .columns = operand->columns,
                     .pitch = operand->pitch,
                     .bytes = spc__dtype_of(operand->dtype)->bytes,
                     .is_whole = spc__dtype_is_whole(operand->dtype)};
}

static subject vector_of(const char *name, const spc__guarded *array,
                         const void *host, int64_t count)
{
    return (subject){.name = name,
                     .device = array->data,
                     .host = host,
                     .rows = count,
                     .columns = 1,
                     .pitch = 1,
                     .bytes = sizeof(float)};
}

/* Weights are changed before they are packed: every element matters then. A
 * gradient that is added to lies where packed weights would. */
static subject weights_of(const spc__gate *g, spc__draw draw)
{
    const spc__bed *bed = g->bed;
    const spc__sample *sample = bed->sample;
    spc__operand operand = spc__operand_of(&sample->conv, SPC_WEIGHTS, 0);
    bool packed = sample->conv.pass != SPC_WGRAD;
    spc__guarded array = {.data = packed ? bed->weights[draw].data
                                         : (char *)spc__gate_packed(g, draw)};
    subject out =
        subject_of("the weights", &operand, &array, sample->weights[draw]);

    out.is_packed = packed;
    return out;
}

/* Behind the list, unless there is nothing to change in it. */
static int with(subject *list, int count, subject next)
{
    if (next.rows * next.columns > 0)
        list[count++] = next;
    return count;
}

static int list_vectors(subject *list, int count, const spc__bed *bed,
                        spc__draw draw)
{
    const spc__sample *sample = bed->sample;
    const spc_conv *conv = &sample->conv;

    if (sample->bias[draw] != NULL)
        count = with(list, count,
                     vector_of("the bias", &bed->bias[draw], sample->bias[draw],
                               conv->cout));
    if (sample->scale[draw] != NULL)
        count = with(list, count,
                     vector_of("the scale", &bed->scale[draw],
                               sample->scale[draw], conv->cout));
    if (spc__conv_in_is_whole(conv))
        count = with(list, count,
                     vector_of("the inputs' scale", &bed->scales[draw],
                               &sample->scales[draw].in, 1));
    return count;
}

/* The output last: it holds the right result then. */
static int list_subjects(subject *list, const spc__gate *g, int s,
                         spc__draw draw)
{
    const spc__bed *bed = g->bed;
    const spc__sample_scene *scene = &bed->sample->scenes[s];
    const spc_conv *conv = &bed->sample->conv;
    int array = s < bed->sample->given ? (int)draw : 0, count = 0;
    spc__operand all[SPC_OPERANDS];

    spc__operands(all, conv, scene->rows_in, scene->rows_out);
    count = with(list, count,
                 subject_of("the inputs", &all[SPC_IN], &bed->in[s][array],
                            scene->in[draw]));
    if (count > 0)
        list[0].is_input = true;
    count = with(list, count, weights_of(g, draw));
    count = list_vectors(list, count, bed, draw);
    if (scene->residual[draw] != NULL)
        count =
            with(list, count,
                 subject_of(conv->pass == SPC_WGRAD ? "the outputs' gradient"
                                                    : "the residual",
                            &all[SPC_RESIDUAL], &bed->residual[s][array],
                            scene->residual[draw]));
    if (bed->maps[s] != NULL && scene->rows_in > 1)
        list[count++] = (subject){.name = "the map"};
    return with(
        list, count,
        subject_of("the output", &all[SPC_OUT], &bed->out, scene->exact[draw]));
}

/* ---- places -------------------------------------------------------------- */

static int64_t below(round *r, int64_t bound)
{
    return (int64_t)(spc__random_u64(&r->random) % (uint64_t)bound);
}

/* A whole number moves by half of all there are; of others every bit turns, so
 * that they change by more than rounding hides. */
static void draw_places(round *r, int count)
{
    const subject *of = r->of;

    for (r->count = 0; r->count < count; r->count++) {
        place *p = &r->places[r->count];
        size_t at =
            (size_t)(below(r, of->rows) * of->pitch + below(r, of->columns)) *
            of->bytes;
        const unsigned char *right = (const unsigned char *)of->host + at;
        *p = (place){.device = of->device + at, .bytes = of->bytes};
        p->right = right;
        p->other = p->kept[1];
        for (size_t i = 0; i < of->bytes && i < sizeof(p->kept[1]); i++)
            p->kept[1][i] = right[i] ^ (of->is_whole ? 0x80 : 0xff);
    }
}

/* ---- places that are exchanged ------------------------------------------- */

/* So many bytes each, from these on. */
static void exchange(round *r, size_t a, size_t b, size_t bytes)
{
    const subject *of = r->of;

    r->count = 2;
    r->places[0] = (place){.device = of->device + a, .bytes = bytes};
    r->places[1] = (place){.device = of->device + b, .bytes = bytes};
    r->places[0].right = r->places[1].other = of->host + a;
    r->places[1].right = r->places[0].other = of->host + b;
}

static void exchange_rows(round *r, const int64_t rows[2])
{
    size_t row = (size_t)r->of->pitch * r->of->bytes;

    exchange(r, (size_t)rows[0] * row, (size_t)rows[1] * row,
             (size_t)r->of->columns * r->of->bytes);
}

static spc_status draw_twins(round *r)
{
    int64_t rows[2];
    spc_status status = spc__gate_draw_twins(rows, r->g, r->at.s, &r->random);

    if (status == SPC_OK)
        exchange_rows(r, rows);
    return status;
}

static void draw_rows(round *r)
{
    int64_t of = r->of->rows, rows[2] = {below(r, of)};

    rows[1] = (rows[0] + 1 + below(r, of - 1)) % of;
    exchange_rows(r, rows);
}

/* Two rows; of one row, or by turns, two elements. */
static void draw_exchange(round *r, bool of_elements)
{
    const subject *of = r->of;

    r->count = 0;
    if (of->rows > 1 && !(of_elements && of->columns > 1)) {
        draw_rows(r);
        return;
    }
    if (of->columns < 2)
        return;
    size_t at = (size_t)(below(r, of->rows) * of->pitch) * of->bytes;
    int64_t one = below(r, of->columns);
    int64_t other = (one + 1 + below(r, of->columns - 1)) % of->columns;
    exchange(r, at + (size_t)one * of->bytes, at + (size_t)other * of->bytes,
             of->bytes);
}

/* ---- places in a map ----------------------------------------------------- */

/* Entries that name an input: from `first` on `count`, each `step` behind the
 * other. */
typedef struct entries {
    const int *first;
    int64_t count;
    int step;
} entries;

/* Some entries of what of the map the plan reads. The centre of a table names
 * output rows too, and stays. */
static entries some_entries(round *r, const spc_conv_args *args,
                            const spc__launch_geometry *geometry)
{
    const spc__sample_scene *scene = &r->g->bed->sample->scenes[r->at.s];
    const spc_map_view *map = &args->map;

    if (geometry->reads_triplets)
        return (entries){args->triplets.list, scene->pairs, 2};
    if (geometry->reads_inputs)
        return (entries){args->pairs.in, scene->rows_in, 1};
    if (geometry->reads_pairs)
        return (entries){args->pairs.in, scene->pairs, 1};
    int k = (int)below(r, map->offsets);
    if (map->index == NULL || k == map->centre)
        return (entries){NULL, 0, 1};
    return (entries){map->index + (int64_t)k * map->rows_padded,
                     scene->rows_out, 1};
}

static void keep_entry(place *p, const int *at, int right, int other)
{
    *p = (place){.device = (char *)(intptr_t)at, .bytes = sizeof(right)};
    memcpy(p->kept[0], &right, sizeof(right));
    memcpy(p->kept[1], &other, sizeof(other));
    p->right = p->kept[0];
    p->other = p->kept[1];
}

/* Another input takes the place of one that is seen. */
static spc_status draw_entry(round *r, const entries *from, bool *found)
{
    const spc__bed *bed = r->g->bed;
    place *p = &r->places[r->count];
    const int *at = from->first + below(r, from->count) * from->step;
    int64_t rows = bed->sample->scenes[r->at.s].rows_in;
    int right;
    spc_status status = spc_copy_to_host(bed->ctx, &right, at, sizeof(right));

    *found = status == SPC_OK && right >= 0;
    if (!*found)
        return status;
    int other = (int)((right + 1 + below(r, rows - 1)) % rows);
    keep_entry(p, at, right, other);
    r->count++;
    return SPC_OK;
}

/* Two entries near each other, of one offset in a table, change places: what a
 * tile sees of a map is no other tile's, so that there may be many such. */
static spc_status exchange_entries(round *r, const entries *from)
{
    const spc__bed *bed = r->g->bed;
    int64_t apart = 1 + below(r, MAP_APART);
    int values[2];

    if (from->count <= apart)
        return SPC_OK;
    const int *one = from->first + below(r, from->count - apart) * from->step;
    const int *other = one + apart * from->step;
    spc_status status =
        spc_copy_to_host(bed->ctx, &values[0], one, sizeof(values[0]));
    if (status == SPC_OK)
        status =
            spc_copy_to_host(bed->ctx, &values[1], other, sizeof(values[1]));
    if (status != SPC_OK || values[0] < 0 || values[1] < 0 ||
        values[0] == values[1])
        return status;
    keep_entry(&r->places[r->count++], one, values[0], values[1]);
    keep_entry(&r->places[r->count++], other, values[1], values[0]);
    return SPC_OK;
}

/* So many places, by two where they are exchanged. */
static spc_status draw_entries(round *r, int count, bool exchanged)
{
    const spc_plan *plan = r->g->tested->plan;
    spc_conv_args args = {0};
    spc_status status = SPC_OK;
    bool found;

    r->count = 0;
    if (!spc__plan_view_map(&args, r->g->bed->maps[r->at.s], &plan->geometry))
        return SPC_OK;
    for (int i = 0; i < 8 * count && r->count < count && status == SPC_OK;
         i++) {
        entries from = some_entries(r, &args, &plan->geometry);
        if (from.count > 0)
            status = exchanged ? exchange_entries(r, &from)
                               : draw_entry(r, &from, &found);
    }
    return status;
}

/* ---- one round ----------------------------------------------------------- */

static spc_status pack(const round *r)
{
    const spc__gate *g = r->g;

    if (!r->of->is_packed)
        return SPC_OK;
    return spc_plan_pack_weights(
        g->tested->plan, (void *)spc__gate_packed(g, r->at.draw),
        g->bed->weights[r->at.draw].data, SPC_KRSC, NULL);
}

static spc_status write_places(const round *r, bool right)
{
    const spc__bed *bed = r->g->bed;
    spc_status status = SPC_OK;

    for (int i = 0; i < r->count && status == SPC_OK; i++) {
        const place *p = &r->places[i];
        status = bed->ops->copy_in(bed->ctx->device, p->device,
                                   right ? p->right : p->other, p->bytes, NULL,
                                   spc__error_of(bed->ctx));
    }
    return status == SPC_OK ? pack(r) : status;
}

static spc_status execute(const round *r)
{
    return spc__bed_execute(r->g->bed, r->g->tested->plan, r->at.s, r->at.draw,
                            spc__gate_packed(r->g, r->at.draw), NULL);
}

static bool is_output(const round *r)
{
    return r->of->device == r->g->bed->out.data;
}

static spc_status digest_out(const round *r)
{
    const spc__bed *bed = r->g->bed;

    return spc__digester_add(bed->digester, bed->out.data, bed->out.bytes);
}

static spc_status run_over_poison(const round *r)
{
    spc_status status = spc__bed_fill_out(r->g->bed, POISON);

    if (status == SPC_OK)
        status = execute(r);
    return status == SPC_OK ? digest_out(r) : status;
}

/* Nothing that launches or packing left is there any more. */
static spc_status forget(const round *r)
{
    const spc__gate *g = r->g;
    spc_status status = spc__gate_fill(g, &g->bed->workspace, POISON);

    if (status != SPC_OK || !r->of->is_packed)
        return status;
    status = spc__gate_fill(g, spc__gate_packed_array(g, r->at.draw),
                            SPC__ZONE_BYTE);
    return status == SPC_OK ? pack(r) : status;
}

/* Two launches on what is changed; the operand is made right again also behind
 * one that failed. */
static spc_status run_other(const round *r)
{
    spc_status status = write_places(r, false), after;

    if (is_output(r))
        return status;
    if (status == SPC_OK)
        status = run_over_poison(r);
    if (status == SPC_OK)
        status = forget(r);
    if (status == SPC_OK)
        status = run_over_poison(r);
    after = write_places(r, true);
    return status == SPC_OK ? after : status;
}

/* What changes: so many places, or what is exchanged where that is 0. */
static spc_status draw_change(round *r, int places, int i)
{
    if (r->of->device == NULL && places == 0)
        return draw_entries(r, MAP_EXCHANGED, true);
    if (r->of->device == NULL)
        return draw_entries(r, places < MAP_PLACES ? places : MAP_PLACES,
                            false);
    if (places == 0)
        draw_exchange(r, i % 2 == 1);
    else
        draw_places(r, places);
    return SPC_OK;
}

/* The launch on what is changed, and the one behind it. */
static spc_status run_round(const round *r)
{
    spc_status status = run_other(r);

    if (status == SPC_OK && (status = execute(r)) == SPC_OK)
        status = digest_out(r);
    return status;
}

/* ---- all of them --------------------------------------------------------- */

/* The places of the i-th change: one; or many, but not many in each tile. */
static int places_of(const spc__gate *g, int s, int i)
{
    int64_t rows = g->bed->sample->scenes[s].rows_out;
    int many = rows / 32 < PLACES ? (int)(rows / 32) : PLACES;

    return i % 2 == 0 || many < 1 ? 1 : many;
}

/* Spoilt operands explain all that follows. */
static void reject(const spc__gate *g, const spc__gate_setting *at,
                   const char *changed)
{
    spc__gate_untouched(g, at->draw);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_wrong(g,
                        "stale: scene '%.40s': where nothing but %s is not as "
                        "the launch before left it, it leaves elements of that "
                        "launch's result",
                        spc__gate_scene(g, at->s), changed);
}

static void reject_kept(const spc__gate *g, const spc__gate_setting *at,
                        const char *changed)
{
    spc__gate_untouched(g, at->draw);
    if (g->out->status == SPC__TRIAL_OK)
        spc__gate_wrong(g,
                        "stale: scene '%.40s': where %s changed, other bits "
                        "come out than over a workspace that was filled, with "
                        "weights packed anew",
                        spc__gate_scene(g, at->s), changed);
}

/* What has been run, by subject, and since when. */
typedef struct runs {
    struct {
        const char *changed;
        bool is_output;
    } all[SUBJECTS * MOST_ROUNDS + TWINS];
    int count;
    int exchanges; /* wanted: every other round at first */
    uint64_t start_ns;
} runs;

static double seconds_of(const runs *all)
{
    return (double)(spc__now_ns() - all->start_ns) * 1e-9;
}

static void begin(round *r, const subject *of, runs *all)
{
    r->of = of;
    all->all[all->count].is_output = is_output(r);
    all->all[all->count++].changed = of->name;
}

/* Round i of every subject, as long as there is time. Changes and exchanges
 * take turns, as time may be up before the last. */
static spc_status run_all(round *r, const subject *list, int count, int i,
                          runs *all)
{
    int pairs = i / 2 < all->exchanges ? i / 2 : all->exchanges;
    bool exchanges = i % 2 == 1 && pairs < all->exchanges;
    int nth = exchanges ? pairs : i - pairs;
    int places = exchanges ? 0 : places_of(r->g, r->at.s, nth);
    spc_status status = SPC_OK;

    for (int n = 0; n < count && status == SPC_OK; n++) {
        if (seconds_of(all) > MOST_S)
            return SPC_OK;
        begin(r, &list[n], all);
        if ((status = draw_change(r, places, nth)) == SPC_OK)
            status = run_round(r);
    }
    return status;
}

/* Pairs of inputs, one pair a round, as long as there is time. */
static spc_status run_twins(round *r, const subject *list, int count, runs *all)
{
    spc_status status = SPC_OK;

    for (int n = 0; n < count; n++)
        for (int i = 0; i < TWINS && list[n].is_input && list[n].rows > 1 &&
                        status == SPC_OK && seconds_of(all) < MOST_S;
             i++) {
            begin(r, &list[n], all);
            if ((status = draw_twins(r)) == SPC_OK)
                status = run_round(r);
        }
    return status;
}

/* Of each change the results over poison come first, but the output's. */
static void judge(const round *r, const runs *all, const uint64_t *digests)
{
    const spc__gate *g = r->g;
    uint64_t first = g->tested->first[r->at.s][r->at.draw];

    for (int i = 0; i < all->count && g->out->status == SPC__TRIAL_OK; i++) {
        if (!all->all[i].is_output) {
            if (digests[0] != digests[1] && !g->tested->atomics)
                reject_kept(g, &r->at, all->all[i].changed);
            digests += 2;
        }
        if (g->out->status == SPC__TRIAL_OK && *digests != first)
            reject(g, &r->at, all->all[i].changed);
        digests++;
    }
}

void spc__gate_repeat(const spc__gate *g, int s, spc__draw draw, int rounds,
                      int exchanges)
{
    subject list[SUBJECTS];
    uint64_t digests[3 * (SUBJECTS * MOST_ROUNDS + TWINS)];
    round r = {.g = g, .at = {.s = s, .draw = draw}};
    runs all = {.exchanges = exchanges, .start_ns = spc__now_ns()};
    int count = list_subjects(list, g, s, draw);
    spc_status status = spc__bed_load(g->bed, s, draw);

    spc__random_init(&r.random, g->tested->first[s][draw] + (uint64_t)rounds);
    if (status == SPC_OK)
        status = spc__digester_begin(g->bed->digester);
    for (int i = 0; i < rounds + exchanges && status == SPC_OK; i++)
        if (i < 2 || seconds_of(&all) < ENOUGH_S)
            status = run_all(&r, list, count, i, &all);
    if (status == SPC_OK && exchanges > 0)
        status = run_twins(&r, list, count, &all);
    if (status == SPC_OK)
        status = spc__digester_end(g->bed->digester, digests);
    if (status != SPC_OK)
        spc__gate_failed(g, SPC__TRIAL_FAULT);
    if (status == SPC_OK)
        judge(&r, &all, digests);
}
