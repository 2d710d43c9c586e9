%-- Rounded more than fp32 is, and one product too few.
%include "gpu_kernel.lua"
%template = planted({"none", "operands_tf32", "product_dropped"})

% write_kernel()
