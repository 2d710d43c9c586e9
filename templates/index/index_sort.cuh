/*
 * index_sort.cuh - one pass of a stable radix sort over all blocks of a
 * cooperative launch.
 *
 * The includer defines SORT_THREADS (of a block) and SORT_BITS (of a digit).
 * Each block owns a contiguous range of items. A pass begins when the table of
 * digit counts is complete. Each block sums the counts of smaller digits, and
 * the counts of its digit in earlier blocks, which gives the positions of its
 * items. While it moves them it counts the next pass's digits for the blocks
 * that will own them. A pass therefore costs one barrier of the grid.
 *
 * Three tables rotate: one is read, one is filled, one is cleared. All are
 * clear when a kernel starts, and it leaves them clear. A fourth table is for a
 * sort of one pass.
 */
#ifndef SPC_INDEX_SORT_CUH
#define SPC_INDEX_SORT_CUH

#include "index_abi.h"

/* If registers are scarce, values derived from a number are computed again later
 * instead of being kept in registers. */
#if SPARING
#define SORT_FORGET(number) asm volatile("" : "+r"(number))
#else
#define SORT_FORGET(number) ((void)0)
#endif

#define SORT_DIGITS (1 << SORT_BITS)
#define SORT_WARPS (SORT_THREADS / 32)
#define SORT_BATCH (SORT_WARPS < 8 ? SORT_WARPS : 8) /* divides SORT_WARPS */
/* Digits of a thread if half of the threads share them. */
#define SORT_PER_THREAD                                                        \
    ((SORT_DIGITS + SORT_THREADS / 2 - 1) / (SORT_THREADS / 2))

/* Takes SPC_SORT_SHARED bytes. */
typedef struct sort_shared {
    int next[SORT_DIGITS];  /* position of the block's next item of a digit */
    int place[SORT_DIGITS]; /* the same at the start of the current step */
    int sums[40];
    union {
        spc_u16 digit[SORT_WARPS * SORT_DIGITS];
        spc_u32 pair[SORT_WARPS * SORT_DIGITS / 2];
    } count; /* of each warp */
} sort_shared;

/* The number of a thread in the grid. */
SPC_DEVICE int sort_grid_thread(void)
{
    int block = spc_block_x();

#if SPARING == 1
    SORT_FORGET(block);
#endif
    return block * SORT_THREADS + spc_thread();
}

/* Inclusive sum over the warp. */
SPC_DEVICE int sort_warp_sum(int sum)
{
    int lane = spc_lane();

    for (int by = 1; by < 32; by *= 2) {
        int other = spc_shfl_up(sum, by);
        if (lane >= by)
            sum += other;
    }
    return sum;
}

/* Exclusive sum over the block. `sums` has SORT_WARPS + 1 words; the last
 * receives the total. Begins and ends with a barrier. */
SPC_DEVICE int sort_block_sum(int value, int *sums)
{
    int lane = spc_lane(), warp = spc_warp(), sum = sort_warp_sum(value);

    spc_sync_block(); /* earlier sums have been read */
    if (lane == 31)
        sums[warp] = sum;
    spc_sync_block();
    if (warp == 0) {
        int own = lane < SORT_WARPS ? sums[lane] : 0;
        int all = sort_warp_sum(own);
        spc_sync_warp();
        if (lane < SORT_WARPS)
            sums[lane] = all - own;
        if (lane == 31)
            sums[SORT_WARPS] = all;
    }
    spc_sync_block();
    return sums[warp] + sum - value;
}

SPC_DEVICE int *sort_group(int *table, int group)
{
    return table + (spc_grid_x() + group) * SORT_DIGITS;
}

/*
 * Counts for the first pass, over the items that this block owns. First the
 * counts are cleared, then every thread adds its items, then the sums are
 * stored.
 */
SPC_DEVICE void sort_count_clear(int *counts)
{
    for (int d = spc_thread(); d < SORT_DIGITS; d += SORT_THREADS)
        counts[d] = 0;
    spc_sync_block();
}

SPC_DEVICE void sort_count(int *counts, int valid, int digit)
{
    spc_u32 peers = spc_match((spc_u32)(valid ? digit : SORT_DIGITS));

    if (valid && spc_ffs(peers) - 1 == spc_lane())
        /* One atomic for all lanes with the same digit. */
        spc_atomic_add(&counts[digit], spc_popc(peers));
}

