%-- Digests of memory on a processor.
%template = {
%  summary = "digests memory of a processor",
%  role = "digest",
%  device = "cpu",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "digest" then return false, "digests memory only" end
%    return true
%  end,
%  constraints = {},
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_abi.h"
#include "spc_digest.h"

void spc_digest(const spc_digest_args *args, unsigned x, unsigned y);

/* The first call of a block does all its work; the others return at once. */
void spc_digest(const spc_digest_args *args, unsigned x, unsigned y)
{
    long long block = x / SPC_DIGEST_THREADS;
    long long i = args->units * block / args->blocks;
    long long end = args->units * (block + 1) / args->blocks;
    unsigned first = 0, second = 0;

    if (x % SPC_DIGEST_THREADS != 0)
        return;
    for (; i < end; i++)
        SPC_DIGEST_ADD(first, second, args->data[i], i);
    __atomic_fetch_add(args->sums, first, __ATOMIC_RELAXED);
    __atomic_fetch_add(args->sums + 1, second, __ATOMIC_RELAXED);
    (void)y;
}
