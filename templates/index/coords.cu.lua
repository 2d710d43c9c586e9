%-- Derives coordinate sets from other sets, and merges the features of rows that belong to
%-- one voxel.
%--
%-- spc_derive lists the outputs of a strided rule, each once. Every voxel of the input set
%-- proposes its outputs: one by the floor rule, up to the product of ceil(kernel / stride)
%-- by the footprint rule. A hash table with open addressing keeps the first proposal of
%-- each output. In a generative layer the input voxels are the coarser ones, and each
%-- proposes a voxel for each of its offsets; so does each by the rule EXPAND, after the
%-- stride has divided its coordinates. The list has no particular order. Sorting it
%-- (index.cu.lua) makes a set that depends only on the voxels.
%--
%-- Nothing else of the geometry is a constant: one module serves all layers.
%
%template = {
%  summary = "outputs of strided rules by hashing; features of merged rows",
%  role = "map",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "coords" then return false, "derives coordinates" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target)
%    return {expands = problem.generative == 1 or problem.expand == 1}
%  end,
%  launch = function(problem, config, target) return {} end,
%  default = function(problem, target) return {} end,
%}
#define SORT_THREADS $(problem.threads)
#define SORT_BITS 9
#include "spc_device.cuh"
#include "index_sort.cuh"

/* Keys of the outputs and of the inputs. */
typedef $(problem.key == 64 and "spc_u64" or "spc_u32") map_key;
typedef $(problem.in_key == 64 and "spc_u64" or "spc_u32") in_key;

#define EMPTY (~(map_key)0)
%local wide = problem.key == 64 and "_u64" or ""

/* ---- proposing -------------------------------------------------------- */

/*
 * The position of a coordinate on an axis, and its number of outputs on that
 * axis. The i-th output is `first` - i * `step` for i < count, after positions
 * that are no output have been left out.
 */
typedef struct axis_outputs {
    int first, step, count;
} axis_outputs;

/* value / by, rounded down. */
SPC_DEVICE int floor_div(int value, int by)
{
    int whole = value / by;

    return whole - (value < whole * by);
}

% if expands then
/* The coordinate that offsets are added to. */
SPC_DEVICE int spread(const spc_derive_args *args, int axis, int i)
{
    return $(problem.expand == 1 and "floor_div(i, args->stride[axis])" or "i * args->stride[axis]");
}

% end
/*
 * The footprint rule: o = (i + padding - dilation * position) / stride, where
 * this is an integer. Such positions are the first one and every n-th after it,
 * where n is the least number for which n * dilation is a multiple of the
 * stride. The outputs then decrease by n * dilation / stride.
 */
%if expands then
SPC_DEVICE axis_outputs outputs_of(const spc_derive_args *args, int axis, int i)
{
    axis_outputs out;

    out.step = args->dilation[axis];
    out.count = args->kernel[axis];
    out.first = spread(args, axis, i) - args->padding[axis] +
                (out.count - 1) * out.step;
    return out;
}
%else
SPC_DEVICE axis_outputs outputs_of(const spc_derive_args *args, int axis, int i)
{
    int stride = args->stride[axis], dilation = args->dilation[axis];
    int top = i + args->padding[axis], place, every;
    axis_outputs out;

    if (args->rule == 0) {
        out.first = floor_div(i, stride);
        out.step = 0;
        out.count = 1;
        return out;
    }
    out.first = floor_div(top, stride);
    out.step = 1;
    place = top - out.first * stride;
    every = stride;
    if (dilation > 1) {
        place = 0;
        every = 1;
        /* Stepwise search: kernels and strides are small, and there is no
         * inverse of the dilation in general. */
        while (place < args->kernel[axis] && (top - dilation * place) % stride != 0)
            place++;
        while (every * dilation % stride != 0)
            every++;
        out.first = floor_div(top - dilation * place, stride);
        out.step = every * dilation / stride;
    }
    out.count = place < args->kernel[axis]
                    ? (args->kernel[axis] - 1 - place) / every + 1
                    : 0;
    return out;
}
%end

SPC_DEVICE int inside(const spc_derive_args *args, int axis, int o)
{
    return args->bound[axis] == 0 || (o >= 0 && o < args->bound[axis]);
}

