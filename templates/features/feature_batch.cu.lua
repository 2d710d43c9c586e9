%-- Sums over all voxels of a batch element: global pooling, and the mean and variance of
%-- group normalisation.
%--
%-- Voxels are in ascending order, so the voxels of one batch element follow each other.
%-- They are cut into equal parts, at most SPC_FEATURE_PARTS. The number of parts depends
%-- only on the number of voxels.
%--
%--   spc_part    each block sums one part and writes the result
%--   spc_join    adds the sums of parts, in their order, to the sums of elements
%--   spc_apply   group normalisation: applies the moments of an element to its rows
%--
%-- The variance of a part is taken about the part's own mean. Moments of parts are joined
%-- by the formula of Chan, Golub and LeVeque (1979). This avoids the cancellation that
%-- the difference of the mean square and the squared mean suffers from.
%--
%-- Gradients: the gradient of a sum or mean goes back to every voxel. The gradient of a
%-- maximum goes to the first voxel that has the maximum (spc_find takes the least
%-- position). The gradient of group normalisation is that of layer normalisation
%-- (feature_norm.cu.lua) with means over the group. spc_part_back and spc_join_back
%-- compute these sums in the same way as the moments.
%
%include "feature.lua"
%include "feature_channels.lua"
%include "feature_group_back.lua"
%
%local ops = {
%  "global", "groupnorm", "global,dgrad", "groupnorm,dgrad", "groupnorm,wgrad",
%}
%
%template = {
%  summary = "pools over batch elements; group normalisation",
%  role = "feature",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    local group = problem.channels // (problem.groups or 1)
%    return {
%      group = group,
%      wide = natural_elements(problem, problem.channels),
%      wide_group = math.min(natural_elements(problem, group),
%                            natural_elements(problem, problem.channels)),
%      norm = problem.op == "groupnorm",
%      best = problem.reduce == "max",
%      back = problem.pass ~= nil,
%    }
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"
#include "feature_abi.h"

enum {
    CHANNELS = $(problem.channels),
    GROUPS = $(problem.groups or 1),
    GROUP = $(group), /* channels of a group */
    WARPS = SPC_FEATURE_THREADS / 32,
    DEPTH = 4 /* loads that a thread has under way */
};

% write_accesses(problem, {1, wide, wide_group})
% if problem.affine == 1 and problem.pass ~= "wgrad" then
%   write_float_loads(1, wide, wide_group)
% end
% write_coordinates("SPC_DEVICE")
%
/* ---- batch elements --------------------------------------------------- */

/* The first voxel of batch element `batch` or of a later one. A warp reads 32
 * positions at once. */
SPC_DEVICE int find_batch(const spc_feature_args *args, int batch)
{
    int low = 0, high = *args->count;

    while (low < high) {
        int step = (high - low + 33) / 33;
        int p = low + (spc_lane() + 1) * step - 1;
        int before = p < high && coordinate_of(args, p, 0) < batch;
        int passed = spc_popc(spc_ballot(before));

        low += passed * step;
        if (passed < 32 && low + step - 1 < high)
            high = low + step - 1;
    }
    return low;
}

/* The range of an element's voxels, and how it is cut into parts. */
typedef struct element {
    int begin, end, part_rows;
} element;

SPC_DEVICE element find_element(const spc_feature_args *args, int batch)
{
    element e;

    e.begin = find_batch(args, batch);
    e.end = find_batch(args, batch + 1);
    e.part_rows = (e.end - e.begin + SPC_FEATURE_PARTS - 1) / SPC_FEATURE_PARTS;
    if (e.part_rows < SPC_FEATURE_PART_ROWS)
        e.part_rows = SPC_FEATURE_PART_ROWS;
    return e;
}

SPC_DEVICE int parts_of(const element *e)
{
    return (e->end - e->begin + e->part_rows - 1) / e->part_rows;
}

%-- Writes the kernel that calls `part` for the voxels of each part of each batch
%-- element. `loop` is a loop over the values of `index`. Each part has space for
%-- `floats` results.
%local function write_part_kernel(name, loop, part, floats, index)
SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int items = args->batches * SPC_FEATURE_PARTS, last = -1;
    element e = {0, 0, SPC_FEATURE_PART_ROWS};

    for (int i = spc_block_x(); i < items; i += spc_grid_x()) {
        int batch = i / SPC_FEATURE_PARTS;
        if (batch != last) {
            e = find_element(args, batch);
            last = batch;
        }
        int begin = e.begin + i % SPC_FEATURE_PARTS * e.part_rows;
        int end = begin + e.part_rows < e.end ? begin + e.part_rows : e.end;
        if (begin >= end)
            continue;
        for ($(loop))
            $(part)(args, args->parts + (long long)i * $(floats), begin, end, $(index));
    }
}

