/*
 * index_runs.cuh - the short form of a map, which all searchers fill and from
 * which all layouts are written.
 *
 * Neighbours along z have neighbouring keys. The kernel's offsets therefore form
 * runs of up to RUN along z, and the inputs that a row has in one run are
 * contiguous among the sorted keys:
 *
 *   first   for each batch of runs and row, four entries (BATCH are used): the
 *           position of the run's first present offset, undefined if the run
 *           has no present offset
 *   mask    the offsets that are present
 *
 * The i-th present offset of a run is the row at position first + i. A kernel
 * that is dilated along z, a list of offsets, and an inverse map have runs of one
 * offset.
 *
 * A searcher is a header (index_zdelta.cuh, index_binary.cuh, index_hash.cuh)
 * with three functions:
 *
 *   open_searcher   called before the launch's first barrier
 *   ready_searcher  called when the searched keys are sorted
 *   search_row      searches a warp's 32 neighbouring rows: first and mask of
 *                   each and, if requested, the entries in coordinate order
 *
 * All searchers find the same result, bit for bit.
 *
 * Part of index.cu.lua, which defines map_key, index_shared and the constants.
 */
#ifndef SPC_INDEX_RUNS_CUH
#define SPC_INDEX_RUNS_CUH

/* A batch of runs of one row. Each plane starts a new batch; runs past its last
 * have no offsets. */
typedef struct index_batch {
    int first[BATCH];
    spc_u32 bits[BATCH];
} index_batch;

/*
 * The entries of a batch for the row at position p. The entries of a warp's rows
 * are contiguous, because 32 stores to 32 cache lines cost 32 times as much as a
 * store to one.
 */
SPC_DEVICE long long first_of(int rows_padded, int p, int batch)
{
    return 4 * ((long long)batch * rows_padded + p);
}

/* The number of a run among all runs, given its number counted by batches. */
SPC_DEVICE int run_number(int run)
{
    return run / (PLANE_BATCHES * BATCH) * PLANE + run % (PLANE_BATCHES * BATCH);
}

SPC_DEVICE int run_offset(int run)
{
    int number = run_number(run);

    return number / RUNS_PER_COLUMN * DEPTH + number % RUNS_PER_COLUMN * RUN;
}

SPC_DEVICE int is_past_plane(int run)
{
    return PLANE % BATCH != 0 && run % (PLANE_BATCHES * BATCH) >= PLANE;
}

SPC_DEVICE int run_length(int run)
{
    int left = DEPTH - run_number(run) % RUNS_PER_COLUMN * RUN;

    return is_past_plane(run) ? 0 : left < RUN ? left : RUN;
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
    /* The run continues in the next word. */
    if (shift + length > 32)
        bits |= mask[(word + 1) * step] << (32 - shift);
    return bits & ((1u << length) - 1u);
}

/* The number of runs whose entries fit in registers. */
#define WRITTEN (BATCH * RUN <= 21 ? BATCH : (BATCH + 1) / 2)

/* Writes the entries of runs `from` to `upto` of a batch and returns the address
 * for the next run. */
SPC_DEVICE int *write_runs(int *index, const int *order, int rows_padded,
                           int batch, int from, int upto,
                           const index_batch *found)
{
    int row[WRITTEN * RUN];

    SPC_UNROLL
    for (int j = from; j < upto; j++) {
        SPC_UNROLL
        for (int l = 0; l < RUN; l++) {
            spc_u32 before = found->bits[j] & ((1u << l) - 1u);
            int i = (j - from) * RUN + l;
            row[i] = -1;
            if (found->bits[j] >> l & 1u)
                /* All loads come before the first store, so that they
                 * overlap. */
                row[i] = order[found->first[j] + spc_popc(before)];
        }
    }
    SPC_UNROLL
    for (int j = from; j < upto; j++) {
        int length = run_length(batch * BATCH + j);
        SPC_UNROLL
        for (int l = 0; l < RUN; l++) {
            if (l < length) {
                *index = row[(j - from) * RUN + l];
                index += rows_padded;
            }
        }
    }
    return index;
}