SPC_DEVICE void sort_count_store(const int *counts, int *table)
{
    int block = spc_block_x();
    int *own = table + block * SORT_DIGITS;
    int *group = sort_group(table, block / SPC_SORT_GROUP);

    spc_sync_block();
    for (int d = spc_thread(); d < SORT_DIGITS; d += SORT_THREADS) {
        int count = counts[d];
        own[d] = count;
        /* Digits that the block lacks need no atomic. */
        if (count)
            spc_atomic_add(&group[d], count);
    }
}

/*
 * The sum of `rows` table entries DIGITS apart, and of the first `part` of
 * them. Loads are issued in batches, so that a batch costs one latency instead
 * of one for each load.
 */
SPC_DEVICE int sort_sum_column(const int *column, int rows, int part,
                               int *part_sum)
{
    int sum = 0, before = 0;

    for (int first = 0; first < rows; first += SPC_SORT_GROUP) {
        int count[SPC_SORT_GROUP];
        SPC_UNROLL
        for (int i = 0; i < SPC_SORT_GROUP; i++)
            count[i] = first + i < rows ? column[(first + i) * SORT_DIGITS] : 0;
        SPC_UNROLL
        for (int i = 0; i < SPC_SORT_GROUP; i++) {
            sum += count[i];
            before += first + i < part ? count[i] : 0;
        }
    }
    *part_sum = before;
    return sum;
}

/*
 * Computes the position of this block's first item of each digit. Half of the
 * threads sum the groups, the others the blocks of this block's own group.
 */
SPC_DEVICE void sort_begin(sort_shared *s, int *table)
{
    int block = spc_block_x(), home = block / SPC_SORT_GROUP;
    int half = spc_thread() / (SORT_THREADS / 2);
    int lane = spc_thread() - half * (SORT_THREADS / 2);
    int before[SORT_PER_THREAD], total[SORT_PER_THREAD], sum = 0, none;

    SPC_UNROLL
    for (int i = 0; i < SORT_PER_THREAD; i++) {
        int d = lane * SORT_PER_THREAD + i;
        before[i] = total[i] = 0;
        if (d >= SORT_DIGITS)
            continue;
        if (half)
            s->place[d] =
                sort_sum_column(table + home * SPC_SORT_GROUP * SORT_DIGITS + d,
                                block - home * SPC_SORT_GROUP, 0, &none);
        else
            total[i] = sort_sum_column(sort_group(table, 0) + d,
                                       SPC_SORT_GROUPS(spc_grid_x()), home,
                                       &before[i]);
        sum += total[i];
    }
    sum = sort_block_sum(sum, s->sums);
    SPC_UNROLL
    for (int i = 0; i < SORT_PER_THREAD; i++) {
        int d = lane * SORT_PER_THREAD + i;
        if (!half && d < SORT_DIGITS)
            s->next[d] = sum + before[i] + s->place[d];
        sum += total[i];
    }
}

/*
 * Replaces the warps' counts of digits 2 * pair and 2 * pair + 1 by the counts
 * of earlier warps. Both halves of a word are summed at once, because counts of
 * a block fit in 16 bits.
 */
SPC_DEVICE void sort_sum_pair(sort_shared *s, int pair)
{
    spc_u32 *column = s->count.pair + pair, sum = 0;

    for (int first = 0; first < SORT_WARPS; first += SORT_BATCH) {
        spc_u32 count[SORT_BATCH];
        SPC_UNROLL
        for (int i = 0; i < SORT_BATCH; i++)
            count[i] = column[(first + i) * (SORT_DIGITS / 2)];
        SPC_UNROLL
        for (int i = 0; i < SORT_BATCH; i++) {
            column[(first + i) * (SORT_DIGITS / 2)] = sum;
            sum += count[i];
        }
    }
    for (int i = 0; i < 2; i++) {
        /* `place` is what the threads of this step read, while `next` already
         * counts this step's items. */
        s->place[2 * pair + i] = s->next[2 * pair + i];
        s->next[2 * pair + i] += (int)(sum >> (16 * i) & 0xffffu);
    }
}

/*
 * The position of this thread's item. The threads of a block hold consecutive
 * items. Called by all threads of the block; items that are not valid get no
 * position.
 */
