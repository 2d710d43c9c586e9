%-- On a processor: multiplies each row by the row of its batch element, and sums the
%-- gradient of that row, as feature_multiply.cu.lua does.
%
%include "feature_host.lua"
%
%local ops = {"multiply", "multiply,wgrad"}
%
%template = {
%  summary = "multiplies rows by the row of their batch element, on a processor",
%  role = "feature",
%  device = "cpu",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    return {half = feature_format(problem).host}
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#define SPC_LANES 4
#include "spc_cpu.h"
#include "index_abi.h"
#include "feature_abi.h"

enum { CHANNELS = $(problem.channels) };

% write_host_access(half)
% write_coordinates("SPC_INLINE", true)
% if not problem.pass then
static void multiply(const spc_feature_args *args, long long p)
{
    long long x = args->order[p] * args->in_pitch;
    long long s = coordinate_of(args, (int)p, 0) * args->add_pitch;
    long long y = args->order[p] * args->out_pitch;

    for (int c = 0; c < CHANNELS; c++)
        put(args->out, y + c, get(args->in, x + c) * get(args->add, s + c));
}

%   write_host_kernel("spc_multiply", "*args->count", "multiply")
% else
%   write_host_elements()
static void sum_part(const spc_feature_args *args, long long i)
{
    extent e = find_part(args, i);
    float *sum = args->parts + i * CHANNELS;

    for (int c = 0; c < CHANNELS && e.begin < e.end; c++)
        sum[c] = 0;
    for (int p = e.begin; p < e.end; p++) {
        long long x = args->order[p] * args->in_pitch;
        long long dy = args->order[p] * args->add_pitch;
        for (int c = 0; c < CHANNELS; c++)
            sum[c] += get(args->in, x + c) * get(args->add, dy + c);
    }
}

%   write_host_kernel("spc_part", "ALL_PARTS", "sum_part")
static void join_parts(const spc_feature_args *args, long long batch)
{
    extent e = find_element(args, (int)batch);
    const float *parts = args->parts + batch * SPC_FEATURE_PARTS * CHANNELS;
    int count = (e.end - e.begin + e.part_rows - 1) / e.part_rows;

    for (int c = 0; c < CHANNELS; c++) {
        float sum = 0;
        for (int j = 0; j < count; j++)
            sum += parts[(long long)j * CHANNELS + c];
        put(args->out, batch * args->out_pitch + c, sum);
    }
}

%   write_host_kernel("spc_join", "args->batches", "join_parts")
% end