/* Writes a batch's entries at position p of a row order; its runs are
 * consecutive. */
SPC_DEVICE void write_batch(int *index, const int *order, int rows_padded,
                            int p, int batch, const index_batch *found)
{
    index += (long long)run_offset(batch * BATCH) * rows_padded + p;
    SPC_UNROLL
    for (int j = 0; j < BATCH; j += WRITTEN)
        index = write_runs(index, order, rows_padded, batch, j,
                           at_most(j + WRITTEN, BATCH), found);
}

/* A row's mask while its offsets are found, in their order: the word that is not
 * yet full, and what is needed of the full words. */
typedef struct row_mask {
    int valid; /* true if there is a row */
    int count; /* offsets so far, present or not */
    spc_u32 word;
#if FOURS && !FOURS_APART
    spc_b16 four; /* the last words */
#endif
    spc_u32 code; /* of the row's digest */
    int pairs;
#if HALF
    spc_u32 near; /* rows around this one (index_half.cuh) */
#endif
} row_mask;

#if FOURS
/*
 * Words that will be gathered by row are stored in groups of four, because each
 * load of a gather touches 32 cache lines. The last words of a mask are the
 * last of a group.
 */
SPC_DEVICE void keep_four(const spc_index_args *args, row_mask *mask, int p,
                          int w, spc_u32 word)
{
    long long at = 4 * ((long long)(w / 4) * args->set.rows_padded + p);
#if FOURS_APART
    int last = at_most(w | 3, WORDS - 1);

    args->fours[at + 3 - last + w] = word;
#else
    mask->four.x = mask->four.y;
    mask->four.y = mask->four.z;
    mask->four.z = mask->four.w;
    mask->four.w = word;
    if (w % 4 == 3 || w == WORDS - 1)
        spc_store16(args->fours + at, mask->four);
#endif
}
#endif

#if HALF
/* Adds bits to a word of the mask of the row at position p. Other rows add theirs
 * at the same time. */
SPC_DEVICE void add_bits(const spc_index_args *args, int p, int w, spc_u32 bits)
{
    if (bits)
        spc_atomic_or(args->mask + (long long)w * args->set.rows_padded + p,
                      bits);
}
#endif

/* Ends a word; the current offset belongs to the next word. */
SPC_DEVICE void close_word(const spc_index_args *args, const index_shared *s,
                           row_mask *mask, int p)
{
    int w = (mask->count - 1) >> 5;
    spc_u32 word = mask->valid ? mask->word : 0;

#if HALF
    add_bits(args, p, w, word);
#else
    args->mask[(long long)w * args->set.rows_padded + p] = word;
#if FOURS
    keep_four(args, mask, p, w, word);
#endif
    mask->pairs += spc_popc(word);
    if (args->stages & SPC_INDEX_SORT)
        mask->code |= code_of_word(s, w, word);
#endif
}

/* Adds the next offsets, at most 32. */
SPC_DEVICE void add_to_mask(const spc_index_args *args, const index_shared *s,
                            row_mask *mask, int p, spc_u32 bits, int count)
{
    int shift = mask->count & 31, room = 32 - shift;

    mask->word |= bits << shift;
    if (WORDS == 1 || count < room) {
        mask->count += count;
        return;
    }
    mask->count += room;
    close_word(args, s, mask, p);
    mask->count += count - room;
    /* A shift by 32 would be undefined. */
    mask->word = shift ? bits >> room : 0;
}

/* The bit of the offset that is this many keys along z from a run's first, or 0 if
 * the run has no such offset. */
SPC_DEVICE spc_u32 bit_at(map_key beyond)
{
    /* A key below the run's first wraps around and is far above 32. */
    return (spc_u64)beyond >> 32 ? 0u : spc_bit((spc_u32)beyond);
}

#if HALF
#include "index_half.cuh"
#endif

