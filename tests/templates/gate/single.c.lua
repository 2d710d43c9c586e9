%-- More rounding than the type allows, for one input channel.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "operands_tf32", "inputs_tf32", "weights_tf32", "operands_bf16",
%  "operands_f16",
%})

% write_kernel()
