/*
 * index_keys.cuh - distribution sort of packed keys.
 *
 * Packing counts keys by their leading bits in about as many bins as there are
 * rows, and in groups of bins. The atomic's return value is the key's rank inside
 * the bin. Every block then sums the groups and the earlier bins of a key's own
 * group, and the keys move to their bins. Each key finds its position in its bin
 * by counting smaller keys. A barrier of the grid follows each step, however many
 * bits a key has. If a block cannot hold all groups, the blocks sum the bins in
 * an extra step, one share for each block. A scene may be so uneven that one bin
 * is large (one far outlier is enough). Such scenes are sorted by a radix sort
 * instead, in the same launch.
 *
 * Part of index.cu.lua, which defines map_key, index_shared and the constants.
 */
#ifndef SPC_INDEX_KEYS_CUH
#define SPC_INDEX_KEYS_CUH

#define SHARES_OF_LANE (SPC_INDEX_SHARES / 32)
/* Half the bits of a key. */
#define KEY_HALF (4 * sizeof(map_key))

SPC_DEVICE int bin_of(const spc_index_set *set, map_key key)
{
    return (int)(key >> set->bin_shift);
}

/* The position of a bin's first key among the sorted keys; for a bin past the
 * last, the number of rows. */
SPC_DEVICE int begin_of(const spc_index_set *set, const index_shared *s,
                        int bin)
{
    return set->begins[bin] + s->share[bin >> set->share_shift];
}

SPC_DEVICE int bin_count(const spc_index_set *set)
{
    return SPC_INDEX_SHARES << set->share_shift;
}

#include "index_groups.cuh"

/* ---- packing ---------------------------------------------------------- */

/* The first row out of range for each field, and this thread's number of rows
 * out of range. */
typedef struct bad_rows {
    int first[4];
    int count;
} bad_rows;

/* The key of a row. For a row outside the key layout it is `none`, which is
 * above all others. */
SPC_DEVICE map_key pack_row(const spc_index_args *args, int row, bad_rows *bad)
{
    const spc_index_key *layout = &args->set.key;
    spc_b16 c = spc_load16(args->coords + 4ll * row);
    spc_u32 field[4];
    map_key key = 0;
    int outside = 0;

    field[0] = c.x;
    field[1] = c.y;
    field[2] = c.z;
    field[3] = c.w;
    SPC_UNROLL
    for (int i = 0; i < 4; i++) {
        spc_u32 value = field[i] - (spc_u32)layout->low[i];
        if (value > layout->last[i]) {
            outside = 1;
            if (row < bad->first[i])
                bad->first[i] = row;
        }
        key |= ((map_key)value + layout->before[i]) << layout->shift[i];
    }
    bad->count += outside;
    return outside ? (map_key)layout->none : key;
}

/* The coordinates of a key. */
SPC_DEVICE spc_b16 unpack_key(const spc_index_key *layout, row_key key)
{
    spc_u32 field[4];
    spc_b16 c;

    SPC_UNROLL
    for (int i = 0; i < 4; i++)
        field[i] = ((spc_u32)(key >> layout->shift[i]) & layout->wide[i]) -
                   layout->before[i] + (spc_u32)layout->low[i];
    c.x = field[0];
    c.y = field[1];
    c.z = field[2];
    c.w = field[3];
    return c;
}

/* Called before the launch's first barrier. */
SPC_DEVICE void clear_stats(const spc_index_args *args)
{
    if (spc_block_x() != 0)
        return;
    for (int i = spc_thread(); i < SPC_INDEX_STATS; i += SORT_THREADS)
        args->stats[i] = i < SPC_INDEX_DUPLICATES || i == SPC_INDEX_DUPLICATE_ROW
                             ? SPC_INDEX_NO_ROW
                             : 0;
}

/* Called after the launch's first barrier. */
SPC_DEVICE void report_rows(const spc_index_args *args, const bad_rows *bad)
{
    for (int i = 0; i < 4; i++)
        if (bad->first[i] != SPC_INDEX_NO_ROW)
            spc_atomic_min(&args->stats[SPC_INDEX_BAD_ROW + i], bad->first[i]);
    if (bad->count)
        spc_atomic_add(&args->stats[SPC_INDEX_BAD_ROWS], bad->count);
    if (spc_block_x() == 0 && spc_thread() == 0)
        args->stats[SPC_INDEX_ROWS] =
            args->source ? *args->source : args->source_rows;
}

/* Records the number of keys of the fullest bin so far, if it is crowded. */
SPC_DEVICE void note_crowd(const spc_index_args *args, int keys)
{
    if (keys > SPC_INDEX_CROWDED)
        spc_atomic_max(most_keys(args), keys);
}

