/*
 * spc_span.cuh - the steps of a block that sums a part of a tile, for maps with
 * fewer tiles than the device has multiprocessors.
 *
 * A unit is (tile, offset that the tile has, block of input channels). In the
 * first scheme all units of a map, tile after tile in tile_order, are divided
 * evenly among the blocks of the grid, whatever their number (stream-K; Osama,
 * Merrill, Cecka, Garland, Owens 2023). A block then has a run of tiles, and
 * other blocks sum parts of the first and the last of them. In the second
 * scheme each tile has a cluster of blocks, and its units are divided among
 * these. If there are more tiles than clusters, a cluster takes several tiles
 * one after the other, dealt in a snake.
 *
 * The parts of a tile follow from the table of tiles alone. No block waits for
 * another, and the same grid gives the same parts. A step is as in
 * spc_stream.cuh. Its code also contains the blocks of input channels that
 * belong to it and, for parts of a grid, whether the part has the first and the
 * last unit of the tile. A tile may have fewer units than its cluster has
 * blocks: a part without units is one step of void rows. Output rows are always
 * those of map->order.
 */
#ifndef SPC_SPAN_CUH
#define SPC_SPAN_CUH

#include "spc_stream.cuh"

/*
 * Blocks of input channels, at most 64: a step has those from FIRST to FINAL.
 */
#define SPC_STEP_FIRST(code) ((int)((code) >> 18 & 63))
#define SPC_STEP_FINAL(code) ((int)((code) >> 24 & 63))
#define SPC_STEP_HEAD 0x40000000u /* the part has its tile's first unit */
#define SPC_STEP_TAIL 0x80000000u /* and the last: with both it is the tile */
#define SPC_STEP_VOID 0x40000000u /* in a cluster: the part has no unit */
#define SPC_STEP_ODD 0x80000000u  /* likewise: of its second tile, its fourth... */

typedef struct spc_span {
    spc_u8 *ring; /* as in spc_stream */
    int filled, place, ended;
    int rank;  /* of the tile that is unrolled, in map->tile_order */
    int begin; /* first unit of this block in the tile */
    int left;  /* units left for the block, including this tile's */
    int word;  /* of its mask, the next; -1: the tile has not been read */
    int units; /* of the tile */
    int tile;  /* its number */
    int turn;  /* tiles that the block's cluster has begun */
    /* Lane w, for word w of the mask; there are at most 32: */
    spc_u32 lane_mask;
    int lane_before; /* offsets in earlier words */
} spc_span;

/* The sum over this lane and all lower lanes. */
SPC_DEVICE int spc_scan(int v)
{
    int lane = spc_lane();

    SPC_UNROLL
    for (int by = 1; by < 32; by *= 2) {
        int below = spc_shfl_up(v, by);
        if (lane >= by)
            v += below;
    }
    return v;
}

/*
 * The number of tiles, which is the position of the table's first -1. It is
 * where map->rows end unless those are a capacity. In that case 128 positions
 * are read at a time, because each read has the latency of memory. `tile_rows`
 * is a constant of the caller, here and below.
 */
SPC_DEVICE int spc_count_tiles(const spc_map_view *map, int tile_rows)
{
    int tiles = (map->rows + tile_rows - 1) / tile_rows;
    int place = tiles - 1 + (spc_lane() & 1), there = place < 0;
    if (place >= 0 && place < map->tiles)
        there = spc_load_int(map->tile_order + place) >= 0;
    /* Lane 0 sees the last expected tile and lane 1 the first -1: the rows are
     * exact, and one load has answered. */
    if ((spc_ballot(there) & 3u) == 1u)
        return tiles;

    int low = 0, high = map->tiles;

    while (low < high) {
        int stride = (high - low + 127) / 128, seen = 0, tile[4];
        SPC_UNROLL
        for (int i = 0; i < 4; i++) {
            int at = low + (i * 32 + spc_lane()) * stride;
            tile[i] = at < high ? spc_load_int(map->tile_order + at) : -1;
        }
        SPC_UNROLL
        for (int i = 0; i < 4; i++)
            seen += spc_popc(spc_ballot(tile[i] >= 0));
        if (seen == 0)
            return low;
        if (low + seen * stride < high)
            high = low + seen * stride;
        /* The last position that holds a tile is known, so the search continues
         * after it. */
        low += (seen - 1) * stride + 1;
    }
    return low;
}

SPC_DEVICE void spc_span_start(spc_span *s, spc_u8 *ring)
{
    s->ring = ring;
    s->filled = 0;
    s->place = 0;
    s->ended = 0;
    s->rank = 0;
    s->begin = 0;
    s->left = 0;
    s->word = -1;
    s->turn = 0;
}

/*
 * The block's share of all units. `blocks` is the number of blocks of input
 * channels. The whole warp calls it. Tiles of one cost form a class. The table
 * map->tile_begin has the first tile of each class. Lane l has the classes l,
 * l + 32..., and requests all of them at once. A tile without an offset counts
 * like a tile with one.
 */
