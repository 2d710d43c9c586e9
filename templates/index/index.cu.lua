%-- Coordinate sets and kernel maps on the device, in one cooperative launch: pack,
%-- sort, merge; search; then, if requested, a sorted row order and a tile table. A
%-- second kernel lists the pairs of a map by offset.
%--
%-- Every stage ends at a barrier of the grid (about a microsecond), because blocks
%-- need each other's results. The arguments of a launch select its stages, the layout
%-- of keys and the number of rows, which is a count on the device. The width of keys
%-- and the geometry are specialised.
%
%-- Kinds of maps, that is, how to find the input that an output row sees at an offset:
%--   subm     outputs are inputs: the row's own key and a difference of keys
%--   strided  the key of output * stride, and the difference
%--   inverse  (output - displacement) / stride, if it divides evenly
%--   subm_inverse  the same within one set
%--   given, transposed  strided and inverse between sets that need not overlap
%--
%-- Searchers: all find the same result; measurement decides which is fastest. With
%-- `_half` they search half of a symmetric kernel (index_half.cuh).
%--
%-- With problem.layout the module has one kernel, spc_layout, for the sorted row orders
%-- that spc_index does not make.
%
%function is_inverse(problem)
%  return problem.kind == "inverse" or problem.kind == "subm_inverse" or
%         problem.kind == "transposed"
%end
%
%function is_half(config)
%  return config.search:sub(-5) == "_half"
%end
%
%-- The search without "_half".
%function searcher_of(config)
%  return is_half(config) and config.search:sub(1, -6) or config.search
%end
%
%-- True if every run has a mirror image: runs of one offset or of a whole column.
%function is_symmetric(problem)
%  local axes = {"x", "y", "z"}
%  for _, axis in ipairs(axes) do
%    local k = problem["k" .. axis]
%    if k % 2 == 0 or problem["o" .. axis] ~= -(k // 2) * problem["d" .. axis] then
%      return false
%    end
%  end
%  -- Eight offsets are the longest run. A single column needs no search at all.
%  return problem.kind == "subm" and problem.list ~= 1 and problem.kz < 8
%         and problem.kx * problem.ky > 1
%end
%
%-- Blocks of 1024 threads have 64 registers per thread. This is too few for code that
%-- spills on a GPU. It is also too few for searches that, in addition to the barrier's
%-- two words, keep the next keys of long runs, the last words of a mask, or the rows of
%-- a table in registers.
%function sparing(problem, config, target)
%  local offsets = problem.kx * problem.ky * problem.kz
%  if target.sm < 90 or target.sm >= 120 then return 1 end
%  return target.sm == 90 and problem.run >= 3
%         and (problem.key == 32 or offsets > 32 or config.search == "hash" or is_half(config))
%         and 2 or 0
%end
%
%template = {
%  summary = "coordinate sets and kernel maps: sort, search, row order, tiles, pairs",
%  role = "map",
%  device = "cuda",
%  params = {
%    {"search", {"zdelta", "binary", "hash", "zdelta_half", "binary_half", "hash_half"},
%     "how inputs are found among the keys"},
%  },
%  accepts = function(problem, target)
%    if problem.op ~= "index" then return false, "does voxel indexing" end
%    return true
%  end,
%  constraints = {
%    {"a z-delta search needs neighbours of outputs to be neighbours of inputs",
%     function(problem, config, target)
%       return searcher_of(config) ~= "zdelta" or not is_inverse(problem)
%     end},
%    {"half a search needs a submanifold kernel of odd sizes, up to 7 along z",
%     function(problem, config, target)
%       return not is_half(config) or is_symmetric(problem)
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
%      searcher = searcher_of(config), half = is_half(config),
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

/*
 * Keys of the searched set and of the rows; the same type if both are one set.
 */
typedef $(problem.key == 64 and "spc_u64" or "spc_u32") map_key;
typedef $(problem.row_key == 64 and "spc_u64" or "spc_u32") row_key;

#define PAIRED $(problem.key == 32 and 1 or 0) /* a key and a row fit in one word */
#define OFFSETS $(offsets)
#define WORDS $((offsets + 31) // 32)
#define HALF $(half and 1 or 0) /* index_half.cuh */
#define FOURS_APART (SPARING == 1 || HALF)
#define FOURS $(offsets > 32 and not inverse and 1 or 0) /* masks by fours as well */

/*
 * The kernel: columns in the (x, y) plane, each with DEPTH offsets along z, in
 * runs of RUN. A thread takes BATCH runs at once. If planes are searched, these
 * belong to one plane of equal x (index_runs.cuh).
 */
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
% if half then
/* Runs are counted by batches here. Those before MIDDLE are searched. */
#define MIDDLE                                                                 \
    (RUNS / 2 / PLANE * PLANE_BATCHES * BATCH + RUNS / 2 % PLANE)
#define SEARCHED ((MIDDLE + BATCH - 1) / BATCH) /* batches with such runs */
% else
#define SEARCHED BATCHES
% end

/* How the input of an output follows on each axis (include/spc/layer.h,
 * spc_geometry). */
#define SUBM $(subm and 1 or 0)
#define INVERSE $(inverse and 1 or 0)
#define LIST $(list and 1 or 0)
#define TURNS $(problem.kind == "strided" and 1 or 0) /* index_turned.cuh */
% if problem.layout then
#define LAYOUT 1 /* layout of an existing map, in any order */
% end
% for i, axis in ipairs {"X", "Y", "Z"} do
#define STRIDE_$(axis) $(s[i])
#define DILATION_$(axis) $(d[i])
#define ORIGIN_$(axis) ($(o[i]))
% end
% if problem.kind == "given" or problem.kind == "transposed" then
#define BOUNDED 1 /* the two sets need not overlap */
% end
% if problem.kind == "given" then
%   local low = {problem.lx, problem.ly, problem.lz}
%   local high = {problem.hx, problem.hy, problem.hz}
%   for i, axis in ipairs {"X", "Y", "Z"} do
#define LOW_$(axis) ($(low[i]))
#define HIGH_$(axis) ($(high[i]))
%   end
% end

/* The most keys that a block reads when it ranks a chunk: the chunk, and the
 * rest of its first and last bin. */
#define RANK_KEYS SPC_INDEX_RANK_KEYS

/* Costs of a tile, padded to a multiple of 16 bytes. */
#define TILE_COSTS ((OFFSETS + 4) / 4 * 4)

#define CODES (16 * 8 * WORDS)
/* Keys that a warp searches; usually only the first half is used. */
#define WINDOW (1024 / (int)sizeof(map_key))

/* The sizes of a launch: voxels of the set, the same rounded up to whole tiles
 * of any size, and voxels of the searched set. */
typedef struct index_extent {
    int rows;
    int padded;
    int rows_in;
} index_extent;

/* The shared memory of a block: the start of each share of the bins, then a
 * space that the stages reuse. */
typedef struct index_shared {
    int share[SPC_INDEX_SHARES + 4];
    union {
        sort_shared sort;
        struct {
            int sums[40];
            int of[SPC_INDEX_GROUPS]; /* number of keys, then start of each */
        } groups;
        map_key keys[RANK_KEYS]; /* in sorted runs of 32 */
        struct {
            int digits[SORT_DIGITS]; /* of the rows' digests */
            spc_u32 code[CODES];     /* index_digest.cuh */
            map_key run[BATCHES * BATCH]; /* for each: its key minus the row's key */
            map_key window[SORT_WARPS * WINDOW]; /* index_zdelta.cuh */
        } search;
        struct {
            int from[SPC_INDEX_CHUNK]; /* position in coordinate order */
            int to[SPC_INDEX_CHUNK];
            unsigned mask[SPC_INDEX_CHUNK * WORDS];
        } copy;
    } u;
} index_shared;

/* The runtime requests this many bytes, so the struct must fit. */
typedef char index_shared_fits[sizeof(index_shared) <=
                                       SPC_INDEX_SHARED(SORT_THREADS, OFFSETS,
                                                        sizeof(map_key), 0)
                                   ? 1
                                   : -1];

/* After it: the counts for the next pass. */
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

/* Rows of the launch. For a set that is built these are the requested rows, or
 * none if they are too many. */
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
#include "index_$(searcher).cuh"
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
/* Sorts the set's voxels and returns their number. Also completes everything
 * else that the search needs. */
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
    /* A thread's own first key needs no other block, so it is loaded between
     * the halves of the barrier. */
    first = packed_at(args, r.begin + spc_thread(), r.end);
    grid_wait(barrier); /* all keys are packed and counted */

    report_rows(args, &bad);
    crowded = report_crowd(args);
    if (is_grouped(&args->set)) {
        rank_in_group(args, &first);
        sum_groups(args, s, e.rows);
    } else {
        sum_bins(args, s);
        grid_sync(barrier); /* all shares are summed */
        sum_shares(&args->set, s, e.rows);
    }
    /* With a crowded bin the radix sort below is faster. Its time does not
     * depend on how keys are distributed. */
    if (!crowded)
        scatter_to_bins(args, s, first, r.begin, r.end);
    if (is_grouped(&args->set))
        begin_bins(args, s);
    spc_sync_block();
    if (crowded)
        radix_sort(args, s, barrier, r.begin, r.end, r.per_block);
    grid_sync(barrier); /* all keys are in their bins, or sorted */

    clear_bins(args);
    if (crowded) {
        sort_clear(args->tables, 3);
        note_duplicates(args, r.begin, r.end);
    } else {
        rank_in_bins(args, s, r.begin, r.end);
    }
    grid_arrive(barrier);
    /* Needs no sorted keys, and hides the wait. */
    open_search(args, s);
    grid_wait(barrier); /* all keys are sorted */

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
    int rows = builds ? rows_asked(args) : *args->set.count; /* loaded early */
    grid_barrier barrier;

    grid_open(&barrier, args->sync);
    open_tiles(args);
    if (args->stages & SPC_INDEX_SEARCH) {
        open_searcher(args);
%   if half then
        clear_masks(args);
%   end
    }
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
%   if half and searcher ~= "hash" then
            grid_arrive(&barrier);
%   end
            sum_shares(&args->in, s, e.rows_in);
            open_search(args, s);
%   if half and searcher ~= "hash" then
            grid_wait(&barrier); /* all masks are clear */
%   end
        }
#if TURNS
        if (args->turned.first)
            grid_wait(&barrier);
#endif
        ready_searcher(args, &e, &barrier);
%   if half then
        search_half(args, s, &e, &barrier, r.begin, r.padded_end);
        if (args->stages & SPC_INDEX_PLAIN)
            write_plain(args, r.begin, r.padded_end);
%   else
        if (args->stages & SPC_INDEX_PLAIN)
            search(args, s, &e, r.begin, r.padded_end, 1);
        else
            search(args, s, &e, r.begin, r.padded_end, 0);
%   end
    } else {
        if (args->stages & SPC_INDEX_SORT)
            digest_rows(args, s, r.begin, r.end);
        if (args->stages & SPC_INDEX_PLAIN)
            write_plain(args, r.begin, r.padded_end);
    }
#if SPARING
    SORT_FORGET(rows); /* no other value of this stage is needed after the search */
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
