%-- Triplets of neighbouring outputs, grouped by offset, in shared memory.
%--
%-- A tile of a kernel is `warps` times 16 consecutive outputs. The map has their triplets in
%-- bundles of 16 outputs, in the order of offsets. The triplets of a warp come in *windows*
%-- of at most `held` triplets. In a window the triplets of each offset fill whole steps of
%-- 16. The last step is filled up with the row of its last triplet, with no owner. Most
%-- offsets of a tile are therefore in one window only, however many triplets the tile has.
%-- The kernel defines where window `slot` begins (windows_at + slot * window_size) and where
%-- copiers record runs (runs_at). It also provides the barriers `sorted` and `read` of each
%-- window.
%
%-- A window contains offsets with an end mark, what follows the window, and its tile's first
%-- position. For each warp it contains the start of its triplets of each offset, a flag for
%-- further triplets, their inputs, and their owners. The list ends with this many end marks
%-- for readers that look ahead.
%local ends = 4
%local function list_bytes(problem) return ceil_div(problem.offsets + ends + 2, 4) * 16 end
%local function warp_bytes(problem, held) return list_bytes(problem) + held * 6 end
%-- Bytes for the runs that copiers record: the runs of each warp, and the distances
%-- by which each copier moves them.
%function runs_bytes(problem, config, copiers)
%  return (4 + copiers) * list_bytes(problem)
%end
%function window_bytes(problem, config, held)
%  return list_bytes(problem) + 4 * warp_bytes(problem, held)
%end
%
%function write_windows()
% local share_at, masks_at = list_bytes(problem), list_bytes(problem) + held * 4
/* The work after a window: more of the same tile, another tile, or no tile. Then where the
 * tile begins. */
#define MORE 0
#define DONE 1
#define NO_TILE 2
/* The offsets that some output of the tile has in the window, ascending, and $(ends) times
 * -1. */
SPC_DEVICE int *list_of(int slot)
{
    return (int *)(spc_shared() + $(windows_at) + slot * $(window_size));
}

SPC_DEVICE int *after(int slot)
{
    return list_of(slot) + $(problem.offsets + ends);
}

/* A warp's part of a window: the triplets of offset k are begin[k] <= i < begin[k +
 * 1]. */
typedef struct share {
    int *begin;    /* after the last: 1 if the window cannot hold all */
    int *input;    /* row */
    spc_u16 *mask; /* one bit for the output it belongs to; 0: no output */
} share;

SPC_DEVICE share share_of(int slot, int warp)
{
    spc_u8 *at = spc_shared() + $(windows_at + share_at) + slot * $(window_size) +
                 warp * $(warp_bytes(problem, held));
    share s;

    s.begin = (int *)at;
    s.input = (int *)(at + $(share_at));
    s.mask = (spc_u16 *)(at + $(masks_at));
    return s;
}

/* ---- copying triplets ------------------------------------------------------------ */

/* For a warp: the start of the triplets of each offset in its list, the end of the last, and
 * the number of triplets in earlier windows. */
