%-- Explicit GEMM by a library (cuBLASLt, if available). The matrix of gathered rows, as in
%-- explicit_mma, is multiplied by all weights between two kernels of this module.
%--
%--     spc_conv: matrix[row][offset][channels] = in[index[offset][row]], or 0
%--     library:  sums[row] = matrix[row] * weights, fp32, after the matrix in the workspace
%--     spc_sum:  out[row] = the epilogue of sums[row]
%--
%-- The library also multiplies rows past the map's last row, up to its capacity. Their
%-- results are ignored.
%
%include "explicit.lua"
%
%local rows = 32
%function depth_of(problem) return matrix_bytes(problem) // element_bytes(problem) end
%
%template = {
%  summary = "explicit GEMM: gathered rows in a matrix, multiplied by a library",
%  role = "conv",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.groups then return false, "needs a layer without groups" end
%    if problem.dtype ~= "f16" and problem.dtype ~= "bf16" and problem.dtype ~= "f32" then
%      return false, "needs f16, bf16 or f32"
%    end
%    return matrix_accepts(problem)
%  end,
%  constraints = {},
%  derive = function(problem, config, target)
%    local lane = 16 // element_bytes(problem)
%    return {lane_channels = lane, chunks = ceil_div(problem.cout, lane)}
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = 256, grid = "tiles", grid_y = matrix_parts(problem), tile_rows = rows,
%      order = "none", gemm_depth = depth_of(problem), sum_block = 256,
%      workspace_row_bytes = matrix_bytes(problem) + problem.cout * 4,
%      packed_bytes = problem.cout * matrix_bytes(problem),
%      pack_threads = problem.cout * depth_of(problem),
%      preference = -3,
%    }
%  end,
%  default = function(problem, target) return {} end,
%}
#include "spc_device.cuh"

% write_gather(rows)
% write_activation("SPC_DEVICE")
/* A thread has 16 bytes of an output row at a time, in the type of the inputs. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    const spc_map_view *map = &args->map;
    int tile = spc_load_int(map->tile_order + spc_block_x());
    const float *sums = (const float *)((const spc_u8 *)args->workspace +
                                        (long long)map->rows_padded * $(matrix_bytes(problem)));

    if (tile < 0)
        return;
    for (int item = spc_thread(); item < $(rows * chunks); item += 256) {
        int p = tile * $(rows) + item / $(chunks), h = 0;
        int co = item % $(chunks) * $(lane_channels), row[1];
        float u[$(lane_channels)];
        SPC_UNROLL
        for (int i = 0; i < $(lane_channels); i++)
            u[i] = co + i < $(problem.cout) ? spc_load_f32(sums + (long long)p * $(problem.cout) + co + i) : 0.0f;
        row[0] = spc_load_int(map->order + p);
        int store = row[0] >= 0;
        float v[$(lane_channels)];
        {
% write_lane_values(lane_channels, "u[i]")
% write_lane_store(lane_channels, "(spc_u8 *)args->out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem))
        }
    }
}

/* Packed: [cout][offset][channels], in the layout of the matrix's rows. */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    long long item = (long long)spc_block_x() * 256 + spc_thread();
    int at = (int)(item % $(depth_of(problem))), co = (int)(item / $(depth_of(problem)));
    int k = at / $(depth_of(problem) // problem.offsets);
    int ci = at % $(depth_of(problem) // problem.offsets);
    const $(format_of(problem).device) *weights = (const $(format_of(problem).device) *)args->weights;

    if (co >= $(problem.cout))
        return;
    (($(format_of(problem).device) *)args->packed)[item] =
        ci < $(problem.cin) ? weights[k * args->stride_k + ci * args->stride_in + co * args->stride_out]
                            : ($(format_of(problem).device))0;
    spc_fence_global();
}
