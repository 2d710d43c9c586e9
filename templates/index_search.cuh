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
 * are written from this form, whatever their row order. A kernel that is dilated
 * along z, a list of offsets, and an inverse map have runs of one offset.
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

/* ---- keys of runs ------------------------------------------------------ */

/* Differences of keys of the set that is searched: to the first offset, and one
 * step along each axis. */
typedef struct index_steps {
    map_key origin, x, y, z;
} index_steps;

SPC_DEVICE map_key key_step(const spc_index_args *args, int axis, int voxels)
{
    return (map_key)(long long)voxels << args->in.key.shift[axis];
}

SPC_DEVICE index_steps steps_of(const spc_index_args *args)
{
    index_steps steps;

    steps.origin = key_step(args, 1, ORIGIN_X) + key_step(args, 2, ORIGIN_Y) +
                   key_step(args, 3, ORIGIN_Z);
    steps.x = key_step(args, 1, DILATION_X);
    steps.y = key_step(args, 2, DILATION_Y);
    steps.z = key_step(args, 3, DILATION_Z);
    return steps;
}

/* The key of a run's first offset, seen from a row's own. */
SPC_DEVICE map_key run_key(const spc_index_args *args, const index_steps *steps,
                           map_key own, int run)
{
#if LIST
    const int *at = args->list + 3 * run;

    return own + key_step(args, 1, at[0]) + key_step(args, 2, at[1]) +
           key_step(args, 3, at[2]);
#else
    int column = run / RUNS_PER_COLUMN;

    return own + steps->origin + (map_key)(column / KERNEL_Y) * steps->x +
           (map_key)(column % KERNEL_Y) * steps->y +
           (map_key)(run % RUNS_PER_COLUMN * RUN) * steps->z;
#endif
}

SPC_DEVICE map_key shfl_key(map_key key, int lane)
{
    map_key low = (spc_u32)spc_shfl((int)(spc_u32)key, lane);

    if (sizeof(map_key) == 4)
        return low;
    return low | (map_key)(spc_u32)spc_shfl((int)(key >> KEY_HALF), lane)
                     << KEY_HALF;
}

/* The first position whose key is not below `want`, or one at most `most` places
 * before it. */
SPC_DEVICE int lower_bound(const spc_index_set *in, const index_shared *s,
                           map_key want, int most)
{
    const map_key *keys = (const map_key *)in->keys;
    int bin = bin_of(in, want);
    int low = begin_of(in, s, bin);
    int count = begin_of(in, s, bin + 1) - low;

    while (count > most) {
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
                            const index_steps *steps, map_key own, int batch)
{
    int run = batch * BATCH + spc_lane();

    return lower_bound(&args->in, s,
                       run_key(args, steps, shfl_key(own, 0),
                               run < RUNS ? run : 0),
                       WINDOW / 2);
}

/* The window of each run of a batch, and this lane's pivot: the last of its
 * four keys there. */
typedef struct index_pivots {
    int base[BATCH];
    map_key pivot[BATCH];
} index_pivots;

SPC_DEVICE void load_pivots(const spc_index_args *args, int rows_in,
                            int windows, int batch, index_pivots *out)
{
    const map_key *keys = (const map_key *)args->in.keys;

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int base = spc_shfl(windows, batch % WINDOW_BATCHES * BATCH + j);
        int last = base + 4 * spc_lane() + 3;
        out->base[j] = base;
        out->pivot[j] = last < rows_in ? keys[last] : ~(map_key)0;
    }
}

/* Which offsets of its runs a batch has, from where the runs begin. */
SPC_DEVICE void read_runs(const map_key *keys, int rows_in, const map_key *want,
                          int valid, int batch, index_batch *found)
{
    map_key key[BATCH * RUN];

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
            if (beyond < length && found->first[j] + i < rows_in && valid)
                found->bits[j] |= 1u << (int)beyond;
        }
    }
}

