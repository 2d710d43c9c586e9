%-- How wgrad_tiles divides offsets, shared memory and registers.
%
%include "wgrad_rows.lua"
%
%-- ---- slices of offsets -----------------------------------------------------------
%
%-- Offsets of one x follow each other, and see neighbouring rows: a section. A slice is
%-- a section, or an equal part of one where a warp for each offset would be too many.
%local most_warps = 12
%function section_of(problem)
%  local section = (problem.ky or 1) * (problem.kz or 1)
%  return problem.offsets % section == 0 and section or math.min(problem.offsets, 9)
%end
%function parts_of_section(problem) return ceil_div(section_of(problem), most_warps) end
%function warps_of(problem) return ceil_div(section_of(problem), parts_of_section(problem)) end
%function slices_of(problem)
%  return ceil_div(problem.offsets, section_of(problem)) * parts_of_section(problem)
%end
%function groups_of_slices(problem, config)
%  return ceil_div(slices_of(problem), config.slices)
%end
%-- On kitti@0.05, K3, the warp of the centre has 8 products of 16 pairs in a tile of 128
%-- rows, and the slowest of the planes beside it 3.3; a step needs about as much besides.
%centre_weight, other_weight = 5, 3
%function centre_group(problem, config)
%  if problem.centre < 0 then return -1 end
%  local section = section_of(problem)
%  local slice = problem.centre // section * parts_of_section(problem)
%    + problem.centre % section // warps_of(problem)
%  return slice // config.slices
%end
%function weight_of_all(problem, config)
%  return groups_of_slices(problem, config) * other_weight
%    + (problem.centre < 0 and 0 or centre_weight - other_weight)
%end
%
%-- ---- channels ----------------------------------------------------------------------
%
%function blocks_of(problem, config)
%  return ceil_div(problem.cin, config.m) * ceil_div(problem.cout, config.n)
%end
%-- The least size that holds so many channels, or the most that there may be.
%function least(channels, most)
%  local size = 16
%  while size < channels and size < most do size = size * 2 end
%  return size
%end
%-- Sums that an item leaves. Of the gradient of a bias each column has several, of some
%-- rows each, where there are more threads than columns.
%function ways_of(problem, config) return math.max(1, warps_of(problem) * 32 // config.n) end
%function part_of(problem, config)
%  return config.slices * warps_of(problem) * config.m * config.n
%    + problem.bias * ways_of(problem, config) * config.n
%end
%
%-- ---- registers ---------------------------------------------------------------------
%
%-- What the compiler gets by with, and what there is: a quarter of them for each of the
%-- four parts of a multiprocessor, among which warps are divided.
%function registers_of(problem, config)
%  return config.slices * config.m * config.n // 32 + config.m // 4 * images(problem) + 24
%end
%function registers_free(problem, config)
%  return math.min(512 // ceil_div(config.blocks * warps_of(problem), 4) // 8 * 8, 255)
%end
%
%-- ---- shared memory -----------------------------------------------------------------
%
%-- Rows of x between the first and the last of a tile's pairs: in tiles of 128 rows of
%-- scanned scenes mostly as many, and seldom 64 more. Where they do not fit, each warp has 16.
%function window_of(problem, config)
%  return math.max(config.rows + 64, 16 * warps_of(problem))
%end
%-- Bits that tell these rows apart: a power of two.
%function bits_of(problem, config)
%  local bits = 32
%  while bits < window_of(problem, config) do bits = bits * 2 end
%  return bits
%end
%function stage_bytes(problem, config)
%  return config.rows * pitch_of(problem, config.n)
%    + window_of(problem, config) * pitch_of(problem, config.m)
%end
%function note_bytes(problem, config)
%  return ceil_div((2 + bits_of(problem, config) // 32 + config.rows // 32 + config.rows) * 4, 16) * 16
%end
%function list_bytes(problem, config)
%  return config.stages * warps_of(problem) * (2 * config.rows + 4) * 4
%end
%function zero_bytes(problem, config)
%  return pitch_of(problem, math.max(config.m, config.n))
%end
%-- Where in shared memory lies what.
%function places(problem, config)
%  local at = {lists = config.stages * stage_bytes(problem, config)}
%  at.notes = at.lists + list_bytes(problem, config)
%  at.zero = at.notes + 3 * note_bytes(problem, config)
%  at.far = at.zero + zero_bytes(problem, config)
%  at.bias = at.far + 16
%  at.all = at.bias + problem.bias * ways_of(problem, config) * config.n * 4
%  return at
%end
%function shared_bytes(problem, config) return places(problem, config).all end
%
%-- Parts of 32 output rows whose numbers a warp loads.
%function out_turns(problem, config) return ceil_div(config.rows // 32, warps_of(problem)) end
%
%-- ---- the sum of the shares -----------------------------------------------------------
%
%function write_sum_kernel()
/* The sums of four neighbours, of which a lane has two rows of two. */
SPC_DEVICE void store_four(const float *sum, int ci, int co, const spc_conv_args *args)
{
    long long first = (long long)spc_block_x() * $(problem.cin);

    for (int i = 0; i < 4; i++)
        if (ci + i / 2 * 8 < $(problem.cin) && co + i % 2 < $(problem.cout))
            store_sum(args, (first + ci + i / 2 * 8) * $(problem.cout) + co + i % 2, sum[i]);
}

% if problem.bias == 1 then
/* The columns of dy, of which the shares of the first group have parts. */
SPC_DEVICE void sum_bias(int shares, const spc_conv_args *args)
{
    for (int co = spc_block_y() * 256 + spc_thread(); co < $(problem.cout);
         co += $(launch.sum_grid_y * 256)) {
        float sum = 0.0f;
        for (int share = 0; share < shares; share++)
            for (int way = 0; way < $(ways); way++)
                sum += sums_of(args, share * $(blocks) + co / $(config.n))[
                    $(part - ways * config.n) + way * $(config.n) + co % $(config.n)];
        store_sum(args, $(taps_of(problem) * problem.cout) + co, sum);
    }
}

% end
/* Adds what the shares left of offset block_x: 64 times four sums, of which four
 * threads have every fourth share each. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    float *parts = (float *)spc_shared();
    int k = spc_block_x(), way = spc_thread() / 64;
    int slice = k / $(section) * $(parts) + k % $(section) / $(warps);
    int row = slice % $(config.slices) * $(warps) + k % $(section) % $(warps);
    int item = 0, group = slice / $(config.slices);

    spc_depend_wait();
    spc_depend_launch();
    int grid = *(const int *)args->workspace, shares = shares_of(group, grid);
% if problem.bias == 1 then
    if (k == $(problem.offsets)) {
        sum_bias(shares_of(0, grid), args);
        return;
    }
% end
    for (int g = 0; g < group; g++)
        item += shares_of(g, grid) * $(blocks);
    for (int first = spc_block_y() * 64; first < $(blocks * config.m * config.n // 4);
         first += $(launch.sum_grid_y * 64)) {
        int unit = first + spc_thread() % 64;
        int block = unit / $(config.m * config.n // 4), at = unit % $(config.m * config.n // 4);
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        SPC_ROLLED
        for (int share = way; share < shares; share += 16) { /* four are under way */
            spc_b16 four[4];
            SPC_UNROLL
            for (int i = 0; i < 4; i++) {
                four[i].x = four[i].y = four[i].z = four[i].w = 0u;
                if (share + i * 4 < shares)
                    four[i] = *(const spc_b16 *)(sums_of(args, item + (share + i * 4) * $(blocks) + block) +
                                                 row * $(config.m * config.n) + at * 4);
            }
            SPC_UNROLL
            for (int i = 0; i < 4; i++) {
                sum[0] += spc_bits_f32(four[i].x);
                sum[1] += spc_bits_f32(four[i].y);
                sum[2] += spc_bits_f32(four[i].z);
                sum[3] += spc_bits_f32(four[i].w);
            }
        }
        spc_sync_block(); /* all have left `parts` */
        for (int i = 0; i < 4; i++)
            parts[spc_thread() * 4 + i] = sum[i];
        spc_sync_block();
        if (way > 0)
            continue;
        for (int other = 1; other < 4; other++)
            for (int i = 0; i < 4; i++)
                sum[i] += parts[(other * 64 + spc_thread()) * 4 + i];
        store_four(sum,
                   block / $(n_blocks) * $(config.m) + at / 32 / $(tn) * 16 + (at % 32 >> 2),
                   block % $(n_blocks) * $(config.n) + at / 32 % $(tn) * 8 + (at & 3) * 2, args);
    }
}
%end
