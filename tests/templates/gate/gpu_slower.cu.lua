%-- As if nothing were left to do where the result is there.
%include "gpu_kernel.lua"
%template = planted({"none", "slower_over_other_inputs", "slower_over_a_filled_workspace"})

% write_kernel()
