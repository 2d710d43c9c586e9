%-- Sums of many halves that are halves themselves.
%include "cpu_kernel.lua"
%template = planted({"none", "sums_f16"})

% write_kernel()
