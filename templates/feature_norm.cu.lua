%-- Layer normalisation: some lanes of a warp share a row. They sum it for the mean, then
%-- the squares of what differs from it, and write the row. A row that fits their
%-- registers is read once, a wider one again from the nearest cache.
%--
%-- With xhat = (x - mean) / sqrt(var + eps) and g = dy times the scale the gradient of a row
%-- is
%--
%--     dx = (g - mean of g - xhat * mean of g xhat) / sqrt(var + eps)
%--
%-- (Ba, Kiros, Hinton, 2016); those of scale and shift are sums over all rows
%-- (feature_channels.lua), for which every row leaves its moments. Those of an operator
%-- "affine", which has no moments, are made here as well.
%
%include "feature.lua"
%include "feature_channels.lua"
%
%local ops = {"layernorm", "layernorm,dgrad", "layernorm,wgrad", "affine,wgrad"}
%
%template = {
%  summary = "normalises every row over its channels; gradients of that",
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
% if problem.op == "affine" then
%   write_channels(problem, wide, "rows_given(args)", "p", "x[e]")
% else
% if not problem.pass then
%   write_slope_activation(problem, "SPC_DEVICE")
% end
% write_rsqrt("SPC_DEVICE", "spc_bits_f32", "spc_f32_bits")
%
%-- n parameters of neighbouring channels: four at a time where they lie so. One by one the lanes
%-- of a warp, n parameters apart, would touch as many sectors for each of them as for four.
%local function write_load_floats(n)
SPC_DEVICE void load_floats$(n)(float *to, const float *from)
{
%  if n % 4 == 0 then
    if ((spc_u64)from % 16 == 0) {
        SPC_UNROLL
        for (int e = 0; e < $(n); e += 4) {
            spc_b16 four = spc_load16(from + e);
            to[e] = spc_bits_f32(four.x);
            to[e + 1] = spc_bits_f32(four.y);
            to[e + 2] = spc_bits_f32(four.z);
            to[e + 3] = spc_bits_f32(four.w);
        }
        return;
    }
%  end
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        to[e] = spc_load_f32(from + e);
}

%end
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
%-- The last step: the row of outputs, of its moments, or of the gradient.
%local function write_row(n)
% if problem.affine == 1 then
        float gain[$(n)], shift[$(n)];

        load_floats$(n)(gain, args->scale + at);
        load_floats$(n)(shift, args->shift + at);
% end
        SPC_UNROLL
        for (int e = 0; e < $(n); e++) {
            x[e] = (x[e] - mean) * scale;
% if problem.affine == 1 then
            x[e] = x[e] * gain[e] + shift[e];
% end
            x[e] = activate(x[e], args->slope);
        }
        store$(n)(args->out, to + at, x);
    }
%end
%
%-- g = dy times the scale, of the piece at hand.
%local function write_g(n)
        float g[$(n)];
% if problem.affine == 1 then
        float gain[$(n)];

        load_floats$(n)(gain, args->scale + at);
% end
        load$(n)(g, args->add, row * args->add_pitch + at);
% if problem.affine == 1 then
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            g[e] *= gain[e];
% end
%end
%
%local function write_gradient(n, begin)
    float all = 0, along = 0; /* of g, of g xhat */

% begin(false)
% write_g(n)
        SPC_UNROLL
        for (int e = 0; e < $(n); e++) {
            all += g[e];
            along += g[e] * ((x[e] - mean) * scale);
        }
    }
    all = sum_row$(n)(all) / (float)CHANNELS;
    along = sum_row$(n)(along) / (float)CHANNELS;
    if (!written)
        return;
% begin(false)
% write_g(n)
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            x[e] = scale * (g[e] - all - (x[e] - mean) * scale * along);
        store$(n)(args->out, to + at, x);
    }
%end
%
%local function write_kernel(name, n)
%  local pieces, lanes, steps, held = write_loops(n)
%  local function begin(first) write_begin(n, pieces, lanes, steps, held, first) end
%  if problem.affine == 1 and problem.pass ~= "wgrad" then write_load_floats(n) end
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
    long long from = row * args->in_pitch$(problem.pass == "wgrad" and "" or ", to = row * args->out_pitch");
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

% if problem.pass == "dgrad" then
%   write_gradient(n, begin)
% elseif problem.pass then
    if (written && lane == 0) {
        args->moments[2 * (long long)row] = mean;
        args->moments[2 * (long long)row + 1] = scale;
    }
% else
    if (!written)
        return;
%   begin(false)
%   write_row(n)
% end
}

%-- Three blocks a multiprocessor: parameters of a wide row are then not all read before the first
%-- is used, which would leave two blocks, or one, to hide the loads.
SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, $((problem.pass or n == 1) and 1 or 3))
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
% local name = problem.pass == "wgrad" and "spc_moments" or "spc_norm"
% write_kernel(name, wide)
% if needs_single(problem, problem.channels, problem.pass == "wgrad" and 1 or problem.channels) then
%   write_kernel(name .. "_1", 1)
% end
% if problem.pass == "wgrad" then
%   write_channels(problem, wide, "rows_given(args)", "p", "(x[e] - mean) * scale",
%                  "float mean = args->moments[2 * row], scale = args->moments[2 * row + 1];")
% end
% end
