%-- How wgrad_mma divides channels, shared memory and registers, and what adds its sums.
%
%include "wgrad_rows.lua"
%
%block_sizes = {16, 32, 64, 128, 256}
%-- The workspace begins with the size of the grid and the numbers of the tiles.
%function header_bytes(problem) return ceil_div((offsets_of(problem) + 2) * 4, 256) * 256 end
%-- With wgmma a warpgroup has 64 input channels and all output channels of a block, and
%-- rows of dy lie in core matrices: 16 bytes each of 8 rows.
%function is_wide(config) return config.unit == "wgmma" end
%-- How warps divide the tile: over m, over n, over the pairs of a step.
%function warps_of(config)
%  local m, n, left = 1, 1, config.warps
%  if is_wide(config) then return config.warps, 1, 1 end
%  while left > 1 do
%    if config.m // m >= config.n // n and config.m // m > 16 then m = m * 2
%    elseif config.n // n > 16 then n = n * 2
%    else break end
%    left = left // 2
%  end
%  return m, n, left
%end
%-- Bytes from 8 output channels to the next of a stage's core matrices; those of 8 pairs
%-- follow each other. 16 more, so that pieces of a row go to different banks.
%function piece_pitch(config) return config.pairs * 16 + 16 end
%function stage_bytes(problem, config)
%  local x = config.pairs * pitch_of(problem, config.m)
%  if is_wide(config) then return x + config.n // 8 * piece_pitch(config) end
%  return x + config.pairs * pitch_of(problem, config.n)
%end
%-- Of the ring of row numbers, both sides. They are a ring of rows ahead, whose first
%-- tiles are loaded without a barrier: nobody may find other numbers there then.
%function rows_bytes(config) return 2 * config.stages * config.pairs * 8 end
%function offsets_of(problem) return problem.offsets + problem.bias end
%-- The first tiles of offsets, and their first pairs.
%function table_bytes(problem) return ceil_div((2 * offsets_of(problem) + 2) * 4, 16) * 16 end
%-- What warps with other pairs leave to be added.
%function joined_bytes(config)
%  local m, n, k = warps_of(config)
%  return config.m * config.n * 4 * (k - 1)
%end
%function shared_bytes(problem, config)
%  return config.stages * stage_bytes(problem, config) + joined_bytes(config)
%    + rows_bytes(config) + table_bytes(problem)
%end
%function sums_of(config)
%  local m, n = warps_of(config)
%  return config.m // m * config.n // n // 32
%end
%function blocks_of(problem, config)
%  return ceil_div(problem.cin, config.m) * ceil_div(problem.cout, config.n)
%end
%-- The least size that holds so many channels, or the largest.
%function least_size(channels)
%  for _, size in ipairs(block_sizes) do
%    if size >= channels then return size end
%  end
%  return block_sizes[#block_sizes]
%end
%function registers_of(problem, config)
%  local m, n = warps_of(config)
%  if is_wide(config) then return sums_of(config) + config.pairs // 4 + 48 end
%  return sums_of(config) + (config.m // m // 4 + config.n // n // 4) * images(problem) + 56
%end
%
%-- ---- the sum of the shares -----------------------------------------------------------
%
%function write_sum_kernel()
/* The first share that has tile `tile`, which is one of `all`. */
SPC_DEVICE int share_of(int all, int tile, int shares)
{
    int share = (int)((long long)tile * shares / all);

    while (share > 0 && share_begin(all, share, shares) > tile)
        share--;
    while (share_begin(all, share + 1, shares) <= tile)
        share++;
    return share;
}

/* Adds the sums that shares left of offset block_x: 64 times those of four
 * neighbours, of which four threads have every fourth share each. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    const int *header = (const int *)args->workspace, *tiles = header + 1;
    float *parts = (float *)spc_shared();
    int k = spc_block_x(), way = spc_thread() / 64;
    int item = spc_block_y() * 64 + spc_thread() % 64;
    int ci = item / $(quads), co = item % $(quads) * 4;
    int share = 0, end = 0;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    spc_depend_wait();
    spc_depend_launch();
    int all = tiles[$(all)], shares = shares_of(header[0], all);
    int block = ci / $(config.m) * $(n_blocks) + co / $(config.n);
    int at = ci % $(config.m) * $(config.n) + co % $(config.n);
    int there = ci < (k == $(problem.offsets) ? 1 : $(problem.cin));
    if (there && tiles[k] < tiles[k + 1]) {
        share = share_of(all, tiles[k], shares) + way;
        end = share_of(all, tiles[k + 1] - 1, shares) + 1;
    }
    SPC_ROLLED
    for (; share < end; share += 16) { /* four are under way */
        spc_b16 four[4];
        SPC_UNROLL
        for (int i = 0; i < 4; i++) {
            four[i].x = four[i].y = four[i].z = four[i].w = 0u;
            if (share + i * 4 < end)
                four[i] = *(const spc_b16 *)(sum_at(args, share + i * 4 + k, block) + at);
        }
        SPC_UNROLL
        for (int i = 0; i < 4; i++) {
            sum[0] += spc_bits_f32(four[i].x);
            sum[1] += spc_bits_f32(four[i].y);
            sum[2] += spc_bits_f32(four[i].z);
            sum[3] += spc_bits_f32(four[i].w);
        }
    }
    SPC_UNROLL
    for (int i = 0; i < 4; i++)
        parts[spc_thread() * 4 + i] = sum[i];
    spc_sync_block();
    if (!there || way > 0)
        return;
    for (int i = 0; i < 4 && co + i < $(problem.cout); i++) {
        float whole = parts[spc_thread() * 4 + i];
        for (int other = 1; other < 4; other++)
            whole += parts[(other * 64 + spc_thread()) * 4 + i];
        store_sum(args, ((long long)k * $(problem.cin) + ci) * $(problem.cout) + co + i, whole);
    }
}
%end
