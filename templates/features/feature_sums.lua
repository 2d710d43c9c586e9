%-- Sums, or maxima, over the voxels of each batch element: global pooling, and the gradient
%-- of a row that multiplies all of them.
%--
%--   spc_part    each block sums one part and writes the result
%--   spc_join    adds the sums of parts, in their order, to the sums of elements
%--
%-- `products`: sums the products of the rows of `in` and `add`. `keeps`: the results are
%-- moments for the next kernel, and not the outputs.
%
%-- The channels [block * 32 * n, ...) of a part. Lanes of a row have one piece each,
%-- and a warp takes as many rows at a time as fit.
%local function write_part(problem, name, n, products)
%  local pieces = problem.channels // n
%  local lanes = 1
%  while lanes < 32 and lanes < pieces do lanes = lanes * 2 end
SPC_DEVICE void part_sums$(n)(const spc_feature_args *args, float *to, int begin,
                              int end, int block)
{
    enum { STEP = WARPS * $(32 // lanes) };
    float *shared = (float *)spc_shared();
    int piece = block * $(lanes) + spc_lane() % $(lanes);
    int warp = spc_warp();
    float sum[$(n)];

    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        sum[e] = NOTHING;
    if (piece >= $(pieces))
        begin = end; /* some lanes of the last block have no channels */
    for (int p = begin + warp * $(32 // lanes) + spc_lane() / $(lanes); p < end;
         p += DEPTH * STEP) {
        $(piece_type(problem, n)) loaded[DEPTH]$(products and ", other[DEPTH]" or "");

        SPC_UNROLL
        for (int j = 0; j < DEPTH; j++)
            if (p + j * STEP < end)
                loaded[j] = $(read_piece(problem, n, "args->in", "args->order[p + j * STEP] * args->in_pitch + piece * " .. n));
%  if products then
        SPC_UNROLL
        for (int j = 0; j < DEPTH; j++)
            if (p + j * STEP < end)
                other[j] = $(read_piece(problem, n, "args->add", "args->order[p + j * STEP] * args->add_pitch + piece * " .. n));
%  end
        SPC_UNROLL
        for (int j = 0; j < DEPTH; j++) {
            float x[$(n)]$(products and (", factor[%d]"):format(n) or "");
            if (p + j * STEP >= end)
                continue;
            unpack$(n)(x, loaded[j]);
%  if products then
            unpack$(n)(factor, other[j]);
%  end
            SPC_UNROLL
            for (int e = 0; e < $(n); e++)
                sum[e] = both(sum[e], x[e]$(products and " * factor[e]" or ""));
        }
    }
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        for (int bits = $(lanes); bits < 32; bits <<= 1)
            sum[e] = both(sum[e], spc_shfl_xor_f32(sum[e], bits));
    spc_sync_block(); /* all threads have read the previous sums */
    if (spc_lane() < $(lanes))
        SPC_UNROLL
        for (int e = 0; e < $(n); e++)
            shared[warp * $(lanes * n) + spc_lane() * $(n) + e] = sum[e];
    spc_sync_block();
    for (int c = spc_thread(); c < $(lanes * n); c += SPC_FEATURE_THREADS) {
        float all = shared[c];
        for (int w = 1; w < WARPS; w++)
            all = both(all, shared[w * $(lanes * n) + c]);
        if (block * $(lanes * n) + c < CHANNELS)
            to[block * $(lanes * n) + c] = all;
    }
}

% write_part_kernel(name, "int block = 0; block < " .. (pieces + lanes - 1) // lanes .. "; block++",
%   "part_sums" .. n, "CHANNELS", "block")
%end
%function write_element_sums(problem, wide, products, keeps)
#define NOTHING $(problem.reduce == "max" and "spc_bits_f32(0xff800000u)" or "0.0f")

SPC_DEVICE float both(float a, float b)
{
    return $(problem.reduce == "max" and "b > a ? b : a" or "a + b");
}

% write_part(problem, "spc_part", wide, products)
% if needs_single(problem, problem.channels, problem.channels) then
%   write_part(problem, "spc_part_1", 1, products)
% end
/* Each block has 32 channels of an element. Its warps take the parts in
 * rotation. */
SPC_KERNEL(spc_join, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    enum { BLOCKS = (CHANNELS + 31) / 32 };
    float *shared = (float *)spc_shared();
    int warp = spc_warp(), items = args->batches * BLOCKS;

    for (int i = spc_block_x(); i < items; i += spc_grid_x()) {
        int batch = i / BLOCKS, c = i % BLOCKS * 32 + spc_lane();
        element e = find_element(args, batch);
        const float *parts =
            args->parts + (long long)batch * SPC_FEATURE_PARTS * CHANNELS;
        float sum = NOTHING;

        if (c < CHANNELS)
            for (int j = warp; j < parts_of(&e); j += WARPS)
                sum = both(sum, parts[(long long)j * CHANNELS + c]);
        shared[warp * 32 + spc_lane()] = sum;
        spc_sync_block();
        if (warp == 0 && c < CHANNELS) {
            for (int w = 1; w < WARPS; w++)
                sum = both(sum, shared[w * 32 + spc_lane()]);
%  if problem.reduce == "mean" then
            sum = sum / (float)(e.end - e.begin);
%  end
            /* An element without rows gives 0, not the start of a maximum or 0
             * / 0. */
            if (e.begin == e.end)
                sum = 0;
%  if keeps then
            args->moments[(long long)batch * CHANNELS + c] = sum;
%  else
            store1(args->out, batch * args->out_pitch + c, &sum);
%  end
        }
        spc_sync_block(); /* the sums have been read */
    }
}
%end
