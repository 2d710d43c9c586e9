%-- The epilogue of a convolution: the operations on an fp32 sum before it is stored,
%--
%--     y = sum * scale[c] + bias[c], activation, residual before or after it,
%--
%-- and the conversion to the type of the outputs. A problem selects them by `scale` (1),
%-- `bias` (1), `act` (relu, leaky, sigmoid, silu, gelu, elu) with `slope`, and `add`
%-- (before, after). Each is nil if the problem does not select it, except bias, which is
%-- 0. Operations that are not selected render to nothing. operands.lua includes this
%-- file and defines the type and pitch of the outputs.
%
%-- The values of a tensor of integers (i8) are its integers times a scale. A sum is
%-- first multiplied by the scale of the inputs (and scale[c]), a residual by its own
%-- scale. Results are divided by the scale of the outputs before they are rounded.
%
%function whole_in(problem) return problem.dtype == "i8" end
%function whole_out(problem) return (problem.out or problem.dtype) == "i8" end
%
%-- True if the epilogue has more than a bias.
%function has_epilogue(problem)
%  return problem.scale ~= nil or problem.act ~= nil or problem.add ~= nil
%     or whole_in(problem) or whole_out(problem)
%end
%-- True if sums are multiplied. Then the bias is added after the product, else before
%-- everything.
%function is_scaled(problem) return problem.scale ~= nil or whole_in(problem) end
%function starts_with_bias(problem) return problem.bias == 1 and not is_scaled(problem) end
%-- Whether the residual is added before or after the activation.
%function adds_before(problem) return problem.add == "before" end
%function adds_after(problem) return problem.add == "after" end
%
%-- A number as a literal of type float.
%function float_text(value)
%  local text = string.format("%.9g", tonumber(value))
%  return text .. (text:find("[.e]") and "" or ".0") .. "f"
%end
%local function slope(problem)
%  return float_text(problem.slope or (problem.act == "leaky" and 0.01 or 1))
%end
%
%-- Writes y scaled and biased, given expressions of the channel's scale and bias. Kernels
%-- of integers must call write_scales first.
%function affine(problem, y, scale, bias)
%  if whole_in(problem) then
%    scale = problem.scale and "(in_scale * " .. scale .. ")" or "in_scale"
%  end
%  if is_scaled(problem) and problem.bias == 1 then
%    return "spc_fma(" .. y .. ", " .. scale .. ", " .. bias .. ")"
%  end
%  return y .. (is_scaled(problem) and " * " .. scale or "") ..
%    (problem.bias == 1 and " + " .. bias or "")
%end
%-- Writes the scales of tensors of integers, given functions that load a float and that
%-- compute the reciprocal of a float.
%function write_scales(indent, load, reciprocal)
% if whole_in(problem) then
$(indent)float in_scale = $(load("args->in_scale"));
% end
% if whole_out(problem) then
%   if problem.add then
$(indent)float residual_scale = $(load("args->residual_scale"));
%   end
$(indent)float out_inverse = $(reciprocal(load("args->out_scale")));
% end
%end
%
%-- An activation of `y`, as an expression; `slope` is an expression, too, for the
%-- activation's slope.
%function activation_of(act, slope)
%  return ({
%    none = "y",
%    relu = "y < 0.0f ? 0.0f : y",
%    leaky = "y < 0.0f ? " .. slope .. " * y : y",
%    sigmoid = "spc_divide(1.0f, 1.0f + spc_exp(-y))",
%    silu = "spc_divide(y, 1.0f + spc_exp(-y))",
%    gelu = "0.5f * y * (1.0f + spc_erf(0.707106781f * y))",
%    elu = "y < 0.0f ? " .. slope .. " * spc_expm1(y) : y",
%  })[act]
%end
%-- The derivative of an activation as an expression of `y`. At 0 it is the derivative
%-- for negative numbers.
%function derivative_of(act, slope)
%  return ({
%    relu = "y > 0.0f ? 1.0f : 0.0f",
%    leaky = "y > 0.0f ? 1.0f : " .. slope,
%    sigmoid = "spc_divide(1.0f, 1.0f + spc_exp(-y)) * spc_divide(1.0f, 1.0f + spc_exp(y))",
%    silu = "spc_divide(1.0f, 1.0f + spc_exp(-y)) * (1.0f + y * spc_divide(1.0f, 1.0f + spc_exp(y)))",
%    gelu = "0.5f * (1.0f + spc_erf(0.707106781f * y)) + 0.39894228f * y * spc_exp(-0.5f * y * y)",
%    elu = "y > 0.0f ? 1.0f : " .. slope .. " * spc_exp(y)",
%  })[act]
%end
%-- Writes the function `activate` for kernels that have an activation.
%function write_activation(qualifier)
% if problem.act then
/* $(problem.act) */
$(qualifier) float activate(float y)
{
    return $(activation_of(problem.act, slope(problem)));
}

