/*
 * spc_stream.cuh - the steps of a worker: (tile, offset present in the tile),
 * one after another without a break, for output-stationary kernels.
 *
 * Tiles by falling cost are dealt in a snake to their owners, which are workers
 * or blocks, or they go to blocks as spc_balance.cuh assigns them. The workers
 * of a block share its tiles. Each next tile goes to the worker with the least
 * load (longest processing time first; Graham 1969). Every warp computes this
 * itself, so no warp waits for another. Masks are unrolled into steps tile by
 * tile, by all lanes at once, into a small ring in shared memory that belongs
 * to one warp. Reading a step is then one 8-byte load. (Kernels of this kind
 * are bound by instructions: picking offsets from a mask one by one cost more
 * than the products.)
 *
 * The last step of a tile is marked. If the map has a centre, the last step is
 * that of the centre, and its indices are the tile's output rows. If the map
 * lacks a centre (`centre` < 0), the last step is that of the last offset in
 * the tile, or of offset 0 if the tile has no offset. Its output rows are then
 * those of map->order, from spc_step_position on.
 */
#ifndef SPC_STREAM_CUH
#define SPC_STREAM_CUH

#include "spc_balance.cuh"
#include "spc_device.cuh"

#define SPC_STEP_LAST 0x10000 /* this step ends its tile */
#define SPC_STEP_END 0x20000  /* there are no more steps */
#define SPC_STEP_OFFSET 0xffff

/*
 * Steps in a warp's ring. The number is a multiple of all bundle sizes (1, 2,
 * 3, 4, 6, 8). There is space for a mask word with the centre after two bundles
 * less a step, or for three bundles past the end.
 */
#ifndef SPC_STREAM_STEPS
#define SPC_STREAM_STEPS 48
#endif
#define SPC_STREAM_BYTES (SPC_STREAM_STEPS * 8)

/*
 * A step in the ring is two words: where its indices begin (the element of
 * map->index for the tile's first row), and its offset with SPC_STEP_LAST. Past
 * the end there are steps of offset 0 with SPC_STEP_END. They are harmless,
 * because their sums are never stored.
 */
typedef struct spc_stream {
    spc_u8 *ring;
    int owner, owners;   /* owner of the tiles, owners in the snake */
    int worker, workers; /* this one, of those that share the tiles */
    int turn;            /* of the owner: the first of the 32 in lanes */
    spc_u32 mine; /* bit l: turn + l is this worker's and not yet unrolled */
    int word;     /* of the next tile's mask */
    int filled;   /* steps unrolled so far, in total */
    int place;    /* filled % SPC_STREAM_STEPS */
    int ended;
    /* Lane l, for the tile of turn + l: */
    spc_u32 lane_mask;  /* its mask, if that is one word */
    int lane_last_word; /* the last word of its mask that is not 0 */
    int lane_rank;      /* its rank in map->tile_order */
    int lane_tile;      /* its number */
    /* Lane l, for worker l: */
    int lane_load;          /* steps of its tiles so far */
    const spc_share *share; /* or NULL: the snake */
    spc_u64 *dealt;         /* the barrier after which the share is complete */
} spc_stream;

/* The rank of the tile that is dealt in a turn. */
SPC_DEVICE int spc_stream_rank(const spc_stream *s, int turn)
{
    if (turn > 0 && s->share != (const spc_share *)0)
        return spc_share_rank(s->share, turn - 1);
    return spc_snake_rank(turn, s->owner, s->owners);
}

/* Divides the next `count` tiles, whose costs the lanes hold, among the
 * workers. Returns the tiles of this worker. */
