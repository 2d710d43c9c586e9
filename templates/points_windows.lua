%-- Triplets of neighbouring outputs sorted by offset, in shared memory.
%--
%-- A tile of a kernel is `warps` times 16 outputs that follow each other, whose triplets lie
%-- together by output. Sorted by offset, and in their old order where that is equal, those
%-- of a warp come in *windows* of `held` at most. So most offsets of a tile are in one
%-- window alone, however many it has. The kernel says where window `slot` begins (windows_at + slot * window_size), and
%-- where sorters count (counts_at).
%
%-- Offsets, an end, and what comes after the window; of each warp where its triplets of each
%-- offset begin, their inputs and whose they are.
%local function list_bytes(problem) return ceil_div(problem.offsets + 2, 4) * 16 end
%local function table_bytes(problem) return ceil_div(problem.offsets + 1, 4) * 16 end
%local function warp_bytes(problem, held) return table_bytes(problem) + held * 5 end
%-- What so many sorters count in.
%function counts_bytes(problem, sorters) return sorters * problem.offsets * 64 end
%function window_bytes(problem, config, held)
%  return list_bytes(problem) + config.groups * 4 * warp_bytes(problem, held)
%end
%
%function write_windows()
% local share_at, owners_at = list_bytes(problem), table_bytes(problem) + held * 4
/* What comes after a window: more of the tile, or another; or there is no tile. */
#define MORE 0
#define DONE 1
#define NO_TILE 2
/* The offsets that some output of the tile has in the window, ascending, and -1. */
SPC_DEVICE int *list_of(int slot)
{
    return (int *)(spc_shared() + $(windows_at) + slot * $(window_size));
}

SPC_DEVICE int *after(int slot)
{
    return list_of(slot) + $(problem.offsets + 1);
}

/* What a window has of a warp: those of offset k are begin[k] <= i < begin[k + 1]. */
typedef struct share {
    int *begin;
    int *input;    /* row */
    spc_u8 *owner; /* which of the 16 outputs */
} share;

SPC_DEVICE share share_of(int slot, int warp)
{
    spc_u8 *at = spc_shared() + $(windows_at + share_at) + slot * $(window_size) +
                 warp * $(warp_bytes(problem, held));
    share s;

    s.begin = (int *)at;
    s.input = (int *)(at + $(table_bytes(problem)));
    s.owner = at + $(owners_at);
    return s;
}

% if config.groups > 1 then
/* Has some output of the warpgroup triplets of offset k? */
SPC_DEVICE int has_some(int slot, int k)
{
    int some = 0;

    SPC_UNROLL
    for (int i = 0; i < 4; i++) {
        const int *begin = share_of(slot, (spc_warp() & ~3) + i).begin;
        some |= begin[k + 1] - begin[k];
    }
    return some != 0;
}

% end
/* ---- sorting triplets ------------------------------------------------------------ */

/* What the tiles before this one cost: triplets, and as many as 16 of each output for the
 * weights that a tile goes through anyway. */
SPC_DEVICE long long cost_before(const spc_triplets_view *all, int tile)
{
    return spc_load_int(all->first + tile * $(rows)) + tile * $(rows * 16)ll;
}

%-- The first of `tiles` tiles of which `is_below` is not true; by a whole warp.
%local function write_find(is_below)
    int low = 0, high = tiles;

    while (low < high) {
        int step = (high - low + 31) / 32, tile = low + spc_lane() * step;
        int count = spc_popc(spc_ballot(tile < high && $(is_below)));
        if (count == 0)
            break;
        high = low + count * step < high ? low + count * step : high;
        low += (count - 1) * step + 1;
    }
    return low;
%end
SPC_DEVICE int find_end(const int *order, int tiles)
{
% write_find("spc_load_int(order + tile * " .. rows .. ") >= 0")
}

SPC_DEVICE int find_tile(const spc_triplets_view *all, int tiles, long long cost)
{
% write_find("cost_before(all, tile) < cost")
}

