%-- Right, but not twice the same.
%include "cpu_kernel.lua"
%template = planted({"none", "order_varies"})

% write_kernel()
