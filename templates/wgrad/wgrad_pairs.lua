%-- How wgrad_mma divides channels, shared memory and registers, and the kernel that
%-- adds its sums.
%
%include "wgrad.lua"
%
%block_sizes = {16, 32, 64, 128, 256}
%-- The workspace begins with the first share of each offset, and the first share
%-- without the offset.
%function header_bytes(problem) return ceil_div(offsets_of(problem) * 8, 256) * 256 end
%-- With wgmma a warpgroup has 64 input channels and all output channels of a block.
%-- Rows of dy are in core matrices, with 16 bytes of each of 8 rows.
%function is_wide(config) return config.unit == "wgmma" end
%-- How warps divide the tile: over m, over n, and over the pairs of a step.
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
%function row_alignment(problem)
%  local element = element_bytes(problem)
%  return alignment_of(problem.cin * element, (problem.in_pitch or problem.cin) * element,
%                      problem.cout * element, add_pitch(problem) * element)
%end
%-- Bytes from row to row of a stage. The padding puts eight rows, or four rows of words,
%-- into different banks.
%function pitch_of(problem, channels)
%  return channels * element_bytes(problem) + (element_bytes(problem) == 2 and 16 or 32)
%end
%-- Bytes from 8 output channels to the next in a stage's core matrices. The bytes of 8
%-- pairs are contiguous. 16 bytes of padding put the pieces of a row into different
%-- banks.
%function piece_pitch(config) return config.pairs * 16 + 16 end
%function stage_bytes(problem, config)
%  local x = config.pairs * pitch_of(problem, config.m)
%  if is_wide(config) then return x + config.n // 8 * piece_pitch(config) end
%  return x + config.pairs * pitch_of(problem, config.n)
%end
%-- Bytes of the ring of row numbers, both sides. It is twice as long as the ring of
%-- rows, because numbers run one ring ahead. The first tiles of rows are loaded
%-- without a barrier, so their numbers must not be overwritten.
%function rows_bytes(config) return 2 * config.stages * config.pairs * 8 end
%function offsets_of(problem) return problem.offsets + problem.bias end
%-- Bytes for the first tile and the first pair of each offset.
%function table_bytes(problem) return ceil_div((2 * offsets_of(problem) + 2) * 4, 16) * 16 end
%-- Bytes for the sums of warps with other pairs.
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
%-- The least size that holds this many channels, or the largest size.
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
%-- ---- code that the bodies share
%-- ----------------------------------------------------
%
%function write_copy_piece()
/* Copies 16 bytes of a row from byte `at` on. Row -1, and bytes from `bytes` on, give
 * zeroes. */
SPC_DEVICE void copy_piece(spc_u8 *to, const spc_u8 *from, int row, long long pitch,
                           int at, int bytes)
{
% if align == 16 then
    int valid = row >= 0 && at < bytes ? 16 : 0;
    spc_copy_async16(to, valid ? from + row * pitch + at : from, valid);
% else
    SPC_UNROLL
    for (int j = 0; j < 16; j += $(align)) {
        int valid = row >= 0 && at + j < bytes ? $(align) : 0;
        spc_copy_async$(align)(to + j, valid ? from + row * pitch + at + j : from, valid);
    }
% end
}

%end
%
%function write_shares()
/* ---- shares ------------------------------------------------------------------ */

/* The first tile of each offset, followed by the number of all tiles. Then the
 * first pair of each offset. */
SPC_DEVICE void number_tiles(int *tiles, const spc_conv_args *args)
{
    const int *begin = args->pairs.begin;
    int sum = 0;

    if (spc_warp() == 0) {
        for (int first = 0; first < $(all); first += 32) {
            int k = first + spc_lane(), count = 0, pair = 0;
            if (k < $(problem.offsets)) {
                pair = spc_load_int(begin + k);
                count = spc_load_int(begin + k + 1) - pair;
            }
% if problem.bias == 1 then
            /* The number of rows is a capacity. The order is -1 past the last row, which
             * adds nothing. */
            if (k == $(problem.offsets))
                count = args->map.rows;
% end
            if (k < $(all))
                tiles[$(all + 1) + k] = pair;
            if (k == $(problem.offsets - 1))
                tiles[$(2 * all + 1)] = pair + count;
            count = (count + $(config.pairs - 1)) / $(config.pairs);
            /* A prefix sum over the lanes gives each offset its first tile. */
            int upto = count;
            for (int by = 1; by < 32; by *= 2) {
                int below = spc_shfl_up(upto, by);
                if (spc_lane() >= by)
                    upto += below;
            }
            if (k < $(all))
                tiles[k] = sum + upto - count;
            sum += spc_shfl(upto, 31);
        }
        if (spc_lane() == 0)
            tiles[$(all)] = sum;
    }
    spc_sync_block(); /* the tables are complete */
}

/* The number of shares of a grid. Each share covers all blocks of channels, and
 * no share is empty. */
SPC_DEVICE int shares_of(int grid, int all)
{
    int shares = grid > $(blocks) ? grid / $(blocks) : 1;

    return shares < all ? shares : all;
}

/* The first tile of a share. */
SPC_DEVICE int share_begin(int all, int share, int shares)
{
    /* The product can exceed 32 bits. */
    return (int)((long long)all * share / shares);
}

