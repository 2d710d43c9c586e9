%-- Pooling over a kernel map, and its way back.
%--
%-- A thread has some neighbouring channels of one output voxel. It takes the offsets
%-- eight at a time: first their input rows, which all threads of the voxel share, then
%-- the loads that these allow, all at once. Every input is read once an output that sees
%-- it, which caches serve, every output is written once.
%
%include "feature.lua"
%
%local ops = {"pool", "unpool"}
%
%template = {
%  summary = "pools features over a map, and un-pools them",
%  role = "feature",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    return {
%      wide = natural_elements(problem, problem.channels),
%      stored = problem.index == 1,
%      back = problem.op == "unpool",
%      best = problem.op == "pool" and problem.reduce == "max",
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
    BATCH = $(math.min(problem.offsets, 8)) /* offsets at a time */
};

% write_accesses(problem, {1, wide})
%
%-- What one offset adds to the channels of a voxel: `from` is the input row.
%local function write_take(n)
% if best then
            SPC_UNROLL
            for (int e = 0; e < $(n); e++) {
                int better = present == 0 || x[j][e] > sum[e];
                sum[e] = better ? x[j][e] : sum[e];
%   if stored then
                row_of[e] = better ? from[j] : row_of[e];
%   end
            }
            present++;
% elseif back and not stored then
            if (present++ == 0)
                SPC_UNROLL
                for (int e = 0; e < $(n); e++)
                    sum[e] = x[j][e];
% elseif back then
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                if (was[j][e] == row)
                    sum[e] += x[j][e];
% else
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                sum[e] += x[j][e];
            present++;
% end
%end
%
%local function write_kernel(name, n)
/* $(n) channels from `at` of the voxel at position p. */
SPC_DEVICE void pool$(n)(const spc_feature_args *args, int p, int at)
{
    int row = args->order[p];
    float sum[$(n)];
% if not (back and stored) then
    int present = 0;
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
    for (int k = 0; k < OFFSETS; k += BATCH) {
        int from[BATCH];
        float x[BATCH][$(n)];
% if back and stored then
        int was[BATCH][$(n)];
% end

        SPC_UNROLL
        for (int j = 0; j < BATCH; j++)
            from[j] = k + j < OFFSETS
                          ? spc_load_int(args->map +
                                         (long long)(k + j) * args->rows_padded +
                                         p)
                          : -1;
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            if (from[j] < 0)
                continue;
            load$(n)(x[j], args->in, from[j] * args->in_pitch + at);
% if back and stored then
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                was[j][e] = spc_load_int(args->index +
                                         (long long)from[j] * CHANNELS + at + e);
% end
        }
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            if (from[j] < 0)
                continue;
% write_take(n)
        }
    }
% if problem.reduce == "mean" then
    if (present > 0)
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            sum[e] = sum[e] / (float)present;
% end
    store$(n)(args->out, row * args->out_pitch + at, sum);
% if stored and not back then
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        args->index[(long long)row * CHANNELS + at + e] = row_of[e];
% end
}

SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    long long items = (long long)*args->count * (CHANNELS / $(n));
    long long step = (long long)spc_grid_x() * SPC_FEATURE_THREADS;
    long long i = (long long)spc_block_x() * SPC_FEATURE_THREADS + spc_thread();

    for (; i < items; i += step) {
        int p = (int)(i / (CHANNELS / $(n)));
        pool$(n)(args, p, (int)(i % (CHANNELS / $(n))) * $(n));
    }
}

%end
% write_kernel("spc_pool", wide)
% if needs_single(problem, problem.channels, problem.channels) then
%   write_kernel("spc_pool_1", 1)
% end
