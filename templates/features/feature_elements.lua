%-- Batch elements on a GPU. Voxels are in ascending order, so the voxels of one batch
%-- element follow each other. They are cut into equal parts, at most SPC_FEATURE_PARTS. The
%-- number of parts depends only on the number of voxels.
%
%-- Finds the voxels of a batch element and their parts.
%function write_elements()
/* ---- batch elements --------------------------------------------------- */

/* Returns the first voxel of batch element `batch` or of a later element. A
 * warp reads 32 positions at once. */
SPC_DEVICE int find_batch(const spc_feature_args *args, int batch)
{
    int low = 0, high = *args->count;

    while (low < high) {
        /* 32 lanes cut the range into 33 parts. */
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

/* The range of an element's voxels, and its division into parts. */
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

%end
%-- Writes the kernel that calls `part` for the voxels of each part of each batch
%-- element. `loop` is a loop over the values of `index`. Each part has space for
%-- `floats` results.
%function write_part_kernel(name, loop, part, floats, index)
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
