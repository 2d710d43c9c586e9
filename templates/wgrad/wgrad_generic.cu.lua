%-- The gradient of weights for problems that other kernels refuse: any channels, any
%-- groups, any type, no tensor cores.
%--
%-- A thread has one weight of one offset, or one element of a bias, and sums over a part
%-- of the offset's pairs. All threads of a block walk over the same pairs: dy is read
%-- coalesced, x as broadcasts. The sums of parts are added in their order.
%
%include "wgrad.lua"
%
%local threads = 128
%function blocks_of_offset(problem)
%  return ceil_div(group_in(problem) * problem.cout, threads)
%end
%function blocks_of_bias(problem)
%  return problem.bias == 1 and ceil_div(problem.cout, threads) or 0
%end
%function results_of(problem) return (taps_of(problem) + problem.bias) * problem.cout end
%
%template = {
%  summary = "a weight a thread, for any channels and groups, no tensor cores",
%  role = "wgrad",
%  triplets = true,
%  device = "cuda",
%  params = {
%    {"parts", {1, 8, 32}, "parts of an offset's pairs"},
%  },
%  accepts = function(problem, target) return true end,
%  constraints = {
%    {"sums of parts take at most 256 MB", function(problem, config, target)
%      return config.parts == 1 or results_of(problem) * config.parts * 4 <= 268435456
%    end},
%  },
%  derive = function(problem, config, target)
%    return {
%      threads = threads, cin = group_in(problem), taps = taps_of(problem),
%      of_offset = blocks_of_offset(problem), results = results_of(problem),
%    }
%  end,
%  launch = function(problem, config, target)
%    local out = {
%      block = threads, shared = 0, grid = "blocks", gradient = 1, layout = "pairs",
%      tile_rows = 32, grid_y = config.parts, preference = 0,
%      grid_x = problem.offsets * blocks_of_offset(problem) + blocks_of_bias(problem),
%    }
%    if config.parts > 1 then
%      out.workspace_bytes = results_of(problem) * config.parts * 4
%      out.sum_block, out.sum_grid_x = 256, ceil_div(results_of(problem), 256)
%    end
%    return out
%  end,
%  default = function(problem, target)
%    -- 32 parts if their sums take no more than the 256 MB above.
%    return {parts = results_of(problem) * 32 <= 67108864 and 32 or 1}
%  end,
%}
#include "spc_device.cuh"

typedef $(format_of(problem).device) element;
% write_store_sum()
/* Stores the sum of the block's part for element `at`. */
SPC_DEVICE void leave(const spc_conv_args *args, long long at, float sum)
{
% if config.parts > 1 then
    ((float *)args->workspace)[(long long)spc_block_y() * $(results) + at] = sum;
% else
    store_sum(args, at, sum);
% end
}

/* Returns the start of the block's part of `count` items. The part ends at the
 * start of the next part. */
SPC_DEVICE int part_of(int count, int part)
{
    /* In 64 bits, as the product may be more than 2^31. */
    return (int)((long long)count * part / $(config.parts));
}

% if problem.bias == 1 then
/* The bias sums dy over all rows of the map, and needs no pairs. */
SPC_DEVICE void sum_bias(const spc_conv_args *args, int co)
{
    const element *dy = (const element *)args->residual + co;
    int p = part_of(args->map.rows_padded, spc_block_y());
    int end = part_of(args->map.rows_padded, spc_block_y() + 1);
    float sum = 0.0f;

    if (co >= $(problem.cout))
        return;
    for (; p < end; p++) {
        int row = spc_load_int(args->map.order + p);
        if (row >= 0)
            sum += $(load_of(format_of(problem), "dy + (long long)row * " .. add_pitch(problem)));
    }
    leave(args, (long long)$(taps * problem.cout) + co, sum);
}

% end
SPC_KERNEL(spc_conv, spc_conv_args, $(threads), 1)
{
    const spc_pairs_view *pairs = &args->pairs;
    int k = spc_block_x() / $(of_offset);
    int item = spc_block_x() % $(of_offset) * $(threads) + spc_thread();
    int ci = item / $(problem.cout), co = item % $(problem.cout);

    /* The blocks of the bias come after those of all offsets. */
    if (k >= $(problem.offsets)) {
% if problem.bias == 1 then
        sum_bias(args, (spc_block_x() - $(problem.offsets * of_offset)) * $(threads) + spc_thread());
% end
        return;
    }
    /* The last block of an offset may have more threads than weights. */
    if (ci >= $(cin))
        return;
    const element *x = (const element *)args->in + co / $(group_out(problem)) * $(cin) + ci;
    const element *dy = (const element *)args->residual + co;
    int begin = spc_load_int(pairs->begin + k);
    int count = spc_load_int(pairs->begin + k + 1) - begin;
    int end = begin + part_of(count, spc_block_y() + 1);
    float sum = 0.0f;

    for (int i = begin + part_of(count, spc_block_y()); i < end; i++) {
        long long from = spc_load_int(pairs->in + i), to = spc_load_int(pairs->out + i);
        sum = spc_fma($(load_of(format_of(problem), "x + from * " .. (problem.in_pitch or problem.cin))),
                      $(load_of(format_of(problem), "dy + to * " .. add_pitch(problem))), sum);
    }
    leave(args, ((long long)k * $(cin) + ci) * $(problem.cout) + co, sum);
}

% if config.parts > 1 then
/* Adds the parts in their order, so that equal inputs give equal bits. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    long long at = (long long)spc_block_x() * 256 + spc_thread();
    float sum = 0.0f;

    if (at >= $(results))
        return;
    for (int part = 0; part < $(config.parts); part++)
        sum += ((const float *)args->workspace)[(long long)part * $(results) + at];
    store_sum(args, at, sum);
}
% end
