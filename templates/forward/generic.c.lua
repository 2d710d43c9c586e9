%-- The convolution by its definition, for problems that no other template accepts:
%-- any channels, any offsets, any type. One output row at a time.
%
%include "operands.lua"
%
%template = {
%  summary = "plain loops; accepts every layer",
%  role = "conv",
%  device = "cpu",
%  triplets = true,
%  params = {
%    {"tile", {64}, "output rows of a tile"},
%  },
%  accepts = function(problem, target)
%    return true
%  end,
%  derive = function(problem, config, target)
%    return {
%      element = format_of(problem).host, result = out_format(problem).host,
%      short = not whole_in(problem) and format_of(problem).host_short,
%      sum = sum_type(problem),
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = 1, shared = 0, grid = "tiles", tile_rows = config.tile,
%      order = "none", layout = problem.triplets and "triplets" or nil,
%      packed_bytes = problem.offsets * group_in(problem) * problem.cout * 4,
%      pack_threads = problem.offsets * group_in(problem),
%    }
%  end,
%  default = function(problem, target) return {tile = 64} end,
%}
#define SPC_LANES 4
#include "spc_cpu.h"

enum {
    CIN = $(group_in(problem)), /* input channels of a group */
    COUT = $(problem.cout),
% if problem.groups then
    ROW = $(problem.cin),
    GROUP = $(group_out(problem)), /* output channels of a group */
% else
    ROW = CIN,
    GROUP = COUT,
% end
    OFFSETS = $(problem.offsets),
    TILE = $(config.tile),
    CHUNK = 64 /* output channels in one chunk */
};

typedef $(element) element;
typedef $(result) result;

static $(sum) value_of(element stored)
{
% if short then
    return spc_float_of_$(short)(stored);
% else
    return stored;
% end
}

/* Adds one pair to `channels` sums; weights is [CIN][COUT]. */
static void add_pair($(sum) *restrict sums, const $(sum) *restrict weights,
                     const element *restrict in, int channels)
{
    for (int ci = 0; ci < CIN; ci++) {
        $(sum) x = value_of(in[ci]);
        for (int i = 0; i < channels; i++)
            sums[i] += weights[i] * x;
        weights += COUT;
    }
}

% write_finish_row("CHUNK")
/* Computes output row `row` at position p of the map, for some channels of a
 * group from `first` on. */
static void convolve(const spc_conv_args *args, int p, long row, int first,
                     int channels)
{
% if not problem.triplets then
    const spc_map_view *map = &args->map;
% end
    const $(sum) *weights = (const $(sum) *)args->weights;
    /* A chunk bounds this array, whatever the number of channels is. */
    $(sum) sums[CHUNK];

    for (int i = 0; i < channels; i++)
        sums[i] = $(is_scaled(problem) and "0" or "args->bias ? args->bias[first + i] : 0");
% if problem.triplets then
    for (int t = args->triplets.first[p]; t < args->triplets.first[p + 1]; t++) {
        long from = args->triplets.list[2l * t], k = args->triplets.list[2l * t + 1];
% else
    for (long k = 0; k < OFFSETS; k++) {
        long from = map->index[k * map->rows_padded + p];
% end
        if (from >= 0)
            add_pair(sums, weights + k * CIN * COUT + first,
                     (const element *)args->in +
                         from * $(problem.in_pitch or "ROW") + first / GROUP * CIN,
                     channels);
    }
    result *to = (result *)args->out + row * $(problem.out_pitch or "COUT") + first;
% if whole_in(problem) then
    float values[CHUNK];
    for (int i = 0; i < channels; i++)
        values[i] = (float)sums[i];
    finish_row(values, args, row, first, channels);
%   write_host_store("    ", "to", "values")
% else
%   if has_epilogue(problem) then
    finish_row(sums, args, row, first, channels);
%   end
%   write_host_store("    ", "to", "sums")
% end
}

/* The number of channels after `first` that are summed at a time. */
static int channels_at(int first)
{
    /* A chunk must not cross the end of a group, as the next one reads other
     * inputs. */
    int left = GROUP - first % GROUP;
    return left < CHUNK ? left : CHUNK;
}

/* Call x computes the x-th tile. */
void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    const spc_map_view *map = &args->map;
    int tile = $(problem.triplets and "(int)x" or "map->tile_order[x]"), first_row = tile * TILE;

    /* The grid covers the map's capacity; past its tiles the order has -1. */
    if (tile < 0)
        return;
    for (int p = first_row; p < first_row + TILE; p++) {
        long row = map->order[p];
        for (int first = 0; first < COUT && row >= 0;
             first += channels_at(first))
            convolve(args, p, row, first, channels_at(first));
    }
}

/* Call x packs the row of input channel ci of packed[k][ci][COUT]. */
void spc_pack(const spc_pack_args *args, unsigned x, unsigned y)
{
    const element *weights = (const element *)args->weights;
    $(sum) *to = ($(sum) *)args->packed + (long)x * COUT;
    long k = x / CIN, ci = x % CIN;

    if (k >= OFFSETS)
        return;
    weights += k * args->stride_k + ci * args->stride_in;
    for (int co = 0; co < COUT; co++)
        to[co] = value_of(weights[co * args->stride_out$(group_stride("co"))]);
}
