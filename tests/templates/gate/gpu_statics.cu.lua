%-- Code with memory that persists between launches.
%include "gpu_kernel.lua"
%template = planted({"none", "static_word", "static_of_the_module"})

% write_kernel()
