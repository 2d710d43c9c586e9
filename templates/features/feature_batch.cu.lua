%-- Sums over all voxels of a batch element: global pooling, and the mean and variance of
%-- group normalisation.
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
%include "feature_elements.lua"
%include "feature_sums.lua"
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
    DEPTH = 4 /* loads in flight for each thread */
};

% write_accesses(problem, {1, wide, wide_group})
% if problem.affine == 1 and problem.pass ~= "wgrad" then
%   write_float_loads(1, wide, wide_group)
% end
% write_coordinates("SPC_DEVICE")
%
% write_elements()
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
    /* Two empty parts give an empty part, not NaN. */
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
%   -- A second copy of the same code would only take time to compile.
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
        /* In a fixed order of the lanes, so equal inputs give equal bits. */
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
        /* Rows are in ascending order of batch elements, so the search is
         * rarely repeated. */
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
% write_element_sums(problem, wide, false, back)
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
            /* The least position wins, so the order of arrival does not
             * matter. */
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
