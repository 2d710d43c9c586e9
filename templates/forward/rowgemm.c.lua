%-- Output-stationary convolution on a processor: the pairs of a tile, offset by
%-- offset.
%--
%-- The sums of a tile of output rows are in a buffer that fits in a near cache. For
%-- each offset that the tile uses, the rows that have it are listed. Then `rows` of
%-- them at a time are multiplied by `vectors` vectors of output channels in registers,
%-- over all input channels. Each loaded weight serves `rows` rows, and each broadcast
%-- input serves `vectors` vectors. The weights of one offset stay in the first-level
%-- cache while the tile's pairs are processed, and absent neighbours cost no product.
%-- A last, shorter group of rows has separate code.
%--
%--            ci ->                 co ->                     co ->
%--     rows | . . . |   x   ci | . . vectors . |   +=  rows | . . . . . |
%--
%-- The order of the sum of an output is fixed: offset, then channel.
%--
%-- Integers (i8) are converted as well. fp32 holds the sum over the channels of one
%-- offset exactly for up to 1024 channels, and the buffer is int32.
%
%include "operands.lua"
%
%-- Floats of a vector; number of vectors in cout; blocks of `vectors` vectors.
%function lanes_of(target) return target.vector_bytes // 4 end
%function vectors_of(problem, target)
%  return ceil_div(problem.cout, lanes_of(target))
%end
%function blocks_of(problem, config, target)
%  return ceil_div(vectors_of(problem, target), config.vectors)
%end
%
%-- Blocks that one call processes: their sums must fit in the buffer.
%function blocks_of_call(problem, config, target)
%  local bytes = config.tile * config.vectors * target.vector_bytes
%  local most = math.max(1, 131072 // bytes)
%  return math.min(most, blocks_of(problem, config, target))
%end
%
%-- 32 registers with AVX-512, else 16. They hold sums, one row of weights and one
%-- input.
%function registers_of(target) return target.vector_bytes >= 64 and 32 or 16 end
%function registers_used(config)
%  return config.rows * config.vectors + config.vectors + 1
%end
%
%template = {
%  summary = "output-stationary rows by channels in registers, pairs only",
%  role = "conv",
%  device = "cpu",
%  params = {
%    {"rows", {4, 6, 8, 12, 14}, "output rows held in registers"},
%    {"vectors", {1, 2, 3, 4}, "vectors of output channels held in registers"},
%    {"tile", {64, 128, 256}, "output rows of a tile"},
%    {"unroll", {1, 2}, "input channels of one turn of the inner loop"},
%    {"order", {"none", "gray", "morton"}, "order of the rows"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "one group alone" end
%    if whole_in(problem) and problem.cin > 1024 then
%      return false, "sums of more than 1024 input channels are not exact in fp32"
%    end
%    return true
%  end,
%  constraints = {
%    {"sums, weights and an input fit the registers",
%     function(problem, config, target)
%       return registers_used(config) <= registers_of(target)
%     end},
%    {"at least half of the registers are used, or cout has no more",
%     function(problem, config, target)
%       return config.rows * config.vectors * 2 >= registers_of(target)
%         or (config.rows >= 8 and
%             config.vectors == vectors_of(problem, target))
%     end},
%    {"no block of channels is mostly padding",
%     function(problem, config, target)
%       local padded = blocks_of(problem, config, target) * config.vectors
%       return padded * 3 <= vectors_of(problem, target) * 4
%     end},
%    {"sums of a tile take at most 128 KB",
%     function(problem, config, target)
%       return config.tile * config.vectors * target.vector_bytes <= 131072
%     end},
%    {"converted rows take at most 128 KB of the stack",
%     function(problem, config, target)
%       return element_bytes(problem) == 4
%         or config.rows * problem.cin * 4 <= 131072
%     end},
%    {"unrolling is for more than one input channel",
%     function(problem, config, target)
%       return config.unroll <= problem.cin
%     end},
%  },
%  derive = function(problem, config, target)
%    local lanes = lanes_of(target)
%    return {
%      lanes = lanes,
%      width = config.vectors * lanes, -- floats of a block
%      blocks = blocks_of(problem, config, target),
%      call_blocks = blocks_of_call(problem, config, target),
%      half = element_bytes(problem) < 4, sum = sum_type(problem), short = format_of(problem).host_short,
%      element = format_of(problem).host, result = out_format(problem).host,
%      in_pitch = problem.in_pitch or "CIN",
%    }
%  end,
%  launch = function(problem, config, target)
%    local blocks = blocks_of(problem, config, target)
%    return {
%      block = 1, shared = 0, grid = "tiles",
%      tile_rows = config.tile,
%      grid_y = ceil_div(blocks, blocks_of_call(problem, config, target)),
%      order = config.order,
%      preference = 10,
%      packed_bytes = problem.offsets * problem.cin * blocks
%                   * config.vectors * target.vector_bytes,
%      pack_threads = problem.offsets * problem.cin * blocks,
%    }
%  end,
%  default = function(problem, target)
%    local need = vectors_of(problem, target)
%    -- Shapes that fill the registers: 27 to 29 of 32, or 15 to 16 of 16. Of
%    -- these the one that pads cout least is taken.
%    local shapes = target.vector_bytes >= 64
%      and {{6, 4}, {8, 3}, {12, 2}} or {{6, 2}, {4, 3}}
%    if need == 1 then shapes = {{12, 1}} end
%    local best, least = nil, 0
%    for _, shape in ipairs(shapes) do
%      local padded = ceil_div(need, shape[2]) * shape[2]
%      if shape[2] <= need and (best == nil or padded < least) then
%        best, least = shape, padded
%      end
%    end
%    return {rows = best[1], vectors = best[2], tile = 256, unroll = 1,
%            order = "none"}
%  end,
%}
#define SPC_LANES $(lanes)
#include "spc_cpu.h"

enum {
    CIN = $(problem.cin),
    COUT = $(problem.cout),
    OFFSETS = $(problem.offsets),
    TILE = $(config.tile),
    WIDTH = $(width),       /* floats in a block of output channels */
    BLOCKS = $(blocks),     /* blocks in total */
    CALL_BLOCKS = $(call_blocks) /* blocks of one call */
};

typedef $(element) element;
typedef $(result) result;

/* The pairs of one tile and one offset. */
typedef struct pairs {
    int count;
    int from[TILE + 16]; /* input row */
    int to[TILE + 16];   /* row of the tile */
} pairs;

% if half then
/* Converts up to $(config.rows) rows of a list, from the i-th on. */
static void take_rows(float *restrict to, const element *in, const pairs *p,
                      int i)
{
    int last = i + $(config.rows) < p->count ? i + $(config.rows) : p->count;
    for (; i < last; i++, to += CIN)
        spc_row_from_$(short)(to, in + (long)p->from[i] * $(in_pitch), CIN);
}

% end
% for rows = 1, config.rows do
%   if half then
/* sums[to[r]] += weights * in[r] for $(rows) rows and one block. */
static void add_$(rows)($(sum) *restrict sums, const float *restrict weights,
                  const float *restrict in, const int *to)
%   else
/* sums[to[r]] += weights * in[from[r]] for $(rows) rows and one block. */
static void add_$(rows)(float *restrict sums, const float *restrict weights,
                  const float *restrict in, const int *from, const int *to)
%   end
{
%   for r = 0, rows - 1 do
%     if half then
    const float *in$(r) = in + $(r) * CIN;
%     else
    const float *in$(r) = in + (long)from[$(r)] * $(in_pitch);
%     end
    $(sum) *to$(r) = sums + (long)to[$(r)] * (CALL_BLOCKS * WIDTH);
%     for v = 0, config.vectors - 1 do
    spc_vector s$(r)_$(v) = $(whole_in(problem) and "{0}" or "spc_load(to" .. r .. " + " .. v * lanes .. ")");
%     end
%   end
#pragma GCC unroll $(config.unroll)
    for (int ci = 0; ci < CIN; ci++) {
%   for v = 0, config.vectors - 1 do
        spc_vector w$(v) = spc_load(weights + $(v * lanes));
%   end
        weights += WIDTH;
%   for r = 0, rows - 1 do
%     for v = 0, config.vectors - 1 do
        s$(r)_$(v) += w$(v) * in$(r)[ci];
%     end
%   end
    }
%   for r = 0, rows - 1 do
%     for v = 0, config.vectors - 1 do
    $(whole_in(problem) and "spc_add_whole" or "spc_store")(to$(r) + $(v * lanes), s$(r)_$(v));
%     end
%   end
}

% end
/* Prefetches up to $(config.rows) rows of a list, from the i-th on. */
static void fetch_rows(const element *in, const pairs *p, int i)
{
    int last = i + $(config.rows) < p->count ? i + $(config.rows) : p->count;
    for (; i < last; i++) {
        const char *row = (const char *)(in + (long)p->from[i] * $(in_pitch));
        for (int at = 0; at < CIN * (int)sizeof(element); at += 64)
            __builtin_prefetch(row + at);
    }
}

/* Adds all pairs of one offset for one block of channels. */
static void add_pairs($(sum) *sums, const float *weights, const element *in,
                      const pairs *p)
{
    int i = 0;
% if half then
    float rows[$(config.rows) * CIN];
% end
    for (; i + $(config.rows) <= p->count; i += $(config.rows)) {
        fetch_rows(in, p, i + $(config.rows));
% if half then
        take_rows(rows, in, p, i);
        add_$(config.rows)(sums, weights, rows, p->to + i);
% else
        add_$(config.rows)(sums, weights, in, p->from + i, p->to + i);
% end
    }
% if half then
    take_rows(rows, in, p, i);
% end
    switch (p->count - i) {
% for rows = 1, config.rows - 1 do
    case $(rows):
%   if half then
        add_$(rows)(sums, weights, rows, p->to + i);
%   else
        add_$(rows)(sums, weights, in, p->from + i, p->to + i);
%   end
        break;
% end
    }
}

/* Lists the rows of the tile that have an input at this offset. */
static void find_pairs(pairs *p, const int *index)
{
    int count = 0;
    for (int row = 0; row < TILE; row++) {
        p->from[count] = index[row];
        p->to[count] = row;
        /* No branch: absent rows are written and overwritten by the next
         * one. */
        count += index[row] >= 0;
    }
    p->count = count;
}

/*
 * Prefetches the indices of an offset: the stretch is too short for the
 * processor's prefetcher. Past the last offset they belong to other data, which
 * is harmless.
 */
static void fetch_index(const spc_map_view *map, int k, int tile_row)
{
    const int *index = map->index + (long)k * map->rows_padded + tile_row;
    for (int row = 0; row < TILE; row += 16)
        __builtin_prefetch(index + row);
}

/* Sums start at the bias. The channels that pad a block are not used. */
static void start($(sum) *sums, const float *bias, int first)
{
% if whole_in(problem) then
    __builtin_memset(sums, 0, TILE * CALL_BLOCKS * WIDTH * sizeof(*sums));
% elseif problem.bias ~= 0 and not problem.scale then
    for (int i = 0; i < CALL_BLOCKS * WIDTH; i++)
        sums[i] = first + i < COUT ? bias[first + i] : 0;
    for (int row = 1; row < TILE; row++)
        for (int i = 0; i < CALL_BLOCKS * WIDTH; i += SPC_LANES)
            spc_store(sums + row * (CALL_BLOCKS * WIDTH) + i,
                      spc_load(sums + i));
% else
    for (int i = 0; i < TILE * CALL_BLOCKS * WIDTH; i += SPC_LANES)
        spc_store(sums + i, (spc_vector){0});
% end
}

% write_finish_row("CALL_BLOCKS * WIDTH")
static void finish(const spc_conv_args *args, $(sum) *sums, int tile_row,
                   int first)
{
% if whole_in(problem) then
    float from[CALL_BLOCKS * WIDTH];
% end
    result *out = (result *)args->out;
    int channels = COUT - first;
    if (channels > CALL_BLOCKS * WIDTH)
        channels = CALL_BLOCKS * WIDTH;
    for (int row = 0; row < TILE; row++) {
        int p = tile_row + row;
        long to = args->map.order[p];
% if not whole_in(problem) then
        float *from = sums + row * (CALL_BLOCKS * WIDTH);
% end
        if (to < 0)
            continue;
% if whole_in(problem) then
        for (int i = 0; i < channels; i++)
            from[i] = (float)sums[row * (CALL_BLOCKS * WIDTH) + i];
% end
% if has_epilogue(problem) then
        finish_row(from, args, to, first, channels);
% end
% write_host_store("        ", "out + to * " .. (problem.out_pitch or "COUT") .. " + first", "from")
    }
}

/*
 * Call (x, y) computes the x-th tile for the y-th group of blocks of channels.
 */
void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    const spc_map_view *map = &args->map;
    int tile = map->tile_order[x], tile_row = tile * TILE;
    int first_block = (int)y * CALL_BLOCKS;
    int last_block = first_block + CALL_BLOCKS;
    /* Aligned, so that no vector crosses a cache line. */
    $(sum) sums[TILE * CALL_BLOCKS * WIDTH] __attribute__((aligned(64)));
    pairs p;

    if (tile < 0)
        return;
    if (last_block > BLOCKS)
        last_block = BLOCKS;
    start(sums, args->bias, first_block * WIDTH);
    for (int k = 0; k < OFFSETS; k++) {
        unsigned mask = map->tile_mask[(long)(k / 32) * map->tiles + x];
        if (!(mask >> k % 32 & 1))
            continue;
        find_pairs(&p, map->index + (long)k * map->rows_padded + tile_row);
        fetch_index(map, k + 1, tile_row);
        /* Blocks inside: the list of pairs serves them all. */
        for (int block = first_block; block < last_block; block++)
            add_pairs(sums + (block - first_block) * WIDTH,
                      (const float *)args->weights +
                          ((long)block * OFFSETS + k) * (CIN * WIDTH),
                      (const element *)args->in, &p);
    }
    finish(args, sums, tile_row, first_block * WIDTH);
}

/* Call x packs one row, that of an input channel, of
 * packed[block][k][ci][WIDTH]. */
void spc_pack(const spc_pack_args *args, unsigned x, unsigned y)
{
    const element *weights = (const element *)args->weights;
    float *to = (float *)args->packed + (long)x * WIDTH;
    unsigned ci = x % CIN, k = x / CIN % OFFSETS, block = x / CIN / OFFSETS;

    if (block >= BLOCKS)
        return;
    weights += k * args->stride_k + ci * args->stride_in;
    for (int i = 0; i < WIDTH; i++) {
        int co = (int)block * WIDTH + i;
        to[i] = 0;
        if (co < COUT)
% if half then
            to[i] = spc_float_of_$(short)(weights[co * args->stride_out]);
% else
            to[i] = weights[co * args->stride_out];
% end
    }
}
