%-- One product of 175616 too few or too many.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "product_dropped", "product_twice",
%})

% write_kernel()
