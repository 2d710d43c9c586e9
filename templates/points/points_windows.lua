%-- Triplets of neighbouring outputs by offset, in shared memory.
%--
%-- A tile of a kernel is `warps` times 16 outputs that follow each other, whose triplets the
%-- map has by bundles of 16 outputs, in the order of offsets. A warp's come in *windows* of
%-- `held` at most, in which those of each offset fill whole steps of 16: what is missing of the
%-- last is the row of the one before, which is nobody's. So most offsets of a tile are in one
%-- window alone, however many it has. The kernel says where window `slot` begins (windows_at + slot * window_size) and
%-- where copiers note runs (runs_at), and has the barriers `sorted` and `read` of each window.
%
%-- Offsets, an end, what comes after the window, and its tile's first position; of each warp where its triplets of each
%-- offset begin and whether there are more, their inputs and whose they are.
%-- Whoever looks ahead in the list of offsets finds so many ends.
%local ends = 4
%local function list_bytes(problem) return ceil_div(problem.offsets + ends + 2, 4) * 16 end
%local function warp_bytes(problem, held) return list_bytes(problem) + held * 6 end
%-- What copiers note runs in: those of each warp, and how far each copier moves them.
%function runs_bytes(problem, config, copiers)
%  return (4 + copiers) * list_bytes(problem)
%end
%function window_bytes(problem, config, held)
%  return list_bytes(problem) + 4 * warp_bytes(problem, held)
%end
%
%function write_windows()
% local share_at, masks_at = list_bytes(problem), list_bytes(problem) + held * 4
/* What comes after a window: more of the tile, or another; or there is no tile. Then where the
 * tile begins. */
#define MORE 0
#define DONE 1
#define NO_TILE 2
/* The offsets that some output of the tile has in the window, ascending, and -1, $(ends) times. */
SPC_DEVICE int *list_of(int slot)
{
    return (int *)(spc_shared() + $(windows_at) + slot * $(window_size));
}

SPC_DEVICE int *after(int slot)
{
    return list_of(slot) + $(problem.offsets + ends);
}

/* What a window has of a warp: those of offset k are begin[k] <= i < begin[k + 1]. */
typedef struct share {
    int *begin;    /* behind the last: is there more than the window holds? */
    int *input;    /* row */
    spc_u16 *mask; /* a bit for that of the 16 outputs which it is of; of none 0 */
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

/* Of a warp: where the triplets of each offset begin in its list, where the last end, and how
 * many windows before have had. */
SPC_DEVICE int *runs_of(int warp)
{
    return (int *)(spc_shared() + $(runs_at)) + warp * $(list_bytes(problem) // 4);
}

/* How much farther a copier puts those of each offset than they lie in the list. */
SPC_DEVICE int *moves_of(int copier)
{
    return runs_of($(warps) + copier);
}

SPC_DEVICE void find_runs(int *runs, const int *list, int count)
{
    int last = -1;

    SPC_ROLLED
    for (int at = 0; at <= count; at += 128) { /* who is past the last says where it ends */
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

/* A triplet at a place of the window, if it is one. */
SPC_DEVICE void put(const share *s, int place, int input, int mask)
{
    if (place >= 0 && place < $(held)) {
        s->input[place] = input;
        s->mask[place] = (spc_u16)mask;
    }
}

/* Where a place is among the window's. */
SPC_DEVICE int within(int place)
{
    return place < 0 ? 0 : place < $(held) ? place : $(held);
}

/* Where the runs lie in a window that begins at place `before`. */
SPC_DEVICE void place_runs(const share *s, const int *runs, int *moves, const int *list, int before)
{
    int sum = -before;

    for (int first = 0; first < $(problem.offsets); first += 32) {
        int k = first + spc_lane(), begin = 0, count = 0;
        if (k < $(problem.offsets)) {
            begin = runs[k];
            count = runs[k + 1] - begin;
        }
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

/* The triplets of a list whose places are the window's; places ascend. Returns how many there
 * are before the first of the next window, or fewer. */
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

/* Window w of the 16 outputs of a warp, from position p on. */
SPC_DEVICE void copy_share(const share *s, int warp, int copier, const spc_triplets_view *all, int p,
                           int w)
{
    int begin = spc_load_int(all->first + p), *runs = runs_of(warp), *moves = moves_of(copier);
    int count = spc_load_int(all->first + p + 16) - begin;
    const int *list = all->list + 2ll * begin;

    spc_sync_warp(); /* nobody reads what was moved before */
    if (w == 0)
        find_runs(runs, list, count);
    place_runs(s, runs, moves, list, w * $(held));
    int upto = copy_triplets(s, moves, list, runs[$(problem.offsets + 1)], count);
    spc_sync_warp();
    if (spc_lane() == 0)
        runs[$(problem.offsets + 1)] = upto;
}

/* Has some warp more than the window holds? */
SPC_DEVICE int has_more(int slot)
{
    int more = 0;

    SPC_UNROLL
    for (int warp = 0; warp < $(warps); warp++)
        more |= share_of(slot, warp).begin[$(problem.offsets + 1)];
    return more;
}

/* Which offsets some warp has, and what comes after the window. */
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

/* How many places of a ring were before, of which there is a power of two. So it says where the
 * next one is, and in which round, in one register. */
typedef spc_u32 turn;

SPC_DEVICE int place_of_turn(turn t, int places) { return (int)(t & (spc_u32)(places - 1)); }
SPC_DEVICE int parity_of_turn(turn t, int places) { return (int)(t / (spc_u32)places & 1u); }

/* ---- windows of a block ----------------------------------------------------------- */

/* Says that a window is there, and what comes after it. */
SPC_DEVICE void announce(int slot, int end, int p)
{
    write_list(slot, end, p);
    spc_sync_warp();
    if (spc_lane() == 0)
        spc_mbar_arrive(all_barriers()->sorted + slot);
}

/* The copiers fill one window together, once nobody reads the last in its place. Returns
 * whether the tile has another. */
SPC_DEVICE int copy_window(const spc_conv_args *args, int copier, turn *slot, int p, int w)
{
    int at = place_of_turn(*slot, 2), more;

    spc_mbar_wait(all_barriers()->read + at, parity_of_turn(*slot, 2));
    SPC_ROLLED
    for (int warp = copier; warp < $(warps); warp += $(copiers)) {
        share s = share_of(at, warp);
        copy_share(&s, warp, copier, &args->triplets, p + warp * 16, w);
    }
    spc_sync_named(1, $(copiers * 32));
    more = has_more(at);
    if (copier == 0)
        announce(at, more ? MORE : DONE, p);
    ++*slot;
    return more;
}

/* The block's tile in a round, or -1. The map has them by their cost, so that by turns from either
 * end all blocks get about as much. */
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
    turn slot = 2; /* as if all had been read once */

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
