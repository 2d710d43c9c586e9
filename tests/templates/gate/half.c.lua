%-- Sums of halves that are halves themselves, and one product too few.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "operands_bf16", "sums_f16", "sums_bf16", "product_dropped",
%  "product_twice",
%})

% write_kernel()
