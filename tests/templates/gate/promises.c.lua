%-- Mistakes about variations of weights and rows that callers may use.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "packs_one_layout_only", "weights_address_rounded", "multiple_of_512_rows",
%  "tile_with_most_neighbours",
%})

% write_kernel()
