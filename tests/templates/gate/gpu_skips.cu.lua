%-- Work is left undone that seems to be done already.
%include "gpu_kernel.lua"
%template = planted({
%  "none", "first_rows_say_done", "half_the_rows_say_done", "other_inputs_unseen",
%  "other_weights_unseen", "other_map_unseen",
%})

% write_kernel()
