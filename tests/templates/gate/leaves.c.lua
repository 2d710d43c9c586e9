%-- A part of the map is kept in the workspace and not read again.
%include "cpu_kernel.lua"
%template = planted({"none", "order_kept_in_the_workspace", "index_kept_in_the_workspace"})

% write_kernel()
