%-- One launch in thirty skips a tile.
%include "gpu_kernel.lua"
%template = planted({"none", "tile_skipped_now_and_then"})

% write_kernel()
