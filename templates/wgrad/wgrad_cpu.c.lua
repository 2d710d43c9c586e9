%-- The gradient of weights on a processor. For an offset, several input channels and
%-- several vectors of output channels, it sums outer products over the offset's pairs,
%-- in registers.
%--
%--     rows x vectors of dw[k]  +=  x[i][ci .. ci + rows - 1]  *  dy[o][co ...]
%--
%-- A call has one such piece and walks over all pairs of its offset in their order, so
%-- partial sums need not be joined. Another kind of call sums the gradient of the bias.
%
%include "operands.lua"
%
%function lanes_of(target) return target.vector_bytes // 4 end
%function blocks_in(problem, config) return ceil_div(group_in(problem), config.rows) end
%function blocks_out(problem, config, target)
%  return ceil_div(problem.cout, config.vectors * lanes_of(target))
%end
%
%template = {
%  summary = "outer products of pairs in registers, offset by offset",
%  role = "wgrad",
%  triplets = true,
%  device = "cpu",
%  params = {
%    {"rows", {1, 2, 4, 6, 8}, "input channels held in registers"},
%    {"vectors", {1, 2, 4}, "vectors of output channels held in registers"},
%  },
%  accepts = function(problem, target) return true end,
%  constraints = {
%    {"sums and operands fit the registers", function(problem, config, target)
%      return config.rows * config.vectors + config.vectors + 1
%        -- AVX-512 has 32 vector registers; every other processor has at least
%        -- 16.
%        <= (target.vector_bytes >= 64 and 32 or 16)
%    end},
%    {"no more rows than input channels", function(problem, config, target)
%      return config.rows == 1 or config.rows <= group_in(problem)
%    end},
%    {"no more vectors than output channels", function(problem, config, target)
%      return config.vectors == 1 or (config.vectors - 1) * lanes_of(target) < problem.cout
%    end},
%  },
%  derive = function(problem, config, target)
%    local lanes = lanes_of(target)
%    return {
%      lanes = lanes, width = config.vectors * lanes,
%      in_blocks = blocks_in(problem, config), out_blocks = blocks_out(problem, config, target),
%      element = format_of(problem).host, short = format_of(problem).host_short,
%      result = out_format(problem).host, out_short = out_format(problem).host_short,
%      taps = problem.offsets * group_in(problem),
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = 1, shared = 0, grid = "blocks", gradient = 1, layout = "pairs", tile_rows = 64,
%      grid_x = (problem.offsets * blocks_in(problem, config) + problem.bias)
%        * blocks_out(problem, config, target),
%    }
%  end,
%  default = function(problem, target)
%    -- At most 4 rows by default, and 2 for 3 channels: 3 is no legal value.
%    local few = problem.cout <= lanes_of(target)
%    local rows = math.min(group_in(problem), 4)
%    return {rows = rows == 3 and 2 or rows, vectors = few and 1 or 2}
%  end,
%}
#define SPC_LANES $(lanes)
#include "spc_cpu.h"

enum {
    CIN = $(group_in(problem)),  /* of a group */
    COUT = $(problem.cout),
    GROUP = $(group_out(problem)), /* its output channels */
    OFFSETS = $(problem.offsets),
    ROWS = $(config.rows),
    WIDTH = $(width),
    IN_BLOCKS = $(in_blocks),
    OUT_BLOCKS = $(out_blocks)
};

typedef $(element) element;
typedef $(result) result;

static float value_of(element stored)
{
% if short then
    return spc_float_of_$(short)(stored);
% else
    return stored;
% end
}

/* Converts some output channels of a row of dy to floats, padded with zeros to
 * whole vectors. */
static void take_outputs(float *to, const spc_conv_args *args, long row, int first,
                         int count)
{
    const element *from = (const element *)args->residual + row * $(add_pitch(problem)) + first;

    for (int i = count; i < WIDTH; i++)
        to[i] = 0;
% if short then
    spc_row_from_$(short)(to, from, count);
% else
    for (int i = 0; i < count; i++)
        to[i] = from[i];
% end
}

% if problem.groups then
/* sums[r][i] += x[channel r of i's group] * dy[i] for one pair. Neighbouring
 * outputs may have other inputs, so there is no outer product that vectors
 * could hold: sums are in memory. */
