%-- Sums over all rows for each channel: the gradients of a scale and a shift. With y =
%-- scale * v + shift these are the sums of dy * v and of dy.
%--
%--   spc_channels   each block sums one part of the rows
%--   spc_sums       adds the sums of parts, in their order
%--
%-- Rows are cut into equal parts, at most SPC_FEATURE_PARTS. The number of parts depends
%-- only on the number of rows. `given` is an expression for the number of rows, `row` for
%-- the row at position p, and `value` for v, given the number x[e] in channel c. It is
%-- used after the text of `prepare`.
%local function write_part(problem, n, row, value, prepare)
%  local pieces = problem.channels // n
%  local lanes = 1
%  while lanes < 32 and lanes < pieces do lanes = lanes * 2 end
/* The channels [block * $(lanes * n), ...) of a part. Lanes of a row have one piece
 * each, and a warp takes as many rows at a time as fit. */
SPC_DEVICE void channel_sums$(n)(const spc_feature_args *args, float *to,
                                 int begin, int end, int block)
{
    enum { STEP = WARPS * $(32 // lanes), WIDTH = $(lanes * n) };
    float *shared = (float *)spc_shared(); /* [WARPS][2][WIDTH] */
    int lane = spc_lane() % $(lanes), piece = block * $(lanes) + lane;
    int warp = spc_warp();
    float v[$(2 * n)];

    SPC_UNROLL
    for (int e = 0; e < $(2 * n); e++)
        v[e] = 0;
    if (piece >= $(pieces))
        begin = end; /* some lanes of the last block have no channels */
    for (int p = begin + warp * $(32 // lanes) + spc_lane() / $(lanes); p < end;
         p += STEP) {
        long long row = $(row);
        float x[$(n)], dy[$(n)];

        load$(n)(x, args->in, row * args->in_pitch + piece * $(n));
        load$(n)(dy, args->add, row * args->add_pitch + piece * $(n));
%  if prepare then
        $(prepare)
%  end
        SPC_UNROLL
        for (int e = 0; e < $(n); e++) {
%  if value:find("%f[%w]c%f[%W]") then
            int c = piece * $(n) + e;
%  end
            v[e] += dy[e] * ($(value));
            v[$(n) + e] += dy[e];
        }
    }
    SPC_UNROLL
    for (int e = 0; e < $(2 * n); e++)
        for (int bits = $(lanes); bits < 32; bits <<= 1)
            v[e] += spc_shfl_xor_f32(v[e], bits);
    spc_sync_block(); /* all threads have read the previous sums */
    if (spc_lane() < $(lanes))
        SPC_UNROLL
        for (int e = 0; e < $(2 * n); e++)
            shared[(warp * 2 + e / $(n)) * WIDTH + lane * $(n) + e % $(n)] = v[e];
    spc_sync_block();
    for (int i = spc_thread(); i < 2 * WIDTH; i += SPC_FEATURE_THREADS) {
        int c = block * WIDTH + i % WIDTH;
        float all = shared[i];
        for (int w = 1; w < WARPS; w++)
            all += shared[w * 2 * WIDTH + i];
        if (c < CHANNELS)
            to[i / WIDTH * CHANNELS + c] = all;
    }
}

%  return (pieces + lanes - 1) // lanes
%end
%
%local function write_kernel(problem, name, n, row, value, prepare)
%  local blocks = write_part(problem, n, row, value, prepare)
SPC_KERNEL($(name), spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int rows = channel_rows(args), each = rows_of_part(rows);

    for (int i = spc_block_x(); i * each < rows; i += spc_grid_x()) {
        int begin = i * each, end = begin + each < rows ? begin + each : rows;
        for (int block = 0; block < $(blocks); block++)
            channel_sums$(n)(args, args->parts + (long long)i * 2 * CHANNELS, begin, end,
                             block);
    }
}

%end
%function write_channels(problem, n, given, row, value, prepare)
SPC_DEVICE int channel_rows(const spc_feature_args *args)
{
    return $(given);
}

SPC_DEVICE int rows_of_part(int rows)
{
    int each = (rows + SPC_FEATURE_PARTS - 1) / SPC_FEATURE_PARTS;

    return each < SPC_FEATURE_PART_ROWS ? SPC_FEATURE_PART_ROWS : each;
}

%  write_kernel(problem, "spc_channels", n, row, value, prepare)
%  if needs_single(problem, problem.channels, 1) then
%    write_kernel(problem, "spc_channels_1", 1, row, value, prepare)
%  end
SPC_KERNEL(spc_sums, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int rows = channel_rows(args), each = rows_of_part(rows);
    float *out = (float *)args->out;

    for (int i = spc_block_x() * SPC_FEATURE_THREADS + spc_thread(); i < 2 * CHANNELS;
         i += spc_grid_x() * SPC_FEATURE_THREADS) {
        float sum = 0;
        for (int j = 0; j * each < rows; j++)
            sum += args->parts[(long long)j * 2 * CHANNELS + i];
        out[i] = sum;
    }
}
%end
