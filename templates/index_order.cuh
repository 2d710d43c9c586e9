/*
 * index_order.cuh - sorted row orders (runtime/map_order.c) and tile tables.
 *
 * Rows are sorted by a digest of their mask, in a few passes of the radix sort;
 * then index, order and mask are written in that order from the short form of
 * the map. A tile table sorts the tiles of any row order by falling cost.
 *
 * Part of index.cu.lua, which defines index_shared and the constants.
 */
#ifndef SPC_INDEX_ORDER_CUH
#define SPC_INDEX_ORDER_CUH

/* ---- sorting ---------------------------------------------------------- */

SPC_DEVICE void order_pass(const spc_index_args *args, index_shared *s,
                           int pass, int begin, int end, int per_block)
{
    const unsigned *from = (unsigned *)(pass % 2 ? args->keys_b : args->keys_a);
    const int *from_rows = pass % 2 ? args->rows_b : args->rows_a;
    unsigned *to = (unsigned *)(pass % 2 ? args->keys_a : args->keys_b);
    int *to_rows = pass % 2 ? args->rows_a : args->rows_b;
    int *next = sort_table(args->tables, pass + 1);
    int last = pass + 1 == args->sorted.passes;

    sort_count_open(group_counts(s));
    sort_begin(&s->u.sort, sort_table(args->tables, pass));
    for (int step = begin; step < end; step += SORT_THREADS) {
        int i = step + spc_thread(), valid = i < end;
        spc_u32 digest = valid ? from[i] : 0;
        int row = valid && pass > 0 ? from_rows[i] : i;
        int place = sort_place(&s->u.sort, valid, digest_digit(digest, pass));
        if (valid) {
            if (!last)
                to[place] = digest;
            to_rows[place] = row;
        }
        if (!last)
            sort_count_next(group_counts(s), next, per_block, valid, place,
                            digest_digit(digest, pass + 1));
    }
    if (!last)
        sort_count_flush(group_counts(s), next);
}

/* ---- the map in the new order ----------------------------------------- */

/*
 * A block writes every grid-th unit of positions, not a run of them: an order
 * by masks puts the rows with most neighbours together, and one block would have
 * them all. A unit is a whole number of tiles and divides SPC_ROW_PAD. The i-th
 * position of a block: */
SPC_DEVICE int own_position(int unit, int i)
{
    return (i / unit * spc_grid_x() + spc_block_x()) * unit + i % unit;
}

/* How many positions that are. */
SPC_DEVICE int own_positions(const spc_index_args *args, int unit)
{
    int units = args->rows_padded / unit;

    return (units - spc_block_x() + spc_grid_x() - 1) / spc_grid_x() * unit;
}

SPC_DEVICE void copy_rows(const spc_index_args *args, index_shared *s,
                          const int *sorted, int unit, int begin, int count)
{
    int padded = args->rows_padded;

    for (int i = spc_thread(); i < count; i += SORT_THREADS) {
        int to = own_position(unit, begin + i);
        int p = to < args->rows ? sorted[to] : -1;
        s->u.copy.from[i] = p;
        s->u.copy.to[i] = to;
        args->sorted.order[to] = p >= 0 ? args->order[p] : -1;
        for (int w = 0; w < WORDS; w++) {
            unsigned mask =
                p >= 0 ? args->mask[(long long)w * padded + p] : 0;
            s->u.copy.mask[w * SPC_INDEX_CHUNK + i] = mask;
            args->sorted.mask[(long long)w * padded + to] = mask;
        }
    }
}

SPC_DEVICE void copy_chunk(const spc_index_args *args, index_shared *s,
                           const int *sorted, int unit, int begin, int count)
{
    spc_sync_block();
    copy_rows(args, s, sorted, unit, begin, count);
    spc_sync_block();
    for (int item = spc_thread(); item < count * BATCHES;
         item += SORT_THREADS) {
        int batch = item / count, i = item - batch * count;
        index_batch found;
        load_batch(args, s->u.copy.from[i], s->u.copy.mask + i,
                   SPC_INDEX_CHUNK, batch, &found);
        write_batch(args->sorted.index, args->order, args->rows_padded,
                    s->u.copy.to[i], batch, &found);
    }
}

