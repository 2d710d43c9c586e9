%-- Rounding to tf32, which is correct for its layers, and coarser rounding.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "operands_tf32", "operands_bf16", "operands_f16", "sums_bf16",
%  "sums_f16",
%})

% write_kernel()
