%-- Right at first, and wrong because of what they keep.
%include "gpu_kernel.lua"
%template = planted({"none", "right_once"})

% write_kernel()