% end
%end
%-- Writes the operations that follow scale and bias of `y`; `residual` is an
%-- expression.
%function write_rest(indent, y, residual)
% if whole_out(problem) then residual = residual .. " * residual_scale" end
% if adds_before(problem) then
$(indent)$(y) += $(residual);
% end
% if problem.act then
$(indent)$(y) = activate($(y));
% end
% if adds_after(problem) then
$(indent)$(y) += $(residual);
% end
% if whole_out(problem) then
$(indent)$(y) *= out_inverse;
% end
%end
%
%-- ---- on a GPU -------------------------------------------------------------------
%
%-- Packs two numbers into a word of the outputs' 16-bit type. Also the i-th number of
%-- an array of such words, or of words that hold one number each.
%function pack_pair(low, high)
%  return "spc_pack_" .. out_format(problem).short .. "(" .. low .. ", " .. high .. ")"
%end
%function unpacked(words, i)
%  if out_bytes(problem) == 1 then
%    return string.format("spc_i8_to_f32(%s[(%s) / 4], (%s) %% 4)", words, i, i)
%  end
%  if out_bytes(problem) == 4 then return "spc_bits_f32(" .. words .. "[" .. i .. "])" end
%  return string.format("spc_%s_to_f32((spc_u16)(%s[(%s) / 2] >> (%s) %% 2 * 16))",
%                       out_format(problem).short, words, i, i)
%end
%
%function write_device_scales(indent)
%  write_scales(indent, function(p) return "spc_load_f32(" .. p .. ")" end,
%               function(v) return "spc_reciprocal(" .. v .. ")" end)
%end
%-- The bytes of the residual of `count` channels that one load takes; nil if it is loaded
%-- channel by channel.
%function residual_piece(problem, count)
%  local bytes, row = out_bytes(problem), add_pitch(problem) * out_bytes(problem)
%  local load = math.min(16, count * bytes)
%  local fits = load >= 4 and alignment_of(row, problem.cout * bytes, load) == load
%  return problem.add and fits and load or nil
%end
%local function added_piece(count) return residual_piece(problem, count) end
%-- Loads the residual of row[h] from channel `co` on into the words at `to` if `store` is
%-- true; else the words are 0.
%function write_lane_added(count, to, co, store)
% local bytes, load = out_bytes(problem), added_piece(count)
            SPC_UNROLL
            for (int word = 0; word < $(count * bytes // 4); word++)
                /* The load below leaves words as they are if the row is not
                 * stored. */
                ($(to))[word] = 0;
% for at = 0, count * bytes - 1, load do
            spc_load$(load)_into($(to) + $(at // 4),
                            (const spc_u8 *)args->residual +
                                ((long long)row[h] * $(add_pitch(problem)) + $(co)) * $(bytes) + $(at),
                            $(store) ? 0 : -1);
% end
%end
%-- The number of turns, out of `turns` with two rows and `count` channels each, whose
%-- residual is loaded into at most `room` registers before the first of them is finished.
%-- Loading ahead is needed because loads do not move up past stores. At least 1; nil if the
%-- residual is not loaded in words.
%function added_batch(count, turns, room)
% if not added_piece(count) then return nil end
% return math.min(turns, math.max(1, room // (2 * count * out_bytes(problem) // 4)))
%end
%
%-- v[i] = the epilogue of `value`, a sum, for output channel co + i, if the row is stored:
%-- the row is row[h], and `store` is the condition. `ready` names the residual if it was
%-- loaded before. `factors` is true if scale and bias were loaded before, into arrays of
%-- these names.
%function write_lane_values(count, value, ready, factors)
% if whole_in(problem) then value = "spc_int_to_f32(" .. value .. ")" end
% write_device_scales("            ")
% local each = "0.0f"
% local inside = problem.cout % count == 0 and "store" or "store && co + i < " .. problem.cout
% if ready then
%   each = unpacked("(" .. ready .. ")", "i")
% elseif added_piece(count) then
            spc_u32 added[$(count * out_bytes(problem) // 4)];
%   write_lane_added(count, "added", "co", "store")
%   each = unpacked("added", "i")
% elseif problem.add then
%   each = "(" .. inside .. " ? " .. added_number("(long long)row[h] * " .. add_pitch(problem) .. " + co + i") .. " : 0.0f)"
% end
            SPC_UNROLL
            for (int i = 0; i < $(count); i++) {
                v[i] = $(value);
% if factors and starts_with_bias(problem) then
                v[i] += bias[i];
% elseif factors and is_scaled(problem) then
                v[i] = $(affine(problem, "v[i]", "scale[i]", "bias[i]"));
% elseif starts_with_bias(problem) then
                if ($(inside))
                    v[i] += spc_load_f32(args->bias + co + i);
% elseif is_scaled(problem) then
                if ($(inside))
                    v[i] = $(affine(problem, "v[i]", "spc_load_f32(args->scale + co + i)", "spc_load_f32(args->bias + co + i)"));
% end
% write_rest("                ", "v[i]", each)
            }
%end
%
%-- Element `at` of the residual as a number.
%function added_number(at)
% if out_bytes(problem) == 4 then return "spc_load_f32((const float *)args->residual + " .. at .. ")" end
% if out_bytes(problem) == 1 then return "spc_i8_to_f32(spc_load1((const spc_u8 *)args->residual + " .. at .. "), 0)" end
% return "spc_" .. out_format(problem).short .. "_to_f32(spc_load2((const spc_u16 *)args->residual + " .. at .. "))"
%end
%
%-- The alignment that both output rows and the last channels of a row have.
%function output_alignment(problem)
%  return alignment_of(out_pitch(problem) * out_bytes(problem), problem.cout * out_bytes(problem))
%end
%-- Stores the floats `v` of `count` channels from `co` on at `to`, a pointer to bytes.
%-- The stores are as large as the alignment of rows and of their last channels allows,
%-- or as `align`.
%function write_lane_store(count, to, align)
% local bytes = out_bytes(problem)
% local part = alignment_of(align or output_alignment(problem), count * bytes)
% for at = 0, count - 1, part // bytes do
%   write_part_store(count, at, part, to)
% end
%end
%
%-- Packs up to four integers from v[c] on, as many as a part of `part` bytes holds.
%function packed_bytes_of(c, part)
%  local v = function(i) return i < part and "v[" .. c + i .. "]" or "0.0f" end
%  if part == 1 then return "(spc_u8)spc_f32_to_i8(" .. v(0) .. ")" end
%  return (part == 2 and "(spc_u16)" or "") ..
%    string.format("spc_pack_i8(%s, %s, %s, %s)", v(0), v(1), v(2), v(3))
%end
%-- Stores the part of `part` bytes at channel `at`.
%function write_part_store(count, at, part, to)
% local bytes, words = out_bytes(problem), {}
% local place = to .. (at > 0 and " + " .. at * bytes or "")
% local whole = at == 0 or problem.cout % count == 0
% local guard = whole and "store" or "store && co + " .. at .. " < " .. problem.cout
% for c = at, at + part // bytes - 1, bytes == 1 and 4 or bytes == 2 and 2 or 1 do
%   table.insert(words, bytes == 1 and packed_bytes_of(c, part)
%     or bytes == 4 and "spc_f32_bits(v[" .. c .. "])"
%     or part == 2 and "spc_f32_to_" .. out_format(problem).short .. "(v[" .. c .. "])"
%     or pack_pair("v[" .. c .. "]", "v[" .. c + 1 .. "]"))
% end
% if part <= 4 then
            if ($(guard))
                spc_store$(part)($(place), $(words[1]));
% else
            spc_b$(part) w$(at);
%   for i, name in ipairs {"x", "y", "z", "w"} do
%     if words[i] then
            w$(at).$(name) = $(words[i]);
%     end
%   end
            if ($(guard))
                spc_store$(part)($(place), w$(at));
% end
%end
%
%-- ---- on a host ------------------------------------------------------------------------
%
%-- Writes the function `finish_row`: the epilogue, in place, of the sums of `channels`
%-- channels of output row `row`, from channel `first` on. A bias without a scale is
%-- already in the sums. `most` is an expression for the largest number of channels.
%function write_finish_row(most)
% if has_epilogue(problem) then
% write_activation("SPC_INLINE")
/*
 * Applies scale, bias, activation and residual, those that the layer has.
 */
static void finish_row(float *restrict sums, const spc_conv_args *args,
                       long row, int first, int channels)
{
%   write_scales("    ", function(p) return "*" .. p end,
%                function(v) return "1.0f / " .. v end)
%   if problem.scale then
    const float *scale = args->scale + first;
%   end
%   if is_scaled(problem) and problem.bias == 1 then
    const float *bias = args->bias + first;
%   end
%   if problem.add then
%     local format = out_format(problem)
    const $(format.host) *residual =
        (const $(format.host) *)args->residual + row * $(add_pitch(problem)) + first;
    float added[$(most)];
%     if format.bytes < 4 then
    spc_row_from_$(format.host_short)(added, residual, channels);
%     else
    __builtin_memcpy(added, residual, (unsigned long)channels * sizeof(float));
%     end
%   end
    for (int i = 0; i < channels; i++) {
        float y = sums[i];
%   if is_scaled(problem) then
        y = $(affine(problem, "y", "scale[i]", "bias[i]"));
%   end
%   write_rest("        ", "y", "added[i]")
        sums[i] = y;
    }
}

% end
%end
%-- Stores `channels` floats at `to` in the type of the outputs.
%function write_host_store(indent, to, from)
% local format = out_format(problem)
% if format.bytes < 4 then
$(indent)spc_row_to_$(format.host_short)($(to), $(from), channels);
% else
$(indent)__builtin_memcpy($(to), $(from),
$(indent)                 (unsigned long)channels * sizeof(float));
% end
%end
