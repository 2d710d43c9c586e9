/*
 * index_turned.cuh - the map in the opposite direction, without a separate
 * search: in each pair that is found, the input sees the output at the same
 * offset. Each entry has one writer. Bits of a mask arrive in any order.
 *
 * Part of index.cu.lua, which defines index_extent and the constants.
 */
#ifndef SPC_INDEX_TURNED_CUH
#define SPC_INDEX_TURNED_CUH

/* Its runs have one offset (index_code.c, spc__index_choose_runs). */
#define TURNED_BATCH                                                           \
    (OFFSETS % 3 != 0 && OFFSETS % 2 == 0 ? 2 : OFFSETS < 3 ? OFFSETS : 3)
#define TURNED_BATCHES ((OFFSETS + TURNED_BATCH - 1) / TURNED_BATCH)

/* Clears the masks of all inputs. A barrier of the grid must follow. */
SPC_DEVICE void clear_turned(const spc_index_args *args, const index_extent *e)
{
    int padded = (e->rows_in + SPC_ROW_PAD) / SPC_ROW_PAD * SPC_ROW_PAD;

    for (int p = sort_grid_thread(); p < padded;
         p += spc_grid_x() * SORT_THREADS)
        for (int w = 0; w < WORDS && p < args->turned.rows_padded; w++)
            args->turned.mask[(long long)w * args->turned.rows_padded + p] = 0;
}

/* Writes the pairs of a batch of the row at position p. */
SPC_DEVICE void turn_batch(const spc_index_args *args, int p, int batch,
                           const index_batch *found)
{
    SPC_UNROLL
    for (int j = 0; j < BATCH; j++) {
        int at = found->first[j], k = run_offset(batch * BATCH + j);
        for (spc_u32 left = found->bits[j]; left; left >>= 1, k++) {
            if (!(left & 1u))
                continue;
            args->turned.first[first_of(args->turned.rows_padded, at,
                                        k / TURNED_BATCH) +
                               k % TURNED_BATCH] = p;
            spc_atomic_or(args->turned.mask +
                              (long long)(k >> 5) * args->turned.rows_padded +
                              at,
                          1u << (k & 31));
            at++;
        }
    }
}

#endif
