%-- Wrong if a tile of outputs has no input at all.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "tile_without_inputs_left", "tile_without_inputs_has_no_bias",
%})

% write_kernel()
