%-- Depthwise convolution on a processor: each channel separately, one row at a time.
%--
%-- The offsets of a row are listed once. Then `vectors` vectors of channels at a time, held
%-- in registers, sum the listed rows times the weights of their offsets. The rest of a row,
%-- less than a vector, is computed channel by channel.
%--
%-- With an epilogue, or with several outputs for each channel (cout = 2 * groups, ...), sums
%-- go to a separate row first. It has a plane for the first output of every channel, a plane
%-- for the second, and so on. Weights have the same layout.
%
%include "operands.lua"
%
%function lanes_of(target) return target.vector_bytes // 4 end
%function packed_row(problem, target)
%  return ceil_div(problem.cin, lanes_of(target)) * lanes_of(target)
%end
%-- Number of output channels per input channel.
%function outputs_each(problem) return problem.cout // problem.cin end
%
%template = {
%  summary = "depthwise, rows of channels times rows of weights",
%  role = "conv",
%  device = "cpu",
%  params = {
%    {"vectors", {1, 2, 4, 8}, "vectors of channels held in registers"},
%    {"tile", {64, 256}, "output rows of a tile"},
%    {"order", {"none", "gray", "morton"}, "order of the rows"},
%  },
%  accepts = function(problem, target)
%    if groups_of(problem) ~= problem.cin then
%      return false, "needs a depthwise layer: groups = cin"
%    end
%    if whole_in(problem) or whole_out(problem) then return false, "no whole numbers" end
%    return true
%  end,
%  constraints = {
%    {"a row has so many vectors, or one is tried", function(problem, config, target)
%      return config.vectors == 1 or config.vectors * lanes_of(target) <= problem.cin
%    end},
%  },
%  derive = function(problem, config, target)
%    return {
%      lanes = lanes_of(target), row = packed_row(problem, target),
%      half = problem.dtype == "f16", element = format_of(problem).host,
%      each = outputs_each(problem), short = format_of(problem).host_short,
%      pieced = is_plain(problem) and problem.cin == problem.cout,
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = 1, shared = 0, grid = "tiles", tile_rows = config.tile,
%      order = config.order, preference = 20,
%      packed_bytes = problem.offsets * outputs_each(problem) * packed_row(problem, target) * 4,
%      pack_threads = problem.offsets,
%    }
%  end,
%  default = function(problem, target)
%    local vectors = 1
%    while vectors < 4 and 2 * vectors * lanes_of(target) <= problem.cin do
%      vectors = 2 * vectors
%    end
%    return {vectors = vectors, tile = 64, order = "none"}
%  end,
%}
#define SPC_LANES $(lanes)
#include "spc_cpu.h"

enum {
    CHANNELS = $(problem.cin),
    ROW = $(row), /* of weights, in whole vectors */
    OFFSETS = $(problem.offsets),
    TILE = $(config.tile),
};

typedef $(element) element;

/* The inputs that one output row sees, and their weights. */
typedef struct pairs {
    int count;
    const element *in[OFFSETS];
    const float *weights[OFFSETS];
} pairs;

static void find_pairs(pairs *p, const spc_conv_args *args, int position)
{
    const spc_map_view *map = &args->map;

    p->count = 0;
    for (int word = 0; word < $(ceil_div(problem.offsets, 32)); word++) {
        /* By the bits of the mask, so offsets without an input cost nothing. */
        unsigned rest = map->mask[(long)word * map->rows_padded + position];
        for (; rest != 0; rest &= rest - 1) {
            long k = word * 32 + __builtin_ctz(rest);
            long from = map->index[k * map->rows_padded + position];
            p->in[p->count] = (const element *)args->in + from * $(problem.in_pitch or "CHANNELS");
            p->weights[p->count++] = (const float *)args->weights + k * $(each > 1 and each .. " * " or "")ROW;
        }
    }
}

SPC_INLINE spc_vector load_row(const element *from)
{
% if half then
    return spc_load_half(from);
% elseif short then
    spc_vector row;
    for (int i = 0; i < SPC_LANES; i++)
        row[i] = spc_float_of_$(short)(from[i]);
    return row;
% else
    return spc_load(from);
% end
}

% -- The channels that are left over after whole groups of vectors are done by
% -- single vectors.
% local widths = {config.vectors}
% if config.vectors > 1 then widths[2] = 1 end
% if pieced then
% for _, vectors in ipairs(widths) do
/* Adds $(vectors * lanes) channels from `first` on. */
static void add_$(vectors)(element *out, const pairs *p, const float *bias, int first)
{
%   for v = 0, vectors - 1 do
    spc_vector s$(v) = $(problem.bias ~= 0 and "spc_load(bias + first + " .. v * lanes .. ")" or "{0}");
%   end
    for (int i = 0; i < p->count; i++) {
%   for v = 0, vectors - 1 do
        s$(v) += load_row(p->in[i] + first + $(v * lanes)) *
              spc_load(p->weights[i] + first + $(v * lanes));
%   end
    }
%   for v = 0, vectors - 1 do
    $(half and "spc_store_half" or "spc_store")(out + first + $(v * lanes), s$(v));
%   end
}

