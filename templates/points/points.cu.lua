%-- Clouds of points: fills them, sorts them by cells, and finds for every output the inputs
%-- within a radius, with the cell of the kernel that contains each.
%--
%-- The edge length of cells is the radius. Sorting their coordinates (index.cu.lua) puts
%-- the points of one cell together, so the points of a run of cells along z are contiguous.
%-- A warp has consecutive outputs. Its lanes find the runs of the columns around an output
%-- and load the points of all runs into shared memory, 32 at a time. The next outputs reuse
%-- them as long as they need the same cells. Counting and writing visit the same points in
%-- the same order. The counts therefore match what is written, and every run of the kernels
%-- gives the same list.
%--
%-- A point within the radius must be in one of the searched cells, whatever the rounding.
%-- If (dx dx + dy dy) + dz dz <= r r in fp32, |dx| is at most r (1 + 2^-21). The point is
%-- then in [x - reach, x + reach] with reach = r (1 + 2^-19). Rounding is monotonic, so the
%-- point's cell is between the cells of the two ends.
%
%template = {
%  summary = "clouds of points, and who lies within whose radius",
%  role = "map",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "points_search" then return false, "searches points" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target)
%    -- On some GPUs the code takes more than the 64 registers that four blocks allow.
%    local resident = (target.sm >= 86 and target.sm <= 89) and 3 or 4
%    return {wide = problem.key == 64, resident = resident}
%  end,
%  launch = function(problem, config, target) return {} end,
%  default = function(problem, target) return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"
#include "points_abi.h"

typedef $(wide and "spc_u64" or "spc_u32") cell_key;

SPC_DEVICE int first_thread(void)
{
    return spc_block_x() * SPC_POINTS_THREADS + spc_thread();
}

SPC_DEVICE int all_threads(void)
{
    return spc_grid_x() * SPC_POINTS_THREADS;
}

#include "points_clouds.cuh"

/* ---- searching around an output ----------------------------------------- */

/* An output and the points near it, of all runs one after the other in shared memory. If
 * they are too many, `staged` is -1 and lane c has the run of column c. */
typedef struct query {
    float x, y, z;
    int row, position;
    int batch, low[3], high[3]; /* the cells that are searched */
    int staged;
    int begin, end;
    int columns;
    spc_u32 limit; /* with `nearest`: smaller squares count, */
    int ties;      /* and this many equal ones */
    spc_b16 next, after; /* outputs of the next positions */
    int next_batch;
} query;

#include "points_runs.cuh"

/* The points of a warp's query. */
SPC_DEVICE spc_u8 *stage_of_warp(void)
{
    return spc_shared() + spc_warp() * (SPC_POINTS_STAGED * 16);
}

SPC_DEVICE void stage_runs(const spc_radius_args *args, query *q)
{
    spc_u8 *to = stage_of_warp();
    int count = 0;

    spc_sync_warp(); /* all lanes have read the previous points */
    for (int column = 0; column < q->columns; column++) {
        int begin = spc_shfl(q->begin, column), end = spc_shfl(q->end, column);
        for (int at = begin + spc_lane(); at < end; at += 32)
            /* The rest is not stored, but counted, to know that there are too
             * many. */
            if (count + at - begin < SPC_POINTS_STAGED)
                spc_shared_store16(to + (count + at - begin) * 16,
                                   spc_load16(args->in.points + 4ll * at));
        count += end - begin;
    }
    q->staged = count <= SPC_POINTS_STAGED ? count : -1;
    spc_sync_warp();
}

SPC_DEVICE void find_runs(const spc_radius_args *args, query *q)
{
    int wide = q->high[1] - q->low[1] + 1, c = spc_lane();

    q->begin = q->end = 0;
    q->columns = (q->high[0] - q->low[0] + 1) * wide;
    if (c < q->columns)
        find_run(args, q,
                 key_field(&args->key, 0, q->batch + args->key.low[0]) +
                     key_field(&args->key, 1, q->low[0] + c / wide) +
                     key_field(&args->key, 2, q->low[1] + c % wide),
                 q->low[2], q->high[2]);
    stage_runs(args, q);
}

/* The output at a position. Past the last one, no output. */
SPC_DEVICE spc_b16 output_at(const spc_radius_args *args, int position)
{
    spc_b16 none = {0, 0, 0, 0xffffffffu};

    return position < args->out.begin[*args->out.cells]
               ? spc_load16(args->out.points + 4ll * position)
               : none;
}

