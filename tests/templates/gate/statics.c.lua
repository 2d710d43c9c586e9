%-- Code with memory that persists between launches.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "static_bit", "static_word", "static_of_a_thread",
%  "static_of_packing", "static_named_as_the_loaders", "static_without_a_symbol",
%})

% write_kernel()
