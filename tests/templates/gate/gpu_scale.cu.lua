%-- Mistakes about scales.
%include "gpu_kernel.lua"
%template = planted({
%  "none", "scale_clamped_at_2", "scale_of_zero_is_one",
%})

% write_kernel()
