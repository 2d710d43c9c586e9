%-- Kernel maps on the device, in one cooperative launch: pack, sort, z-delta
%-- search; then, where they are wanted, a sorted row order and a tile table.
%--
%-- Every stage ends where the blocks need each other's results, at a barrier of
%-- the grid (about a microsecond). What a launch does not do is said by null
%-- pointers: spc_index_args in index_abi.h.
%
%template = {
%  summary = "kernel maps: packed keys, sort, z-delta search, row order, tiles",
%  role = "map",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "index" then return false, "does voxel indexing" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target)
%    local bits = {problem.bits_b, problem.bits_x, problem.bits_y,
%                  problem.bits_z}
%    local shift = {bits[2] + bits[3] + bits[4], bits[3] + bits[4], bits[4], 0}
%    local k = {problem.kx, problem.ky, problem.kz}
%    local d = {problem.dx, problem.dy, problem.dz}
%    local before = {0}
%    for a = 1, 3 do before[a + 1] = d[a] * ((k[a] - 1) // 2) end
%    local offsets = k[1] * k[2] * k[3]
%    local function constant(value) -- wraps as the keys do
%      if problem.key == 64 then return string.format("0x%xull", value) end
%      return string.format("0x%xu", value & 0xffffffff)
%    end
%    local origin = -((before[2] << shift[2]) + (before[3] << shift[3]) +
%                     before[4])
%    return {
%      bits = bits, shift = shift, before = before, k = k, offsets = offsets,
%      key_passes = math.max(1, (shift[1] + bits[1] + problem.digit - 1) //
%                               problem.digit),
%      constant = constant,
%      step_x = constant(k[1] > 1 and d[1] << shift[2] or 0),
%      step_y = constant(k[2] > 1 and d[2] << shift[3] or 0),
%      step_z = constant(d[3]),
%      origin = constant(origin),
%    }
%  end,
%  launch = function(problem, config, target) return {} end,
%  default = function(problem, target) return {} end,
%}
#define SORT_THREADS $(problem.threads)
#define SORT_BITS $(problem.digit)
#include "spc_device.cuh"
#include "index_sort.cuh"

typedef $(problem.key == 64 and "spc_u64" or "spc_u32") map_key;

#define OFFSETS $(offsets)
#define WORDS $((offsets + 31) // 32)

/* The kernel: columns in the (x, y) plane, each of DEPTH offsets along z, in
 * runs of RUN; a thread takes BATCH runs at once. */
#define COLUMNS $(k[1] * k[2])
#define KERNEL_Y $(k[2])
#define DEPTH $(k[3])
#define RUN $(problem.run)
#define RUNS_PER_COLUMN $((k[3] + problem.run - 1) // problem.run)
#define BATCH $(problem.batch)

/* Keys: from a row's own to that of offset 0, and one step along each axis. */
#define KEY_PASSES $(key_passes)
#define ORIGIN ((map_key)$(origin))
#define STEP_X ((map_key)$(step_x))
#define STEP_Y ((map_key)$(step_y))
#define STEP_Z ((map_key)$(step_z))

/* Keys that a block may meet when it ranks a chunk: the chunk, and the rest of
 * its first and last bin. */
#define RANK_KEYS SPC_INDEX_RANK_KEYS

/* The shared memory of a block: where each share of the bins begins, the digest
 * bit of each offset, then the space that the stages use in turn. */
typedef struct index_shared {
    int share[SPC_INDEX_SHARES + 4];
    unsigned bit_of[OFFSETS + (OFFSETS & 1)];
    union {
        sort_shared sort;
        map_key keys[RANK_KEYS]; /* in sorted runs of 32 */
        struct {
            unsigned mask[SORT_THREADS * WORDS]; /* of each thread's row */
            int digits[SORT_DIGITS]; /* of the rows' digests */
        } search;
        struct {
            int from[SPC_INDEX_CHUNK]; /* position in coordinate order */
            int to[SPC_INDEX_CHUNK];
            unsigned mask[SPC_INDEX_CHUNK * WORDS];
        } copy;
    } u;
} index_shared;

/* What the runtime asks for must hold it. */
typedef char index_shared_fits[sizeof(index_shared) <=
                                       SPC_INDEX_SHARED(SORT_THREADS, OFFSETS,
                                                        sizeof(map_key), 0)
                                   ? 1
                                   : -1];

/* Behind it: the counts for a next pass. */
SPC_DEVICE sort_counts next_counts(index_shared *s)
{
    return sort_counts_at(s + 1);
}

SPC_DEVICE int at_most(int value, int limit)
{
    return value < limit ? value : limit;
}

#include "index_keys.cuh"
#include "index_digest.cuh"
#include "index_search.cuh"
#include "index_order.cuh"

/* ---- pack ------------------------------------------------------------- */

/* One coordinate's field value; notes a row outside the layout, and takes the
 * nearest coordinate inside it so that what follows stays in bounds. */
SPC_DEVICE map_key field_of(const spc_index_args *args, int axis, int c,
                            map_key before, int row, int *bad)
{
    unsigned value = (unsigned)c - (unsigned)args->low[axis];

    if (value > args->last[axis]) {
        if (row < *bad)
            *bad = row;
        value = args->last[axis];
    }
    return (map_key)value + before;
}

