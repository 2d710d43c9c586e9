%-- One launch in thirty adds in another order.
%include "cpu_kernel.lua"
%template = planted({"none", "order_varies_now_and_then"})

% write_kernel()