% end
/* Adds the channels of the last, incomplete vector. */
static void add_last(element *out, const pairs *p, const float *bias, int first)
{
    for (int c = first; c < CHANNELS; c++) {
        float sum = $(problem.bias ~= 0 and "bias[c]" or "0");
        for (int i = 0; i < p->count; i++)
            sum += $(half and "spc_float_of_half" or "")(p->in[i][c]) * p->weights[i][c];
        out[c] = $(half and "spc_half_of_float" or "")(sum);
    }
}

% else
%   for _, vectors in ipairs(widths) do
/* Adds $(vectors * lanes) channels from `first` on, for the outputs whose weights
 * begin at `plane`. */
static void add_$(vectors)(float *out, const pairs *p, int first, long plane)
{
%     for v = 0, vectors - 1 do
    spc_vector s$(v) = {0};
%     end
    for (int i = 0; i < p->count; i++) {
        const float *weights = p->weights[i] + plane + first;
%     for v = 0, vectors - 1 do
        s$(v) += load_row(p->in[i] + first + $(v * lanes)) * spc_load(weights + $(v * lanes));
%     end
    }
%     for v = 0, vectors - 1 do
    spc_store(out + $(v * lanes), s$(v));
%     end
}

%   end
/* Adds the channels of the last, incomplete vector. */
static void add_last(float *out, const pairs *p, int first, long plane)
{
    for (int c = first; c < CHANNELS; c++) {
        float sum = 0;
        for (int i = 0; i < p->count; i++)
            sum += $(short and "spc_float_of_" .. short or "")(p->in[i][c]) *
                   p->weights[i][plane + c];
        out[c - first] = sum;
    }
}

enum {
    EACH = $(each), /* outputs per channel */
    MOST = $(config.vectors * lanes) /* number of channels computed together */
};

typedef $(out_format(problem).host) result;

%   write_finish_row("EACH * MOST")
/* Finishes and stores the outputs of `count` channels of a row from `first` on. */
static void finish(float planes[EACH][MOST], const spc_conv_args *args, long row,
                   int first, int count)
{
    int co = first * EACH, channels = count * EACH;
    result *to = (result *)args->out + row * $(out_pitch(problem)) + co;
    float sums[EACH * MOST];

    for (int c = 0; c < count; c++)
        for (int j = 0; j < EACH; j++)
            sums[c * EACH + j] = planes[j][c]$(problem.bias == 1 and not problem.scale and " + args->bias[co + c * EACH + j]" or "");
%   if has_epilogue(problem) then
    finish_row(sums, args, row, co, channels);
%   end
%   write_host_store("    ", "to", "sums")
}

% end
/* Call x computes the x-th tile. */
void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    const spc_map_view *map = &args->map;
    int tile = map->tile_order[x];
    pairs p;
% if not pieced then
    float planes[EACH][MOST];
% end

    for (int i = 0; i < TILE && tile >= 0; i++) {
        int position = tile * TILE + i, first = 0;
        long row = map->order[position];
        if (row < 0)
            continue;
% if pieced then
        element *out = (element *)args->out + row * CHANNELS;
% end
        find_pairs(&p, args, position);
% if pieced then
%   for _, vectors in ipairs(widths) do
        for (; first + $(vectors * lanes) <= CHANNELS; first += $(vectors * lanes))
            add_$(vectors)(out, &p, args->bias, first);
%   end
        add_last(out, &p, args->bias, first);
% else
%   for _, vectors in ipairs(widths) do
        for (; first + $(vectors * lanes) <= CHANNELS; first += $(vectors * lanes)) {
            for (int j = 0; j < EACH; j++)
                add_$(vectors)(planes[j], &p, first, (long)j * ROW);
            finish(planes, args, row, first, $(vectors * lanes));
        }
%   end
        for (int j = 0; j < EACH; j++)
            add_last(planes[j], &p, first, (long)j * ROW);
        finish(planes, args, row, first, CHANNELS - first);
% end
    }
}

/* Call x packs the weights of offset x as fp32. */
void spc_pack(const spc_pack_args *args, unsigned x, unsigned y)
{
    const element *from = (const element *)args->weights + x * args->stride_k;
% if each == 1 then
    float *to = (float *)args->packed + (long)x * ROW;

    if (x >= OFFSETS)
        return;
    for (int c = 0; c < ROW; c++)
        to[c] = c < CHANNELS ? $(short and "spc_float_of_" .. short or "")(from[c * args->stride_out$(group_stride("c"))]) : 0;
% else
    float *to = (float *)args->packed + (long)x * $(each) * ROW;

    if (x >= OFFSETS)
        return;
    for (int j = 0; j < $(each); j++)
        for (int c = 0; c < ROW; c++)
            to[j * ROW + c] = c < CHANNELS ? $(short and "spc_float_of_" .. short or "")(from[(c * $(each) + j) * args->stride_out$(group_stride("c * " .. each .. " + j"))]) : 0;
% end
}