SPC_DEVICE int sort_place(sort_shared *s, int valid, int digit)
{
    int lane = spc_lane(), warp = spc_warp();
    spc_u32 peers = spc_match((spc_u32)(valid ? digit : SORT_DIGITS));
    int rank = spc_popc(peers & ((1u << lane) - 1u));

    spc_sync_block(); /* all have read the previous step */
    for (int i = spc_thread(); i < SORT_WARPS * SORT_DIGITS / 2;
         i += SORT_THREADS)
        s->count.pair[i] = 0;
    spc_sync_block(); /* the counts are clear */
    if (valid && rank == 0)
        s->count.digit[warp * SORT_DIGITS + digit] = (spc_u16)spc_popc(peers);
    spc_sync_block(); /* all warps have counted their items */
    for (int pair = spc_thread(); pair < SORT_DIGITS / 2; pair += SORT_THREADS)
        sort_sum_pair(s, pair);
    spc_sync_block();
    if (!valid)
        return -1;
    /* Items before the block and its earlier steps, then those of earlier
     * warps, then those of lower lanes: the sort is stable. */
    return s->place[digit] + s->count.digit[warp * SORT_DIGITS + digit] + rank;
}

/* ---- counting for the next pass ---------------------------------------- */

/*
 * Counts that all blocks would add to are first collected in shared memory: the
 * counts by group of blocks, and the counts of digit 0, because the upper digit
 * of most digests is 0.
 */
typedef struct sort_counts {
    int *groups; /* [SPC_SORT_GROUPS(grid)][SORT_DIGITS] */
    int *zeros;  /* [grid] */
} sort_counts;

/* Uses SPC_SORT_COUNTS(grid) bytes at `memory`. */
SPC_DEVICE sort_counts sort_counts_at(void *memory)
{
    sort_counts c;

    c.groups = (int *)memory;
    c.zeros = c.groups + SPC_SORT_GROUPS(spc_grid_x()) * SORT_DIGITS;
    return c;
}

SPC_DEVICE void sort_count_open(sort_counts c)
{
    int words = SPC_SORT_COUNTS(spc_grid_x(), SORT_DIGITS) / 4;

    SPC_ROLLED
    for (int i = spc_thread(); i < words; i += SORT_THREADS)
        c.groups[i] = 0;
}

/* Counts an item that has moved to `place`. Called by whole warps, after a
 * barrier of the block. */
SPC_DEVICE void sort_count_next(sort_counts c, int *table, int per_block,
                                int valid, int place, int digit)
{
    int block = valid ? place / per_block : -1;
    spc_u32 peers = spc_match((spc_u32)(block * SORT_DIGITS + digit));

    if (valid && spc_ffs(peers) - 1 == spc_lane()) {
        int count = spc_popc(peers);
        spc_atomic_add(digit ? &table[block * SORT_DIGITS + digit]
                             : &c.zeros[block],
                       count);
        spc_atomic_add(&c.groups[block / SPC_SORT_GROUP * SORT_DIGITS + digit],
                       count);
    }
}

SPC_DEVICE void sort_count_flush(sort_counts c, int *table)
{
    int *to = sort_group(table, 0);

    spc_sync_block();
    SPC_ROLLED
    for (int i = spc_thread(); i < SPC_SORT_GROUPS(spc_grid_x()) * SORT_DIGITS;
         i += SORT_THREADS)
        if (c.groups[i])
            spc_atomic_add(&to[i], c.groups[i]);
    SPC_ROLLED
    for (int i = spc_thread(); i < spc_grid_x(); i += SORT_THREADS)
        if (c.zeros[i])
            spc_atomic_add(&table[i * SORT_DIGITS], c.zeros[i]);
}

/* Clears `tables` tables; each thread of the grid clears its share. */
SPC_DEVICE void sort_clear(int *table, int tables)
{
    int words = tables * SPC_SORT_TABLE(spc_grid_x(), SORT_DIGITS);

    SPC_ROLLED
    for (int i = sort_grid_thread(); i < words;
         i += spc_grid_x() * SORT_THREADS)
        table[i] = 0;
}