/* True if one bin has too many keys. */
SPC_DEVICE int report_crowd(const spc_index_args *args)
{
    int most = *most_keys(args);

    if (most > SPC_INDEX_CROWDED && spc_block_x() == 0 && spc_thread() == 0)
        args->stats[SPC_INDEX_MOST_KEYS] = most;
    return most > SPC_INDEX_CROWDED;
}

/* Packs the keys in the caller's order, and counts them by bin and by group. */
SPC_DEVICE void pack(const spc_index_args *args, index_shared *s, int begin,
                     int end, bad_rows *bad)
{
    map_key *keys = (map_key *)args->keys_a;
    int lane = spc_lane(), grouped = is_grouped(&args->set);

    if (grouped)
        clear_groups(args, s);
    for (int i = 0; i < 4; i++)
        bad->first[i] = SPC_INDEX_NO_ROW;
    bad->count = 0;
    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int row = first + lane, valid = row < end, rank = 0;
        map_key key = 0;
        if (valid)
            key = pack_row(args, row, bad);
        int bin = valid ? bin_of(&args->set, key) : -1;
        /* Lanes with the same bin use one atomic, because neighbours in a scan
         * often share a bin. */
        spc_u32 peers = spc_match((spc_u32)bin);
        int leader = spc_ffs(peers) - 1;
        if (valid && lane == leader) {
            int count = spc_popc(peers);
            rank = (int)spc_atomic_add_u32(&args->bins[bin], (spc_u32)count);
            if (grouped)
                spc_atomic_add(&s->u.groups.of[bin >> SPC_INDEX_GROUP_BITS],
                               count);
            /* The atomic returned the keys before these, so the fullest bin is
             * known without another pass. */
            note_crowd(args, rank + count);
        }
        rank = spc_shfl(rank, leader) + spc_popc(peers & ((1u << lane) - 1u));
        if (valid) {
            keys[row] = key;
            args->rows_a[row] = rank;
        }
    }
    if (grouped)
        add_groups(args, s);
}

/* ---- bins ------------------------------------------------------------- */

/* Sums one share of the bins. */
SPC_DEVICE void sum_share(const spc_index_args *args, index_shared *s,
                          int share)
{
    int bins = 1 << args->set.share_shift, sum = 0;
    const unsigned *count = args->bins + share * bins;
    int *begin = args->set.begins + share * bins;

    for (int step = 0; step < bins; step += SORT_THREADS) {
        int i = step + spc_thread(), own = i < bins ? (int)count[i] : 0;
        int before = sort_block_sum(own, s->u.sort.sums);
        if (i < bins)
            begin[i] = sum + before;
        sum += s->u.sort.sums[SORT_WARPS];
    }
    if (spc_thread() == 0)
        args->set.shares[share] = sum;
}

SPC_DEVICE void sum_bins(const spc_index_args *args, index_shared *s)
{
    for (int share = spc_block_x(); share < SPC_INDEX_SHARES;
         share += spc_grid_x())
        sum_share(args, s, share);
}

/* Clears the counts for the next launch. */
SPC_DEVICE void clear_bins(const spc_index_args *args)
{
    int fours = (bin_count(&args->set) + SPC_INDEX_BEHIND_BINS) / 4;
    spc_b16 none = {0, 0, 0, 0};

    SPC_ROLLED
    for (int i = sort_grid_thread(); i < fours;
         i += spc_grid_x() * SORT_THREADS)
        spc_store16(args->bins + 4 * i, none);
}

/* Computes where the shares of a set of this many rows begin. One warp of every
 * block does this. */
SPC_DEVICE void sum_shares(const spc_index_set *set, index_shared *s, int rows)
{
    int lane = spc_lane(), own[SHARES_OF_LANE], sum = 0, before;

    if (spc_warp() == 0) {
        SPC_UNROLL
        for (int i = 0; i < SHARES_OF_LANE; i++) {
            own[i] = set->shares[lane * SHARES_OF_LANE + i];
            sum += own[i];
        }
        before = -sum;
        for (int by = 1; by < 32; by *= 2) {
            int other = spc_shfl_up(sum, by);
            if (lane >= by)
                sum += other;
        }
        before += sum;
        SPC_UNROLL
        for (int i = 0; i < SHARES_OF_LANE; i++) {
            s->share[lane * SHARES_OF_LANE + i] = before;
            before += own[i];
        }
        if (lane == 0)
            s->share[SPC_INDEX_SHARES] = rows;
    }
    spc_sync_block();
}

typedef struct packed_row {
    map_key key;
    int rank; /* in its bin */
} packed_row;

