%-- Turns points into voxels: finds the voxel of each point, then combines the points of each
%-- voxel.
%--
%-- spc_voxel_list writes the voxel of every point. Sorting this list like any set
%-- (index.cu.lua) finds the voxels and the points of each, in the order of the points.
%-- spc_voxel_fill then writes coordinates and features, with one thread for each column of a
%-- voxel, so that the order of a sum is fixed.
%--
%-- The sort is slow if a thousand rows are equal, as points outside the grid or next to the
%-- sensor would be. Points that do not count are therefore *parked*: each gets a voxel of its
%-- own past the grid, which is sorted to the end. If only the first points of a voxel count,
%-- a block parks those points of its chunk that have enough earlier points of their voxel in
%-- the chunk.
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

/* The batch element, or -1 if it is invalid. */
SPC_DEVICE int batch_of(const spc_voxelise_args *args, const float *point)
{
    float b = args->batched ? point[0] : 0.0f;

    if (!(b >= 0.0f && b < spc_int_to_f32(args->batches)))
        return -1;
    return spc_int_to_f32((int)b) == b ? (int)b : -1;
}

/* For numbers that are not negative the integer part is the floor. Returns 1
 * inside the grid. */
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

/* All fields are -1 if the point is left out. */
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

/* ---- a chunk of points ------------------------------------------------ */

#define CHUNK SPC_VOXELISE_CHUNK
#define SLOTS (2 * CHUNK)
#define NOBODY 0xffffffffu

/* Takes SPC_VOXELISE_SHARED bytes. Points are numbered within the chunk. */
typedef struct voxel_chunk {
    spc_b16 voxel[CHUNK];
    int owner[CHUNK];    /* the owner of a point's voxel, or -1 */
    int count[CHUNK];    /* number of points of each owner's voxel so far */
    spc_u32 slot[SLOTS]; /* owners by voxel, or NOBODY */
} voxel_chunk;

SPC_DEVICE void open_chunk(const spc_voxelise_args *args, voxel_chunk *c, int first, int count)
{
    for (int p = spc_thread(); p < CHUNK; p += $(problem.threads)) {
        c->count[p] = 0;
        if (first + p < count)
            c->voxel[p] = voxel_of(args, first + p);
        else
            c->voxel[p].x = 0xffffffffu;
    }
    for (int i = spc_thread(); i < SLOTS; i += $(problem.threads))
        c->slot[i] = NOBODY;
}

SPC_DEVICE int is_same(const spc_b16 *a, const spc_b16 *b)
{
    return a->x == b->x && a->y == b->y && a->z == b->z && a->w == b->w;
}

/* The point that owns the voxel of point p. At most half of the slots are used, so a free
 * one is found. */
SPC_DEVICE int find_owner(voxel_chunk *c, int p)
{
    const spc_b16 *own = &c->voxel[p];
    spc_u32 slot = own->y * 0x9e3779b1u ^ own->z * 0x85ebca6bu ^ own->w * 0xc2b2ae35u ^ own->x;

    if (own->x == 0xffffffffu)
        return -1;
    for (slot ^= slot >> 15;; slot++) {
        spc_u32 there = spc_atomic_cas(&c->slot[slot % SLOTS], NOBODY, (spc_u32)p);
        if (there == NOBODY)
            return p;
        if (is_same(own, &c->voxel[there]))
            return (int)there;
    }
}

/* The number of points of the same voxel that precede this one in the chunk. The warps
 * count their points one after the other. */
SPC_DEVICE int count_before(voxel_chunk *c, int owner)
{
    int lane = spc_lane(), before = 0;
    spc_u32 peers = spc_match((spc_u32)owner);
    int leader = spc_ffs(peers) - 1;

    for (int warp = 0; warp < $(problem.threads // 32); warp++) {
        /* In the order of points, so that the first points of a voxel are kept
         * whatever the order of warps. */
        if (warp == spc_warp() && lane == leader && owner >= 0) {
            before = c->count[owner];
            c->count[owner] = before + spc_popc(peers);
        }
        spc_sync_block();
    }
    return spc_shfl(before, leader) + spc_popc(peers & ((1u << lane) - 1u));
}

/* Drops points with too many earlier points of their voxel. */
SPC_DEVICE void drop_surplus(const spc_voxelise_args *args, voxel_chunk *c)
{
    for (int p = spc_thread(); p < CHUNK; p += $(problem.threads))
        c->owner[p] = find_owner(c, p);
    spc_sync_block();
    for (int p = spc_thread(); p < CHUNK; p += $(problem.threads))
        if (count_before(c, c->owner[p]) >= args->most)
            c->voxel[p].x = 0xffffffffu;
}

/* A voxel for point i alone. */
SPC_DEVICE spc_b16 park(const spc_voxelise_args *args, int i)
{
    int rest = i % args->plane;
    spc_b16 voxel;

    spc_atomic_add(args->stats + SPC_VOXELISE_PARKED, 1);
    voxel.x = (spc_u32)(args->batches - 1);
    voxel.y = (spc_u32)(args->cells[0] + i / args->plane);
    voxel.z = (spc_u32)(rest % args->cells[1]);
    voxel.w = (spc_u32)(rest / args->cells[1]);
    return voxel;
}

SPC_KERNEL(spc_voxel_list, spc_voxelise_args, $(problem.threads), 1)
{
    voxel_chunk *c = (voxel_chunk *)spc_shared();
    int count = args->count ? *args->count : args->rows;

    count = count <= args->capacity ? count : 0;
    for (int first = spc_block_x() * CHUNK; first < count; first += spc_grid_x() * CHUNK) {
        spc_sync_block(); /* the previous chunk has been written */
        open_chunk(args, c, first, count);
        spc_sync_block();
        if (args->most > 0)
            drop_surplus(args, c);
        for (int p = spc_thread(); p < CHUNK && first + p < count; p += $(problem.threads))
            spc_store16(args->list + 4ll * (first + p),
                        c->voxel[p].x == 0xffffffffu ? park(args, first + p) : c->voxel[p]);
    }
}

/* ---- combining the points of a voxel ------------------------------------- */

/* The points of a voxel: a range of the twins, or a single point. */
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

/* Near a sensor a voxel has a thousand points. Eight are loaded at once, and added in
 * their order. */
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
    /* Begins with the first point and not with 0, so that a single point keeps
     * its bits. */
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
    int all = *args->listed - args->stats[SPC_VOXELISE_PARKED];
    int voxels = all < args->room ? all : args->room;
    long long items = (long long)voxels * args->columns;

    if (spc_block_x() == 0 && spc_thread() == 0)
        *args->voxels = all > 0 ? all : 0;
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
