%-- Code that kernels of role "wgrad" share: the result, and how it is stored.
%
%include "operands.lua"
%
%-- Rows of the result: one for each input channel at each offset, and one for a bias.
%function taps_of(problem) return problem.offsets * group_in(problem) end
%
%-- Converts a stored number of a format to a float, and a float to the stored form.
%function number_of(format, stored)
%  return format.short and "spc_" .. format.short .. "_to_f32(" .. stored .. ")" or stored
%end
%function stored_of(format, number)
%  return format.short and "spc_f32_to_" .. format.short .. "(" .. number .. ")" or number
%end
%function load_of(format, p)
%  return number_of(format, (format.bytes == 2 and "spc_load2(" or "spc_load_f32(") .. p .. ")")
%end
%
%-- Writes the function store_sum.
%function write_store_sum()
typedef $(out_format(problem).device) result;

/* Stores the element at `at` of the result. */
SPC_DEVICE void store_sum(const spc_conv_args *args, long long at, float sum)
{
% if problem.accumulate then
    sum += $(number_of(out_format(problem), "((const result *)args->weights)[at]"));
% end
    ((result *)args->out)[at] = $(stored_of(out_format(problem), "sum"));
}

%end
