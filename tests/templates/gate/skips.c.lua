%-- Work is left undone that seems to be done already.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "first_rows_say_done", "first_row_says_done",
%  "odd_tiles_say_done", "one_tile_of_four_says_done",
%  "half_the_rows_say_done", "other_inputs_unseen",
%  "other_weights_unseen", "odd_tiles_miss_weights",
%  "half_the_weights_unseen", "other_bias_unseen",
%  "other_map_unseen",
%})

% write_kernel()