SPC_DEVICE map_key pack(const spc_index_key *layout, const spc_u32 *c)
{
    map_key key = 0;

    SPC_UNROLL
    for (int i = 0; i < 4; i++)
        key |= ((map_key)(c[i] - (spc_u32)layout->low[i]) + layout->before[i])
               << layout->shift[i];
    return key;
}

/* Multiplies and takes the upper bits (Knuth, volume 3, section 6.4). */
SPC_DEVICE spc_u32 slot_of(map_key key, spc_u32 slots)
{
    spc_u64 mixed = (spc_u64)key * 0x9e3779b97f4a7c15ull;

    return (spc_u32)(mixed >> 32) & (slots - 1);
}

/*
 * The part of the table that is used and cleared. It is chosen so that at most half of it
 * is filled. By the floor rule there are at most as many outputs as inputs, by the
 * footprint rule a multiple of that.
 */
SPC_DEVICE spc_u32 slots_for(const spc_derive_args *args, int rows)
{
%if expands then
    (void)rows;
    return args->slots;
%else
    spc_u32 slots = 64, most = 2 * (spc_u32)rows;

%if problem.list == 1 then
    spc_u32 fan = (spc_u32)args->offset_count;
    /* Compared by a division, because the product can exceed 32 bits. */
    most = most < args->slots / fan ? most * fan : args->slots;
%else
    SPC_UNROLL
    for (int i = 0; i < 3 && args->rule != 0; i++) {
        int every = args->dilation[i] > 1 ? 1 : args->stride[i];
        spc_u32 fan = (spc_u32)((args->kernel[i] + every - 1) / every);
        most = most < args->slots / fan ? most * fan : args->slots;
    }
%end
    while (slots < most && slots < args->slots)
        slots *= 2;
    return slots;
%end
}

SPC_DEVICE map_key swap_in(map_key *slot, map_key key)
{
    return $("spc_atomic_cas" .. wide)(slot, EMPTY, key);
}

SPC_DEVICE map_key look_at(const map_key *slot)
{
    return $("spc_load_relaxed" .. wide)(slot);
}

/* True if the key is new, given that its first slot held another key. A full table ends the
 * search. There are then more outputs than the capacity, and the count shows it. */
SPC_DEVICE int insert_behind(const spc_derive_args *args, spc_u32 slots,
                             map_key key)
{
    map_key *table = (map_key *)args->table;
    spc_u32 slot = slot_of(key, slots);

    for (spc_u32 tried = 1; tried < slots; tried++) {
        slot = (slot + 1) & (slots - 1);
        map_key there = look_at(table + slot);
        if (there == EMPTY)
            there = swap_in(table + slot, key);
        if (there == EMPTY)
            return 1;
        if (there == key)
            return 0;
    }
    return 1;
}

/* Converts the key of an output back to coordinates. */
SPC_DEVICE spc_b16 unpack(const spc_index_key *layout, map_key key)
{
    spc_u32 c[4];
    spc_b16 row;

    SPC_UNROLL
    for (int i = 0; i < 4; i++)
        c[i] = ((spc_u32)(key >> layout->shift[i]) & layout->wide[i]) -
               layout->before[i] + (spc_u32)layout->low[i];
    row.x = c[0];
    row.y = c[1];
    row.z = c[2];
    row.w = c[3];
    return row;
}

/* The voxel of the p-th key or, if rows are given, of the p-th row. Returns
 * false if it is out of range. */
SPC_DEVICE int voxel_at(const spc_derive_args *args, int p, spc_u32 *c)
{
    const spc_index_key *layout = &args->in.key;
    int inside = 1;

    if (args->rows) {
        spc_b16 row = spc_load16(args->rows + 4ll * p);
        c[0] = row.x;
        c[1] = row.y;
        c[2] = row.z;
        c[3] = row.w;
        SPC_UNROLL
        for (int i = 0; i < 4; i++)
            inside &= c[i] - (spc_u32)layout->low[i] <= layout->last[i];
        return inside;
    }
    in_key key = ((const in_key *)args->in.keys)[p];
    SPC_UNROLL
    for (int i = 0; i < 4; i++)
        c[i] = ((spc_u32)(key >> layout->shift[i]) & layout->wide[i]) -
               layout->before[i] + (spc_u32)layout->low[i];
    return 1;
}

