%-- Mistakes that affect every launch of every layer.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "bias_dropped", "bias_of_the_next", "kernel_flipped",
%  "last_offset_missing", "centre_twice", "absent_is_row_0", "last_row_clamped",
%  "row_in_a_byte", "twenty_offsets_only", "last_input_missing", "result_f16",
%  "result_too_large_by_a_hair", "result_not_negative", "one_is_not_a_number",
%  "operands_bf16", "operands_f16", "rows_swapped", "last_channels_missing",
%  "last_tile_missing", "row_alone_in_its_tile_missing",
%  "scene_of_one_row_missing", "adds_to_the_result", "adds_unless_poisoned",
%  "writes_poison_only", "workspace_taken_for_zeros", "workspace_times_zero",
%  "input_read_behind_times_zero", "last_of_three_mod_seven",
%  "last_of_eleven_mod_sixteen", "row_beginning_with_zero_missing",
%  "zero_weight_is_one", "zero_bias_is_one", "no_number_is_zero",
%  "absent_times_zero", "input_address_rounded", "output_address_rounded",
%  "bias_address_rounded", "infinite_input_is_zero", "infinite_result_is_finite",
%  "infinite_result_has_no_sign", "weight_no_number_is_zero",
%  "bias_no_number_is_zero",
%  "bias_of_16_bits", "large_inputs_are_clamped", "large_inputs_are_lost",
%  "minute_inputs_are_zero", "minute_weights_are_zero",
%  "sizes_of_a_list_only",
%})

% write_kernel()