/* Stores the result of a batch in the short form and in the row's mask. */
SPC_DEVICE void keep_batch(const spc_index_args *args, const index_shared *s,
                           row_mask *mask, int p, int batch,
                           const index_batch *found)
{
    spc_u32 all = 0;
    int count = 0;
    spc_b16 first;

    first.x = (spc_u32)found->first[0];
    first.y = (spc_u32)found->first[BATCH > 1];
    first.z = (spc_u32)found->first[BATCH > 2 ? 2 : 0];
    first.w = (spc_u32)found->first[BATCH > 3 ? 3 : 0];
    spc_store16(args->first + first_of(args->set.rows_padded, p, batch), first);
    /* The runs of a batch are consecutive. */
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        all |= found->bits[j] << count;
        count += run_length(batch * BATCH + j);
    }
    add_to_mask(args, s, mask, p, all, count);
}

#if TURNS
#include "index_turned.cuh"
#endif

/*
 * Writes the entries of the index in coordinate order, one run at a time, because
 * the search has few registers to spare. Positions past the last row belong to
 * another thread.
 */
SPC_DEVICE void write_plain_batch(const spc_index_args *args, int valid, int p,
                                  int batch, const index_batch *found)
{
    index_batch own = *found;

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++)
        own.bits[j] = valid ? own.bits[j] : 0;
    int *index = args->index +
                 (long long)run_offset(batch * BATCH) * args->set.rows_padded + p;
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++)
        index = write_runs(index, args->in.order, args->set.rows_padded, batch, j,
                           j + 1, &own);
}

SPC_DEVICE void write_found(const spc_index_args *args, const index_shared *s,
                            const index_extent *e, row_mask *mask, int p,
                            int batch, const index_batch *found, int plain)
{
#if HALF
    (void)plain;
    keep_half(args, s, mask, p, batch, found);
    if (mask->valid)
        mirror_batch(args, mask, p, batch, found);
#else
    keep_batch(args, s, mask, p, batch, found);
    if (plain)
        write_plain_batch(args, mask->valid, p, batch, found);
#endif
#if TURNS
    if (args->turned.first && p < e->rows)
        turn_batch(args, p, batch, found);
#endif
}

/* ---- keys of runs ------------------------------------------------------ */

/* Differences of keys of the searched set: to the first offset, and for one
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

/* The difference between the key at a run's first offset and the row's own
 * key. */
SPC_DEVICE map_key run_key(const spc_index_args *args, const index_steps *steps,
                           int run)
{
#if LIST
    const int *at = args->list + 3 * run;

    (void)steps;
    return key_step(args, 1, at[0]) + key_step(args, 2, at[1]) +
           key_step(args, 3, at[2]);
#else
    int column = run / RUNS_PER_COLUMN;

    return steps->origin + (map_key)(column / KERNEL_Y) * steps->x +
           (map_key)(column % KERNEL_Y) * steps->y +
           (map_key)(run % RUNS_PER_COLUMN * RUN) * steps->z;
#endif
}

/* Computes the keys of all runs in shared memory. Runs past the last, which
 * fill up the last batch, get arbitrary keys. */
SPC_DEVICE void open_runs(const spc_index_args *args, index_shared *s)
{
    index_steps steps = steps_of(args);

    for (int run = spc_thread(); run < BATCHES * BATCH; run += SORT_THREADS)
        s->u.search.run[run] =
            run_key(args, &steps, at_most(run_number(run), RUNS - 1));
}

#if !LAYOUT
/* The work of a block that does not need all keys to be sorted. */
SPC_DEVICE void open_search(const spc_index_args *args, index_shared *s)
{
    if (args->stages & SPC_INDEX_SORT)
        load_codes(args, s);
    open_runs(args, s);
    sort_count_clear(s->u.search.digits);
}
#endif

#ifdef LOW_X
/*
 * The position of an output's window along an axis, as a field of a key. A
 * window outside the set's extent is moved to just outside it. Keys then stay
 * inside the guard bands, and are ascending as far as needed.
 */
SPC_DEVICE map_key seen_at(const spc_index_key *in, int field, long long at,
                           int low, int high)
{
    long long least = (long long)in->low[field] - high - 1;
    long long most =
        (long long)in->low[field] + in->last[field] - low + 1;

    at = at < least ? least : at > most ? most : at;
    return (map_key)(at - in->low[field] + in->before[field])
           << in->shift[field];
}