/* Tiles that follow each other read the same rows, and all blocks have about as much to do:
 * a dense tile is several others. `out`: the first of the block's, and the one behind them. */
SPC_DEVICE void share_tiles(int *out, const spc_conv_args *args)
{
    const spc_triplets_view *all = &args->triplets;
    int tiles = find_end(args->map.order, args->map.tiles);
    int block = spc_block_x(), blocks = spc_grid_x();
    long long cost = cost_before(all, tiles);
    int begin = find_tile(all, tiles, cost * block / blocks);
    int end = block + 1 == blocks ? tiles : find_tile(all, tiles, cost * (block + 1) / blocks);

    if (spc_lane() == 0) {
        out[0] = begin;
        out[1] = end;
    }
}

/* What a sorter counts in: triplets of offset k of output i, at k * 16 + i. */
SPC_DEVICE int *counts_of(int sorter)
{
    return (int *)(spc_shared() + $(counts_at)) + sorter * $(problem.offsets * 16);
}

/* Triplets of one output and offset follow each other: a *run*. */
typedef struct runs {
    int first; /* in lane i, i < 16: where the triplets of output i begin */
    int key;   /* of the run that the last triplet was of; -1 before all */
    int count; /* of it until then */
} runs;

/* Which of the 16 outputs has triplet t. */
SPC_DEVICE int owner_of(const runs *r, int t)
{
    int owner = 0;

    SPC_UNROLL
    for (int by = 8; by > 0; by /= 2)
        owner += t >= spc_shfl(r->first, owner + by) ? by : 0;
    return owner;
}

/* The place of the lane's triplet within its run, of 32 that follow each other; those of
 * key -1 come last. */
SPC_DEVICE int place_in_run(runs *r, int key, int *is_last)
{
    int before = spc_shfl_up(key, 1), lane = spc_lane();

    if (lane == 0)
        before = r->key;
    spc_u32 begins = spc_ballot(key != before);
    spc_u32 upto = begins & (0xffffffffu >> (31 - lane));
    int place = upto != 0 ? lane - (31 - spc_clz(upto)) : lane + r->count;
    *is_last = lane == 31 || (begins >> (lane + 1) & 1u) != 0;
    r->key = spc_shfl(key, 31);
    r->count = spc_shfl(place, 31) + 1;
    return place;
}

%-- A loop over the triplets begin <= t < end, 32 at a time and $(batch) loads at once.
%local function each_triplet(batch, body)
    SPC_ROLLED
    for (int at = begin; at < end; at += $(batch * 32)) {
        spc_b8 entry[$(batch)];
        SPC_UNROLL
        for (int i = 0; i < $(batch); i++) {
            int t = at + i * 32 + spc_lane();
            entry[i].x = 0;
            entry[i].y = 0xffffffffu;
            if (t < end)
                entry[i] = spc_load8(list + 2ll * t);
        }
        SPC_UNROLL
        for (int i = 0; i < $(batch); i++) {
            int t = at + i * 32 + spc_lane(), is_last;
            int owner = owner_of(&r, t);
            int key = t < end ? (int)entry[i].y * 16 + owner : -1;
            int place = place_in_run(&r, key, &is_last);
%   body()
        }
    }
%end
/* How long each run is. */
SPC_DEVICE void count_runs(int *counts, const int *list, int begin, int end, int first)
{
    runs r = {first, -1, 0};

    SPC_ROLLED
    for (int i = spc_lane(); i < $(problem.offsets * 16); i += 32)
        counts[i] = 0;
    spc_sync_warp();
% each_triplet(4, function()
            if (is_last && key >= 0)
                counts[key] = place + 1;
            spc_sync_warp(); /* a run may go on */
% end)
}

