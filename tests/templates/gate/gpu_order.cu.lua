%-- Correct results, but other bits in each launch.
%include "gpu_kernel.lua"
%template = planted({
%  "none", "order_varies", "warps_add_not_declared", "order_by_the_inputs_address",
%})

% write_kernel()
