%-- Sums of many halves that are kept as halves.
%include "cpu_kernel.lua"
%template = planted({"none", "sums_f16"})

% write_kernel()
