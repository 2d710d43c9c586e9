%-- Sums of integers in too few bits.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "sum_of_21_bits", "sum_of_24_bits", "lowest_is_127",
%})

% write_kernel()
