%-- Mistakes that show with many rows.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "row_in_two_bytes", "tile_behind_2_to_the_16", "more_than_3000_rows",
%})

% write_kernel()
