%-- Mistakes that show past 2^17 rows.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "tile_behind_2_to_the_17", "row_in_17_bits",
%})

% write_kernel()
