%-- Correct, but not the same twice.
%include "gpu_kernel.lua"
%template = planted({
%  "none", "order_varies", "warps_add_not_declared", "order_by_the_inputs_address",
%})

% write_kernel()
