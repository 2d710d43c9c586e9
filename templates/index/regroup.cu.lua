%-- Makes a set from the voxels of other sets, and moves features between their rows.
%--
%-- spc_regroup lists the children of every voxel, c * scale + child, that the mask keeps,
%-- in the order of the sources, of their rows, and of the children's numbers. The list is
%-- dense and depends only on that order: blocks own shares of the rows, count their
%-- children, and sum the counts of earlier blocks. Sorting the list (index.cu.lua) makes a
%-- set. spc_regroup_rows then records which rows of the sources each row of the set comes
%-- from, in both directions.
%--
%-- spc_mask makes a mask from features: a slot is kept if its number is above a threshold.
%--
%-- spc_gather adds up the features of rows that became one row, always in that order.
%-- spc_spread gives each row of the sources the features of the row that it became.
%--
%-- Nothing of sets or features is a constant: one module serves all.
%
%template = {
%  summary = "sets made of the voxels of others; features of their rows",
%  role = "map",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "regroup" then return false, "regroups coordinates" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target) return {} end,
%  launch = function(problem, config, target) return {} end,
%  default = function(problem, target) return {} end,
%}
#define SORT_THREADS $(problem.threads)
#define SORT_BITS 9
#include "spc_device.cuh"
#include "index_sort.cuh"
#include "regroup_abi.h"

/* ---- listing ---------------------------------------------------------- */

SPC_DEVICE int first_thread(void)
{
    return spc_block_x() * SORT_THREADS + spc_thread();
}

SPC_DEVICE int all_threads(void)
{
    return spc_grid_x() * SORT_THREADS;
}

SPC_DEVICE void clear(int *at, long long count)
{
    for (long long i = first_thread(); i < count; i += all_threads())
        at[i] = -1;
}

/* Finds the position of each row's voxel among the keys of its source. */
SPC_DEVICE void find_positions(const spc_regroup_args *args)
{
    for (int s = 0; s < args->sources; s++) {
        const spc_regroup_source *source = &args->source[s];
        int count = *source->count;
        for (int p = first_thread(); p < count; p += all_threads())
            args->at[source->first + source->order[p]] = p;
    }
}

/* True if the mask keeps the child; without a mask all stay. */
SPC_DEVICE int stays(const spc_regroup_args *args, int row, int child)
{
    return args->mask == (const unsigned char *)0 ||
           args->mask[(long long)row * args->children + child] != 0;
}

/* The children that stay. */
SPC_DEVICE int count_children(const spc_regroup_args *args, int row)
{
    int count = 0;

    /* A row past the count of its source has no voxel. */
    if (args->at[row] < 0)
        return 0;
    for (int child = 0; child < args->children; child++)
        count += stays(args, row, child);
    return count;
}

/* The source that has the row. There are few. */
SPC_DEVICE const spc_regroup_source *source_of(const spc_regroup_args *args,
                                               int row)
{
    int s = 0;

    while (s + 1 < args->sources && row >= args->source[s + 1].first)
        s++;
    return &args->source[s];
}

/* The voxel of a row, times the scale. */
SPC_DEVICE void scaled_voxel(const spc_regroup_args *args, int row, spc_u32 *c)
{
    const spc_regroup_source *source = source_of(args, row);
    const spc_index_key *layout = &source->key;
    int p = args->at[row];
    spc_u64 key = source->wide ? ((const spc_u64 *)source->keys)[p]
                               : ((const spc_u32 *)source->keys)[p];

    SPC_UNROLL
    for (int i = 0; i < 4; i++) {
        c[i] = ((spc_u32)(key >> layout->shift[i]) & layout->wide[i]) -
               layout->before[i] + (spc_u32)layout->low[i];
        if (i > 0)
            c[i] *= (spc_u32)args->scale[i - 1];
    }
}

