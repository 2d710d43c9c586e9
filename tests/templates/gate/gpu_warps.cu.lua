%-- Sums in order of arrival within a block; one of the candidates does not declare
%-- it.
%include "gpu_kernel.lua"
%template = planted({"none", "warps_add", "warps_add_not_declared"})

% write_kernel()
