%-- Two calls that run at the same time share a sum.
%include "cpu_kernel.lua"
%template = planted({"none", "sum_shared_by_threads"})

% write_kernel()