SPC_DEVICE int batch_of(const spc_radius_args *args, const spc_b16 *p)
{
    return (int)p->w < 0 ? -1 : (int)spc_load4(args->out_at + 4ll * (int)p->w + 3);
}

/*
 * Called before the outputs from `position` on, of which there is at least one. The cells
 * are initialised because the first output is compared with them as well. Uninitialised
 * registers would differ from lane to lane, and lanes would diverge where the compiler
 * assumes uniform control flow.
 */
SPC_DEVICE void begin_asking(const spc_radius_args *args, query *q, int position)
{
    q->batch = -2;
    SPC_UNROLL
    for (int i = 0; i < 3; i++)
        q->low[i] = q->high[i] = 0;
    q->next = output_at(args, position);
    q->after = output_at(args, position + 1);
    q->next_batch = batch_of(args, &q->next);
}

/* Moves to the next output. The points found for the last output are reused if the cells are
 * the same. */
SPC_DEVICE void ask(const spc_radius_args *args, query *q, int position)
{
    spc_b16 p = q->next;
    float at[3];
    int batch = q->next_batch - args->key.low[0], some = 1, same = 1;

    q->next = q->after;
    q->next_batch = batch_of(args, &q->next);
    q->after = output_at(args, position + 2);
    q->x = at[0] = spc_bits_f32(p.x);
    q->y = at[1] = spc_bits_f32(p.y);
    q->z = at[2] = spc_bits_f32(p.z);
    q->row = (int)p.w;
    q->position = position;
    q->limit = 0xffffffffu;
    q->ties = 0;
    SPC_UNROLL
    for (int i = 0; i < 3; i++) {
        int low, high;
        some &= clip_axis(args, i, at[i], &low, &high);
        same &= low == q->low[i] && high == q->high[i];
        q->low[i] = low;
        q->high[i] = high;
    }
    if (!some || batch < 0 || (spc_u32)batch > args->key.last[0]) {
        q->staged = 0;
        q->batch = -2;
        return;
    }
    if (same && batch == q->batch)
        return;
    q->batch = batch;
    find_runs(args, q);
}

/* A point that is examined. */
typedef struct candidate {
    int seen;
    int row;
    int k;
    spc_u32 square; /* as bits, which have the order of the numbers */
} candidate;

SPC_DEVICE int cell_along(const spc_radius_args *args, int axis, float d)
{
    int cell = floor_of(spc_add_rn(spc_mul_rn(args->backwards ? -d : d, args->scale[axis]),
                                   args->half[axis]));

    return cell < 0 ? 0 : cell < args->kernel[axis] ? cell : args->kernel[axis] - 1;
}

/*
 * True if the query's point is among the nearest of the point that was found.
 */
SPC_DEVICE int counts_there(const spc_radius_args *args, const query *q, const candidate *c)
{
    if (!args->backwards || args->limits == 0 || !c->seen)
        return c->seen;
    spc_b8 last = spc_load8(args->limits + 2ll * c->row);
    return c->square < last.x || (c->square == last.x && q->position <= (int)last.y);
}

SPC_DEVICE candidate look(const spc_radius_args *args, const query *q, int at, int end)
{
    const spc_u8 *stage = stage_of_warp();
    candidate c;

    c.seen = 0;
    c.row = 0;
    c.k = 0;
    c.square = 0;
    if (at >= end)
        return c;
    spc_b16 p = q->staged >= 0 ? spc_shared_load16(stage + at * 16)
                               : spc_load16(args->in.points + 4ll * at);
    /* Each operation is rounded by itself, as on a processor. A fused one could
     * decide otherwise about a point at the radius. */
    float dx = spc_add_rn(spc_bits_f32(p.x), -q->x);
    float dy = spc_add_rn(spc_bits_f32(p.y), -q->y);
    float dz = spc_add_rn(spc_bits_f32(p.z), -q->z);
    float square = spc_add_rn(spc_add_rn(spc_mul_rn(dx, dx), spc_mul_rn(dy, dy)),
                              spc_mul_rn(dz, dz));
    c.seen = square <= args->square;
    c.row = (int)p.w;
    c.square = spc_f32_bits(square);
    c.k = (cell_along(args, 0, dx) * args->kernel[1] + cell_along(args, 1, dy)) *
              args->kernel[2] +
          cell_along(args, 2, dz);
    c.seen = counts_there(args, q, &c);
    return c;
}

