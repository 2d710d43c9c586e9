%-- The gradient of weights on matrix units. For each offset k
%--
%--     dw[k]  =  sum over its pairs (i, o) of  x[i]^T dy[o]
%--
%-- is a product of gathered rows whose inner dimension is the pairs. A block has `m` input by
%-- `n` output channels of one offset at a time. `pairs` rows of both sides go through a ring
%-- of asynchronous copies in their order in memory, so both operands are read transposed
%-- (ldmatrix.trans; 32-bit types word by word). Warps divide the channels and, if these are
%-- few, the pairs of a step. With unit=wgmma four warps multiply 64 input channels by all
%-- output channels of a block, whose rows are then in core matrices.
%--
%-- Row numbers come through a separate ring, together with the copies of an earlier tile.
%-- Both rings continue from one offset to the next.
%--
%-- The tiles of pairs of all offsets form one list, and every block has an equal share of it.
%-- A share touches few offsets, and the block stores a sum for each of them. The sum with
%-- number share + offset belongs to one block only. Nothing needs to be cleared, and sums are
%-- added in a fixed order: `spc_sum` adds those of an offset. The gradient of a bias is
%-- treated as one more offset, with every row as a pair and an input of 1 in channel 0 only.
%--
%-- With groups a block has one group, a part of one, or as many as its channels hold. In the
%-- last case products of inputs of one group with outputs of another are computed, too, and
%-- ignored.
%
%include "wgrad_pairs.lua"
%
%-- The number of groups of a block whose groups have so few channels that it can hold
%-- several: as many as fit, or fewer if their channels are then better aligned.
%function groups_of_block(problem, config)
%  local best, align = 1, 0
%  for groups = math.min(config.m // group_in(problem), config.n // group_out(problem), groups_of(problem)), 1, -1 do
%    local here = block_alignment(problem, groups)
%    if here > align then best, align = groups, here end
%  end
%  return best
%end
%-- The alignment of rows and of the first channels of such blocks.
%function block_alignment(problem, groups)
%  if groups == groups_of(problem) then return row_alignment(problem) end
%  local element = element_bytes(problem)
%  return alignment_of(row_alignment(problem), groups * group_in(problem) * element, groups * group_out(problem) * element)
%end
%-- Channels of a block's groups, on both sides.
%function block_channels(problem, config)
%  local groups = groups_of_block(problem, config)
%  return groups * group_in(problem), groups * group_out(problem)
%end
%-- Blocks that share the channels, in x: those of inputs times those of outputs of a
%-- block's groups.
%function blocks_by(problem, config)
%  local cin, cout = block_channels(problem, config)
%  return ceil_div(groups_of(problem), groups_of_block(problem, config)), ceil_div(cin, config.m), ceil_div(cout, config.n)
%end
%function blocks_in_all(problem, config)
%  local parts, m, n = blocks_by(problem, config)
%  return parts * m * n
%end
%function block_is_aligned(problem, config)
%  return block_alignment(problem, groups_of_block(problem, config)) >= 4
%end
%
%local function blocks_share(problem, config, target)
%  return (shared_bytes(problem, config) + 1024) * config.blocks <= (target.shared_sm or 102400)
%end
%local function blocks_have_room(problem, config, target)
%  return shared_bytes(problem, config) * config.blocks <= target.shared_block
%    and (config.blocks == 1 or blocks_share(problem, config, target))
%end
%-- The default without measurements. With groups, blocks have at least 64 bytes of a row.
%local function default_sizes(problem)
%  local function size(channels)
%    return math.min(128, math.max(least_size(channels), problem.groups and 64 // element_bytes(problem) or 0))
%  end
%  local sizes = {m = size(group_in(problem)), n = size(group_out(problem))}
%  while not block_is_aligned(problem, sizes) do
%    sizes.m, sizes.n = math.min(256, sizes.m * 2), math.min(256, sizes.n * 2)
%  end
%  local cin, cout = block_channels(problem, sizes)
%  return math.min(sizes.m, least_size(cin)), math.min(sizes.n, least_size(cout))
%end
%
%template = {
%  summary = "products of gathered rows on matrix units, offset by offset",
%  role = "wgrad",
%  triplets = true,
%  device = "cuda",
%  params = {
%    {"m", block_sizes, "input channels of a block"},
%    {"n", block_sizes, "output channels of a block"},
%    {"warps", {4, 8}, "warps of a block"},
%    {"pairs", {32, 64, 128}, "pairs of a step"},
%    {"stages", {2, 3, 4}, "steps in flight"},
%    {"blocks", {1, 2, 4}, "blocks of a multiprocessor"},
%    {"unit", {"mma", "wgmma"}, "matrix instructions: of a warp, or of four (sm_90a)"},
%  },
%  accepts = function(problem, target)
%    if target.sm < 75 or problem.dtype ~= "f16" and target.sm < 80 then
%      return false, "needs tensor cores for " .. problem.dtype
%    end
%    if row_alignment(problem) < 4 then return false, "needs rows of whole words" end
%    if not block_is_aligned(problem, {m = 256, n = 256}) then return false, "needs groups of whole words" end
%    if problem.groups and group_in(problem) * problem.cout > 65535 * 64
%       or problem.cin * ceil_div(problem.cout, 4) > 65535 * 64 then return false, "too many channels" end
%    return true
%  end,
%  constraints = {
%    {"no block is mostly padding", function(problem, config, target)
%      local cin, cout = block_channels(problem, config)
%      return config.m <= least_size(cin) and config.n <= least_size(cout)
%    end},
%    {"blocks begin at whole words", block_is_aligned},
%    {"long steps are of short rows", function(problem, config)
%      return config.pairs <= 64 or (config.m + config.n) * element_bytes(problem) <= 192
%    end},
%    {"what wgmma multiplies", function(problem, config, target)
%      return not is_wide(config)
%        or (target.target == "sm_90a" and element_bytes(problem) == 2 and config.n >= 64
%            and config.m == config.warps * 16)
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
%      local registers = math.max(registers_of(problem, config), 64) * config.warps * 32
%      return config.blocks == 1
%        or blocks_share(problem, config, target) and registers * config.blocks <= 65536
%    end},
%  },
%  derive = function(problem, config, target)
%    local wm, wn, wk = warps_of(config)
%    local element = element_bytes(problem)
%    local parts, m_blocks, n_blocks = blocks_by(problem, config)
%    local part_in, part_out = block_channels(problem, config)
%    return {
%      wm = wm, wn = wn, wk = wk, threads = config.warps * 32,
%      tm = config.m // wm // 16, tn = config.n // wn // 8, -- products of a warp
%      element = element, half = element == 2, wide = is_wide(config), align = block_alignment(problem, groups_of_block(problem, config)),
%      x_pitch = pitch_of(problem, config.m), y_pitch = pitch_of(problem, config.n),
%      x_pieces = config.m * element // 16, y_pieces = config.n * element // 16,
%      stage_size = stage_bytes(problem, config),
%      joined_at = config.stages * stage_bytes(problem, config),
%      rows_at = config.stages * stage_bytes(problem, config) + joined_bytes(config),
%      tiles_at = shared_bytes(problem, config) - table_bytes(problem),
%      parts = parts, m_blocks = m_blocks, n_blocks = n_blocks,
%      part_in = part_in, part_out = part_out, part_groups = groups_of_block(problem, config),
%      blocks = blocks_in_all(problem, config), all = offsets_of(problem),
%      header = header_bytes(problem), quads = ceil_div(problem.cout, 4),
%      results = (taps_of(problem) + problem.bias) * problem.cout,
%    }
%  end,
%  launch = function(problem, config, target)
%    local shared, blocks = shared_bytes(problem, config), blocks_in_all(problem, config)
%    local sum = config.m * config.n * 4
%    return {
%      block = config.warps * 32, shared = shared, grid = "steps", gradient = 1,
%      layout = "pairs", tile_rows = 32, pdl = target.sm >= 90 and 1 or 0,
%      blocks_per_sm = config.blocks,
%      workspace_block_bytes = sum,
%      workspace_bytes = header_bytes(problem) + (offsets_of(problem) + 1) * blocks * sum,
%      sum_block = 256, sum_grid_x = offsets_of(problem), sum_shared = 4096,
%      sum_grid_y = problem.groups and ceil_div(group_in(problem) * problem.cout, 64)
%        or ceil_div(problem.cin * ceil_div(problem.cout, 4), 64),
%      preference = 10,
%    }
%  end,
%  default = function(problem, target)
%    local m, n = default_sizes(problem)
%    local config = {m = m, n = n, warps = m * n > 8192 and 8 or 4, unit = "mma",
%                    pairs = (m + n) * element_bytes(problem) <= 192 and 128 or 64,
%                    stages = m * n > 4096 and 3 or 4, blocks = m * n > 4096 and 1 or 2}
%    while not blocks_have_room(problem, config, target) do
%      if config.stages > 2 then config.stages = config.stages - 1
%      elseif config.pairs > 32 then config.pairs = config.pairs // 2
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
% write_shares()
% write_sum_place()
/* ---- the ring ---------------------------------------------------------------- */

% write_cursor()
typedef struct loader {
    cursor rows, numbers;    /* the next tiles whose rows or numbers are copied */
    int last;                /* end of the block's tiles */
    int slot, slot_ahead;    /* positions of their numbers in the ring */
    int first_in, first_out; /* channels */
} loader;

/* Row numbers of a tile: those of x, then those of dy. */
SPC_DEVICE int *numbers_at(int slot)
{
    return (int *)(spc_shared() + $(rows_at)) + slot * $(2 * config.pairs);
}

SPC_DEVICE int next_slot(int slot)
{
    return slot == $(2 * config.stages - 1) ? 0 : slot + 1;
}

/* Starts copying the row numbers of one more tile, if there is one. */
SPC_DEVICE void load_numbers(loader *l, const spc_conv_args *args)
{
    int *to = numbers_at(l->slot_ahead);
    const int *in = args->pairs.in, *out = args->pairs.out;

    if (l->numbers.tile >= l->last)
        return;
% if problem.bias == 1 then
    if (l->numbers.k == $(problem.offsets)) {
        in = 0;
        /* A bias has every output row as a pair, and no inputs. */
        out = args->map.order;
    }
% end
    SPC_UNROLL
    for (int i = 0; i < $(ceil_div(2 * config.pairs, threads)); i++) {
        int item = spc_thread() + i * $(threads);
        int pair = l->numbers.pair + item % $(config.pairs);
        const int *from = item / $(config.pairs) ? out : in;
        if ($(2 * config.pairs % threads ~= 0 and "item < " .. 2 * config.pairs .. " && " or "")pair < l->numbers.end$(problem.bias == 1 and " && from != 0" or ""))
            /* Numbers are copied 4 bytes at a time, because the pairs of an
             * offset begin anywhere. */
            spc_copy_async4(to + item, from + pair, 4);
    }
    advance(&l->numbers, l->last, args);
    l->slot_ahead = next_slot(l->slot_ahead);
}

% write_copy_piece()
% if problem.bias == 1 then
% write_store_one()
% end
%-- Writes the copies of one side of a tile, which has all rows or `left` rows.
%function write_side(side, name, all)
%  local x = side == "x"
%  local pieces, channels = x and x_pieces or y_pieces, x and problem.cin or problem.cout
%  local block, blocks = x and config.m or config.n, parts * (x and m_blocks or n_blocks)
%  local part = x and part_in or part_out
%  local pitch = (x and (problem.in_pitch or problem.cin) or add_pitch(problem)) * element
%  local first = (blocks > 1 and "l->first_" .. (x and "in" or "out") .. " * " .. element .. " + " or "") .. "piece * 16"
%  local row = "numbers[" .. (x and "" or config.pairs .. " + ") .. "r]"
%  local place = "r * " .. (x and x_pitch or y_pitch) .. " + piece * 16"
%  if wide and not x then place = "r * 16 + piece * " .. piece_pitch(config) end
        SPC_UNROLL
        for (int i = 0; i < $(ceil_div(config.pairs * pieces, threads)); i++) {
            int item = spc_thread() + i * $(threads);
%   if config.pairs * pieces % threads ~= 0 then
            if (item >= $(config.pairs * pieces))
                break;
%   end
            int r = item / $(pieces), piece = item % $(pieces);
%   if x and problem.bias == 1 then
            if (l->rows.k == $(problem.offsets)) {
                store_one(to + $(place), l->first_in$(parts > 1 and " % " .. part_in or "") + piece == 0);
                continue;
            }
%   end
%   if all and align == 16 and part % block == 0 and channels % part == 0 and (x or problem.bias == 0) then
            spc_copy_async16(to + $(place), $(name) + (long long)$(row) * $(pitch) + $(first), 16);
%   else
            copy_piece(to + $(place), $(name), $(all and row or "r < left ? " .. row .. " : -1"),
                       $(pitch), $(first), $(channels * element));
%   end
        }
%end
%
/* Starts the copies of the next tile, if there is one. Always commits one
 * group. */
SPC_DEVICE void load_next(loader *l, int stage, const spc_conv_args *args)
{
    spc_u8 *to = spc_shared() + stage * $(stage_size);
    const spc_u8 *in = (const spc_u8 *)args->in, *out = (const spc_u8 *)args->residual;
    const int *numbers = numbers_at(l->slot);
    int left = l->rows.tile < l->last ? l->rows.end - l->rows.pair : 0;

    if (left >= $(config.pairs)) {
% write_side("x", "in", true)
        to += $(config.pairs * x_pitch);
% write_side("y", "out", true)
    } else if (left > 0) {
% write_side("x", "in", false)
        to += $(config.pairs * x_pitch);
% write_side("y", "out", false)
    }
    if (left > 0) {
        advance(&l->rows, l->last, args);
        l->slot = next_slot(l->slot);
    }
    load_numbers(l, args);
    spc_copy_commit();
}

/* ---- products ---------------------------------------------------------------- */

/* The warp's part: its channels of both sides, and its pairs of a step. */
SPC_DEVICE int warp_in(void) { return spc_warp() % $(wm) * $(tm * 16); }
SPC_DEVICE int warp_out(void) { return spc_warp() / $(wm) % $(wn) * $(tn * 8); }
SPC_DEVICE int warp_part(void) { return spc_warp() / $(wm * wn); }

% if wide then
% elseif half then
/* acc[tm][tn][4] += 16 pairs, from row `pair` of a stage on. */
SPC_DEVICE void multiply_pairs(float *acc, const spc_u8 *x, const spc_u8 *y, int pair)
{
    int lane = spc_lane(), r = lane & 7, low = lane >> 3 & 1, high = lane >> 4;
    spc_u32 a[$(tm)][4];

    x += (pair + high * 8 + r) * $(x_pitch) + (warp_in() + low * 8) * 2;
    y += (pair + low * 8 + r) * $(y_pitch) + (warp_out() + high * 8) * 2;
    SPC_UNROLL
    for (int i = 0; i < $(tm); i++)
        /* Rows are pairs here, and a product needs them along k, so both
         * operands are transposed as they are read. */
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

% if wide then
/* Starts the products of a stage. A warp's 16 input channels come through registers. */
SPC_DEVICE void multiply(float *acc, int stage)
{
    int lane = spc_lane(), r = lane & 7, low = lane >> 3 & 1, high = lane >> 4;
    const spc_u8 *x = spc_shared() + stage * $(stage_size), *y = x + $(config.pairs * x_pitch);
    spc_u32 a[$(config.pairs // 16)][4];

    x += (high * 8 + r) * $(x_pitch) + (warp_in() + low * 8) * 2;
    SPC_UNROLL
    for (int i = 0; i < $(config.pairs // 16); i++)
        spc_ldmatrix4_trans(a[i], x + i * $(16 * x_pitch));
    spc_wgmma_fence();
    SPC_UNROLL
    for (int i = 0; i < $(config.pairs // 16); i++)
        spc_wgmma_rows_$(config.n)_$(problem.dtype)(
            acc, a[i], spc_wgmma_descriptor(y + i * 256, 128, $(piece_pitch(config))), 1);
    spc_wgmma_commit();
}
% else
/* Computes the products of a stage. */
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
% end

/* ---- sums -------------------------------------------------------------------- */

/* The position in [m][n] of the lane's two neighbours h of product (i, j). */
SPC_DEVICE int place_of(int i, int j, int h)
{
    return (warp_in() + i * 16 + h * 8 + (spc_lane() >> 2)) * $(config.n) + warp_out() + j * 8 +
           (spc_lane() & 3) * 2;
}

% if wk > 1 then
/* Adds the sums of warps with other pairs, in their order, to those of the first
 * warp. */
SPC_DEVICE void join_warps(float *acc)
{
    float *parts = (float *)(spc_shared() + $(joined_at));

    spc_sync_block(); /* all have finished with `parts` */
    if (warp_part() > 0)
        for (int i = 0; i < $(tm * tn * 2); i++) {
            float *to = parts + (warp_part() - 1) * $(config.m * config.n) +
                        place_of(i / $(tn * 2), i / 2 % $(tn), i % 2);
            to[0] = acc[i * 2];
            to[1] = acc[i * 2 + 1];
        }
    spc_sync_block(); /* all parts are stored */
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

SPC_DEVICE void clear(float *acc)
{
    SPC_UNROLL
    for (int i = 0; i < $(tm * tn * 4); i++)
        acc[i] = 0.0f;
}

SPC_DEVICE void open_share(loader *l, int tile, int last, int block, const spc_conv_args *args)
{
    l->rows.tile = tile;
    l->rows.k = offset_of(tile);
    find_offset(&l->rows, args);
    l->numbers = l->rows;
    l->last = last;
    l->slot = l->slot_ahead = 0;
% if parts > 1 then
    l->first_in = block / $(m_blocks * n_blocks) * $(part_in) + block / $(n_blocks) % $(m_blocks) * $(config.m);
    l->first_out = block / $(m_blocks * n_blocks) * $(part_out) + block % $(n_blocks) * $(config.n);
% else
    l->first_in = block / $(n_blocks) * $(config.m);
    l->first_out = block % $(n_blocks) * $(config.n);
% end
}

/*
 * Processes the tiles of a share. Copies run ahead from one offset to the next.
 */
SPC_DEVICE void run_share(loader *l, int share, int block, const spc_conv_args *args)
{
    const int *tiles = first_tiles();
    float acc[$(tm * tn * 4)];
    int stage = 0, tile = l->rows.tile, k = l->rows.k;

    clear(acc);
    spc_sync_block(); /* all have finished with the rings */
    SPC_ROLLED
    for (int i = 0; i < $(config.stages); i++)
        load_numbers(l, args);
    spc_copy_commit();
    spc_copy_wait(0);
    spc_sync_block(); /* the first row numbers have arrived */
    spc_depend_wait(); /* the map was complete earlier */
    spc_depend_launch();
    SPC_ROLLED
    for (int i = 0; i < $(config.stages - 1); i++)
        load_next(l, i, args);
    SPC_ROLLED
    while (tile < l->last) {
        /* After the barrier the tile has arrived for the whole block, and all
         * warps have finished with the stage that is loaded next. */
        spc_copy_wait($(config.stages - 2));
% if wide then
        /* wgmma does not see the copies otherwise. */
        spc_fence_async();
        spc_sync_block();
        multiply(acc, stage);
        load_next(l, stage == 0 ? $(config.stages - 1) : stage - 1, args);
        spc_wgmma_wait(0);
% else
        spc_sync_block();
        load_next(l, stage == 0 ? $(config.stages - 1) : stage - 1, args);
        multiply(acc, stage);
% end
        stage = stage == $(config.stages - 1) ? 0 : stage + 1;
        if (++tile == l->last || tile == tiles[k + 1]) {
            /* The share's sum of this offset is complete. Each slot share + k
             * has one writer, so nothing is cleared or added here. */
            leave(acc, sum_at(args, share + k, block));
            clear(acc);
            /* Offsets without pairs have no tiles. */
            while (tile < l->last && tiles[k + 1] <= tile)
                k++;
        }
    }
    spc_copy_wait(0);
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(config.blocks))
{
    int *tiles = (int *)(spc_shared() + $(tiles_at));
    loader l;

    number_tiles(tiles, args);
    int shares = shares_of(spc_grid_x(), tiles[$(all)]);
    for (int item = spc_block_x(); item < shares * $(blocks); item += spc_grid_x()) {
        int share = item / $(blocks), block = item % $(blocks);
        open_share(&l, share_begin(tiles[$(all)], share, shares),
                   share_begin(tiles[$(all)], share + 1, shares), block, args);
        run_share(&l, share, block, args);
    }
    spc_depend_wait();
    leave_header(tiles, shares, (int *)args->workspace);
}

% if problem.groups then
/* Adds the sums that shares stored for offset block_x, 64 weights in a block. Each of four
 * threads adds every fourth share. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    const int *header = (const int *)args->workspace;
    float *parts = (float *)spc_shared();
    int k = spc_block_x(), way = spc_thread() / 64;
    int item = spc_block_y() * 64 + spc_thread() % 64;
    int ci = item / $(problem.cout), co = item % $(problem.cout);
    int group = co / $(group_out(problem)), m = group % $(part_groups) * $(group_in(problem)) + ci, n = co % $(part_out);
    int block = (group / $(part_groups) * $(m_blocks) + m / $(config.m)) * $(n_blocks) + n / $(config.n);
    int at = (k == $(problem.offsets) ? 0 : m % $(config.m)) * $(config.n) + n % $(config.n);
    float sum = 0.0f;

    spc_depend_wait();
    spc_depend_launch();
    int there = ci < (k == $(problem.offsets) ? 1 : $(group_in(problem)));
    int end = there ? header[2 * k + 1] : 0;
    SPC_ROLLED
    for (int first = header[2 * k] + way; first < end; first += 16) {
        float some[4];
        SPC_UNROLL
        for (int i = 0; i < 4; i++)
            /* Four loads are under way before the first is added. */
            some[i] = first + i * 4 < end ? sum_at(args, first + i * 4 + k, block)[at] : 0.0f;
        SPC_UNROLL
        for (int i = 0; i < 4; i++)
            sum += some[i];
    }
    parts[spc_thread()] = sum;
    spc_sync_block();
    if (!there || way > 0)
        return;
    for (int other = 1; other < 4; other++)
        sum += parts[other * 64 + spc_thread()];
    store_sum(args, ((long long)k * $(group_in(problem)) + ci) * $(problem.cout) + co, sum);
}
% else
% write_sum_kernel()
% end
