%-- Adds in order of arrival. One of the candidates does not declare this.
%include "gpu_kernel.lua"
%template = planted({"none", "atomics", "atomics_not_declared"})

% write_kernel()
