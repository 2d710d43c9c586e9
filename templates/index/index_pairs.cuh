/*
 * index_pairs.cuh - a separate kernel that lists the pairs of a map by offset.
 *
 * The pairs of an offset are in the order of their outputs' keys, whatever the
 * grid. Each block has a range of positions and each warp a part of it. The
 * blocks count their pairs of each offset, all blocks sum the counts, and the
 * warps count their pairs again and write them. Places are ordered by rows, and
 * within a row by offsets. The pairs of earlier rows come first, so places
 * follow from the same counts.
 *
 * Part of index.cu.lua, which defines map_key, index_extent and the constants.
 */
#ifndef SPC_INDEX_PAIRS_CUH
#define SPC_INDEX_PAIRS_CUH

/* The offsets of a mask word are processed together, one per lane. */
typedef struct pairs_shared {
    int total[OFFSETS]; /* pairs of each offset */
    int begin[OFFSETS]; /* where this block's pairs begin */
    int place;          /* where the places of its rows begin */
    int of_warp[SORT_WARPS * 32];
} pairs_shared;

typedef char pairs_shared_fits
    [sizeof(pairs_shared) <= SPC_PAIRS_SHARED(SORT_THREADS, OFFSETS) ? 1 : -1];

SPC_DEVICE spc_u32 mask_at(const spc_index_args *args, int word, int p, int end)
{
    return p < end ? args->mask[(long long)word * args->set.rows_padded + p]
                   : 0;
}

/* The number of rows of begin..end that have this lane's offset of the word. */
SPC_DEVICE int count_offset(const spc_index_args *args, int word, int begin,
                            int end)
{
    int count = 0;

    for (int first = begin; first < end; first += 32) {
        spc_u32 mask = mask_at(args, word, first + spc_lane(), end);
        for (spc_u32 left = spc_warp_or(mask); left; left &= left - 1) {
            /* The ballot turns 32 masks into the rows of one offset, which its
             * lane counts. */
            int bit = spc_ffs(left) - 1;
            spc_u32 rows = spc_ballot((int)(mask >> bit & 1u));
            if (spc_lane() == bit)
                count += spc_popc(rows);
        }
    }
    return count;
}

/* The warps' counts of a word, and their sum for each offset. */
SPC_DEVICE void count_word(const spc_index_args *args, pairs_shared *s,
                           int word, int begin, int end)
{
    int count = count_offset(args, word, begin, end);

    spc_sync_block(); /* the counts of the previous word have been read */
    s->of_warp[spc_warp() * 32 + spc_lane()] = count;
    spc_sync_block(); /* the counts of all warps are stored */
}

SPC_DEVICE void count_pairs(const spc_index_args *args, pairs_shared *s,
                            int begin, int end)
{
    for (int word = 0; word < WORDS; word++) {
        int k = 32 * word + spc_lane(), sum = 0;
        count_word(args, s, word, begin, end);
        if (spc_warp() != 0 || k >= OFFSETS)
            continue;
        for (int w = 0; w < SORT_WARPS; w++)
            sum += s->of_warp[w * 32 + spc_lane()];
        /* Counts of one offset are contiguous, because sum_offset reads them
         * together. */
        args->by_offset.counts[k * spc_grid_x() + spc_block_x()] = sum;
    }
}

SPC_DEVICE int sum_warp(int value)
{
    for (int bits = 16; bits > 0; bits >>= 1)
        value += spc_shfl_xor(value, bits);
    return value;
}

/* Sums the counts of an offset, over all blocks and over earlier blocks. */
SPC_DEVICE void sum_offset(const spc_index_args *args, pairs_shared *s, int k)
{
    const int *counts = args->by_offset.counts + k * spc_grid_x();
    int total = 0, before = 0;

    for (int block = spc_lane(); block < spc_grid_x(); block += 32) {
        total += counts[block];
        before += block < spc_block_x() ? counts[block] : 0;
    }
    total = sum_warp(total);
    before = sum_warp(before);
    if (spc_lane() == 0) {
        s->total[k] = total;
        s->begin[k] = before;
    }
}

/* Adds up the offsets. The first block publishes where each begins. */
SPC_DEVICE void sum_offsets(const spc_index_args *args, pairs_shared *s)
{
    int sum = 0, before = 0;

    for (int k = spc_warp(); k < OFFSETS; k += SORT_WARPS)
        sum_offset(args, s, k);
    spc_sync_block();
    if (spc_thread() == 0) {
        for (int k = 0; k < OFFSETS; k++) {
            /* Pairs of all offsets in earlier blocks: the places of this
             * block's rows begin there. */
            before += s->begin[k];
            s->begin[k] += sum;
            if (spc_block_x() == 0)
                args->by_offset.begin[k] = sum;
            sum += s->total[k];
        }
        s->place = before;
        if (spc_block_x() == 0)
            args->by_offset.begin[OFFSETS] = sum;
    }
    spc_sync_block();
}

