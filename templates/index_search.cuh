/*
 * index_search.cuh - z-delta search (Spira, section 4), and the index it leads
 * to.
 *
 * Neighbours along z have neighbouring keys. So the kernel's offsets fall into
 * runs of up to RUN along z; one binary search, bounded by the bins, finds
 * where a run begins among the sorted keys, and the keys there say which of its
 * offsets are present. That is the map in short form:
 *
 *   first   for each row and batch of runs, four places (BATCH are used): the
 *           position of the first key not below the run
 *   mask    the offsets that are present
 *
 * The i-th present offset of a run is the row at position first + i. Layouts
 * are written from this form, whatever their row order. A dilated kernel has
 * runs of one offset.
 *
 * A thread works on BATCH runs at once: searches are chains of loads, and their
 * latency is what they cost.
 *
 * Part of index.cu.lua, which defines map_key, index_shared and the constants.
 */
#ifndef SPC_INDEX_SEARCH_CUH
#define SPC_INDEX_SEARCH_CUH

#define RUNS (COLUMNS * RUNS_PER_COLUMN)
#define BATCHES ((RUNS + BATCH - 1) / BATCH)

/* A batch of runs of one row. Runs past the last hold no offset. */
typedef struct index_batch {
    int first[BATCH];
    spc_u32 bits[BATCH];
} index_batch;

SPC_DEVICE int run_offset(int run)
{
    return run / RUNS_PER_COLUMN * DEPTH + run % RUNS_PER_COLUMN * RUN;
}

SPC_DEVICE int run_length(int run)
{
    int left = DEPTH - run % RUNS_PER_COLUMN * RUN;

    return run >= RUNS ? 0 : left < RUN ? left : RUN;
}

/* The bits of a run in the mask words of a row, `step` words apart. */
SPC_DEVICE spc_u32 run_bits(const unsigned *mask, int step, int run)
{
    int length = run_length(run), offset = run_offset(run);
    int word = offset >> 5, shift = offset & 31;
    spc_u32 bits;

    if (length == 0)
        return 0;
    bits = mask[word * step] >> shift;
    if (shift + length > 32)
        bits |= mask[(word + 1) * step] << (32 - shift);
    return bits & ((1u << length) - 1u);
}

/* Writes a batch's entries at position p of a row order. */
SPC_DEVICE void write_batch(int *index, const int *order, int rows_padded,
                            int p, int batch, const index_batch *found)
{
    int row[BATCH * RUN];

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        SPC_UNROLL
        for (int l = 0; l < RUN; l++) {
            spc_u32 before = found->bits[j] & ((1u << l) - 1u);
            row[j * RUN + l] = -1;
            if (found->bits[j] >> l & 1u)
                row[j * RUN + l] = order[found->first[j] + spc_popc(before)];
        }
    }
    /* The runs of a batch follow one another. */
    index += (long long)run_offset(batch * BATCH) * rows_padded + p;
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int length = run_length(batch * BATCH + j);
        SPC_UNROLL
        for (int l = 0; l < RUN; l++) {
            if (l < length) {
                *index = row[j * RUN + l];
                index += rows_padded;
            }
        }
    }
}

/* ---- searching -------------------------------------------------------- */

/* The key of a run's first offset, seen from a row. */
SPC_DEVICE map_key run_key(map_key own, int run)
{
    int column = run / RUNS_PER_COLUMN;

    return own + ORIGIN + (map_key)(column / KERNEL_Y) * STEP_X +
           (map_key)(column % KERNEL_Y) * STEP_Y +
           (map_key)(run % RUNS_PER_COLUMN * RUN) * STEP_Z;
}

SPC_DEVICE map_key shfl_key(map_key key, int lane)
{
    map_key low = (spc_u32)spc_shfl((int)(spc_u32)key, lane);

    if (sizeof(map_key) == 4)
        return low;
    return low | (map_key)(spc_u32)spc_shfl((int)(key >> KEY_HALF), lane)
                     << KEY_HALF;
}

