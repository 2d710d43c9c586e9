/*
 * index_way.cuh - layouts that are not sorted by Gray rank, or that have only
 * the offsets of a group (runtime/coords/order.c), made from an existing map.
 *
 * Part of index.cu.lua, which defines index_shared and the constants.
 */
#ifndef SPC_INDEX_WAY_CUH
#define SPC_INDEX_WAY_CUH

/* The offsets of word w of a mask that belong to the layout. */
SPC_DEVICE unsigned way_word(const spc_index_way *way, int w)
{
    int begin = way->begin - 32 * w, end = way->end - 32 * w;
    unsigned below = end >= 32 ? ~0u : end > 0 ? (1u << end) - 1u : 0u;

    return begin >= 32 ? 0u : begin > 0 ? below & ~((1u << begin) - 1u) : below;
}

/*
 * Copies a batch's entries of the row at position `from` of the coordinate
 * order to position `to`; `from` is -1 if there is no row. Only the layout's
 * own offsets are copied; other layouts have the others. All bits of a run are
 * needed to find its inputs.
 */
SPC_DEVICE void way_copy_batch(const spc_index_args *args, int from, int to,
                               int batch)
{
    index_batch found;

    if (from >= 0)
        load_batch(args, from, args->mask + from, args->set.rows_padded, batch,
                   &found);
    for (int j = 0; j < BATCH; j++) {
        int run = batch * BATCH + j, first = run_offset(run);
        for (int l = 0; l < run_length(run); l++) {
            int k = first + l, row = -1;
            if (k < args->way.begin || k >= args->way.end)
                continue;
            if (from >= 0 && found.bits[j] >> l & 1u)
                row =
                    args->in.order[found.first[j] +
                                   spc_popc(found.bits[j] & ((1u << l) - 1u))];
            args->sorted.index[(long long)k * args->set.rows_padded + to] = row;
        }
    }
}

/* The number of offsets that the row at position p lacks. */
SPC_DEVICE spc_u32 digest_of_count(const spc_index_args *args, int p)
{
    int count = 0;

    for (int w = 0; w < WORDS; w++)
        count += spc_popc(args->mask[(long long)w * args->set.rows_padded + p]);
    return (spc_u32)(OFFSETS - count);
}

SPC_DEVICE spc_u32 digest_of_key(const spc_index_args *args, int p)
{
    row_key key = ((const row_key *)args->set.keys)[p];
    spc_u32 digest = 0;

    for (int bit = 0; bit < 8 * (int)sizeof(row_key); bit++)
        if (key >> bit & 1u)
            digest |= args->sorted.bit_of[bit];
    return digest;
}

SPC_DEVICE spc_u32 way_digest(const spc_index_args *args, const index_shared *s,
                              int p)
{
    if (args->way.by == SPC_INDEX_BY_COUNT)
        return digest_of_count(args, p);
    if (args->way.by == SPC_INDEX_BY_KEY)
        return digest_of_key(args, p);
    return digest_of(s, args->mask + p, args->set.rows_padded);
}

/* Does the same as digest_rows. */
SPC_DEVICE void way_digest_rows(const spc_index_args *args, index_shared *s,
                                int begin, int end)
{
    load_codes(args, s);
    sort_count_clear(s->u.search.digits);
    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int p = first + spc_lane(), valid = p < end;
        spc_u32 digest = valid ? way_digest(args, s, p) : 0;
        if (valid)
            ((unsigned *)args->keys_a)[p] = digest;
        sort_count(s->u.search.digits, valid, digest_digit(digest, 0));
    }
    sort_count_store(s->u.search.digits, sort_table(args->tables, 0));
}

#endif
