%-- Triplets of neighbouring outputs sorted by offset, in shared memory.
%--
%-- A tile of a kernel is `warps` times 16 outputs that follow each other, whose triplets lie
%-- together by output. A *window* has `config.held` of each warp at most, sorted by offset,
%-- and in their old order where that is equal; where a warp has more, the tile has several
%-- windows. The kernel says where window `slot` begins (windows_at + slot * window_size).
%
%-- Offsets, an end, and what comes after the window; of each warp where its triplets of each
%-- offset begin, their inputs and whose they are.
%local function list_bytes(problem) return ceil_div(problem.offsets + 2, 4) * 16 end
%local function table_bytes(problem) return ceil_div(problem.offsets + 1, 4) * 16 end
%local function warp_bytes(problem, config) return table_bytes(problem) + config.held * 5 end
%function window_bytes(problem, config)
%  return list_bytes(problem) + config.groups * 4 * warp_bytes(problem, config)
%end
%
%function write_windows()
% local share_at, owners_at = list_bytes(problem), table_bytes(problem) + config.held * 4
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
                 warp * $(warp_bytes(problem, config));
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

/* Of 16 outputs that follow each other: how many triplets are of each offset. */
SPC_DEVICE void count_offsets(int *counts, const int *list, int begin, int end)
{
    for (int k = spc_lane(); k < $(problem.offsets); k += 32)
        counts[k] = 0;
    spc_sync_warp();
    for (int t = begin + spc_lane(); t < end; t += 32)
        spc_atomic_add(counts + spc_load_int(list + 2ll * t + 1), 1);
    spc_sync_warp();
}

/* Counts become sums of those before. */
SPC_DEVICE void sum_counts(int *counts)
{
    int sum = 0;

    SPC_ROLLED
    for (int at = 0; at < $(problem.offsets); at += 32) {
        int k = at + spc_lane(), own = k < $(problem.offsets) ? counts[k] : 0, upto = own;
        SPC_UNROLL
        for (int by = 1; by < 32; by *= 2) {
            int below = spc_shfl_up(upto, by);
            upto += spc_lane() >= by ? below : 0;
        }
        if (k < $(problem.offsets))
            counts[k] = sum + upto - own;
        sum += spc_shfl(upto, 31);
    }
    spc_sync_warp();
}

/* Which of 16 outputs has triplet t; lane i knows where those of output i begin. */
SPC_DEVICE int owner_of(int t, int first)
{
    int owner = 0;

    SPC_UNROLL
    for (int by = 8; by > 0; by /= 2)
        owner += t >= spc_shfl(first, owner + by) ? by : 0;
    return owner;
}

/* Puts each triplet behind those of its offset before it: `ends` begin as sums. */
SPC_DEVICE void place_triplets(const share *s, int *ends, const int *list, int begin, int end,
                               int first)
{
    SPC_ROLLED
    for (int at = begin; at < end; at += 32) {
        int t = at + spc_lane(), some = t < end;
        spc_b8 entry = {0, 0xffffffffu};
        if (some)
            entry = spc_load8(list + 2ll * t);
        int owner = owner_of(t, first);
        spc_u32 peers = spc_match(entry.y), below = peers & ((1u << spc_lane()) - 1u);
        int to = some ? ends[entry.y] + spc_popc(below) : 0;
        spc_sync_warp();
        if (some) {
            s->input[to] = (int)entry.x;
            s->owner[to] = (spc_u8)owner;
            if (below == 0)
                ends[entry.y] += spc_popc(peers);
        }
        spc_sync_warp();
    }
}

/* Window w of the 16 outputs from position p on. */
SPC_DEVICE void sort_share(const share *s, const spc_triplets_view *all, int p, int w)
{
    int first = spc_load_int(all->first + p + (spc_lane() & 15));
    int last = spc_load_int(all->first + p + 16);
    int begin = spc_shfl(first, 0) + w * $(config.held);
    int end = begin + $(config.held) < last ? begin + $(config.held) : last;

    count_offsets(s->begin + 1, all->list, begin, end);
    sum_counts(s->begin + 1);
    place_triplets(s, s->begin + 1, all->list, begin, end, first);
    if (spc_lane() == 0)
        s->begin[0] = 0;
}

/* How many windows the fullest warp of a tile needs; p is the tile's first position. */
SPC_DEVICE int count_windows(const spc_triplets_view *all, int p)
{
    int most = 1;

    SPC_ROLLED
    for (int warp = 0; warp < $(warps); warp++) {
        int count = spc_load_int(all->first + p + warp * 16 + 16) -
                    spc_load_int(all->first + p + warp * 16);
        int windows = (count + $(config.held - 1)) / $(config.held);
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
