%-- Voxel indexing in one cooperative launch: pack, sort, z-delta search.
%--
%-- Keys are sorted by distribution. Packing counts them by their leading bits
%-- into about as many bins as there are rows, with the atomic's answer as the
%-- rank inside the bin; the blocks sum the bins, each a share of them; the keys
%-- go to their bins; each key finds its place in its bin by counting smaller
%-- ones. A barrier of the grid (well under a microsecond) follows each step,
%-- however many bits a key has. The bins bound the binary searches of the map,
%-- too. Scenes so uneven that a bin is large (one far outlier is enough) take a
%-- radix sort instead, in the same launch.
%--
%-- The map is Spira's z-delta search (section 4): for each (x, y) column of the
%-- kernel one binary search, then a walk along z.
%
%template = {
%  summary = "voxel indexing: packed keys, sort, z-delta kernel map",
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
%    local total = shift[1] + bits[1]
%    local offsets = k[1] * k[2] * k[3]
%    local function constant(value) -- wraps as the keys do
%      if problem.key == 64 then return string.format("0x%xull", value) end
%      return string.format("0x%xu", value & 0xffffffff)
%    end
%    local origin = -((before[2] << shift[2]) + (before[3] << shift[3]) +
%                     before[4])
%    return {
%      bits = bits, shift = shift, before = before, k = k, total = total,
%      offsets = offsets, words = (offsets + 31) // 32,
%      passes = math.max(1, (total + problem.digit - 1) // problem.digit),
%      piece = math.min(k[3], 32),
%      step_x = constant(k[1] > 1 and d[1] << shift[2] or 0),
%      step_y = constant(k[2] > 1 and d[2] << shift[3] or 0),
%      step_z = constant(d[3]),
%      origin = constant(origin), constant = constant,
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
#define WORDS $(words)
#define COLUMNS $(k[1] * k[2]) /* of the kernel, in the (x, y) plane */
#define DEPTH $(k[3])
/* A walk is at most 32 long, so that its bits fit a word. */
#define PIECE $(piece)
#define PIECES $((k[3] + piece - 1) // piece)
/* Keys that a block may meet when it ranks a chunk: the chunk, and the rest of
 * its first and last bin. */
#define RANK_KEYS SPC_INDEX_RANK_KEYS

/* The shared memory of a block: where each share of the bins begins, then the
 * space that sorting and searching use in turn. */
typedef struct shared_index {
    int share[SPC_INDEX_SHARES + 4];
    union {
        sort_shared sort;
        map_key keys[RANK_KEYS]; /* in sorted runs of 32 */
        struct {
            unsigned mask[SPC_INDEX_CHUNK * WORDS];
            int pairs[OFFSETS];
        } search;
    } u;
} shared_index;

/* What the runtime asks for must hold it. */
typedef char shared_index_fits[sizeof(shared_index) <=
                                       SPC_INDEX_SHARED(SORT_THREADS, OFFSETS,
                                                        sizeof(map_key))
                                   ? 1
                                   : -1];

SPC_DEVICE int bin_of(const spc_index_args *args, map_key key)
{
    return (int)(key >> args->bin_shift);
}

/* Where a bin begins among the sorted keys; a bin past the last: the rows. */
SPC_DEVICE int begin_of(const spc_index_args *args, const shared_index *s,
                        int bin)
{
    return args->begins[bin] + s->share[bin >> args->share_shift];
}

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
    for (int i = spc_thread(); i < SPC_INDEX_PAIRS + OFFSETS;
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

/* ---- bins ------------------------------------------------------------- */

/* Sums one share of the bins, and leaves them clear for the next launch. */
SPC_DEVICE void sum_share(const spc_index_args *args, shared_index *s,
                          int share)
{
    int bins = 1 << args->share_shift, sum = 0, most = 0;
    unsigned *count = args->bins + share * bins;
    int *begin = args->begins + share * bins;

    for (int step = 0; step < bins; step += SORT_THREADS) {
        int i = step + spc_thread(), own = 0, before;
        if (i < bins) {
            own = (int)count[i];
            count[i] = 0;
        }
        before = sort_block_sum(own, s->u.sort.sums);
        if (i < bins)
            begin[i] = sum + before;
        sum += s->u.sort.sums[SORT_WARPS];
        most = own > most ? own : most;
    }
    if (spc_thread() == 0)
        args->shares[share] = sum;
    for (int bits = 16; bits > 0; bits >>= 1) {
        int other = spc_shfl_xor(most, bits);
        most = other > most ? other : most;
    }
    if (spc_lane() == 0 && most > SPC_INDEX_CROWDED)
        spc_atomic_max(&args->stats[SPC_INDEX_MOST_KEYS], most);
}

SPC_DEVICE void sum_bins(const spc_index_args *args, shared_index *s)
{
    for (int share = spc_block_x(); share < SPC_INDEX_SHARES;
         share += spc_grid_x())
        sum_share(args, s, share);
}

/* Where the shares begin: every block for itself. */
SPC_DEVICE void sum_shares(const spc_index_args *args, shared_index *s)
{
    int i = spc_thread();
    int own = i < SPC_INDEX_SHARES ? args->shares[i] : 0;
    int before = sort_block_sum(own, s->u.sort.sums);

    if (i < SPC_INDEX_SHARES)
        s->share[i] = before;
    if (i == 0)
        s->share[SPC_INDEX_SHARES] = args->rows;
    spc_sync_block();
}

SPC_DEVICE void scatter_to_bins(const spc_index_args *args,
                                const shared_index *s, int begin, int end)
{
    const map_key *from = (const map_key *)args->keys_a;
    map_key *to = (map_key *)args->keys_b;

    for (int row = begin + spc_thread(); row < end; row += SORT_THREADS) {
        map_key key = from[row];
        int place = begin_of(args, s, bin_of(args, key)) + args->rows_a[row];
        to[place] = key;
        args->rows_b[place] = row;
    }
}

/* How many rows of the same key (an error in the scene) come before `row`. */
SPC_DEVICE int rank_among_equals(const spc_index_args *args, map_key key,
                                 int row, int first, int last)
{
    const map_key *keys = (const map_key *)args->keys_b;
    int rank = 0;

    for (int q = first; q < last; q++)
        if (keys[q] == key && args->rows_b[q] < row)
            rank++;
    return rank;
}

SPC_DEVICE map_key exchange(map_key key, int bits)
{
% if problem.key == 64 then
    spc_u32 low = (spc_u32)spc_shfl_xor((int)(spc_u32)key, bits);
    spc_u32 high = (spc_u32)spc_shfl_xor((int)(spc_u32)(key >> 32), bits);
    return (spc_u64)high << 32 | low;
% else
    return (spc_u32)spc_shfl_xor((int)key, bits);
% end
}

/* Sorts the 32 keys of a warp (bitonic; Batcher 1968). */
SPC_DEVICE map_key sort_warp(map_key key)
{
    int lane = spc_lane();

    SPC_UNROLL
    for (int run = 2; run <= 32; run *= 2) {
        SPC_UNROLL
        for (int bits = run / 2; bits > 0; bits /= 2) {
            map_key other = exchange(key, bits);
            int low = ((lane & bits) == 0) == ((lane & run) == 0);
            if (low == (other < key))
                key = other;
        }
    }
    return key;
}

/* Sorted runs of 32 of the keys at [first, last), into shared memory. */
SPC_DEVICE void sort_runs(const map_key *from, shared_index *s, int first,
                          int last)
{
    for (int at = first + 32 * spc_warp(); at < last; at += SORT_THREADS) {
        int p = at + spc_lane();
        s->u.keys[p - first] = sort_warp(p < last ? from[p] : ~(map_key)0);
    }
}

/* How many of a sorted run of 32 are below `key`; adds to *equal how many are
 * the same (two at most). */
SPC_DEVICE int rank_in_run(const map_key *run, map_key key, int *equal)
{
    int rank = 0;

    SPC_UNROLL
    for (int step = 16; step > 0; step /= 2)
        if (run[rank + step - 1] < key)
            rank += step;
    rank += run[rank] < key;
    if (rank < 32 && run[rank] == key)
        *equal += 1 + (rank < 31 && run[rank + 1] == key);
    return rank;
}

/*
 * Each key finds its place in its bin: the sum of its ranks in the runs that
 * the bin overlaps. Keys of other bins in those runs are all smaller or all
 * larger. The result does not depend on the order in which the keys came in.
 */
SPC_DEVICE void rank_chunk(const spc_index_args *args, shared_index *s,
                           int begin, int end)
{
    const map_key *from = (const map_key *)args->keys_b;
    map_key *to = (map_key *)args->keys;
    int base = begin_of(args, s, bin_of(args, from[begin])) & ~31;
    int top = begin_of(args, s, bin_of(args, from[end - 1]) + 1);

    sort_runs(from, s, base, top);
    spc_sync_block();
    for (int p = begin + spc_thread(); p < end; p += SORT_THREADS) {
        map_key key = from[p];
        int row = args->rows_b[p], bin = bin_of(args, key);
        int first = begin_of(args, s, bin), last = begin_of(args, s, bin + 1);
        int place = first & ~31, equal = 0;
        for (int run = place; run < last; run += 32)
            place += rank_in_run(s->u.keys + (run - base), key, &equal);
        if (equal > 1)
            place += rank_among_equals(args, key, row, first, last);
        to[place] = key;
        args->order[place] = row;
    }
}

SPC_DEVICE void rank_in_bins(const spc_index_args *args, shared_index *s,
                             int begin, int end)
{
    for (; begin < end; begin += SPC_INDEX_CHUNK) {
        int rest = end - begin;
        spc_sync_block();
        rank_chunk(args, s, begin,
                   begin + (rest < SPC_INDEX_CHUNK ? rest : SPC_INDEX_CHUNK));
    }
}

/* ---- the sort for crowded bins ---------------------------------------- */

SPC_DEVICE int key_digit(map_key key, int pass)
{
    return (int)(key >> (pass * SORT_BITS)) & (SORT_DIGITS - 1);
}

/* Counts the first digits of this block's keys. */
SPC_DEVICE void count_keys(const spc_index_args *args, sort_shared *s,
                           int begin, int end)
{
    const map_key *keys = (const map_key *)args->keys_a;

    sort_count_clear(s);
    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int row = first + spc_lane(), valid = row < end;
        sort_count(s, valid, valid ? key_digit(keys[row], 0) : 0);
    }
    sort_count_store(s, sort_table(args->tables, 0));
}

SPC_DEVICE void radix_pass(const spc_index_args *args, sort_shared *s,
                           int pass, const map_key *from, const int *from_rows,
                           map_key *to, int *to_rows, int begin, int end,
                           int per_block)
{
    int *next = sort_table(args->tables, pass + 1);

    sort_begin(s, sort_table(args->tables, pass));
    for (int step = begin; step < end; step += SORT_THREADS) {
        int i = step + spc_thread(), valid = i < end;
        map_key key = valid ? from[i] : 0;
        int row = valid && from_rows ? from_rows[i] : i;
        int place = sort_place(s, valid, key_digit(key, pass));
        if (valid) {
            to[place] = key;
            to_rows[place] = row;
        }
        if (pass + 1 < $(passes))
            sort_count_next(next, per_block, valid, place,
                            key_digit(key, pass + 1));
    }
}

SPC_DEVICE void radix_sort(const spc_index_args *args, sort_shared *s,
                           grid_barrier *barrier, int begin, int end,
                           int per_block)
{
    map_key *from = (map_key *)args->keys_a, *to = (map_key *)args->keys_b;
    int *from_rows = (int *)0, *to_rows = args->rows_b;

    count_keys(args, s, begin, end);
    for (int pass = 0; pass < $(passes); pass++) {
        grid_sync(barrier);
        if (pass > 0) /* the table that was read in the pass before */
            sort_clear(sort_table(args->tables, pass + 2), 1);
        if (pass == $(passes) - 1) {
            to = (map_key *)args->keys;
            to_rows = args->order;
        }
        radix_pass(args, s, pass, from, from_rows, to, to_rows, begin, end,
                   per_block);
        from = to;
        from_rows = to_rows;
        to = (map_key *)(pass % 2 ? args->keys_b : args->keys_a);
        to_rows = pass % 2 ? args->rows_b : args->rows_a;
    }
}

/* ---- z-delta search --------------------------------------------------- */

/* The first position whose key is not below `target`. */
SPC_DEVICE int lower_bound(const spc_index_args *args, const shared_index *s,
                           map_key target)
{
    const map_key *keys = (const map_key *)args->keys;
    int bin = bin_of(args, target);
    int low = begin_of(args, s, bin);
    int count = begin_of(args, s, bin + 1) - low;

    while (count > 0) {
        int half = count >> 1;
        if (keys[low + half] < target) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/*
 * Entries of one kernel column (or a piece of 32 of a deeper one) for the row
 * at position p; returns the bits of those present.
 */
SPC_DEVICE spc_u32 walk(const spc_index_args *args, const shared_index *s,
                        int p, int column, int piece)
{
    const map_key *keys = (const map_key *)args->keys;
    map_key want = keys[p] + (map_key)$(origin) +
                   (map_key)(column / $(k[2])) * (map_key)$(step_x) +
                   (map_key)(column % $(k[2])) * (map_key)$(step_y) +
                   (map_key)(piece * PIECE) * (map_key)$(step_z);
    int at = lower_bound(args, s, want), rows = args->rows;
    int *out = args->index +
               (long long)(column * DEPTH + piece * PIECE) * args->rows_padded +
               p;
    spc_u32 present = 0;

% if problem.dz == 1 and k[3] <= 7 then
    /* What is there lies at the next $(k[3]) positions: no step waits for the
     * one before. */
    int row[PIECE], depth[PIECE];

    SPC_UNROLL
    for (int i = 0; i < PIECE; i++) {
        map_key beyond =
            at + i < rows ? keys[at + i] - want : (map_key)PIECE;
        depth[i] = beyond < (map_key)PIECE ? (int)beyond : -1;
        row[i] = depth[i] >= 0 ? args->order[at + i] : -1;
        if (depth[i] >= 0)
            present |= 1u << depth[i];
    }
    SPC_UNROLL
    for (int l = 0; l < PIECE; l++) {
        int found = -1;
        SPC_UNROLL
        for (int i = 0; i <= l; i++)
            if (depth[i] == l)
                found = row[i];
        out[(long long)l * args->rows_padded] = found;
    }
% else
    map_key found = at < rows ? keys[at] : 0;

    for (int l = 0; l < PIECE; l++) {
        int row = -1;
        if (PIECES > 1 && piece * PIECE + l >= DEPTH)
            break;
        while (at < rows && found < want) {
            at++;
            found = at < rows ? keys[at] : 0;
        }
        if (at < rows && found == want) {
            row = args->order[at];
            present |= 1u << l;
        }
        out[(long long)l * args->rows_padded] = row;
        want += (map_key)$(step_z);
    }
% end
    return present;
}

/* Positions past the rows have no neighbours. */
SPC_DEVICE void walk_nowhere(const spc_index_args *args, int p, int column,
                             int piece)
{
    for (int l = piece * PIECE; l < DEPTH && l < (piece + 1) * PIECE; l++)
        args->index[(long long)(column * DEPTH + l) * args->rows_padded + p] =
            -1;
}

/* Adds a walk's bits to the row's mask, and to the counts of offsets. */
SPC_DEVICE void note_present(shared_index *s, int local, int offset,
                             spc_u32 present)
{
    int word = offset >> 5, shift = offset & 31;

    if (present << shift)
        spc_atomic_or(&s->u.search.mask[word * SPC_INDEX_CHUNK + local],
                      present << shift);
    if (shift && present >> (32 - shift))
        spc_atomic_or(&s->u.search.mask[(word + 1) * SPC_INDEX_CHUNK + local],
                      present >> (32 - shift));
    for (int l = 0; l < PIECE && offset + l < OFFSETS; l++) {
        int count = spc_popc(spc_ballot((int)(present >> l & 1u)));
        if (count && spc_lane() == 0)
            spc_atomic_add(&s->u.search.pairs[offset + l], count);
    }
}

SPC_DEVICE void search_chunk(const spc_index_args *args, shared_index *s,
                             int begin, int count)
{
    int groups = count / 32, group = spc_warp(), number = 0;

    /* A warp takes 32 neighbouring rows and one column: its lanes search
     * close by and write together. */
    for (;; group += SORT_WARPS) {
        while (group >= groups) {
            group -= groups;
            number++;
        }
        if (number >= COLUMNS * PIECES)
            break;
        int local = 32 * group + spc_lane();
        int column = number / PIECES, piece = number % PIECES;
        spc_u32 present = 0;
        if (begin + local < args->rows)
            present = walk(args, s, begin + local, column, piece);
        else
            walk_nowhere(args, begin + local, column, piece);
        note_present(s, local, column * DEPTH + piece * PIECE, present);
    }
}

SPC_DEVICE void note_duplicates(const spc_index_args *args, int p)
{
    const map_key *keys = (const map_key *)args->keys;

    if (p > 0 && p < args->rows && keys[p] == keys[p - 1])
        spc_atomic_add(&args->stats[SPC_INDEX_DUPLICATES], 1);
}

SPC_DEVICE void search(const spc_index_args *args, shared_index *s)
{
    int per_block = share_of_block(args->rows_padded, 32);
    int begin = spc_block_x() * per_block, end = begin + per_block;

    if (end > args->rows_padded)
        end = args->rows_padded;
    for (int k = spc_thread(); k < OFFSETS; k += SORT_THREADS)
        s->u.search.pairs[k] = 0;
    for (; begin < end; begin += SPC_INDEX_CHUNK) {
        int count = end - begin < SPC_INDEX_CHUNK ? end - begin
                                                  : SPC_INDEX_CHUNK;
        for (int i = spc_thread(); i < SPC_INDEX_CHUNK * WORDS;
             i += SORT_THREADS)
            s->u.search.mask[i] = 0;
        spc_sync_block();
        search_chunk(args, s, begin, count);
        spc_sync_block();
        for (int i = spc_thread(); i < count; i += SORT_THREADS) {
            note_duplicates(args, begin + i);
            if (begin + i >= args->rows)
                args->order[begin + i] = -1;
            for (int w = 0; w < WORDS; w++)
                args->mask[(long long)w * args->rows_padded + begin + i] =
                    s->u.search.mask[w * SPC_INDEX_CHUNK + i];
        }
        spc_sync_block();
    }
    for (int k = spc_thread(); k < OFFSETS; k += SORT_THREADS)
        if (s->u.search.pairs[k])
            spc_atomic_add(&args->stats[SPC_INDEX_PAIRS + k],
                           s->u.search.pairs[k]);
}

/* ---- the kernel ------------------------------------------------------- */

SPC_KERNEL(spc_index, spc_index_args, $(problem.threads), 1)
{
    shared_index *s = (shared_index *)spc_shared();
    int per_block = share_of_block(args->rows, 32);
    int begin = spc_block_x() * per_block, end = begin + per_block;
    int bad[4] = {SPC_INDEX_NO_ROW, SPC_INDEX_NO_ROW, SPC_INDEX_NO_ROW,
                  SPC_INDEX_NO_ROW};
    int crowded;
    grid_barrier barrier;

    if (end > args->rows)
        end = args->rows;
    grid_open(&barrier, args->sync);
    clear_stats(args);
    pack(args, begin, end, bad);
    grid_sync(&barrier);

    report_bad_rows(args, bad);
    sum_bins(args, s);
    grid_sync(&barrier);

    sum_shares(args, s);
    crowded = args->stats[SPC_INDEX_MOST_KEYS] > SPC_INDEX_CROWDED;
    if (crowded)
        radix_sort(args, &s->u.sort, &barrier, begin, end, per_block);
    else
        scatter_to_bins(args, s, begin, end);
    grid_sync(&barrier);

    if (crowded) {
        sort_clear(args->tables, 3);
    } else {
        rank_in_bins(args, s, begin, end);
        grid_sync(&barrier);
    }

    search(args, s);
    grid_close(&barrier);
}
