%-- They write where nothing is theirs.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "written_before_the_result", "written_behind_the_result",
%  "written_behind_the_workspace", "input_overwritten", "weights_overwritten",
%  "bias_overwritten",
%})

% write_kernel()
