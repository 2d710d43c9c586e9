/*
 * index_zdelta.cuh - the z-delta searcher (Spira, section 4).
 *
 * One binary search, bounded by the bins, finds where a run begins among the
 * sorted keys, and the keys there say which of its offsets are present.
 *
 * A thread works on BATCH runs at once: searches are chains of loads, and their
 * latency is what they cost.
 *
 * Part of index.cu.lua; a searcher (index_runs.cuh). Of maps that are read the
 * other way it finds nothing: neighbours of an output are no neighbours there.
 */
#ifndef SPC_INDEX_ZDELTA_CUH
#define SPC_INDEX_ZDELTA_CUH

SPC_DEVICE map_key shfl_key(map_key key, int lane)
{
    map_key low = (spc_u32)spc_shfl((int)(spc_u32)key, lane);

    if (sizeof(map_key) == 4)
        return low;
    return low | (map_key)(spc_u32)spc_shfl((int)(key >> KEY_HALF), lane)
                     << KEY_HALF;
}

/*
 * The rows of a warp are neighbours, and so are the keys they look for: nearly
 * always all lie within WINDOW keys from a place shortly before the first
 * row's. So each lane loads four keys of the window, the lanes search among
 * the last of each by shuffles, and ask each other for the keys there. Of keys of
 * 64 bits, for which registers have no room, a lane holds the last alone, and
 * loads what it finds.
 */
#define WINDOW 128
#if PAIRED && RUN <= 5
#define HOLDS 1
#else
#define HOLDS 0
#endif
#define HELD (HOLDS ? 4 : 1)

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
 * most before the first row's own place, and where a load of four keys can. */
SPC_DEVICE int open_windows(const spc_index_args *args, const index_shared *s,
                            map_key own, int batch)
{
    int run = at_most(batch * BATCH + spc_lane(), RUNS - 1);

    return lower_bound(&args->in, s,
                       shfl_key(own, 0) + s->u.search.run[run], WINDOW / 2) &
           ~3;
}

/* The window of each run of a batch, and this lane's keys there. */
typedef struct index_windows {
    int base[BATCH];
    map_key key[BATCH][HELD];
} index_windows;

/* Of the keys from a multiple of four on those that a lane holds; past the last
 * one what is above all. */
SPC_DEVICE void load_held(const map_key *keys, int rows_in, int at,
                          map_key *held)
{
#if HOLDS
    spc_b16 four = {~0u, ~0u, ~0u, ~0u};

    if (at < rows_in)
        four = *(const spc_b16 *)(keys + at);
    if (at + 3 >= rows_in) {
        four.y = at + 1 < rows_in ? four.y : ~0u;
        four.z = at + 2 < rows_in ? four.z : ~0u;
        four.w = ~0u;
    }
    held[0] = four.x;
    held[1] = four.y;
    held[2] = four.z;
    held[3] = four.w;
#else
    held[0] = at + 3 < rows_in ? keys[at + 3] : ~(map_key)0;
#endif
}

SPC_DEVICE void load_windows(const spc_index_args *args, int rows_in, int bases,
                             int batch, index_windows *out)
{
    const map_key *keys = (const map_key *)args->in.keys;

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        out->base[j] = spc_shfl(bases, batch % WINDOW_BATCHES * BATCH + j);
        load_held(keys, rows_in, out->base[j] + 4 * spc_lane(), out->key[j]);
    }
}

/* Some keys from place `at` on; past the last one what is above all, and no
 * voxel's or its neighbour's. */
SPC_DEVICE void load_near(const map_key *keys, int rows_in, int at, int count,
                          map_key *near)
{
    SPC_UNROLL
    for (int i = 0; i < count; i++)
        near[i] = at + i < rows_in ? keys[at + i] : ~(map_key)0;
}

/* The bit of an offset so many keys along z from a run's first, if that is one. */
SPC_DEVICE spc_u32 bit_at(map_key beyond)
{
    return (spc_u64)beyond >> 32 ? 0u : spc_bit((spc_u32)beyond);
}

/* Which offsets of a run are among the keys from place `at` on, and where they
 * begin: up to `behind` keys after it. */
SPC_DEVICE void match_run(const map_key *near, int at, int behind, map_key want,
                          int run, int *first, spc_u32 *bits)
{
    spc_u32 present = 0;

    SPC_UNROLL
    for (int i = 0; i < behind + RUN; i++) {
        present |= bit_at(near[i] - want);
        if (i < behind)
            at += near[i] < want;
    }
    *first = at;
    *bits = present & ((1u << run_length(run)) - 1u);
}

#if HOLDS
#define LANES_NEAR ((RUN + 3 + 3) / 4)

/* A run that is not all in the window of keys. */
SPC_DEVICE void find_far(const spc_index_args *args, const index_shared *s,
                         int rows_in, map_key want, int run, int *first,
                         spc_u32 *bits)
{
    int at = lower_bound(&args->in, s, want, 0);
    map_key near[RUN];

    load_near((const map_key *)args->in.keys, rows_in, at, RUN, near);
    match_run(near, at, 0, want, run, first, bits);
}

