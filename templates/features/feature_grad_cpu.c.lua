%-- The gradients of the operators on features on a processor. They compute what the
%-- templates feature_*.cu.lua compute for pass=dgrad and pass=wgrad, by plain loops over
%-- channels, and are launched as in feature_cpu.c.lua.
%
%include "feature_host.lua"
%include "feature_planes.lua"
%
%local ops = {
%  "pool,dgrad", "unpool,dgrad", "global,dgrad", "layernorm,dgrad", "groupnorm,dgrad",
%  "groupmean,dgrad", "bev,dgrad", "affine,dgrad", "affine,wgrad", "layernorm,wgrad",
%  "groupnorm,wgrad",
%}
%
%template = {
%  summary = "gradients of operators on features on a processor",
%  role = "feature",
%  device = "cpu",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    return {half = feature_format(problem).host, sums = problem.pass == "wgrad"}
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
%local op = problem.op
% if op == "layernorm" or op == "groupnorm" then
%   write_rsqrt("SPC_INLINE", "spc_float_of_bits", "spc_bits_of_float")
% end
%
%-- ---- sums over rows ------------------------------------------------------------------
%
%-- As in feature_channels.lua. of[0] and of[1] are the mean and 1 / sqrt of a row.
%local function write_sums(given, row, moments)
/* The rows of a part; depends only on the number of rows. */
static int rows_of_part(int rows)
{
    int each = (rows + SPC_FEATURE_PARTS - 1) / SPC_FEATURE_PARTS;

    return each < SPC_FEATURE_PART_ROWS ? SPC_FEATURE_PART_ROWS : each;
}

/* The sums of dy * x and of dy over the rows of one part, channel by
 * channel. */
static void sum_rows(const spc_feature_args *args, long long part)
{
    int rows = $(given), each = rows_of_part(rows);
    long long begin = part * each;
    long long end = begin + each < rows ? begin + each : rows;
    float *to = args->parts + part * 2 * CHANNELS;

    /* sum_parts() does not read the parts past the last row. */
    if (begin >= rows)
        return;
    for (int c = 0; c < 2 * CHANNELS; c++)
        to[c] = 0;
    for (long long p = begin; p < end; p++) {
        long long row = $(row);
%  if moments then
        const float *of = $(moments);
%  end
        for (int c = 0; c < CHANNELS; c++) {
            float x = get(args->in, row * args->in_pitch + c);
            float dy = get(args->add, row * args->add_pitch + c);
%  if op == "groupnorm" then
            x = (x - of[c / GROUP * 2]) * of[c / GROUP * 2 + 1];
%  elseif op == "layernorm" then
            x = (x - of[0]) * of[1];
%  end
            to[c] += dy * x;
            to[CHANNELS + c] += dy;
        }
    }
}

%  write_host_kernel("spc_channels", "SPC_FEATURE_PARTS", "sum_rows")
/* Adds the parts in their order, so that equal inputs give equal bits. */
static void sum_parts(const spc_feature_args *args, long long i)
{
    int rows = $(given), each = rows_of_part(rows);
    float sum = 0;

    for (int j = 0; j * each < rows; j++)
        sum += args->parts[(long long)j * 2 * CHANNELS + i];
    ((float *)args->out)[i] = sum;
}

%  write_host_kernel("spc_sums", "2 * CHANNELS", "sum_parts")
%end
%-- dx of channel c from xhat, g and their two means.
%local function write_back(scale, all, along)
        put(args->out, row * args->out_pitch + c,
            $(scale) * (g[c] - $(all) - x[c] * $(along)));
%end
% if op == "pool" or op == "unpool" then
enum { OFFSETS = $(problem.offsets) };

%   local counts = problem.reduce == "mean" or op == "unpool" and problem.index == 0
%   if counts then
/* Counts the outputs that see each input, or finds the first offset that
 * does. */
static void count(const spc_feature_args *args, long long p)
{
    for (int k = 0; k < OFFSETS; k++) {
        int from = args->map[(long long)k * args->rows_padded + p];
        if (from < 0)
            continue;
%     if op == "pool" then
        /* Threads may count the same input. Relaxed is enough, because the
         * counts are read after this launch. */
        __atomic_fetch_add(args->cells + from, 1, __ATOMIC_RELAXED);
%     else
        /* An atomic minimum, which C11 does not have. */
        int old = __atomic_load_n(args->cells + from, __ATOMIC_RELAXED);
        while (k < old &&
               !__atomic_compare_exchange_n(args->cells + from, &old, k, 0,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
%     end
    }
}

%     write_host_kernel("spc_count", "*args->count", "count")
%   end
/* Adds dy of all outputs that saw the input at position p. */
static void pool(const spc_feature_args *args, long long p)
{
    long long row = args->order[p];
    float sum[CHANNELS] = {0};

    for (int k = 0; k < OFFSETS; k++) {
        long long from = args->map[(long long)k * args->rows_padded + p];
        if (from < 0)
            continue;
%   if op == "unpool" and problem.index == 0 then
        /* Only the first offset of an un-pooled row was used. */
        if (args->cells[from] != k)
            continue;
%   end
        for (int c = 0; c < CHANNELS; c++)
%   if problem.reduce == "mean" then
            sum[c] += get(args->in, from * args->in_pitch + c) /
                      (float)args->cells[from];
%   elseif op == "unpool" and problem.index == 1 then
            if (args->index[row * CHANNELS + c] == from)
                sum[c] += get(args->in, from * args->in_pitch + c);
%   else
            sum[c] += get(args->in, from * args->in_pitch + c);
%   end
    }
    for (int c = 0; c < CHANNELS; c++)
        put(args->out, row * args->out_pitch + c, sum[c]);
}

%   write_host_kernel("spc_pool", "*args->count", "pool")
% elseif op == "groupmean" or op == "affine" and not sums then
%   write_rows_given("SPC_INLINE")
static void turn_row(const spc_feature_args *args, long long row)
{
    for (int c = 0; c < CHANNELS; c++)
%   if op == "affine" then
        put(args->out, row * args->out_pitch + c,
            get(args->in, row * args->in_pitch + c) * args->scale[c]);
%   else
        put(args->out, row * args->out_pitch + c,
            get(args->in, row * args->in_pitch + c / $(problem.by)) /
                (float)$(problem.by));
%   end
}

%   write_host_kernel("spc_rows", "rows_given(args)", "turn_row")
% elseif op == "affine" then
%   write_rows_given("SPC_INLINE")
%   write_sums("rows_given(args)", "p")
% elseif op == "layernorm" then
%   write_rows_given("SPC_INLINE")
/* Replaces x by (x - mean) / sqrt(var + eps). */
static void normalise(float *x, float *mean, float *scale,
                      const spc_feature_args *args, long long row)
{
    float sum = 0, squares = 0;

    for (int c = 0; c < CHANNELS; c++) {
        x[c] = get(args->in, row * args->in_pitch + c);
        sum += x[c];
    }
    *mean = sum / (float)CHANNELS;
    for (int c = 0; c < CHANNELS; c++) {
        x[c] -= *mean;
        squares += x[c] * x[c];
    }
    *scale = feature_rsqrt(squares / (float)CHANNELS + args->eps);
    for (int c = 0; c < CHANNELS; c++)
        x[c] *= *scale;
}

%   if sums then
/* Each part of the sums needs the moments of its rows, so they are stored
 * first. */
static void keep_moments(const spc_feature_args *args, long long row)
{
    float x[CHANNELS];

    normalise(x, args->moments + 2 * row, args->moments + 2 * row + 1, args, row);
}

%     write_host_kernel("spc_moments", "rows_given(args)", "keep_moments")
%     write_sums("rows_given(args)", "p", "args->moments + 2 * row")
%   else
/* dx = scale * (g - mean(g) - xhat * mean(g * xhat)), where g is dy times the
 * channel's scale. */
static void turn_row(const spc_feature_args *args, long long row)
{
    float x[CHANNELS], g[CHANNELS], mean, scale, all = 0, along = 0;

    normalise(x, &mean, &scale, args, row);
    for (int c = 0; c < CHANNELS; c++) {
        g[c] = get(args->add, row * args->add_pitch + c)$(problem.affine == 1 and " * args->scale[c]" or "");
        all += g[c];
        along += g[c] * x[c];
    }
    all /= (float)CHANNELS;
    along /= (float)CHANNELS;
    for (int c = 0; c < CHANNELS; c++)
%     write_back("scale", "all", "along")
}

%     write_host_kernel("spc_norm", "rows_given(args)", "turn_row")
%   end
% elseif op == "bev" then
%   local x, y, z = problem.x, problem.y, problem.z
%   write_coordinates("SPC_INLINE", true)
%   local axes = plane_axes(problem)
#define PLANE $(axes.plane)LL

/* A voxel outside of the plane was dropped, so its gradient is zero. */
static void fetch(const spc_feature_args *args, long long i)
{
    int p = (int)i;
    int x = coordinate_of(args, p, 1), y = coordinate_of(args, p, 2);
    int z = coordinate_of(args, p, 3);
    int inside = x >= 0 && x < $(x) && y >= 0 && y < $(y) && z >= 0 && z < $(z);
    long long from = coordinate_of(args, p, 0) * args->in_pitch + $(axes.layer) * PLANE +
                     $(axes.cell);
    long long to = args->order[p] * args->out_pitch;

    for (int c = 0; c < CHANNELS; c++)
        put(args->out, to + c, inside ? get(args->in, from + c * ($(axes.depth) * PLANE)) : 0.0f);
}

%   write_host_kernel("spc_fetch", "*args->count", "fetch")
% else
%   write_coordinates("SPC_INLINE", true)
%   write_host_elements()
%   if op == "groupnorm" then
%     write_host_moments(problem)
#define MOMENTS(p) \
    (args->moments + (long long)coordinate_of(args, (int)(p), 0) * GROUPS * 2)

%     if sums then
%       write_sums("*args->count", "args->order[p]", "MOMENTS(p)")
%     else
static float g_of(const spc_feature_args *args, long long row, int c)
{
    return get(args->add, row * args->add_pitch + c)$(problem.affine == 1 and " * args->scale[c]" or "");
}

/* The sums of g and of g xhat of each group. */
static void sum_part_back(const spc_feature_args *args, long long i)
{
    extent e = find_part(args, i);
    float *to = args->parts + i * GROUPS * 2;

    /* An empty part is left as it is: join_parts_back() does not read it. */
    for (int group = 0; group < 2 * GROUPS && e.begin < e.end; group++)
        to[group] = 0;
    for (int p = e.begin; p < e.end; p++) {
        long long row = args->order[p];
        const float *of = MOMENTS(p);
        for (int c = 0; c < CHANNELS; c++) {
            int at = c / GROUP * 2;
            float x = get(args->in, row * args->in_pitch + c);
            float g = g_of(args, row, c);
            to[at] += g;
            to[at + 1] += g * ((x - of[at]) * of[at + 1]);
        }
    }
}

%       write_host_kernel("spc_part_back", "ALL_PARTS", "sum_part_back")
/* Their means, stored after the moments. */
static void join_parts_back(const spc_feature_args *args, long long i)
{
    long long batch = i / GROUPS, group = i % GROUPS;
    extent e = find_element(args, (int)batch);
    const float *parts =
        args->parts + (batch * SPC_FEATURE_PARTS * GROUPS + group) * 2;
    float *means = args->moments + ((long long)args->batches * GROUPS + i) * 2;
    float n = (float)(e.end - e.begin) * (float)GROUP, all = 0, along = 0;

    for (int begin = e.begin; begin < e.end; begin += e.part_rows) {
        all += parts[0];
        along += parts[1];
        parts += GROUPS * 2;
    }
    /* An element without voxels has no means, and nothing reads them. */
    if (n > 0) {
        means[0] = all / n;
        means[1] = along / n;
    }
}

%       write_host_kernel("spc_join_back", "(long long)args->batches * GROUPS", "join_parts_back")
static void turn_row(const spc_feature_args *args, long long p)
{
    long long row = args->order[p];
    const float *of = MOMENTS(p), *means = of + (long long)args->batches * GROUPS * 2;
    float x[CHANNELS], g[CHANNELS];

    for (int c = 0; c < CHANNELS; c++) {
        int at = c / GROUP * 2;
        x[c] = (get(args->in, row * args->in_pitch + c) - of[at]) * of[at + 1];
        g[c] = g_of(args, row, c);
    }
    for (int c = 0; c < CHANNELS; c++)
%       write_back("of[c / GROUP * 2 + 1]", "means[c / GROUP * 2]", "means[c / GROUP * 2 + 1]")
}

%       write_host_kernel("spc_apply", "*args->count", "turn_row")
%     end
%   elseif problem.reduce ~= "max" then
/* Every voxel gets the gradient of its element's sum, or its share of it. */
static void spread(const spc_feature_args *args, long long p)
{
    int batch = coordinate_of(args, (int)p, 0);
%     if problem.reduce == "mean" then
    extent e = find_element(args, batch);
%     end

    for (int c = 0; c < CHANNELS; c++)
        put(args->out, args->order[p] * args->out_pitch + c,
            get(args->in, batch * args->in_pitch + c)$(problem.reduce == "mean" and " / (float)(e.end - e.begin)" or ""));
}

%     write_host_kernel("spc_spread", "*args->count", "spread")
%   else
/* The maxima of a part. */
static void find_most(const spc_feature_args *args, long long i)
{
    extent e = find_part(args, i);
    float *most = args->parts + i * CHANNELS;

    for (int p = e.begin; p < e.end; p++)
        for (int c = 0; c < CHANNELS; c++) {
            float x = get(args->in, args->order[p] * args->in_pitch + c);
            most[c] = p == e.begin || x > most[c] ? x : most[c];
        }
}

%     write_host_kernel("spc_part", "ALL_PARTS", "find_most")
/* The maxima of an element, from those of its parts. */
static void join_most(const spc_feature_args *args, long long batch)
{
    extent e = find_element(args, (int)batch);
    const float *parts = args->parts + batch * SPC_FEATURE_PARTS * CHANNELS;
    float *most = args->moments + batch * CHANNELS;

    for (int begin = e.begin; begin < e.end; begin += e.part_rows) {
        for (int c = 0; c < CHANNELS; c++)
            most[c] = begin == e.begin || parts[c] > most[c] ? parts[c] : most[c];
        parts += CHANNELS;
    }
}

%     write_host_kernel("spc_join", "args->batches", "join_most")
/* Finds the first voxel of an element that has the maximum. */
static void find_first(const spc_feature_args *args, long long batch)
{
    extent e = find_element(args, (int)batch);
    const float *most = args->moments + batch * CHANNELS;
    int *first = args->cells + batch * CHANNELS;

    /* Backwards, so that the first voxel is stored last. */
    for (int p = e.end - 1; p >= e.begin; p--)
        for (int c = 0; c < CHANNELS; c++)
            if (get(args->in, args->order[p] * args->in_pitch + c) == most[c])
                first[c] = p;
}

%     write_host_kernel("spc_find", "args->batches", "find_first")
/* Only the first voxel with the maximum gets the gradient. */
static void spread(const spc_feature_args *args, long long p)
{
    int batch = coordinate_of(args, (int)p, 0);
    const int *first = args->cells + (long long)batch * CHANNELS;

    for (int c = 0; c < CHANNELS; c++)
        put(args->out, args->order[p] * args->out_pitch + c,
            first[c] == p ? get(args->add, batch * args->add_pitch + c) : 0.0f);
}

%     write_host_kernel("spc_spread", "*args->count", "spread")
%   end
% end
