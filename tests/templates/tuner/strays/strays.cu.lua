%-- A kernel that leaves its shared memory, for the emulation: in one of two calls.
%
%template = {
%  summary = "leaves its shared memory",
%  role = "conv",
%  device = "cuda",
%  params = {{"where", {"pack", "run"}, "the kernel that does it"}},
%  accepts = function() return true end,
%  default = function() return {where = "run"} end,
%  launch = function(problem)
%    return {
%      block = 32, shared = 512, grid = "tiles", tile_rows = 32, order = "none",
%      pack_threads = 32, packed_bytes = 512,
%    }
%  end,
%}
#include "spc_device.cuh"

#include "spc_abi.h"

% for _, kernel in ipairs {{"spc_conv", "spc_conv_args", "run"}, {"spc_pack", "spc_pack_args", "pack"}} do
SPC_KERNEL($(kernel[1]), $(kernel[2]), 256, 1)
{
    spc_b16 zero;
    zero.x = zero.y = zero.z = zero.w = 0;
%   if config.where == kernel[3] then
    spc_shared_store16(spc_shared() + (1 << 16), zero);
%   end
    (void)args;
    (void)zero;
}

% end
