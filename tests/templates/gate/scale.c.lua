%-- Mistakes about scales.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "scale_clamped_at_2", "scale_of_zero_is_one", "scale_below_a_sixteenth_is_zero",
%})

% write_kernel()
