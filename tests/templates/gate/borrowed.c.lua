%-- Mistakes that show when launches run at the same time.
%include "cpu_kernel.lua"
%template = planted({
%  "none", "map_written_and_restored", "order_written_as_it_was",
%  "weights_written_and_restored", "scratch_of_all_launches",
%})

% write_kernel()
