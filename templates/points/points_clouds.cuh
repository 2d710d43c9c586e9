/*
 * points_clouds.cuh - clouds of points: filled from the caller's rows or from
 * rows of another cloud, converted to rows of cells, and sorted by cells.
 *
 * Part of points.cu.lua, which defines first_thread and all_threads.
 */
#ifndef SPC_POINTS_CLOUDS_CUH
#define SPC_POINTS_CLOUDS_CUH

/* Rounds down, for values in the range of int. */
SPC_DEVICE int floor_of(float v)
{
    int whole = (int)v;

    return whole - (v < (float)whole);
}

/* Records a row that is out of range in this field. */
SPC_DEVICE void note_bad(const spc_place_args *args, int field, int row)
{
    spc_atomic_max(args->stats + SPC_POINTS_BAD_ROW + field,
                   SPC_INDEX_NO_ROW - row);
}

/* A NaN is out of all bounds. */
SPC_DEVICE int check_point(const spc_place_args *args, const float *p, int batch,
                           int row)
{
    int inside = batch >= 0 && batch < args->batches;

    if (!inside)
        note_bad(args, 3, row);
    for (int i = 0; i < 3; i++)
        if (!(p[i] >= args->low[i] && p[i] <= args->high[i])) {
            inside = 0;
            note_bad(args, i, row);
        }
    if (!inside)
        spc_atomic_add(args->stats + SPC_POINTS_BAD_ROWS, 1);
    return inside;
}

SPC_KERNEL(spc_points_place, spc_place_args, SPC_POINTS_THREADS, 1)
{
    int asked = args->source ? *args->source : args->rows;
    int rows = asked < 0 || asked > args->to.capacity ? 0 : asked;

    if (first_thread() == 0) {
        *args->to.count = rows;
        args->stats[SPC_POINTS_ROWS] = asked;
    }
    for (int row = first_thread(); row < rows; row += all_threads()) {
        int batch = args->steps   ? spc_load_int(args->steps + 4ll * row)
                    : args->batch ? spc_load_int(args->batch + row)
                                  : 0;
        spc_b16 to;
        float p[3];
        for (int i = 0; i < 3; i++)
            p[i] = args->steps ? spc_int_to_f32(spc_load_int(args->steps + 4ll * row + 1 + i)) *
                                     SPC_POINTS_STEP
                               : spc_load_f32(args->xyz + 3ll * row + i);
        to.x = spc_f32_bits(p[0]);
        to.y = spc_f32_bits(p[1]);
        to.z = spc_f32_bits(p[2]);
        to.w = (spc_u32)(check_point(args, p, batch, row) ? batch : -1);
        spc_store16(args->to.at + 4ll * row, to);
    }
}

/* The squared distance of a point to the centre of its voxel, in edges. */
SPC_DEVICE float from_centre(const spc_place_args *args, int row)
{
    spc_b16 p = spc_load16(args->from + 4ll * row);
    float at[3] = {spc_bits_f32(p.x), spc_bits_f32(p.y), spc_bits_f32(p.z)};
    float sum = 0;

    SPC_UNROLL
    for (int i = 0; i < 3; i++) {
        float v = spc_mul_rn(at[i], args->inverse);
        float d = spc_add_rn(spc_add_rn(v, -(float)floor_of(v)), -0.5f);
        sum = spc_add_rn(sum, spc_mul_rn(d, d));
    }
    return sum;
}

/* The row of `from` that a voxel keeps. */
SPC_DEVICE int kept_of(const spc_place_args *args, int voxel)
{
    int kept = args->picked[voxel];

    /* If no voxel has a second point there is no list of equal rows. */
    if (!args->twins || args->merged[SPC_INDEX_DUPLICATES] == 0)
        return kept;
    float least = from_centre(args, kept);
    for (int i = args->twin_begin[voxel]; i < args->twin_begin[voxel + 1]; i++) {
        float square = from_centre(args, args->twins[i]);
        if (square < least) {
            least = square;
            kept = args->twins[i];
        }
    }
    return kept;
}

/* Copies the rows of another cloud that a set of voxels has kept. */
SPC_KERNEL(spc_pick, spc_place_args, SPC_POINTS_THREADS, 1)
{
    int asked = *args->source, rows = asked > args->to.capacity ? 0 : asked;

    if (first_thread() == 0) {
        *args->to.count = rows;
        args->stats[SPC_POINTS_ROWS] = asked;
    }
    for (int row = first_thread(); row < rows; row += all_threads()) {
        int from = kept_of(args, row);
        args->sources[row] = from;
        spc_store16(args->to.at + 4ll * row, spc_load16(args->from + 4ll * from));
    }
}

SPC_KERNEL(spc_cells, spc_cells_args, SPC_POINTS_THREADS, 1)
{
    int rows = *args->of.count;

    for (int row = first_thread(); row < rows; row += all_threads()) {
        spc_b16 p = spc_load16(args->of.at + 4ll * row), c;
        int inside = (int)p.w >= 0;
        c.x = p.w;
        c.y = (spc_u32)(inside ? floor_of(spc_mul_rn(spc_bits_f32(p.x), args->inverse)) : 0);
        c.z = (spc_u32)(inside ? floor_of(spc_mul_rn(spc_bits_f32(p.y), args->inverse)) : 0);
        c.w = (spc_u32)(inside ? floor_of(spc_mul_rn(spc_bits_f32(p.z), args->inverse)) : 0);
        spc_store16(args->coords + 4ll * row, c);
    }
}

/* If no cell has a second point there is no list of equal rows. */
SPC_KERNEL(spc_sort_points, spc_sort_points_args, SPC_POINTS_THREADS, 1)
{
    int cells = *args->to.cells;
    int twins = args->stats[SPC_INDEX_DUPLICATES] != 0;
    int points = twins ? args->twin_begin[cells] : cells;

    for (int i = first_thread(); i <= cells; i += all_threads())
        args->to.begin[i] = twins ? args->twin_begin[i] : i;
    for (int i = first_thread(); i < points; i += all_threads()) {
        int row = twins ? args->twins[i] : args->order[i];
        spc_b16 p = spc_load16(args->of.at + 4ll * row);
        p.w = (spc_u32)row;
        spc_store16(args->to.points + 4ll * i, p);
    }
}

#endif