SPC_DEVICE packed_row packed_at(const spc_index_args *args, int row, int end)
{
    packed_row r = {0, 0};

    if (row < end) {
        r.key = ((const map_key *)args->keys_a)[row];
        r.rank = args->rows_a[row];
    }
    return r;
}

/* Adds the keys in earlier bins of its group to a row's rank. */
SPC_DEVICE void rank_in_group(const spc_index_args *args, packed_row *r)
{
    r->rank += keys_before(args, bin_of(&args->set, r->key));
}

/* Stores keys by bin, with their rows. Both are in one word if they fit,
 * because the cost of a scatter is the number of stores. */
SPC_DEVICE void put_binned(const spc_index_args *args, int place, map_key key,
                           int row)
{
#if PAIRED
    ((spc_u64 *)args->rows_b)[place] = (spc_u64)key << 32 | (spc_u32)row;
#else
    ((map_key *)args->keys_b)[place] = key;
    args->rows_b[place] = row;
#endif
}

SPC_DEVICE map_key binned_key(const spc_index_args *args, int p)
{
#if PAIRED
    return (map_key)(((const spc_u64 *)args->rows_b)[p] >> 32);
#else
    return ((const map_key *)args->keys_b)[p];
#endif
}

SPC_DEVICE int binned_row(const spc_index_args *args, int p)
{
#if PAIRED
    return (int)(spc_u32)((const spc_u64 *)args->rows_b)[p];
#else
    return args->rows_b[p];
#endif
}

/* `next` is this thread's first row. It was loaded ahead, and ranked in its
 * group if there are groups. */
SPC_DEVICE void scatter_to_bins(const spc_index_args *args,
                                const index_shared *s, packed_row next,
                                int begin, int end)
{
    const spc_index_set *set = &args->set;
    int grouped = is_grouped(set);

    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int row = first + spc_lane(), bin = bin_of(set, next.key);
        int place = grouped ? s->u.groups.of[bin >> SPC_INDEX_GROUP_BITS]
                            : begin_of(set, s, bin);
        if (row < end)
            put_binned(args, place + next.rank, next.key, row);
        next = packed_at(args, row + SORT_THREADS, end);
        if (grouped && first + SORT_THREADS < end)
            rank_in_group(args, &next);
    }
}

/* The number of rows with the same key (an error in the scene) that precede
 * `row`. */
SPC_DEVICE int rank_among_equals(const spc_index_args *args, map_key key,
                                 int row, int first, int last)
{
    int rank = 0;

    for (int q = first; q < last; q++)
        if (binned_key(args, q) == key && binned_row(args, q) < row)
            rank++;
    return rank;
}

/* Records a row whose voxel an earlier row has. */
SPC_DEVICE void note_duplicate(const spc_index_args *args, int row)
{
    spc_atomic_add(&args->stats[SPC_INDEX_DUPLICATES], 1);
    spc_atomic_min(&args->stats[SPC_INDEX_DUPLICATE_ROW], row);
}

SPC_DEVICE map_key exchange(map_key key, int bits)
{
    map_key low = (spc_u32)spc_shfl_xor((int)(spc_u32)key, bits);

    if (sizeof(map_key) == 4)
        return low;
    return low | (map_key)(spc_u32)spc_shfl_xor((int)(key >> KEY_HALF), bits)
                     << KEY_HALF;
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
            /* True if this lane keeps the smaller key. Every other run of the
             * merge is sorted downwards. */
            int low = ((lane & bits) == 0) == ((lane & run) == 0);
            if (low == (other < key))
                key = other;
        }
    }
    return key;
}

/* Sorts runs of 32 of the keys at [first, last) into shared memory. */
SPC_DEVICE void sort_runs(const spc_index_args *args, index_shared *s,
                          int first, int last)
{
    for (int at = first + 32 * spc_warp(); at < last; at += SORT_THREADS) {
        int p = at + spc_lane();
        s->u.keys[p - first] = sort_warp(p < last ? binned_key(args, p) : ~(map_key)0);
    }
}

/* The number of keys in a sorted run of 32 that are below `key`. Adds to *equal
 * the number of equal keys (at most two). */
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

/* A key by bin, its row, and where its bin begins and ends. */
typedef struct binned {
    map_key key;
    int row, first, last;
} binned;

SPC_DEVICE binned binned_at(const spc_index_args *args, const index_shared *s,
                            int p, int end)
{
    const spc_index_set *set = &args->set;
    binned b = {0, 0, 0, 0};

    if (p >= end)
        return b;
    b.key = binned_key(args, p);
    b.row = binned_row(args, p);
    b.first = begin_of(set, s, bin_of(set, b.key));
    b.last = begin_of(set, s, bin_of(set, b.key) + 1);
    return b;
}