SPC_DEVICE spc_u32 spc_stream_divide(spc_stream *s, int count, int cost)
{
    int lane = spc_lane(), first = 0;
    spc_u32 mine = 0;

    if (s->turn == 0) { /* one tile for each worker */
        /* Lanes without a worker get a load that is never the least. */
        s->lane_load = lane < s->workers ? cost : 0x3ffffff;
        mine = 1u << s->worker;
        first = s->workers;
    }
    SPC_ROLLED
    for (int i = first; i < count; i++) {
        int least =
            (int)(spc_warp_min((spc_u32)(s->lane_load * 32 + lane)) & 31);
        int steps = spc_shfl(cost, i);
        if (lane == least)
            s->lane_load += steps;
        if (s->worker == least)
            mine |= 1u << i;
    }
    return mine;
}

/* Moves to the next 32 tiles, up to the end of the table or of the owner's
 * tiles. While a share is being dealt, moves to its first tile only. */
SPC_DEVICE void spc_stream_turn(spc_stream *s, const spc_map_view *map,
                                int words, int centre)
{
    int turn, rank = map->tiles, tile = -1, cost = 0, last_word = 0;

    s->turn += 32;
    turn = s->turn + spc_lane();
    if (s->share != (const spc_share *)0 && s->turn > 0)
        spc_mbar_wait(s->dealt, 0);
    if (turn >= 0)
        rank = spc_stream_rank(s, turn);
    if (rank < map->tiles) {
        tile = spc_load_int(map->tile_order + rank);
        for (int w = 0; w < words; w++) {
            s->lane_mask = spc_load4(map->tile_mask + w * map->tiles + rank);
            cost += spc_popc(s->lane_mask);
            if (s->lane_mask != 0)
                last_word = w;
        }
    }
    /* Such a tile has one step, which stores its rows. */
    if (centre < 0 && cost == 0)
        cost = 1;
    s->lane_rank = rank;
    s->lane_tile = tile;
    s->lane_last_word = last_word;
    s->mine = spc_ballot(tile >= 0);
    s->ended = s->mine == 0;
    if (s->workers > 1)
        s->mine &= spc_stream_divide(s, spc_popc(s->mine), cost);
}

/* Deals tiles to workers: this is one of `workers`. `ring` is SPC_STREAM_BYTES
 * of shared memory, aligned to 16 bytes. */
SPC_DEVICE void spc_stream_start(spc_stream *s, spc_u8 *ring, int worker,
                                 int workers)
{
    s->ring = ring;
    s->owner = worker;
    s->owners = workers;
    s->worker = 0;
    s->workers = 1;
    s->turn = -32;
    s->mine = 0;
    s->word = 0;
    s->filled = 0;
    s->place = 0;
    s->ended = 0;
    s->lane_mask = 0;
    s->lane_last_word = 0;
    s->lane_tile = 0;
    s->lane_load = 0;
    s->share = (const spc_share *)0;
    s->dealt = (spc_u64 *)0;
}

/* Deals tiles to blocks, whose workers share them. `workers` is a constant of
 * the caller. */
SPC_DEVICE void spc_stream_start_shared(spc_stream *s, spc_u8 *ring, int worker,
                                        int workers)
{
    spc_stream_start(s, ring, spc_block_x(), spc_grid_x());
    s->worker = worker;
    s->workers = workers;
}

/* The block has one worker. Another warp finds the block's share with
 * spc_balance, and then each lane of that warp arrives at `dealt`. */
SPC_DEVICE void spc_stream_start_balanced(spc_stream *s, spc_u8 *ring,
                                          const spc_share *share,
                                          spc_u64 *dealt)
{
    spc_stream_start(s, ring, spc_block_x(), spc_grid_x());
    /* The first call of spc_stream_turn then sees turn 0 in lane 31 alone,
     * while spc_balance deals the rest. */
    s->turn = -63;
    s->share = share;
    s->dealt = dealt;
}

