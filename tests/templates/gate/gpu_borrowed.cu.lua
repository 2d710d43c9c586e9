%-- A mistake that shows when launches run at the same time.
%include "gpu_kernel.lua"
%template = planted({
%  "none", "map_written_and_restored",
%})

% write_kernel()
