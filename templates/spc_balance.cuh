/*
 * spc_balance.cuh - which tiles a worker takes, balanced to within a step or two.
 *
 * A snake over the tiles by falling cost leaves the busiest worker 5 to 30 % above
 * the mean. Here each next tile goes to the worker with the least to do (longest
 * processing time first; Graham 1969). Costs are small integers, so workers of
 * one load are counted, not listed: a round gives tiles of one cost to workers of
 * one load, and a map takes some fifty rounds, whatever the number of workers.
 * A lane stands for a cost, for a load (modulo 32), and for a worker of its block;
 * kernels of more than 32 offsets have costs rounded up to 32 classes.
 *
 * One warp of a block plays the rounds, which takes two or three microseconds,
 * while the others work on their first tiles, and notes what the block's own
 * workers get. Every block plays the same rounds.
 */
#ifndef SPC_BALANCE_CUH
#define SPC_BALANCE_CUH

#include "spc_device.cuh"

/* What a worker gets after its first tile: `count` ranks in map->tile_order, then
 * those of a snake over `rest` and what follows. */
#define SPC_SHARE_TILES 30
typedef struct spc_share {
    int count, rest;
    int rank[SPC_SHARE_TILES];
} spc_share;

/* A worker that plays the rounds starts with a load of so many steps, and without
 * a first tile. */
#define SPC_BALANCE_STEPS 8

/* Which tile a worker takes in a turn of a snake. */
SPC_DEVICE int spc_snake_rank(int turn, int worker, int workers)
{
    return turn * workers + ((turn & 1) ? workers - 1 - worker : worker);
}

/* The rank of a worker's tile in a turn after its first, past the last tile if it
 * has no more. */
SPC_DEVICE int spc_share_rank(const spc_share *share, int turn, int worker,
                              int workers)
{
    if (turn < share->count)
        return share->rank[turn];
    return share->rest + spc_snake_rank(turn - share->count, worker, workers);
}

SPC_DEVICE int spc_tile_cost(const spc_map_view *map, int rank, int words)
{
    int cost = 0;

    for (int w = 0; w < words && rank < map->tiles; w++)
        cost += spc_popc(spc_load4(map->tile_mask + w * map->tiles + rank));
    return cost;
}

/* A lane's level of load: its workers, and in the upper half the most tiles that
 * one of them has been given. */
#define SPC_LEVEL_WORKERS 0xffff
#define SPC_LEVEL_TILE 0x10000

/*
 * One warp calls it. The block has `own` workers, numbers block, block + grid, ...
 * of own * grid; all but the last `late` (0 or 1) of them begin with the tile whose
 * rank is their number. `words` are the mask words of a tile.
 */
SPC_DEVICE void spc_balance(spc_share *shares, const spc_map_view *map, int own,
                            int late, int words)
{
    int lane = spc_lane(), grid = spc_grid_x(), tiles = map->tiles;
    int next = (own - late) * grid; /* the first tile that is dealt */
    int begun = (SPC_BALANCE_STEPS + words - 1) / words;
    int load = 0, waiting = 0, given = 0; /* of the level that is served */
    int my_load = -1, my_place = 0, my_tiles = 0;
    int *classes = (int *)shares; /* until shares are noted */

    /* Lane i: tiles of cost 32 - i begin at `first` and end before `end`. */
    int cost = 32 - lane, above = map->offsets - cost * words;
    int first = above > 0 ? spc_load_int(map->tile_begin + above) : 0;
    int end = spc_shfl(first, (lane + 1) & 31);
    if (lane == 31)
        end = tiles;

    /* Lane l: the workers of load l, at first those whose first tile costs it. */
    int level = (end < next ? end : next) - first;
    level = spc_shfl(level > 0 ? level : 0, (32 - lane) & 31);
    int rank = lane * grid + spc_block_x();
    int my_cost = (spc_tile_cost(map, rank, words) + words - 1) / words;
    int same = spc_shfl(first, (32 - my_cost) & 31);
    int before = spc_shfl(level, begun & 31);
    if (lane < own - late && rank < tiles) {
        my_load = my_cost;
        my_place = rank - same;
    } else if (lane < own) {
        my_load = begun;
        my_place = before + spc_block_x();
    }
    if (lane == (begun & 31))
        level += late * grid;

    /* Lane i: end and cost of the i-th class with tiles to deal. */
    spc_u32 dealt = spc_ballot(end > first && end > next);
    if (dealt >> lane & 1)
        classes[spc_popc(dealt & ((1u << lane) - 1u))] = end * 64 + cost;
    spc_sync_warp();
    int own_class = lane < spc_popc(dealt) ? classes[lane] : 0, number = 1;
    spc_sync_warp();
    int dealing = spc_shfl(own_class, 0), ahead = spc_shfl(own_class, 1);

    while (next < tiles) {
        if (waiting == 0) { /* the next load that workers have */
            spc_u32 loads = spc_ballot(level != 0);
            int turn = (load + 1) & 31, least;
            loads = loads >> turn | loads << ((32 - turn) & 31);
            load += spc_ffs(loads);
            least = spc_shfl(level, load & 31);
            waiting = least & SPC_LEVEL_WORKERS;
            given = least / SPC_LEVEL_TILE;
            if (lane == (load & 31))
                level = 0;
            if (given == SPC_SHARE_TILES)
                break;
        }
        int left = dealing / 64 - next, served = left < waiting ? left : waiting;
        int to = load + dealing % 64;
        int there = spc_shfl(level, to & 31);
        if (my_load == load) {
            if (my_place < served) {
                shares[lane].rank[my_tiles++] = next + my_place;
                my_load = to;
                my_place += there & SPC_LEVEL_WORKERS;
            } else {
                my_place -= served;
            }
        }
        if (lane == (to & 31)) {
            int most = level / SPC_LEVEL_TILE;
            if (most <= given)
                most = given + 1;
            level = most * SPC_LEVEL_TILE + (level & SPC_LEVEL_WORKERS) + served;
        }
        waiting -= served;
        next += served;
        if (served == left) { /* the next cost that tiles have */
            dealing = ahead;
            ahead = spc_shfl(own_class, ++number & 31);
        }
    }
    if (lane < own) {
        shares[lane].count = my_tiles;
        shares[lane].rest = next;
    }
}

#endif
