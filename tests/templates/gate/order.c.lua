%-- Correct results, but other bits in each launch.
%include "cpu_kernel.lua"
%template = planted({"none", "order_varies"})

% write_kernel()
