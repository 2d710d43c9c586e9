%-- Correct at first, then wrong because of data that is kept.
%include "gpu_kernel.lua"
%template = planted({"none", "right_once"})

% write_kernel()