SPC_DEVICE spc_u32 lanes_below(void)
{
    return (1u << spc_lane()) - 1u;
}

%-- Writes a loop of the whole warp over all candidates of q, 32 at a time.
%local function write_visit(body)
    for (int column = 0; column < (q->staged >= 0 ? 1 : q->columns); column++) {
        int begin = 0, end = q->staged;
        if (q->staged < 0) {
            begin = spc_shfl(q->begin, column);
            end = spc_shfl(q->end, column);
        }
        for (int at = begin; at < end; at += 32) {
            candidate c = look(args, q, at + spc_lane(), end);
%   body()
        }
    }
%end
/* The number of candidates in range whose square is at most `most`. */
SPC_DEVICE int count_upto(const spc_radius_args *args, const query *q, spc_u32 most)
{
    int count = 0;

% write_visit(function()
            count += spc_popc(spc_ballot(c.seen && c.square <= most));
% end)
    return count;
}

SPC_DEVICE spc_u32 least_square(const spc_radius_args *args, const query *q)
{
    spc_u32 least = 0xffffffffu;

% write_visit(function()
            if (c.seen && c.square < least)
                least = c.square;
% end)
    for (int by = 1; by < 32; by *= 2) {
        spc_u32 other = (spc_u32)spc_shfl_xor((int)least, by);
        least = other < least ? other : least;
    }
    return least;
}

/* With more than `nearest` candidates: finds the square of the last that counts, by
 * bisection. With nearest = 1 it is the minimum. */
SPC_DEVICE void keep_nearest(const spc_radius_args *args, query *q)
{
    spc_u32 low = 0, high = spc_f32_bits(args->square);

    if (args->nearest == 1) {
        q->limit = least_square(args, q);
        q->ties = 1;
        return;
    }
    if (count_upto(args, q, high) <= args->nearest)
        return;
    while (low < high) {
        spc_u32 middle = low + (high - low) / 2;
        if (count_upto(args, q, middle) < args->nearest)
            /* Squares are compared as bits, so the search ends after 32 steps
             * at most. */
            low = middle + 1;
        else
            high = middle;
    }
    q->limit = low;
    q->ties = args->nearest - (low > 0 ? count_upto(args, q, low - 1) : 0);
}

/* The last candidate at the limit that counts, in the order of visits. */
SPC_DEVICE int last_that_ties(const spc_radius_args *args, const query *q)
{
    int left = q->ties, met = -1;

% write_visit(function()
            spc_u32 equal = spc_ballot(c.seen && c.square == q->limit);
            while (equal != 0 && left > 0) {
                met = at + spc_ffs(equal) - 1;
                equal &= equal - 1u;
                left--;
            }
% end)
    return met;
}

/* True if the candidate counts. At the limit, the first candidates in the order
 * of visits count. */
SPC_DEVICE int counts(query *q, const candidate *c)
{
    spc_u32 equal = spc_ballot(c->seen && c->square == q->limit);
    int tie = c->square == q->limit;
    int kept = c->seen && (tie ? spc_popc(equal & lanes_below()) < q->ties
                               : c->square < q->limit);

    q->ties -= spc_popc(equal);
    return kept;
}

/* ---- counting ---------------------------------------------------------- */

/* Each block has the same number of consecutive positions. */
SPC_DEVICE int block_begin(const spc_radius_args *args, int block)
{
    return (int)((long long)args->rows_padded * block / args->blocks);
}

/* Each warp has an equal part of a block's positions. */
SPC_DEVICE int warp_begin_of(int begin, int end, int warp)
{
    return begin + (int)((long long)(end - begin) * warp / SPC_POINTS_WARPS);
}

SPC_DEVICE int count_output(const spc_radius_args *args, query *q, int position)
{
    ask(args, q, position);
    int count = count_upto(args, q, 0xffffffffu);

    return args->nearest > 0 && count > args->nearest ? args->nearest : count;
}

/* Replaces the counts of the block's positions by the sums of all earlier
 * counts. */
