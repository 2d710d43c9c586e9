%-- Correct, but results depend on the addresses of operands.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "order_by_the_inputs_address", "order_by_the_weights_address",
%  "order_by_the_workspaces_address",
%})

% write_kernel()
