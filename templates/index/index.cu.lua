%-- Coordinate sets and kernel maps on the device, in one cooperative launch: pack,
%-- sort, merge; search; then, where they are wanted, a sorted row order and a tile
%-- table. A second kernel lists the pairs of a map by offset.
%--
%-- Every stage ends where the blocks need each other's results, at a barrier of
%-- the grid (about a microsecond). Which stages a launch has is said by its
%-- arguments, and so is how keys are laid out and how many rows there are: a count
%-- on the device. What is specialised is the width of keys and the geometry.
%
%-- Kinds of maps: how the input that an output row sees at an offset is found.
%--   subm     outputs are inputs: the row's own key and a difference of keys
%--   strided  the key of output * stride, and the difference
%--   inverse  (output - displacement) / stride, where that divides
%--   subm_inverse  the same within one set
%--   given, transposed  strided and inverse between sets that need not overlap
%--
%-- Searchers: all find the same; which one is fastest is measured.
%--
%-- With problem.layout the code is another: of one kernel, spc_layout, for the sorted row
%-- orders that spc_index does not make.
%
%function is_inverse(problem)
%  return problem.kind == "inverse" or problem.kind == "subm_inverse" or
%         problem.kind == "transposed"
%end
%
%-- 1024 threads have 64 registers each. They do not suffice where code for a GPU takes
%-- more of them, nor, with the barrier's two words in them, where a search of long runs
%-- has its next keys on their way, the last words of a mask, or a table's rows.
%function sparing(problem, config, target)
%  local offsets = problem.kx * problem.ky * problem.kz
%  if target.sm < 90 or target.sm >= 120 then return 1 end
%  return target.sm == 90 and problem.run >= 3
%         and (problem.key == 32 or offsets > 32 or config.search == "hash") and 2 or 0
%end
%
%template = {
%  summary = "coordinate sets and kernel maps: sort, search, row order, tiles, pairs",
%  role = "map",
%  device = "cuda",
%  params = {
%    {"search", {"zdelta", "binary", "hash"}, "how inputs are found among the keys"},
%  },
%  accepts = function(problem, target)
%    if problem.op ~= "index" then return false, "does voxel indexing" end
%    return true
%  end,
%  constraints = {
%    {"a z-delta search needs neighbours of outputs to be neighbours of inputs",
%     function(problem, config, target)
%       return config.search ~= "zdelta" or not is_inverse(problem)
%     end},
%  },
%  derive = function(problem, config, target)
%    local k = {problem.kx, problem.ky, problem.kz}
%    return {
%      k = k, d = {problem.dx, problem.dy, problem.dz},
%      s = {problem.sx, problem.sy, problem.sz},
%      o = {problem.ox, problem.oy, problem.oz},
%      offsets = k[1] * k[2] * k[3],
%      subm = problem.kind == "subm" or problem.kind == "subm_inverse",
%      inverse = is_inverse(problem),
%      list = problem.list == 1,
%      planes = problem.list ~= 1 and not is_inverse(problem),
%    }
%  end,
%  launch = function(problem, config, target) return {} end,
%  default = function(problem, target)
%    return {search = is_inverse(problem) and "binary" or "zdelta"}
%  end,
%}
#define SORT_THREADS $(problem.threads)
#define SORT_BITS $(problem.digit)
#define SPARING $(sparing(problem, config, target))
#include "spc_device.cuh"
#include "index_sort.cuh"

/* Keys of the set that is searched, and of the rows: one type where they are one
 * set. */
typedef $(problem.key == 64 and "spc_u64" or "spc_u32") map_key;
typedef $(problem.row_key == 64 and "spc_u64" or "spc_u32") row_key;

#define PAIRED $(problem.key == 32 and 1 or 0) /* a key and a row fit a word */
#define OFFSETS $(offsets)
#define WORDS $((offsets + 31) // 32)
#define FOURS_APART (SPARING == 1)
#define FOURS $(offsets > 32 and not inverse and 1 or 0) /* masks by fours, too */

/* The kernel: columns in the (x, y) plane, each of DEPTH offsets along z, in
 * runs of RUN; a thread takes BATCH runs at once, of one plane of equal x where
 * planes are searched (index_runs.cuh). */
#define COLUMNS $(k[1] * k[2])
#define KERNEL_Y $(k[2])
#define DEPTH $(k[3])
#define RUN $(problem.run)
#define RUNS_PER_COLUMN $((k[3] + problem.run - 1) // problem.run)
#define RUNS (COLUMNS * RUNS_PER_COLUMN)
#define BATCH $(problem.batch)
#define PLANE $(planes and "(KERNEL_Y * RUNS_PER_COLUMN)" or "RUNS")
#define PLANE_BATCHES ((PLANE + BATCH - 1) / BATCH)
#define BATCHES (RUNS / PLANE * PLANE_BATCHES)