%end
% if norm then
% write_rsqrt("SPC_DEVICE", "spc_bits_f32", "spc_f32_bits")
/* ---- moments of groups ------------------------------------------------ */

/* The number of elements, their mean, and the sum of squared deviations from
 * the mean. */
typedef struct moments {
    float n, mean, squares;
} moments;

SPC_DEVICE moments join(moments a, moments b)
{
    moments r;
    float n = a.n + b.n, differ = b.mean - a.mean;
    float share = n > 0 ? b.n / n : 0.0f;

    r.n = n;
    r.mean = a.mean + differ * share;
    r.squares = a.squares + b.squares + differ * differ * a.n * share;
    return r;
}

SPC_DEVICE float sum_warp(float v)
{
    for (int bits = 16; bits > 0; bits >>= 1)
        v += spc_shfl_xor_f32(v, bits);
    return v;
}

%-- Calls `use` for every piece x of a group over the voxels [begin, end). Lanes take
%-- the pieces in rotation, several at a time, so that several loads are under way.
%local function write_pieces(n, use)
    for (int i = spc_lane(); i < items; i += 32 * DEPTH) {
        $(piece_type(problem, n)) loaded[DEPTH];

        SPC_UNROLL
        for (int j = 0; j < DEPTH; j++) {
            int at = i + 32 * j;
            if (at >= items)
                continue;
            int row = args->order[begin + at / (GROUP / $(n))];
            loaded[j] = $(read_piece(problem, n, "args->in", "row * args->in_pitch + group * GROUP + at % (GROUP / " .. n .. ") * " .. n));
        }
        SPC_UNROLL
        for (int j = 0; j < DEPTH; j++) {
            float x[$(n)];
            if (i + 32 * j >= items)
                continue;
            unpack$(n)(x, loaded[j]);
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                $(use);
        }
    }
%end
%-- The moments of a group in a part.
%local function write_part(name, n)
/* Each warp has one group. It computes the sum, from it the mean, then the sum
 * of squared deviations. The second pass reads the rows from a cache. */
SPC_DEVICE void part_moments$(n)(const spc_feature_args *args, float *to,
                                 int begin, int end, int group)
{
    int items = (end - begin) * (GROUP / $(n));
    float count = (float)(end - begin) * (float)GROUP, sum = 0, squares = 0;

% write_pieces(n, "sum += x[e]")
    float mean = sum_warp(sum) / count;

% write_pieces(n, "squares += (x[e] - mean) * (x[e] - mean)")
    squares = sum_warp(squares);
    if (spc_lane() == 0) {
        to[2 * group] = mean;
        to[2 * group + 1] = squares;
    }
}

% write_part_kernel(name, "int group = spc_warp(); group < GROUPS; group += WARPS",
%   "part_moments" .. n, "GROUPS * 2", "group")
%end
% write_part("spc_part", wide_group)
% if needs_single(problem, problem.channels, problem.channels) then
%   if wide_group == 1 then
SPC_KERNEL(spc_part_1, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    spc_part_body(args);
}

%   else
%     write_part("spc_part_1", 1)
%   end
% end
/*
 * Each warp has one group of one element. Its lanes take the parts in rotation.
 */
SPC_KERNEL(spc_join, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int items = args->batches * GROUPS;

    for (int i = spc_block_x() * WARPS + spc_warp(); i < items;
         i += spc_grid_x() * WARPS) {
        int batch = i / GROUPS, group = i % GROUPS;
        element e = find_element(args, batch);
        const float *parts =
            args->parts + (long long)batch * SPC_FEATURE_PARTS * GROUPS * 2;
        moments all = {0, 0, 0};

        for (int j = spc_lane(); j < parts_of(&e); j += 32) {
            int begin = e.begin + j * e.part_rows;
            int rows = e.end - begin < e.part_rows ? e.end - begin : e.part_rows;
            moments part;
            part.n = (float)rows * (float)GROUP;
            part.mean = parts[(j * GROUPS + group) * 2];
            part.squares = parts[(j * GROUPS + group) * 2 + 1];
            all = join(all, part);
        }
        for (int bits = 1; bits < 32; bits <<= 1) {
            moments other;
            other.n = spc_shfl_xor_f32(all.n, bits);
            other.mean = spc_shfl_xor_f32(all.mean, bits);
            other.squares = spc_shfl_xor_f32(all.squares, bits);
            all = join(all, other);
        }
        if (spc_lane() == 0 && all.n > 0) {
            args->moments[2 * i] = all.mean;
            args->moments[2 * i + 1] =
                feature_rsqrt(all.squares / all.n + args->eps);
        }
    }
}

