%-- Measurements of a processor that does almost nothing in any amount of time.
%template = {
%  summary = "measures ceilings that are far too low",
%  role = "measure",
%  device = "cpu",
%  params = {},
%  accepts = function(problem)
%    if problem.op ~= "measure" then return false, "measures the device only" end
%    return true
%  end,
%  constraints = {},
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_abi.h"
#include "spc_measure.h"

% for _, name in ipairs {"empty", "read", "write", "copy", "gather8", "gather16", "f32_fma"} do
void spc_$(name)(const spc_measure_args *args, unsigned x, unsigned y);
void spc_$(name)(const spc_measure_args *args, unsigned x, unsigned y)
{
    if (x == 0)
        for (volatile int i = 0; i < 200000; i++)
            args->work[0] = 1;
    (void)y;
}
% end
