%-- A gradient of weights in plain C that is wrong with many rows.
%
%local ends = { -- of the pairs of an offset, which begin at `begin`
%  none = "pairs->begin[k + 1]",
%  second_part_lost = "(begin + 1024 < pairs->begin[k + 1] ? begin + 1024 : pairs->begin[k + 1])",
%  last_of_4097_lost = "pairs->begin[k + 1] - (pairs->begin[k + 1] - begin > 4096)",
%}
%
%template = {
%  summary = "plain loops with one mistake",
%  role = "wgrad", device = "cpu",
%  params = {{"fault", {"none", "second_part_lost", "last_of_4097_lost"}, "the mistake"}},
%  accepts = function() return true end,
%  launch = function(problem, config)
%    return {
%      block = 1, shared = 0, grid = "blocks", gradient = 1, layout = "pairs", tile_rows = 64,
%      grid_x = problem.offsets * problem.cin,
%    }
%  end,
%  default = function() return {fault = "none"} end,
%}
#define SPC_LANES 4
#include "spc_cpu.h"

enum { CIN = $(problem.cin), COUT = $(problem.cout) };

/*
 * Call x computes the gradient of the weights of an input channel at an offset.
 */
void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    const spc_pairs_view *pairs = &args->pairs;
    int k = x / CIN, ci = x % CIN;
    float sums[COUT] = {0};

    int begin = pairs->begin[k], end = $(ends[config.fault]);
    for (int i = begin; i < end; i++) {
        const float *dy = (const float *)args->residual + (long)pairs->out[i] * COUT;
        float v = ((const float *)args->in)[(long)pairs->in[i] * CIN + ci];
        for (int co = 0; co < COUT; co++)
            sums[co] += v * dy[co];
    }
    for (int co = 0; co < COUT; co++)
        ((float *)args->out)[(long)x * COUT + co] = sums[co];
}
