%-- How os_mma and os_wgmma divide layers of many channels: rows into pieces of 64
%-- bytes, of which a block of a step has `config.pieces`, and outputs into blocks of
%-- `config.n` channels.
%
%include "operands.lua"
%
%-- Number of blocks of output channels, over all parts.
%function out_blocks(problem, config)
%  return parts_of(problem) * ceil_div(part_cout(problem), config.n)
%end
%-- Bytes of one image of all packed weights.
%function packed_image(problem, config)
%  return problem.offsets * row_pieces(problem) * 64 * out_blocks(problem, config) * config.n
%end
%
%-- Unused output channels that blocks of n compute.
%function wasted(problem, n) return -part_cout(problem) % n end
%-- The widest of the widths with the least waste: one block of any width, or several
%-- blocks of at least `several` channels.
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
%-- True if blocks may be n wide: they waste fewer than 32 channels, or as few as
%-- possible.
%function fills_blocks(problem, n, widths, several)
%  local least = wasted(problem, least_wasting(problem, widths, several))
%  return (n >= several or n >= part_cout(problem))
%     and wasted(problem, n) <= math.max(31, least)
%end
%
%-- The output rows of a step that ends its tile, from this lane's first on. They are
%-- the step's indices or, if the map has no centre, the rows at its position in the
%-- row order. `first` is the lane's first row of a tile, which `index` points to in
%-- the first tile.
%function ending_rows(index, map, first)
%  if problem.centre >= 0 then return index .. " + step.x" end
%  return string.format("%s->order + spc_step_position(step, %s) + %s", map, map, first)
%end
%
%-- The additional condition of a load of 16 bytes at `byte` of a row, because the row
%-- may end inside a piece.
%function byte_guard(byte)
%  local bytes = part_in_bytes(problem)
%  return bytes % 64 ~= 0 and " && " .. byte .. " < " .. bytes or ""
%end
%
%-- Packing: computes the image of `bytes` that `item` belongs to.
%function write_image_of_item(bytes)
    spc_u32 stage = item / $(bytes // 16);
    int n_block = (int)(stage % $(n_blocks));
    int block = (int)(stage / $(n_blocks) % $(k_blocks));
    int offset = (int)(stage / $(n_blocks * k_blocks));
%end
%
%-- For a warp's 16-row tiles: acc += a k-step of their rows, in the operands `rows` (of tile
%-- m; c[m] for f32), times k-step `step` of the weights. `load` loads these in the order of
%-- second operands. `halves`: sums are fp16, two in a word.
%function write_step_products(load, step, rows, halves)
        SPC_UNROLL
        for (int j = 0; j < $(config.n // 16); j++) {
            spc_b16 v = $(load)(weights + (($(step)) * $(config.n // 16) + j) * 512);
            spc_u32 b[2][2];
            b[0][0] = v.x;
            b[0][1] = v.y;
            b[1][0] = v.z;
            b[1][1] = v.w;
% if problem.dtype == "f32" then
            spc_u32 d[2][2];
            SPC_UNROLL
            for (int i = 0; i < 4; i++)
                split(&b[i / 2][i % 2], &d[i / 2][i % 2], b[i / 2][i % 2]);
% end
            SPC_UNROLL
            for (int t = 0; t < 2; t++)
                SPC_UNROLL
                for (int m = 0; m < $(config.m); m++) {
% if halves then
                    spc_mma_f16_sums(acc + m * $(config.n // 4) + (j * 2 + t) * 2, $(rows), b[t]);
% else
                    $(sum_type(problem)) *to = acc + m * $(config.n // 2) + (j * 2 + t) * 4;
% end
% if halves then
% elseif element_bytes(problem) < 4 then
                    spc_mma_$(problem.dtype)(to, $(rows), b[t]);
% else
%   if problem.dtype == "f32" then
                    spc_mma_tf32(to, c[m], b[t]);
                    spc_mma_tf32(to, $(rows), d[t]);
%   end
                    spc_mma_tf32(to, $(rows), b[t]);
% end
                }
        }
%end
%
%-- For a warp's 16-row tiles: acc += piece p of their rows, in the operands a[m][s], times
%-- the same piece of the weights, which are at `weights` in the order of second operands.
%function write_tile_products(halves)
        SPC_UNROLL
        for (int s = 0; s < 2; s++) {
% if problem.dtype == "f32" then
            spc_u32 c[$(config.m)][4];
% end
% if element_bytes(problem) == 4 then
            SPC_UNROLL
            for (int i = 0; i < $(config.m * 4); i++) {
                spc_u32 v = a[i / 4][s][i % 4];
%   write_operand("                ", "a[i / 4][s][i % 4]", "c[i / 4][i % 4]", "v")
            }
% end
% write_step_products("spc_shared_load16", "p * 2 + s", "a[m][s]", halves)
        }
%end
