%-- A launch skips a tile with a probability of one in thirty.
%include "cpu_kernel.lua"
%template = planted({"none", "tile_skipped_by_chance"})

% write_kernel()
