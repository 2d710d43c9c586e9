%-- Pooling over a kernel map, un-pooling, and the gradients of both.
%--
%-- A thread has several neighbouring channels of one output voxel. It takes several
%-- offsets at a time. It first reads their input rows, which all threads of the voxel
%-- share, and then issues all loads for these rows at once. The loaded values keep their
%-- type in memory until they are used. An input is read once for every output that sees
%-- it, mostly from caches. An output is written once.
%--
%-- A gradient walks the map in the other direction and adds dy of all outputs that saw
%-- an input. spc_count first finds what this needs: the number of inputs of each mean,
%-- or the first offset of each un-pooled row, which is the one that was used. It counts
%-- in integers, so the order of arrival does not matter.
%
%include "feature.lua"
%
%local ops = {"pool", "unpool", "pool,dgrad", "unpool,dgrad"}
%
%template = {
%  summary = "pools features over a map, and un-pools them",
%  role = "feature",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    -- stored: the forward pass writes, or reads, which input gave each
%    -- element. shares: the gradient of a mean divides dy among its inputs.
%    -- fetches: the gradient of un-pooling takes dy only from rows that took
%    -- this input.
%    return {
%      wide = natural_elements(problem, problem.channels),
%      stored = problem.index == 1 and not problem.pass,
%      back = problem.op == "unpool" and not problem.pass,
%      best = problem.op == "pool" and problem.reduce == "max",
%      mean = problem.reduce == "mean" and not problem.pass,
%      shares = problem.reduce == "mean" and problem.pass ~= nil,
%      fetches = problem.op == "unpool" and problem.pass ~= nil,
%      picked = problem.index == 1,
%    }
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"
#include "feature_abi.h"

enum {
    CHANNELS = $(problem.channels),
    OFFSETS = $(problem.offsets),
    /*
     * Number of offsets processed together. Stored indices take twice the space
     * of their values.
     */
    BATCH = $(math.min(problem.offsets, back and stored and 4 or 8))
};

% write_accesses(problem, {1, wide})
%
%-- Adds the contribution of one offset to the channels of a voxel; `from` is the
%-- input row.
%local function write_take(n)
            unpack$(n)(x, loaded[j]);
% if best then
            SPC_UNROLL
            for (int e = 0; e < $(n); e++) {
                /* The first input always sets the maximum, as all may be below
                 * zero. */
                int better = present == 0 || x[e] > sum[e];
                sum[e] = better ? x[e] : sum[e];
%   if stored then
                row_of[e] = better ? from[j] : row_of[e];
%   end
            }
            present++;
% elseif back and not stored then
            /* Several inputs may reach a row: only the one at the first offset
             * is used. */
            if (present++ == 0)
                SPC_UNROLL
                for (int e = 0; e < $(n); e++)
                    sum[e] = x[e];
% elseif back then
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                if (was[j][e] == row)
                    sum[e] += x[e];
% elseif shares then
            /* At least one: spc_count has counted this voxel as well. */
            float of = (float)args->cells[from[j]];
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                sum[e] += x[e] / of;
% elseif fetches then
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                if ($(picked and "was[e] == from[j]" or "args->cells[from[j]] == k + j"))
                    sum[e] += x[e];
% else
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                sum[e] += x[e];
%   if mean or problem.pass == nil then
            present++;
%   end
% end
%end
%
%-- Writes the stored rows, four at a time if the channels allow it.
%local function write_rows(n)
%  local four = n % 4 == 0 and problem.channels % 4 == 0
% if back or fetches then
SPC_DEVICE void load_rows$(n)(int *v, const int *from)
{
%   if four then
%     for i = 0, n - 1, 4 do
    spc_b16 w$(i) = spc_load16(from + $(i));
    v[$(i)] = (int)w$(i).x;
    v[$(i + 1)] = (int)w$(i).y;
    v[$(i + 2)] = (int)w$(i).z;
    v[$(i + 3)] = (int)w$(i).w;
%     end
%   else
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        v[e] = spc_load_int(from + e);
%   end
}

% else
SPC_DEVICE void store_rows$(n)(int *to, const int *v)
{
%   if four then
%     for i = 0, n - 1, 4 do
    spc_b16 w$(i);
    w$(i).x = (spc_u32)v[$(i)];
    w$(i).y = (spc_u32)v[$(i + 1)];
    w$(i).z = (spc_u32)v[$(i + 2)];
    w$(i).w = (spc_u32)v[$(i + 3)];
    spc_store16(to + $(i), w$(i));
%     end
%   else
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        to[e] = v[e];
%   end
}

% end
%end
%local function write_kernel(name, n)
% if stored or (fetches and picked) then write_rows(n) end
/* Pools $(n) channels, from `at` on, for the voxel at position p. */
SPC_DEVICE void pool$(n)(const spc_feature_args *args, int p, int at)
{
    int row = args->order[p];
    float sum[$(n)];
% if not (back and stored) and not problem.pass then
    int present = 0;
% end
% if fetches and picked then
    int was[$(n)]; /* the input that each element was taken from */
% end
% if stored and not back then
    int row_of[$(n)];
% end

    SPC_UNROLL
    for (int e = 0; e < $(n); e++) {
        sum[e] = 0;
% if stored and not back then
        row_of[e] = -1;
% end
    }
% if fetches and picked then
    load_rows$(n)(was, args->index + (long long)row * CHANNELS + at);
% end
    for (int k = 0; k < OFFSETS; k += BATCH) {
        int from[BATCH];
        $(piece_type(problem, n)) loaded[BATCH];
% if back and stored then
        int was[BATCH][$(n)];
% end

        /* All indices first, so that their loads overlap. */
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++)
            from[j] = k + j < OFFSETS
                          ? spc_load_int(args->map +
                                         (long long)(k + j) * args->rows_padded +
                                         p)
                          : -1;
        /* Then all rows, so that their loads overlap. */
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            if (from[j] < 0)
                continue;
            loaded[j] = $(read_piece(problem, n, "args->in", "from[j] * args->in_pitch + at"));
% if back and stored then
            load_rows$(n)(was[j], args->index + (long long)from[j] * CHANNELS + at);
% end
        }
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            float x[$(n)];

            if (from[j] < 0)
                continue;
% write_take(n)
        }
    }
