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

/* What is known of a run after the look at the pivots: it begins up to three
 * keys behind found->first. Where registers hold all keys that it can be among,
 * they are loaded at once; else two loads, one after the other, find the place
 * first. */
#define LOOKS_NEAR (BATCH * (RUN + 3) * (int)sizeof(map_key) <= 128)
#define NEAR (LOOKS_NEAR ? RUN + 3 : RUN)

SPC_DEVICE int exact_place(const map_key *keys, int rows_in, map_key want,
                           int at)
{
    at += at + 1 < rows_in && keys[at + 1] < want ? 2 : 0;
    return at + (at < rows_in && keys[at] < want);
}

/* Which offsets of its runs a batch has, and where they begin. */
SPC_DEVICE void read_runs(const map_key *keys, int rows_in, const map_key *want,
                          int valid, int batch, index_batch *found)
{
    map_key key[BATCH * NEAR];

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        SPC_UNROLL
        for (int i = 0; i < NEAR; i++)
            key[j * NEAR + i] = keys[found->first[j] + i];
    }
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        map_key length = (map_key)run_length(batch * BATCH + j);
        int before = 0;
        found->bits[j] = 0;
        SPC_UNROLL
        for (int i = 0; i < NEAR; i++) {
            map_key beyond = key[j * NEAR + i] - want[j];
            int there = found->first[j] + i < rows_in;
            if (beyond < length && there && valid)
                found->bits[j] |= 1u << (int)beyond;
            if (i < NEAR - RUN)
                before += there && key[j * NEAR + i] < want[j];
        }
        found->first[j] += before;
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
        if (fours >= WINDOW / 4)
            at = lower_bound(&args->in, s, want[j], 0);
        else if (!LOOKS_NEAR)
            at = exact_place(keys, rows_in, want[j], at);
        found->first[j] = at;
    }
    read_runs(keys, rows_in, want, valid, batch, found);
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
