%-- Space to channel over a kernel map, and channel to space over the inverse map. The input
%-- of an offset is a slice of the output's row. Each operator is the gradient of the other.
%--
%-- A thread has a piece of an output row. If the output row consists of slices, the piece
%-- belongs to one slice: the thread reads one entry of the map and moves the piece
%-- unchanged. If the input row consists of slices, the piece gets a part of every slice:
%-- the thread takes several offsets at a time, reads their rows, issues all loads for these
%-- rows at once, and adds the values in the order of the offsets.
%
%include "feature.lua"
%
%template = {
%  summary = "moves features between voxels and slices of channels",
%  role = "feature",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, {"slice", "unslice"}) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    local offsets = problem.kx * problem.ky * problem.kz
%    local slices = problem.op == "slice"
%    local width = slices and problem.channels or problem.channels // offsets
%    return {
%      offsets = offsets,
%      slices = slices,
%      width = width,
%      wide = natural_elements(problem, width),
%    }
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"
#include "feature_abi.h"

enum {
    WIDTH = $(width), /* channels of a slice */
    KX = $(problem.kx),
    KY = $(problem.ky),
    KZ = $(problem.kz),
    OFFSETS = $(offsets),
    BATCH = $(math.min(offsets, 8)) /* number of offsets processed together */
};

% if slices then
%-- A piece is moved unchanged; its numbers are not interpreted.
/* The offset of this slice. Slices are numbered with x fastest, offsets with z
 * fastest. */
SPC_DEVICE int offset_of(int slice)
{
    int x = slice % KX, y = slice / KX % KY, z = slice / (KX * KY);

    return (x * KY + y) * KZ + z;
}

% else
SPC_DEVICE int slice_of(int k)
{
    int x = k / (KY * KZ), y = k / KZ % KY, z = k % KZ;

    return x + KX * (y + KY * z);
}

% write_accesses(problem, {1, wide})
% end
%local function write_slice(n)
%  local bytes = n * feature_format(problem).bytes
/* Moves $(n) channels of a row of slices, from `at` on, for the voxel at
 * position p. */
SPC_DEVICE void move$(n)(const spc_feature_args *args, int p, int at)
{
    long long to = args->order[p] * args->out_pitch + at;
    int from = spc_load_int(args->map + (long long)offset_of(at / WIDTH) *
                                            args->rows_padded + p);
    $(piece_type(problem, n)) piece;

%  if bytes <= 4 then
    piece = 0;
%  elseif bytes == 8 then
    piece.x = piece.y = 0;
%  else
    piece.x = piece.y = piece.z = piece.w = 0;
%  end
    if (from >= 0)
        piece = $(read_piece(problem, n, "args->in", "from * args->in_pitch + at % WIDTH"));
    spc_store$(bytes)((char *)args->out + to * $(feature_format(problem).bytes), piece);
}

%end
%local function write_unslice(n)
/* Moves $(n) channels, from `at` on, for the voxel at position p. */
SPC_DEVICE void move$(n)(const spc_feature_args *args, int p, int at)
{
    float sum[$(n)];

    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        sum[e] = 0;
    for (int k = 0; k < OFFSETS; k += BATCH) {
        int from[BATCH];
        $(piece_type(problem, n)) loaded[BATCH];

        SPC_UNROLL
        for (int j = 0; j < BATCH; j++)
            from[j] = k + j < OFFSETS
                          ? spc_load_int(args->map +
                                         (long long)(k + j) * args->rows_padded +
                                         p)
                          : -1;
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++)
            if (from[j] >= 0)
                loaded[j] = $(read_piece(problem, n, "args->in", "from[j] * args->in_pitch + slice_of(k + j) * WIDTH + at"));
        SPC_UNROLL
        for (int j = 0; j < BATCH; j++) {
            float x[$(n)];

            if (from[j] < 0)
                continue;
            unpack$(n)(x, loaded[j]);
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                sum[e] += x[e];
        }
    }
    store$(n)(args->out, args->order[p] * args->out_pitch + at, sum);
}

%end
%-- If both kernels move pieces of one element, the second one reuses the function of
%-- the first.
%local written = {}
%local function write_kernel(name, n)
%  if not written[n] then (slices and write_slice or write_unslice)(n) end
%  written[n] = true
%  local pieces = (slices and "OFFSETS * " or "") .. "(WIDTH / " .. n .. ")"
SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    long long items = (long long)*args->count * ($(pieces));
    long long step = (long long)spc_grid_x() * SPC_FEATURE_THREADS;
    long long i = (long long)spc_block_x() * SPC_FEATURE_THREADS + spc_thread();

    for (; i < items; i += step)
        move$(n)(args, (int)(i / ($(pieces))), (int)(i % ($(pieces))) * $(n));
}

%end
% write_kernel("spc_slices", wide)
% if needs_single(problem, problem.channels, slices and width * offsets or width) then
%   write_kernel("spc_slices_1", 1)
% end
