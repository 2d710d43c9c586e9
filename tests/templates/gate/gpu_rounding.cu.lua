%-- More rounding than in fp32, and one missing product.
%include "gpu_kernel.lua"
%template = planted({
%  "none", "operands_tf32", "product_dropped", "operands_of_16_bits",
%  "minute_inputs_are_zero", "large_inputs_are_clamped",
%})

% write_kernel()
