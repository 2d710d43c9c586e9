%-- Layer normalisation. Several lanes of a warp share a row. They sum it for the mean, then
%-- sum the squared deviations, and write the row. A row that fits their registers is read
%-- once; a wider one is read again from the nearest cache. If rows fit, the lanes take two
%-- at a time. This doubles the number of loads under way, and the scale and shift of a
%-- channel are read once for both rows.
%--
%-- With xhat = (x - mean) / sqrt(var + eps) and g = dy times the scale, the gradient of a
%-- row is
%--
%--     dx = (g - mean of g - xhat * mean of g xhat) / sqrt(var + eps)
%--
%-- (Ba, Kiros, Hinton, 2016). The gradients of scale and shift are sums over all rows
%-- (feature_channels.lua), for which each row stores its moments. This template also makes
%-- the gradients of the operator "affine", which has no moments.
%
%include "feature.lua"
%include "feature_channels.lua"
%
%-- The most elements of a row that one lane holds. A gradient holds as many elements
%-- of dy as well.
%local most_held = 32
%
%-- Elements of a piece. Neighbouring lanes read the scales of neighbouring pieces. Where
%-- the scales of a piece are 16 bytes, the loads of a warp use all of each cache line.
%-- The scales of 8 channels are 32 bytes and a load takes half of them, which doubles
%-- the work for the scales. It does not matter if the row fits in one step of a warp.
%local function piece_of(problem)
%  local n = natural_elements(problem, problem.channels)
%  if problem.affine == 1 and problem.pass ~= "wgrad" and problem.channels > 32 * n then
%    return math.min(n, 4)
%  end
%  return n
%end
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
%    return {wide = natural_elements(problem, problem.channels), piece = piece_of(problem)}
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"
#include "feature_abi.h"

enum { CHANNELS = $(problem.channels), WARPS = SPC_FEATURE_THREADS / 32 };

% write_accesses(problem, {1, piece, wide})
% write_rows_given("SPC_DEVICE")
% if problem.op == "affine" then
%   write_channels(problem, wide, "rows_given(args)", "p", "x[e]")
% else
% if problem.affine == 1 and problem.pass ~= "wgrad" then
%   write_float_loads(piece, 1)
% end
% if not problem.pass then
%   write_slope_activation(problem, "SPC_DEVICE")
% end
% write_rsqrt("SPC_DEVICE", "spc_bits_f32", "spc_f32_bits")
%
%-- How a row is divided among lanes, with `n` elements in a piece.
%--
%-- Which rows are processed alone and which in pairs depends on the grid, so both must
%-- give the same bits. A product that is added is therefore written as spc_fma, and the
%-- compiler has no choice. Gradients have too many such products and process rows one by
%-- one.
%--
%-- A thread needs the registers that hold rows and some 48 more. The launch bounds ask
%-- for as many blocks as 65536 registers suffice for. Otherwise the compiler loads all
%-- scales before the sums, and few blocks fit. Kernels that move single elements have no
%-- such bound, because their scales are read efficiently.
%local function layout_of(n)
%  local pieces = problem.channels // n
%  local lanes = 1
%  while lanes < 32 and lanes < pieces do lanes = lanes * 2 end
%  local steps = (pieces + lanes - 1) // lanes
%  local held = steps * n <= most_held
%  local paired = held and n > 1 and problem.pass ~= "dgrad"
%  local rows = (paired or problem.pass == "dgrad") and 2 or 1
%  local floats = (held and steps or 1) * n * rows
%  return {n = n, pieces = pieces, lanes = lanes, steps = steps, held = held,
%          paired = paired, blocks = n > 1 and 256 // (floats + (target.sm >= 120 and 72 or 48)) or 1}
%end
%
%-- Opens the loop over the elements x of each piece, which begins at `at`, of each of the
%-- rows r. `before` writes the code that is the same for all rows.
%local function write_begin(of, first, before)
    $(of.held and "SPC_UNROLL" or "SPC_ROLLED")
    for (int j = 0; j < $(of.steps); j++) {
        int at = lane * $(of.n) + j * $(of.lanes * of.n);

%  if of.steps * of.lanes > of.pieces then
        if (at >= CHANNELS)
            continue;
%  end
%  if before then before() end
        SPC_UNROLL
        for (int r = 0; r < ROWS; r++) {
%  if of.held then
            float *x = v[r] + j * $(of.n);
%  else
            float x[$(of.n)];
%  end

%  if first or not of.held then
            load$(of.n)(x, in[r], j * $(of.lanes * of.n));
%  end
%end
%
%local function write_scale(n)
        float scale[$(n)];

        load_floats$(n)(scale, args->scale + at);
%end
%local function write_scale_shift(n)
        float scale[$(n)], shift[$(n)];

        load_floats$(n)(scale, args->scale + at);
        load_floats$(n)(shift, args->shift + at);
%end
%
%-- The last step: writes the rows of outputs, their moments, or the gradient.
%local function write_rows(of)
%  local affine = problem.affine == 1
%  write_begin(of, false, affine and function() write_scale_shift(of.n) end)
            SPC_UNROLL
            for (int e = 0; e < $(of.n); e++) {
                x[e] = (x[e] - mean[r]) * norm[r];
% if affine then
                x[e] = spc_fma(x[e], scale[e], shift[e]);
% end
                x[e] = activate(x[e], args->slope);
            }
            if (written[r])
                store$(of.n)(args->out, row[r] * args->out_pitch + at, x);
        }
    }
%end
%
%local function write_moments()
    for (int r = 0; r < ROWS; r++)
        if (written[r] && lane == 0) {
            args->moments[2 * row[r]] = mean[r];
            args->moments[2 * row[r] + 1] = norm[r];
        }
%end
%
%-- g = dy times the scale, for the current piece.
%local function write_g(of, first)
%  if of.held then
            float *g = dy[r] + j * $(of.n);
%  else
            float g[$(of.n)];
%  end

%  if first or not of.held then
            load$(of.n)(g, add[r], j * $(of.lanes * of.n));
% if problem.affine == 1 then
            SPC_UNROLL
            for (int e = 0; e < $(of.n); e++)
                g[e] *= scale[e];
% end
%  end
%end
%
%local function write_gradient(of)
%  local before = problem.affine == 1 and function() write_scale(of.n) end
    float all[ROWS] = {0}, along[ROWS] = {0}; /* sums of g and of g xhat */
%  if of.held then
    float dy[ROWS][$(of.steps * of.n)];
%  end

% write_begin(of, false, before)
% write_g(of, true)
            SPC_UNROLL
            for (int e = 0; e < $(of.n); e++) {
                all[r] += g[e];
                along[r] += g[e] * ((x[e] - mean[r]) * norm[r]);
            }
        }
    }
    SPC_UNROLL
    for (int r = 0; r < ROWS; r++) {
        all[r] = sum_row$(of.n)(all[r]) / (float)CHANNELS;
        along[r] = sum_row$(of.n)(along[r]) / (float)CHANNELS;
    }
