%-- After a hundred launches the kernel does nothing.
%include "cpu_kernel.lua"
%template = planted({"none", "right_a_hundred_times"})

% write_kernel()
