%-- Sums in order of arrival, one of them without saying so.
%include "gpu_kernel.lua"
%template = planted({"none", "atomics", "atomics_not_declared"})

% write_kernel()