/* If there are too many rows, no row is used, as in the set itself. */
SPC_DEVICE int count_voxels(const spc_derive_args *args)
{
    int rows = args->source ? *args->source : args->source_rows;

    if (!args->rows)
        return *args->in.count;
    return rows >= 0 && rows <= args->in.rows ? rows : 0;
}

%if problem.list == 1 then
/* The number of offsets of the list that are left. An output exists where the
 * division has no remainder. */
typedef struct voxel_outputs {
    int left;
} voxel_outputs;

SPC_DEVICE voxel_outputs find_outputs(const spc_derive_args *args,
                                      const spc_u32 *c)
{
    voxel_outputs out = {args->offset_count};

    (void)c;
    return out;
}

/* The next output. Returns false if this offset has no output or if the output is out of
 * bounds. */
SPC_DEVICE int next_output(const spc_derive_args *args, voxel_outputs *of,
                           const spc_u32 *c, spc_u32 *to)
{
    const int *offset = args->offsets + 3 * --of->left;
    int is = 1;

    to[0] = c[0];
    SPC_UNROLL
    for (int i = 0; i < 3; i++) {
        int by = offset[i];
%if expands then
        int o = spread(args, i, (int)c[1 + i]) + by;
%else
        int stride = args->stride[i];
        int at = (int)c[1 + i] - by, o = floor_div(at, stride);
        is &= o * stride == at;
%end
        is &= inside(args, i, o);
        to[1 + i] = (spc_u32)o;
    }
    return is;
}
%else
/* The outputs that a voxel can have on each axis, their total number, and the next
 * ones. */
typedef struct voxel_outputs {
    axis_outputs axis[3];
    int at[3], left;
} voxel_outputs;

SPC_DEVICE voxel_outputs find_outputs(const spc_derive_args *args,
                                      const spc_u32 *c)
{
    voxel_outputs out;

    out.left = 1;
    SPC_UNROLL
    for (int i = 0; i < 3; i++) {
        out.axis[i] = outputs_of(args, i, (int)c[1 + i]);
        out.at[i] = 0;
        out.left *= out.axis[i].count;
    }
    return out;
}

/* The next output. Returns false if it is out of bounds. */
SPC_DEVICE int next_output(const spc_derive_args *args, voxel_outputs *of,
                           const spc_u32 *c, spc_u32 *to)
{
    int is = 1, more = 1;

    to[0] = c[0];
    SPC_UNROLL
    for (int i = 2; i >= 0; i--) {
        const axis_outputs *axis = &of->axis[i];
        int o = axis->first - of->at[i] * axis->step;
        is &= inside(args, i, o);
        to[1 + i] = (spc_u32)o;
        of->at[i] += more;
        more = of->at[i] == axis->count;
        if (more)
            of->at[i] = 0;
    }
    of->left--;
    return is;
}
%end

/* Outputs of a lane's voxel whose slots are requested at the same time. This covers all
 * outputs that a footprint with stride 2 gives a voxel. */
#define BATCH $(problem.key == 64 and 4 or 8)

/*
 * Proposes all outputs of the voxels of a warp, BATCH of each voxel at a time. One memory
 * latency then covers BATCH slots, and another one the slots that are free. The warp counts
 * new outputs with one atomic for all lanes, because there is only one counter.
 */