SPC_DEVICE void sum_block(const spc_radius_args *args, int begin, int end)
{
    int sum = 0;

    for (int at = begin; at < end; at += 32) {
        int p = at + spc_lane(), own = p < end ? args->first[p] : 0, upto = own;
        for (int by = 1; by < 32; by *= 2) {
            int below = spc_shfl_up(upto, by);
            if (spc_lane() >= by)
                upto += below;
        }
        if (p < end)
            args->first[p] = sum + upto - own;
        sum += spc_shfl(upto, 31);
    }
    if (spc_lane() == 0)
        args->sums[spc_block_x()] = sum;
}

SPC_KERNEL(spc_radius_count, spc_radius_args, SPC_POINTS_THREADS, $(resident))
{
    int begin = block_begin(args, spc_block_x());
    int end = block_begin(args, spc_block_x() + 1);
    int outputs = args->out.begin[*args->out.cells];
    int last = warp_begin_of(begin, end, spc_warp() + 1);
    int p = warp_begin_of(begin, end, spc_warp());
    query q;

    begin_asking(args, &q, p);
    for (; p < last; p++) {
        int count = p < outputs ? count_output(args, &q, p) : 0;
        if (spc_lane() == 0) {
            args->first[p] = count;
            args->order[p] = p < outputs ? q.row : -1;
        }
    }
    spc_sync_block(); /* all positions are counted */
    if (spc_warp() == 0)
        sum_block(args, begin, end);
}

/* The sum over the block's threads; all threads receive it. */
SPC_DEVICE long long sum_of_threads(spc_u8 *shared, long long own)
{
    long long *sums = (long long *)shared, all = 0;
    int warp = spc_warp();

    for (int by = 1; by < 32; by *= 2)
        /* Sums of all blocks can exceed 32 bits. A shuffle moves 32 bits, so it
         * takes two. */
        own += (long long)((spc_u64)(spc_u32)spc_shfl_xor((int)own, by) |
                           (spc_u64)(spc_u32)spc_shfl_xor((int)(own >> 32), by) << 32);
    spc_sync_block(); /* earlier contents have been read */
    if (spc_lane() == 0)
        sums[warp] = own;
    spc_sync_block();
    for (int w = 0; w < SPC_POINTS_WARPS; w++)
        all += sums[w];
    spc_sync_block(); /* the caller may reuse the memory */
    return all;
}

/* The position of the block's first triplet. If there are too many triplets in total,
 * none are stored. */
SPC_DEVICE int begin_of_block(const spc_radius_args *args, int *held, int *fits)
{
    long long before = 0, all = 0;

    for (int i = spc_thread(); i < args->blocks; i += SPC_POINTS_THREADS) {
        before += i < spc_block_x() ? args->sums[i] : 0;
        all += args->sums[i];
    }
    before = sum_of_threads(spc_shared(), before);
    all = sum_of_threads(spc_shared(), all);
    *fits = all <= args->capacity;
    *held = *fits ? (int)all : 0;
    if (first_thread() == 0) {
        args->total[0] = all < SPC_INDEX_NO_ROW ? (int)all : SPC_INDEX_NO_ROW;
        args->total[1] = *held;
        args->first[args->rows_padded] = *held;
    }
    return (int)before;
}

/* ---- writing ----------------------------------------------------------- */

/* A warp's shared memory in addition to the points. */
typedef struct writing {
    int *offsets; /* [offsets] position of the next triplet of each */
    spc_u8 *kept; /* [SPC_POINTS_KEPT] the output's triplets, in order of visits */
} writing;

SPC_DEVICE writing writing_of(const spc_radius_args *args)
{
    int all = args->kernel[0] * args->kernel[1] * args->kernel[2], warp = spc_warp();
    spc_u8 *at = spc_shared() + SPC_POINTS_WARPS * SPC_POINTS_STAGED * 16;
    writing w;

    w.kept = at + warp * (SPC_POINTS_KEPT * 8);
    w.offsets = (int *)(at + SPC_POINTS_WARPS * SPC_POINTS_KEPT * 8) + warp * all;
    return w;
}