SPC_DEVICE void spc_span_of_grid(spc_span *s, const spc_map_view *map,
                                 int tile_rows, int offsets, int blocks)
{
    int lane = spc_lane(), block = spc_block_x();
    int begin[32], end[32]; /* `offsets` is a constant and limits how many are used */
    int tiles, all = 0, share, rest, first;

    SPC_UNROLL
    for (int w = 0; w < 32; w++) {
        int at = w * 32 + lane;
        begin[w] = 0;
        if (w * 32 < offsets)
            spc_load4_into((spc_u32 *)begin + w, map->tile_begin + at,
                           at < offsets ? 0 : -1);
    }
    /* The loads above are under way meanwhile: one trip to memory instead of
     * two. */
    tiles = spc_count_tiles(map, tile_rows);
    SPC_UNROLL
    for (int w = 0; w < 32; w++) { /* end: of its units, counted over all classes */
        if (w * 32 >= offsets)
            break;
        int at = w * 32 + lane, next = spc_shfl(begin[w], (lane + 1) & 31);
        int beyond = spc_shfl(begin[w < 31 ? w + 1 : w], 0);
        next = at + 1 >= offsets ? tiles : lane == 31 ? beyond : next;
        end[w] = all + spc_scan(at < offsets ? (next - begin[w]) * (offsets - at) * blocks : 0);
        all = spc_shfl(end[w], 31);
    }
    share = all / spc_grid_x();
    rest = all - share * spc_grid_x(); /* the first blocks have one more */
    first = block * share + (block < rest ? block : rest);
    s->left = share + (block < rest);
    /* Finds the class with unit number `first`: the first one that ends after
     * it. Its tiles all have the same number of units, so the tile follows by a
     * division. */
    int into = first, cost = 1, rank = 0, sought = s->left > 0;
    SPC_UNROLL
    for (int w = 0; w < 32; w++) {
        if (w * 32 >= offsets)
            break;
        spc_u32 behind = spc_ballot(end[w] > first);
        int at = spc_ffs(behind) - 1; /* -1: another word's */
        int before = spc_shfl(end[w], at > 0 ? at - 1 : 31);
        int from = spc_shfl(begin[w], at & 31);
        if (sought && at != 0)
            into = first - before;
        if (sought && at >= 0) {
            cost = (offsets - w * 32 - at) * blocks;
            rank = from;
            sought = 0;
        }
    }
    s->rank = rank + into / cost;
    s->begin = into % cost;
}

/* Requests the masks of the next tile, and its number, which is -1 past the
 * last tile. */
SPC_DEVICE void spc_span_read(spc_span *s, const spc_map_view *map, int words,
                              int blocks)
{
    int lane = spc_lane(), count;

    s->lane_mask = lane < words
                       ? spc_load4(map->tile_mask + lane * map->tiles + s->rank)
                       : 0u;
    s->tile = spc_load_int(map->tile_order + s->rank);
    count = spc_popc(s->lane_mask);
    s->lane_before = spc_scan(count) - count;
    s->units = spc_shfl(s->lane_before + count, 31) * blocks;
    if (s->units == 0) { /* a tile of rows without an input */
        s->lane_mask = lane == 0 ? 1u : 0u;
        s->lane_before = lane > 0;
        s->units = blocks;
    }
    s->word = 0;
}

/* The share of a cluster's block: part `part` of `parts` of the cluster's next
 * tile. Returns 0 if there is no next tile. */
SPC_DEVICE int spc_span_of_cluster(spc_span *s, const spc_map_view *map,
                                   int words, int blocks, int parts)
{
    int part = spc_block_x() % parts;

    s->rank =
        spc_snake_rank(s->turn++, spc_block_x() / parts, spc_grid_x() / parts);
    if (s->rank >= map->tiles)
        return 0;
    spc_span_read(s, map, words, blocks); /* one memory latency instead of two */
    if (s->tile < 0)
        return 0;
    s->begin = s->units * part / parts;
    s->left = s->units * (part + 1) / parts - s->begin;
    if (s->left == 0) /* an empty part still has one step */
        s->left = -1;
    return 1;
}

SPC_DEVICE void spc_span_put(const spc_span *s, int ahead, spc_u32 at,
                             spc_u32 code)
{
    int place = s->place + ahead;
    spc_b8 step;

    step.x = at;
    step.y = code;
    if (place >= SPC_STREAM_STEPS)
        place -= SPC_STREAM_STEPS;
    spc_shared_store8(s->ring + place * 8, step);
}

SPC_DEVICE void spc_span_advance(spc_span *s, int steps)
{
    s->filled += steps;
    s->place += steps;
    if (s->place >= SPC_STREAM_STEPS)
        s->place -= SPC_STREAM_STEPS;
}

/* Adds the steps of the tile's next mask word that belong to this block: units
 * `begin` to `end` of the tile. */