% write_begin(of, false, not of.held and before)
% write_g(of, false)
            SPC_UNROLL
            for (int e = 0; e < $(of.n); e++)
                x[e] = norm[r] * (g[e] - all[r] - (x[e] - mean[r]) * norm[r] * along[r]);
            if (written[r])
                store$(of.n)(args->out, row[r] * args->out_pitch + at, x);
        }
    }
%end
%
%-- The pieces of a lane are at constant distances from its first piece, so
%-- loads can use them as immediate offsets.
%local function write_first_piece(n)
SPC_DEVICE const void *first_piece$(n)(const void *rows, long long row, int lane)
{
    return spc_base((const char *)rows + (row + lane * $(n)) * $(feature_format(problem).bytes));
}

%end
%-- Normalises `together` rows of these lanes, `step` apart.
%local function write_normalise(of, together)
%  local n = of.n
/* Lanes past the last row read the last row, because all lanes must take part
 * in the sums. */
SPC_DEVICE void normalise$(n)_$(together)(const spc_feature_args *args, long long first,
                                          long long step, int rows)
{
    enum { ROWS = $(together) };
    int lane = spc_lane() % $(of.lanes), written[ROWS];
    long long row[ROWS];
    const void *in[ROWS]$(problem.pass == "dgrad" and ", *add[ROWS]" or "");
    float mean[ROWS] = {0}, norm[ROWS] = {0};
% if of.held then
    float v[ROWS][$(of.steps * n)];
% end

    SPC_UNROLL
    for (int r = 0; r < ROWS; r++) {
        row[r] = first + r * step;
        written[r] = row[r] < rows;
        row[r] = written[r] ? row[r] : rows - 1;
        in[r] = first_piece$(n)(args->in, row[r] * args->in_pitch, lane);
% if problem.pass == "dgrad" then
        add[r] = first_piece$(n)(args->add, row[r] * args->add_pitch, lane);
% end
    }
% write_begin(of, true)
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                mean[r] += x[e];
        }
    }
    SPC_UNROLL
    for (int r = 0; r < ROWS; r++)
        mean[r] = sum_row$(n)(mean[r]) / (float)CHANNELS;
% write_begin(of, false)
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                norm[r] = spc_fma(x[e] - mean[r], x[e] - mean[r], norm[r]);
        }
    }
    SPC_UNROLL
    for (int r = 0; r < ROWS; r++)
        norm[r] = feature_rsqrt(sum_row$(n)(norm[r]) / (float)CHANNELS + args->eps);
% if problem.pass == "dgrad" then
%   write_gradient(of)
% elseif problem.pass then
%   write_moments()
% else
%   write_rows(of)
% end
}

%end
%local function write_kernel(name, n)
%  local of = layout_of(n)
%  local each = 32 // of.lanes
/* The sum over the lanes that share a row. */
SPC_DEVICE float sum_row$(n)(float v)
{
    for (int bits = $(of.lanes // 2); bits > 0; bits >>= 1)
        v += spc_shfl_xor_f32(v, bits);
    return v;
}

%  write_first_piece(n)
%  write_normalise(of, 1)
%  if of.paired then write_normalise(of, 2) end
SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, $(of.blocks))
{
    int rows = rows_given(args), own = spc_lane() / $(of.lanes);
    long long step = (long long)spc_grid_x() * WARPS * $(each);
    long long first = ((long long)spc_block_x() * WARPS + spc_warp()) * $(each);

%  if of.paired then
    for (; first + step < rows; first += 2 * step)
        normalise$(n)_2(args, first + own, step, rows);
%  end
    for (; first < rows; first += step)
        normalise$(n)_1(args, first + own, step, rows);
}

%end
% local name = problem.pass == "wgrad" and "spc_moments" or "spc_norm"
% write_kernel(name, piece)
% if needs_single(problem, problem.channels, problem.pass == "wgrad" and 1 or problem.channels) then
%   write_kernel(name .. "_1", 1)
% end
% if problem.pass == "wgrad" then
%   write_channels(problem, wide, "rows_given(args)", "p", "(x[e] - mean) * scale",
%                  "float mean = args->moments[2 * row], scale = args->moments[2 * row + 1];")
% end
% end
