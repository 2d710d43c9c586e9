%-- The operators on features on a processor. They compute what the templates
%-- feature_*.cu.lua compute, by plain loops over channels that the compiler vectorises.
%--
%-- A launch calls a kernel once for each thread that a GPU's block would have. The
%-- first call of a block does all its work and the others return at once. A block has
%-- neighbouring rows.
%
%include "feature_host.lua"
%include "feature_planes.lua"
%
%local ops = {
%  "pool", "unpool", "global", "add", "act", "layernorm", "groupnorm", "groupsum",
%  "groupmean", "repeat", "bev", "actgrad", "affine", "slice", "unslice",
%}
%
%template = {
%  summary = "operators on features on a processor",
%  role = "feature",
%  device = "cpu",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    local outputs = problem.channels
%    if problem.op == "repeat" then outputs = outputs * problem.by end
%    if problem.op == "groupsum" or problem.op == "groupmean" then
%      outputs = outputs // problem.by
%    end
%    return {
%      half = feature_format(problem).host,
%      outputs = outputs,
%      best = problem.reduce == "max",
%      stored = problem.index == 1,
%    }
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#define SPC_LANES 4
#include "spc_cpu.h"
#include "index_abi.h"
#include "feature_abi.h"

enum { CHANNELS = $(problem.channels), OUTPUTS = $(outputs) };

% write_host_access(half)
%local write_kernel = write_host_kernel
%local op = problem.op
%local plain = op == "add" or op == "act" or op == "actgrad" or op == "affine"
% if plain or op == "layernorm" or op == "groupnorm" then
%   write_slope_activation(problem, "SPC_INLINE")
% end
% if op == "layernorm" or op == "groupnorm" then
%   write_rsqrt("SPC_INLINE", "spc_float_of_bits", "spc_bits_of_float")
% end
% if op == "pool" or op == "unpool" then
enum { OFFSETS = $(problem.offsets), CHUNK = 64 /* channels in one chunk */ };

/* Adds the contribution of offset k to `n` channels from `at` on. `present` is
 * the number of earlier offsets that had an input. */
SPC_INLINE void take(const spc_feature_args *args, float *restrict sum,
                     int *restrict row_of, long long from, int row, int present,
                     int at, int n)
{
    long long begin = from * args->in_pitch + at;

%   if op == "pool" and best then
    /* The first input sets the maxima, because all numbers may be negative. */
    if (present == 0)
        for (int c = 0; c < n; c++) {
            sum[c] = get(args->in, begin + c);
            row_of[c] = (int)from;
        }
    for (int c = 0; c < n; c++) {
        float v = get(args->in, begin + c);
        int better = v > sum[c];
        sum[c] = better ? v : sum[c];
        row_of[c] = better ? (int)from : row_of[c];
    }
%   elseif op == "unpool" and stored then
    for (int c = 0; c < n; c++)
        if (args->index[from * CHANNELS + at + c] == row)
            sum[c] += get(args->in, begin + c);
%   else
    for (int c = 0; c < n$(op == "unpool" and " && present == 0" or ""); c++)
        sum[c] += get(args->in, begin + c);
%   end
    (void)row_of;
    (void)row;
    (void)present;
}

/* Pools some channels of the voxel at position p. CHUNK bounds the arrays,
 * whatever the number of channels. */
static void pool_chunk(const spc_feature_args *args, int p, int at, int n)
{
    float sum[CHUNK] = {0};
    int row_of[CHUNK], present = 0, row = args->order[p];

    for (int c = 0; c < n; c++)
        row_of[c] = -1;
    for (int k = 0; k < OFFSETS; k++) {
        int from = args->map[(long long)k * args->rows_padded + p];
        if (from >= 0)
            take(args, sum, row_of, from, row, present++, at, n);
    }
%   if problem.reduce == "mean" then
    for (int c = 0; c < n && present > 0; c++)
        sum[c] /= (float)present;
%   end
    for (int c = 0; c < n; c++)
        put(args->out, row * args->out_pitch + at + c, sum[c]);
%   if op == "pool" and stored then
    for (int c = 0; c < n; c++)
        args->index[(long long)row * CHANNELS + at + c] = row_of[c];
%   end
}

static void pool(const spc_feature_args *args, long long p)
{
    for (int at = 0; at < CHANNELS; at += CHUNK)
        pool_chunk(args, (int)p, at,
                   CHANNELS - at < CHUNK ? CHANNELS - at : CHUNK);
}

%   write_kernel("spc_pool", "*args->count", "pool")
% elseif op == "slice" or op == "unslice" then
%   local offsets = problem.kx * problem.ky * problem.kz
%   local width = op == "slice" and problem.channels or problem.channels // offsets
enum {
    WIDTH = $(width), /* channels of a slice */
    KX = $(problem.kx),
    KY = $(problem.ky),
    KZ = $(problem.kz),
    OFFSETS = $(offsets)
};

/* The first channel of offset k's slice. Slices are numbered with x fastest,
 * offsets with z fastest. */
SPC_INLINE long long slice_of(int k)
{
    int x = k / (KY * KZ), y = k / KZ % KY, z = k % KZ;

    return (x + KX * (y + KY * z)) * (long long)WIDTH;
}

%   if op == "slice" then
/* Copies the input of each offset to its slice; an absent input gives zeros. */
static void move(const spc_feature_args *args, long long p)
{
    long long to = args->order[p] * args->out_pitch;

    for (int k = 0; k < OFFSETS; k++) {
        long long from = args->map[(long long)k * args->rows_padded + p];
        element *slice = (element *)args->out + to + slice_of(k);
        const element *row = (const element *)args->in + from * args->in_pitch;
        for (int c = 0; c < WIDTH; c++)
            slice[c] = from >= 0 ? row[c] : 0;
    }
}

%   else
/* The gradient: adds up the slices to which the row was copied. */
static void move(const spc_feature_args *args, long long p)
{
    long long row = args->order[p];
    float sum[WIDTH] = {0};

    for (int k = 0; k < OFFSETS; k++) {
        long long from = args->map[(long long)k * args->rows_padded + p];
        for (int c = 0; from >= 0 && c < WIDTH; c++)
            sum[c] += get(args->in, from * args->in_pitch + slice_of(k) + c);
    }
    for (int c = 0; c < WIDTH; c++)
        put(args->out, row * args->out_pitch + c, sum[c]);
}

%   end
%   write_kernel("spc_slices", "*args->count", "move")
% elseif plain then
%   write_rows_given("SPC_INLINE")
static void activate_row(const spc_feature_args *args, long long row)
{
    for (int c = 0; c < CHANNELS; c++) {
        float v = get(args->in, row * args->in_pitch + c);
%   if op == "add" then
        v += get(args->add, row * args->add_pitch + c);
%   elseif op == "affine" then
        v = v * args->scale[c] + args->shift[c];
%   end
        v = activate(v, args->slope);
%   if op == "actgrad" then
        v *= get(args->add, row * args->add_pitch + c);
%   end
        put(args->out, row * args->out_pitch + c, v);
    }
}

%   write_kernel("spc_rows", "rows_given(args)", "activate_row")
% elseif op == "groupsum" or op == "groupmean" or op == "repeat" then
enum { BY = $(problem.by) };

%   write_rows_given("SPC_INLINE")
/* Sums or repeats channels within a row. */
static void regroup_row(const spc_feature_args *args, long long row)
{
    for (int c = 0; c < OUTPUTS; c++) {
%   if op == "repeat" then
        float v = get(args->in, row * args->in_pitch + c / BY);
%   else
        float v = 0;
        for (int q = 0; q < BY; q++)
            v += get(args->in, row * args->in_pitch + (long long)c * BY + q);
%   end
%   if op == "groupmean" then
        v /= (float)BY;
%   end
        put(args->out, row * args->out_pitch + c, v);
    }
}

%   write_kernel("spc_rows", "rows_given(args)", "regroup_row")
% elseif op == "layernorm" then
%   write_rows_given("SPC_INLINE")
enum { LANES = 16, WHOLE = CHANNELS / LANES * LANES };

/*
 * Adds numbers in interleaved partial sums, so that the loop can be vectorised.
 */
static float sum_of(const float *x)
{
    float lanes[LANES] = {0}, sum = 0;

    for (int c = 0; c < WHOLE; c += LANES)
        for (int i = 0; i < LANES; i++)
            lanes[i] += x[c + i];
    for (int c = WHOLE; c < CHANNELS; c++)
        lanes[c - WHOLE] += x[c];
    for (int i = 0; i < LANES; i++)
        sum += lanes[i];
    return sum;
}

/* The variance is taken about the mean, in a second pass: a difference of
 * squares would cancel. */
static void normalise_row(const spc_feature_args *args, long long row)
{
    long long from = row * args->in_pitch, to = row * args->out_pitch;
    float x[CHANNELS], squares[CHANNELS];

    for (int c = 0; c < CHANNELS; c++)
        x[c] = get(args->in, from + c);
    float mean = sum_of(x) / (float)CHANNELS;

    for (int c = 0; c < CHANNELS; c++) {
        x[c] -= mean;
        squares[c] = x[c] * x[c];
    }
    float scale =
        feature_rsqrt(sum_of(squares) / (float)CHANNELS + args->eps);

    for (int c = 0; c < CHANNELS; c++) {
        float v = x[c] * scale;
%   if problem.affine == 1 then
        v = v * args->scale[c] + args->shift[c];
%   end
        put(args->out, to + c, activate(v, args->slope));
    }
}

%   write_kernel("spc_norm", "rows_given(args)", "normalise_row")
% elseif op == "bev" then
%   local x, y, z = problem.x, problem.y, problem.z
%   local axes = plane_axes(problem)
%   write_coordinates("SPC_INLINE", true)
enum { DEPTH = $(axes.depth) };

#define PLANE $(axes.plane)LL

/* Writes the voxel's row number to its cell. Voxels outside of the plane are
 * dropped. */
static void place(const spc_feature_args *args, long long i)
{
    int p = (int)i;
    int x = coordinate_of(args, p, 1), y = coordinate_of(args, p, 2);
    int z = coordinate_of(args, p, 3);
    long long layer = (long long)coordinate_of(args, p, 0) * DEPTH + $(axes.layer);

    if (x >= 0 && x < $(x) && y >= 0 && y < $(y) && z >= 0 && z < $(z))
        args->cells[layer * PLANE + $(axes.cell)] =
            args->order[p];
}

%   write_kernel("spc_place", "*args->count", "place")
/* Writes one channel of a layer, which is a plane. */
static void spread(const spc_feature_args *args, long long i)
{
    long long layer = i / CHANNELS, c = i % CHANNELS;
    const int *cells = args->cells + layer * PLANE;
    long long to = layer / DEPTH * args->out_pitch +
                   (c * DEPTH + layer % DEPTH) * PLANE;

    for (long long cell = 0; cell < PLANE; cell++)
        put(args->out, to + cell,
            cells[cell] >= 0 ? get(args->in, cells[cell] * args->in_pitch + c)
                             : 0.0f);
}

%   write_kernel("spc_dense", "(long long)args->batches * DEPTH * CHANNELS", "spread")
% else
%   write_coordinates("SPC_INLINE", true)
%   write_host_elements()
%   if op == "global" then
/* The sums or the maxima of one part. */
static void sum_part(const spc_feature_args *args, long long i)
{
    extent e = find_part(args, i);
    float *sum = args->parts + i * CHANNELS;

    for (int p = e.begin; p < e.end; p++) {
        long long from = args->order[p] * args->in_pitch;
        for (int c = 0; c < CHANNELS; c++) {
            float v = get(args->in, from + c);
            sum[c] = p == e.begin ? v : $(best and "v > sum[c] ? v : sum[c]" or "sum[c] + v");
        }
    }
}

%     write_kernel("spc_part", "ALL_PARTS", "sum_part")
/* Joins the parts of an element in their order. An element without voxels gives
 * 0. */
static void join_parts(const spc_feature_args *args, long long batch)
{
    extent e = find_element(args, (int)batch);
    const float *parts = args->parts + batch * SPC_FEATURE_PARTS * CHANNELS;
    int count = (e.end - e.begin + e.part_rows - 1) / e.part_rows;

    for (int c = 0; c < CHANNELS; c++) {
        float sum = count > 0 ? parts[c] : 0;
        for (int j = 1; j < count; j++) {
            float v = parts[(long long)j * CHANNELS + c];
            sum = $(best and "v > sum ? v : sum" or "sum + v");
        }
%     if problem.reduce == "mean" then
        if (count > 0)
            sum /= (float)(e.end - e.begin);
%     end
        put(args->out, batch * args->out_pitch + c, sum);
    }
}

%     write_kernel("spc_join", "args->batches", "join_parts")
%   else
%     write_host_moments(problem)
/* Applies the moments of the row's batch element. */
static void normalise_row(const spc_feature_args *args, long long p)
{
    long long row = args->order[p];
    const float *of =
        args->moments + (long long)coordinate_of(args, (int)p, 0) * GROUPS * 2;
    float x[CHANNELS];

    for (int c = 0; c < CHANNELS; c++)
        x[c] = get(args->in, row * args->in_pitch + c);
    for (int group = 0; group < GROUPS; group++)
        for (int c = group * GROUP; c < (group + 1) * GROUP; c++)
            x[c] = (x[c] - of[2 * group]) * of[2 * group + 1];
    for (int c = 0; c < CHANNELS; c++) {
%     if problem.affine == 1 then
        x[c] = x[c] * args->scale[c] + args->shift[c];
%     end
        put(args->out, row * args->out_pitch + c, activate(x[c], args->slope));
    }
}

%     write_kernel("spc_apply", "*args->count", "normalise_row")
%   end
% end