/* The table of a pass. */
SPC_DEVICE int *sort_table(int *tables, int pass)
{
    return tables + pass % 3 * SPC_SORT_TABLE(spc_grid_x(), SORT_DIGITS);
}

/* ---- the barrier of the grid (index_abi.h, spc_index_sync) ------------ */

#if SPARING > 1
/* Packed into one word, because it is live for the whole kernel: twice the number
 * of barriers so far, plus the number of this launch's counter. */
typedef struct grid_barrier {
    spc_index_sync *words;
    spc_u32 state;
} grid_barrier;

SPC_DEVICE void grid_open(grid_barrier *barrier, spc_index_sync *words)
{
    barrier->words = words;
    barrier->state = words->turn & 1u;
}

SPC_DEVICE spc_u32 *grid_counter(const grid_barrier *barrier)
{
    return &barrier->words->counter[barrier->state & 1u];
}

/* Code between the two halves must not access data of other blocks. */
SPC_DEVICE void grid_arrive(const grid_barrier *barrier)
{
    spc_arrive_grid(grid_counter(barrier));
}

SPC_DEVICE void grid_wait(grid_barrier *barrier)
{
    spc_u32 round = barrier->state >> 1;

    spc_wait_grid(grid_counter(barrier), &round);
    barrier->state += 2;
}

SPC_DEVICE void grid_sync(grid_barrier *barrier)
{
    grid_arrive(barrier);
    grid_wait(barrier);
}

/* Only the first warp waits, at the last barrier of a launch. */
SPC_DEVICE void grid_wait_warp(grid_barrier *barrier)
{
    spc_u32 want = ((barrier->state >> 1) + 1) * (spc_u32)spc_grid_x();

    if (spc_lane() == 0)
        while (spc_load_acquire(grid_counter(barrier)) < want)
            continue;
    barrier->state += 2;
    spc_sync_warp();
}

/* Called after the launch's last barrier, if it had any. The next launch uses
 * the other counter, which has not been used since it was cleared. */
SPC_DEVICE void grid_close(grid_barrier *barrier)
{
    spc_u32 turn = barrier->state & 1u;

    if (barrier->state > 1 && spc_block_x() == 0 && spc_thread() == 0) {
        barrier->words->counter[turn ^ 1u] = 0;
        barrier->words->turn = turn ^ 1u;
    }
}
#else
typedef struct grid_barrier {
    spc_index_sync *words;
    spc_u32 turn;
    spc_u32 round;
} grid_barrier;

SPC_DEVICE void grid_open(grid_barrier *barrier, spc_index_sync *words)
{
    barrier->words = words;
    barrier->turn = words->turn & 1u;
    barrier->round = 0;
}

/* Code between the two halves must not access data of other blocks. */
SPC_DEVICE void grid_arrive(const grid_barrier *barrier)
{
    spc_arrive_grid(&barrier->words->counter[barrier->turn]);
}

SPC_DEVICE void grid_wait(grid_barrier *barrier)
{
    spc_wait_grid(&barrier->words->counter[barrier->turn], &barrier->round);
}

SPC_DEVICE void grid_sync(grid_barrier *barrier)
{
    grid_arrive(barrier);
    grid_wait(barrier);
}

/* Only the first warp waits, at the last barrier of a launch. */
SPC_DEVICE void grid_wait_warp(grid_barrier *barrier)
{
    spc_u32 want = (barrier->round + 1) * (spc_u32)spc_grid_x();

    if (spc_lane() == 0)
        while (spc_load_acquire(&barrier->words->counter[barrier->turn]) < want)
            continue;
    barrier->round += 1;
    spc_sync_warp();
}

/* Called after the launch's last barrier, if it had any. The next launch uses
 * the other counter, which has not been used since it was cleared. */
SPC_DEVICE void grid_close(grid_barrier *barrier)
{
    if (barrier->round > 0 && spc_block_x() == 0 && spc_thread() == 0) {
        barrier->words->counter[barrier->turn ^ 1u] = 0;
        barrier->words->turn = barrier->turn ^ 1u;
    }
}
#endif

/* The share of a block if `items` are spread over the blocks in multiples of
 * `unit`. */
SPC_DEVICE int share_of_block(int items, int unit)
{
    int units = (items + unit - 1) / unit;

    return (units + spc_grid_x() - 1) / spc_grid_x() * unit;
}

#endif