static void add_pair(float *sums, const element *x, const float *dy, int first,
                     int count, int ci)
{
    int rows = CIN - ci < ROWS ? CIN - ci : ROWS;

    for (int r = 0; r < rows; r++)
        for (int i = 0; i < count; i++)
            sums[r * WIDTH + i] += value_of(x[(first + i) / GROUP * CIN + ci + r]) * dy[i];
}

static void add_pairs(float *sums, const spc_conv_args *args, int begin, int end,
                      int ci, int first, int count)
{
    const spc_pairs_view *pairs = &args->pairs;
    float dy[WIDTH];

    for (int i = begin; i < end; i++) {
        take_outputs(dy, args, pairs->out[i], first, count);
        add_pair(sums, (const element *)args->in + (long)pairs->in[i] * $(problem.in_pitch or problem.cin),
                 dy, first, count, ci);
    }
}
% else
/* The sums stay in registers. Rows past the last input channel are computed from
 * another channel and not stored. */
static void add_pairs(float *sums, const spc_conv_args *args, int begin, int end,
                      int ci, int first, int count)
{
    const spc_pairs_view *pairs = &args->pairs;
    float dy[WIDTH];
%   for r = 0, config.rows - 1 do
    /* A constant number of rows keeps the sums in registers. */
    int c$(r) = ci + $(r) < CIN ? ci + $(r) : CIN - 1;
%     for v = 0, config.vectors - 1 do
    spc_vector s$(r)_$(v) = {0};
%     end
%   end

    for (int i = begin; i < end; i++) {
        const element *x = (const element *)args->in +
                           (long)pairs->in[i] * $(problem.in_pitch or problem.cin);
        take_outputs(dy, args, pairs->out[i], first, count);
%   for r = 0, config.rows - 1 do
        float x$(r) = value_of(x[c$(r)]);
%   end
%   for v = 0, config.vectors - 1 do
        spc_vector y$(v) = spc_load(dy + $(v * lanes));
%     for r = 0, config.rows - 1 do
        s$(r)_$(v) += y$(v) * x$(r);
%     end
%   end
    }
%   for r = 0, config.rows - 1 do
%     for v = 0, config.vectors - 1 do
    spc_store(sums + $(r * width + v * lanes), s$(r)_$(v));
%     end
%   end
}
% end

/* Writes one row of the result, the gradient of a weight or the bias. */
static void write_row(const spc_conv_args *args, long row, const float *sums,
                      int first, int count)
{
    result *to = (result *)args->out + row * COUT + first;
% if problem.accumulate then
    const result *before = (const result *)args->weights + row * COUT + first;
% end

    for (int i = 0; i < count; i++) {
        float sum = sums[i];
% if problem.accumulate then
        sum += $(out_short and "spc_float_of_" .. out_short or "")(before[i]);
% end
        to[i] = $(out_short and "spc_" .. out_short .. "_of_float" or "")(sum);
    }
}

% if problem.bias == 1 then
/* The bias sums dy over all rows of the map, and needs no pairs. */
static void sum_bias(const spc_conv_args *args, int first, int count)
{
    const spc_map_view *map = &args->map;
    float sums[WIDTH] = {0}, dy[WIDTH];

    for (int p = 0; p < map->rows_padded; p++) {
        if (map->order[p] < 0)
            continue;
        take_outputs(dy, args, map->order[p], first, count);
        for (int i = 0; i < WIDTH; i++)
            sums[i] += dy[i];
    }
    write_row(args, $(taps), sums, first, count);
}

% end
/* Call x: a piece of an offset's weights, or of the bias. */
void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = (int)(x % OUT_BLOCKS) * WIDTH, piece = (int)(x / OUT_BLOCKS);
    int count = COUT - first < WIDTH ? COUT - first : WIDTH;
    int k = piece / IN_BLOCKS, ci = piece % IN_BLOCKS * ROWS;
    float sums[ROWS * WIDTH] = {0};

    if (k >= OFFSETS) {
% if problem.bias == 1 then
        /* The calls past all offsets are for the bias: one for each block of
         * outputs. */
        if (piece == OFFSETS * IN_BLOCKS)
            sum_bias(args, first, count);
% end
        return;
    }
    add_pairs(sums, args, args->pairs.begin[k], args->pairs.begin[k + 1], ci,
              first, count);
    for (int r = 0; r < ROWS && ci + r < CIN; r++)
        write_row(args, (long)k * CIN + ci + r, sums + r * WIDTH, first, count);
}
