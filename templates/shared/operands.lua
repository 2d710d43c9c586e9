%-- The operands of a convolution: number formats, how the lanes divide a row, which
%-- output channel a column of a product holds, and how weights are packed accordingly.
%
%include "epilogue.lua"
%
%function ceil_div(a, b) return (a + b - 1) // b end
%
%-- ---- number formats --------------------------------------------------------------
%
%-- For each type of a problem: bytes of an element in memory; the number of images of
%-- the weights that wgmma reads, and the number of products of one multiplication (an
%-- fp32 product takes three tf32 products); the C type of an element on a GPU and on
%-- the host; the name of 16-bit types in function names for both; and the type of sums.
%local formats = {
%  f16 = {bytes = 2, images = 1, products = 1, device = "spc_u16", host = "spc_half",
%         short = "f16", host_short = "half"},
%  bf16 = {bytes = 2, images = 1, products = 1, device = "spc_u16", host = "spc_bfloat",
%          short = "bf16", host_short = "bfloat"},
%  tf32 = {bytes = 4, images = 1, products = 1, device = "float", host = "float"},
%  f32 = {bytes = 4, images = 2, products = 3, device = "float", host = "float"},
%  i8 = {bytes = 1, images = 1, products = 1, device = "spc_u8", host = "signed char",
%        host_short = "i8", sum = "int"},
%}
%function format_of(problem) return formats[problem.dtype] end
%function element_bytes(problem) return format_of(problem).bytes end
%function images(problem) return format_of(problem).images end
%function input_row_bytes(problem) return problem.cin * element_bytes(problem) end
%
%-- The type of sums, the conversion of a sum to the word that holds it, and back.
%function sum_type(problem) return format_of(problem).sum or "float" end
%function sum_bits(problem, sum)
%  return (sum_type(problem) == "int" and "(spc_u32)" or "spc_f32_bits") .. "(" .. sum .. ")"
%end
%function bits_sum(problem, bits)
%  return sum_type(problem) == "int" and "(int)" .. bits or "spc_bits_f32(" .. bits .. ")"
%end
%function sum_zero(problem) return sum_type(problem) == "int" and "0" or "0.0f" end
%-- Integers have a scale (epilogue.lua). Few kernels accept them.
%function has_whole(problem) return whole_in(problem) or whole_out(problem) end
%
%-- The format of the outputs and the residual.
%function out_format(problem) return formats[problem.out or problem.dtype] end
%function out_bytes(problem) return out_format(problem).bytes end
%
%-- Elements and bytes from row to row. This is more than the length of a row if the
%-- tensor is a slice.
%function out_pitch(problem) return problem.out_pitch or problem.cout end
%function add_pitch(problem) return problem.add_pitch or problem.cout end
%function input_pitch_bytes(problem)
%  return (problem.in_pitch or problem.cin) * element_bytes(problem)
%end
%-- The largest of 16, 8, 4, 2 and 1 that divides all arguments.
%function alignment_of(...)
%  local align = 16
%  for _, bytes in ipairs {...} do
%    while bytes % align ~= 0 do align = align // 2 end
%  end
%  return align
%end
%-- True for a layer without an epilogue, without slices, and without a separate type
%-- for the outputs.
%function is_plain(problem)
%  return not has_epilogue(problem) and not problem.in_pitch and not problem.out_pitch
%     and not problem.out and problem.dtype ~= "bf16"
%end
%
%-- The alignment of the first bytes of input rows, and of their ends.
%function input_alignment(problem)
%  return alignment_of(input_row_bytes(problem), input_pitch_bytes(problem))
%end
%
%-- Only layers with several groups have the attribute `groups`.
%function groups_of(problem) return problem.groups or 1 end
%function group_in(problem) return problem.cin // groups_of(problem) end
%function group_out(problem) return problem.cout // groups_of(problem) end
%
%-- Groups are processed in parts. A part has as many groups as 64 bytes of a row are
%-- inputs of, and parts begin at multiples of 4 bytes of inputs and 16 bytes of outputs.
%-- Otherwise all groups form one part. The weights of a part are a matrix of blocks that
%-- is zero outside the diagonal. Without groups the whole layer is the part.
%function parts_of(problem)
%  local groups, element = groups_of(problem), element_bytes(problem)
%  local function divides(parts)
%    return groups % parts == 0 and input_row_bytes(problem) // parts >= 64
%       and input_row_bytes(problem) // parts % 4 == 0
%       and problem.cout // parts * element % 16 == 0
%  end
%  local parts = groups
%  while parts > 1 and not divides(parts) do parts = parts - 1 end
%  return parts
%end
%function part_in_bytes(problem) return input_row_bytes(problem) // parts_of(problem) end
%function part_cout(problem) return problem.cout // parts_of(problem) end
%
%-- f32 only: splits a number into two tf32 numbers.
%function write_split()
% if problem.dtype == "f32" then
/*
 * An fp32 product from three tf32 products: large * large + large * small +
 * small * large (Henry, Tang, Heinecke, 2019). The omitted term is below 2^-22
 * of the product.
 */
