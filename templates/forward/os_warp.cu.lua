%-- Output-stationary convolution. A warp has a tile of 8, 16 or 32 output rows.
%--
%-- The product is transposed: weights are the first operand (16 output channels by k), voxels
%-- are the columns of the second. A lane loads 16 contiguous bytes of a gathered row, which
%-- are then exactly its part of two second operands. Rows go from global memory straight into
%-- registers, and only the packing of weights depends on the permutation of channels. A quad
%-- of lanes reads 64 contiguous bytes of a row.
%--
%-- Each warp runs one continuous stream of steps (tile, offset present in the tile). The rows
%-- of `depth` steps are under way. Each product is followed by the loads for the step that
%-- takes its place, whose indices were requested `depth` steps earlier. If weights are in
%-- global memory these loads would delay them, so `depth` products come first, then all
%-- loads. The hardware tracks all these loads with one scoreboard, which the top of the loop
%-- waits for. The latency of the last load is paid once in `depth` steps, and other warps
%-- fill the gap. Tiles end inside the stream, which never drains.
%
%include "os_rows.lua"
%
%-- Each warp has a ring of steps (spc_stream.cuh) after the weights.
%function shared_bytes(problem, config)
%  return (config.weights == "shared" and packed_bytes(problem) or 0)
%       + config.warps * 384
%end
%
%function packed_bytes(problem)
%  return problem.offsets * #k_steps(problem) * ceil_div(problem.cout, 16) * 512
%end
%
%-- Matrix products in the unrolled code; those of f32 with the splitting of their
%-- operands.
%function body(problem, config)
%  local products = format_of(problem).products
%  return config.depth * (config.rows // 8) * #k_steps(problem)
%       * ceil_div(problem.cout, 16) * (products > 1 and products + 1 or 1)
%end
%
%-- A lower bound of a thread's registers; the compiler's report decides.
%function registers(problem, config)
%  local _, row = k_steps(problem)
%  local columns = config.rows // 8
%  return ceil_div(problem.cout, 16) * columns * 4
%       + config.depth * (columns * (row + 2) + 2) + 24
%end
%
%-- True if the weights that each warp reads from memory in each step make os_wgmma faster,
%-- which would read an eighth: 64->64 K5 took 78.9 us against 54.9 us of os_wgmma (H200,
%-- waymo@0.1, level 2). With half as many weights os_wgmma is faster on maps of few rows: it
%-- has ten of the fifteen shipped choices for 32->64 K5, those below 55,000 rows.
%function reads_much(problem, config, target)
%  local products, few = problem.cin * problem.cout, (target.rows or math.huge) < 55000
%  return config.weights == "global" and target.target == "sm_90a"
%     and (products >= 4096 or products >= 2048 and few and problem.centre >= 0)
%end
%
%template = {
%  summary = "output-stationary, a warp a tile, voxels as columns of mma.sync",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"rows", {8, 16, 32}, "output rows of a tile"},
%    {"depth", {2, 3, 4, 6}, "steps whose rows are under way"},
%    {"warps", {8, 12, 16}, "warps of a block"},
%    {"blocks", {1, 2, 3}, "blocks of a multiprocessor"},
%    {"weights", {"shared", "global"}, "where the packed weights are read"},
%    {"tiles", {"shared", "dealt"}, "by the warps of a block, by load, or to each warp"},
%    {"order", {"gray", "gray_x", "gray_y", "planes", "dense", "morton"}, "row order of the map"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "one group alone" end
%    if input_alignment(problem) < 4 then
%      return false, problem.dtype .. " rows need " .. (whole_in(problem)
%        and "a multiple of 4" or "an even number of") .. " input channels"
%    end
%    if target.sm < 75 or problem.dtype ~= "f16" and problem.dtype ~= "i8" and target.sm < 80 then
%      return false, "needs tensor cores for " .. problem.dtype
%    end
%    if problem.cin > 128 or problem.cout > 128
%       or #k_steps(problem) * ceil_div(problem.cout, 16) > 48
%       or body(problem, {depth = 2, rows = 8}) > 384 then
%      return false, "more channels than a warp holds"
%    end
%    return true
%  end,
%  constraints = {
%    {"resident weights fit shared memory", function(problem, config, target)
%      if config.weights == "global" then return true end
%      local bytes = shared_bytes(problem, config)
%      -- CUDA reserves 1024 bytes of shared memory for each block.
%      return config.blocks * (bytes + 1024) <= target.shared_sm
%         and bytes <= target.shared_block
%    end},
%    {"weights are resident where they fit", function(problem, config, target)
%      return config.weights == "shared"
%         or shared_bytes(problem, {warps = 8, weights = "shared"}) > target.shared_block
%    end},
%    {"8, 12, 16 or 24 warps on a multiprocessor", function(problem, config)
%      return config.blocks == 1 or config.warps == 8
%    end},
%    {"the ring fits the registers", function(problem, config)
%      local limit = 65536 // (config.warps * config.blocks * 32)
%      return registers(problem, config) <= math.min(limit, 255)
%    end},
%    {"the body is small enough to compile", function(problem, config)
%      return body(problem, config) <= 384
%    end},
%  },
%  derive = function(problem, config, target)
%    local steps, row = k_steps(problem)
%    return {
%      steps = steps, row_registers = row, width = config.rows // 8,
%      columns = config.rows // 8,
%      m_tiles = ceil_div(problem.cout, 16),
%      words = ceil_div(problem.offsets, 32),
%      row_pitch = input_pitch_bytes(problem),
%      threads = config.warps * 32,
%      weight_bytes = packed_bytes(problem),
%      ring_at = config.weights == "shared" and packed_bytes(problem) or 0,
%      sum = sum_type(problem),
%      half = element_bytes(problem) < 4, narrow = out_bytes(problem) < 4,
%      columns_of_sums = ceil_div(problem.cout, 16) * 16,
%      span = out_bytes(problem) < 4 and 32 or 8,
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = config.warps * 32,
%      shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = config.blocks,
%      tile_rows = config.rows, order = config.order,
%      packed_bytes = packed_bytes(problem),
%      pack_threads = packed_bytes(problem) // 16,
%      pdl = target.sm >= 90 and 1 or 0,
%      preference = math.max(problem.cin, problem.cout) * element_bytes(problem) <= 128
%                   and not reads_much(problem, config, target) and 4 or 1,
%    }
%  end,
%  default = function(problem, target)
%    -- In a scan only a few planes of a large kernel have neighbours.
%    local order = problem.offsets > 8 and "planes" or "gray"
%    local function resident(warps)
%      return shared_bytes(problem, {warps = warps, weights = "shared"})
%    end
%    local fits = resident(8) <= target.shared_block
%    local twice = 2 * (resident(8) + 1024) <= target.shared_sm
%    local config = {rows = 16, depth = 4, warps = 8, blocks = 2,
%                    weights = fits and "shared" or "global", tiles = "shared",
%                    order = order}
%    if fits and not twice then
%      config.warps, config.blocks = resident(16) <= target.shared_block and 16 or 8, 1
%    end
%    -- Weights from memory are waited for once in `depth` steps, so a large depth is better
%    -- than many warps.
%    if not fits then config.depth, config.warps, config.blocks = 6, 12, 1 end
%    local function room()
%      return math.min(255, 65536 // (config.warps * config.blocks * 32))
%    end
%    -- Registers that the compiler needs in addition to `registers`, and the longest body
%    -- that it compiles well. Fitted to NVRTC's reports for 80 kernels, so that no default
%    -- of 60 shapes spilled on sm_80, 86, 89, 90a, 100 and 120. With weights in memory,
%    -- fitted to the reports for 70 more.
%    local function heavy()
%      local _, row = k_steps(problem)
%      local spare = problem.cout > 64 and 100
%                    or problem.cout > 32 and target.target ~= "sm_90a" and 96
%                    or problem.cout > 32 and not fits and 52 + (row > 4 and 28 or 0) + row % 2 * 12
%                    or 36 + (not fits and row > 6 and (problem.cout % 16 == 0 and row <= 8 and 12 or 48) or 0)
%      -- Scales, biases and residuals at the end of a tile.
%      if has_epilogue(problem) or not fits and problem.bias == 1 then spare = spare + 16 end
%      if has_epilogue(problem) and not fits and target.sm >= 120 then spare = spare + 16 end
%      return registers(problem, config) + spare > room() or body(problem, config) > 384
%    end
%    if not fits and heavy() then config.depth = 4 end
%    if heavy() then config.depth = 3 end
%    if heavy() then config.depth = 2 end
%    if heavy() then config.warps, config.blocks = 12, 1 end
%    if heavy() then config.warps = 8 end
%    if heavy() then config.rows = 8 end
%    if fits and resident(config.warps) > target.shared_block then config.warps = 8 end
%    return config
%  end,
%}
#include "spc_stream.cuh"

/* ---- one step ------------------------------------------------------------------ */

% write_loading(true)
% write_split()
/* acc[m][n][4] += weights of the offset times the gathered rows. */
SPC_DEVICE void multiply($(sum) *acc, const spc_u32 *data, int offset,
                         const spc_u8 *weights)
{
    /* Lane by lane, as spc_pack lays them out: a warp reads 512 bytes in a
     * row. */
    const spc_u8 *w = weights + offset * $(#steps * m_tiles * 512) +
                      spc_lane() * 16;
% for i, step in ipairs(steps) do
    {
%   if not half then
        spc_u32 b[$(columns)][2]$(problem.dtype == "f32" and ", c[" .. columns .. "][2]" or "");
        SPC_UNROLL
        for (int n = 0; n < $(columns); n++) {
%     for r = 0, 1 do
%       local source = (r == 0 or step.pair) and
%         "data[n * " .. row_registers .. " + " .. step.register + r .. "]" or "0"
%       write_operand("            ", "b[n][" .. r .. "]", "c[n][" .. r .. "]", source)
%     end
        }
%   end
        SPC_UNROLL
        for (int m = 0; m < $(m_tiles); m++) {
%   if config.weights == "shared" then
            spc_b16 v = spc_shared_load16(w + ($((i - 1) * m_tiles) + m) * 512);
%   else
            spc_b16 v = spc_load16(w + ($((i - 1) * m_tiles) + m) * 512);
%   end
            spc_u32 a[4];
            a[0] = v.x;
            a[1] = v.y;
            a[2] = v.z;
            a[3] = v.w;
%   if problem.dtype == "f32" then
            /* Weights are split again in every step. An image of the remainders
             * would take twice the shared memory. */
            spc_u32 s[4];
            SPC_UNROLL
            for (int r = 0; r < 4; r++)
                split(&a[r], &s[r], a[r]);
%   end
            SPC_UNROLL
            for (int n = 0; n < $(columns); n++) {
                $(sum) *d = acc + (m * $(columns) + n) * 4;
%   if half then
                spc_u32 b[2];
                b[0] = data[n * $(row_registers) + $(step.register)];
%     if step.pair then
                b[1] = data[n * $(row_registers) + $(step.register + 1)];
%     else
                /* The k-step has only one register of channels; its other
                 * weights are 0 too. */
                b[1] = 0;
%     end
                spc_mma_$(problem.dtype)(d, a, b);
%   elseif problem.dtype == "tf32" then
                spc_mma_tf32(d, a, b[n]);
%   else
                spc_mma_tf32(d, s, b[n]);
                spc_mma_tf32(d, a, c[n]);
                spc_mma_tf32(d, a, b[n]);
%   end
            }
        }
    }
% end
}

/* ---- the end of a tile ------------------------------------------------------------ */

%-- Integers are exchanged between lanes like other numbers of 16 bits: two in a word, each
%-- in the lower byte of a half. Four of them become a word of bytes in memory order.
%local function write_bytes_of()
%  if whole_out(problem) then
SPC_DEVICE spc_u32 pair_of(float low, float high)
{
    return (spc_u32)(spc_f32_to_i8(low) & 0xff) |
           (spc_u32)(spc_f32_to_i8(high) & 0xff) << 16;
}

SPC_DEVICE spc_u32 bytes_of(spc_u32 low, spc_u32 high)
{
    return (low & 0xff) | (low >> 8 & 0xff00) | (high & 0xff) << 16 |
           (high & 0xff0000) << 8;
}

%  end
%end
%local function pair_of(low, high)
%  return whole_out(problem) and "pair_of(" .. low .. ", " .. high .. ")" or pack_pair(low, high)
%end
%-- The bytes of the residual of row[n] from `co` on, as such pairs.
%local function write_residual_bytes(count)
%  local bytes = math.min(alignment_of(problem.cout, add_pitch(problem)), count)
            const spc_u8 *from = (const spc_u8 *)args->residual +
                                 (long long)row[n] * $(add_pitch(problem)) + co;
            spc_u32 added[$(count // 2)], word[$(count // 4)];
            SPC_UNROLL
            for (int i = 0; i < $(count // 4); i++)
                word[i] = 0;
%  for at = 0, count - 1, bytes do
%    local present = "row[n] >= 0 && co + " .. at .. " < " .. problem.cout
%    if bytes >= 4 then
            spc_load$(bytes)_into(word + $(at // 4), from + $(at), $(present) ? 0 : -1);
%    else
            if ($(present))
                word[$(at // 4)] |= (spc_u32)spc_load$(bytes)(from + $(at)) << $(at % 4 * 8);
%    end
%  end
            SPC_UNROLL
            for (int i = 0; i < $(count // 2); i++) {
                spc_u32 two = word[i / 2] >> i % 2 * 16;
                added[i] = (two & 0xff) | (two & 0xff00) << 8;
            }
%end
%-- Stores `count` channels from `co` on, as bytes in v.
%local function write_byte_stores(count, guard)
%  local bytes = math.min(alignment_of(problem.cout, out_pitch(problem)), count)
%  for i = 0, count // 4 - 1 do
            v[$(i)] = bytes_of(v[$(2 * i)], v[$(2 * i + 1)]);
%  end
%  if bytes == 8 then
            if (row[n] >= 0$(guard and " && co < " .. problem.cout or "")) {
                spc_b8 w;
                w.x = v[0];
                w.y = v[1];
                spc_store8(to + co, w);
            }
%  else
%    for at = 0, count - 1, bytes do
            if (row[n] >= 0$(guard and " && co + " .. at .. " < " .. problem.cout or ""))
                spc_store$(bytes)(to + co + $(at), $(({"(spc_u8)", "(spc_u16)"})[bytes] or "")(v[$(at // 4)]$(bytes < 4 and " >> " .. at % 4 * 8 or "")));
%    end
%  end
%end
%-- The residual of row[n] from channel `co` on, in the layout in which a lane stores:
%-- `count` channels of 16 bits, then converted to the layout of the accumulators.
%local function write_residual_words(count)
%  if whole_out(problem) then write_residual_bytes(count) else
%  local bytes = math.min(alignment_of(problem.cout * 2, add_pitch(problem) * 2), count * 2)
            const spc_u8 *from = (const spc_u8 *)args->residual +
                                 ((long long)row[n] * $(add_pitch(problem)) + co) * 2;
            spc_u32 added[$(count // 2)];
            SPC_UNROLL
            for (int i = 0; i < $(count // 2); i++)
                added[i] = 0;
%  for at = 0, count * 2 - 1, bytes do
%    local present = "row[n] >= 0 && co + " .. at // 2 .. " < " .. problem.cout
%    if bytes >= 4 then
            spc_load$(bytes)_into(added + $(at // 4), from + $(at), $(present) ? 0 : -1);
%    else
            if ($(present))
                added[$(at // 4)] |= (spc_u32)spc_load2(from + $(at)) << $(at % 4 * 8);
%    end
%  end
%  end
            SPC_UNROLL
            for (int i = 0; i < $(count // 2); i++)
                /* The same transposition takes the residual to where the sums
                 * are. */
                added[i] = spc_movmatrix(added[i]);
            SPC_UNROLL
            for (int i = 0; i < $(count); i++) {
                float *y = d + i / 4 * $(columns * 4) + i % 4;
%  write_rest("                ", "*y", whole_out(problem)
%    and "spc_i8_to_f32(added[i / 2], i % 2 * 2)" or unpacked("added", "i"))
            }
%end
%-- Stores an fp32 result y of `row` with its residual.
%local function write_word_store(row, y)
                if (co < $(problem.cout) && $(row) >= 0) {
                    float y = $(y);
%  write_rest("                    ", "y", "spc_load_f32((const float *)args->residual + (long long)" .. row .. " * " .. add_pitch(problem) .. " + co)")
                    spc_store4(to + (long long)$(row) * $(out_pitch(problem) * 4), spc_f32_bits(y));
                }
%end
% write_activation("SPC_DEVICE")
% write_bytes_of()
SPC_DEVICE void finish($(sum) *$(whole_in(problem) and "sums" or "acc"), const int *row, const spc_conv_args *args)
{
    int g = spc_lane() >> 2, q = spc_lane() & 3;
    spc_u8 *out = (spc_u8 *)args->out;
% write_device_scales("    ")
% if whole_in(problem) then
    float acc[$(m_tiles * columns * 4)];
    SPC_UNROLL
    for (int i = 0; i < $(m_tiles * columns * 4); i++)
        acc[i] = spc_int_to_f32(sums[i]);
% end
% if starts_with_bias(problem) then
% for m = 0, m_tiles - 1 do
% for h = 0, 1 do
    {
        int co = $(channel_of_column(columns_of_sums, span, 16 * m + 8 * h, "g"));
        /* Channels past the last are computed with the others, but not
         * stored. */
        float bias = co < $(problem.cout) ? spc_load_f32(args->bias + co) : 0.0f;
        SPC_UNROLL
        for (int n = 0; n < $(columns); n++) {
            acc[($(m * columns) + n) * 4 + $(2 * h)] += bias;
            acc[($(m * columns) + n) * 4 + $(2 * h + 1)] += bias;
        }
    }
% end
% end
% elseif is_scaled(problem) then
%   for m = 0, m_tiles - 1 do
%     for h = 0, 1 do
    {
        int co = $(channel_of_column(columns_of_sums, span, 16 * m + 8 * h, "g"));
%       if problem.scale then
        float scale = co < $(problem.cout) ? spc_load_f32(args->scale + co) : 0.0f;
%       end
%       if problem.bias == 1 then
        float bias = co < $(problem.cout) ? spc_load_f32(args->bias + co) : 0.0f;
%       end
        SPC_UNROLL
        for (int i = 0; i < $(2 * columns); i++) {
            float *y = acc + ($(m * columns) + i / 2) * 4 + $(2 * h) + i % 2;
            *y = $(affine(problem, "*y", "scale", "bias"));
        }
    }
%     end
%   end
% end
% if problem.act and not problem.add then
    SPC_UNROLL
    for (int i = 0; i < $(m_tiles * columns * 4); i++)
        acc[i] = activate(acc[i]);
% end
% if whole_out(problem) and not problem.add then
    SPC_UNROLL
    for (int i = 0; i < $(m_tiles * columns * 4); i++)
        acc[i] *= out_inverse;
% end
    SPC_UNROLL
    for (int n = 0; n < $(columns); n++) {
% if narrow then
        spc_u8 *to = out + (long long)row[n] * $(out_pitch(problem) * out_bytes(problem));
%   local align = alignment_of(problem.cout * 2, out_pitch(problem) * 2)
% for m = 0, m_tiles - 1, 2 do
%   local pair = m + 1 < m_tiles
%   local lane_channels = pair and 8 or 4
%   local guard = 16 * (m + (pair and 2 or 1)) > problem.cout
        {
            $(problem.add and "" or "const ")float *d = acc + ($(m * columns) + n) * 4;
            spc_u32 v[$(lane_channels // 2)];
            int co = $(16 * m) + q * $(lane_channels);
%   if problem.add then
%     write_residual_words(lane_channels)
%   end
            /* A word now holds one channel of two voxels. Transposing 8 x 8 of
             * them gives each lane neighbouring channels of one voxel, which it
             * stores together. */
            v[0] = spc_movmatrix($(pair_of("d[0]", "d[1]")));
            v[1] = spc_movmatrix($(pair_of("d[2]", "d[3]")));
%   if pair then
            v[2] = spc_movmatrix($(pair_of("d[" .. columns * 4 .. "]", "d[" .. columns * 4 + 1 .. "]")));
            v[3] = spc_movmatrix($(pair_of("d[" .. columns * 4 + 2 .. "]", "d[" .. columns * 4 + 3 .. "]")));
%   end
%   if whole_out(problem) then
%     write_byte_stores(lane_channels, guard)
%   elseif align == 16 and pair then
            if (row[n] >= 0$(guard and " && co < " .. problem.cout or "")) {
                spc_b16 w;
                w.x = v[0];
                w.y = v[1];
                w.z = v[2];
                w.w = v[3];
                spc_store16(to + co * 2, w);
            }
%   elseif align >= 8 then
            SPC_UNROLL
            for (int i = 0; i < $(lane_channels // 4); i++) {
                if (row[n] >= 0$(guard and " && co + 4 * i < " .. problem.cout or "")) {
                    spc_b8 w;
                    w.x = v[2 * i];
                    w.y = v[2 * i + 1];
                    spc_store8(to + (co + 4 * i) * 2, w);
                }
            }
%   else
            SPC_UNROLL
            for (int i = 0; i < $(lane_channels // 2); i++) {
                int c = co + 2 * i;
%     if align >= 4 then
                if (row[n] >= 0 && c < $(problem.cout))
                    spc_store4(to + c * 2, v[i]);
%     else
                if (row[n] >= 0 && c < $(problem.cout))
                    spc_store2(to + c * 2, (spc_u16)v[i]);
                if (row[n] >= 0 && c + 1 < $(problem.cout))
                    spc_store2(to + c * 2 + 2, (spc_u16)(v[i] >> 16));
%     end
            }
%   end
        }
% end
% else
        /*
         * An accumulator holds voxels 2q and 2q + 1, so their rows are fetched.
         */
        int even = spc_shfl(row[n], q * 8), odd = spc_shfl(row[n], q * 8 + 4);
        SPC_UNROLL
        for (int m = 0; m < $(m_tiles); m++) {
            const float *d = acc + (m * $(columns) + n) * 4;
            SPC_UNROLL
            for (int h = 0; h < 2; h++) {
                int co = m * 16 + h * 8 + g;
                spc_u8 *to = out + co * 4;
%   if problem.add then
%     write_word_store("even", "d[2 * h]")
%     write_word_store("odd", "d[2 * h + 1]")
%   else
                if (co < $(problem.cout) && even >= 0)
                    spc_store4(to + (long long)even * $(out_pitch(problem) * 4),
                               spc_f32_bits(d[2 * h]));
                if (co < $(problem.cout) && odd >= 0)
                    spc_store4(to + (long long)odd * $(out_pitch(problem) * 4),
                               spc_f32_bits(d[2 * h + 1]));
%   end
            }
        }
% end
    }
    SPC_UNROLL
    for (int i = 0; i < $(m_tiles * columns * 4); i++)
        $(whole_in(problem) and "sums[i] = 0" or "acc[i] = 0.0f");
}

/* ---- the kernel ----------------------------------------------------------------------- */

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(config.blocks))
{
    const spc_map_view *map = &args->map;
% write_lane_base(true)
% write_lane_index("(spc_lane() >> 2)")
% if config.weights == "shared" then
    const spc_u8 *weights = spc_shared();
% else
    const spc_u8 *weights = (const spc_u8 *)args->weights;
% end
    $(sum) acc[$(m_tiles * columns * 4)];
% write_step_registers()
    /* Positions before it are read by write_first_loads. */
    int place = $(2 * config.depth);
    spc_stream stream;

% if config.weights == "shared" then
    for (int i = spc_thread() * 16; i < $(weight_bytes); i += $(threads * 16))
        spc_copy_async16(spc_shared() + i, (const spc_u8 *)args->weights + i,
                         16);
    spc_copy_commit();
% end
    spc_u8 *ring = spc_shared() + $(ring_at) + spc_warp() * SPC_STREAM_BYTES;
% if config.tiles == "shared" then
    spc_stream_start_shared(&stream, ring, spc_warp(), $(config.warps));
% else
    spc_stream_start(&stream, ring, spc_block_x() * $(config.warps) + spc_warp(),
                     spc_grid_x() * $(config.warps));
% end
    SPC_UNROLL
    for (int i = 0; i < $(m_tiles * columns * 4); i++)
        acc[i] = $(sum_zero(problem));
% write_first_loads(config.rows, true)
% if config.weights == "shared" then
    /* The weights arrive while the first rows are on their way. */
    spc_copy_wait(0);
    spc_sync_block();
% end
    for (int done = 0; done < stream.filled; done += $(config.depth)) {
        /* Rows of this bundle and indices of the next are in registers. The
         * loop reads the steps of the bundle after that. */
        spc_stream_fill(&stream, map, done + $(3 * config.depth), $(config.rows),
                        $(words), $(problem.centre));
        SPC_UNROLL
        for (int i = 0; i < $(config.depth); i++) {
            multiply(acc, data + i * $(columns * row_registers),
                     code[i] & SPC_STEP_OFFSET, weights);
            if (code[i] & SPC_STEP_LAST)
                finish(acc, $(ending_rows()) + i * $(columns), args);
% if config.weights == "global" then
        }
        SPC_UNROLL
        for (int i = 0; i < $(config.depth); i++) {
% end
% write_next_loads()
        }
        place += $(config.depth);
        if (place == SPC_STREAM_STEPS)
            place = 0;
    }
}

/* ---- packing ------------------------------------------------------------------------------ */

% write_weight_word()
/*
 * The packed layout is [offset][k-step][16-channel tile][lane][4 registers]:
 * first operands in the order of lanes. Registers 0 and 2 are for output row g =
 * lane / 4, 1 and 3 for row g + 8. Registers 2 and 3 hold the second half of the
 * k-step.
 */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    int item = spc_block_x() * 256 + spc_thread();
    int lane = item & 31, g = lane >> 2, q = lane & 3;
    int m = (item >> 5) % $(m_tiles);
    int k = (item >> 5) / $(m_tiles) % $(#steps);
    int offset = (item >> 5) / $(m_tiles * #steps);
    int at = 0, stride = 0, pair = 0;
    spc_u32 v[4];

    if (offset >= $(problem.offsets))
        return;
% write_step_choice("k")
    for (int r = 0; r < 4; r++) {
        int byte = at + q * stride + (r >> 1) * 4;
        int column = m * 16 + r % 2 * 8 + g;
% write_channel_of_column("        ", columns_of_sums, span, 0)
        v[r] = r < 2 || pair ? weight_word(args, offset, byte, co) : 0u;
    }
% write_packed("(long long)item")
}