/* What the input of an output is, by axis (include/spc.h, spc_geometry). */
#define SUBM $(subm and 1 or 0)
#define INVERSE $(inverse and 1 or 0)
#define LIST $(list and 1 or 0)
#define TURNS $(problem.kind == "strided" and 1 or 0) /* index_turned.cuh */
% if problem.layout then
#define LAYOUT 1 /* of a map that is there, in any order */
% end
% for i, axis in ipairs {"X", "Y", "Z"} do
#define STRIDE_$(axis) $(s[i])
#define DILATION_$(axis) $(d[i])
#define ORIGIN_$(axis) ($(o[i]))
% end
% if problem.kind == "given" or problem.kind == "transposed" then
#define BOUNDED 1 /* the two sets need not lie side by side */
% end
% if problem.kind == "given" then
%   local low = {problem.lx, problem.ly, problem.lz}
%   local high = {problem.hx, problem.hy, problem.hz}
%   for i, axis in ipairs {"X", "Y", "Z"} do
#define LOW_$(axis) ($(low[i]))
#define HIGH_$(axis) ($(high[i]))
%   end
% end

/* Keys that a block may meet when it ranks a chunk: the chunk, and the rest of
 * its first and last bin. */
#define RANK_KEYS SPC_INDEX_RANK_KEYS

/* Costs of a tile, in whole 16 bytes. */
#define TILE_COSTS ((OFFSETS + 4) / 4 * 4)

#define CODES (16 * 8 * WORDS)
/* Keys that a warp searches: most often the first half of them. */
#define WINDOW (1024 / (int)sizeof(map_key))

/* How far a launch goes: voxels of the set, the same rounded up to whole tiles
 * of any size, and voxels of the set that is searched. */
typedef struct index_extent {
    int rows;
    int padded;
    int rows_in;
} index_extent;

/* The shared memory of a block: where each share of the bins begins, then the
 * space that the stages use in turn. */
typedef struct index_shared {
    int share[SPC_INDEX_SHARES + 4];
    union {
        sort_shared sort;
        struct {
            int sums[40];
            int of[SPC_INDEX_GROUPS]; /* keys; then where each begins */
        } groups;
        map_key keys[RANK_KEYS]; /* in sorted runs of 32 */
        struct {
            int digits[SORT_DIGITS]; /* of the rows' digests */
            spc_u32 code[CODES];     /* index_digest.cuh */
            map_key run[BATCHES * BATCH]; /* of each: its key less the row's */
            map_key window[SORT_WARPS * WINDOW]; /* index_zdelta.cuh */
        } search;
        struct {
            int from[SPC_INDEX_CHUNK]; /* position in coordinate order */
            int to[SPC_INDEX_CHUNK];
            unsigned mask[SPC_INDEX_CHUNK * WORDS];
        } copy;
    } u;
} index_shared;

/* What the runtime asks for must hold it. */
typedef char index_shared_fits[sizeof(index_shared) <=
                                       SPC_INDEX_SHARED(SORT_THREADS, OFFSETS,
                                                        sizeof(map_key), 0)
                                   ? 1
                                   : -1];

/* Behind it: the counts for a next pass. */
SPC_DEVICE sort_counts next_counts(index_shared *s)
{
    return sort_counts_at(s + 1);
}

SPC_DEVICE int at_most(int value, int limit)
{
    return value < limit ? value : limit;
}

#include "index_keys.cuh"
#include "index_digest.cuh"
#include "index_runs.cuh"

/* ---- extents ---------------------------------------------------------- */

SPC_DEVICE index_extent extent_of(const spc_index_args *args, int rows)
{
    index_extent e;

    e.rows = rows;
    e.padded = (rows + SPC_ROW_PAD - 1) / SPC_ROW_PAD * SPC_ROW_PAD;
    if (e.padded == 0)
        e.padded = SPC_ROW_PAD;
    e.rows_in = SUBM ? rows : *args->in.count;
    return e;
}

/* Rows of the launch: of a set that is built, those asked for, none if they are
 * too many. */
SPC_DEVICE int rows_asked(const spc_index_args *args)
{
    int rows = args->source ? *args->source : args->source_rows;

    return rows >= 0 && rows <= args->set.rows ? rows : 0;
}

% if problem.layout then
#include "index_way.cuh"
#include "index_order.cuh"
% else
#include "index_merge.cuh"
#include "index_$(config.search).cuh"
#include "index_search.cuh"
#include "index_order.cuh"
#include "index_pairs.cuh"
% end

/* ---- the kernel ------------------------------------------------------- */

/* A block's positions, in whole warps. */
typedef struct index_range {
    int begin, end; /* with a row */
    int padded_end;
    int per_block;
} index_range;

SPC_DEVICE index_range range_of(const index_extent *e)
{
    index_range r;

    r.per_block = share_of_block(e->padded, 32);
    r.begin = at_most(spc_block_x() * r.per_block, e->padded);
    r.padded_end = at_most(r.begin + r.per_block, e->padded);
    r.end = at_most(r.padded_end, e->rows);
    SORT_FORGET(r.per_block);
    SORT_FORGET(r.begin);
    SORT_FORGET(r.padded_end);
    SORT_FORGET(r.end);
    return r;
}

