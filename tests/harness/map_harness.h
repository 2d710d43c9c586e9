/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_harness.h - reads maps back from a device, and compares every layout with
 * the map's index.
 */
#ifndef SPC_TESTS_MAP_HARNESS_H
#define SPC_TESTS_MAP_HARNESS_H

#include "coords/map.h"
#include "harness/suite.h"

#define assert_ok(ctx, call)                                                   \
    do {                                                                       \
        spc_status status_ = (call);                                           \
        ck_assert_msg(status_ == SPC_OK, "%s: %s", #call,                      \
                      (ctx) ? spc_ctx_error(ctx) : "");                        \
    } while (0)

/* Check reports every assertion to its parent process. In loops over a map
 * these reports would take most of the time. */
#define require(condition, ...)                                                \
    do {                                                                       \
        if (!(condition))                                                      \
            ck_abort_msg(__VA_ARGS__);                                         \
    } while (0)

static void *fetch(spc_ctx *ctx, const void *from, size_t count)
{
    void *to = malloc(4 * count + 4);

    ck_assert_ptr_nonnull(to);
    assert_ok(ctx, spc_memory_download(to, ctx, from, 4 * count));
    return to;
}

/* The range of a view's offsets. */
typedef struct view_part {
    int begin, end;
    bool is_group;
} view_part;

/* Checks that row order, masks and index of a view are one permutation of the
 * plain map, restricted to the view's offsets. */
static void check_rows(const spc_map_view *v, const view_part *part,
                       const int *order, const int *index, const unsigned *mask,
                       const int32_t *plain)
{
    char *seen = calloc((size_t)v->rows + 1, 1);
    size_t padded = (size_t)v->rows_padded, rows = (size_t)v->rows;
    size_t end = (rows + SPC_ROW_PAD - 1) / SPC_ROW_PAD * SPC_ROW_PAD;

    for (size_t p = 0; p < end; p++) {
        int row = order[p];
        require(p < rows ? row >= 0 && row < v->rows : row == -1,
                "order[%d] is %d", (int)p, row);
        require(row < 0 || !seen[row]++, "row %d twice", row);
        for (int i = 0; i < v->offsets; i++) {
            size_t k = (size_t)i;
            int want = row < 0 ? -1 : plain[k * rows + (size_t)row];
            bool bit = mask[k / 32 * padded + p] >> k % 32 & 1u;
            if (i < part->begin || i >= part->end) {
                require(!bit, "offset %d at %d is another group's", i, (int)p);
                continue;
            }
            require(index[k * padded + p] == want && bit == (want >= 0),
                    "offset %d at %d: %d with bit %d, not %d", (int)k, (int)p,
                    index[k * padded + p], bit, want);
        }
    }
    free(seen);
}

static unsigned tile_word(const spc_map_view *v, const unsigned *mask, int tile,
                          int word)
{
    unsigned all = 0;

    for (int i = 0; i < v->tile_rows; i++) {
        int p = tile * v->tile_rows + i;
        if (p < v->rows_padded)
            all |= mask[(size_t)word * (size_t)v->rows_padded + (size_t)p];
    }
    return all;
}

/* Counts the tiles with at least one offset. */
static int count_tiles(const spc_map_view *v, const unsigned *mask)
{
    int tiles = (v->rows + v->tile_rows - 1) / v->tile_rows, some = 0;

    for (int t = 0; t < tiles; t++) {
        unsigned any = 0;
        for (int w = 0; w < v->mask_words; w++)
            any |= tile_word(v, mask, t, w);
        some += any != 0;
    }
    return some;
}

/* Checks that tiles are sorted by descending cost, that equal ones keep their
 * order, and that their masks are right. */
