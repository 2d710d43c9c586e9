%-- Mistakes that affect every launch.
%include "gpu_kernel.lua"
%template = planted({
%  "none", "at_once", "barrier_before_products_missing",
%  "barrier_after_products_missing", "wait_missing", "wait_for_one_too_few",
%  "commit_missing", "shared_row_not_cleared", "tile_of_another_block",
%  "bias_dropped", "absent_is_row_0", "last_tile_missing",
%  "adds_unless_poisoned", "writes_poison_only", "workspace_taken_for_zeros",
%  "input_address_rounded", "output_address_rounded",
%})

% write_kernel()