/* Counts become sums of those before: each lane has some that follow each other. */
SPC_DEVICE void sum_counts(int *counts)
{
%   local each = ceil_div(problem.offsets * 16, 32)
    int *own = counts + spc_lane() * $(each), sum = 0;
    int count = $(problem.offsets * 16) - spc_lane() * $(each);

    count = count < 0 ? 0 : count < $(each) ? count : $(each);
    SPC_ROLLED
    for (int i = 0; i < count; i++) {
        int v = own[i];
        own[i] = sum;
        sum += v;
    }
    int upto = sum;
    SPC_UNROLL
    for (int by = 1; by < 32; by *= 2) {
        int below = spc_shfl_up(upto, by);
        upto += spc_lane() >= by ? below : 0;
    }
    SPC_ROLLED
    for (int i = 0; i < count; i++)
        own[i] += upto - sum;
    spc_sync_warp();
}

/* Puts each triplet that is within the window where its run has its place. */
SPC_DEVICE void place_triplets(const share *s, const int *counts, const int *list, int begin,
                               int end, int first, int before)
{
    runs r = {first, -1, 0};

% each_triplet(4, function()
            int to = key >= 0 ? counts[key] + place - before : -1;
            if (to >= 0 && to < $(held)) {
                s->input[to] = (int)entry[i].x;
                s->owner[to] = (spc_u8)owner;
            }
            (void)is_last;
% end)
}

/* Where a place is among the window's. */
SPC_DEVICE int within(int place)
{
    return place < 0 ? 0 : place < $(held) ? place : $(held);
}

/* Window w of the 16 outputs from position p on. */
SPC_DEVICE void sort_share(const share *s, int sorter, const spc_triplets_view *all, int p, int w)
{
    int *counts = counts_of(sorter), before = w * $(held);
    int first = spc_load_int(all->first + p + (spc_lane() & 15));
    int end = spc_load_int(all->first + p + 16);
    int begin = spc_shfl(first, 0);

    spc_sync_warp(); /* nobody reads counts any more */
    count_runs(counts, all->list, begin, end, first);
    sum_counts(counts);
    place_triplets(s, counts, all->list, begin, end, first, before);
    SPC_ROLLED
    for (int k = spc_lane(); k < $(problem.offsets); k += 32)
        s->begin[k] = within(counts[k * 16] - before);
    if (spc_lane() == 0)
        s->begin[$(problem.offsets)] = within(end - begin - before);
    spc_sync_warp();
}

/* How many windows the fullest warp of a tile needs; p is the tile's first position. */
SPC_DEVICE int count_windows(const spc_triplets_view *all, int p)
{
    int most = 1;

    SPC_ROLLED
    for (int warp = 0; warp < $(warps); warp++) {
        int count = spc_load_int(all->first + p + warp * 16 + 16) -
                    spc_load_int(all->first + p + warp * 16);
        int windows = (count + $(held - 1)) / $(held);
        most = windows > most ? windows : most;
    }
    return most;
}

/* Which offsets some warp has, and what comes after the window. */
SPC_DEVICE void write_list(int slot, int end)
{
    int *list = list_of(slot), count = 0;

    SPC_ROLLED
    for (int at = 0; at < $(problem.offsets) && end != NO_TILE; at += 32) {
        int k = at + spc_lane(), some = 0;
        SPC_ROLLED
        for (int warp = 0; warp < $(warps); warp++) {
            const int *begin = share_of(slot, warp).begin;
            some |= k < $(problem.offsets) && begin[k + 1] > begin[k];
        }
        spc_u32 seen = spc_ballot(some);
        if (some)
            list[count + spc_popc(seen & ((1u << spc_lane()) - 1u))] = k;
        count += spc_popc(seen);
    }
    if (spc_lane() == 0) {
        list[count] = -1;
        *after(slot) = end;
    }
}

/* A place in a ring, and in which round it is there. */
typedef struct turn {
    int at, parity;
} turn;

SPC_DEVICE void next_turn(turn *t, int places)
{
    if (++t->at == places) {
        t->at = 0;
        t->parity ^= 1;
    }
}

%end
