/*
 * points_runs.cuh - the existing cells around an output, and the points of a run
 * of cells along z.
 *
 * Part of points.cu.lua, which defines cell_key and query.
 */
#ifndef SPC_POINTS_RUNS_CUH
#define SPC_POINTS_RUNS_CUH

/* The first cell whose key is not below. Each step reads three keys at once, because
 * the latency of loads dominates. */
SPC_DEVICE int find_cell(const spc_radius_args *args, cell_key key)
{
    const cell_key *keys = (const cell_key *)args->in.keys;
    int low = 0, high = *args->in.cells;

    while (low < high) {
        int quarter = (high - low) / 4, rest = (high - low) % 4, at[3], below = 0;
        SPC_UNROLL
        for (int i = 0; i < 3; i++) {
            at[i] = low + (i + 1) * quarter + (i + 1) * rest / 4;
            below += keys[at[i]] < key;
        }
        high = below == 3 ? high : below == 2 ? at[2] : below == 1 ? at[1] : at[0];
        low = below == 3 ? at[2] + 1 : below == 2 ? at[1] + 1 : below == 1 ? at[0] + 1 : low;
    }
    return low;
}

SPC_DEVICE cell_key key_field(const spc_index_key *layout, int field, int value)
{
    return ((cell_key)((spc_u32)value - (spc_u32)layout->low[field]) +
            layout->before[field])
           << layout->shift[field];
}

/* The cells that [at - reach, at + reach] has in common with the extent.
 * Returns false if they have no cell in common. */
SPC_DEVICE int clip_axis(const spc_radius_args *args, int axis, float at,
                         int *low, int *high)
{
    int least = args->key.low[1 + axis];
    int most = (int)((spc_u32)least + args->key.last[1 + axis]);

    *low = floor_of(spc_mul_rn(spc_add_rn(at, -args->reach), args->inverse));
    *high = floor_of(spc_mul_rn(spc_add_rn(at, args->reach), args->inverse));
    if (*low < least)
        *low = least;
    if (*high > most)
        *high = most;
    return *low <= *high;
}

/* Cells of a run that are read together; a run hardly ever has more. */
#define RUN 4

/* Finds the points of the cells (x, y, low) to (x, y, high). */
SPC_DEVICE void find_run(const spc_radius_args *args, query *q, cell_key base,
                         int low, int high)
{
    const cell_key *keys = (const cell_key *)args->in.keys;
    cell_key last = base + key_field(&args->key, 3, high);
    int cells = *args->in.cells;
    int first = find_cell(args, base + key_field(&args->key, 3, low)), count = 0;

    SPC_UNROLL
    for (int i = 0; i < RUN; i++)
        /* All loads are issued together. Keys ascend, so those that match are
         * the first ones. */
        count += first + i < cells && keys[first + i] <= last;
    while (count >= RUN && first + count < cells && keys[first + count] <= last)
        count++;
    q->begin = args->in.begin[first];
    q->end = args->in.begin[first + count];
}

#endif
