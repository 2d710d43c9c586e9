%-- Wrong on maps that have spare capacity and are filled again.
%include "gpu_kernel.lua"
%template = planted({"none", "atomics", "capacity_taken_for_rows", "row_order_kept_by_address"})

% write_kernel()