% if problem.pass == "dgrad" then
%   write_group_back(problem, wide, wide_group, write_part_kernel)
% elseif problem.pass then
%   write_channels(problem, wide, "*args->count", "args->order[p]",
%                  "(x[e] - of[c / GROUP * 2]) * of[c / GROUP * 2 + 1]",
%                  "const float *of = args->moments + (long long)coordinate_of(args, p, 0) * GROUPS * 2;")
% else
% write_slope_activation(problem, "SPC_DEVICE")
% end
%local function write_apply(name, n)
SPC_DEVICE void apply$(n)(const spc_feature_args *args, int p, int at)
{
    int row = args->order[p];
    const float *of = args->moments + (long long)coordinate_of(args, p, 0) * GROUPS * 2;
    float x[$(n)];
% if back then
    const float *means = of + (long long)args->batches * GROUPS * 2;
    float g[$(n)];
% end

    load$(n)(x, args->in, row * args->in_pitch + at);
% if problem.affine == 1 and not back then
    float scale[$(n)], shift[$(n)];

    load_floats$(n)(scale, args->scale + at);
    load_floats$(n)(shift, args->shift + at);
% end
% if back then
    load_g$(n)(g, args, row, at);
% end
    SPC_UNROLL
    for (int e = 0; e < $(n); e++) {
        int group = $(group % n == 0 and "at" or "(at + e)") / GROUP;
        x[e] = (x[e] - of[2 * group]) * of[2 * group + 1];
% if back then
        x[e] = of[2 * group + 1] *
               (g[e] - means[2 * group] - x[e] * means[2 * group + 1]);
% else
% if problem.affine == 1 then
        x[e] = x[e] * scale[e] + shift[e];
% end
        x[e] = activate(x[e], args->slope);
% end
    }
    store$(n)(args->out, row * args->out_pitch + at, x);
}

SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    long long items = (long long)*args->count * (CHANNELS / $(n));
    long long step = (long long)spc_grid_x() * SPC_FEATURE_THREADS;
    long long i = (long long)spc_block_x() * SPC_FEATURE_THREADS + spc_thread();

    for (; i < items; i += step)
        apply$(n)(args, (int)(i / (CHANNELS / $(n))),
                  (int)(i % (CHANNELS / $(n))) * $(n));
}

%end
% if problem.pass ~= "wgrad" then
%   write_apply("spc_apply", wide)
%   if needs_single(problem, problem.channels, problem.channels) then
%     write_apply("spc_apply_1", 1)
%   end
% end
% elseif back and not best then
%-- Writes to every voxel the value of its batch element.
%local function write_spread(name, n)
SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int count = *args->count;
% if problem.reduce == "mean" then
    int last = -1;
    element e = {0, 0, SPC_FEATURE_PART_ROWS};
% end

    for (int p = spc_block_x() * WARPS + spc_warp(); p < count; p += spc_grid_x() * WARPS) {
        int batch = coordinate_of(args, p, 0);
        long long from = batch * args->in_pitch, to = args->order[p] * args->out_pitch;
% if problem.reduce == "mean" then
        if (batch != last) {
            e = find_element(args, batch);
            last = batch;
        }
% end
        for (int at = spc_lane() * $(n); at < CHANNELS; at += 32 * $(n)) {
            float v[$(n)];

            load$(n)(v, args->in, from + at);
% if problem.reduce == "mean" then
            SPC_UNROLL
            for (int i = 0; i < $(n); i++)
                v[i] = v[i] / (float)(e.end - e.begin);
% end
            store$(n)(args->out, to + at, v);
        }
    }
}

%end
%   write_spread("spc_spread", wide)
%   if needs_single(problem, problem.channels, problem.channels) then
%     write_spread("spc_spread_1", 1)
%   end
% else
/* ---- pooling ---------------------------------------------------------- */

#define NOTHING $(best and "spc_bits_f32(0xff800000u)" or "0.0f")

SPC_DEVICE float both(float a, float b)
{
    return $(best and "b > a ? b : a" or "a + b");
}

