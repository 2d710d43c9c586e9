%-- Dense planes from sparse rows, for the 2D convolutions in the second half of a
%-- detector.
%--
%--   spc_place   every voxel writes its row number into its cell; empty cells hold -1
%--   spc_dense   each lane has a cell of a plane, and neighbouring lanes have
%--               neighbouring cells, so the stores for one channel are contiguous.
%--               Every element is written once, zeros included.
%--
%-- The gradient reads the cell of each voxel. Each lane has a voxel, and neighbouring
%-- lanes mostly have neighbouring cells.
%
%include "feature.lua"
%include "feature_planes.lua"
%
%local ops = {"bev", "bev,dgrad"}
%
%template = {
%  summary = "scatters voxels into dense planes",
%  role = "feature",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target) return accepts_feature(problem, ops) end,
%  constraints = {},
%  derive = function(problem, config, target)
%    local wide = natural_elements(problem, problem.channels)
%    -- Up to 32 channels for a cell: its row number is read once for all of
%    -- them.
%    local span = wide
%    while span < 32 and problem.channels % (span * 2) == 0 do span = span * 2 end
%    return {wide = wide, span = span}
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"
#include "feature_abi.h"

% local x, y, z = problem.x, problem.y, problem.z
% local axes = plane_axes(problem)
enum {
    CHANNELS = $(problem.channels),
    DEPTH = $(axes.depth),
    RUNS = $((axes.plane + 31) // 32), /* runs of 32 cells in a plane */
    WARPS = SPC_FEATURE_THREADS / 32
};

#define PLANE $(axes.plane)LL

% write_accesses(problem, {1, wide})
% write_coordinates("SPC_DEVICE")
% if problem.pass then
%local function write_fetch(name, n)
/* Reads $(span) channels for the voxel at position p. */
SPC_DEVICE void fetch$(n)(const spc_feature_args *args, int p, int c)
{
    int x = coordinate_of(args, p, 1), y = coordinate_of(args, p, 2);
    int z = coordinate_of(args, p, 3);
    int inside = x >= 0 && x < $(x) && y >= 0 && y < $(y) && z >= 0 && z < $(z);
    long long from = coordinate_of(args, p, 0) * args->in_pitch +
                     ((long long)c * DEPTH + $(axes.layer)) * PLANE + $(axes.cell);
    long long to = args->order[p] * args->out_pitch + c;

    for (int i = 0; i < $(span); i += $(n)) {
        float v[$(n)];

        SPC_UNROLL
        for (int e = 0; e < $(n); e++) {
            v[e] = 0;
            if (inside)
                load1(v + e, args->in, from + (i + e) * (DEPTH * PLANE));
        }
        store$(n)(args->out, to + i, v);
    }
}

SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    enum { SPANS = CHANNELS / $(span) };
    int runs = (*args->count + 31) / 32;
    long long items = (long long)runs * SPANS;

    for (long long i = (long long)spc_block_x() * WARPS + spc_warp(); i < items;
         i += (long long)spc_grid_x() * WARPS) {
        int p = (int)(i / SPANS) * 32 + spc_lane();
        if (p < *args->count)
            fetch$(n)(args, p, (int)(i % SPANS) * $(span));
    }
}

%end
%   write_fetch("spc_fetch", wide)
%   if needs_single(problem, 1, problem.channels) then
%     write_fetch("spc_fetch_1", 1)
%   end
% else
SPC_KERNEL(spc_place, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int count = *args->count;

    for (int p = spc_block_x() * SPC_FEATURE_THREADS + spc_thread(); p < count;
         p += spc_grid_x() * SPC_FEATURE_THREADS) {
        int x = coordinate_of(args, p, 1), y = coordinate_of(args, p, 2);
        int z = coordinate_of(args, p, 3);
        long long layer = (long long)coordinate_of(args, p, 0) * DEPTH + $(axes.layer);

        if (x >= 0 && x < $(x) && y >= 0 && y < $(y) && z >= 0 && z < $(z))
            args->cells[layer * PLANE + $(axes.cell)] = args->order[p];
    }
}

%local function write_kernel(name, n, span)
/* Writes $(span) channels of 32 cells. */
SPC_DEVICE void spread$(n)(const spc_feature_args *args, int layer, int cell, int c)
{
    /* Beyond the plane's end the cells of the next layer begin. */
    int row = cell < PLANE ? args->cells[layer * PLANE + cell] : -1;
    long long to = layer / DEPTH * args->out_pitch +
                   ((long long)c * DEPTH + layer % DEPTH) * PLANE + cell;

    /* The last run of a plane may be shorter than a warp. */
    if (cell >= PLANE)
        return;
    for (int i = 0; i < $(span); i += $(n)) {
        float v[$(n)];

        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            v[e] = 0;
        if (row >= 0)
            load$(n)(v, args->in, row * args->in_pitch + c + i);
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            store1(args->out, to + (i + e) * (DEPTH * PLANE), v + e);
    }
}

SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    enum { SPANS = CHANNELS / $(span) };
    long long items = (long long)args->batches * DEPTH * RUNS * SPANS;

    for (long long i = (long long)spc_block_x() * WARPS + spc_warp(); i < items;
         i += (long long)spc_grid_x() * WARPS) {
        long long run = i / SPANS;
        spread$(n)(args, (int)(run / RUNS), (int)(run % RUNS) * 32 + spc_lane(),
                   (int)(i % SPANS) * $(span));
    }
}

%end
% write_kernel("spc_dense", wide, span)
% if needs_single(problem, problem.channels, 1) then
%   write_kernel("spc_dense_1", 1, span)
% end
% end
