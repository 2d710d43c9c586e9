%-- Mistakes that write to memory of other objects.
%include "gpu_kernel.lua"
%template = planted({
%  "none", "written_before_the_result", "written_behind_the_result",
%  "input_overwritten", "weights_overwritten", "index_overwritten",
%  "written_behind_the_order",
%})

% write_kernel()