/* The runs of a batch for the row of key `own`; none for a row past the last.
 */
SPC_DEVICE void find_batch(const spc_index_args *args, const index_shared *s,
                           const index_steps *steps, int rows_in, map_key own,
                           int valid, int batch, const index_pivots *pivots,
                           index_batch *found)
{
    const map_key *keys = (const map_key *)args->in.keys;
    map_key want[BATCH];

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int run = batch * BATCH + j, fours, at;
        want[j] = run_key(args, steps, own, run < RUNS ? run : 0);
        fours = rank_in_warp(pivots->pivot[j], want[j]);
        at = pivots->base[j] + 4 * fours;
        if (fours < WINDOW / 4) {
            at += at + 1 < rows_in && keys[at + 1] < want[j] ? 2 : 0;
            at += at < rows_in && keys[at] < want[j];
        } else {
            at = lower_bound(&args->in, s, want[j], 0);
        }
        found->first[j] = at;
    }
    read_runs(keys, rows_in, want, valid, batch, found);
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

SPC_DEVICE void write_found(const spc_index_args *args, unsigned *mask, int p,
                            int batch, const index_batch *found)
{
    keep_batch(args, mask, p, batch, found);
    if (args->index)
        write_batch(args->index, args->in.order, args->set.rows_padded, p,
                    batch, found);
}

/* A row's own key among those that are searched: that of output * stride. */
SPC_DEVICE map_key own_key(const spc_index_args *args, int p)
{
    row_key key = ((const row_key *)args->set.keys)[p];

#if SUBM
    return key;
#else
    const spc_index_key *in = &args->in.key;
    spc_b16 c = unpack_key(&args->set.key, key);

    return ((map_key)(c.x - (spc_u32)in->low[0] + in->before[0])
            << in->shift[0]) +
           key_step(args, 1,
                    (int)c.y * STRIDE_X - in->low[1] + (int)in->before[1]) +
           key_step(args, 2,
                    (int)c.z * STRIDE_Y - in->low[2] + (int)in->before[2]) +
           key_step(args, 3,
                    (int)c.w * STRIDE_Z - in->low[3] + (int)in->before[3]);
#endif
}

/* All runs of 32 neighbouring rows: a warp's work. The next batch's pivots are
 * on their way while the present one is searched. */
SPC_DEVICE void search_row(const spc_index_args *args, const index_shared *s,
                           const index_extent *e, const index_steps *steps,
                           int p, unsigned *mask)
{
    int valid = p < e->rows;
    map_key own = own_key(args, valid ? p : e->rows - 1);
    int windows = open_windows(args, s, steps, own, 0);
    index_pivots pivots, next;

    load_pivots(args, e->rows_in, windows, 0, &pivots);
    for (int batch = 0; batch < BATCHES; batch++) {
        index_batch found;
        if (batch + 1 < BATCHES) {
            if (BATCHES > WINDOW_BATCHES && (batch + 1) % WINDOW_BATCHES == 0)
                windows = open_windows(args, s, steps, own, batch + 1);
            load_pivots(args, e->rows_in, windows, batch + 1, &next);
        }
        find_batch(args, s, steps, e->rows_in, own, valid, batch, &pivots,
                   &found);
        write_found(args, mask, p, batch, &found);
        pivots = next;
    }
}

#if INVERSE
/* value / by where that is a whole number. */
SPC_DEVICE int divides(int *value, int by)
{
    int whole = *value / by;
    int exact = whole * by == *value;

    *value = whole;
    return exact;
}

