%-- Work is left undone that seems to be done, after many launches in a row.
%include "cpu_kernel.lua"
%template = planted({"none", "done_after_twenty_launches"})

% write_kernel()
