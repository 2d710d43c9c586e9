%-- A small kernel that uses every feature of the template language.
%local function padded(n) return (n + 31) // 32 * 32 end
%
%template = {
%  summary = "each row's weighted sum of its neighbours",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"rows", {32, 64, 128}, "rows of a block"},
%    {"unroll", function(problem) return problem.taps == 1 and {1} or {1, 2} end,
%     "taps at a time"},
%    {"mode", {"plain", "scaled"}, "with halo_scale or without"},
%  },
%  accepts = function(problem, target)
%    if problem.op ~= "halo" then return false, "needs op = halo" end
%    if target.sm < 75 then return false, "needs sm_75" end
%    return true
%  end,
%  constraints = {
%    {"the unroll divides the taps", function(problem, config)
%      return problem.taps % config.unroll == 0
%    end},
%    {"tall blocks are plain", function(problem, config)
%      return config.rows < 128 or config.mode == "plain", "128 rows"
%    end},
%  },
%  derive = function(problem, config)
%    return {width = padded(problem.cin), third = 1 / 3, half = config.rows / 2}
%  end,
%  launch = function(problem, config)
%    return {block = config.rows, shared = config.rows * padded(problem.cin),
%            grid = "tiles", tile_rows = config.rows,
%            pdl = config.mode == "scaled"}
%  end,
%  default = function() return {mode = "plain", rows = 64, unroll = 1} end,
%}
#include "halo.cuh"

#define HALO_STEP(i)                                                           \
% if config.mode == "scaled" then
    sum += halo_scale(args.in[row + (i)])
% else
    sum += args.in[row + (i)]
% end

/* Rows are $(width) wide; $(half) of $(launch.block) threads are a half. */
extern "C" __global__ void __launch_bounds__($(config.rows))
    spc_conv(halo_args args)
{
    int row = blockIdx.x * $(config.rows) + threadIdx.x;
    float sum = 0.0f;
% for tap = 0, problem.taps - 1, config.unroll do
%   for i = tap, tap + config.unroll - 1 do
    HALO_STEP($(i)); /* $("tap (" .. i .. ")") of $(problem.taps) */
%   end
% end
    if (row < args.rows)
        args.out[row] = sum * $(third)f;
}
