%-- Multiplies each row by the row of its batch element, the last step of a
%-- squeeze-and-excitation block. The gradient of x is computed in the same way
%-- from dy. The gradient of a batch element's row is the sum of x * dy over the
%-- element's voxels.
%
%include "feature.lua"
%include "feature_elements.lua"
%include "feature_sums.lua"
%
%local ops = {"multiply", "multiply,wgrad"}
%
%template = {
%  summary = "multiplies rows by the row of their batch element",
%  role = "feature",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    return {wide = natural_elements(problem, problem.channels)}
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"
#include "feature_abi.h"

enum {
    CHANNELS = $(problem.channels),
    WARPS = SPC_FEATURE_THREADS / 32,
    DEPTH = 2 /* pairs of loads in flight for each thread */
};

% write_accesses(problem, {1, wide})
% write_coordinates("SPC_DEVICE")
%
%-- Each thread has a piece of a row.
%local function write_multiply(name, n)
SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    long long items = (long long)*args->count * (CHANNELS / $(n));
    long long step = (long long)spc_grid_x() * SPC_FEATURE_THREADS;
    long long i = (long long)spc_block_x() * SPC_FEATURE_THREADS + spc_thread();

    for (; i < items; i += step) {
        int p = (int)(i / (CHANNELS / $(n)));
        int at = (int)(i % (CHANNELS / $(n))) * $(n);
        long long row = args->order[p];
        float x[$(n)], s[$(n)];

        load$(n)(x, args->in, row * args->in_pitch + at);
        load$(n)(s, args->add, coordinate_of(args, p, 0) * args->add_pitch + at);
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            x[e] *= s[e];
        store$(n)(args->out, row * args->out_pitch + at, x);
    }
}

%end
% if problem.pass then
%   write_elements()
%   write_element_sums(problem, wide, true, false)
% else
%   write_multiply("spc_multiply", wide)
%   if needs_single(problem, problem.channels, problem.channels) then
%     write_multiply("spc_multiply_1", 1)
%   end
% end
