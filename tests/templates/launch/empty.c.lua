%-- A kernel for processors that computes nothing, so that a call's time is that of
%-- the host's code around it.
%template = {
%  summary = "an empty kernel",
%  role = "conv",
%  device = "cpu",
%  params = {{"order", {"none", "gray"}, "row order"}},
%  accepts = function() return true end,
%  constraints = {},
%  launch = function(problem, config)
%    return {
%      block = 1, grid = "tiles", tile_rows = 64, order = config.order,
%      packed_bytes = 256, pack_threads = 1, workspace_row_bytes = 4,
%    }
%  end,
%  default = function() return {order = "gray"} end,
%}
#include "spc_abi.h"

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y);
void spc_pack(const spc_pack_args *args, unsigned x, unsigned y);

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    (void)args, (void)x, (void)y;
}

void spc_pack(const spc_pack_args *args, unsigned x, unsigned y)
{
    (void)args, (void)x, (void)y;
}