/* A batch element that the set does not have is placed at the largest x
 * distance. */
SPC_DEVICE map_key given_key(const spc_index_key *in, const spc_b16 *c)
{
    const long long far = 1ll << 62;
    long long batch = (long long)(int)c->x - in->low[0];
    long long x = batch < 0                ? -far
                  : batch > in->last[0]    ? far
                                           : (long long)(int)c->y * STRIDE_X;

    batch = batch < 0 ? 0 : batch > in->last[0] ? in->last[0] : batch;
    return ((map_key)(batch + in->before[0]) << in->shift[0]) +
           seen_at(in, 1, x, LOW_X, HIGH_X) +
           seen_at(in, 2, (long long)(int)c->z * STRIDE_Y, LOW_Y, HIGH_Y) +
           seen_at(in, 3, (long long)(int)c->w * STRIDE_Z, LOW_Z, HIGH_Z);
}
#endif

/* A row's own key among the searched keys: the key of output * stride. */
SPC_DEVICE map_key own_key(const spc_index_args *args, int p)
{
    row_key key = ((const row_key *)args->set.keys)[p];

#if SUBM
    return key;
#elif defined(LOW_X)
    spc_b16 c = unpack_key(&args->set.key, key);

    return given_key(&args->in.key, &c);
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

#if INVERSE
/* Divides value by `by`. Returns false if there is a remainder. */
SPC_DEVICE int divides(int *value, int by)
{
    int whole = *value / by;
    int exact = whole * by == *value;

    *value = whole;
    return exact;
}

#ifdef BOUNDED
/* Adds the field of `value` / `by` to a key. Returns false if no voxel of the
 * set is there. */
SPC_DEVICE int add_field(const spc_index_key *in, int field, long long value,
                         int by, map_key *key)
{
    long long whole = value / by, from_low = whole - in->low[field];

    *key += (map_key)(from_low + in->before[field]) << in->shift[field];
    return whole * by == value && from_low >= 0 && from_low <= in->last[field];
}

/* The key of the input that voxel c sees at offset k. Returns false if no voxel
 * has it. */
SPC_DEVICE int input_key(const spc_index_args *args, const spc_b16 *c, int k,
                         map_key *out)
{
    const spc_index_key *in = &args->in.key;
#if LIST
    const int *at = args->list + 3 * k;
    int x = at[0], y = at[1], z = at[2];
#else
    int x = ORIGIN_X + k / (KERNEL_Y * DEPTH) * DILATION_X;
    int y = ORIGIN_Y + k / DEPTH % KERNEL_Y * DILATION_Y;
    int z = ORIGIN_Z + k % DEPTH * DILATION_Z;
#endif

    *out = 0;
    return add_field(in, 0, (int)c->x, 1, out) &
           add_field(in, 1, (long long)(int)c->y - x, STRIDE_X, out) &
           add_field(in, 2, (long long)(int)c->z - y, STRIDE_Y, out) &
           add_field(in, 3, (long long)(int)c->w - z, STRIDE_Z, out);
}
#else
/* The key of the input that voxel c sees at offset k. Returns false if no voxel
 * has it. */
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
#endif
#endif

/* The first position whose key is not below `want`, or a position at most `most`
 * earlier. */
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

/* ---- layouts from the short form -------------------------------------- */

/* Loads a batch of the row at position p of the coordinate order; p < 0: no
 * row. */
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
            *(const spc_b16 *)(args->first +
                               first_of(args->set.rows_padded, p, batch));
        found->first[0] = (int)first.x;
        found->first[BATCH > 1] = (int)(BATCH > 1 ? first.y : first.x);
        found->first[BATCH > 2 ? 2 : 0] = (int)(BATCH > 2 ? first.z : first.x);
        found->first[BATCH > 3 ? 3 : 0] = (int)(BATCH > 3 ? first.w : first.x);
    }
}

/* Writes the index in coordinate order. */
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
