%-- More rounding than the layer's type allows, and one missing product.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "operands_tf32", "inputs_tf32", "weights_tf32", "operands_bf16",
%  "operands_f16", "sums_bf16", "sums_f16", "product_dropped",
%  "operands_of_16_bits", "weights_of_17_bits",
%})

% write_kernel()
