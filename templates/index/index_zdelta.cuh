/*
 * index_zdelta.cuh - the z-delta searcher (Spira, section 4).
 *
 * One search finds where a run begins among the sorted keys, and the keys from
 * there on show which of its offsets are present. A warp searches in a window
 * of keys in shared memory that covers its rows' runs of a plane.
 *
 * A thread works on BATCH runs at once. Searches are chains of loads, so their
 * cost is latency.
 *
 * Part of index.cu.lua; a searcher (index_runs.cuh). It cannot search inverse
 * maps, because there the neighbours of an output do not have neighbouring
 * keys.
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
 * The rows of a warp are neighbours, and so are the keys that they search in a
 * plane of the kernel. Nearly always all of these runs are within NARROW keys of
 * the first row's first run. The warp holds these keys in shared memory while it
 * loads those of the next plane. Where they do not suffice, as behind a wall, it
 * loads as many again (64-bit keys have no space for that). Each offset of a list
 * has its own window.
 */
#define NARROW 128
#define HELD (NARROW / 32) /* keys of a lane */
/* Runs that share a window. */
#define LOOK_RUNS (LIST ? 1 : PLANE_BATCHES * BATCH)
#define LOOKS ((SEARCHED * BATCH + LOOK_RUNS - 1) / LOOK_RUNS)

/* In lane l, the start of the window of look `first` + l. */
SPC_DEVICE int open_windows(const spc_index_args *args, const index_shared *s,
                            map_key own, int first)
{
    int look = at_most(first + spc_lane(), LOOKS - 1);

    return lower_bound(&args->in, s,
                       shfl_key(own, 0) + s->u.search.run[look * LOOK_RUNS],
                       NARROW / 16);
}

/*
 * A window that is being loaded: this lane's keys. Past the last key they have a
 * value above all keys, which belongs neither to a voxel nor to a neighbour of
 * one.
 */
typedef struct index_ahead {
    int bases; /* of 32 looks, one per lane */
    map_key key[HELD];
} index_ahead;

SPC_DEVICE void load_keys(const spc_index_args *args, int rows_in, int base,
                          map_key *out)
{
    const map_key *keys = (const map_key *)args->in.keys;
    int at = base + spc_lane();

    SPC_UNROLL
    for (int i = 0; i < HELD; i++)
        out[i] = at + 32 * i < rows_in ? keys[at + 32 * i] : ~(map_key)0;
}

SPC_DEVICE void load_ahead(const spc_index_args *args, const index_shared *s,
                           int rows_in, map_key own, int look,
                           index_ahead *ahead)
{
    if (look % 32 == 0)
        ahead->bases = open_windows(args, s, own, look);
    load_keys(args, rows_in, spc_shfl(ahead->bases, look & 31), ahead->key);
}

SPC_DEVICE void store_keys(map_key *window, const map_key *keys)
{
    SPC_UNROLL
    for (int i = 0; i < HELD; i++)
        window[spc_lane() + 32 * i] = keys[i];
    spc_sync_warp();
}

/* The window of a warp: keys from position `base` on. */
typedef struct index_window {
    map_key *key;
    int base, count;
    int whole; /* true if it covers all searches of the warp's rows */
} index_window;

/* Stores the keys that were loaded ahead, and loads those of the next look. */
SPC_DEVICE void next_window(const spc_index_args *args, const index_shared *s,
                            int rows_in, map_key own, int look,
                            index_ahead *ahead, index_window *window)
{
    int last = look * LOOK_RUNS + (LIST ? 1 : PLANE) - 1;
#if HALF
    last = at_most(last, MIDDLE - 1);
#endif
    map_key end = shfl_key(own, 31) + s->u.search.run[last] + RUN;

    if (!PAIRED || look == 0)
        load_ahead(args, s, rows_in, own, look, ahead);
    window->base = spc_shfl(ahead->bases, look & 31);
    window->count = NARROW;
    spc_sync_warp(); /* all have read the previous window */
    store_keys(window->key, ahead->key);
    if (WINDOW > NARROW && window->key[NARROW - 1] < end) {
        load_keys(args, rows_in, window->base + NARROW, ahead->key);
        store_keys(window->key + NARROW, ahead->key);
        window->count = WINDOW;
    }
    /* The last row's last run decides, because rows and runs of a plane are in
     * ascending order. */
    window->whole = window->key[window->count - 1] >= end;
    if (PAIRED && look + 1 < LOOKS)
        load_ahead(args, s, rows_in, own, look + 1, ahead);
}

/* The offsets of a run that are among the keys from its position on. */
SPC_DEVICE spc_u32 match_run(const map_key *near, map_key want)
{
    spc_u32 present = 0;

    SPC_UNROLL
    for (int i = 0; i < RUN; i++)
        present |= bit_at(near[i] - want);
    return present;
}

/* Searches those runs of a batch, one bit each, that are not entirely in the
 * window. */
