/*
 * spc_stream.cuh - the steps of a worker: (tile, offset present in the tile),
 * one after another without a break, for output-stationary kernels.
 *
 * A worker's tiles are every `workers`-th of the tiles by falling cost, in a
 * snake, so that heavy and light ones even out; or, after the first turns,
 * those of a list that spc_balance.cuh makes meanwhile. Masks are unrolled into
 * steps tile by tile, all lanes at once, into a small ring in shared memory
 * that belongs to one warp; what is left to do for a step is one 8-byte load.
 * (Kernels of this kind are bound by instructions: picking offsets from a mask
 * one by one cost more than the products.)
 *
 * The centre offset ends its tile: its indices are the tile's output rows.
 */
#ifndef SPC_STREAM_CUH
#define SPC_STREAM_CUH

#include "spc_balance.cuh"
#include "spc_device.cuh"

#define SPC_STEP_LAST 0x10000 /* this step ends its tile */
#define SPC_STEP_OFFSET 0xffff

/* Steps of a warp's ring: a multiple of every bundle size up to 8, and room for
 * one mask word, one bundle and what is being multiplied. */
#define SPC_STREAM_STEPS 48
#define SPC_STREAM_BYTES (SPC_STREAM_STEPS * 8)

/*
 * A step in the ring is two words: where its indices begin (element of
 * map->index for the tile's first row), and its offset with SPC_STEP_LAST.
 * Past the end stand steps of offset 0 without SPC_STEP_LAST, which do no harm:
 * their sums are never stored.
 */
typedef struct spc_stream {
    spc_u8 *ring;
    int worker, workers;
    int entry;  /* next (tile, mask word) to unroll */
    int filled; /* steps unrolled so far, in all */
    int place;  /* filled % SPC_STREAM_STEPS */
    int ended;
    spc_u32 lane_mask; /* lane l: of entry l of those at hand */
    int lane_tile;
    const int *list;  /* or NULL: then 32 entries are at hand, and the rest is
                         not used */
    int base, window; /* entries base .. base + window - 1 are at hand */
    spc_u64 *listed;  /* the barrier behind which the list is complete */
    int from;         /* the first turn of the list */
    int waited;
} spc_stream;

/* Which of the entries at hand is next. */
SPC_DEVICE int spc_stream_at(const spc_stream *s)
{
    return s->list == (const int *)0 ? s->entry & 31 : s->entry - s->base;
}

SPC_DEVICE int spc_stream_used_up(const spc_stream *s)
{
    if (s->list == (const int *)0)
        return s->entry != 0 && (s->entry & 31) == 0;
    return s->entry - s->base == s->window;
}

/* How many of the next entries are known without waiting in vain. */
SPC_DEVICE int spc_stream_window(spc_stream *s, int words)
{
    int snake = s->from * words - s->entry;

    if (snake > 0)
        return snake < 32 ? snake : 32;
    if (!s->waited)
        spc_mbar_wait(s->listed, 0);
    s->waited = 1;
    return 32;
}

SPC_DEVICE int spc_stream_rank(const spc_stream *s, int turn)
{
    if (s->list == (const int *)0 || turn < s->from)
        return spc_snake_rank(turn, s->worker, s->workers);
    turn -= s->from;
    return turn < SPC_BALANCE_TILES ? s->list[turn] : -1;
}

SPC_DEVICE void spc_stream_reload(spc_stream *s, const spc_map_view *map,
                                  int words)
{
    int entry = s->entry + spc_lane();
    int word = entry % words, rank = -1;

    if (s->list != (const int *)0) {
        s->base = s->entry;
        s->window = spc_stream_window(s, words);
    }
    if (s->list == (const int *)0 || spc_lane() < s->window)
        rank = spc_stream_rank(s, entry / words);
    s->lane_mask = 0;
    s->lane_tile = -1;
    if (rank >= 0 && rank < map->tiles) {
        s->lane_mask = spc_load4(map->tile_mask + word * map->tiles + rank);
        s->lane_tile = spc_load_int(map->tile_order + rank);
    }
}

/* `ring` is SPC_STREAM_BYTES of shared memory, 16-byte aligned. With a list,
 * some other warp calls spc_balance and then arrives at `listed`. */
SPC_DEVICE void spc_stream_start_balanced(spc_stream *s, spc_u8 *ring,
                                          const spc_map_view *map, int worker,
                                          int workers, int words,
                                          const int *list, spc_u64 *listed)
{
    s->ring = ring;
    s->worker = worker;
    s->workers = workers;
    s->entry = 0;
    s->filled = 0;
    s->place = 0;
    s->ended = 0;
    s->list = list;
    s->listed = listed;
    s->from = spc_balance_from(map, workers);
    s->waited = 0;
    spc_stream_reload(s, map, words);
}

SPC_DEVICE void spc_stream_start(spc_stream *s, spc_u8 *ring,
                                 const spc_map_view *map, int worker,
                                 int workers, int words)
{
    spc_stream_start_balanced(s, ring, map, worker, workers, words,
                              (const int *)0, (spc_u64 *)0);
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

/*
 * Unrolls until at least `wanted` steps (in all, from the start) are in the
 * ring or there are no more; the whole warp calls it. `tile_rows`, `words`
 * (mask words of a tile) and `centre` are constants of the caller.
 */
SPC_DEVICE void spc_stream_fill(spc_stream *s, const spc_map_view *map,
                                int wanted, int tile_rows, int words,
                                int centre)
{
    int lane = spc_lane();

    if (s->filled >= wanted || s->ended)
        return;
    spc_sync_warp(); /* all lanes have read what is overwritten now */
    do {
        int word = s->entry % words, tile;
        spc_u32 mask, at;

        if (spc_stream_used_up(s))
            spc_stream_reload(s, map, words);
        tile = spc_shfl(s->lane_tile, spc_stream_at(s));
        mask = (spc_u32)spc_shfl((int)s->lane_mask, spc_stream_at(s));
        if (tile < 0) {
            s->ended = 1;
            if (lane < 24) /* a bundle ends, two more look past it */
                spc_stream_put(s, lane, 0, 0);
            break;
        }
        s->entry++;
        at = (spc_u32)tile * tile_rows;
        if (word == centre / 32)
            mask &= ~(1u << (centre & 31));
        if (mask >> lane & 1)
            spc_stream_put(s, spc_popc(mask & ((1u << lane) - 1)),
                           (spc_u32)(word * 32 + lane) * map->rows_padded + at,
                           word * 32 + lane);
        spc_stream_advance(s, spc_popc(mask));
        if (word == words - 1) {
            if (lane == 0)
                spc_stream_put(s, 0, (spc_u32)centre * map->rows_padded + at,
                               centre | SPC_STEP_LAST);
            spc_stream_advance(s, 1);
        }
    } while (s->filled < wanted);
    spc_sync_warp();
}

/* The step at a ring place (step number % SPC_STREAM_STEPS). */
SPC_DEVICE spc_b8 spc_stream_step(const spc_stream *s, int place)
{
    return spc_shared_load8(s->ring + place * 8);
}

#endif
