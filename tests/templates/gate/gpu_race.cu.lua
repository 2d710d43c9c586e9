%-- The last block reads results that other blocks have not written yet.
%include "gpu_kernel.lua"
%template = planted({"none", "split_not_awaited"})

% write_kernel()
