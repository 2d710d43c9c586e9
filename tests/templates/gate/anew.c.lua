%-- Wrong on maps that have spare capacity and are filled again.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "capacity_taken_for_rows", "row_order_kept_by_address",
%  "tile_order_kept_by_address",
%})

% write_kernel()
