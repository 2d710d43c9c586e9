%-- Sums of halves that are halves themselves, and one product too few.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "sums_f16", "sums_bf16", "product_dropped", "product_twice",
%})

% write_kernel()
