%-- Rounded more than fp32 is, and one product too few.
%include "gpu_kernel.lua"
%template = planted({
%  "none", "operands_tf32", "product_dropped", "operands_of_16_bits",
%  "minute_inputs_are_zero", "large_inputs_are_clamped",
%})

% write_kernel()
