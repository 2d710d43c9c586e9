%-- Wrong on maps that have room to spare and are filled anew.
%include "gpu_kernel.lua"
%template = planted({"none", "atomics", "capacity_taken_for_rows", "row_order_kept_by_address"})

% write_kernel()
