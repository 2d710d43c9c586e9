%-- Mistakes that write to memory of other objects.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "written_before_the_result", "written_behind_the_result",
%  "written_behind_the_workspace", "padding_rows_written", "input_overwritten",
%  "weights_overwritten", "weights_of_another_draw_cleared", "bias_overwritten", "written_far_behind",
%  "written_far_before", "order_overwritten", "index_overwritten",
%  "masks_overwritten", "tile_order_overwritten", "written_behind_the_index",
%  "written_before_the_order", "written_far_behind_the_order",
%})

% write_kernel()
