/*
 * index_order.cuh - sorted row orders (runtime/coords/order.c) and tile tables.
 *
 * Rows are sorted by a digest of their mask, in a few passes of the radix sort.
 * Then index, order and mask are written in that order from the short form of
 * the map. A tile table sorts the tiles of any row order by falling cost.
 *
 * Part of index.cu.lua, which defines index_shared and the constants.
 */
#ifndef SPC_INDEX_ORDER_CUH
#define SPC_INDEX_ORDER_CUH

/* ---- sorting ---------------------------------------------------------- */

typedef struct digest_row {
    spc_u32 digest;
    int row;
} digest_row;

/* Between passes one word holds both, because the cost of a scatter is the
 * number of stores. */
SPC_DEVICE spc_u64 digest_word(const digest_row *r)
{
    return (spc_u64)r->digest << 32 | (spc_u32)r->row;
}

/* The i-th item of a pass. The first pass reads the digests in the order of
 * rows. */
SPC_DEVICE digest_row digest_at(const spc_index_args *args, int pass, int i,
                                int end)
{
    const spc_u64 *from =
        (const spc_u64 *)(pass % 2 ? args->rows_b : args->rows_a);
    digest_row r = {0, 0};

    if (i < end && pass > 0) {
        spc_u64 word = from[i];
        r.digest = (spc_u32)(word >> 32);
        r.row = (int)(spc_u32)word;
    } else if (i < end) {
        r.digest = ((const unsigned *)args->keys_a)[i];
        r.row = i;
    }
    return r;
}

SPC_DEVICE void order_pass(const spc_index_args *args, index_shared *s,
                           int pass, int begin, int end, int per_block)
{
    void *to = pass % 2 ? args->rows_a : args->rows_b;
    int *next = sort_table(args->tables, pass + 1);
    int last = pass + 1 == args->sorted.passes;
    digest_row item = digest_at(args, pass, begin + spc_thread(), end);

    sort_begin(&s->u.sort, sort_table(args->tables, pass));
    for (int step = begin; step < end; step += SORT_THREADS) {
        int i = step + spc_thread(), valid = i < end;
        int place =
            sort_place(&s->u.sort, valid, digest_digit(item.digest, pass));
        /* After the last pass only rows are read, so digests are dropped. */
        if (valid && last)
            ((int *)to)[place] = item.row;
        else if (valid)
            ((spc_u64 *)to)[place] = digest_word(&item);
        if (!last)
            sort_count_next(next_counts(s), next, per_block, valid, place,
                            digest_digit(item.digest, pass + 1));
        /* These are loaded ahead, during the waits for the barriers of this
         * step. */
        item = digest_at(args, pass, i + SORT_THREADS, end);
    }
    if (!last)
        sort_count_flush(next_counts(s), next);
}

/* ---- the map in the new order ----------------------------------------- */

/*
 * Returns the i-th position of a block. A block writes every grid-th unit of
 * positions instead of a contiguous range. Otherwise one block would get all
 * rows with many neighbours, because an order by masks puts them together. A
 * unit is a whole number of tiles and divides SPC_ROW_PAD.
 */
SPC_DEVICE int own_position(int unit, int i)
{
    return (i / unit * spc_grid_x() + spc_block_x()) * unit + i % unit;
}

/* The number of these positions. */
SPC_DEVICE int own_positions(const index_extent *e, int unit)
{
    int units = e->padded / unit;

    return (units - spc_block_x() + spc_grid_x() - 1) / spc_grid_x() * unit;
}

/* ---- tiles of this block ----------------------------------------------- */

SPC_DEVICE int tile_digit(int cost)
{
    return OFFSETS - cost;
}

SPC_DEVICE int tile_count(const spc_index_tiles *t, const index_extent *e)
{
    return (e->rows + t->rows - 1) / t->rows;
}

/* The launch's i-th tile table, or NULL. */
SPC_DEVICE const spc_index_tiles *tiles_at(const spc_index_args *args, int i)
{
    return i < SPC_INDEX_TILES && args->tile[i].rows
               ? &args->tile[i]
               : (const spc_index_tiles *)0;
}

