%-- Row order and tile tables of a kernel map.
%--
%-- spc_order sorts rows by a digest of their offset mask ("gray" in
%-- runtime/map.h), writes the map's arrays in that order, and the first tile
%-- table. spc_tiles makes a further tile table of any row order. Both are
%-- cooperative launches.
%
%template = {
%  summary = "row order by mask digest, tile tables",
%  role = "map",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "order" then return false, "orders rows of a map" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target)
%    local used = problem.offsets - 1 -- without the commonest, the centre
%    local groups = math.min(used, problem.digest)
%    local size = groups > 0 and used // groups or 1
%    local larger = groups > 0 and used % groups or 0
%    return {
%      offsets = problem.offsets, words = (problem.offsets + 31) // 32,
%      groups = groups, size = size, larger = larger,
%      passes = math.max(1, (groups + problem.digit - 1) // problem.digit),
%      -- A tile's cost must fit a digit.
%      cost_shift = problem.offsets >= 1 << problem.digit and 1 or 0,
%    }
%  end,
%  launch = function(problem, config, target) return {} end,
%  default = function(problem, target) return {} end,
%}
#define SORT_THREADS $(problem.threads)
#define SORT_BITS $(problem.digit)
#include "spc_device.cuh"
#include "index_sort.cuh"

#define OFFSETS $(offsets)
#define WORDS $(words)
#define PASSES $(passes)
/* Index entries that one thread copies at once: so many loads are under way. */
#define COPIES 9

typedef struct shared_order {
    unsigned bit_of[OFFSETS]; /* of the digest */
    int pairs[OFFSETS];
    union {
        sort_shared sort;
        struct {
            int from[SPC_ORDER_CHUNK]; /* position in coordinate order */
            unsigned mask[WORDS * SPC_ORDER_CHUNK];
        } copy;
    } u;
} shared_order;

/* What the runtime asks for must hold it. */
typedef char shared_order_fits[sizeof(shared_order) <=
                                       SPC_ORDER_SHARED(SORT_THREADS, OFFSETS)
                                   ? 1
                                   : -1];

/* ---- digests ---------------------------------------------------------- */

/*
 * Offsets from rarest to commonest, the last left out, in $(groups) groups of
 * neighbours: the first $(larger) of $(size + 1) offsets, the others of
 * $(size). The rarest group has the highest bit.
 */
SPC_DEVICE void assign_bits(shared_order *s, const int *stats)
{
    for (int k = spc_thread(); k < OFFSETS; k += SORT_THREADS)
        s->pairs[k] = stats[SPC_INDEX_PAIRS + k];
    spc_sync_block();
    for (int k = spc_thread(); k < OFFSETS; k += SORT_THREADS) {
        int own = s->pairs[k], rank = 0, group;
        for (int j = 0; j < OFFSETS; j++)
            rank += s->pairs[j] < own || (s->pairs[j] == own && j < k);
        if (rank < $(larger * (size + 1)))
            group = rank / $(size + 1);
        else
            group = $(larger) + (rank - $(larger * (size + 1))) / $(size);
        s->bit_of[k] = rank == OFFSETS - 1 ? 0u : 1u << ($(groups) - 1 - group);
    }
    spc_sync_block();
}

/* The place in the sequence of Gray codes of the digest of a row's mask. */
SPC_DEVICE spc_u32 digest_of(const shared_order *s, const unsigned *mask,
                             int p, int rows_padded)
{
    spc_u32 code = 0;

    for (int w = 0; w < WORDS; w++)
        for (spc_u32 left = mask[(long long)w * rows_padded + p]; left;
             left &= left - 1)
            code |= s->bit_of[32 * w + spc_ffs(left) - 1];
    for (int shift = 1; shift < 32; shift *= 2)
        code ^= code >> shift;
    return code;
}

SPC_DEVICE int digest_digit(spc_u32 digest, int pass)
{
    return (int)(digest >> (pass * SORT_BITS)) & (SORT_DIGITS - 1);
}

SPC_DEVICE void digest_rows(const spc_order_args *args, shared_order *s,
                            int begin, int end)
{
    assign_bits(s, args->stats);
    sort_count_clear(&s->u.sort);
    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int p = first + spc_lane(), valid = p < end;
        spc_u32 digest = 0;
        if (valid) {
            digest = digest_of(s, args->plain_mask, p, args->tile.rows_padded);
            args->digests_a[p] = digest;
        }
        sort_count(&s->u.sort, valid, digest_digit(digest, 0));
    }
    sort_count_store(&s->u.sort, sort_table(args->tile.tables, 0));
}

