%-- Mistakes that show with many rows.
%include "gpu_kernel.lua"
%template = planted({"none", "row_in_two_bytes", "tile_behind_2_to_the_16", "tile_behind_2_to_the_17"})

% write_kernel()
