%-- The epilogue of a convolution: what becomes of an fp32 sum before it is stored,
%--
%--     y = sum * scale[c] + bias[c], activation, residual before or after it,
%--
%-- and the type that it is stored in. A problem asks by `scale` (1), `bias` (1), `act`
%-- (relu, leaky, sigmoid, silu, gelu, elu) with `slope`, and `add` (before, after); each
%-- is nil where it is not asked for, but bias, which is 0. What a problem does not ask
%-- for renders to nothing.
%
%-- Is there more than a bias?
%function has_epilogue(problem)
%  return problem.scale ~= nil or problem.act ~= nil or problem.add ~= nil
%end
%-- The residual comes before the activation, or behind it, or behind nothing else.
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
%-- y scaled and biased, by expressions of the channel's scale and bias.
%function affine(problem, y, scale, bias)
%  if problem.scale and problem.bias == 1 then
%    return "spc_fma(" .. y .. ", " .. scale .. ", " .. bias .. ")"
%  end
%  return y .. (problem.scale and " * " .. scale or "") ..
%    (problem.bias == 1 and " + " .. bias or "")
%end
%
%local function activation(problem)
%  return ({
%    relu = "y < 0.0f ? 0.0f : y",
%    leaky = "y < 0.0f ? " .. slope(problem) .. " * y : y",
%    sigmoid = "spc_divide(1.0f, 1.0f + spc_exp(-y))",
%    silu = "spc_divide(y, 1.0f + spc_exp(-y))",
%    gelu = "0.5f * y * (1.0f + spc_erf(0.707106781f * y))",
%    elu = "y < 0.0f ? " .. slope(problem) .. " * spc_expm1(y) : y",
%  })[problem.act]
%end
%-- The function `activate`, for kernels that have one.
%function write_activation(qualifier)
% if problem.act then
/* $(problem.act) */
$(qualifier) float activate(float y)
{
    return $(activation(problem));
}

% end
%end
%-- What is done to `y` once it is scaled and biased; `residual` is an expression.
%function write_rest(indent, y, residual)
% if adds_before(problem) then
$(indent)$(y) += $(residual);
% end
% if problem.act then
$(indent)$(y) = activate($(y));
% end
% if adds_after(problem) then
$(indent)$(y) += $(residual);
% end
%end