SPC_DEVICE void spc_stream_put(const spc_stream *s, int ahead, spc_u32 at,
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

SPC_DEVICE void spc_stream_advance(spc_stream *s, int steps)
{
    s->filled += steps;
    s->place += steps;
    if (s->place >= SPC_STREAM_STEPS)
        s->place -= SPC_STREAM_STEPS;
}

/* Adds the steps of the offsets in one word of a tile's mask. The tile begins
 * at position `at`. `last`: the highest offset ends the tile. */
SPC_DEVICE void spc_stream_unroll(spc_stream *s, const spc_map_view *map,
                                  spc_u32 mask, spc_u32 at, int last)
{
    int lane = spc_lane(), offset = s->word * 32 + lane;

    if (mask >> lane & 1)
        spc_stream_put(s, spc_popc(mask & ((1u << lane) - 1)),
                       (spc_u32)offset * map->rows_padded + at,
                       offset |
                           (last && mask >> lane == 1 ? SPC_STEP_LAST : 0));
    spc_stream_advance(s, spc_popc(mask));
}

/* Adds the next word of the tile that lane `next` holds. */
SPC_DEVICE void spc_stream_next_word(spc_stream *s, const spc_map_view *map,
                                     int next, int tile_rows, int words,
                                     int centre)
{
    int last_word = words - 1;
    spc_u32 at = (spc_u32)spc_shfl(s->lane_tile, next) * tile_rows, mask;

    if (words == 1) {
        mask = (spc_u32)spc_shfl((int)s->lane_mask, next);
    } else {
        int rank = spc_shfl(s->lane_rank, next);
        mask = spc_load4(map->tile_mask + s->word * map->tiles + rank);
    }
    if (centre >= 0) {
        /* The centre comes last, in a step of its own. */
        if (s->word == centre / 32)
            mask &= ~(1u << (centre & 31));
        spc_stream_unroll(s, map, mask, at, 0);
    } else {
        if (words > 1)
            last_word = spc_shfl(s->lane_last_word, next);
        if (s->word == last_word && mask == 0)
            mask = 1; /* a tile of rows without an input */
        spc_stream_unroll(s, map, mask, at, s->word == last_word);
    }
    /* This form lets nvcc see that the whole warp takes the same branch. */
    s->word++;
    if (s->word == (centre >= 0 ? words : last_word + 1)) {
        if (centre >= 0) {
            if (spc_lane() == 0)
                spc_stream_put(s, 0, (spc_u32)centre * map->rows_padded + at,
                               centre | SPC_STEP_LAST);
            spc_stream_advance(s, 1);
        }
        s->word = 0;
        /* The tile is done, so the lowest set bit, which is this tile's, is
         * cleared. */
        s->mine &= s->mine - 1;
    }
}

/*
 * Unrolls until at least `wanted` steps (in total, from the start) are in the
 * ring or none are left. The whole warp calls it. `tile_rows`, `words` (mask
 * words of a tile) and `centre` are constants of the caller.
 */
SPC_DEVICE void spc_stream_fill(spc_stream *s, const spc_map_view *map,
                                int wanted, int tile_rows, int words,
                                int centre)
{
    int lane = spc_lane();

    if (s->filled >= wanted || s->ended)
        return;
    spc_sync_warp(); /* all lanes have read what is now overwritten */
    do {
        while (s->mine == 0 && !s->ended)
            spc_stream_turn(s, map, words, centre);
        if (s->ended) {
            if (lane < 24) /* readers look three bundles past the end */
                spc_stream_put(s, lane, 0, SPC_STEP_END);
            break;
        }
        spc_stream_next_word(s, map, spc_ffs(s->mine) - 1, tile_rows, words,
                             centre);
    } while (s->filled < wanted);
    spc_sync_warp();
}

/* The position of the first row of a step's tile. */
SPC_DEVICE int spc_step_position(spc_b8 step, const spc_map_view *map)
{
    return (int)step.x - (int)(step.y & SPC_STEP_OFFSET) * map->rows_padded;
}

/* The step at a ring position (step number % SPC_STREAM_STEPS). */
SPC_DEVICE spc_b8 spc_stream_step(const spc_stream *s, int place)
{
    return spc_shared_load8(s->ring + place * 8);
}

#endif