%-- The channels [block * 32 * n, ...) of a part. Lanes of a row have one piece each,
%-- and a warp takes as many rows at a time as fit.
%local function write_part(name, n)
%  local pieces = problem.channels // n
%  local lanes = 1
%  while lanes < 32 and lanes < pieces do lanes = lanes * 2 end
SPC_DEVICE void part_sums$(n)(const spc_feature_args *args, float *to, int begin,
                              int end, int block)
{
    enum { STEP = WARPS * $(32 // lanes) };
    float *shared = (float *)spc_shared();
    int piece = block * $(lanes) + spc_lane() % $(lanes);
    int warp = spc_warp();
    float sum[$(n)];

    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        sum[e] = NOTHING;
    if (piece >= $(pieces))
        begin = end; /* some lanes of the last block have no channels */
    for (int p = begin + warp * $(32 // lanes) + spc_lane() / $(lanes); p < end;
         p += DEPTH * STEP) {
        $(piece_type(problem, n)) loaded[DEPTH];

        SPC_UNROLL
        for (int j = 0; j < DEPTH; j++)
            if (p + j * STEP < end)
                loaded[j] = $(read_piece(problem, n, "args->in", "args->order[p + j * STEP] * args->in_pitch + piece * " .. n));
        SPC_UNROLL
        for (int j = 0; j < DEPTH; j++) {
            float x[$(n)];
            if (p + j * STEP >= end)
                continue;
            unpack$(n)(x, loaded[j]);
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                sum[e] = both(sum[e], x[e]);
        }
    }
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        for (int bits = $(lanes); bits < 32; bits <<= 1)
            sum[e] = both(sum[e], spc_shfl_xor_f32(sum[e], bits));
    spc_sync_block(); /* all threads have read the previous sums */
    if (spc_lane() < $(lanes))
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            shared[warp * $(lanes * n) + spc_lane() * $(n) + e] = sum[e];
    spc_sync_block();
    for (int c = spc_thread(); c < $(lanes * n); c += SPC_FEATURE_THREADS) {
        float all = shared[c];
        for (int w = 1; w < WARPS; w++)
            all = both(all, shared[w * $(lanes * n) + c]);
        if (block * $(lanes * n) + c < CHANNELS)
            to[block * $(lanes * n) + c] = all;
    }
}

% write_part_kernel(name, "int block = 0; block < " .. (pieces + lanes - 1) // lanes .. "; block++",
%   "part_sums" .. n, "CHANNELS", "block")
%end
% write_part("spc_part", wide)
% if needs_single(problem, problem.channels, problem.channels) then
%   write_part("spc_part_1", 1)
% end
/* Each block has 32 channels of an element. Its warps take the parts in
 * rotation. */
SPC_KERNEL(spc_join, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    enum { BLOCKS = (CHANNELS + 31) / 32 };
    float *shared = (float *)spc_shared();
    int warp = spc_warp(), items = args->batches * BLOCKS;

    for (int i = spc_block_x(); i < items; i += spc_grid_x()) {
        int batch = i / BLOCKS, c = i % BLOCKS * 32 + spc_lane();
        element e = find_element(args, batch);
        const float *parts =
            args->parts + (long long)batch * SPC_FEATURE_PARTS * CHANNELS;
        float sum = NOTHING;

        if (c < CHANNELS)
            for (int j = warp; j < parts_of(&e); j += WARPS)
                sum = both(sum, parts[(long long)j * CHANNELS + c]);
        shared[warp * 32 + spc_lane()] = sum;
        spc_sync_block();
        if (warp == 0 && c < CHANNELS) {
            for (int w = 1; w < WARPS; w++)
                sum = both(sum, shared[w * 32 + spc_lane()]);
% if problem.reduce == "mean" then
            sum = sum / (float)(e.end - e.begin);
% end
            if (e.begin == e.end)
                sum = 0;
% if back then
            args->moments[(long long)batch * CHANNELS + c] = sum;
% else
            store1(args->out, batch * args->out_pitch + c, &sum);
% end
        }
        spc_sync_block(); /* the sums have been read */
    }
}
% if back then
/* Finds the first voxel that has the maximum. */
SPC_KERNEL(spc_find, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    long long items = (long long)*args->count * CHANNELS;
    long long step = (long long)spc_grid_x() * SPC_FEATURE_THREADS;
    long long i = (long long)spc_block_x() * SPC_FEATURE_THREADS + spc_thread();

    for (; i < items; i += step) {
        int p = (int)(i / CHANNELS), c = (int)(i % CHANNELS);
        long long at = (long long)coordinate_of(args, p, 0) * CHANNELS + c;
        float x;

        load1(&x, args->in, args->order[p] * args->in_pitch + c);
        if (x == args->moments[at])
            spc_atomic_min(args->cells + at, p);
    }
}

%local function write_spread(name, n)
SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int count = *args->count;

    for (int p = spc_block_x() * WARPS + spc_warp(); p < count; p += spc_grid_x() * WARPS) {
        int batch = coordinate_of(args, p, 0);
        const int *first = args->cells + (long long)batch * CHANNELS;
        long long to = args->order[p] * args->out_pitch;

        for (int at = spc_lane() * $(n); at < CHANNELS; at += 32 * $(n)) {
            float v[$(n)];

            load$(n)(v, args->add, batch * args->add_pitch + at);
            SPC_UNROLL
            for (int i = 0; i < $(n); i++)
                v[i] = first[at + i] == p ? v[i] : 0.0f;
            store$(n)(args->out, to + at, v);
        }
    }
}

%end
%   write_spread("spc_spread", wide)
%   if needs_single(problem, problem.channels, problem.channels) then
%     write_spread("spc_spread_1", 1)
%   end
% end
% end