/*
 * The position of a key: the sum of its ranks in the sorted runs that overlap its
 * bin, the first of which is at `base`. Keys of other bins in these runs are all
 * smaller or all larger.
 */
SPC_DEVICE int rank_key(const spc_index_args *args, const index_shared *s,
                        const binned *b, int base)
{
    int place = b->first & ~31, equal = 0;

    for (int run = place; run < b->last; run += 32)
        place += rank_in_run(s->u.keys + (run - base), b->key, &equal);
    if (equal > 1) {
        int before =
            rank_among_equals(args, b->key, b->row, b->first, b->last);
        /* Rows out of range share the key `none` and do not count as
         * duplicates. */
        if (before > 0 && b->key != (map_key)args->set.key.none)
            note_duplicate(args, b->row);
        place += before;
    }
    return place;
}

/* Finds each key's position in its bin. The result does not depend on the order
 * in which keys arrived. */
SPC_DEVICE void rank_chunk(const spc_index_args *args, index_shared *s,
                           int begin, int end)
{
    const spc_index_set *set = &args->set;
    binned own = binned_at(args, s, begin + spc_thread(), end);
    /* Runs begin at multiples of 32, so that equal positions are in equal runs
     * in all blocks. */
    int base = begin_of(set, s, bin_of(set, binned_key(args, begin))) & ~31;
    int top = begin_of(set, s, bin_of(set, binned_key(args, end - 1)) + 1);

    sort_runs(args, s, base, top);
    spc_sync_block(); /* all runs are sorted */
    for (int p = begin + spc_thread(); p < end; p += SORT_THREADS) {
        int place = rank_key(args, s, &own, base);
        ((map_key *)set->keys)[place] = own.key;
        set->order[place] = own.row;
        /* The loads of the next key overlap the stores of this one. */
        own = binned_at(args, s, p + SORT_THREADS, end);
    }
}

SPC_DEVICE void rank_in_bins(const spc_index_args *args, index_shared *s,
                             int begin, int end)
{
    for (; begin < end; begin += SPC_INDEX_CHUNK) {
        int rest = end - begin;
        spc_sync_block(); /* the previous chunk's runs have been read */
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

    sort_count_clear(s->next);
    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int row = first + spc_lane(), valid = row < end;
        sort_count(s->next, valid, valid ? key_digit(keys[row], 0) : 0);
    }
    sort_count_store(s->next, sort_table(args->tables, 0));
}

SPC_DEVICE void radix_pass(const spc_index_args *args, sort_shared *s,
                           sort_counts counts, int pass, int last,
                           const map_key *from,
                           const int *from_rows, map_key *to, int *to_rows,
                           int begin, int end, int per_block)
{
    int *next = sort_table(args->tables, pass + 1);

    sort_count_open(counts);
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
        if (!last)
            sort_count_next(counts, next, per_block, valid, place,
                            key_digit(key, pass + 1));
    }
    if (!last)
        sort_count_flush(counts, next);
}

SPC_DEVICE void radix_sort(const spc_index_args *args, index_shared *shared,
                           grid_barrier *barrier, int begin, int end,
                           int per_block)
{
    sort_shared *s = &shared->u.sort;
    map_key *from = (map_key *)args->keys_a, *to = (map_key *)args->keys_b;
    int *from_rows = (int *)0, *to_rows = args->rows_b;
    int passes = (args->set.key.bits + SORT_BITS - 1) / SORT_BITS;

    count_keys(args, s, begin, end);
    for (int pass = 0; pass < passes; pass++) {
        grid_sync(barrier);
        if (pass > 0) /* the table that the previous pass read */
            sort_clear(sort_table(args->tables, pass + 2), 1);
        if (pass == passes - 1) {
            /* The last pass writes into the set, which saves a copy. */
            to = (map_key *)args->set.keys;
            to_rows = args->set.order;
        }
        radix_pass(args, s, next_counts(shared), pass, pass == passes - 1, from,
                   from_rows, to, to_rows, begin, end, per_block);
        from = to;
        from_rows = to_rows;
        to = (map_key *)(pass % 2 ? args->keys_b : args->keys_a);
        to_rows = pass % 2 ? args->rows_b : args->rows_a;
    }
}

/* Finds duplicates among keys that were sorted without comparing equal ones. */
SPC_DEVICE void note_duplicates(const spc_index_args *args, int begin, int end)
{
    const map_key *keys = (const map_key *)args->set.keys;

    for (int p = begin + spc_thread(); p < end; p += SORT_THREADS)
        if (p > 0 && keys[p] == keys[p - 1] &&
            keys[p] != (map_key)args->set.key.none)
            note_duplicate(args, args->set.order[p]);
}

#endif
