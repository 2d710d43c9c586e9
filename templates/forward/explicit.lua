%-- The matrix of gathered rows that an explicit GEMM multiplies, in the workspace. For each
%-- position of the map and each offset it has the input row, padded to a multiple of 64
%-- bytes, or zeros.
%
%include "operands.lua"
%
%local function offset_bytes(problem) return row_pieces(problem) * 64 end
%function matrix_bytes(problem) return problem.offsets * offset_bytes(problem) end
%-- Blocks that share the offsets of a tile.
%function matrix_parts(problem) return math.min(problem.offsets, 8) end
%
%-- A million rows of this many bytes would fill a GPU.
%local most_bytes = 32768
%function matrix_accepts(problem)
%  if matrix_bytes(problem) > most_bytes then
%    return false, "rows of the matrix would have more than 32 KiB"
%  end
%  return true
%end
%
%-- Writes the kernel spc_conv, with matrix_parts() blocks in y for each tile of
%-- `rows`.
%function write_gather(rows)
% local align, pieces = input_alignment(problem), offset_bytes(problem) // 16
/* 16 bytes of an input row from byte `at` on; 0 past its end. */
SPC_DEVICE spc_b16 input_part(const spc_u8 *row, int at)
{
    spc_u32 v[4];
    spc_b16 part;

    SPC_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = 0;
% if align >= 4 then
    SPC_UNROLL
    for (int i = 0; i < 16; i += $(align))
        spc_load$(align)_into(v + i / 4, row + at + i, at + i < $(input_row_bytes(problem)) ? 0 : -1);
% else
    SPC_UNROLL
    for (int i = 0; i < 16; i += 2)
        if (at + i < $(input_row_bytes(problem)))
            v[i / 4] |= (spc_u32)spc_load2(row + at + i) << i % 4 * 8;
% end
    part.x = v[0];
    part.y = v[1];
    part.z = v[2];
    part.w = v[3];
    return part;
}

/* A block writes a tile of the matrix at every $(matrix_parts(problem))-th offset. */
SPC_KERNEL(spc_conv, spc_conv_args, 256, 1)
{
    const spc_map_view *map = &args->map;
    int tile = spc_load_int(map->tile_order + spc_block_x());
    const spc_u8 *in = (const spc_u8 *)args->in;

    spc_depend_wait();
    spc_depend_launch();
    if (tile < 0)
        return;
    for (int k = spc_block_y(); k < $(problem.offsets); k += $(matrix_parts(problem))) {
        for (int item = spc_thread(); item < $(rows * pieces); item += 256) {
            int p = tile * $(rows) + item / $(pieces), at = item % $(pieces) * 16;
            int row = spc_load_int(map->index + (long long)k * map->rows_padded + p);
            spc_b16 part = {0, 0, 0, 0};
            if (row >= 0)
                part = input_part(in + (long long)row * $(input_pitch_bytes(problem)), at);
            spc_store16((spc_u8 *)args->workspace + (long long)p * $(matrix_bytes(problem)) +
                            k * $(pieces * 16) + at,
                        part);
        }
    }
}

%end
