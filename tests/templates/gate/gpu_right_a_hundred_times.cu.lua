%-- Nothing is done after a hundred launches.
%include "gpu_kernel.lua"
%template = planted({"none", "right_a_hundred_times"})

% write_kernel()