/* Appends a child, the x axis fastest. */
SPC_DEVICE void list_child(const spc_regroup_args *args, const spc_u32 *c,
                           int row, int child, int place)
{
    int x = args->split[0], y = args->split[1];
    spc_b16 voxel;

    /* The count goes on, so that the host sees that there are too many. */
    if (place >= args->capacity)
        return;
    voxel.x = c[0];
    voxel.y = c[1] + (spc_u32)(child % x);
    voxel.z = c[2] + (spc_u32)(child / x % y);
    voxel.w = c[3] + (spc_u32)(child / x / y);
    spc_store16(args->list + 4ll * place, voxel);
    args->slot[place] = row * args->children + child;
}

SPC_DEVICE void list_row(const spc_regroup_args *args, int row, int place)
{
    spc_u32 c[4];

    scaled_voxel(args, row, c);
    for (int child = 0; child < args->children; child++)
        if (stays(args, row, child))
            list_child(args, c, row, child, place++);
}

/* Lists the rows begin..end from `place` on; returns the end of the list. */
SPC_DEVICE int list_rows(const spc_regroup_args *args, int begin, int end,
                         int place)
{
    int *sums = (int *)spc_shared();

    for (int step = begin; step < end; step += SORT_THREADS) {
        int row = step + spc_thread();
        int own = row < end ? count_children(args, row) : 0;
        int before = sort_block_sum(own, sums);
        if (own > 0)
            list_row(args, row, place + before);
        place += sums[SORT_WARPS];
        /* All have read the sum before the next round overwrites it. */
        spc_sync_block();
    }
    return place;
}

/* The children of the block's rows. */
SPC_DEVICE int count_rows(const spc_regroup_args *args, int begin, int end)
{
    int *sums = (int *)spc_shared(), own = 0;

    for (int row = begin + spc_thread(); row < end; row += SORT_THREADS)
        own += count_children(args, row);
    sort_block_sum(own, sums);
    return sums[SORT_WARPS];
}

/* The sum of the counts of earlier blocks. */
SPC_DEVICE int count_before(const spc_regroup_args *args)
{
    int *sums = (int *)spc_shared(), own = 0;

    for (int i = spc_thread(); i < spc_block_x(); i += SORT_THREADS)
        own += args->counts[i];
    sort_block_sum(own, sums);
    own = sums[SORT_WARPS];
    /* All must have read the sum before list_rows() uses this memory again. */
    spc_sync_block();
    return own;
}

SPC_KERNEL(spc_regroup, spc_regroup_args, $(problem.threads), 1)
{
    int share = share_of_block(args->rows, 32);
    int begin = spc_block_x() * share, end = begin + share, count;
    grid_barrier barrier;

    begin = begin < args->rows ? begin : args->rows;
    end = end < args->rows ? end : args->rows;
    grid_open(&barrier, args->sync);
    clear(args->at, args->rows);
    clear(args->of, (long long)args->rows * args->children);
    /* Every block fills entries that others have cleared. */
    grid_sync(&barrier);
    find_positions(args);
    /* All rows know their positions from here on. */
    grid_sync(&barrier);
    count = count_rows(args, begin, end);
    if (spc_thread() == 0)
        args->counts[spc_block_x()] = count;
    /* The counts of all blocks are stored. */
    grid_sync(&barrier);
    count = list_rows(args, begin, end, count_before(args));
    /* The list ends where the last block's part ends. */
    if (spc_block_x() == spc_grid_x() - 1 && spc_thread() == 0)
        *args->listed = count;
    grid_close(&barrier);
}

/* ---- rows ------------------------------------------------------------- */

/* The row's entries in the list. They are the entry with its own number, unless
 * the sort has merged voxels. */
SPC_DEVICE void keep_row(const spc_regroup_args *args, int row)
{
    int slot = args->slot[row];

    args->begin[row] = row;
    args->slots[row] = slot;
    args->of[slot] = row;
}

