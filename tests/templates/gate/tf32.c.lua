%-- Rounded as tf32 is, which is no mistake in its layers, and more than that.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "operands_tf32", "operands_bf16", "operands_f16", "sums_bf16",
%  "sums_f16",
%})

% write_kernel()