% if mean then
    if (present > 0)
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            sum[e] = sum[e] / (float)present;
% end
    store$(n)(args->out, row * args->out_pitch + at, sum);
% if stored and not back then
    store_rows$(n)(args->index + (long long)row * CHANNELS + at, row_of);
% end
}

SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    /* In 64 bits: voxels times pieces may be more than 2^31. */
    long long items = (long long)*args->count * (CHANNELS / $(n));
    long long step = (long long)spc_grid_x() * SPC_FEATURE_THREADS;
    long long i = (long long)spc_block_x() * SPC_FEATURE_THREADS + spc_thread();

    for (; i < items; i += step) {
        int p = (int)(i / (CHANNELS / $(n)));
        pool$(n)(args, p, (int)(i % (CHANNELS / $(n))) * $(n));
    }
}

%end
% if shares or (fetches and not picked) then
SPC_KERNEL(spc_count, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int step = spc_grid_x() * SPC_FEATURE_THREADS;

    for (int p = spc_block_x() * SPC_FEATURE_THREADS + spc_thread(); p < *args->count;
         p += step)
        for (int k = 0; k < OFFSETS; k++) {
            int from = spc_load_int(args->map + (long long)k * args->rows_padded + p);
            if (from >= 0)
                $(shares and "spc_atomic_add(args->cells + from, 1)" or "spc_atomic_min(args->cells + from, k)");
        }
}

% end
% write_kernel("spc_pool", wide)
% if needs_single(problem, problem.channels, problem.channels) then
%   write_kernel("spc_pool_1", 1)
% end
