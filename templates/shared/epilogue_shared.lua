%-- Loads the operands of a tile's epilogue into shared memory before they are needed: each
%-- lane's parts of the residual, by asynchronous copies that run while the last step is
%-- multiplied, and once the scale and bias of a block's channels. Loading them on demand
%-- costs a trip to the last-level cache for each batch of stores, in sequence
%-- (docs/dev/experiments.md).
%
%-- Bytes of a row's residual that one lane finishes in one turn, and bytes of one copy of
%-- them; nil if they cannot be copied.
%local function unit_bytes(problem) return channels_of_lane(problem) * out_bytes(problem) end
%local function copied_piece(problem)
%  local piece = problem.add and residual_piece(problem, channels_of_lane(problem))
%  return piece and piece >= 8 and piece or nil
%end
%-- Shared memory for the residual of a tile, and for the channels' scale and bias.
%function residual_bytes(problem, config, rows)
%  return copied_piece(problem) and rows * config.n * out_bytes(problem) or 0
%end
%local function has_scale(problem) return problem.scale and 1 or 0 end
%function factor_bytes(problem, columns)
%  return has_epilogue(problem) and (has_scale(problem) + problem.bias) * columns * 4 or 0
%end
%
%-- `derive` must provide residual_at and factors_at (nil where nothing is loaded ahead),
%-- `columns_of_block`, and `consumers`, the number of threads that finish tiles. A lane
%-- stores the rows row[0] and row[1].
%
%local function place(j, h, at, piece)
%  local pieces = unit_bytes(problem) // piece
%  return string.format("spc_shared() + %d + (((%s) * 2 + %s) * %d + %d) * %d + spc_thread() * %d",
%                       residual_at, j, h, pieces, at // piece, consumers * piece, piece)
%end
%
%-- Writes fetch_residual, which starts the copies of this lane's parts of the residual of
%-- two rows, and fetch_factors.
%function write_fetches()
% if residual_at then
%   local piece, lane, bytes = copied_piece(problem), lane_channels, out_bytes(problem)
/* Copies this lane's parts of the residual of two output rows, as one group of
 * copies. */
SPC_DEVICE void fetch_residual(const int *row, const spc_conv_args *args)
{
    const spc_u8 *residual = (const spc_u8 *)args->residual;
    int first = spc_block_y() * $(config.n) + (spc_lane() & 3) * $(lane);

    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        const spc_u8 *from = residual + ((long long)row[h] * $(add_pitch(problem)) + first) * $(bytes);
        SPC_UNROLL
        for (int j = 0; j < $(config.n // (4 * lane)); j++) {
%   for at = 0, unit_bytes(problem) - 1, piece do
            int valid$(at) = row[h] >= 0 && first + j * $(4 * lane) + $(at // bytes) < $(problem.cout) ? $(piece) : 0;
            spc_copy_async$(piece)($(place("j", "h", at, piece)),
                             valid$(at) ? from + j * $(4 * lane * bytes) + $(at) : residual, valid$(at));
%   end
        }
    }
    spc_copy_commit();
}

% end
% if factors_at then
/* Loads the scale and the bias of the block's channels. */
SPC_DEVICE void fetch_factors(const spc_conv_args *args)
{
    float *to = (float *)(spc_shared() + $(factors_at));

    for (int i = spc_thread(); i < $(columns_of_block); i += $(consumers)) {
        int co = spc_block_y() * $(columns_of_block) + i;
%   if problem.scale then
        to[i] = co < $(problem.cout) ? spc_load_f32(args->scale + co) : 0.0f;
%   end
%   if problem.bias == 1 then
        to[i + $(has_scale(problem) * columns_of_block)] = co < $(problem.cout) ? spc_load_f32(args->bias + co) : 0.0f;
%   end
    }
    /* Only the consumers meet, because the loading warps are elsewhere. They
     * all have to see the factors that others have loaded. */
    spc_sync_named(1, $(consumers));
}

% end
%end
%
%-- Reads the factors of `count` channels, from the block's channel `first` on, into
%-- arrays. Also reads the words `added` of the residual for turn `j` and row h.
%local function write_factor(name, at, count, first)
            float $(name)[$(count)];
            SPC_UNROLL
            for (int i = 0; i < $(count); i += 4) {
                spc_b16 w = spc_shared_load16(spc_shared() + $(at) + ($(first) + i) * 4);
                $(name)[i] = spc_bits_f32(w.x);
                $(name)[i + 1] = spc_bits_f32(w.y);
                $(name)[i + 2] = spc_bits_f32(w.z);
                $(name)[i + 3] = spc_bits_f32(w.w);
            }
%end
%function write_factors(count, first)
% if factors_at and problem.scale then write_factor("scale", factors_at, count, first) end
% if factors_at and problem.bias == 1 then
%   write_factor("bias", factors_at + has_scale(problem) * columns_of_block * 4, count, first)
% end
%end
%function write_turn_residual()
% if residual_at then
%   local piece = copied_piece(problem)
            spc_u32 added[$(unit_bytes(problem) // 4)];
%   for at = 0, unit_bytes(problem) - 1, piece do
            spc_b$(piece) part$(at) = spc_shared_load$(piece)($(place("j", "h", at, piece)));
%     for i = 0, piece // 4 - 1 do
            added[$(at // 4 + i)] = part$(at).$(("xyzw"):sub(i + 1, i + 1));
%     end
%   end
% end
%end
