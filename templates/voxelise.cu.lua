%-- Points become voxels: each point's voxel, then what the points of a voxel say together.
%--
%-- spc_voxel_list writes down the voxel of every point, -1 where it is left out. Sorting
%-- that list as any set (index.cu.lua) finds the voxels, and which points each has, in the
%-- order of the points. spc_voxel_fill then writes coordinates and features, a thread for
%-- each column of a voxel, so that a sum has one order.
%--
%-- Nothing of grids or points is a constant: one module serves all.
%
%template = {
%  summary = "points to voxels and their features",
%  role = "map",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "voxelise" then return false, "takes points" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target) return {} end,
%  launch = function(problem, config, target) return {} end,
%  default = function(problem, target) return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"
#include "voxelise_abi.h"

SPC_DEVICE int first_thread(void)
{
    return spc_block_x() * $(problem.threads) + spc_thread();
}

SPC_DEVICE int all_threads(void)
{
    return spc_grid_x() * $(problem.threads);
}

/* ---- the voxel of a point --------------------------------------------- */

SPC_DEVICE void note_bad(const spc_voxelise_args *args, int point)
{
    spc_atomic_add(args->stats + SPC_VOXELISE_BAD, 1);
    spc_atomic_max(args->stats + SPC_VOXELISE_BAD_POINT, 0x7fffffff - point);
}

/* The batch element, -1 if there is no such one. */
SPC_DEVICE int batch_of(const spc_voxelise_args *args, const float *point)
{
    float b = args->batched ? point[0] : 0.0f;

    if (!(b >= 0.0f && b < spc_int_to_f32(args->batches)))
        return -1;
    return spc_int_to_f32((int)b) == b ? (int)b : -1;
}

/* Of what is not below 0 the integer part is the floor. 1: inside. */
SPC_DEVICE int cell_of(const spc_voxelise_args *args, const float *at, spc_u32 *cell)
{
    SPC_UNROLL
    for (int a = 0; a < 3; a++) {
        float q = (at[a] - args->low[a]) / args->size[a];
        if (!(q >= 0.0f && q < spc_int_to_f32(args->cells[a])))
            return 0;
        cell[a] = (spc_u32)(int)q;
    }
    return 1;
}

SPC_DEVICE int is_numbers(const float *at)
{
    return at[0] == at[0] && at[1] == at[1] && at[2] == at[2];
}

SPC_DEVICE spc_b16 voxel_of(const spc_voxelise_args *args, int i)
{
    const float *point = args->points + (long long)i * args->pitch;
    const float *at = point + args->batched;
    int batch = batch_of(args, point);
    spc_u32 cell[3];
    spc_b16 voxel;

    voxel.x = voxel.y = voxel.z = voxel.w = 0xffffffffu;
    if (batch < 0 || !is_numbers(at)) {
        note_bad(args, i);
    } else if (!cell_of(args, at, cell)) {
        spc_atomic_add(args->stats + SPC_VOXELISE_OUTSIDE, 1);
    } else {
        voxel.x = (spc_u32)batch;
        voxel.y = cell[0];
        voxel.z = cell[1];
        voxel.w = cell[2];
    }
    return voxel;
}

SPC_KERNEL(spc_voxel_list, spc_voxelise_args, $(problem.threads), 1)
{
    int count = args->count ? *args->count : args->rows;

    count = count < args->capacity ? count : args->capacity;
    for (int i = first_thread(); i < count; i += all_threads())
        spc_store16(args->list + 4ll * i, voxel_of(args, i));
}

/* ---- what the points of a voxel say ----------------------------------- */

/* The points of a voxel: places among the twins, or the one point alone. */
typedef struct span {
    int begin, count, alone;
} span;

SPC_DEVICE span points_of(const spc_voxelise_args *args, int voxel)
{
    span s;

    s.alone = args->sorted[SPC_INDEX_DUPLICATES] == 0;
    s.begin = s.alone ? voxel : args->twin_begin[voxel];
    s.count = s.alone ? 1 : args->twin_begin[voxel + 1] - s.begin;
    if (args->most > 0 && s.count > args->most)
        s.count = args->most;
    return s;
}

SPC_DEVICE float number_of(const spc_voxelise_args *args, const span *s, int i, int column)
{
    int point = s->alone ? args->order[s->begin] : args->twins[s->begin + i];

    return args->points[(long long)point * args->pitch + args->batched + column];
}

SPC_DEVICE void store(const spc_voxelise_args *args, long long at, float value)
{
    if (args->half == 0)
        ((float *)args->features)[at] = value;
    else
        ((spc_u16 *)args->features)[at] =
            args->half == 2 ? spc_f32_to_bf16(value) : spc_f32_to_f16(value);
}

/* Next to a sensor a voxel has a thousand points: eight are on their way at once, and
 * added in their order. */
SPC_DEVICE float add_eight(const spc_voxelise_args *args, const span *s, int i, int column,
                           float sum)
{
    float number[8];

    SPC_UNROLL
    for (int k = 0; k < 8; k++)
        number[k] = i + k < s->count ? number_of(args, s, i + k, column) : 0.0f;
    SPC_UNROLL
    for (int k = 0; k < 8; k++)
        if (i + k < s->count)
            sum += number[k];
    return sum;
}

SPC_DEVICE void store_mean(const spc_voxelise_args *args, const span *s, int voxel, int column)
{
    float sum = number_of(args, s, 0, column);

    for (int i = 1; i < s->count; i += 8)
        sum = add_eight(args, s, i, column, sum);
    store(args, (long long)voxel * args->columns + column, sum / spc_int_to_f32(s->count));
}

SPC_DEVICE void store_points(const spc_voxelise_args *args, const span *s, int voxel, int column)
{
    long long first = (long long)voxel * args->most;

    for (int i = 0; i < args->most; i++)
        store(args, (first + i) * args->columns + column,
              i < s->count ? number_of(args, s, i, column) : 0.0f);
}

SPC_KERNEL(spc_voxel_fill, spc_voxelise_args, $(problem.threads), 1)
{
    int voxels = *args->voxels < args->room ? *args->voxels : args->room;
    long long items = (long long)voxels * args->columns;

    for (long long i = first_thread(); i < items; i += all_threads()) {
        int voxel = (int)(i / args->columns), column = (int)(i % args->columns);
        span s = points_of(args, voxel);
        if (args->mean)
            store_mean(args, &s, voxel, column);
        else
            store_points(args, &s, voxel, column);
        if (column != 0)
            continue;
        args->points_of[voxel] = s.count;
        spc_store16(args->coords + 4ll * voxel, spc_load16(args->list + 4ll * args->order[voxel]));
    }
}
