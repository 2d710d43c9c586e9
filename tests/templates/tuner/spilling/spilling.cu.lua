%-- Two candidates, never launched. One keeps an array in local memory.
%
%template = {
%  summary = "local memory on demand",
%  role = "conv",
%  device = "cuda",
%  params = {{"spill", {0, 1}, "keep an array in local memory"}},
%  accepts = function(problem, target) return true end,
%  launch = function(problem, config, target)
%    return {block = 128, shared = 0, grid = "tiles", tile_rows = 64,
%            order = "none", packed_bytes = 16, pack_threads = 1}
%  end,
%  default = function(problem, target) return {spill = 0} end,
%}
#include "spc_device.cuh"

SPC_KERNEL(spc_conv, spc_conv_args, 128, 1)
{
    float *out = (float *)args->out;
% if config.spill == 1 then
    int kept[64];
    for (int i = 0; i < 64; i++)
        kept[i] = args->map.order[i * spc_threads() + spc_thread()];
    for (int i = 0; i < 64; i++)
        out[i] = (float)kept[kept[i] & 63];
% end
    out[spc_thread()] = 0;
}

SPC_KERNEL(spc_pack, spc_pack_args, 128, 1)
{
    ((float *)args->packed)[spc_thread()] = 0;
}
