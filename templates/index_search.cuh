/*
 * index_search.cuh - z-delta search (Spira, section 4), and the index it leads
 * to.
 *
 * Neighbours along z have neighbouring keys. So the kernel's offsets fall into
 * runs of up to RUN along z; one binary search, bounded by the bins, finds where
 * a run begins among the sorted keys, and the keys there say which of its
 * offsets are present. That is the map in short form:
 *
 *   first[p * RUNS + r]   position of the first key not below run r of row p
 *   mask                  the offsets that are present
 *
 * The i-th present offset of a run is the row at position first + i. Layouts are
 * written from this form, whatever their row order. A dilated kernel has runs of
 * one offset.
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
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int run = batch * BATCH + j, length = run_length(run);
        SPC_UNROLL
        for (int l = 0; l < RUN; l++)
            if (l < length)
                index[(long long)(run_offset(run) + l) * rows_padded + p] =
                    row[j * RUN + l];
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

/* Moves `low` of each run to the first position whose key is not below `want`;
 * all searches take a step before the next one. */
SPC_DEVICE void lower_bounds(const map_key *keys, const map_key *want, int *low,
                             int *count)
{
    int more = 1;

    while (more) {
        map_key key[BATCH];
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++)
            key[j] = keys[low[j] + (count[j] >> 1)];
        more = 0;
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            int half = count[j] >> 1;
            int above = count[j] > 0 && key[j] < want[j];
            low[j] += above ? half + 1 : 0;
            count[j] = above ? count[j] - half - 1 : half;
            more |= count[j];
        }
    }
}

SPC_DEVICE void find_batch(const spc_index_args *args, const index_shared *s,
                           int p, int batch, index_batch *found)
{
    const map_key *keys = (const map_key *)args->keys;
    map_key own = keys[p], want[BATCH], key[BATCH * RUN];
    int count[BATCH];

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int run = batch * BATCH + j;
        int bin = bin_of(args, want[j] = run_key(own, run < RUNS ? run : 0));
        found->first[j] = begin_of(args, s, bin);
        count[j] = begin_of(args, s, bin + 1) - found->first[j];
    }
    lower_bounds(keys, want, found->first, count);
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
            if (beyond < length && found->first[j] + i < args->rows)
                found->bits[j] |= 1u << (int)beyond;
        }
    }
}

/* Keeps what was found: in the short form, and in the row's mask. */
SPC_DEVICE void keep_batch(const spc_index_args *args, index_shared *s, int p,
                           int local, int batch, const index_batch *found)
{
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int run = batch * BATCH + j, length = run_length(run);
        int word = run_offset(run) >> 5, shift = run_offset(run) & 31;
        spc_u32 bits = found->bits[j];
        if (length > 0)
            args->first[(long long)p * RUNS + run] = found->first[j];
        if (bits << shift)
            spc_atomic_or(&s->u.search.mask[word * SPC_INDEX_CHUNK + local],
                          bits << shift);
        if (shift && bits >> (32 - shift))
            spc_atomic_or(
                &s->u.search.mask[(word + 1) * SPC_INDEX_CHUNK + local],
                bits >> (32 - shift));
    }
}

/* A warp takes 32 neighbouring rows and one batch: its lanes search close by
 * and write together. */
SPC_DEVICE void search_chunk(const spc_index_args *args, index_shared *s,
                             int begin, int count)
{
    int groups = count / 32;

    for (int item = spc_warp(); item < groups * BATCHES; item += SORT_WARPS) {
        int batch = item / groups;
        int local = 32 * (item - batch * groups) + spc_lane();
        int p = begin + local;
        index_batch found;
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            found.first[j] = 0;
            found.bits[j] = 0;
        }
        if (p < args->rows)
            find_batch(args, s, p, batch, &found);
        keep_batch(args, s, p, local, batch, &found);
        if (args->index)
            write_batch(args->index, args->order, args->rows_padded, p, batch,
                        &found);
    }
}

SPC_DEVICE void note_duplicates(const spc_index_args *args, int p)
{
    const map_key *keys = (const map_key *)args->keys;

    if (p > 0 && p < args->rows && keys[p] == keys[p - 1])
        spc_atomic_add(&args->stats[SPC_INDEX_DUPLICATES], 1);
}

/* 64 bits in two words: a large map has more pairs than one holds. */
SPC_DEVICE void add_pairs(const spc_index_args *args, int pairs)
{
    spc_u32 *total = (spc_u32 *)&args->stats[SPC_INDEX_PAIRS];

    for (int bits = 16; bits > 0; bits >>= 1)
        pairs += spc_shfl_xor(pairs, bits);
    if (spc_lane() == 0 && pairs) {
        spc_u32 before = spc_atomic_add_u32(&total[0], (spc_u32)pairs);
        if (before + (spc_u32)pairs < before)
            spc_atomic_add_u32(&total[1], 1);
    }
}

/* The plain map of positions begin..end, and their digests if a sorted order is
 * wanted. */
SPC_DEVICE void search(const spc_index_args *args, index_shared *s, int begin,
                       int end)
{
    int sorted = args->sorted.index != (int *)0, pairs = 0;

    if (sorted) {
        load_bits(args, s);
        sort_count_clear(s->u.search.digits);
    }
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
            for (int w = 0; w < WORDS; w++) {
                unsigned mask = s->u.search.mask[w * SPC_INDEX_CHUNK + i];
                args->mask[(long long)w * args->rows_padded + begin + i] = mask;
                pairs += spc_popc(mask);
            }
            if (sorted)
                keep_digest(args, s, s->u.search.digits, begin + i,
                            s->u.search.mask + i, SPC_INDEX_CHUNK);
        }
        spc_sync_block();
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
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int run = batch * BATCH + j;
        found->first[j] = 0;
        found->bits[j] = run_bits(mask, step, run);
        if (found->bits[j])
            found->first[j] = args->first[(long long)p * RUNS + run];
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
