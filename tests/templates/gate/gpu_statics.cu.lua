%-- Code with memory that lasts from launch to launch.
%include "gpu_kernel.lua"
%template = planted({"none", "static_word", "static_of_the_module"})

% write_kernel()