/* Called before the launch's first barrier. */
SPC_DEVICE void open_tiles(const spc_index_args *args)
{
    const spc_index_tiles *t;

    for (int i = 0; (t = tiles_at(args, i)) != 0; i++)
        sort_clear(t->table, 1);
}

/* The number of neighbouring tiles that a block owns when tiles are sorted. */
SPC_DEVICE int tile_share(int tiles)
{
    return share_of_block(tiles, 1);
}

/* Counts a tile for the block that will sort it. */
SPC_DEVICE void count_tile(const spc_index_tiles *t, int tiles, int tile,
                           int cost)
{
    int *costs = t->table;
    int block = tile / tile_share(tiles), digit = tile_digit(cost);

    spc_atomic_add(&costs[block * SORT_DIGITS + digit], 1);
    spc_atomic_add(&sort_group(costs, block / SPC_SORT_GROUP)[digit], 1);
}

/*
 * Computes the OR of each tile's masks, one tile per warp, for the block's
 * positions begin .. begin + count. The masks are at `mask`, with words `step`
 * apart. They are indexed by position in the row order or, with `own`, by the
 * block's own positions.
 */
SPC_DEVICE void measure_tiles(const spc_index_tiles *t, const index_extent *e,
                              const unsigned *mask, long long step, int own,
                              int unit, int begin, int count)
{
    int rows = t->rows, tiles = tile_count(t, e);

    for (int i = spc_warp(); i * rows < count; i += SORT_WARPS) {
        int tile = own_position(unit / rows, begin / rows + i), cost = 0;
        int at = (own ? i : tile) * rows;
        if (tile >= tiles)
            continue;
        for (int w = 0; w < WORDS; w++) {
            spc_u32 all = 0;
            for (int r = spc_lane(); r < rows; r += 32)
                all |= mask[w * step + at + r];
            all = spc_warp_or(all);
            cost += spc_popc(all);
            if (spc_lane() == 0)
                t->scratch[(long long)w * tiles + tile] = all;
        }
        if (spc_lane() == 0)
            count_tile(t, tiles, tile, cost);
    }
}

/* ---- copying ------------------------------------------------------------ */

/* Loads all words of a row's mask at once; p < 0: no row. */
SPC_DEVICE void load_mask(const spc_index_args *args, int p, unsigned *mask)
{
#if FOURS
    SPC_UNROLL
    for (int w = 0; w < WORDS; w += 4) {
        const spc_b16 *fours = (const spc_b16 *)args->fours +
                               (long long)(w / 4) * args->set.rows_padded;
        spc_b16 four = {0, 0, 0, 0};
        int last = w + 4 < WORDS ? w + 3 : WORDS - 1;
        if (p >= 0)
            four = fours[p];
        mask[last] = four.w;
        if (last > w)
            mask[last - 1] = four.z;
        if (last > w + 1)
            mask[last - 2] = four.y;
        if (last > w + 2)
            mask[last - 3] = four.x;
    }
#else
    SPC_UNROLL
    for (int w = 0; w < WORDS; w++)
        mask[w] =
            p >= 0 ? args->mask[(long long)w * args->set.rows_padded + p] : 0;
#endif
}

SPC_DEVICE void copy_rows(const spc_index_args *args, index_shared *s,
                          const index_extent *e, const int *sorted, int unit,
                          int begin, int count)
{
    int padded = args->set.rows_padded;
    unsigned mask[WORDS];

    for (int i = spc_thread(); i < count; i += SORT_THREADS) {
        int to = own_position(unit, begin + i);
        int p = to < e->rows ? sorted[to] : -1;
        s->u.copy.from[i] = p;
        s->u.copy.to[i] = to;
        args->sorted.order[to] = p >= 0 ? args->set.order[p] : -1;
        load_mask(args, p, mask);
        SPC_UNROLL
        for (int w = 0; w < WORDS; w++) {
#if LAYOUT
            mask[w] &= way_word(&args->way, w);
#endif
            s->u.copy.mask[w * SPC_INDEX_CHUNK + i] = mask[w];
            args->sorted.mask[(long long)w * padded + to] = mask[w];
        }
    }
}

/* Reads the rows of a chunk of the block's positions, and the masks of its
 * tiles. */
