%-- Operators that process each row separately. A thread has several
%-- neighbouring channels of an output row, reads their inputs and writes them
%-- once.
%
%include "feature.lua"
%
%local ops = {
%  "add", "act", "groupsum", "groupmean", "repeat", "actgrad", "affine", "affine,dgrad",
%  "groupmean,dgrad",
%}
%
%-- The gradient of a mean is a repetition.
%local function is_repeat(problem)
%  return problem.op == "repeat" or problem.op == "groupmean" and problem.pass ~= nil
%end
%local function is_gather(problem)
%  return (problem.op == "groupsum" or problem.op == "groupmean") and not problem.pass
%end
%
%-- Outputs of a thread: one piece of 16 bytes, unless these outputs need more than 64
%-- bytes of inputs.
%local function outputs_of_thread(problem, outputs)
%  local n = natural_elements(problem, outputs)
%  local bytes = feature_format(problem).bytes
%  while is_gather(problem) and n > 1 and n * problem.by * bytes > 64 do n = n // 2 end
%  return n
%end
%
%template = {
%  summary = "adds, activates, sums and repeats channels, row by row",
%  role = "feature",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    local outputs = problem.channels
%    if problem.op == "repeat" then outputs = outputs * problem.by end
%    local gathers = is_gather(problem)
%    if gathers then outputs = outputs // problem.by end
%    local n = outputs_of_thread(problem, outputs)
%    local piece = n
%    if gathers then
%      local bytes = feature_format(problem).bytes
%      piece = math.min(natural_elements(problem, problem.channels),
%                       natural(n * problem.by * bytes) // bytes)
%    end
%    return {
%      outputs = outputs, wide = n, piece = piece, gathers = gathers,
%      repeats = is_repeat(problem),
%      inputs = problem.channels // (problem.pass and problem.by or 1),
%      activates = problem.op == "add" or problem.op == "act" or problem.op == "actgrad" or
%                  problem.op == "affine" and not problem.pass,
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
    OUTPUTS = $(outputs),
    BY = $(problem.by or 1)
};

% write_accesses(problem, {1, wide, piece})
% if problem.op == "affine" then
%   write_float_loads(1, wide)
% end
% write_rows_given("SPC_DEVICE")
% if activates then
%   write_slope_activation(problem, "SPC_DEVICE")
% end
%
%-- v = the outputs of a row from `at` on; `piece` is the number of elements of a
%-- load.
%local function write_compute(name, n, piece)
SPC_DEVICE void $(name)(float *v, const spc_feature_args *args, long long row,
                        int at)
{
    long long from = row * args->in_pitch;
% if gathers and n > 1 then
    /* All inputs of the outputs have 64 bytes at most, so they fit in
     * registers and are loaded first, in wide pieces. */
    float x[$(n) * BY];

    SPC_UNROLL
    for (int i = 0; i < $(n) * BY; i += $(piece))
        load$(piece)(x + i, args->in, from + at * BY + i);
    SPC_UNROLL
    for (int e = 0; e < $(n); e++) {
        v[e] = x[e * BY];
        SPC_UNROLL
        for (int q = 1; q < BY; q++)
            v[e] += x[e * BY + q];
    }
% elseif gathers then
    /* Too many inputs for wide loads: one output at a time, and a piece of its
     * inputs at a time. */
    v[0] = 0;
    for (int i = 0; i < BY; i += $(piece)) {
        float x[$(piece)];
        load$(piece)(x, args->in, from + (long long)at * BY + i);
        SPC_UNROLL
        for (int e = 0; e < $(piece); e++)
            v[0] += x[e];
    }
% elseif repeats and problem.by % n == 0 then
    /* All n outputs repeat one input. */
    float x[1];

    load1(x, args->in, from + at / BY);
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        v[e] = x[0];
% elseif repeats then
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        load1(v + e, args->in, from + (at + e) / BY);
% else
    load$(n)(v, args->in, from + at);
%   if problem.op == "add" then
    float other[$(n)];
    load$(n)(other, args->add, row * args->add_pitch + at);
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        v[e] += other[e];
%   end
%   if problem.op == "affine" then
    float scale[$(n)]$(problem.pass and "" or (", shift[%d]"):format(n));

    load_floats$(n)(scale, args->scale + at);
%     if not problem.pass then
    load_floats$(n)(shift, args->shift + at);
%     end
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        v[e] = v[e] * scale[e]$(problem.pass and "" or " + shift[e]");
%   end
%   if activates then
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        v[e] = activate(v[e], args->slope);
%   end
%   if problem.op == "actgrad" then
    float dy[$(n)];
    load$(n)(dy, args->add, row * args->add_pitch + at);
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        v[e] *= dy[e];
%   end
% end
% if problem.op == "groupmean" then
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        v[e] = v[e] / (float)BY;
% end
}

%end
%local function write_kernel(name, compute, n, piece)
% write_compute(compute, n, piece)
SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    long long items = (long long)rows_given(args) * (OUTPUTS / $(n));
    long long step = (long long)spc_grid_x() * SPC_FEATURE_THREADS;
    long long i = (long long)spc_block_x() * SPC_FEATURE_THREADS + spc_thread();

    for (; i < items; i += step) {
        long long row = i / (OUTPUTS / $(n));
        int at = (int)(i % (OUTPUTS / $(n))) * $(n);
        float v[$(n)];
        $(compute)(v, args, row, at);
        store$(n)(args->out, row * args->out_pitch + at, v);
    }
}

%end
% write_kernel("spc_rows", "compute", wide, piece)
% if needs_single(problem, inputs, outputs) then
%   write_kernel("spc_rows_1", "compute_single", 1, 1)
% end
