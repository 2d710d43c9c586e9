/*
 * index_half.cuh - half of the search of a symmetric submanifold kernel
 * (FlexGEMM; Spira, section 5.4). If row p sees row q at an offset, q sees p at
 * the opposite offset.
 *
 * Runs before the middle one are searched. The keys next to a row's own key
 * give the middle run. Runs after the middle are written at the rows that were
 * found: if p sees q in run r, the opposite run of q, RUNS - 1 - r, contains p.
 * Several rows may belong to that run. Neighbours along z have neighbouring
 * keys, so each of them knows from the keys next to its own which others belong
 * to it, and only the first one writes the entry and the bits of the whole run.
 * An entry therefore has one writer. Bits are added with atomics, because a
 * word has several runs.
 *
 * Part of index_runs.cuh.
 */
#ifndef SPC_INDEX_HALF_CUH
#define SPC_INDEX_HALF_CUH

/* The bits of a whole run. */
#define WHOLE ((1u << RUN) - 1u)

/* Where the run's position among the sorted keys is stored. */
SPC_DEVICE int *entry_of(const spc_index_args *args, int p, int run)
{
    return args->first + first_of(args->set.rows_padded, p, run / BATCH) +
           run % BATCH;
}

/* The number of a run, counted by batches. */
SPC_DEVICE int run_by_batches(int number)
{
    return number / PLANE * (PLANE_BATCHES * BATCH) + number % PLANE;
}

/* The rows around the row at position p: bit RUN - 1 + i is set if there is a
 * row i steps along z. The run that uses these bits decides whether it is a
 * neighbour or beyond the guard band. */
SPC_DEVICE spc_u32 rows_near(const spc_index_args *args, int p, int rows)
{
    const map_key *keys = (const map_key *)args->in.keys;
    map_key own = keys[p] - (RUN - 1);
    spc_u32 near = spc_bit(RUN - 1);

    SPC_UNROLL
    for (int i = 1; i < RUN; i++) {
        if (p >= i)
            near |= bit_at(keys[p - i] - own);
        if (p + i < rows)
            near |= bit_at(keys[p + i] - own);
    }
    return near;
}

/* As keep_batch, for the runs of a batch that precede the middle one. */
SPC_DEVICE void keep_half(const spc_index_args *args, const index_shared *s,
                          row_mask *mask, int p, int batch,
                          const index_batch *found)
{
    spc_u32 all = 0;
    int count = 0;

    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int run = batch * BATCH + j;
        /* Other rows write the entries that follow the middle one, and a
         * wider store would overwrite them. */
        if (run >= MIDDLE || is_past_plane(run))
            continue;
        if (found->bits[j])
            *entry_of(args, p, run) = found->first[j];
        all |= found->bits[j] << count;
        count += RUN;
    }
    add_to_mask(args, s, mask, p, all, count);
}

/* The middle run begins half a run before the row. */
SPC_DEVICE void keep_middle(const spc_index_args *args, const index_shared *s,
                            row_mask *mask, int p)
{
    spc_u32 bits = mask->near >> RUN / 2 & WHOLE;

    if (mask->valid)
        *entry_of(args, p, MIDDLE) =
            p - spc_popc(bits & ((1u << RUN / 2) - 1u));
    add_to_mask(args, s, mask, p, bits, RUN);
    if (mask->count & 31)
        close_word(args, s, mask, p);
}

/* Adds the bits of a run to the mask of the row at position p. */
SPC_DEVICE void add_run(const spc_index_args *args, int p, int offset,
                        spc_u32 bits)
{
    int w = offset >> 5, shift = offset & 31;

    add_bits(args, p, w, bits << shift);
    if (shift + RUN > 32) /* the run continues in the next word */
        add_bits(args, p, w + 1, bits >> (32 - shift));
}

/* Writes the opposite runs of the rows that the row at position p has found. */
SPC_DEVICE void mirror_batch(const spc_index_args *args, const row_mask *mask,
                             int p, int batch, const index_batch *found)
{
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int run = batch * BATCH + j, at = found->first[j];
        int mirror = RUNS - 1 - run_number(run);
        if (run >= MIDDLE || is_past_plane(run))
            continue;
        /* The loop is not unrolled, because the search has no registers to
         * spare. */
        SPC_ROLLED
        for (int l = 0; l < RUN; l++) {
            if (!(found->bits[j] >> l & 1u))
                continue;
            /* The opposite run of row `at` has row p at RUN - 1 - l. */
            spc_u32 bits = mask->near >> l & WHOLE;
            if ((bits & (spc_bit(RUN - 1 - l) - 1u)) == 0) {
                *entry_of(args, at, run_by_batches(mirror)) = p;
                add_run(args, at, mirror * RUN, bits);
            }
            at++;
        }
    }
}

#endif
