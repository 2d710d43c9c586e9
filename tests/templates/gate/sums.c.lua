%-- Mistakes of kernels that compare a sum over what they read, not that itself.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "inputs_are_summed", "weights_are_summed", "map_is_summed",
%})

% write_kernel()
