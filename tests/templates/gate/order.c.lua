%-- Correct, but not the same twice.
%include "cpu_kernel.lua"
%template = planted({"none", "order_varies"})

% write_kernel()
