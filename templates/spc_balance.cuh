/*
 * spc_balance.cuh - which tiles a worker takes, balanced to within one step.
 *
 * A snake over the tiles by falling cost leaves the busiest worker 5 to 30 % above
 * the mean. Here each next tile goes to the worker with the least to do (longest
 * processing time first; Graham 1969). Costs are small integers, so workers of
 * one load are counted, not listed: a round gives tiles of one cost to workers of
 * one load, and a map takes some fifty rounds, whatever the number of workers.
 * One warp of a block plays them all, while the others work on their first
 * tiles, and notes what the block's own workers get; every block plays the
 * same rounds.
 */
#ifndef SPC_BALANCE_CUH
#define SPC_BALANCE_CUH

#include "spc_device.cuh"

/* What a worker gets after its first tile, whose rank in map->tile_order is the
 * worker's number: `count` ranks, then those of a snake over `rest` and what
 * follows. */
#define SPC_BALANCE_TILES 30
typedef struct spc_share {
    int count, rest;
    int rank[SPC_BALANCE_TILES];
} spc_share;

/* Shared memory of `own` workers, 16-byte aligned, with `words` mask words of a
 * tile: their shares, then what the rounds need. */
#define SPC_BALANCE_BYTES(own, words) ((own)*128 + (words)*256)

/* Which tile of `from` and what follows a worker takes in a turn of a snake. */
SPC_DEVICE int spc_snake_rank(int turn, int worker, int workers)
{
    return turn * workers + ((turn & 1) ? workers - 1 - worker : worker);
}

SPC_DEVICE int spc_tile_cost(const spc_map_view *map, int rank, int words)
{
    int cost = 0;

    for (int w = 0; w < words; w++)
        cost += spc_popc(spc_load4(map->tile_mask + w * map->tiles + rank));
    return cost;
}

/* A level of load: its workers, and the most tiles that one of them has been
 * given. */
#define SPC_LEVEL_WORKERS 0xffff
#define SPC_LEVEL_TILE 0x10000

/* Where each cost begins, and how many of the first tiles have it. */
SPC_DEVICE void spc_balance_open(int *begin, int *level,
                                 const spc_map_view *map, int workers,
                                 int words)
{
    for (int i = spc_lane(); i < words * 32; i += 32) {
        begin[i] = i < map->offsets ? spc_load_int(map->tile_begin + i)
                                    : map->tiles;
        level[i] = 0;
    }
    spc_sync_warp();
    for (int i = spc_lane(); i < map->offsets; i += 32) {
        int end = i + 1 < words * 32 ? begin[i + 1] : map->tiles;
        if (end > workers)
            end = workers;
        if (end > begin[i]) /* levels are counted modulo 32 * words */
            level[(spc_u32)(map->offsets - i) % (words * 32u)] = end - begin[i];
    }
    spc_sync_warp();
}

/*
 * One warp calls it. The block's workers are numbers block, block + grid, ... of
 * own * grid; `memory` is SPC_BALANCE_BYTES, which begin with their shares.
 */
SPC_DEVICE void spc_balance(spc_u8 *memory, const spc_map_view *map, int own,
                            int words)
{
    spc_share *share = (spc_share *)memory + spc_lane();
    int *begin = (int *)((spc_share *)memory + own);
    int *level = begin + words * 32;
    int workers = own * spc_grid_x(), lane = spc_lane();
    int rank = lane * spc_grid_x() + spc_block_x();
    int next = workers, end = 0, cost_class = 0;
    int load = 0, waiting = 0, given = 0; /* of the level that is served */
    int my_load = -1, my_place = 0, my_tiles = 0;

    spc_balance_open(begin, level, map, workers, words);
    if (lane < own && rank < map->tiles) {
        my_load = spc_tile_cost(map, rank, words);
        my_place = rank - begin[map->offsets - my_load];
    }
    while (next < map->tiles && given < SPC_BALANCE_TILES) {
        if (next >= end) { /* the next cost that tiles have */
            int i = cost_class + 1 + lane;
            int at = i < words * 32 ? begin[i] : map->tiles;
            spc_u32 found = spc_ballot(at > next);
            int skip = found ? spc_ffs(found) - 1 : 32;
            end = spc_shfl(at, skip & 31);
            cost_class += skip;
        } else if (waiting == 0) { /* the next load that workers have */
            int *l = level + (spc_u32)(load + 1 + lane) % (words * 32u);
            int at = *l;
            spc_u32 found = spc_ballot(at != 0);
            int skip = found ? spc_ffs(found) - 1 : 31;
            at = spc_shfl(at, skip);
            load += skip + 1;
            waiting = at & SPC_LEVEL_WORKERS;
            given = at / SPC_LEVEL_TILE;
            if (lane == skip)
                *l = 0;
            spc_sync_warp();
        } else { /* tiles of this cost for workers of this load */
            int served = end - next < waiting ? end - next : waiting;
            int to = load + map->offsets - cost_class;
            int *l = level + (spc_u32)to % (words * 32u);
            int there = *l, most = there / SPC_LEVEL_TILE;
            if (my_load == load) {
                if (my_place < served) {
                    share->rank[my_tiles++] = next + my_place;
                    my_load = to;
                    my_place += there & SPC_LEVEL_WORKERS;
                } else {
                    my_place -= served;
                }
            }
            if (most <= given)
                most = given + 1;
            spc_sync_warp();
            if (lane == 0)
                *l = most * SPC_LEVEL_TILE +
                     (there & SPC_LEVEL_WORKERS) + served;
            spc_sync_warp();
            waiting -= served;
            next += served;
        }
    }
    if (lane < own) {
        share->count = my_tiles;
        share->rest = next;
    }
}

/* The rank of a worker's tile in its turn, past the last tile if it has no more.
 */
SPC_DEVICE int spc_share_rank(const spc_share *share, int turn, int worker,
                              int workers)
{
    turn--;
    if (turn < 0)
        return worker;
    if (turn < share->count)
        return share->rank[turn];
    return share->rest + spc_snake_rank(turn - share->count, worker, workers);
}

#endif