/* ---- sorting ---------------------------------------------------------- */

SPC_DEVICE void order_pass(const spc_order_args *args, shared_order *s,
                           int pass, int begin, int end, int per_block)
{
    const unsigned *from = pass % 2 ? args->digests_b : args->digests_a;
    const int *from_rows = pass % 2 ? args->rows_b : args->rows_a;
    unsigned *to = pass % 2 ? args->digests_a : args->digests_b;
    int *to_rows = pass % 2 ? args->rows_a : args->rows_b;
    int *next = sort_table(args->tile.tables, pass + 1);

    sort_begin(&s->u.sort, sort_table(args->tile.tables, pass));
    for (int step = begin; step < end; step += SORT_THREADS) {
        int i = step + spc_thread(), valid = i < end;
        spc_u32 digest = valid ? from[i] : 0;
        int row = valid && pass > 0 ? from_rows[i] : i;
        int place = sort_place(&s->u.sort, valid, digest_digit(digest, pass));
        if (valid) {
            to[place] = digest;
            to_rows[place] = row;
        }
        if (pass + 1 < PASSES)
            sort_count_next(next, per_block, valid, place,
                            digest_digit(digest, pass + 1));
    }
}

/* ---- writing the map in the new order --------------------------------- */

SPC_DEVICE void copy_rows(const spc_order_args *args, shared_order *s,
                          const int *sorted, int begin, int count)
{
    int padded = args->tile.rows_padded;

    for (int i = spc_thread(); i < count; i += SORT_THREADS) {
        int p = begin + i < args->rows ? sorted[begin + i] : -1;
        s->u.copy.from[i] = p;
        args->order[begin + i] = p >= 0 ? args->plain_order[p] : -1;
        for (int w = 0; w < WORDS; w++) {
            unsigned mask =
                p >= 0 ? args->plain_mask[(long long)w * padded + p] : 0;
            s->u.copy.mask[w * SPC_ORDER_CHUNK + i] = mask;
            args->mask[(long long)w * padded + begin + i] = mask;
        }
    }
}

/* Only entries that the mask promises are loaded. */
SPC_DEVICE void copy_index(const spc_order_args *args, const shared_order *s,
                           int begin, int count)
{
    long long padded = args->tile.rows_padded;
    int batches = (OFFSETS + COPIES - 1) / COPIES;

    for (int item = spc_thread(); item < count * batches;
         item += SORT_THREADS) {
        int batch = item / count, i = item - batch * count;
        int p = s->u.copy.from[i], entry[COPIES];
        for (int j = 0; j < COPIES; j++) {
            int k = batch * COPIES + j;
            entry[j] = -1;
            if (k < OFFSETS && s->u.copy.mask[(k >> 5) * SPC_ORDER_CHUNK + i] >>
                                       (k & 31) & 1u)
                entry[j] = spc_load_int(args->plain_index + k * padded + p);
        }
        for (int j = 0; j < COPIES; j++)
            if (batch * COPIES + j < OFFSETS)
                args->index[(batch * COPIES + j) * padded + begin + i] =
                    entry[j];
    }
}

/* ---- tiles ------------------------------------------------------------ */

SPC_DEVICE int tile_digit(int cost)
{
    return (OFFSETS >> $(cost_shift)) - (cost >> $(cost_shift));
}

/* A warp a tile: the OR of its rows' masks, and its cost. Returns the cost in
 * every lane. */
SPC_DEVICE int tile_mask(const spc_tiles_args *args, int tile)
{
    int cost = 0;

    for (int w = 0; w < WORDS; w++) {
        const unsigned *mask = args->mask + (long long)w * args->rows_padded +
                               (long long)tile * args->tile_rows;
        spc_u32 all = 0;
        for (int i = spc_lane(); i < args->tile_rows; i += 32)
            all |= mask[i];
        all = spc_warp_or(all);
        if (spc_lane() == 0)
            args->scratch[(long long)w * args->tiles + tile] = all;
        cost += spc_popc(all);
    }
    return cost;
}