/* A run that begins behind `fours` fours of its window's keys. Called by whole
 * warps. */
SPC_DEVICE void find_near(const index_windows *window, int j, int fours,
                          map_key want, int run, int *first, spc_u32 *bits)
{
    map_key near[RUN + 3];

    SPC_UNROLL
    for (int i = 0; i < RUN + 3; i++)
        near[i] = shfl_key(window->key[j][i % 4], (fours + i / 4) & 31);
    match_run(near, window->base[j] + 4 * fours, 3, want, run, first, bits);
}

/* The runs of a batch for the row of key `own`. */
SPC_DEVICE void find_batch(const spc_index_args *args, const index_shared *s,
                           int rows_in, map_key own, int batch,
                           const index_windows *window, index_batch *found)
{
    map_key want[BATCH];
    int fours[BATCH], far = 0;

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        want[j] = own + s->u.search.run[batch * BATCH + j];
        fours[j] = rank_in_warp(window->key[j][HELD - 1], want[j]);
        far |= fours[j] + LANES_NEAR > 32;
        find_near(window, j, fours[j], want[j], batch * BATCH + j,
                  &found->first[j], &found->bits[j]);
    }
    SPC_UNROLL
    for (int j = 0; j < BATCH && far; j++)
        if (fours[j] + LANES_NEAR > 32)
            find_far(args, s, rows_in, want[j], batch * BATCH + j,
                     &found->first[j], &found->bits[j]);
}
#else
/* Keys of so many runs are loaded together: registers have room for those. */
#define SOME_RUNS (BATCH * RUN * (int)sizeof(map_key) <= 84 ? BATCH : 1)

/* Where a run begins, of which `fours` fours of the window's keys are below. */
SPC_DEVICE int find_begin(const spc_index_args *args, const index_shared *s,
                          int rows_in, int base, int fours, map_key want)
{
    const map_key *keys = (const map_key *)args->in.keys;
    int at = base + 4 * fours;

    if (fours >= WINDOW / 4)
        return lower_bound(&args->in, s, want, 0);
    at += at + 1 < rows_in && keys[at + 1] < want ? 2 : 0;
    return at + (at < rows_in && keys[at] < want);
}

/* The runs of a batch for the row of key `own`. */
SPC_DEVICE void find_batch(const spc_index_args *args, const index_shared *s,
                           int rows_in, map_key own, int batch,
                           const index_windows *window, index_batch *found)
{
    const map_key *keys = (const map_key *)args->in.keys;
    map_key near[SOME_RUNS * RUN];

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        map_key want = own + s->u.search.run[batch * BATCH + j];
        int fours = rank_in_warp(window->key[j][0], want);
        found->first[j] =
            find_begin(args, s, rows_in, window->base[j], fours, want);
    }
    SPC_UNROLL
    for (int some = 0; some < BATCH; some += SOME_RUNS) {
        SPC_UNROLL
        for (int j = 0; j < SOME_RUNS; j++)
            load_near(keys, rows_in, found->first[some + j], RUN,
                      near + j * RUN);
        SPC_UNROLL
        for (int j = 0; j < SOME_RUNS; j++)
            match_run(near + j * RUN, found->first[some + j], 0,
                      own + s->u.search.run[batch * BATCH + some + j],
                      batch * BATCH + some + j,
                      &found->first[some + j], &found->bits[some + j]);
    }
}
#endif

/* All runs of 32 neighbouring rows: a warp's work. The next batch's windows are
 * on their way while the present one is searched. */
SPC_DEVICE void search_row(const spc_index_args *args, const index_shared *s,
                           const index_extent *e, int p, unsigned *mask)
{
    map_key own = own_key(args, at_most(p, e->rows - 1));
    int bases = open_windows(args, s, own, 0);
    index_windows window, next;

    load_windows(args, e->rows_in, bases, 0, &window);
    SPC_ROLLED
    for (int batch = 0; batch < BATCHES; batch++) {
        index_batch found;
        if (batch + 1 < BATCHES) {
            if (BATCHES > WINDOW_BATCHES && (batch + 1) % WINDOW_BATCHES == 0)
                bases = open_windows(args, s, own, batch + 1);
            if (HOLDS)
                load_windows(args, e->rows_in, bases, batch + 1, &next);
        }
        find_batch(args, s, e->rows_in, own, batch, &window, &found);
        write_found(args, e, mask, p, batch, &found);
        if (!HOLDS && batch + 1 < BATCHES)
            load_windows(args, e->rows_in, bases, batch + 1, &next);
        window = next;
    }
}

SPC_DEVICE void open_searcher(const spc_index_args *args)
{
    (void)args;
}

SPC_DEVICE void ready_searcher(const spc_index_args *args,
                               const index_extent *e, grid_barrier *barrier)
{
    (void)args;
    (void)e;
    (void)barrier;
}

#endif
