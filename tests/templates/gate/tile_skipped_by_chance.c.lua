%-- A launch leaves a tile out with a chance of one in thirty.
%include "cpu_kernel.lua"
%template = planted({"none", "tile_skipped_by_chance"})

% write_kernel()
