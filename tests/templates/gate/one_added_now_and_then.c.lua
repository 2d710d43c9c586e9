%-- One launch in thirty adds 1 to an element.
%include "cpu_kernel.lua"
%template = planted({"none", "one_added_now_and_then"})

% write_kernel()
