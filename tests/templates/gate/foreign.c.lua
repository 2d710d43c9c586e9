%-- They write where nothing is theirs.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "written_before_the_result", "written_behind_the_result",
%  "written_behind_the_workspace", "padding_rows_written", "input_overwritten",
%  "weights_overwritten", "bias_overwritten",
%})

% write_kernel()