SPC_DEVICE int *runs_of(int warp)
{
    return (int *)(spc_shared() + $(runs_at)) + warp * $(list_bytes(problem) // 4);
}

/* The distance by which a copier moves the triplets of each offset, from the list
 * to the window. */
SPC_DEVICE int *moves_of(int copier)
{
    return runs_of($(warps) + copier);
}

SPC_DEVICE void find_runs(int *runs, const int *list, int count)
{
    int last = -1;

    SPC_ROLLED
    for (int at = 0; at <= count; at += 128) { /* the thread past the last offset provides the end */
        int k[4];
        SPC_UNROLL
        for (int i = 0; i < 4; i++) {
            int t = at + i * 32 + spc_lane();
            k[i] = t < count ? spc_load_int(list + 2ll * t + 1) >> 4 : $(problem.offsets);
        }
        SPC_UNROLL
        for (int i = 0; i < 4; i++) {
            int before = spc_shfl_up(k[i], 1);
            for (int j = (spc_lane() == 0 ? last : before) + 1; j <= k[i]; j++)
                runs[j] = at + i * 32 + spc_lane();
            last = spc_shfl(k[i], 31);
        }
    }
    if (spc_lane() == 0)
        runs[$(problem.offsets + 1)] = 0;
    spc_sync_warp();
}

/* Stores a triplet at a position of the window, if it is inside. */
SPC_DEVICE void put(const share *s, int place, int input, int mask)
{
    if (place >= 0 && place < $(held)) {
        s->input[place] = input;
        s->mask[place] = (spc_u16)mask;
    }
}

/* The place, clamped to the window. */
SPC_DEVICE int within(int place)
{
    return place < 0 ? 0 : place < $(held) ? place : $(held);
}

/* Computes where the runs are in a window that begins at place `before`. */
SPC_DEVICE void place_runs(const share *s, const int *runs, int *moves, const int *list, int before)
{
    /* Places before the window are negative, and put() drops them. */
    int sum = -before;

    for (int first = 0; first < $(problem.offsets); first += 32) {
        int k = first + spc_lane(), begin = 0, count = 0;
        if (k < $(problem.offsets)) {
            begin = runs[k];
            count = runs[k + 1] - begin;
        }
        /* Each offset fills whole steps of 16. */
        int whole = (count + 15) & ~15, upto = whole;
        SPC_UNROLL
        for (int by = 1; by < 32; by *= 2) {
            int below = spc_shfl_up(upto, by);
            upto += spc_lane() >= by ? below : 0;
        }
        int place = sum + upto - whole;
        sum += spc_shfl(upto, 31);
        if (k < $(problem.offsets)) {
            s->begin[k] = within(place);
            moves[k] = place - begin;
        }
        int nobody = count < whole ? spc_load_int(list + 2ll * (begin + count - 1)) : 0;
        for (int i = count; i < whole; i++)
            put(s, place + i, nobody, 0);
    }
    if (spc_lane() == 0) {
        s->begin[$(problem.offsets)] = within(sum);
        s->begin[$(problem.offsets + 1)] = sum > $(held);
    }
    spc_sync_warp();
}

/* Copies the triplets of a list whose places are inside the window. Places ascend. Returns
 * the number of triplets before the first of the next window, or fewer. */
SPC_DEVICE int copy_triplets(const share *s, const int *moves, const int *list, int at, int count)
{
    SPC_ROLLED
    for (; at < count; at += 128) {
        int beyond = 0;
        spc_b8 entry[4];
        SPC_UNROLL
        for (int i = 0; i < 4; i++) {
            int t = at + i * 32 + spc_lane();
            entry[i].x = entry[i].y = 0;
            if (t < count)
                entry[i] = spc_load8(list + 2ll * t);
        }
        SPC_UNROLL
        for (int i = 0; i < 4; i++) {
            int t = at + i * 32 + spc_lane(), place = moves[entry[i].y >> 4] + t;
            if (t < count) {
                put(s, place, (int)entry[i].x, 1 << (entry[i].y & 15u));
                beyond |= place >= $(held);
            }
        }
        if (spc_ballot(beyond))
            break;
    }
    return at;
}

/* Copies window w of the 16 outputs of a warp, from position p on. */
SPC_DEVICE void copy_share(const share *s, int warp, int copier, const spc_triplets_view *all, int p,
                           int w)
{
    int begin = spc_load_int(all->first + p), *runs = runs_of(warp), *moves = moves_of(copier);
    int count = spc_load_int(all->first + p + 16) - begin;
    const int *list = all->list + 2ll * begin;

    spc_sync_warp(); /* no lane reads what was moved before */
    if (w == 0)
        find_runs(runs, list, count);
    place_runs(s, runs, moves, list, w * $(held));
    int upto = copy_triplets(s, moves, list, runs[$(problem.offsets + 1)], count);
    spc_sync_warp();
    if (spc_lane() == 0)
        runs[$(problem.offsets + 1)] = upto;
}

/* True if some warp has more triplets than the window holds. */
SPC_DEVICE int has_more(int slot)
{
    int more = 0;

    SPC_UNROLL
    for (int warp = 0; warp < $(warps); warp++)
        more |= share_of(slot, warp).begin[$(problem.offsets + 1)];
    return more;
}

/*
 * Writes the list of offsets that some warp has, and what follows the window.
 */
SPC_DEVICE void write_list(int slot, int end, int p)
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
    if (spc_lane() < $(ends))
        list[count + spc_lane()] = -1;
    if (spc_lane() == 0) {
        after(slot)[0] = end;
        after(slot)[1] = p;
    }
}

/* The number of ring places used so far. The number of places in the ring is a power of two,
 * so one register holds both the next place and its round. */
typedef spc_u32 turn;

SPC_DEVICE int place_of_turn(turn t, int places) { return (int)(t & (spc_u32)(places - 1)); }
SPC_DEVICE int parity_of_turn(turn t, int places) { return (int)(t / (spc_u32)places & 1u); }

/* ---- windows of a block ----------------------------------------------------------- */

/* Announces that a window is complete, and what follows it. */
SPC_DEVICE void announce(int slot, int end, int p)
{
    write_list(slot, end, p);
    spc_sync_warp();
    if (spc_lane() == 0)
        spc_mbar_arrive(all_barriers()->sorted + slot);
}

/* The copiers fill one window together, once the previous window in its place has been
 * read. Returns whether the tile has another window. */
SPC_DEVICE int copy_window(const spc_conv_args *args, int copier, turn *slot, int p, int w)
{
    int at = place_of_turn(*slot, 2), more;

    spc_mbar_wait(all_barriers()->read + at, parity_of_turn(*slot, 2));
    SPC_ROLLED
    for (int warp = copier; warp < $(warps); warp += $(copiers)) {
        share s = share_of(at, warp);
        copy_share(&s, warp, copier, &args->triplets, p + warp * 16, w);
    }
    /* Only the copiers meet; the multiplying warps go on. */
    spc_sync_named(1, $(copiers * 32));
    more = has_more(at);
    if (copier == 0)
        announce(at, more ? MORE : DONE, p);
    ++*slot;
    return more;
}

/* The block's tile in a round, or -1. The map sorts tiles by cost, and rounds alternate
 * between its two ends, so that all blocks get about the same work. */
SPC_DEVICE int tile_of_round(const spc_conv_args *args, int round)
{
    int block = spc_block_x(), blocks = spc_grid_x();
    long long rank = (long long)round * blocks + (round % 2 ? blocks - 1 - block : block);

    return rank < args->map.tiles
               ? spc_load_int(args->triplets.list + 2ll * args->triplets.capacity + rank)
               : -1;
}

SPC_DEVICE void copy_tiles(const spc_conv_args *args, int copier)
{
    turn slot = 2; /* as if both had been read once */

    for (int round = 0;; round++) {
        int tile = tile_of_round(args, round);
        if (tile < 0)
            break;
        for (int w = 0; copy_window(args, copier, &slot, tile * $(rows), w);)
            w++;
    }
    spc_mbar_wait(all_barriers()->read + place_of_turn(slot, 2), parity_of_turn(slot, 2));
    if (copier == 0)
        announce(place_of_turn(slot, 2), NO_TILE, 0);
}

%end
