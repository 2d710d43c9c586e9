%-- Wrong where tiles of other costs are in the map that was there before.
%include "gpu_kernel.lua"
%template = planted({"none", "tile_order_kept_by_address"})

% write_kernel()
