/*
 * spc_balance.cuh - which tiles a block takes, balanced over the grid to within
 * a step, for blocks that have few tiles.
 *
 * A snake over the tiles by falling cost leaves the busiest of few blocks a
 * fifth above the mean. Here each next tile goes to the block with the least
 * load (longest processing time first; Graham 1969). Costs are small integers,
 * so blocks of equal load are counted, not listed. A round gives tiles of one
 * cost to blocks of one load, and a map takes about fifty rounds, whatever the
 * size of the grid. A lane represents a cost and a load (modulo 32). Kernels of
 * more than 32 offsets round costs up to 32 classes.
 *
 * One warp computes the rounds in a few microseconds, while the rest of its
 * block works on the first tile, and records the tiles of its block. Every
 * block computes the same rounds. Entries of the table past its last tile are
 * dealt like cheap tiles, after all others. A block that gets such an entry is
 * at its end.
 */
#ifndef SPC_BALANCE_CUH
#define SPC_BALANCE_CUH

#include "spc_device.cuh"

/* The tiles of a block after its first: `count` ranks in map->tile_order, then
 * ranks of a snake over `rest` and the ranks after it. */
#define SPC_SHARE_TILES 30
typedef struct spc_share {
    int count, rest;
    int rank[SPC_SHARE_TILES];
} spc_share;

/* The rank of the tile that a block takes in a turn of a snake. */
SPC_DEVICE int spc_snake_rank(int turn, int block, int blocks)
{
    return turn * blocks + ((turn & 1) ? blocks - 1 - block : block);
}

/* The rank of the block's tile in a turn after its first. It is past the last
 * tile if the block has no more. */
SPC_DEVICE int spc_share_rank(const spc_share *share, int turn)
{
    if (turn < share->count)
        return share->rank[turn];
    return share->rest +
           spc_snake_rank(turn - share->count, spc_block_x(), spc_grid_x());
}

/* A lane's level of load: the number of blocks at that level, and in the upper
 * half the most tiles that one of them has been given. */
#define SPC_LEVEL_BLOCKS 0xffff
#define SPC_LEVEL_TILE 0x10000

/* Called by one warp. The first tile of a block is the tile whose rank is the
 * block's number. `words` is the number of mask words of a tile. */
SPC_DEVICE void spc_balance(spc_share *share, const spc_map_view *map,
                            int words)
{
    int lane = spc_lane(), block = spc_block_x(), tiles = map->tiles;
    int next = spc_grid_x();              /* the first tile to deal */
    int load = 0, waiting = 0, given = 0; /* of the level that is served */
    int my_load, my_place, my_tiles = 0;
    int *classes = (int *)share; /* until the share is recorded */

    /* Lane i: tiles of cost 32 - i begin at `first` and end before `end`. */
    int cost = 32 - lane, above = map->offsets - cost * words;
    int first = above > 0 ? spc_load_int(map->tile_begin + above) : 0;
    int end = spc_shfl(first, (lane + 1) & 31);
    if (lane == 31)
        end = tiles;

    /* Lane l: the blocks of load l, whose first tile has that cost. */
    int level = (end < next ? end : next) - first;
    level = spc_shfl(level > 0 ? level : 0, (32 - lane) & 31);
    spc_u32 mine = spc_ballot(first <= block && block < end);
    my_load = mine ? 33 - spc_ffs(mine) : -1; /* -1: there are fewer tiles */
    my_place = block - spc_shfl(first, (32 - my_load) & 31);

    /* Lane i: end and cost of the i-th class with tiles to deal. */
    spc_u32 dealt = spc_ballot(end > first && end > next);
    if (dealt >> lane & 1)
        classes[spc_popc(dealt & ((1u << lane) - 1u))] = end * 64 + cost;
    spc_sync_warp();
    /* The list is read into registers before rank[] overwrites it. */
    int own_class = lane < spc_popc(dealt) ? classes[lane] : 0, number = 1;
    spc_sync_warp();
    int dealing = spc_shfl(own_class, 0), ahead = spc_shfl(own_class, 1);

    while (next < tiles) {
        if (waiting == 0) { /* the next load that a block has */
            spc_u32 loads = spc_ballot(level != 0);
            int turn = (load + 1) & 31, least;
            loads = loads >> turn | loads << ((32 - turn) & 31);
            load += spc_ffs(loads);
            least = spc_shfl(level, load & 31);
            waiting = least & SPC_LEVEL_BLOCKS;
            given = least / SPC_LEVEL_TILE;
            if (lane == (load & 31))
                level = 0;
            /* The table of a share is full. All blocks reach this in the same
             * round, and the rest is dealt as a snake. */
            if (given == SPC_SHARE_TILES)
                break;
        }
        int left = dealing / 64 - next;
        int served = left < waiting ? left : waiting;
        int to = load + dealing % 64;
        int there = spc_shfl(level, to & 31);
        if (my_load == load) {
            if (my_place < served) {
                if (lane == 0)
                    share->rank[my_tiles] = next + my_place;
                my_tiles++;
                my_load = to;
                /* The block goes to the end of those that already have this
                 * load. */
                my_place += there & SPC_LEVEL_BLOCKS;
            } else {
                my_place -= served;
            }
        }
        if (lane == (to & 31)) {
            int most = level / SPC_LEVEL_TILE;
            if (most <= given)
                most = given + 1;
            level = most * SPC_LEVEL_TILE + (level & SPC_LEVEL_BLOCKS) + served;
        }
        waiting -= served;
        next += served;
        if (served == left) { /* the next cost that a tile has */
            dealing = ahead;
            /* Read a round early, so that a change of cost does not wait for
             * the shuffle. */
            ahead = spc_shfl(own_class, ++number & 31);
        }
    }
    if (lane == 0) {
        share->count = my_tiles;
        share->rest = next;
    }
}

#endif