/* The same after a sort, which may have merged voxels: `twins` has the entries
 * of equal ones, next to each other. */
SPC_DEVICE int merge_row(const spc_regroup_args *args, int row)
{
    int twins = args->stats[SPC_INDEX_DUPLICATES] != 0;
    int begin = twins ? args->twin_begin[row] : row;
    int end = twins ? args->twin_begin[row + 1] : row + 1;
    int first = args->order[row];

    for (int i = begin; i < end; i++) {
        int slot = args->slot[twins ? args->twins[i] : first];
        args->slots[i] = slot;
        args->of[slot] = row;
    }
    args->begin[row] = begin;
    /* From here on rows are in the order of their voxels. */
    args->order[row] = row;
    spc_store16(args->data + 4ll * row, spc_load16(args->list + 4ll * first));
    return end;
}

SPC_KERNEL(spc_regroup_rows, spc_regroup_args, $(problem.threads), 1)
{
    int count = *args->count;

    /* The end of the last row is stored by its thread, which an empty set
     * lacks. */
    if (count == 0 && first_thread() == 0)
        args->begin[0] = 0;
    for (int row = first_thread(); row < count; row += all_threads()) {
        int end = row + 1;
        if (args->merges)
            end = merge_row(args, row);
        else
            keep_row(args, row);
        if (row == count - 1)
            args->begin[count] = end;
    }
}

/* ---- masks ------------------------------------------------------------ */

SPC_DEVICE float number_at(const void *from, long long at, int half)
{
    if (half == 0)
        return ((const float *)from)[at];
    return half == 2 ? spc_bf16_to_f32(((const spc_u16 *)from)[at])
                     : spc_f16_to_f32(((const spc_u16 *)from)[at]);
}

/* A NaN is not above any threshold. */
SPC_KERNEL(spc_mask, spc_mask_args, $(problem.threads), 1)
{
    long long slots = (long long)args->first[args->sources] * args->children;

    for (long long i = first_thread(); i < slots; i += all_threads()) {
        int row = (int)(i / args->children), s = 0;
        while (row >= args->first[s + 1])
            s++;
        long long begin = (long long)args->first[s] * args->children;
        /* Rows past the count of their source have no features. */
        if (row - args->first[s] < *args->count[s])
            args->mask[i] = number_at(args->in[s], i - begin, args->half) > args->above;
    }
}

/* ---- features --------------------------------------------------------- */

/* Channels of one thread. */
typedef struct piece {
    float at[8];
} piece;

SPC_DEVICE float half_value(const spc_gather_args *args, spc_u16 bits)
{
    return args->half == 2 ? spc_bf16_to_f32(bits) : spc_f16_to_f32(bits);
}

SPC_DEVICE spc_u16 half_of(const spc_gather_args *args, float value)
{
    return args->half == 2 ? spc_f32_to_bf16(value) : spc_f32_to_f16(value);
}

SPC_DEVICE void add_halves(const spc_gather_args *args, piece *sum, int i,
                           spc_u32 pair)
{
    sum->at[i] += half_value(args, (spc_u16)(pair & 0xffffu));
    sum->at[i + 1] += half_value(args, (spc_u16)(pair >> 16));
}

SPC_DEVICE void add_piece(const spc_gather_args *args, piece *sum,
                          const void *from, long long at)
{
    spc_b16 v;

    if (args->piece == 1) {
        sum->at[0] += args->half
                          ? half_value(args, ((const spc_u16 *)from)[at])
                          : ((const float *)from)[at];
        return;
    }
    v = spc_load16((const char *)from + at * (args->half ? 2 : 4));
    if (args->half) {
        add_halves(args, sum, 0, v.x);
        add_halves(args, sum, 2, v.y);
        add_halves(args, sum, 4, v.z);
        add_halves(args, sum, 6, v.w);
        return;
    }
    sum->at[0] += spc_bits_f32(v.x);
    sum->at[1] += spc_bits_f32(v.y);
    sum->at[2] += spc_bits_f32(v.z);
    sum->at[3] += spc_bits_f32(v.w);
}