SPC_DEVICE void spc_span_word(spc_span *s, const spc_map_view *map, int end,
                              int tile_rows, int blocks, spc_u32 flags)
{
    int lane = spc_lane(), offset = s->word * 32 + lane;
    spc_u32 mask = (spc_u32)spc_shfl((int)s->lane_mask, s->word);
    int before = spc_shfl(s->lane_before, s->word);
    int number = before + spc_popc(mask & ((1u << lane) - 1)); /* of the step */
    /* The block's units, counted from the first unit of this lane's offset. */
    int from = s->begin - number * blocks, to = end - number * blocks - 1;
    int mine = (mask >> lane & 1) && from < blocks && to >= 0;
    spc_u32 put = spc_ballot(mine);

    if (mine)
        spc_span_put(s, spc_popc(put & ((1u << lane) - 1)),
                     (spc_u32)offset * map->rows_padded +
                         (spc_u32)s->tile * tile_rows,
                     (spc_u32)offset | (spc_u32)(from > 0 ? from : 0) << 18 |
                         (spc_u32)(to < blocks ? to : blocks - 1) << 24 |
                         (to < blocks ? SPC_STEP_LAST : 0u) | flags);
    spc_span_advance(s, spc_popc(put));
}

/* The parity of a cluster's tile, as a flag in the code of its steps. */
SPC_DEVICE spc_u32 spc_span_odd(const spc_span *s)
{
    return s->turn & 1 ? 0u : SPC_STEP_ODD;
}

/* Adds a step of void rows, which ends a part without units. */
SPC_DEVICE void spc_span_void(spc_span *s, int tile_rows)
{
    if (spc_lane() == 0)
        spc_span_put(s, 0, (spc_u32)s->tile * tile_rows,
                     SPC_STEP_LAST | SPC_STEP_VOID | spc_span_odd(s));
    spc_span_advance(s, 1);
    s->left = 0;
}

/* Adds the steps of the next word of the current tile, or starts the next tile.
 * `parts`: 0, or the blocks of a cluster. */
SPC_DEVICE void spc_span_next(spc_span *s, const spc_map_view *map,
                              int tile_rows, int words, int blocks, int parts)
{
    spc_u32 flags = 0;
    int end;

    if (s->word < 0)
        spc_span_read(s, map, words, blocks);
    end = s->begin + s->left < s->units ? s->begin + s->left : s->units;
    if (parts == 0)
        flags = (s->begin == 0 ? SPC_STEP_HEAD : 0u) |
                (end == s->units ? SPC_STEP_TAIL : 0u);
    else
        flags = spc_span_odd(s);
    spc_span_word(s, map, end, tile_rows, blocks, flags);
    if (++s->word < words)
        return;
    s->left -= end - s->begin;
    s->begin = 0;
    s->rank++;
    s->word = -1;
}

/* Adds steps of this tile or of the next. Returns 0 at the end of the span. */
SPC_DEVICE int spc_span_more(spc_span *s, const spc_map_view *map,
                             int tile_rows, int words, int blocks, int parts)
{
    if (parts > 0 && s->left == 0 &&
        !spc_span_of_cluster(s, map, words, blocks, parts))
        return 0;
    if (parts > 0 && s->left < 0)
        spc_span_void(s, tile_rows);
    else if (s->left > 0)
        spc_span_next(s, map, tile_rows, words, blocks, parts);
    else
        return 0;
    return 1;
}

/*
 * As spc_stream_fill: adds steps until `wanted` steps in total are in the ring
 * or none are left. The arguments after `wanted` are constants of the caller.
 */
SPC_DEVICE void spc_span_fill(spc_span *s, const spc_map_view *map, int wanted,
                              int tile_rows, int words, int blocks, int parts)
{
    if (s->filled >= wanted || s->ended)
        return;
    spc_sync_warp(); /* all lanes have read what is now overwritten */
    while (s->filled < wanted &&
           spc_span_more(s, map, tile_rows, words, blocks, parts)) {
    }
    if (s->filled < wanted) {
        s->ended = 1;
        if (spc_lane() < 24) /* readers look three bundles past the end */
            spc_span_put(s, spc_lane(), 0, SPC_STEP_END);
    }
    spc_sync_warp();
}

/*
 * Returns the row argument for spc_load4_into from a step's index; -1 for void
 * rows.
 */
SPC_DEVICE int spc_span_row(spc_u32 code)
{
    return code & SPC_STEP_VOID ? -1 : 0;
}

#ifdef SPC_SCHEDULE_CUH
/*
 * As spc_schedule_steps: unrolls the whole span of a block; called by one warp.
 */
SPC_DEVICE void spc_schedule_span(spc_schedule *s, spc_span *span,
                                  const spc_map_view *map, int tile_rows,
                                  int words, int blocks, int parts)
{
    int section = 0, oldest = 0, parity = 0;

    for (int wanted = SPC_SECTION;; wanted += SPC_SECTION) {
        if (wanted >
            SPC_STREAM_STEPS - (SPC_SECTIONS_AHEAD - 1) * SPC_SECTION) {
            spc_mbar_wait(&s->read[oldest], parity);
            if (++oldest == SPC_SECTIONS) {
                oldest = 0;
                parity ^= 1;
            }
        }
        spc_span_fill(span, map, wanted, tile_rows, words, blocks, parts);
        spc_mbar_arrive(&s->filled[section]);
        if (++section == SPC_SECTIONS)
            section = 0;
        if (span->filled < wanted)
            break;
    }
    spc_mbar_arrive(&s->filled[section]);
}
#endif

#endif