SPC_DEVICE void propose_outputs(const spc_derive_args *args, spc_u32 slots,
                                const spc_u32 *c, voxel_outputs *of)
{
    spc_u32 below = spc_bit((spc_u32)spc_lane()) - 1u;
    map_key *table = (map_key *)args->table;

    SPC_ROLLED
    while (spc_ballot(of->left > 0) != 0) {
        map_key key[BATCH], there[BATCH];
        spc_u32 lanes[BATCH];
        int fresh = 0, place = 0;

        SPC_UNROLL
        for (int b = 0; b < BATCH; b++) {
            spc_u32 to[4];
            int is = of->left > 0 && next_output(args, of, c, to);
            key[b] = is ? pack(&args->key, to) : EMPTY;
            /* A plain load first: most outputs are proposed several times, and
             * only the first needs the atomic. */
            there[b] = is ? look_at(table + slot_of(key[b], slots)) : key[b];
        }
        SPC_UNROLL
        for (int b = 0; b < BATCH; b++)
            if (there[b] == EMPTY && key[b] != EMPTY)
                there[b] = swap_in(table + slot_of(key[b], slots), key[b]);
        SPC_UNROLL
        for (int b = 0; b < BATCH; b++) {
            int is = key[b] != EMPTY && there[b] != key[b] &&
                     (there[b] == EMPTY || insert_behind(args, slots, key[b]));
            lanes[b] = spc_ballot(is);
            fresh += spc_popc(lanes[b]);
        }
        if (spc_lane() == 0 && fresh > 0)
            place = spc_atomic_add(args->count, fresh);
        place = spc_shfl(place, 0);
        SPC_UNROLL
        for (int b = 0; b < BATCH; b++) {
            int to = place + spc_popc(lanes[b] & below);
            /* Outputs past the capacity are counted but not stored. */
            if (lanes[b] >> spc_lane() & 1u && to < args->capacity)
                spc_store16(args->coords + 4ll * to, unpack(&args->key, key[b]));
            place += spc_popc(lanes[b]);
        }
    }
}

SPC_KERNEL(spc_derive, spc_derive_args, $(problem.threads), 1)
{
    int first = spc_block_x() * SORT_THREADS + spc_thread();
    int all = spc_grid_x() * SORT_THREADS, rows = count_voxels(args);
    spc_u32 slots = slots_for(args, rows);
    grid_barrier barrier;

    grid_open(&barrier, args->sync);
    for (spc_u32 i = (spc_u32)first; i < slots; i += (spc_u32)all)
        ((map_key *)args->table)[i] = EMPTY;
    if (first == 0)
        *args->count = 0;
    grid_sync(&barrier);
    /* Lanes past the last row stay in the loop, because propose_outputs takes
     * the whole warp. */
    for (int p = first; p - spc_lane() < rows; p += all) {
        voxel_outputs of;
        spc_u32 c[4];
        of.left = 0;
        if (p < rows && voxel_at(args, p, c))
            of = find_outputs(args, c);
        propose_outputs(args, slots, c, &of);
    }
    grid_close(&barrier);
}

/* ---- merging ---------------------------------------------------------- */

SPC_DEVICE float load_feature(const spc_merge_args *args, long long at)
{
    if (args->half == 2)
        return spc_bf16_to_f32(((const spc_u16 *)args->features)[at]);
    return args->half ? spc_f16_to_f32(((const spc_u16 *)args->features)[at])
                      : ((const float *)args->features)[at];
}

/* Merges the rows of a voxel, in the caller's order, into the first of them. */
SPC_DEVICE void merge_voxel(const spc_merge_args *args, int begin, int end)
{
    for (int c = spc_lane(); c < args->channels; c += 32) {
        long long to = (long long)args->twins[begin] * args->channels + c;
        float sum = load_feature(args, to);
        for (int i = begin + 1; i < end; i++)
            sum += load_feature(args, (long long)args->twins[i] *
                                              args->channels +
                                          c);
        if (args->mean)
            sum = sum / (float)(end - begin);
        if (args->half == 2)
            ((spc_u16 *)args->features)[to] = spc_f32_to_bf16(sum);
        else if (args->half)
            ((spc_u16 *)args->features)[to] = spc_f32_to_f16(sum);
        else
            ((float *)args->features)[to] = sum;
    }
}

SPC_KERNEL(spc_merge, spc_merge_args, $(problem.threads), 1)
{
    int warps = SORT_THREADS / 32, count = *args->count;

    if (args->stats[SPC_INDEX_DUPLICATES] == 0)
        return;
    for (int p = spc_block_x() * warps + spc_warp(); p < count;
         p += spc_grid_x() * warps) {
        int begin = args->twin_begin[p], end = args->twin_begin[p + 1];
        if (end - begin > 1)
            merge_voxel(args, begin, end);
    }
}
