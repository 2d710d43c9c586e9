%-- Sums in order of arrival; one of the candidates does not declare it.
%include "gpu_kernel.lua"
%template = planted({"none", "atomics", "atomics_not_declared"})

% write_kernel()
