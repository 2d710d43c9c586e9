%-- Right, and as fast as no program sees it.
%include "cpu_kernel.lua"
%template = planted({"none", "all_is_there_so_it_is_left", "results_kept_in_the_workspace",
%                     "order_kept_in_the_workspace", "index_kept_in_the_workspace"})

% write_kernel()
