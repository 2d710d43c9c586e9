%-- As if nothing were left to do where the result is there.
%include "gpu_kernel.lua"
%template = planted({"none", "slower_over_another_result"})

% write_kernel()
