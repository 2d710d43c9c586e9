%-- Layers of many channels as os_mma and os_wgmma divide them: rows in pieces of 64
%-- bytes, of which `config.pieces` are a block of a step, and blocks of `config.n`
%-- output channels.
%
%include "operands.lua"
%
%-- Of all parts.
%function out_blocks(problem, config)
%  return parts_of(problem) * ceil_div(part_cout(problem), config.n)
%end
%-- One image of all packed weights.
%function packed_image(problem, config)
%  return problem.offsets * row_pieces(problem) * 64 * out_blocks(problem, config) * config.n
%end
%
%-- Output channels that blocks of n compute in vain.
%function wasted(problem, n) return -part_cout(problem) % n end
%-- The widest of those widths that waste least: one block of any width, or several of
%-- `several` channels or more.
%function least_wasting(problem, widths, several)
%  local best
%  for _, n in ipairs(widths) do
%    if (n >= several or n >= part_cout(problem))
%       and not (best and wasted(problem, n) > wasted(problem, best)) then
%      best = n
%    end
%  end
%  return best
%end
%-- May blocks be n wide: with less than 32 channels in vain, or as few as can be?
%function fills_blocks(problem, n, widths, several)
%  local least = wasted(problem, least_wasting(problem, widths, several))
%  return (n >= several or n >= part_cout(problem))
%     and wasted(problem, n) <= math.max(31, least)
%end
%
%-- The output rows of a step that ends its tile, from this lane's first on: they are
%-- its indices, or where the map has no centre those of its position in the row order.
%-- `first` is the lane's first row of a tile, where `index` points to in the first.
%function ending_rows(index, map, first)
%  if problem.centre >= 0 then return index .. " + step.x" end
%  return string.format("%s->order + spc_step_position(step, %s) + %s", map, map, first)
%end
%
%-- What a load of 16 bytes at `byte` of a row asks besides: the row may end inside a
%-- piece.
%function byte_guard(byte)
%  local bytes = part_in_bytes(problem)
%  return bytes % 64 ~= 0 and " && " .. byte .. " < " .. bytes or ""
%end
%
%-- Packing: the image of `bytes` that `item` belongs to.
%function write_image_of_item(bytes)
    spc_u32 stage = item / $(bytes // 16);
    int n_block = (int)(stage % $(n_blocks));
    int block = (int)(stage / $(n_blocks) % $(k_blocks));
    int offset = (int)(stage / $(n_blocks * k_blocks));
%end