/* The first position whose key is not below `want`, by itself. */
SPC_DEVICE int lower_bound(const spc_index_args *args, const index_shared *s,
                           map_key want)
{
    const map_key *keys = (const map_key *)args->keys;
    int bin = bin_of(args, want);
    int low = begin_of(args, s, bin);
    int count = begin_of(args, s, bin + 1) - low;

    while (count > 0) {
        int half = count >> 1;
        if (keys[low + half] < want) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/*
 * The rows of a warp are neighbours, and so are the keys they look for: nearly
 * always all lie within WINDOW keys from a place shortly before the first
 * row's. So each lane loads every fourth key of the window, the lanes search
 * among those by shuffles, and end with two loads that are at hand.
 */
#define WINDOW 128

/* How many of the lanes' ascending pivots are below `want`. */
SPC_DEVICE int rank_in_warp(map_key pivot, map_key want)
{
    int rank = 0;

    SPC_UNROLL
    for (int step = 16; step > 0; step /= 2)
        if (shfl_key(pivot, rank + step - 1) < want)
            rank += step;
    return rank + (shfl_key(pivot, rank) < want);
}

/* Batches whose windows one look finds: a lane looks for one run of the warp's
 * first row. */
#define WINDOW_BATCHES (32 / BATCH)

/* In lane l, where the window of run batch * BATCH + l begins: half a window at
 * most before the first row's own place. */
SPC_DEVICE int open_windows(const spc_index_args *args, const index_shared *s,
                            map_key own, int batch)
{
    const map_key *keys = (const map_key *)args->keys;
    int run = batch * BATCH + spc_lane();
    map_key want = run_key(shfl_key(own, 0), run < RUNS ? run : 0);
    int bin = bin_of(args, want), low = begin_of(args, s, bin);
    int count = begin_of(args, s, bin + 1) - low;

    while (count > WINDOW / 2) {
        int half = count >> 1;
        if (keys[low + half] < want) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* The window of each run of a batch, and this lane's pivot: the last of its
 * four keys there. */
typedef struct index_pivots {
    int base[BATCH];
    map_key pivot[BATCH];
} index_pivots;

SPC_DEVICE void load_pivots(const spc_index_args *args, int windows, int batch,
                            index_pivots *out)
{
    const map_key *keys = (const map_key *)args->keys;

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int base = spc_shfl(windows, batch % WINDOW_BATCHES * BATCH + j);
        int last = base + 4 * spc_lane() + 3;
        out->base[j] = base;
        out->pivot[j] = last < args->rows ? keys[last] : ~(map_key)0;
    }
}

/* The runs of a batch for the row of key `own`; none for a row past the last.
 */
SPC_DEVICE void find_batch(const spc_index_args *args, const index_shared *s,
                           map_key own, int valid, int batch,
                           const index_pivots *pivots, index_batch *found)
{
    const map_key *keys = (const map_key *)args->keys;
    map_key want[BATCH], key[BATCH * RUN];
    int rows = args->rows;

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int run = batch * BATCH + j, fours, at;
        want[j] = run_key(own, run < RUNS ? run : 0);
        fours = rank_in_warp(pivots->pivot[j], want[j]);
        at = pivots->base[j] + 4 * fours;
        if (fours < WINDOW / 4) {
            at += at + 1 < rows && keys[at + 1] < want[j] ? 2 : 0;
            at += at < rows && keys[at] < want[j];
        } else {
            at = lower_bound(args, s, want[j]);
        }
        found->first[j] = at;
    }
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        SPC_UNROLL
        for (int i = 0; i < RUN; i++)
            key[j * RUN + i] = keys[found->first[j] + i];
    }
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        map_key length = (map_key)run_length(batch * BATCH + j);
        found->bits[j] = 0;
        SPC_UNROLL
        for (int i = 0; i < RUN; i++) {
            map_key beyond = key[j * RUN + i] - want[j];
            if (beyond < length && found->first[j] + i < rows && valid)
                found->bits[j] |= 1u << (int)beyond;
        }
    }
}

/* Keeps what was found: in the short form, and in the row's mask. */
SPC_DEVICE void keep_batch(const spc_index_args *args, unsigned *mask, int p,
                           int batch, const index_batch *found)
{
    spc_b16 first;

    first.x = (spc_u32)found->first[0];
    first.y = (spc_u32)found->first[BATCH > 1];
    first.z = (spc_u32)found->first[BATCH > 2 ? 2 : 0];
    first.w = 0;
    spc_store16(args->first + ((long long)p * BATCHES + batch) * 4, first);
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int offset = run_offset(batch * BATCH + j), shift = offset & 31;
        spc_u32 bits = found->bits[j];
        if (bits << shift)
            mask[(offset >> 5) * SORT_THREADS] |= bits << shift;
        if (shift && bits >> (32 - shift))
            mask[((offset >> 5) + 1) * SORT_THREADS] |= bits >> (32 - shift);
    }
}

/* All runs of 32 neighbouring rows: a warp's work. The next batch's pivots are
 * on their way while the present one is searched. */
