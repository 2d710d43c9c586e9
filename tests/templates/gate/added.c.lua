%-- A gradient of weights and bias that is added to an existing one, in plain C, with one
%-- mistake.
%
%local fault_names = {
%  "none", "last_pair_missing", "first_pair_twice", "pair_with_row_0_missing", "offsets_mirrored",
%  "last_channel_of_the_one_before", "sums_in_f16", "nothing_is_added_to", "added_to_twice",
%  "bias_is_not_added_to", "bias_without_row_0", "bias_without_last_position",
%  "bias_of_rows_with_neighbours",
%}
%
%template = {
%  summary = "plain loops with one mistake",
%  role = "wgrad", device = "cpu",
%  params = {{"fault", fault_names, "the mistake"}},
%  accepts = function(problem) return problem.bias == 1 and problem.accumulate == 1 end,
%  launch = function(problem, config)
%    return {
%      block = 1, shared = 0, grid = "blocks", gradient = 1, layout = "pairs", tile_rows = 64,
%      grid_x = problem.offsets * problem.cin + 1,
%    }
%  end,
%  default = function() return {fault = "none"} end,
%}
%local function is(name) return config.fault == name end
#define SPC_LANES 4
#include "spc_cpu.h"

enum { CIN = $(problem.cin), COUT = $(problem.cout), OFFSETS = $(problem.offsets) };

static const float *row_of(const void *rows, int row, int columns)
{
    return (const float *)rows + (long)row * columns;
}

static void add_pairs(float *sums, const spc_conv_args *args, int k, int ci)
{
    const spc_pairs_view *pairs = &args->pairs;
    int begin = pairs->begin[k], end = pairs->begin[k + 1]$(is "last_pair_missing" and " - 1" or "");

    for (int i = begin; i < end; i++) {
        const float *dy = row_of(args->residual, pairs->out[i], COUT);
        float v = row_of(args->in, pairs->in[i], CIN)[ci];
% if is "first_pair_twice" then
        v = i == begin ? 2 * v : v;
% end
% if is "pair_with_row_0_missing" then
        v = pairs->in[i] == 0 && pairs->out[i] != 0 ? 0 : v;
% end
        for (int co = 0; co < COUT; co++) {
            sums[co] += v * dy[$(is "last_channel_of_the_one_before" and "co == COUT - 1 ? co - 1 : co" or "co")];
% if is "sums_in_f16" then
            sums[co] = spc_float_of_half(spc_half_of_float(sums[co]));
% end
        }
    }
}

static void add_rows(float *sums, const spc_conv_args *args)
{
    const spc_map_view *map = &args->map;

    for (int p = 0; p < map->rows_padded$(is "bias_without_last_position" and " - 1" or ""); p++) {
        int row = map->order[p];
        if (row < $(is "bias_without_row_0" and 1 or 0))
            continue;
% if is "bias_of_rows_with_neighbours" then
        int seen = 0;
        for (int i = 0; i < args->pairs.begin[OFFSETS]; i++)
            seen += args->pairs.out[i] == row && args->pairs.in[i] != row;
        if (seen == 0)
            continue;
% end
        for (int co = 0; co < COUT; co++)
            sums[co] += row_of(args->residual, row, COUT)[co];
    }
}

/* Call x computes the gradient of the weights of an input channel at an offset, or of the
 * bias. */
void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    const float *before = row_of(args->weights, (int)x, COUT);
    float sums[COUT] = {0}, *out = (float *)args->out + (long)x * COUT;
    int is_bias = x == OFFSETS * CIN, k = (int)x / CIN;

    (void)y;
    if (is_bias)
        add_rows(sums, args);
    else
        add_pairs(sums, args, $(is "offsets_mirrored" and "OFFSETS - 1 - k" or "k"), (int)x % CIN);
    for (int co = 0; co < COUT; co++) {
        float there = before[co];
% if is "nothing_is_added_to" then
        there = 0;
% end
% if is "added_to_twice" then
        there *= 2;
% end
% if is "bias_is_not_added_to" then
        there = is_bias ? 0 : there;
% end
        out[co] = there + sums[co];
    }
}
