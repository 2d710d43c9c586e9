%-- Digests of device memory: compares results without a copy to the host.
%template = {
%  summary = "digests memory of a GPU",
%  role = "digest",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "digest" then return false, "digests memory only" end
%    return true
%  end,
%  constraints = {},
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_device.cuh"
#include "spc_digest.h"

SPC_KERNEL(spc_digest, spc_digest_args, 256, 1)
{
    long long step = (long long)args->blocks * SPC_DIGEST_THREADS;
    long long i = (long long)spc_block_x() * SPC_DIGEST_THREADS + spc_thread();
    spc_u32 first = 0, second = 0;

    if (i >= args->units)
        return;
    for (; i < args->units; i += step)
        SPC_DIGEST_ADD(first, second, args->data[i], i);
    spc_atomic_add_u32(args->sums, first);
    spc_atomic_add_u32(args->sums + 1, second);
}
