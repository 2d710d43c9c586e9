%-- Explicit GEMM. The inputs that an output row sees at all offsets are stored side by side
%-- in the workspace, and this matrix is multiplied by all weights at once.
%--
%--     spc_conv: matrix[row][offset][channels] = in[index[offset][row]], or 0
%--     spc_sum:  out[row] = matrix[row] * weights; a block has a tile and n output channels
%--
%-- This is the reference dataflow for the others. It skips nothing, and an absent pair costs
%-- as much as a present one. For each offset, rows of the matrix are padded to a multiple of
%-- 64 bytes, so inputs may have any alignment.
%
%include "ring_mma.lua"
%include "explicit.lua"
%
%template = {
%  summary = "explicit GEMM: gathered rows in a matrix, times all weights, mma.sync",
%  role = "conv",
%  device = "cuda",
%  params = ring_params,
%  accepts = function(problem, target)
%    local ok, why = ring_accepts(problem, target)
%    if not ok then return false, why end
%    return matrix_accepts(problem)
%  end,
%  constraints = ring_constraints {
%    {"shared memory", function(problem, config, target)
%      return ring_bytes(config) <= target.shared_block
%    end},
%  },
%  derive = function(problem, config, target)
%    local all = ring_derive(problem, config)
%    all.align, all.row_bytes, all.row_pitch = 16, matrix_bytes(problem), matrix_bytes(problem)
%    all.steps = problem.offsets * all.k_blocks
%    return all
%  end,
%  launch = function(problem, config, target)
%    local packed = packed_image(problem, config)
%    return {
%      block = 256, grid = "tiles", grid_y = matrix_parts(problem),
%      tile_rows = ring_rows(config), order = "none",
%      sum_block = ring_warps * 32, sum_grid_y = out_blocks(problem, config),
%      sum_shared = ring_bytes(config), workspace_row_bytes = matrix_bytes(problem),
%      packed_bytes = packed, pack_threads = packed // 16,
%      pdl = target.sm >= 90 and 1 or 0, preference = -2,
%    }
%  end,
%  default = function(problem, target)
%    local config = ring_default(problem)
%    if ring_bytes(config) > target.shared_block then config.stages = 2 end
%    return config
%  end,
%}
#include "spc_device.cuh"

% write_ring()
% write_multiply()
% write_activation("SPC_DEVICE")
% write_gather(rows)
/* Starts the copies of a step. Always commits one group, so that waiting counts
 * steps. */
SPC_DEVICE void load_next(int step, int stage, const int *row, const spc_conv_args *args)
{
    if (step < $(steps)) {
        load_rows(stage, (const spc_u8 *)args->workspace, row, step * $(config.pieces * 64));
        load_image(spc_shared() + stage * $(stage_size), args, step);
    }
    spc_copy_commit();
}

SPC_KERNEL(spc_sum, spc_conv_args, $(threads), 1)
{
    const spc_map_view *map = &args->map;
    int tile = spc_load_int(map->tile_order + spc_block_x());
    int p = tile * $(rows) + $(lane_row());
    float acc[$(config.m * config.n // 2)];
    int row[$(2 * config.m)], stage = 0;

    spc_depend_wait();
    spc_depend_launch();
    /* The grid covers the map's capacity; past its tiles the order has -1. */
    if (tile < 0)
        return;
    SPC_UNROLL
    for (int h = 0; h < $(2 * config.m); h++)
        row[h] = p + 8 * h;
    clear(acc);
    SPC_ROLLED
    for (int i = 0; i < $(config.stages - 1); i++)
        load_next(i, i, row, args);
    SPC_ROLLED
    for (int step = 0; step < $(steps); step++) {
        /* After the barrier the step has arrived for the whole block, and all
         * warps have finished with the stage that is loaded next. */
        spc_copy_wait($(config.stages - 2));
        spc_sync_block();
        load_next(step + $(config.stages - 1), stage == 0 ? $(config.stages - 1) : stage - 1, row, args);
        multiply(acc, stage, spc_shared() + stage * $(stage_size));
        if (++stage == $(config.stages))
            stage = 0;
    }
    spc_copy_wait(0);
    SPC_UNROLL
    for (int h = 0; h < $(2 * config.m); h++)
        row[h] = spc_load_int(map->order + p + 8 * h);
% write_lane_loop(function()
%   write_finish(sum_at())
% end)
}

% write_ring_pack()
