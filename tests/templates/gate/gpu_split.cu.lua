%-- Counters of the module, which two launches at the same time would share.
%include "gpu_kernel.lua"
%template = planted({"none", "split"})

% write_kernel()
