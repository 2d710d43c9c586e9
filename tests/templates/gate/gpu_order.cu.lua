%-- Right, but not twice the same.
%include "gpu_kernel.lua"
%template = planted({"none", "order_varies"})

% write_kernel()
