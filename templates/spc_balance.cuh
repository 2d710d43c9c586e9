/*
 * spc_balance.cuh - which tiles a worker takes, balanced to within one step.
 *
 * A snake over the tiles by falling cost leaves the busiest of few workers a
 * fifth above the mean. Here each next tile goes to the worker with the least
 * to do (longest processing time first; Graham 1969). All workers of the least
 * load are served at once, so one warp does it, while the rest of its block
 * works on its first tiles; every block computes the same assignment and keeps
 * its own part. The first turns stay a snake: only the last ones decide the
 * balance.
 *
 * The list of a worker is SPC_BALANCE_TILES ranks of map->tile_order, ended by
 * -1 where it is shorter.
 */
#ifndef SPC_BALANCE_CUH
#define SPC_BALANCE_CUH

#include "spc_device.cuh"

#define SPC_BALANCE_TILES 64
/* More workers than this keep the snake to the end. */
#define SPC_BALANCE_LANE 5
#define SPC_BALANCE_WORKERS (32 * SPC_BALANCE_LANE)
#define SPC_BALANCE_TURNS 6

/* A worker's load in the upper bits, the tiles of its list in the lower six. */
#define SPC_BALANCE_TILE 64
#define SPC_BALANCE_FULL 0x7fffffff

/* The rank of a worker's tile in a turn of the snake. */
SPC_DEVICE int spc_snake_rank(int turn, int worker, int workers)
{
    return turn * workers + ((turn & 1) ? workers - 1 - worker : worker);
}

/* The first turn whose tiles are in the list. */
SPC_DEVICE int spc_balance_from(const spc_map_view *map, int workers)
{
    int turns = (map->tiles + workers - 1) / workers;

    return turns > SPC_BALANCE_TURNS ? turns - SPC_BALANCE_TURNS : 1;
}

SPC_DEVICE int spc_tile_cost(const spc_map_view *map, int rank, int words)
{
    int cost = 0;

    for (int w = 0; w < words && rank < map->tiles; w++)
        cost += spc_popc(spc_load4(map->tile_mask + w * map->tiles + rank));
    return cost;
}

/* One warp calls it; `list` is in shared memory. */
SPC_DEVICE void spc_balance(int *list, const spc_map_view *map, int worker,
                            int workers, int words)
{
    int lane = spc_lane(), turns = spc_balance_from(map, workers);
    int next = turns * workers, window = next;
    int cost[2], load[SPC_BALANCE_LANE];

    for (int i = lane; i < SPC_BALANCE_TILES; i += 32)
        list[i] = -1;
    spc_sync_warp();
    SPC_UNROLL
    for (int j = 0; j < SPC_BALANCE_LANE; j++)
        load[j] = 32 * j + lane < workers ? 0 : SPC_BALANCE_FULL;
    for (int turn = 0; turn < turns; turn++) {
        SPC_UNROLL
        for (int j = 0; j < SPC_BALANCE_LANE; j++) {
            int rank = spc_snake_rank(turn, 32 * j + lane, workers);
            if (load[j] != SPC_BALANCE_FULL)
                load[j] += spc_tile_cost(map, rank, words) * SPC_BALANCE_TILE;
        }
    }
    /* The costs of the next 64 tiles. */
    cost[0] = spc_tile_cost(map, window + lane, words);
    cost[1] = spc_tile_cost(map, window + 32 + lane, words);
    while (next < map->tiles) {
        int least = SPC_BALANCE_FULL, served = 0;
        SPC_UNROLL
        for (int j = 0; j < SPC_BALANCE_LANE; j++)
            least = load[j] < least ? load[j] : least;
        for (int bits = 16; bits > 0; bits >>= 1) {
            int other = spc_shfl_xor(least, bits);
            least = other < least ? other : least;
        }
        SPC_UNROLL
        for (int j = 0; j < SPC_BALANCE_LANE; j++) {
            int chosen = load[j] / SPC_BALANCE_TILE == least / SPC_BALANCE_TILE;
            spc_u32 all = spc_ballot(chosen);
            int turn = served + spc_popc(all & ((1u << lane) - 1u));
            int at = next - window + turn, tile;
            int low = spc_shfl(cost[0], at & 31);
            int high = spc_shfl(cost[1], at & 31);
            served += spc_popc(all);
            tile = chosen && turn < 32 && next + turn < map->tiles;
            if (tile && 32 * j + lane == worker)
                list[load[j] % SPC_BALANCE_TILE] = next + turn;
            if (tile)
                load[j] += (at < 32 ? low : high) * SPC_BALANCE_TILE + 1;
            if (load[j] % SPC_BALANCE_TILE == SPC_BALANCE_TILE - 1)
                load[j] = SPC_BALANCE_FULL;
        }
        next += served < 32 ? served : 32;
        if (next - window >= 32) {
            window += 32;
            cost[0] = cost[1];
            cost[1] = spc_tile_cost(map, window + 32 + lane, words);
        }
    }
}

#endif