/* Sorts the rows at begin..end of the coordinate order, whose digests are known,
 * with those of all blocks; then writes this block's units of the new one. */
SPC_DEVICE void order_rows(const spc_index_args *args, index_shared *s,
                           grid_barrier *barrier, int begin, int end,
                           int per_block, int unit)
{
    int count = own_positions(args, unit);
    const int *sorted = args->sorted.passes % 2 ? args->rows_b : args->rows_a;

    for (int pass = 0; pass < args->sorted.passes; pass++) {
        grid_sync(barrier);
        if (pass > 0) /* the table that was read in the pass before */
            sort_clear(sort_table(args->tables, pass + 2), 1);
        order_pass(args, s, pass, begin, end, per_block);
    }
    grid_sync(barrier);

    sort_clear(args->tables, 3);
    for (int at = 0; at < count; at += SPC_INDEX_CHUNK)
        copy_chunk(args, s, sorted, unit, at,
                   at_most(SPC_INDEX_CHUNK, count - at));
    spc_sync_block();
}

/* ---- tiles ------------------------------------------------------------ */

SPC_DEVICE int tile_digit(int cost)
{
    return OFFSETS - cost;
}

/* A warp a tile: the OR of its rows' masks, and its cost. Returns the cost in
 * every lane. */
SPC_DEVICE int tile_mask(const spc_index_args *args, int tile)
{
    const spc_index_tiles *t = &args->tile;
    unsigned *scratch = (unsigned *)args->keys_a;
    int cost = 0;

    for (int w = 0; w < WORDS; w++) {
        const unsigned *mask = t->of + (long long)w * args->rows_padded +
                               (long long)tile * t->rows;
        spc_u32 all = 0;
        for (int i = spc_lane(); i < t->rows; i += 32)
            all |= mask[i];
        all = spc_warp_or(all);
        if (spc_lane() == 0)
            scratch[(long long)w * t->count + tile] = all;
        cost += spc_popc(all);
    }
    return cost;
}

/* Masks of the tiles in this block's units, and counts for the sort after the
 * barrier, in which a block has `share` neighbouring ones. */
SPC_DEVICE void measure_tiles(const spc_index_args *args, int *table, int unit,
                              int share)
{
    int per_unit = unit / args->tile.rows;
    int count = own_positions(args, unit) / args->tile.rows;

    for (int i = spc_warp(); i < count; i += SORT_WARPS) {
        int tile = own_position(per_unit, i);
        int cost, block = tile / share;
        if (tile >= args->tile.count)
            continue;
        cost = tile_mask(args, tile);
        if (spc_lane() == 0) {
            int digit = tile_digit(cost), group = block / SPC_SORT_GROUP;
            spc_atomic_add(&table[block * SORT_DIGITS + digit], 1);
            spc_atomic_add(&sort_group(table, group)[digit], 1);
        }
    }
}

SPC_DEVICE void sort_tiles(const spc_index_args *args, sort_shared *s,
                           int *table, int begin, int end)
{
    const spc_index_tiles *t = &args->tile;
    const unsigned *scratch = (const unsigned *)args->keys_a;

    sort_begin(s, table);
    for (int step = begin; step < end; step += SORT_THREADS) {
        int tile = step + spc_thread(), valid = tile < end, cost = 0;
        for (int w = 0; valid && w < WORDS; w++)
            cost += spc_popc(scratch[(long long)w * t->count + tile]);
        int place = sort_place(s, valid, valid ? tile_digit(cost) : 0);
        if (!valid)
            continue;
        t->order[place] = tile;
        for (int w = 0; w < WORDS; w++)
            t->mask[(long long)w * t->count + place] =
                scratch[(long long)w * t->count + tile];
    }
}

/* Sorts the tiles of all blocks. The last table is clear. */
SPC_DEVICE void make_tiles(const spc_index_args *args, index_shared *s,
                           grid_barrier *barrier, int unit)
{
    int *costs = sort_last_table(args->tables);
    int share = share_of_block(args->tile.count, 1);
    int begin = at_most(spc_block_x() * share, args->tile.count);

    measure_tiles(args, costs, unit, share);
    grid_sync(barrier);
    sort_tiles(args, &s->u.sort, costs, begin,
               at_most(begin + share, args->tile.count));
}

#endif