SPC_DEVICE spc_u32 pack_halves(const spc_gather_args *args, const piece *sum,
                               int i)
{
    return (spc_u32)half_of(args, sum->at[i]) |
           (spc_u32)half_of(args, sum->at[i + 1]) << 16;
}

SPC_DEVICE void store_piece(const spc_gather_args *args, const piece *sum,
                            void *to, long long at)
{
    spc_b16 v;

    if (args->piece == 1 && args->half) {
        ((spc_u16 *)to)[at] = half_of(args, sum->at[0]);
    } else if (args->piece == 1) {
        ((float *)to)[at] = sum->at[0];
    } else if (args->half) {
        v.x = pack_halves(args, sum, 0);
        v.y = pack_halves(args, sum, 2);
        v.z = pack_halves(args, sum, 4);
        v.w = pack_halves(args, sum, 6);
        spc_store16((char *)to + 2 * at, v);
    } else {
        v.x = spc_f32_bits(sum->at[0]);
        v.y = spc_f32_bits(sum->at[1]);
        v.z = spc_f32_bits(sum->at[2]);
        v.w = spc_f32_bits(sum->at[3]);
        spc_store16((char *)to + 4 * at, v);
    }
}

/* The start of a sum is -0, so that a single row is copied bit by bit. */
SPC_DEVICE piece no_sum(void)
{
    piece sum;

    SPC_UNROLL
    for (int i = 0; i < 8; i++)
        sum.at[i] = -0.0f;
    return sum;
}

SPC_DEVICE int source_at(const spc_gather_args *args, int row)
{
    int s = 0;

    while (row >= args->first[s + 1])
        s++;
    return s;
}

/* Adds the features of a slot from channel c on: those of its row or of its
 * slice. */
SPC_DEVICE void add_slot(const spc_gather_args *args, piece *sum, int slot,
                         int c)
{
    int s = source_at(args, slot / args->children / args->slices);
    long long row = slot / args->children -
                    (long long)args->first[s] * args->slices;

    add_piece(args, sum, args->in[s], row * args->channels + c);
}

SPC_KERNEL(spc_gather, spc_gather_args, $(problem.threads), 1)
{
    int pieces = args->channels / args->piece;
    long long count = (long long)*args->count * pieces;

    for (long long i = first_thread(); i < count; i += all_threads()) {
        int row = (int)(i / pieces), c = (int)(i % pieces) * args->piece;
        piece sum = no_sum();
        for (int j = args->begin[row]; j < args->begin[row + 1]; j++)
            add_slot(args, &sum, args->slots[j], c);
        store_piece(args, &sum, args->out[0], (long long)row * args->channels + c);
    }
}

/* If each child has its own slice, the rows here are slices. */
SPC_KERNEL(spc_spread, spc_gather_args, $(problem.threads), 1)
{
    int pieces = args->channels / args->piece;
    long long rows = (long long)args->first[args->sources] * args->slices;

    for (long long i = first_thread(); i < rows * pieces; i += all_threads()) {
        int row = (int)(i / pieces), c = (int)(i % pieces) * args->piece;
        int s = source_at(args, row / args->slices), any = 0;
        piece sum = no_sum();
        for (int child = 0; child < args->children; child++) {
            int from = args->of[(long long)row * args->children + child];
            if (from >= 0)
                add_piece(args, &sum, args->in[0],
                          (long long)from * args->channels + c);
            any |= from >= 0;
        }
        /* A sum of nothing is 0, not -0. */
        for (int k = 0; k < 8 && !any; k++)
            sum.at[k] = 0;
        store_piece(args, &sum, args->out[s],
                    (row - (long long)args->first[s] * args->slices) *
                            args->channels +
                        c);
    }
}