static void check_tiles(spc_ctx *ctx, const spc_map_view *v,
                        const view_part *part, const unsigned *mask)
{
    size_t words = (size_t)(v->tiles * v->mask_words);
    int *order = fetch(ctx, v->tile_order, (size_t)v->tiles);
    unsigned *tile_mask = fetch(ctx, v->tile_mask, words);
    int *begin = fetch(ctx, v->tile_begin, (size_t)v->offsets);
    int last_cost = v->offsets, last_tile = -1, begun = 0;
    int all = (v->rows + v->tile_rows - 1) / v->tile_rows;
    int tiles = part->is_group ? count_tiles(v, mask) : all;

    ck_assert_int_ge(v->tiles, all);
    for (int t = tiles; t < v->tiles; t++)
        require(order[t] == -1 && tile_mask[t] == 0,
                "entry %d past the last tile: tile %d", t, order[t]);
    for (int t = 0; t < tiles; t++) {
        int cost = 0;
        require(order[t] >= 0 && order[t] < all, "tile %d", order[t]);
        for (int w = 0; w < v->mask_words; w++) {
            unsigned want = tile_word(v, mask, order[t], w);
            require(tile_mask[w * v->tiles + t] == want,
                    "word %d of tile %d: %x, not %x", w, t,
                    tile_mask[w * v->tiles + t], want);
            cost += __builtin_popcount(want);
        }
        require(cost <= last_cost, "tile %d costs %d", t, cost);
        require(cost != last_cost || order[t] > last_tile,
                "tile %d is out of order", t);
        for (; begun <= v->offsets - cost && begun < v->offsets; begun++)
            require(begin[begun] == t, "cost %d begins at %d, not %d",
                    v->offsets - begun, begin[begun], t);
        last_cost = cost;
        last_tile = order[t];
    }
    for (; begun < v->offsets; begun++)
        require(begin[begun] == tiles, "cost %d begins at %d, not %d",
                v->offsets - begun, begin[begun], tiles);
    free(order);
    free(tile_mask);
    free(begin);
}

/* Returns the row order of a group of offsets, [rows_padded]. */
static int *check_group(spc_ctx *ctx, const spc_map *map, const char *name,
                        int tile_rows, int group, const int32_t *plain)
{
    int groups = spc__row_order_groups(spc__row_order_find(name));
    view_part part = {spc__group_begin(group, groups, map->offsets),
                      spc__group_begin(group + 1, groups, map->offsets),
                      groups > 1};
    spc_map_view v;

    ck_assert(spc__map_view_group(&v, map, name, tile_rows, group));
    v.rows = (int)spc_map_rows_out(map); /* tiles of the capacity */
    size_t padded = (size_t)v.rows_padded;
    int *order = fetch(ctx, v.order, padded);
    int *index = fetch(ctx, v.index, padded * (size_t)v.offsets);
    unsigned *mask = fetch(ctx, v.mask, padded * (size_t)v.mask_words);

    ck_assert_int_eq(v.rows_padded % SPC_ROW_PAD, 0);
    check_rows(&v, &part, order, index, mask, plain);
    if (tile_rows)
        check_tiles(ctx, &v, &part, mask);
    free(index);
    free(mask);
    return order;
}

static inline int *check_view(spc_ctx *ctx, const spc_map *map,
                              const char *name, int tile_rows,
                              const int32_t *plain)
{
    return check_group(ctx, map, name, tile_rows, 0, plain);
}

static inline void check_layouts(spc_ctx *ctx, spc_map *map,
                                 const int32_t *plain)
{
    static const struct {
        const char *order;
        int tile_rows;
    } views[] = {{"none", 0},   {"none", 16},   {"gray", 32},
                 {"gray", 64},  {"gray", 192},  {"none", 256},
                 {"gray_x", 3}, {"gray_y", 64}, {"gray_x", 16}};

    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        assert_ok(ctx, spc__map_prepare(map, views[i].order, views[i].tile_rows,
                                        NULL));
        assert_ok(ctx, spc_ctx_synchronize(ctx));
        free(check_view(ctx, map, views[i].order, views[i].tile_rows, plain));
    }
}

#endif
