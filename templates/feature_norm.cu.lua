%-- Layer normalisation: some lanes of a warp share a row. They sum it for the mean, then
%-- the squares of what differs from it, and write the row. A row that fits their
%-- registers is read once, a wider one again from the nearest cache.
%
%include "feature.lua"
%
%local ops = {"layernorm"}
%
%template = {
%  summary = "normalises every row over its channels",
%  role = "feature",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    return {wide = natural_elements(problem, problem.channels)}
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"
#include "feature_abi.h"

enum { CHANNELS = $(problem.channels), WARPS = SPC_FEATURE_THREADS / 32 };

% write_accesses(problem, {1, wide})
% write_rows_given("SPC_DEVICE")
% write_slope_activation(problem, "SPC_DEVICE")
% write_rsqrt("SPC_DEVICE", "spc_bits_f32", "spc_f32_bits")
%
%local function write_loops(n)
%  local pieces = problem.channels // n
%  local lanes = 1
%  while lanes < 32 and lanes < pieces do lanes = lanes * 2 end
%  local steps = (pieces + lanes - 1) // lanes
%  return pieces, lanes, steps, steps * n <= 32
%end
%
%-- Around what is done with the elements x of each piece of a row, which begin at `at`.
%local function write_begin(n, pieces, lanes, steps, held, first)
%  local unroll = held and "SPC_UNROLL" or "SPC_ROLLED"
    $(unroll)
    for (int j = 0; j < $(steps); j++) {
        int piece = lane + j * $(lanes), at = piece * $(n);
%  if held then
        float *x = v + j * $(n);
%  else
        float x[$(n)];
%  end

%  if steps * lanes > pieces then
        if (piece >= $(pieces))
            continue;
%  end
%  if first or not held then
        load$(n)(x, args->in, from + at);
%  end
%end
%
%local function write_kernel(name, n)
%  local pieces, lanes, steps, held = write_loops(n)
%  local function begin(first) write_begin(n, pieces, lanes, steps, held, first) end
/* The sum over the lanes that share a row. */
SPC_DEVICE float sum_row$(n)(float v)
{
    for (int bits = $(lanes // 2); bits > 0; bits >>= 1)
        v += spc_shfl_xor_f32(v, bits);
    return v;
}

/* Lanes beyond the last row read it too, as all must take part in the sums. */
SPC_DEVICE void normalise$(n)(const spc_feature_args *args, int row, int written)
{
    int lane = spc_lane() % $(lanes);
    long long from = row * args->in_pitch, to = row * args->out_pitch;
    float sum = 0, squares = 0;
% if held then
    float v[$(steps * n)];
% end

% begin(true)
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            sum += x[e];
    }
    float mean = sum_row$(n)(sum) / (float)CHANNELS;

% begin(false)
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            squares += (x[e] - mean) * (x[e] - mean);
    }
    float scale = feature_rsqrt(sum_row$(n)(squares) / (float)CHANNELS + args->eps);

    if (!written)
        return;
% begin(false)
        SPC_UNROLL
        for (int e = 0; e < $(n); e++) {
            x[e] = (x[e] - mean) * scale;
% if problem.affine == 1 then
            x[e] = x[e] * spc_load_f32(args->scale + at + e) +
                   spc_load_f32(args->shift + at + e);
% end
            x[e] = activate(x[e], args->slope);
        }
        store$(n)(args->out, to + at, x);
    }
}

SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int rows = rows_given(args), own = spc_lane() / $(lanes);
    long long step = (long long)spc_grid_x() * WARPS * $(32 // lanes);
    long long first = ((long long)spc_block_x() * WARPS + spc_warp()) * $(32 // lanes);

    for (; first < rows; first += step) {
        int row = (int)first + own;
        normalise$(n)(args, row < rows ? row : rows - 1, row < rows);
    }
}

%end
% write_kernel("spc_norm", wide)
% if needs_single(problem, problem.channels, problem.channels) then
%   write_kernel("spc_norm_1", 1)
% end
