%-- After a hundred launches the kernel does nothing.
%include "gpu_kernel.lua"
%template = planted({"none", "right_a_hundred_times"})

% write_kernel()