% if problem.layout then
SPC_KERNEL(spc_layout, spc_index_args, $(problem.threads), 1)
{
    spc_fetch_args(args, (int)sizeof(*args));
    index_shared *s = (index_shared *)spc_shared();
    int unit = args->unit;
    index_extent e = extent_of(args, *args->set.count);
    index_range r = range_of(&e);
    grid_barrier barrier;

    grid_open(&barrier, args->sync);
    open_tiles(args);
    if (args->stages & SPC_INDEX_SORT) {
        way_digest_rows(args, s, r.begin, r.end);
        order_rows(args, s, &e, &barrier, r.begin, r.end, r.per_block, unit);
    } else {
        tile_rows(args, s, &e, &barrier, unit);
    }
    if (!(args->stages & SPC_INDEX_TILE))
        sort_clear(args->tables, 3);
    grid_close(&barrier);
}
% else
/* Sorts the set's voxels; returns how many there are. What the search needs
 * besides is ready too. */
SPC_DEVICE int build(const spc_index_args *args, index_shared *s,
                     grid_barrier *barrier, int asked)
{
    index_extent e = extent_of(args, asked);
    index_range r = range_of(&e);
    packed_row first;
    bad_rows bad;
    int crowded, rows;

    pack(args, s, r.begin, r.end, &bad);
    grid_arrive(barrier);
    first = packed_at(args, r.begin + spc_thread(), r.end);
    grid_wait(barrier);

    report_rows(args, &bad);
    crowded = report_crowd(args);
    if (is_grouped(&args->set)) {
        rank_in_group(args, &first);
        sum_groups(args, s, e.rows);
    } else {
        sum_bins(args, s);
        grid_sync(barrier);
        sum_shares(&args->set, s, e.rows);
    }
    if (!crowded)
        scatter_to_bins(args, s, first, r.begin, r.end);
    if (is_grouped(&args->set))
        begin_bins(args, s);
    spc_sync_block();
    if (crowded)
        radix_sort(args, s, barrier, r.begin, r.end, r.per_block);
    grid_sync(barrier);

    clear_bins(args);
    if (crowded) {
        sort_clear(args->tables, 3);
        note_duplicates(args, r.begin, r.end);
    } else {
        rank_in_bins(args, s, r.begin, r.end);
    }
    grid_arrive(barrier);
    open_search(args, s);
    grid_wait(barrier);

    rows = e.rows - args->stats[SPC_INDEX_BAD_ROWS];
    if (args->stats[SPC_INDEX_DUPLICATES])
        rows = merge_rows(args, s, barrier, rows);
    close_set(args, rows);
    return rows;
}

SPC_KERNEL(spc_index, spc_index_args, $(problem.threads), 1)
{
    spc_fetch_args(args, (int)sizeof(*args));
    index_shared *s = (index_shared *)spc_shared();
    int builds = args->stages & SPC_INDEX_BUILD;
    int unit = args->unit;
    int rows = builds ? rows_asked(args) : *args->set.count; /* on its way */
    grid_barrier barrier;

    grid_open(&barrier, args->sync);
    open_tiles(args);
    if (args->stages & SPC_INDEX_SEARCH)
        open_searcher(args);
    if (builds) {
        clear_stats(args);
        rows = build(args, s, &barrier, rows);
    }
    index_extent e = extent_of(args, rows);
    index_range r = range_of(&e);
    if (builds)
        finish_set(args, &e, r.begin, r.padded_end);
    if (args->stages & SPC_INDEX_SEARCH) {
#if TURNS
        if (args->turned.first) {
            clear_turned(args, &e);
            grid_arrive(&barrier);
        }
#endif
        if (!builds) {
            sum_shares(&args->in, s, e.rows_in);
            open_search(args, s);
        }
#if TURNS
        if (args->turned.first)
            grid_wait(&barrier);
#endif
        ready_searcher(args, &e, &barrier);
        if (args->stages & SPC_INDEX_PLAIN)
            search(args, s, &e, r.begin, r.padded_end, 1);
        else
            search(args, s, &e, r.begin, r.padded_end, 0);
    } else {
        if (args->stages & SPC_INDEX_SORT)
            digest_rows(args, s, r.begin, r.end);
        if (args->stages & SPC_INDEX_PLAIN)
            write_plain(args, r.begin, r.padded_end);
    }
#if SPARING
    SORT_FORGET(rows); /* nothing else of this lives through the search */
    e = extent_of(args, rows);
    r = range_of(&e);
#endif
    if (args->stages & SPC_INDEX_SORT)
        order_rows(args, s, &e, &barrier, r.begin, r.end, r.per_block, unit);
    else if (args->stages & SPC_INDEX_TILE)
        tile_rows(args, s, &e, &barrier, unit);
    if (!(args->stages & SPC_INDEX_TILE) &&
        (args->stages & (SPC_INDEX_BUILD | SPC_INDEX_SORT)))
        sort_clear(args->tables, 3);
    grid_close(&barrier);
}
% end