SPC_DEVICE void find_far(const spc_index_args *args, const index_shared *s,
                         int rows_in, map_key own, int batch, spc_u32 far,
                         index_batch *found)
{
    const map_key *keys = (const map_key *)args->in.keys;

    SPC_ROLLED
    for (; far; far &= far - 1) {
        int which = spc_ffs(far) - 1;
        map_key want = own + s->u.search.run[batch * BATCH + which], near[RUN];
        int first = lower_bound(&args->in, s, want, 0);
        SPC_UNROLL
        for (int i = 0; i < RUN; i++)
            near[i] = first + i < rows_in ? keys[first + i] : ~(map_key)0;
        spc_u32 bits = match_run(near, want);
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            /* A choice for each j keeps `found` in registers; an index would
             * not. */
            found->first[j] = j == which ? first : found->first[j];
            found->bits[j] = j == which ? bits : found->bits[j];
        }
    }
}

/*
 * Finds where runs `from` to `upto` of a batch begin in the window, all runs
 * step by step. The result is NARROW - 1 or WINDOW - 1 also for runs past the
 * window.
 */
SPC_DEVICE void rank_runs(const index_window *window, map_key own,
                          const map_key *run, int from, int upto, int *rank)
{
    SPC_UNROLL
    for (int j = from; j < upto; j++)
        rank[j] = 0;
    if (WINDOW > NARROW && window->count > NARROW) {
        SPC_UNROLL
        for (int j = from; j < upto; j++)
            rank[j] = window->key[NARROW - 1] < own + run[j] ? NARROW : 0;
    }
    SPC_UNROLL
    for (int step = NARROW / 2; step > 0; step /= 2) {
        SPC_UNROLL
        for (int j = from; j < upto; j++)
            rank[j] +=
                window->key[rank[j] + step - 1] < own + run[j] ? step : 0;
    }
}

/* The same runs, for the row of key `own`. */
SPC_DEVICE void find_runs(const spc_index_args *args, const index_shared *s,
                          int rows_in, map_key own, int batch, int from,
                          int upto, const index_window *window,
                          index_batch *found)
{
    const map_key *run = s->u.search.run + batch * BATCH;
    int rank[BATCH];
    spc_u32 far = 0;

    rank_runs(window, own, run, from, upto, rank);
    SPC_UNROLL
    for (int j = from; j < upto; j++) {
        int place = at_most(rank[j], window->count - RUN);
        found->first[j] = window->base + rank[j];
        found->bits[j] = match_run(window->key + place, own + run[j]);
        /* Keys past the window may belong to the run. */
        far |= rank[j] >= window->count - RUN ? 1u << j : 0u;
    }
    if (!window->whole && far)
        find_far(args, s, rows_in, own, batch, far, found);
    SPC_UNROLL
    for (int j = from; j < upto; j++)
        found->bits[j] &= (1u << run_length(batch * BATCH + j)) - 1u;
}

#define REST (PLANE % BATCH) /* runs of a plane's last batch, if fewer */
#if HALF
#define LAST_RUNS (MIDDLE - (SEARCHED - 1) * BATCH) /* of the last batch */
#endif

/* Searches the runs of a batch in one window. */
SPC_DEVICE void find_batch(const spc_index_args *args, const index_shared *s,
                           int rows_in, map_key own, int batch,
                           const index_window *window, index_batch *found)
{
#if HALF
    if (batch == SEARCHED - 1) {
        find_runs(args, s, rows_in, own, batch, 0, LAST_RUNS, window, found);
        SPC_UNROLL
        for (int j = LAST_RUNS; j < BATCH; j++)
            found->first[j] = found->bits[j] = 0;
        return;
    }
#endif
    if (REST == 0 || batch % PLANE_BATCHES < PLANE_BATCHES - 1) {
        find_runs(args, s, rows_in, own, batch, 0, BATCH, window, found);
        return;
    }
    find_runs(args, s, rows_in, own, batch, 0, REST, window, found);
    SPC_UNROLL
    for (int j = REST; j < BATCH; j++) {
        found->first[j] = 0;
        found->bits[j] = 0;
    }
}

/* Searches all runs of 32 neighbouring rows; executed by one warp. */
SPC_DEVICE void search_row(const spc_index_args *args, index_shared *s,
                           const index_extent *e, int p, row_mask *mask,
                           int plain)
{
    /* Lanes past the last row search like the last one, because the whole warp
     * takes part in its windows. */
    map_key own = own_key(args, at_most(p, e->rows - 1));
    index_window window;
    index_ahead ahead;
    index_batch found;

    window.key = s->u.search.window + spc_warp() * WINDOW;
    SPC_ROLLED
    for (int batch = 0; batch < SEARCHED; batch++) {
#if LIST
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            next_window(args, s, e->rows_in, own, batch * BATCH + j, &ahead,
                        &window);
            find_runs(args, s, e->rows_in, own, batch, j, j + 1, &window,
                      &found);
        }
#else
        if (batch % PLANE_BATCHES == 0)
            next_window(args, s, e->rows_in, own, batch / PLANE_BATCHES, &ahead,
                        &window);
        find_batch(args, s, e->rows_in, own, batch, &window, &found);
#endif
        write_found(args, s, e, mask, p, batch, &found, plain);
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
