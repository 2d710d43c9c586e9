%-- The gradient of weights on mma.sync: for each offset k
%--
%--     dw[k]  =  sum over its pairs (i, o) of  x[i]^T dy[o]
%--
%-- is a product of gathered rows, whose inner dimension is the pairs. A block has `m` input
%-- by `n` output channels of one offset at a time; `pairs` rows of both go through a ring of
%-- asynchronous copies, as they lie in memory, so both operands are read transposed
%-- (ldmatrix.trans; 32-bit types word by word). Warps divide the channels, and where these
%-- are few the pairs of a step.
%--
%-- Row numbers come through a ring of their own, with the copies of an earlier tile.
%--
%-- The tiles of pairs of all offsets are one list, of which every block has an equal share:
%-- it follows few offsets, and leaves a sum for each of them. Sum number share + offset is
%-- nobody else's, so nothing is cleared and nothing is added in an order that could change:
%-- `spc_sum` adds those of an offset. The gradient of a bias is one offset more, of which
%-- every row is a pair with an input of 1 in channel 0 alone.
%
%include "wgrad_rows.lua"
%
%local sizes = {16, 32, 64, 128, 256}
%-- The workspace begins with the size of the grid and the numbers of the tiles.
%function header_bytes(problem) return ceil_div((offsets_of(problem) + 2) * 4, 256) * 256 end
%-- How warps divide the tile: over m, over n, over the pairs of a step.
%function warps_of(config)
%  local m, n, left = 1, 1, config.warps
%  while left > 1 do
%    if config.m // m >= config.n // n and config.m // m > 16 then m = m * 2
%    elseif config.n // n > 16 then n = n * 2
%    else break end
%    left = left // 2
%  end
%  return m, n, left
%end
%function stage_bytes(problem, config)
%  return config.pairs * (pitch_of(problem, config.m) + pitch_of(problem, config.n))
%end
%-- Of the ring of row numbers, both sides. They are a ring of rows ahead, whose first
%-- tiles are loaded without a barrier: nobody may find other numbers there then.
%function rows_bytes(config) return 2 * config.stages * config.pairs * 8 end
%function offsets_of(problem) return problem.offsets + problem.bias end
%function shared_bytes(problem, config)
%  local m, n, k = warps_of(config)
%  local joined = k > 1 and config.m * config.n * 4 * (k - 1) or 0
%  return math.max(config.stages * stage_bytes(problem, config), joined) + rows_bytes(config)
%    + ceil_div((offsets_of(problem) + 1) * 4, 16) * 16
%end
%function sums_of(config)
%  local m, n = warps_of(config)
%  return config.m // m * config.n // n // 32
%end
%function blocks_of(problem, config)
%  return ceil_div(problem.cin, config.m) * ceil_div(problem.cout, config.n)
%end
%-- The least size that holds so many channels, or the largest.
%local function least(channels)
%  for _, size in ipairs(sizes) do
%    if size >= channels then return size end
%  end
%  return sizes[#sizes]
%end
%function registers_of(problem, config)
%  local m, n = warps_of(config)
%  return sums_of(config) + (config.m // m // 4 + config.n // n // 4) * images(problem) + 56
%end
%
%template = {
%  summary = "products of gathered rows on mma.sync, offset by offset",
%  role = "wgrad",
%  triplets = true,
%  device = "cuda",
%  params = {
%    {"m", sizes, "input channels of a block"},
%    {"n", sizes, "output channels of a block"},
%    {"warps", {4, 8}, "warps of a block"},
%    {"pairs", {32, 64}, "pairs of a step"},
%    {"stages", {2, 3, 4}, "steps in flight"},
%    {"blocks", {1, 2, 4}, "blocks of a multiprocessor"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "needs a layer without groups" end
%    if target.sm < 75 or problem.dtype ~= "f16" and target.sm < 80 then
%      return false, "needs tensor cores for " .. problem.dtype
%    end
%    if row_alignment(problem) < 4 then return false, "needs rows of whole words" end
%    return true
%  end,
%  constraints = {
%    {"no block is mostly padding", function(problem, config, target)
%      return config.m <= least(problem.cin) and config.n <= least(problem.cout)
%    end},
%    {"sums and operands fit the registers", function(problem, config, target)
%      return registers_of(problem, config) <= 65536 // (config.warps * 32)
%        and registers_of(problem, config) <= 240
%    end},
%    {"every warp has a step of pairs", function(problem, config, target)
%      local m, n, k = warps_of(config)
%      return config.pairs // k >= 16
%    end},
%    {"a block fits shared memory", function(problem, config, target)
%      return shared_bytes(problem, config) <= target.shared_block
%    end},
%    {"blocks fit a multiprocessor", function(problem, config, target)
%      local shared = (shared_bytes(problem, config) + 1024) * config.blocks
%      local registers = math.max(registers_of(problem, config), 64) * config.warps * 32
%      return config.blocks == 1 or shared <= (target.shared_sm or 102400)
%        and registers * config.blocks <= 65536
%    end},
%  },
%  derive = function(problem, config, target)
%    local wm, wn, wk = warps_of(config)
%    local element = element_bytes(problem)
%    return {
%      wm = wm, wn = wn, wk = wk, threads = config.warps * 32,
%      tm = config.m // wm // 16, tn = config.n // wn // 8, -- products of a warp
%      element = element, half = element == 2, align = row_alignment(problem),
%      x_pitch = pitch_of(problem, config.m), y_pitch = pitch_of(problem, config.n),
%      x_pieces = config.m * element // 16, y_pieces = config.n * element // 16,
%      stage_size = stage_bytes(problem, config),
%      rows_at = shared_bytes(problem, config) - rows_bytes(config)
%        - ceil_div((offsets_of(problem) + 1) * 4, 16) * 16,
%      tiles_at = shared_bytes(problem, config) - ceil_div((offsets_of(problem) + 1) * 4, 16) * 16,
%      m_blocks = ceil_div(problem.cin, config.m), n_blocks = ceil_div(problem.cout, config.n),
%      blocks = blocks_of(problem, config), all = offsets_of(problem),
%      header = header_bytes(problem),
%      results = (taps_of(problem) + problem.bias) * problem.cout,
%    }
%  end,
%  launch = function(problem, config, target)
%    local shared, blocks = shared_bytes(problem, config), blocks_of(problem, config)
%    local sum = config.m * config.n * 4
%    return {
%      block = config.warps * 32, shared = shared, grid = "steps", gradient = 1,
%      layout = "pairs", tile_rows = 32, pdl = target.sm >= 90 and 1 or 0,
%      blocks_per_sm = config.blocks,
%      workspace_block_bytes = sum,
%      workspace_bytes = header_bytes(problem) + (offsets_of(problem) + 1) * blocks * sum,
%      sum_block = 256, sum_grid_x = offsets_of(problem),
%      sum_grid_y = math.min(65535, ceil_div(problem.cin * problem.cout, 256)),
%      preference = 10,
%    }
%  end,
%  default = function(problem, target)
%    local m, n = math.min(128, least(problem.cin)), math.min(128, least(problem.cout))
%    local config = {m = m, n = n, warps = m * n > 8192 and 8 or 4, pairs = 64, stages = 3,
%                    blocks = m * n > 4096 and 1 or 2}
%    while shared_bytes(problem, config) * config.blocks > target.shared_block do
%      if config.stages > 2 then config.stages = 2
%      elseif config.pairs > 32 then config.pairs = 32
%      elseif config.blocks > 1 then config.blocks = 1
%      elseif config.n > 64 then config.n = 64
%      elseif config.m > 64 then config.m = 64
%      else break end
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"

% write_split()
% write_store_sum()
/* ---- shares ------------------------------------------------------------------ */

/* The first tile of each offset, and behind the last how many there are. */
SPC_DEVICE void number_tiles(int *tiles, const spc_conv_args *args)
{
    const int *begin = args->pairs.begin;
    int sum = 0;

    if (spc_warp() == 0) {
        for (int first = 0; first < $(all); first += 32) {
            int k = first + spc_lane(), count = 0;
            if (k < $(problem.offsets))
                count = spc_load_int(begin + k + 1) - spc_load_int(begin + k);
% if problem.bias == 1 then
            if (k == $(problem.offsets))
                count = args->map.rows;
% end
            count = (count + $(config.pairs - 1)) / $(config.pairs);
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
    spc_sync_block();
}

/* So many shares has a grid: each of them in all blocks of channels, and none
 * without a tile. */
SPC_DEVICE int shares_of(int grid, int all)
{
    int shares = grid > $(blocks) ? grid / $(blocks) : 1;

    return shares < all ? shares : all;
}

/* The first tile of a share of all. */
SPC_DEVICE int share_begin(int all, int share, int shares)
{
    return (int)((long long)all * share / shares);
}

/* The sum that a share leaves of an offset: [m][n]. */
SPC_DEVICE float *sum_at(const spc_conv_args *args, int slot, int block)
{
    return (float *)((spc_u8 *)args->workspace + $(header)) +
           ((long long)slot * $(blocks) + block) * $(config.m * config.n);
}

/* ---- the ring ---------------------------------------------------------------- */

typedef struct loader {
    const int *in, *out;   /* rows of the offset's pairs; of a bias no inputs */
    int next, ahead, end;  /* the pairs that rows and row numbers are next copied of */
    int slot, slot_ahead;  /* where in the ring their numbers lie */
    int first_in, first_out; /* channels */
} loader;

/* Row numbers of a tile: of x, then of dy. */
SPC_DEVICE int *numbers_at(int slot)
{
    return (int *)(spc_shared() + $(rows_at)) + slot * $(2 * config.pairs);
}

SPC_DEVICE int next_slot(int slot)
{
    return slot == $(2 * config.stages - 1) ? 0 : slot + 1;
}

/* Starts copying the row numbers of one more tile. */
SPC_DEVICE void load_numbers(loader *l)
{
    int *to = numbers_at(l->slot_ahead);

    for (int i = spc_thread(); i < $(2 * config.pairs); i += $(threads)) {
        int side = i / $(config.pairs), pair = l->ahead + i % $(config.pairs);
        const int *from = side ? l->out : l->in;
        if (pair < l->end$(problem.bias == 1 and " && from != 0" or ""))
            spc_copy_async4(to + i, from + pair, 4);
    }
    l->ahead += $(config.pairs);
    l->slot_ahead = next_slot(l->slot_ahead);
}

% write_copy_piece()
% if problem.bias == 1 then
/* What stands for inputs of the bias: 1 in channel 0, else 0. */
SPC_DEVICE void store_one(spc_u8 *to, int is_first)
{
    spc_b16 one;
    one.x = is_first ? $(({f16 = "0x3c00u", bf16 = "0x3f80u"})[problem.dtype] or "0x3f800000u") : 0u;
    one.y = one.z = one.w = 0u;
    spc_shared_store16(to, one);
}

% end
/* Starts the copies of the next tile, if there is one; always one group. */
SPC_DEVICE void load_next(loader *l, int stage, const spc_conv_args *args)
{
    spc_u8 *to = spc_shared() + stage * $(stage_size);
    const int *numbers = numbers_at(l->slot);
    int left = l->end - l->next;

    if (left > 0) {
        SPC_UNROLL
        for (int i = 0; i < $(ceil_div(config.pairs * x_pieces, threads)); i++) {
            int item = spc_thread() + i * $(threads);
% if config.pairs * x_pieces % threads ~= 0 then
            if (item >= $(config.pairs * x_pieces))
                break;
% end
            int r = item / $(x_pieces), piece = item % $(x_pieces);
            spc_u8 *at = to + r * $(x_pitch) + piece * 16;
% if problem.bias == 1 then
            if (l->in == 0) {
                store_one(at, l->first_in + piece == 0);
                continue;
            }
% end
            copy_piece(at, (const spc_u8 *)args->in, r < left ? numbers[r] : -1,
                       $((problem.in_pitch or problem.cin) * element),
                       l->first_in * $(element) + piece * 16, $(problem.cin * element));
        }
        to += $(config.pairs * x_pitch);
        SPC_UNROLL
        for (int i = 0; i < $(ceil_div(config.pairs * y_pieces, threads)); i++) {
            int item = spc_thread() + i * $(threads);
% if config.pairs * y_pieces % threads ~= 0 then
            if (item >= $(config.pairs * y_pieces))
                break;
% end
            int r = item / $(y_pieces), piece = item % $(y_pieces);
            copy_piece(to + r * $(y_pitch) + piece * 16, (const spc_u8 *)args->residual,
                       r < left ? numbers[$(config.pairs) + r] : -1,
                       $(add_pitch(problem) * element), l->first_out * $(element) + piece * 16,
                       $(problem.cout * element));
        }
        load_numbers(l);
        l->next += $(config.pairs);
        l->slot = next_slot(l->slot);
    }
    spc_copy_commit();
}

/* ---- products ---------------------------------------------------------------- */

/* The warp's place: its channels of both sides, and its part of a step's pairs. */
SPC_DEVICE int warp_in(void) { return spc_warp() % $(wm) * $(tm * 16); }
SPC_DEVICE int warp_out(void) { return spc_warp() / $(wm) % $(wn) * $(tn * 8); }
SPC_DEVICE int warp_part(void) { return spc_warp() / $(wm * wn); }

% if half then
/* acc[tm][tn][4] += 16 pairs, from row `pair` of a stage on. */
SPC_DEVICE void multiply_pairs(float *acc, const spc_u8 *x, const spc_u8 *y, int pair)
{
    int lane = spc_lane(), r = lane & 7, low = lane >> 3 & 1, high = lane >> 4;
    spc_u32 a[$(tm)][4];

    x += (pair + high * 8 + r) * $(x_pitch) + (warp_in() + low * 8) * 2;
    y += (pair + low * 8 + r) * $(y_pitch) + (warp_out() + high * 8) * 2;
    SPC_UNROLL
    for (int i = 0; i < $(tm); i++)
        spc_ldmatrix4_trans(a[i], x + i * 32);
    SPC_UNROLL
    for (int j = 0; j < $(tn); j += 2) {
        spc_u32 b[4];
        spc_ldmatrix4_trans(b, y + j * 16);
        SPC_UNROLL
        for (int i = 0; i < $(tm); i++) {
            spc_mma_$(problem.dtype)(acc + (i * $(tn) + j) * 4, a[i], b);
            spc_mma_$(problem.dtype)(acc + (i * $(tn) + j + 1) * 4, a[i], b + 2);
        }
    }
}
% else
SPC_DEVICE spc_u32 word_at(const spc_u8 *row)
{
    return *(const spc_u32 *)row;
}

/* acc[tm][tn][4] += 8 pairs, from row `pair` of a stage on. */
SPC_DEVICE void multiply_pairs(float *acc, const spc_u8 *x, const spc_u8 *y, int pair)
{
    int g = spc_lane() >> 2, q = spc_lane() & 3;
    spc_u32 a[$(tm)][4]$(images(problem) > 1 and ", a_small[" .. tm .. "][4]" or "");

    x += (pair + q) * $(x_pitch) + (warp_in() + g) * 4;
    y += (pair + q) * $(y_pitch) + (warp_out() + g) * 4;
    SPC_UNROLL
    for (int i = 0; i < $(tm); i++)
        for (int h = 0; h < 4; h++) {
            spc_u32 v = word_at(x + h / 2 * $(4 * x_pitch) + i * 64 + h % 2 * 32);
% write_operand("            ", "a[i][h]", "a_small[i][h]", "v")
        }
    SPC_UNROLL
    for (int j = 0; j < $(tn); j++) {
        spc_u32 b[2]$(images(problem) > 1 and ", b_small[2]" or "");
        for (int h = 0; h < 2; h++) {
            spc_u32 v = word_at(y + h * $(4 * y_pitch) + j * 32);
% write_operand("            ", "b[h]", "b_small[h]", "v")
        }
        SPC_UNROLL
        for (int i = 0; i < $(tm); i++) {
% if images(problem) > 1 then
            spc_mma_tf32(acc + (i * $(tn) + j) * 4, a_small[i], b);
            spc_mma_tf32(acc + (i * $(tn) + j) * 4, a[i], b_small);
% end
            spc_mma_tf32(acc + (i * $(tn) + j) * 4, a[i], b);
        }
    }
}
% end

/* The products of a stage. */
SPC_DEVICE void multiply(float *acc, int stage)
{
    const spc_u8 *x = spc_shared() + stage * $(stage_size);

% if half then
    SPC_UNROLL
% else
    SPC_ROLLED
% end
    for (int pair = 0; pair < $(config.pairs // wk); pair += $(half and 16 or 8))
        multiply_pairs(acc, x, x + $(config.pairs * x_pitch), warp_part() * $(config.pairs // wk) + pair);
}

/* ---- sums -------------------------------------------------------------------- */

/* Where the lane's two neighbours h of product (i, j) lie in [m][n]. */
SPC_DEVICE int place_of(int i, int j, int h)
{
    return (warp_in() + i * 16 + h * 8 + (spc_lane() >> 2)) * $(config.n) + warp_out() + j * 8 +
           (spc_lane() & 3) * 2;
}

% if wk > 1 then
/* Adds what the warps have of other pairs, in their order, to the first one's. */
SPC_DEVICE void join_warps(float *acc)
{
    float *parts = (float *)spc_shared();

    spc_sync_block(); /* all have left the ring */
    if (warp_part() > 0)
        for (int i = 0; i < $(tm * tn * 2); i++) {
            float *to = parts + (warp_part() - 1) * $(config.m * config.n) +
                        place_of(i / $(tn * 2), i / 2 % $(tn), i % 2);
            to[0] = acc[i * 2];
            to[1] = acc[i * 2 + 1];
        }
    spc_sync_block();
    if (warp_part() == 0)
        for (int part = 0; part < $(wk - 1); part++)
            for (int i = 0; i < $(tm * tn * 2); i++) {
                const float *from = parts + part * $(config.m * config.n) +
                                    place_of(i / $(tn * 2), i / 2 % $(tn), i % 2);
                acc[i * 2] += from[0];
                acc[i * 2 + 1] += from[1];
            }
}

% end
SPC_DEVICE void leave(float *acc, float *to)
{
% if wk > 1 then
    join_warps(acc);
    if (warp_part() > 0)
        return;
% end
    SPC_UNROLL
    for (int i = 0; i < $(tm * tn * 2); i++) {
        spc_b8 two;
        two.x = spc_f32_bits(acc[i * 2]);
        two.y = spc_f32_bits(acc[i * 2 + 1]);
        spc_store8(to + place_of(i / $(tn * 2), i / 2 % $(tn), i % 2), two);
    }
}

/* ---- the kernels ------------------------------------------------------------- */

/* `count` tiles of offset k from its tile `first` on, of a block of channels. */
SPC_DEVICE void open_offset(loader *l, int k, int first, int count, int block,
                            const spc_conv_args *args)
{
    int begin = 0, end = args->map.rows;

    l->in = args->pairs.in;
    l->out = args->pairs.out;
% if problem.bias == 1 then
    if (k == $(problem.offsets)) {
        l->in = 0;
        l->out = args->map.order;
    } else {
        begin = spc_load_int(args->pairs.begin + k);
        end = spc_load_int(args->pairs.begin + k + 1);
    }
% else
    begin = spc_load_int(args->pairs.begin + k);
    end = spc_load_int(args->pairs.begin + k + 1);
% end
    l->next = l->ahead = begin + first * $(config.pairs);
    l->end = l->next + count * $(config.pairs) < end ? l->next + count * $(config.pairs) : end;
    l->slot = l->slot_ahead = 0;
    l->first_in = block / $(n_blocks) * $(config.m);
    l->first_out = block % $(n_blocks) * $(config.n);
}

SPC_DEVICE void run_offset(loader *l, int count, float *to, const spc_conv_args *args)
{
    float acc[$(tm * tn * 4)];
    int stage = 0;

    SPC_UNROLL
    for (int i = 0; i < $(tm * tn * 4); i++)
        acc[i] = 0.0f;
    spc_sync_block(); /* all have left the rings */
    SPC_ROLLED
    for (int i = 0; i < $(config.stages); i++)
        load_numbers(l);
    spc_copy_commit();
    spc_copy_wait(0);
    spc_sync_block();
    SPC_ROLLED
    for (int i = 0; i < $(config.stages - 1); i++)
        load_next(l, i, args);
    for (; count > 0; count--) {
        /* The tile has arrived, for the whole block; and all have left the stage
         * that is loaded next. */
        spc_copy_wait($(config.stages - 2));
        spc_sync_block();
        load_next(l, stage == 0 ? $(config.stages - 1) : stage - 1, args);
        multiply(acc, stage);
        if (++stage == $(config.stages))
            stage = 0;
    }
    spc_copy_wait(0);
    leave(acc, to);
}

/* What spc_sum goes by. */
SPC_DEVICE void leave_header(const int *tiles, int *header)
{
    if (spc_block_x() > 0)
        return;
    if (spc_thread() == 0)
        header[0] = spc_grid_x();
    for (int k = spc_thread(); k <= $(all); k += $(threads))
        header[1 + k] = tiles[k];
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), 1)
{
    int *tiles = (int *)(spc_shared() + $(tiles_at));
    loader l;

    spc_depend_wait();
    spc_depend_launch();
    number_tiles(tiles, args);
    leave_header(tiles, (int *)args->workspace);
    int shares = shares_of(spc_grid_x(), tiles[$(all)]);
    for (int item = spc_block_x(); item < shares * $(blocks); item += spc_grid_x()) {
        int share = item / $(blocks), block = item % $(blocks), k = 0;
        int tile = share_begin(tiles[$(all)], share, shares);
        int end = share_begin(tiles[$(all)], share + 1, shares);
        while (tile < end) {
            while (tiles[k + 1] <= tile)
                k++;
            int stop = tiles[k + 1] < end ? tiles[k + 1] : end;
            open_offset(&l, k, tile - tiles[k], stop - tile, block, args);
            run_offset(&l, stop - tile, sum_at(args, share + k, block), args);
            tile = stop;
        }
    }
}

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

/* Adds the sums that shares left of offset block_x. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    const int *header = (const int *)args->workspace, *tiles = header + 1;
    int k = spc_block_x(), item = spc_block_y() * 256 + spc_thread();
    int ci = item / $(problem.cout), co = item % $(problem.cout);
    int share = 0, end = 0;
    float sum = 0.0f;

    spc_depend_wait();
    spc_depend_launch();
    if (ci >= (k == $(problem.offsets) ? 1 : $(problem.cin)))
        return;
    int all = tiles[$(all)], shares = shares_of(header[0], all);
    int block = ci / $(config.m) * $(n_blocks) + co / $(config.n);
    int at = ci % $(config.m) * $(config.n) + co % $(config.n);
    if (tiles[k] < tiles[k + 1]) {
        share = share_of(all, tiles[k], shares);
        end = share_of(all, tiles[k + 1] - 1, shares) + 1;
    }
    for (; share < end; share += 8) { /* eight are under way */
        float part[8];
        SPC_UNROLL
        for (int i = 0; i < 8; i++)
            part[i] = share + i < end ? sum_at(args, share + i + k, block)[at] : 0.0f;
        SPC_UNROLL
        for (int i = 0; i < 8; i++)
            sum += part[i];
    }
    store_sum(args, ((long long)k * $(problem.cin) + ci) * $(problem.cout) + co, sum);
}
