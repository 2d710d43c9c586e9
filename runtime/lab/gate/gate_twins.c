/*
 * gate_twins.c - two inputs that some tile of outputs sees equally often.
 *
 * Who compares, instead of what it reads, a sum over it, does not see that two
 * of these have changed places; other tiles may, as they see one of the two
 * more often than the other.
 */
#include "gate_launch.h"

#include "error.h"
#include "map.h"
#include "plan_parts.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST_SPAN = 4, MOST_OFFSETS = 32 };

static int64_t below(spc__random *random, int64_t bound)
{
    return (int64_t)(spc__random_u64(random) % (uint64_t)bound);
}

/* Two that follow each other: all that is known without a table. */
static void draw_neighbours(int64_t twins[2], int64_t rows, spc__random *random)
{
    twins[0] = below(random, rows);
    twins[1] = twins[0] + 1 < rows ? twins[0] + 1 : 0;
}

/* A kernel may decide for each tile, or each part of one. */
static int64_t draw_span(int tile_rows, spc__random *random)
{
    int64_t span = tile_rows > 0 ? tile_rows : LEAST_SPAN;

    if (below(random, 2) == 0)
        while (span > LEAST_SPAN && below(random, 2) == 0)
            span /= 2;
    return span;
}

/* The inputs that rows of a table from `first` on see, in *seen; -1: none. At
 * most some offsets are looked at, evenly: the others see much the same. */
static spc_status read_span(int32_t *seen, int *count, const spc__gate *g,
                            const spc_map_view *map, int64_t first,
                            int64_t span)
{
    spc_status status = SPC_OK;
    int step = (map->offsets + MOST_OFFSETS - 1) / MOST_OFFSETS;

    *count = 0;
    for (int k = 0; k < map->offsets && status == SPC_OK; k += step) {
        status =
            spc_copy_to_host(g->bed->ctx, seen + *count,
                             map->index + (int64_t)k * map->rows_padded + first,
                             (size_t)span * sizeof(*seen));
        *count += (int)span;
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* How often the input at `from` of a sorted list occurs; *next is behind. */
static int occurs(const int32_t *seen, int count, int from, int *next)
{
    for (*next = from; *next < count && seen[*next] == seen[from];)
        ++*next;
    return *next - from;
}

/* The first two behind a place that is drawn which occur equally often. */
static bool find_twins(int64_t twins[2], int32_t *seen, int count,
                       spc__random *random)
{
    int at = 0, next;

    qsort(seen, (size_t)count, sizeof(*seen), compare);
    while (at < count && seen[at] < 0)
        at++;
    if (at == count)
        return false;
    at += (int)below(random, count - at);
    while (at > 0 && seen[at] == seen[at - 1])
        at--;
    int wanted = 0, found = -1;
    for (int from = at; from < count; from = next) {
        int times = occurs(seen, count, from, &next);
        if (found >= 0 && times == wanted) {
            twins[0] = seen[found];
            twins[1] = seen[from];
            return true;
        }
        if (found < 0 || below(random, 8) == 0)
            found = from, wanted = times;
    }
    return false;
}

static spc_status draw_seen(int64_t twins[2], bool *found, const spc__gate *g,
                            const spc_map_view *map, int64_t rows_out,
                            spc__random *random)
{
    int tile_rows = spc__plan_launch(g->tested->plan)->tile_rows;
    int64_t span = draw_span(tile_rows, random);
    int64_t first = below(random, (rows_out + span - 1) / span) * span;
    size_t bytes = (size_t)(span * MOST_OFFSETS) * sizeof(int32_t);
    int32_t *seen = malloc(bytes);
    int count;

    if (seen == NULL)
        return spc__fail_memory(spc__error_of(g->bed->ctx), bytes);
    spc_status status = read_span(seen, &count, g, map, first, span);
    *found = status == SPC_OK && find_twins(twins, seen, count, random);
    free(seen);
    return status;
}

spc_status spc__gate_draw_twins(int64_t twins[2], const spc__gate *g, int s,
                                spc__random *random)
{
    const spc__sample_scene *scene = &g->bed->sample->scenes[s];
    const spc_plan *plan = g->tested->plan;
    spc_conv_args args = {0};
    spc_status status = SPC_OK;
    bool found = false;

    if (g->bed->maps[s] != NULL && plan->geometry.reads_table &&
        spc__plan_view_map(&args, g->bed->maps[s], &plan->geometry) &&
        args.map.index != NULL)
        status =
            draw_seen(twins, &found, g, &args.map, scene->rows_out, random);
    if (!found)
        draw_neighbours(twins, scene->rows_in, random);
    return status;
}