SPC_DEVICE map_key pack_row(const spc_index_args *args, int row, int *bad)
{
    spc_b16 c = spc_load16(args->coords + 4ll * row);
    map_key key = 0;

% for i, name in ipairs({"x", "y", "z", "w"}) do
%   if bits[i] > 0 then
    key |= field_of(args, $(i - 1), (int)c.$(name), $(constant(before[i])), row,
                    &bad[$(i - 1)])
           << $(shift[i]);
%   else
    field_of(args, $(i - 1), (int)c.$(name), 0, row, &bad[$(i - 1)]);
%   end
% end
    return key;
}

SPC_DEVICE void clear_stats(const spc_index_args *args)
{
    if (spc_block_x() != 0)
        return;
    for (int i = spc_thread(); i < SPC_INDEX_PAIRS + 2;
         i += SORT_THREADS)
        args->stats[i] = i < SPC_INDEX_DUPLICATES ? SPC_INDEX_NO_ROW : 0;
}

/* Keys in the caller's order, counted by bin. */
SPC_DEVICE void pack(const spc_index_args *args, int begin, int end, int *bad)
{
    map_key *keys = (map_key *)args->keys_a;
    int lane = spc_lane();

    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int row = first + lane, valid = row < end, rank = 0;
        map_key key = 0;
        if (valid)
            key = pack_row(args, row, bad);
        /* One atomic for all lanes of a bin: neighbours in a scan often share
         * one. */
        spc_u32 peers = spc_match((spc_u32)(valid ? bin_of(args, key) : -1));
        int leader = spc_ffs(peers) - 1;
        if (valid && lane == leader)
            rank = (int)spc_atomic_add_u32(&args->bins[bin_of(args, key)],
                                           (spc_u32)spc_popc(peers));
        rank = spc_shfl(rank, leader) + spc_popc(peers & ((1u << lane) - 1u));
        if (valid) {
            keys[row] = key;
            args->rows_a[row] = rank;
        }
    }
}

SPC_DEVICE void report_bad_rows(const spc_index_args *args, const int *bad)
{
    for (int i = 0; i < 4; i++)
        if (bad[i] != SPC_INDEX_NO_ROW)
            spc_atomic_min(&args->stats[SPC_INDEX_BAD_ROW + i], bad[i]);
}

/* ---- the kernel ------------------------------------------------------- */

/* Everything of the plain map but, where it is not wanted, the index. */
SPC_DEVICE void build(const spc_index_args *args, index_shared *s,
                      grid_barrier *barrier, int begin, int end, int padded_end,
                      int per_block)
{
    int bad[4] = {SPC_INDEX_NO_ROW, SPC_INDEX_NO_ROW, SPC_INDEX_NO_ROW,
                  SPC_INDEX_NO_ROW};
    packed_row first;
    int crowded;

    clear_stats(args);
    pack(args, begin, end, bad);
    grid_sync(barrier);

    report_bad_rows(args, bad);
    sum_bins(args, s);
    grid_arrive(barrier);
    first = packed_at(args, begin + spc_thread(), end);
    grid_wait(barrier);

    sum_shares(args, s);
    crowded = args->stats[SPC_INDEX_MOST_KEYS] > SPC_INDEX_CROWDED;
    if (crowded)
        radix_sort(args, s, barrier, begin, end, per_block);
    else
        scatter_to_bins(args, s, first, begin, end);
    grid_sync(barrier);

    if (crowded)
        sort_clear(args->tables, 3);
    else
        rank_in_bins(args, s, begin, end);
    grid_arrive(barrier);
    open_search(args, s);
    grid_wait(barrier);

    search(args, s, begin, padded_end);
}

/* Positions of a layout that one block writes together: whole tiles. */
SPC_DEVICE int layout_unit(const spc_index_args *args)
{
    int unit = args->tile.rows > 32 ? args->tile.rows : 32;

    if (args->tile.rows && unit % args->tile.rows)
        unit *= args->tile.rows; /* small odd tiles: 3 rows, 6, ... */
    return unit;
}

SPC_KERNEL(spc_index, spc_index_args, $(problem.threads), 1)
{
    index_shared *s = (index_shared *)spc_shared();
    int per_block = share_of_block(args->rows_padded, 32);
    int begin = at_most(spc_block_x() * per_block, args->rows_padded);
    int padded_end = at_most(begin + per_block, args->rows_padded);
    int end = at_most(padded_end, args->rows);
    int unit = layout_unit(args);
    grid_barrier barrier;

    grid_open(&barrier, args->sync);
    if (args->tile.rows)
        sort_clear(sort_last_table(args->tables), 1);
    if (args->coords) {
        build(args, s, &barrier, begin, end, padded_end, per_block);
    } else {
        if (args->index)
            write_plain(args, begin, padded_end);
        if (args->sorted.index)
            digest_rows(args, s, begin, end);
    }
    if (args->sorted.index)
        order_rows(args, s, &barrier, begin, end, per_block, unit);
    if (args->tile.rows && !args->sorted.index) {
        grid_sync(&barrier); /* masks are there, the table is clear */
        measure_units(args, unit);
    }
    if (args->tile.rows)
        make_tiles(args, s, &barrier);
    else
        sort_clear(args->tables, 3);
    grid_close(&barrier);
}
