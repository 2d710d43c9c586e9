%-- Wrong if the previous map had tiles of other costs.
%include "gpu_kernel.lua"
%template = planted({"none", "tile_order_kept_by_address"})

% write_kernel()
