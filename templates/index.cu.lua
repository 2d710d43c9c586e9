%-- Voxel indexing in one cooperative launch: pack, sort, z-delta search.
%--
%-- Keys are sorted by distribution. Packing counts them by their leading bits
%-- into bins, with the atomic's answer as the rank inside the bin; after a
%-- barrier of the grid every block sums the bins and the keys go to their bins;
%-- after another each key finds its place in its bin by counting smaller ones.
%-- Three barriers in all, however many bits a key has. The bins stay in shared
%-- memory and bound the binary searches of the map. Scenes so uneven that a bin
%-- is large (one far outlier is enough) take a radix sort instead, in the same
%-- launch.
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
%      bin_bits = problem.bin_bits,
%      bin_shift = total > problem.bin_bits and total - problem.bin_bits or 0,
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
#define BINS $(1 << bin_bits)
#define BIN_SHIFT $(bin_shift)
#define BINS_PER_THREAD ((BINS + SORT_THREADS - 1) / SORT_THREADS)
#define CROWDED 1024 /* keys of one bin from which the radix sort is faster */

/* The shared memory of a block: where each bin begins, then the space that
 * sorting and searching use in turn. */
typedef struct shared_index {
    int begin[BINS + 4];
    union {
        sort_shared sort;
        struct {
            unsigned mask[SPC_INDEX_CHUNK * WORDS];
            int pairs[OFFSETS];
        } search;
    } u;
} shared_index;

SPC_DEVICE int bin_of(map_key key)
{
    return (int)(key >> BIN_SHIFT);
}

/* ---- pack ------------------------------------------------------------------ */

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
    key |= field_of(args, $(i - 1), (int)c.$(name), $(constant(before[i])), row, &bad[$(i - 1)])
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
        spc_u32 peers = spc_match((spc_u32)(valid ? bin_of(key) : BINS));
        int leader = spc_ffs(peers) - 1;
        if (valid && lane == leader)
            rank = (int)spc_atomic_add_u32(&args->bins[bin_of(key)],
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

/* ---- bins ------------------------------------------------------------------ */

/* Sums the bins into s->begin; returns the largest one. */
SPC_DEVICE int sum_bins(const spc_index_args *args, shared_index *s)
{
    int count[BINS_PER_THREAD], sum = 0, most = 0;
    int first = spc_thread() * BINS_PER_THREAD;

    for (int i = 0; i < BINS_PER_THREAD; i++) {
        count[i] = first + i < BINS ? (int)args->bins[first + i] : 0;
        sum += count[i];
        most = count[i] > most ? count[i] : most;
    }
    sum = sort_block_sum(sum, s->u.sort.sums);
    for (int i = 0; i < BINS_PER_THREAD; i++) {
        if (first + i < BINS)
            s->begin[first + i] = sum;
        sum += count[i];
    }
    if (spc_thread() == 0) {
        s->begin[BINS] = args->rows;
        s->u.sort.sums[36] = 0;
    }
    for (int bits = 16; bits > 0; bits >>= 1) {
        int other = spc_shfl_xor(most, bits);
        most = other > most ? other : most;
    }
    spc_sync_block();
    if (spc_lane() == 0)
        spc_atomic_max(&s->u.sort.sums[36], most);
    spc_sync_block();
    return s->u.sort.sums[36];
}

SPC_DEVICE void scatter_to_bins(const spc_index_args *args,
                                const shared_index *s, int begin, int end)
{
    const map_key *from = (const map_key *)args->keys_a;
    map_key *to = (map_key *)args->keys_b;

    for (int row = begin + spc_thread(); row < end; row += SORT_THREADS) {
        map_key key = from[row];
        int place = s->begin[bin_of(key)] + args->rows_a[row];
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

/* Each key counts the smaller ones of its bin: no barrier, and the result does
 * not depend on the order in which the keys came in. */
SPC_DEVICE void rank_in_bins(const spc_index_args *args, const shared_index *s,
                             int begin, int end)
{
    const map_key *from = (const map_key *)args->keys_b;
    map_key *to = (map_key *)args->keys;

    for (int p = begin + spc_thread(); p < end; p += SORT_THREADS) {
        map_key key = from[p];
        int row = args->rows_b[p];
        int first = s->begin[bin_of(key)], last = s->begin[bin_of(key) + 1];
        int place = first, equal = 0;
        for (int q = first; q < last; q++) {
            map_key other = from[q];
            place += other < key;
            equal += other == key;
        }
        if (equal > 1)
            place += rank_among_equals(args, key, row, first, last);
        to[place] = key;
        args->order[place] = row;
    }
}

/* ---- the sort for crowded bins ---------------------------------------------- */

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

/* ---- z-delta search ----------------------------------------------------------- */

/* The first position whose key is not below `target`. */
SPC_DEVICE int lower_bound(const map_key *keys, const shared_index *s,
                           map_key target)
{
    int low = s->begin[bin_of(target)], high = s->begin[bin_of(target) + 1];

    while (low < high) {
        int middle = (low + high) >> 1;
        if (keys[middle] < target)
            low = middle + 1;
        else
            high = middle;
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
    int at = lower_bound(keys, s, want), rows = args->rows;
    int *out = args->index +
               (long long)(column * DEPTH + piece * PIECE) * args->rows_padded +
               p;
    map_key found = at < rows ? keys[at] : 0;
    spc_u32 present = 0;

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
    /* Lanes are neighbouring rows: they search close by and write together. */
    for (int item = spc_thread(); item < count * COLUMNS * PIECES;
         item += SORT_THREADS) {
        int walk_number = item / count, local = item - walk_number * count;
        int column = walk_number / PIECES, piece = walk_number % PIECES;
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

/* ---- the kernel --------------------------------------------------------------- */

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
    crowded = sum_bins(args, s) > CROWDED;
    if (crowded)
        radix_sort(args, &s->u.sort, &barrier, begin, end, per_block);
    else
        scatter_to_bins(args, s, begin, end);
    grid_sync(&barrier);

    for (int i = spc_block_x() * SORT_THREADS + spc_thread(); i < BINS;
         i += spc_grid_x() * SORT_THREADS)
        args->bins[i] = 0;
    if (crowded) {
        sort_clear(args->tables, 3);
    } else {
        rank_in_bins(args, s, begin, end);
        grid_sync(&barrier);
    }

    search(args, s);
    grid_close(&barrier);
}
