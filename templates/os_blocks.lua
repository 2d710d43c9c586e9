%-- Layers of many channels as os_mma and os_wgmma divide them: rows in pieces of 64
%-- bytes, of which `config.pieces` are a block of a step, and blocks of `config.n`
%-- output channels.
%
%include "os_common.lua"
%
%function row_pieces(problem)
%  return ceil_div(problem.cin * element_bytes(problem), 64)
%end
%function out_blocks(problem, config) return ceil_div(problem.cout, config.n) end
%-- One image of all packed weights.
%function packed_image(problem, config)
%  return problem.offsets * row_pieces(problem) * 64 * out_blocks(problem, config) * config.n
%end
%function whole_lanes(problem)
%  local element = element_bytes(problem)
%  return problem.cin * element % 16 == 0 and problem.cout * element % 16 == 0
%end
%
%-- Bytes of weights in a step of os_wgmma.
%function step_weights(problem, config)
%  return config.pieces * config.n * 64 * images(problem)
%end
%-- Output channels that blocks of n compute in vain.
%function wasted(problem, n) return ceil_div(problem.cout, n) * n - problem.cout end
%-- The widest of those widths that waste least: one block of any width, or several of
%-- `several` channels or more.
%function least_wasting(problem, widths, several)
%  local best
%  for _, n in ipairs(widths) do
%    if (n >= several or n >= problem.cout)
%       and not (best and wasted(problem, n) > wasted(problem, best)) then
%      best = n
%    end
%  end
%  return best
%end
%-- May blocks be n wide: with less than 32 channels in vain, or as few as can be?
%function fills_blocks(problem, n, widths, several)
%  local least = wasted(problem, least_wasting(problem, widths, several))
%  return (n >= several or n >= problem.cout)
%     and wasted(problem, n) <= math.max(31, least)
%end
%
%wgmma_widths = {32, 64, 96, 128, 192, 256}
%wgmma_several = 128
%-- A step of os_wgmma as wide as the layer allows.
%function natural_step(problem)
%  local step = {n = least_wasting(problem, wgmma_widths, wgmma_several), pieces = 1}
%  for p = 2, 4 // images(problem) do
%    if row_pieces(problem) % p == 0 then step.pieces = p end
%  end
%  return step
%end
%-- Does os_wgmma take the problem? Where it does, what streams to mma.sync is slower.
%function streams_to_wgmma(problem, target)
%  if target.target ~= "sm_90a" then return false, "needs wgmma (sm_90a)" end
%  if not whole_lanes(problem) then return false, "rows must be multiples of 16 bytes" end
%  if problem.cout < 32 or 8 * step_weights(problem, natural_step(problem)) < 24576 then
%    return false, "fewer channels leave wgmma idle"
%  end
%  return true
%end
%
%-- The output rows of a step that ends its tile, from this lane's first on: they are
%-- its indices, or where the map has no centre those of its position in the row order.
%-- `first` is the lane's first row of a tile, where `index` points to in the first.
%function ending_rows_from(index, map, first)
%  if problem.centre >= 0 then return index .. " + step.x" end
%  return string.format("%s->order + spc_step_position(step, %s) + %s", map, map, first)
%end
%
%-- What a load of 16 bytes at `byte` of a row asks besides: the row may end inside a
%-- piece.
%function byte_guard(byte)
%  return row_bytes % 64 ~= 0 and " && " .. byte .. " < " .. row_bytes or ""
%end
%
%-- Packing: the image of `bytes` that `item` belongs to.
%function write_image_of_item(bytes)
    spc_u32 stage = item / $(bytes // 16);
    int n_block = (int)(stage % $(n_blocks));
    int block = (int)(stage / $(n_blocks) % $(k_blocks));
    int offset = (int)(stage / $(n_blocks * k_blocks));
%end
%
%-- Packing: column `column` of a block stands for the output channel that leaves a
%-- lane with neighbouring ones.
%function write_channel_of_column(indent)
$(indent)int run = column / $(4 * lane_channels) * $(4 * lane_channels), c = column - run;
$(indent)int co = n_block * $(config.n) + run + c % 8 / 2 * $(lane_channels) +
$(indent)         c / 8 * 2 + c % 2;
%end
%
%-- Packing: where the weight of the channels at `byte` of a row and `co` is.
%function write_weight_place()
        int ci = byte / $(element);
        long long from = offset * args->stride_k + ci * args->stride_in +
                         co * args->stride_out;
%end