SPC_DEVICE void search_row(const spc_index_args *args, const index_shared *s,
                           int p, unsigned *mask)
{
    const map_key *keys = (const map_key *)args->keys;
    int valid = p < args->rows;
    map_key own = keys[valid ? p : args->rows - 1];
    int windows = open_windows(args, s, own, 0);
    index_pivots pivots, next;

    load_pivots(args, windows, 0, &pivots);
    for (int batch = 0; batch < BATCHES; batch++) {
        index_batch found;
        if (batch + 1 < BATCHES) {
            if (BATCHES > WINDOW_BATCHES && (batch + 1) % WINDOW_BATCHES == 0)
                windows = open_windows(args, s, own, batch + 1);
            load_pivots(args, windows, batch + 1, &next);
        }
        find_batch(args, s, own, valid, batch, &pivots, &found);
        keep_batch(args, mask, p, batch, &found);
        if (args->index)
            write_batch(args->index, args->order, args->rows_padded, p, batch,
                        &found);
        pivots = next;
    }
}

/* Positions past the rows: no neighbours. */
SPC_DEVICE void search_nothing(const spc_index_args *args, int p)
{
    args->order[p] = -1;
    for (int k = 0; args->index && k < OFFSETS; k++)
        args->index[(long long)k * args->rows_padded + p] = -1;
}

SPC_DEVICE void note_duplicates(const spc_index_args *args, int p)
{
    const map_key *keys = (const map_key *)args->keys;

    if (p > 0 && p < args->rows && keys[p] == keys[p - 1])
        spc_atomic_add(&args->stats[SPC_INDEX_DUPLICATES], 1);
}

/* In two words, none of which is waited for: a large map has more pairs than
 * one word holds. */
SPC_DEVICE void add_pairs(const spc_index_args *args, int pairs)
{
    for (int bits = 16; bits > 0; bits >>= 1)
        pairs += spc_shfl_xor(pairs, bits);
    if (spc_lane() == 0 && pairs) {
        spc_atomic_add(&args->stats[SPC_INDEX_PAIRS], pairs & 0xffff);
        if (pairs >> 16)
            spc_atomic_add(&args->stats[SPC_INDEX_PAIRS + 1], pairs >> 16);
    }
}

/* What a block can do before all keys are sorted. */
SPC_DEVICE void open_search(const spc_index_args *args, index_shared *s)
{
    load_bits(args, s);
    sort_count_clear(s->u.search.digits);
}

/* The plain map of positions begin..end, and their digests if a sorted order is
 * wanted. */
SPC_DEVICE void search(const spc_index_args *args, index_shared *s, int begin,
                       int end)
{
    int sorted = args->sorted.index != (int *)0, pairs = 0;
    unsigned *mask = s->u.search.mask + spc_thread(); /* this thread's own */

    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int p = first + spc_lane();
        for (int w = 0; w < WORDS; w++)
            mask[w * SORT_THREADS] = 0;
        if (first < args->rows)
            search_row(args, s, p, mask);
        note_duplicates(args, p);
        if (p >= args->rows)
            search_nothing(args, p);
        for (int w = 0; w < WORDS; w++) {
            args->mask[(long long)w * args->rows_padded + p] =
                mask[w * SORT_THREADS];
            pairs += spc_popc(mask[w * SORT_THREADS]);
        }
        if (sorted)
            keep_digest(args, s, s->u.search.digits, p, mask, SORT_THREADS);
    }
    add_pairs(args, pairs);
    if (sorted)
        sort_count_store(s->u.search.digits, sort_table(args->tables, 0));
}

/* ---- layouts from the short form -------------------------------------- */

/* A batch of the row at position p of the coordinate order; p < 0: no row. */
SPC_DEVICE void load_batch(const spc_index_args *args, int p,
                           const unsigned *mask, int step, int batch,
                           index_batch *found)
{
    spc_u32 any = 0;

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        found->first[j] = 0;
        found->bits[j] = run_bits(mask, step, batch * BATCH + j);
        any |= found->bits[j];
    }
    if (any) {
        spc_b16 first =
            ((const spc_b16 *)args->first)[(long long)p * BATCHES + batch];
        found->first[0] = (int)first.x;
        found->first[BATCH > 1] = (int)(BATCH > 1 ? first.y : first.x);
        found->first[BATCH > 2 ? 2 : 0] = (int)(BATCH > 2 ? first.z : first.x);
    }
}

/* The index in coordinate order. */
SPC_DEVICE void write_plain(const spc_index_args *args, int begin, int end)
{
    int count = end - begin;

    for (int item = spc_thread(); item < count * BATCHES;
         item += SORT_THREADS) {
        int batch = item / count, p = begin + item - batch * count;
        index_batch found;
        load_batch(args, p, args->mask + p, args->rows_padded, batch, &found);
        write_batch(args->index, args->order, args->rows_padded, p, batch,
                    &found);
    }
}

#endif