/* The first share that has tile `tile`, which is one of `all`. */
SPC_DEVICE int share_of(int all, int tile, int shares)
{
    int share = (int)((long long)tile * shares / all);

    /* The division above rounds, and so does share_begin. The loops correct the
     * guess. */
    while (share > 0 && share_begin(all, share, shares) > tile)
        share--;
    while (share_begin(all, share + 1, shares) <= tile)
        share++;
    return share;
}

/* Stores what spc_sum reads. */
SPC_DEVICE void leave_header(const int *tiles, int shares, int *header)
{
    /* All blocks would write the same. */
    if (spc_block_x() > 0)
        return;
    for (int k = spc_thread(); k < $(all); k += $(threads)) {
        int any = tiles[k] < tiles[k + 1];
        header[2 * k] = any ? share_of(tiles[$(all)], tiles[k], shares) : 0;
        header[2 * k + 1] = any ? share_of(tiles[$(all)], tiles[k + 1] - 1, shares) + 1 : 0;
    }
}

%end
%
%function write_sum_place()
/* The sum that a share stores for an offset: [m][n]. */
SPC_DEVICE float *sum_at(const spc_conv_args *args, int slot, int block)
{
    return (float *)((spc_u8 *)args->workspace + $(header)) +
           ((long long)slot * $(blocks) + block) * $(config.m * config.n);
}

%end
%
%-- ---- a walk over the tiles -----------------------------------------------------------
%
%function write_cursor()
/* A position in the list of tiles: a tile, its offset, its first pair, and the
 * end of the offset's pairs. */
typedef struct cursor {
    int tile, k, pair, end;
} cursor;

SPC_DEVICE const int *first_tiles(void) { return (const int *)(spc_shared() + $(tiles_at)); }

/* The offset that has a tile. The lanes examine 32 offsets at a time. */
SPC_DEVICE int offset_of(int tile)
{
    int k = 0;

    for (int first = 0; first < $(all); first += 32) {
        int at = first + spc_lane();
        k += spc_popc(spc_ballot(at < $(all) && first_tiles()[at + 1] <= tile));
    }
    return k;
}

/* Moves to the offset that has the tile. */
SPC_DEVICE void find_offset(cursor *c, const spc_conv_args *args)
{
    const int *tiles = first_tiles(), *pairs = tiles + $(all + 1);

    while (tiles[c->k + 1] <= c->tile)
        c->k++;
    c->pair = pairs[c->k] + (c->tile - tiles[c->k]) * $(config.pairs);
% if problem.bias == 1 then
    c->end = c->k < $(problem.offsets - 1) ? pairs[c->k + 1] : c->k == $(problem.offsets) ? args->map.rows : pairs[$(all)];
% else
    c->end = pairs[c->k + 1];
% end
}

/* Moves to the next tile. At the end of the caller's tiles it stays at the end
 * of the last one. */
SPC_DEVICE void advance(cursor *c, int last, const spc_conv_args *args)
{
    c->pair += $(config.pairs);
    if (++c->tile < last && c->pair >= c->end)
        find_offset(c, args);
}

%end
%
%function write_store_one()
/* Stores the input of the bias: 1 in channel 0, else 0. */
SPC_DEVICE void store_one(spc_u8 *to, int is_first)
{
    spc_b16 one;
    one.x = is_first ? $(({f16 = "0x3c00u", bf16 = "0x3f80u"})[problem.dtype] or "0x3f800000u") : 0u;
    one.y = one.z = one.w = 0u;
    spc_shared_store16(to, one);
}

%end
%
%-- ---- the sum of the shares -----------------------------------------------------------
%
%function write_add_shares(from, to, step, ahead, where)
    /* Adds every $(step)th share's four neighbours from `other` on; $(ahead) loads are under
     * way. */
    SPC_ROLLED
    for (int first = $(from); first < $(to); first += $(step * ahead)) {
        spc_b16 four[$(ahead)];
        SPC_UNROLL
        for (int i = 0; i < $(ahead); i++) {
            int other = first + i * $(step);
            four[i].x = four[i].y = four[i].z = four[i].w = 0u;
            if (other < $(to))
                four[i] = *(const spc_b16 *)($(where));
        }
        SPC_UNROLL
        for (int i = 0; i < $(ahead); i++) {
            sum[0] += spc_bits_f32(four[i].x);
            sum[1] += spc_bits_f32(four[i].y);
            sum[2] += spc_bits_f32(four[i].z);
            sum[3] += spc_bits_f32(four[i].w);
        }
    }
%end
%
%function write_sum_kernel()
/* Adds the sums that shares stored for offset block_x, 64 times four neighbours
 * in a block. Each of four threads adds every fourth share. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    const int *header = (const int *)args->workspace;
    float *parts = (float *)spc_shared();
    int k = spc_block_x(), way = spc_thread() / 64;
    int item = spc_block_y() * 64 + spc_thread() % 64;
    int ci = item / $(quads), co = item % $(quads) * 4;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    spc_depend_wait();
    spc_depend_launch();
    int block = ci / $(config.m) * $(n_blocks) + co / $(config.n);
    int at = ci % $(config.m) * $(config.n) + co % $(config.n);
    int there = ci < (k == $(problem.offsets) ? 1 : $(problem.cin));
    int share = header[2 * k] + way, end = there ? header[2 * k + 1] : 0;
% write_add_shares("share", "end", 4, 4, "sum_at(args, other + k, block) + at")
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