SPC_DEVICE void open_chunk(const spc_index_args *args, index_shared *s,
                           const index_extent *e, const int *sorted, int unit,
                           int begin, int count)
{
    const spc_index_tiles *t;

    spc_sync_block(); /* the previous chunk has been copied */
    copy_rows(args, s, e, sorted, unit, begin, count);
    spc_sync_block(); /* the masks of this chunk are complete */
    for (int i = 0; (t = tiles_at(args, i)) != 0; i++)
        measure_tiles(t, e, s->u.copy.mask, SPC_INDEX_CHUNK, 1, unit, begin,
                      count);
}

/* Writes the chunk's entries of the index, with the threads from `first` on. */
#if LAYOUT
SPC_DEVICE void copy_chunk(const spc_index_args *args, const index_shared *s,
                           int count, int first)
{
    if (spc_thread() < first)
        return;
    for (int item = spc_thread() - first; item < count * BATCHES;
         item += SORT_THREADS - first) {
        int batch = item / count, i = item - batch * count;
        way_copy_batch(args, s->u.copy.from[i], s->u.copy.to[i], batch);
    }
}
#else
/* Batches of a row that a thread takes at once. If there are few it takes all,
 * so that their loads overlap. */
#define SOME (BATCHES <= 3 ? BATCHES : 1)

SPC_DEVICE void load_some(const spc_index_args *args, const index_shared *s,
                          int count, int item, index_batch *found)
{
    int some = item / count, i = item - some * count;

    SPC_UNROLL
    for (int b = 0; b < SOME; b++)
        load_batch(args, s->u.copy.from[i], s->u.copy.mask + i, SPC_INDEX_CHUNK,
                   some * SOME + b, &found[b]);
}

/* Loads the operands of the next item while it writes the current one. */
SPC_DEVICE void copy_chunk(const spc_index_args *args, const index_shared *s,
                           int count, int first)
{
    int step = SORT_THREADS - first, items = count * (BATCHES / SOME);
    index_batch found[SOME];

    for (int item = spc_thread() - first; item < items; item += step) {
        if (item < 0) /* a block without units has no row, either */
            return;
        int some = item / count, i = item - some * count;
        load_some(args, s, count, item, found);
        SPC_UNROLL
        for (int b = 0; b < SOME; b++)
            write_batch(args->sorted.index, args->in.order,
                        args->set.rows_padded, s->u.copy.to[i], some * SOME + b,
                        &found[b]);
    }
}
#endif

/* ---- the tile table ---------------------------------------------------- */

/*
 * Loads the counts of several blocks, or groups of blocks, into shared memory,
 * all at once. A load is slow because it waits behind the stores of other
 * warps.
 */
SPC_DEVICE void fetch_counts(int *to, const int *from, int rows)
{
    enum { PIECES = TILE_COSTS / 4 };

    SPC_ROLLED
    for (int i = spc_lane(); i < rows * PIECES; i += 32) {
        int row = i / PIECES, at = 4 * (i - row * PIECES);
        spc_copy_async16(to + row * TILE_COSTS + at,
                         from + row * SORT_DIGITS + at, 16);
    }
    spc_copy_commit();
    spc_copy_wait(0);
    spc_sync_warp();
}

/* The most rows of counts that are loaded at once. */
#define COUNT_ROWS (SPC_SORT_GROUP - 1)

/* Working memory for sorting tiles, in the space of the counts for the next pass:
 * the next position for each cost, sums, and as many rows of counts as fit. */
typedef struct tile_room {
    int *next, *sums;
    int rows;
} tile_room;

SPC_DEVICE tile_room tile_room_of(index_shared *s)
{
    int at = ((int)sizeof(*s) + 4 * TILE_COSTS + 15) / 16 * 16;
    int end = (int)sizeof(*s) + SPC_INDEX_COUNTS_SHARED(spc_grid_x());
    tile_room room;

    room.next = (int *)(void *)(s + 1);
    room.sums = (int *)(void *)((char *)s + at);
    room.rows = at_most((end - at) / (4 * TILE_COSTS) - 1, COUNT_ROWS);
    return room;
}