/* Masks and counts of this block's tiles, for the sort after the barrier. */
SPC_DEVICE void measure_tiles(const spc_tiles_args *args, sort_shared *s,
                              int *table, int begin, int end)
{
    sort_count_clear(s);
    for (int tile = begin + spc_warp(); tile < end; tile += SORT_WARPS) {
        int cost = tile_mask(args, tile);
        if (spc_lane() == 0)
            spc_atomic_add(&s->next[tile_digit(cost)], 1);
    }
    sort_count_store(s, table);
}

SPC_DEVICE void sort_tiles(const spc_tiles_args *args, sort_shared *s,
                           int *table, int begin, int end)
{
    sort_begin(s, table);
    for (int step = begin; step < end; step += SORT_THREADS) {
        int tile = step + spc_thread(), valid = tile < end, cost = 0;
        for (int w = 0; valid && w < WORDS; w++)
            cost += spc_popc(args->scratch[(long long)w * args->tiles + tile]);
        int place = sort_place(s, valid, valid ? tile_digit(cost) : 0);
        if (!valid)
            continue;
        args->tile_order[place] = tile;
        for (int w = 0; w < WORDS; w++)
            args->tile_mask[(long long)w * args->tiles + place] =
                args->scratch[(long long)w * args->tiles + tile];
    }
}

SPC_DEVICE int at_most(int value, int limit)
{
    return value < limit ? value : limit;
}

/* ---- kernels ---------------------------------------------------------- */

SPC_KERNEL(spc_order, spc_order_args, $(problem.threads), 1)
{
    shared_order *s = (shared_order *)spc_shared();
    const spc_tiles_args *tile = &args->tile;
    int per_block = share_of_block(args->rows, 32);
    int begin = at_most(spc_block_x() * per_block, args->rows);
    int end = at_most(begin + per_block, args->rows);
    /* Of the new order; a block owns whole tiles. */
    int unit = tile->tile_rows > 32 ? tile->tile_rows : 32;
    int out_share, out_begin, out_end, tile_begin = 0, tile_end = 0;
    const int *sorted = PASSES % 2 ? args->rows_b : args->rows_a;
    int *costs =
        tile->tables + 3 * SPC_SORT_TABLE(spc_grid_x(), SORT_DIGITS);
    grid_barrier barrier;

    if (tile->tile_rows && unit % tile->tile_rows)
        unit *= tile->tile_rows; /* small odd tiles: 3 rows, 6, ... */
    out_share = share_of_block(tile->rows_padded, unit);
    out_begin = at_most(spc_block_x() * out_share, tile->rows_padded);
    out_end = at_most(out_begin + out_share, tile->rows_padded);

    grid_open(&barrier, tile->sync);
    sort_clear(costs, 1);
    digest_rows(args, s, begin, end);
    for (int pass = 0; pass < PASSES; pass++) {
        grid_sync(&barrier);
        if (pass > 0)
            sort_clear(sort_table(tile->tables, pass + 2), 1);
        order_pass(args, s, pass, begin, end, per_block);
    }
    grid_sync(&barrier);

    sort_clear(tile->tables, 3);
    for (int at = out_begin; at < out_end; at += SPC_ORDER_CHUNK) {
        int count = at_most(SPC_ORDER_CHUNK, out_end - at);
        spc_sync_block();
        copy_rows(args, s, sorted, at, count);
        spc_sync_block();
        copy_index(args, s, at, count);
    }
    spc_sync_block();
    if (tile->tile_rows) {
        tile_begin = at_most(out_begin / tile->tile_rows, tile->tiles);
        tile_end = at_most(out_end / tile->tile_rows, tile->tiles);
        measure_tiles(tile, &s->u.sort, costs, tile_begin, tile_end);
        grid_sync(&barrier);
        sort_tiles(tile, &s->u.sort, costs, tile_begin, tile_end);
    }
    grid_close(&barrier);
}

SPC_KERNEL(spc_tiles, spc_tiles_args, $(problem.threads), 1)
{
    sort_shared *s = (sort_shared *)spc_shared();
    int *costs = args->tables;
    int share = share_of_block(args->tiles, 1);
    int begin = at_most(spc_block_x() * share, args->tiles);
    int end = at_most(begin + share, args->tiles);
    grid_barrier barrier;

    grid_open(&barrier, args->sync);
    measure_tiles(args, s, costs, begin, end);
    grid_sync(&barrier);
    sort_tiles(args, s, costs, begin, end);
    grid_sync(&barrier);
    sort_clear(args->tables, 1);
    grid_close(&barrier);
}