/* Replaces the counts by start positions. */
SPC_DEVICE void begin_offsets(int *offsets, int all)
{
    int sum = 0;

    for (int at = 0; at < all; at += 32) {
        int k = at + spc_lane(), own = k < all ? offsets[k] : 0, upto = own;
        for (int by = 1; by < 32; by *= 2) {
            int below = spc_shfl_up(upto, by);
            if (spc_lane() >= by)
                upto += below;
        }
        if (k < all)
            offsets[k] = sum + upto - own;
        sum += spc_shfl(upto, 31);
    }
    spc_sync_warp();
}

/* Counts the output's triplets of each offset, and stores as many triplets as there is
 * space for. Returns their number. */
SPC_DEVICE int collect(const spc_radius_args *args, const query *from, const writing *w)
{
    int all = args->kernel[0] * args->kernel[1] * args->kernel[2], count = 0;
    query of = *from, *q = &of;

    for (int k = spc_lane(); k < all; k += 32)
        w->offsets[k] = 0;
    spc_sync_warp();
% write_visit(function()
            int kept = counts(q, &c);
            spc_u32 lanes = spc_ballot(kept);
            int at_kept = count + spc_popc(lanes & lanes_below());
            spc_b8 entry;
            entry.x = (spc_u32)c.row;
            entry.y = (spc_u32)c.k;
            if (kept)
                spc_atomic_add(w->offsets + c.k, 1);
            if (kept && at_kept < SPC_POINTS_KEPT)
                spc_shared_store8(w->kept + at_kept * 8, entry);
            count += spc_popc(lanes);
% end)
    spc_sync_warp();
    begin_offsets(w->offsets, all);
    return count;
}

/* The position of each lane's triplet of offset k, in the order of lanes. */
SPC_DEVICE int take_place(int *offsets, int some, spc_u32 k)
{
    spc_u32 peers = spc_match(some ? k : 0xffffffffu);
    int place = some ? offsets[k] + spc_popc(peers & lanes_below()) : 0;

    spc_sync_warp();
    if (some && (peers & lanes_below()) == 0)
        /* The lowest lane of each offset adds for all, after every lane has
         * read the old value. */
        offsets[k] += spc_popc(peers);
    spc_sync_warp();
    return place;
}

SPC_DEVICE void place_entries(int *to, int *offsets, int some, spc_b8 entry)
{
    int place = take_place(offsets, some, entry.y);

    if (some)
        spc_store8(to + 2ll * place, entry);
}

SPC_DEVICE void place_again(const spc_radius_args *args, query *q, const writing *w, int *to)
{
% write_visit(function()
            int kept = counts(q, &c);
            spc_b8 entry;
            entry.x = (spc_u32)c.row;
            entry.y = (spc_u32)c.k;
            place_entries(to, w->offsets, kept, entry);
% end)
}

SPC_DEVICE void write_output(const spc_radius_args *args, query *q, int first, int position,
                             const writing *w)
{
    int *to = args->list + 2ll * first;

    ask(args, q, position);
    if (args->nearest > 0)
        keep_nearest(args, q);
    int count = collect(args, q, w);
    /* The triplets do not fit shared memory: they are searched once more. */
    if (count > SPC_POINTS_KEPT) {
        place_again(args, q, w, to);
        return;
    }
    for (int at = 0; at < count; at += 32) {
        int i = at + spc_lane();
        spc_b8 entry = {0, 0};
        if (i < count)
            entry = spc_shared_load8(w->kept + i * 8);
        place_entries(to, w->offsets, i < count, entry);
    }
}

SPC_KERNEL(spc_radius_write, spc_radius_args, SPC_POINTS_THREADS, $(resident))
{
    writing w = writing_of(args);
    int begin = block_begin(args, spc_block_x());
    int end = block_begin(args, spc_block_x() + 1);
    int outputs = args->out.begin[*args->out.cells], held, fits;
    int sum = begin_of_block(args, &held, &fits);
    int last = warp_begin_of(begin, end, spc_warp() + 1);
    int p = warp_begin_of(begin, end, spc_warp());
    query q;

    /* Loads all at once, because the loop below has few registers to spare. */
    for (int i = p + spc_lane(); i < last; i += 32)
        args->first[i] = fits ? args->first[i] + sum : 0;
    spc_sync_warp();
    int most = !fits ? p : outputs < last ? outputs : last;

    begin_asking(args, &q, p);
    for (; p < most; p++)
        write_output(args, &q, args->first[p], p, &w);
}

#include "points_limits.cuh"
#include "points_offsets.cuh"
#include "points_bundles.cuh"