SPC_DEVICE void split(spc_u32 *large, spc_u32 *small, spc_u32 v)
{
    *large = spc_f32_to_tf32(spc_bits_f32(v));
    *small = spc_f32_to_tf32(spc_bits_f32(v) - spc_bits_f32(*large));
}

% end
%end
%-- The bits of `value`, f32 or tf32, as an operand, and for f32 the remainder.
%function write_operand(indent, large, small, value)
% if problem.dtype == "f32" then
$(indent)split(&$(large), &$(small), $(value));
% else
$(indent)$(large) = spc_f32_to_tf32(spc_bits_f32($(value)));
% end
%end
%
%-- ---- rows -------------------------------------------------------------------------
%
%-- A quad of lanes reads 64 bytes of a row, 16 bytes for each lane, if the row has that
%-- many and they are aligned. Shorter or less aligned rows are read in smaller parts.
%
%function row_pieces(problem) return ceil_div(part_in_bytes(problem), 64) end
%
%-- Neighbouring channels that a lane stores: 16 bytes in the type of the inputs, but
%-- only 8 bytes of int8.
%function channels_of_lane(problem) return math.min(16 // element_bytes(problem), 8) end
%
%-- The pieces of a row: `bytes` for each lane (16, 8, 4) at byte `at` of the row;
%-- `left` bytes of the row remain from there on.
%function lane_pieces(problem)
%  local row = input_row_bytes(problem)
%  local align = input_alignment(problem)
%  local pieces, at = {}, 0
%  while at < row do
%    local left, bytes = row - at, 4
%    if align >= 16 and left > 32 then bytes = 16
%    elseif align >= 8 and left > 16 then bytes = 8 end
%    pieces[#pieces + 1] = {at = at, bytes = bytes, left = left}
%    at = at + 4 * bytes
%  end
%  return pieces
%end
%
%-- One k-step multiplies two registers of a lane's piece (or one register, and zero).
%-- Also returns the registers of a lane's part of a row. `lanes` lanes of a quad have
%-- a part.
%function k_steps(problem)
%  local steps, register = {}, 0
%  for _, piece in ipairs(lane_pieces(problem)) do
%    for i = 0, piece.bytes // 4 - 1, 2 do
%      steps[#steps + 1] = {at = piece.at + 4 * i, stride = piece.bytes,
%                           lanes = math.min(4, piece.left // piece.bytes),
%                           pair = piece.bytes > 4, register = register + i}
%    end
%    register = register + piece.bytes // 4
%  end
%  return steps, register
%end
%
%-- ---- columns and channels -----------------------------------------------------------
%
%-- A lane of a quad ends with two columns of each eight columns of a product. The columns
%-- of a run of `span` columns are permuted, so that a lane's columns are neighbouring
%-- channels, 16 bytes of them if the layer has enough. Lane q has `lane` channels of the
%-- run from q * lane on. Column c of a run holds channel c % 8 / 2 * lane + c / 8 * 2 + c
%-- % 2, and the i-th channel of lane q is column i / 2 * 8 + q * 2 + i % 2.
%
%-- The runs that `columns` columns consist of; the last may be shorter.
%function runs_of(columns, span)
%  local runs = {}
%  for first = 0, columns - 1, span do
%    local width = math.min(span, columns - first)
%    runs[#runs + 1] = {first = first, span = width, lane = width // 4}
%  end
%  return runs
%end
%
%-- The channel of column `eight` + g, where `eight` is a multiple of 8 and g is 0 to 7.
%function channel_of_column(columns, span, eight, g)
%  if span == 8 then return string.format("%d + %s", eight, g) end
%  local run = runs_of(columns, span)[eight // span + 1]
%  return string.format("%d + (%s >> 1) * %d + (%s & 1)",
%    run.first + (eight - run.first) // 4, g, run.lane, g)
%end
%
%-- The number of the sum that holds a lane's i-th channel of the run that begins at
%-- column `first`, for row `h` of the lane's two rows.
%function sum_of_channel(first, h)
%  return first .. " + i / 2 * 4 + " .. h .. " * 2 + i % 2"
%end
%
%-- ---- packing ----------------------------------------------------------------------
%
%-- The term that gradients of layers with groups add to the address of a weight
%-- (spc_abi.h).
%function group_stride(co)
%  if problem.pass ~= "dgrad" or not problem.groups then return "" end
%  return " + (" .. co .. ") / " .. group_out(problem) .. " * args->stride_group"
%end
%
%-- Packed weights are words. A word holds the weights that are multiplied by the same
%-- 4 bytes of an input row, for one output channel. A kernel that keeps several images
%-- of f32 weights passes which `image` it wants (`split`); otherwise f32 weights stay
%-- unchanged.
%function write_weight_word(split)
% local several = split and images(problem) > 1
/* The weights for the 4 bytes of an input row at `byte`, for channel co; 0
 * outside the layer. */
% if several then
SPC_DEVICE spc_u32 weight_word(const spc_pack_args *args, int offset, int byte,
                               int co, int image)
% else
SPC_DEVICE spc_u32 weight_word(const spc_pack_args *args, int offset, int byte,
                               int co)
% end
{
    const $(format_of(problem).device) *weights =
        (const $(format_of(problem).device) *)args->weights;
    int ci = byte / $(element_bytes(problem));
    long long at = offset * args->stride_k + ci * args->stride_in +
                   co * args->stride_out;

    if (ci >= $(problem.cin) || co >= $(problem.cout))
        return 0;
% if element_bytes(problem) == 1 then
    spc_u32 word = 0;
    for (int i = 0; i < 4 && ci + i < $(problem.cin); i++)
        word |= (spc_u32)weights[at + i * args->stride_in] << 8 * i;
    return word;
% elseif element_bytes(problem) == 2 then
    spc_u32 low = weights[at];
    spc_u32 high = ci + 1 < $(problem.cin) ? weights[at + args->stride_in] : 0u;
    return low | high << 16;
% elseif several then
    spc_u32 large = spc_f32_to_tf32(weights[at]);
    return image == 0 ? large
                      : spc_f32_to_tf32(weights[at] - spc_bits_f32(large));
% elseif problem.dtype == "tf32" then
    return spc_f32_to_tf32(weights[at]);
% else
    return spc_f32_bits(weights[at]);
% end
}

%end
%-- Writes `co`, the channel of `column` out of `columns`; block 0 begins with channel
%-- `first`.
%function write_channel_of_column(indent, columns, span, first)
$(indent)int run = column / $(span) * $(span), c = column - run;
$(indent)int lane_channels = $(columns) - run < $(span) ? $(columns % span // 4) : $(span // 4);
$(indent)int co = $(first) + run + c % 8 / 2 * lane_channels + c / 8 * 2 + c % 2;
%end
%
%-- Writes the end of a packing kernel, which stores the words `v` as the 16 bytes
%-- number `item`.
%function write_packed(item)
    spc_b16 w;
    w.x = v[0];
    w.y = v[1];
    w.z = v[2];
    w.w = v[3];
    spc_store16((spc_u8 *)args->packed + $(item) * 16, w);
    spc_fence_global();
%end
