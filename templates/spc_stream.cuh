/*
 * spc_stream.cuh - the steps of a worker: (tile, offset present in the tile),
 * one after another without a break, for output-stationary kernels.
 *
 * A worker's tiles are every `workers`-th of the tiles by falling cost, in a
 * snake, so that heavy and light ones even out; or, after the first, those of
 * its share, which spc_balance.cuh makes meanwhile. Masks are unrolled into
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
#define SPC_STEP_END 0x20000  /* there are no more steps */
#define SPC_STEP_OFFSET 0xffff

/* Steps of a warp's ring: a multiple of every bundle size up to 8, and room for
 * one mask word, one bundle and what is being multiplied. */
#ifndef SPC_STREAM_STEPS
#define SPC_STREAM_STEPS 48
#endif
#define SPC_STREAM_BYTES (SPC_STREAM_STEPS * 8)

/*
 * A step in the ring is two words: where its indices begin (element of
 * map->index for the tile's first row), and its offset with SPC_STEP_LAST.
 * Past the end stand steps of offset 0 with SPC_STEP_END, which do no harm: their
 * sums are never stored.
 */
typedef struct spc_stream {
    spc_u8 *ring;
    int worker, workers;
    int entry;  /* next (tile, mask word) to unroll */
    int filled; /* steps unrolled so far, in all */
    int place;  /* filled % SPC_STREAM_STEPS */
    int ended;
    spc_u32 lane_mask; /* lane l: of entry l of the 32 at hand */
    int lane_tile;
    const spc_share *share; /* or NULL: the snake */
    spc_u64 *dealt;         /* the barrier behind which the share is complete */
} spc_stream;

/* The mask word of an entry. With a share, tiles begin at number 32, and one
 * before. */
SPC_DEVICE int spc_stream_word(const spc_stream *s, int entry, int words)
{
    if (s->share == (const spc_share *)0)
        return entry % words;
    return (entry - 32 + words) % words;
}

/* The next 32 entries. With a share, those before number 32 are of the first
 * tile. */
SPC_DEVICE void spc_stream_reload(spc_stream *s, const spc_map_view *map,
                                  int words)
{
    int entry = (s->entry & ~31) + spc_lane(), rank;

    if (s->share == (const spc_share *)0)
        rank = spc_snake_rank(entry / words, s->worker, s->workers);
    else if (entry >= 32)
        rank = spc_share_rank(s->share, (entry - 32) / words, s->worker,
                              s->workers);
    else
        rank = entry < 32 - words ? map->tiles : s->worker;
    s->lane_mask = 0;
    s->lane_tile = -1;
    if (rank < map->tiles) {
        int word = spc_stream_word(s, entry, words);
        s->lane_mask = spc_load4(map->tile_mask + word * map->tiles + rank);
        s->lane_tile = spc_load_int(map->tile_order + rank);
    }
}

SPC_DEVICE void spc_stream_open(spc_stream *s, spc_u8 *ring, int worker,
                                int workers)
{
    s->ring = ring;
    s->worker = worker;
    s->workers = workers;
    s->filled = 0;
    s->place = 0;
    s->ended = 0;
    s->share = (const spc_share *)0;
}

/* `ring` is SPC_STREAM_BYTES of shared memory, 16-byte aligned. */
SPC_DEVICE void spc_stream_start(spc_stream *s, spc_u8 *ring,
                                 const spc_map_view *map, int worker,
                                 int workers, int words)
{
    spc_stream_open(s, ring, worker, workers);
    s->entry = 0;
    spc_stream_reload(s, map, words);
}

/* Some warp calls spc_balance, and then each of its lanes arrives at `dealt`. If
 * that makes this worker late, it has no first tile. */
SPC_DEVICE void spc_stream_start_share(spc_stream *s, spc_u8 *ring,
                                       const spc_map_view *map, int worker,
                                       int workers, int late, int words,
                                       const spc_share *share, spc_u64 *dealt)
{
    spc_stream_open(s, ring, worker, workers);
    s->share = share;
    s->dealt = dealt;
    s->entry = late ? 32 : 32 - words;
    if (!late)
        spc_stream_reload(s, map, words);
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
        int word = spc_stream_word(s, s->entry, words), tile;
        spc_u32 mask, at;

        if (s->entry > 0 && (s->entry & 31) == 0) {
            if (s->share != (const spc_share *)0)
                spc_mbar_wait(s->dealt, 0);
            spc_stream_reload(s, map, words);
        }
        tile = spc_shfl(s->lane_tile, s->entry & 31);
        mask = (spc_u32)spc_shfl((int)s->lane_mask, s->entry & 31);
        if (tile < 0) {
            s->ended = 1;
            if (lane < 24) /* a bundle ends, two more look past it */
                spc_stream_put(s, lane, 0, SPC_STEP_END);
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
