%-- Correct at first, then wrong because of data that is kept.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "right_once", "result_kept_by_address", "weights_of_the_first_pack",
%  "bias_of_the_first_launch", "right_eight_times", "workspace_says_done",
%})

% write_kernel()