/* Pairs of the row at position p in the mask words that precede `word`. */
SPC_DEVICE int count_below(const spc_index_args *args, int word, int p, int end)
{
    int count = 0;

    for (int w = 0; w < word; w++)
        count += spc_popc(mask_at(args, w, p, end));
    return count;
}

/* Sum of the values of this lane and all lower lanes. */
SPC_DEVICE int scan_warp(int value)
{
    for (int by = 1; by < 32; by *= 2) {
        int below = spc_shfl_up(value, by);
        if (spc_lane() >= by)
            value += below;
    }
    return value;
}

/* Writes the first places of rows begin..end, which are this warp's part of the
 * block. */
SPC_DEVICE void place_rows(const spc_index_args *args, pairs_shared *s,
                           int begin, int end)
{
    int sum = 0, next = s->place, warp = spc_warp();

    for (int p = begin + spc_lane(); p < end; p += 32)
        sum += count_below(args, WORDS, p, end);
    sum = sum_warp(sum);
    if (spc_lane() == 0)
        s->of_warp[warp] = sum;
    spc_sync_block();
    for (int w = 0; w < warp; w++)
        next += s->of_warp[w];
    for (int first = begin; first < end; first += 32) {
        int p = first + spc_lane(), count = count_below(args, WORDS, p, end);
        int upto = next + scan_warp(count);
        if (p < end)
            args->by_offset.first[args->set.order[p]] = upto - count;
        next = spc_shfl(upto, 31);
    }
}

/* The input of the row at position p at an offset that it has. */
SPC_DEVICE int input_at(const spc_index_args *args, int p, int k)
{
    int number = k / DEPTH * RUNS_PER_COLUMN + k % DEPTH / RUN;
    int plane = number / PLANE, in_plane = number % PLANE;
    int batch = plane * PLANE_BATCHES + in_plane / BATCH, j = in_plane % BATCH;
    int l = k % DEPTH % RUN;
    spc_u32 bits =
        run_bits(args->mask + p, args->set.rows_padded, batch * BATCH + j);

    return args->in.order[args->first[first_of(args->set.rows_padded, p, batch) +
                                      j] +
                          spc_popc(bits & ((1u << l) - 1u))];
}

/* Writes a word's pairs of rows begin..end; `next` is the position of the next
 * pair of this lane's offset. */
SPC_DEVICE void write_offset(const spc_index_args *args, int word, int next,
                             int begin, int end)
{
    spc_u32 below = (1u << spc_lane()) - 1u;

    for (int first = begin; first < end; first += 32) {
        int p = first + spc_lane(), row = p < end ? args->set.order[p] : -1;
        spc_u32 mask = mask_at(args, word, p, end);
        /* This lane wrote it in place_rows. */
        int place = row < 0 ? 0
                            : args->by_offset.first[row] +
                                  count_below(args, word, p, end);
        for (spc_u32 left = spc_warp_or(mask); left; left &= left - 1) {
            int bit = spc_ffs(left) - 1;
            spc_u32 rows = spc_ballot((int)(mask >> bit & 1u));
            int at = spc_shfl(next, bit) + spc_popc(rows & below);
            if (mask >> bit & 1u) {
                args->by_offset.in[at] = input_at(args, p, 32 * word + bit);
                args->by_offset.out[at] = row;
                args->by_offset.place[at] =
                    place + spc_popc(mask & ((1u << bit) - 1u));
            }
            if (spc_lane() == bit)
                next += spc_popc(rows);
        }
    }
}

SPC_DEVICE void write_pairs(const spc_index_args *args, pairs_shared *s,
                            int begin, int end)
{
    for (int word = 0; word < WORDS; word++) {
        int k = 32 * word + spc_lane();
        int next = k < OFFSETS ? s->begin[k] : 0;
        /* Counts again, as shared memory holds the warps' counts of only one
         * word. */
        count_word(args, s, word, begin, end);
        for (int w = 0; w < spc_warp(); w++)
            next += s->of_warp[w * 32 + spc_lane()];
        write_offset(args, word, next, begin, end);
    }
}

SPC_KERNEL(spc_pairs, spc_index_args, SORT_THREADS, 1)
{
    pairs_shared *s = (pairs_shared *)spc_shared();
    int rows = *args->set.count;
    /* Every warp of a block has the same whole number of 32 rows. */
    int of_block = share_of_block(rows, 32 * SORT_WARPS);
    int of_warp = of_block / SORT_WARPS;
    int begin = spc_block_x() * of_block + spc_warp() * of_warp;
    int end = at_most(begin + of_warp, rows);
    grid_barrier barrier;

    grid_open(&barrier, args->sync);
    count_pairs(args, s, begin, end);
    grid_sync(&barrier);
    sum_offsets(args, s);
    place_rows(args, s, begin, end);
    write_pairs(args, s, begin, end);
    grid_close(&barrier);
}

#endif