/* The key of the input that voxel c sees at offset k; false if no voxel has it. */
SPC_DEVICE int input_key(const spc_index_args *args, const spc_b16 *c, int k,
                         map_key *out)
{
    const spc_index_key *in = &args->in.key;
#if LIST
    const int *at = args->list + 3 * k;
    int x = (int)c->y - at[0], y = (int)c->z - at[1], z = (int)c->w - at[2];
#else
    int x = (int)c->y - ORIGIN_X - k / (KERNEL_Y * DEPTH) * DILATION_X;
    int y = (int)c->z - ORIGIN_Y - k / DEPTH % KERNEL_Y * DILATION_Y;
    int z = (int)c->w - ORIGIN_Z - k % DEPTH * DILATION_Z;
#endif
    int whole = divides(&x, STRIDE_X) & divides(&y, STRIDE_Y) &
                divides(&z, STRIDE_Z);

    *out = ((map_key)(c->x - (spc_u32)in->low[0] + in->before[0])
            << in->shift[0]) +
           key_step(args, 1, x - in->low[1] + (int)in->before[1]) +
           key_step(args, 2, y - in->low[2] + (int)in->before[2]) +
           key_step(args, 3, z - in->low[3] + (int)in->before[3]);
    return whole;
}

/* Each offset by itself: a row has an input at few of them. */
SPC_DEVICE void search_inverse(const spc_index_args *args,
                               const index_shared *s, const index_extent *e,
                               int p, unsigned *mask)
{
    const map_key *keys = (const map_key *)args->in.keys;
    int valid = p < e->rows;
    spc_b16 c = unpack_key(
        &args->set.key,
        ((const row_key *)args->set.keys)[valid ? p : e->rows - 1]);

    for (int batch = 0; batch < BATCHES; batch++) {
        index_batch found;
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            int k = batch * BATCH + j, at = 0, there;
            map_key want;
            there = valid && k < OFFSETS && input_key(args, &c, k, &want);
            if (there)
                at = lower_bound(&args->in, s, want, 0);
            found.first[j] = at;
            found.bits[j] = there && at < e->rows_in && keys[at] == want;
        }
        write_found(args, mask, p, batch, &found);
    }
}
#endif

/* Positions past the rows: no neighbours. */
SPC_DEVICE void search_nothing(const spc_index_args *args, int p)
{
    for (int k = 0; args->index && k < OFFSETS; k++)
        args->index[(long long)k * args->set.rows_padded + p] = -1;
}

/* Every warp has a word of its own: nothing needs clearing, or waiting for. */
SPC_DEVICE void store_pairs(const spc_index_args *args, int pairs)
{
    int warp = spc_block_x() * SORT_WARPS + spc_warp();

    for (int bits = 16; bits > 0; bits >>= 1)
        pairs += spc_shfl_xor(pairs, bits);
    if (spc_lane() == 0)
        args->pairs[warp] = pairs;
}

/* The map of positions begin..end, and their digests if a sorted order is wanted
 * in the same launch. */
SPC_DEVICE void search(const spc_index_args *args, index_shared *s,
                       const index_extent *e, int begin, int end)
{
    int sorted = (args->stages & SPC_INDEX_SORT) != 0, pairs = 0;
    unsigned *mask = s->u.search.mask + spc_thread(); /* this thread's own */
#if !INVERSE
    index_steps steps = steps_of(args);
#endif

    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int p = first + spc_lane();
        for (int w = 0; w < WORDS; w++)
            mask[w * SORT_THREADS] = 0;
        if (first < e->rows)
#if INVERSE
            search_inverse(args, s, e, p, mask);
#else
            search_row(args, s, e, &steps, p, mask);
#endif
        if (p >= e->rows)
            search_nothing(args, p);
        for (int w = 0; w < WORDS; w++) {
            args->mask[(long long)w * args->set.rows_padded + p] =
                mask[w * SORT_THREADS];
            pairs += spc_popc(mask[w * SORT_THREADS]);
        }
        if (sorted)
            keep_digest(args, s, s->u.search.digits, p, p < e->rows, mask,
                        SORT_THREADS);
    }
    store_pairs(args, pairs);
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
        load_batch(args, p, args->mask + p, args->set.rows_padded, batch,
                   &found);
        write_batch(args->index, args->in.order, args->set.rows_padded, p,
                    batch, &found);
    }
}

#endif