/* Adds the first `part` of these rows of counts to next[d] and, if `whole`, all
 * of them to sums[d]. */
SPC_DEVICE void add_counts(const tile_room *room, const int *from, int rows,
                           int part, int whole)
{
    SPC_ROLLED
    for (int first = 0; first < rows; first += room->rows) {
        int some = at_most(room->rows, rows - first);
        fetch_counts(room->sums + TILE_COSTS, from + first * SORT_DIGITS, some);
        SPC_ROLLED
        for (int d = spc_lane(); d <= OFFSETS; d += 32) {
            const int *column = room->sums + TILE_COSTS + d;
            int total = 0, before = 0;
            SPC_UNROLL
            for (int i = 0; i < COUNT_ROWS; i++) {
                int count = i < some ? column[i * TILE_COSTS] : 0;
                total += count;
                before += first + i < part ? count : 0;
            }
            room->next[d] += before;
            room->sums[d] += whole ? total : 0;
        }
        spc_sync_warp();
    }
}

/* Computes the position of the block's first tile of each cost. */
SPC_DEVICE void begin_tiles(const spc_index_tiles *t, const tile_room *room)
{
    int own = spc_block_x() % SPC_SORT_GROUP, home = spc_block_x() - own;
    int groups = SPC_SORT_GROUPS(spc_grid_x()), below = 0;

    SPC_ROLLED
    for (int d = spc_lane(); d <= OFFSETS; d += 32)
        room->next[d] = room->sums[d] = 0;
    add_counts(room, t->table + home * SORT_DIGITS, own, own, 0);
    add_counts(room, sort_group(t->table, 0), groups, home / SPC_SORT_GROUP, 1);
    SPC_ROLLED
    for (int first = 0; first <= OFFSETS; first += 32) {
        int d = first + spc_lane(), total = d <= OFFSETS ? room->sums[d] : 0;
        int sum = sort_warp_sum(total);
        if (d <= OFFSETS)
            room->next[d] += below + sum - total;
        below += spc_shfl(sum, 31);
    }
    spc_sync_warp();
}

SPC_DEVICE void put_tile(const spc_index_args *args, const spc_index_tiles *t,
                         int tiles, int tile, int place, int cost,
                         const spc_u32 *mask)
{
#if LAYOUT
    t->order[place] = args->way.is_group && cost == 0 ? -1 : tile;
#else
    (void)args;
    (void)cost;
    t->order[place] = tile;
#endif
    SPC_UNROLL
    for (int w = 0; w < WORDS; w++)
        t->mask[(long long)w * t->capacity + place] = mask[w];
}

/* Done by one warp, because a block has few tiles. */
SPC_DEVICE void sort_tiles(const spc_index_args *args, const spc_index_tiles *t,
                           const tile_room *room, int tiles)
{
    int *next = room->next;
    int share = tile_share(tiles), lane = spc_lane();
    int begin = at_most(spc_block_x() * share, tiles);
    int end = at_most(begin + share, tiles);

    begin_tiles(t, room);
    if (spc_block_x() == 0) /* the first block has no blocks before it */
        for (int d = lane; d < OFFSETS; d += 32)
            t->begin[d] = next[d];
    SPC_ROLLED
    for (int step = begin; step < end; step += 32) {
        int tile = step + lane, valid = tile < end, cost = 0, place = 0;
        spc_u32 mask[WORDS];
        SPC_UNROLL
        for (int w = 0; w < WORDS; w++)
            mask[w] = valid ? t->scratch[(long long)w * tiles + tile] : 0;
        SPC_UNROLL
        for (int w = 0; w < WORDS; w++)
            cost += spc_popc(mask[w]);
        int digit = valid ? tile_digit(cost) : SORT_DIGITS;
        spc_u32 peers = spc_match((spc_u32)digit);
        int rank = spc_popc(peers & ((1u << lane) - 1u));
        if (valid)
            place = next[digit] + rank;
        spc_sync_warp();
        if (valid && rank == 0)
            next[digit] += spc_popc(peers);
        spc_sync_warp();
        if (valid)
            put_tile(args, t, tiles, tile, place, cost, mask);
    }
    spc_sync_warp(); /* entries before `next` belong to another table */
}

