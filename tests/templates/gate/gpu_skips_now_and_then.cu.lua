%-- One launch of thirty leaves a tile out.
%include "gpu_kernel.lua"
%template = planted({"none", "tile_skipped_now_and_then"})

% write_kernel()
