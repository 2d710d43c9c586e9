%-- Right, but not twice the same.
%include "gpu_kernel.lua"
%template = planted({"none", "order_varies", "warps_add_not_declared"})

% write_kernel()
