%-- Sums of halves that are kept as halves, and one missing product.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "operands_bf16", "sums_f16", "sums_bf16", "product_dropped",
%  "product_twice",
%  "large_sums_saturate", "small_inputs_are_zero", "small_sums_are_zero",
%  "inputs_clamped_at_1000",
%  "no_number_is_zero", "absent_times_zero", "infinite_input_is_zero",
%  "small_weights_are_zero", "inputs_above_four_are_whole",
%  "too_large_is_the_largest", "too_large_is_no_number",
%})

% write_kernel()