/* Clears the entries past the last tile, where kernels end. */
SPC_DEVICE void clear_tiles(const spc_index_tiles *t, int tiles)
{
    SPC_ROLLED
    for (int i = tiles + sort_grid_thread();
         i < t->capacity; i += spc_grid_x() * SORT_THREADS) {
        t->order[i] = -1;
        for (int w = 0; w < WORDS; w++)
            t->mask[(long long)w * t->capacity + i] = 0;
    }
}

/*
 * Measures the tiles of the block's units in a row order that already exists.
 */
SPC_DEVICE void measure_units(const spc_index_args *args, const index_extent *e,
                              int unit)
{
    const spc_index_tiles *t;

    for (int i = 0; (t = tiles_at(args, i)) != 0; i++)
        measure_tiles(t, e, t->of, args->set.rows_padded, 0, unit, 0,
                      own_positions(e, unit));
}

/* Called when the rows are sorted and the tables of that sort are no longer
 * needed. */
SPC_DEVICE void clear_tables(const spc_index_args *args, const index_extent *e)
{
    const spc_index_tiles *t;

    sort_clear(args->tables, 3);
    for (int i = 0; (t = tiles_at(args, i)) != 0; i++)
        clear_tiles(t, tile_count(t, e));
}

/*
 * Called when this block has measured its tiles. Sorts the tiles of all blocks.
 * One warp waits for the other blocks; the other warps do independent work
 * meanwhile.
 */
SPC_DEVICE void make_tiles(const spc_index_args *args, index_shared *s,
                           const index_extent *e, grid_barrier *barrier)
{
    const spc_index_tiles *t;

    grid_arrive(barrier);
    if (spc_warp() != 0)
        return;
    grid_wait_warp(barrier);
    tile_room room = tile_room_of(s);
    for (int i = 0; (t = tiles_at(args, i)) != 0; i++)
        sort_tiles(args, t, &room, tile_count(t, e));
}

/* Makes the tile tables of a row order that an earlier launch has made, or this
 * launch by its search. */
SPC_DEVICE void tile_rows(const spc_index_args *args, index_shared *s,
                          const index_extent *e, grid_barrier *barrier,
                          int unit)
{
    grid_sync(barrier); /* masks are complete, the table is clear */
    measure_units(args, e, unit);
    make_tiles(args, s, e, barrier);
    clear_tables(args, e);
}

/* ---- the order --------------------------------------------------------- */

/*
 * Sorts the rows at begin..end of the coordinate order, whose digests are
 * known, together with those of all blocks. Then writes this block's units of
 * the new order, and sorts tiles while it writes the last of them.
 */
SPC_DEVICE void order_rows(const spc_index_args *args, index_shared *s,
                           const index_extent *e, grid_barrier *barrier,
                           int begin, int end, int per_block, int unit)
{
    int count = own_positions(e, unit);
    int chunk = SPC_INDEX_CHUNK / unit * unit; /* whole tiles */
    const int *sorted = args->sorted.passes % 2 ? args->rows_b : args->rows_a;

    for (int pass = 0; pass < args->sorted.passes; pass++) {
        grid_arrive(barrier);
        sort_count_open(next_counts(s));
        grid_wait(barrier);
        if (pass > 0) /* the table that the previous pass read */
            sort_clear(sort_table(args->tables, pass + 2), 1);
        order_pass(args, s, pass, begin, end, per_block);
    }
    grid_sync(barrier); /* all rows are sorted */

    /* A block without positions must still reach the barrier of the tiles. */
    for (int at = 0; at == 0 || at < count; at += chunk) {
        int some = at_most(chunk, count - at);
        SORT_FORGET(some);
        /* All tiles of the block are measured when its last chunk is. */
        int tiles = (args->stages & SPC_INDEX_TILE) && at + chunk >= count;
        open_chunk(args, s, e, sorted, unit, at, some);
        if (tiles) {
            make_tiles(args, s, e, barrier);
            clear_tables(args, e);
        }
        /* Warp 0 sorts the tiles, if this chunk has any. */
        copy_chunk(args, s, some, tiles ? 32 : 0);
    }
}

#endif
