%-- Output-stationary convolution. A warpgroup has a tile of 64 output rows, and all
%-- weights stay in shared memory.
%--
%-- The first operand of wgmma comes from registers. A lane loads 16 contiguous bytes
%-- of a gathered row, which are exactly its part of two first operands, because the
%-- packed weights permute the channels. The second operand is the image of an offset's
%-- weights in core matrices without swizzle. Shared memory delivers the weights once
%-- for 64 rows; products by single warps would load them four times.
%--
%-- Each warpgroup has its own stream of steps (tile, offset present). The rows of
%-- `depth` steps are under way. Each product is followed by the loads for the step
%-- that takes its place, whose indices were requested `depth` steps earlier.
%
%include "os_rows.lua"
%include "epilogue_shared.lua"
%
%function columns(problem)
%  for _, n in ipairs {16, 32, 48, 64, 96, 128, 192, 256} do
%    if n >= problem.cout then return n end
%  end
%end
%function image_bytes(problem)
%  return #k_steps(problem) * columns(problem) * 32 * images(problem)
%end
%function packed_bytes(problem) return problem.offsets * image_bytes(problem) end
%local function working_bytes(problem, config)
%  return packed_bytes(problem) + config.groups * 4 * 384 + 16
%end
%-- Bytes for scale and bias, if they fit. The weights may take all shared memory.
%local function end_bytes(problem, config)
%  local bytes = factor_bytes(problem, columns(problem))
%  return working_bytes(problem, config) + bytes <= 232448 and bytes or 0
%end
%function shared_bytes(problem, config)
%  return working_bytes(problem, config) + end_bytes(problem, config)
%end
%-- Registers of a thread: sums, rows under way with their indices, operands, and what
%-- the compiler was observed to need in addition: 26, fitted to NVRTC's reports for 80
%-- kernels. Without a centre, also positions and output rows.
%function registers(problem, config)
%  local steps, row = k_steps(problem)
%  local n = columns(problem)
%  return n // 2 + config.depth * (2 * row + 6) + 4 * #steps * images(problem)
%       + n // 8 + 26 + (lanes_differ(problem) and 6 + row // 4 or 0)
%       + (problem.centre < 0 and 3 * config.depth + 2 or 0)
%end
%-- The registers that a thread may use. They are allocated in units of eight.
%function registers_allowed(config)
%  return math.min(65536 // (config.groups * config.blocks * 128) // 8 * 8, 255)
%end
%
%template = {
%  summary = "output-stationary, a warpgroup a tile, resident weights for wgmma",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"depth", {1, 2, 3, 4}, "steps whose rows are under way"},
%    {"groups", {2, 3, 4, 5}, "warpgroups of a block"},
%    {"blocks", {1, 2}, "blocks of a multiprocessor"},
%    {"order", {"gray", "gray_x", "gray_y", "planes", "dense", "morton"}, "row order of the map"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "one group alone" end
%    if target.target ~= "sm_90a" then return false, "needs wgmma (sm_90a)" end
%    if input_alignment(problem) < 4 then
%      return false, "rows in must be multiples of 4 bytes: os_mma takes any"
%    end
%    if problem.cin > 128 or problem.cout > 256
%       or registers(problem, {depth = 1}) > 255 then
%      return false, "more channels than a warpgroup holds"
%    end
%    if shared_bytes(problem, {groups = 2}) > target.shared_block then
%      return false, "the weights do not fit shared memory"
%    end
%    return true
%  end,
%  constraints = {
%    {"resident weights fit shared memory", function(problem, config, target)
%      local bytes = shared_bytes(problem, config)
%      -- CUDA reserves 1024 bytes of shared memory for each block.
%      return config.blocks * (bytes + 1024) <= target.shared_sm
%         and bytes <= target.shared_block
%    end},
%    {"two blocks of three warpgroups, or one block", function(problem, config)
%      return config.blocks == 1 or config.groups == 3
%    end},
%    {"the rows fit the registers", function(problem, config)
%      return registers(problem, config) <= registers_allowed(config)
%    end},
%  },
%  derive = function(problem, config, target)
%    local steps, row = k_steps(problem)
%    return {
%      steps = steps, row_registers = row, width = 2,
%      n = columns(problem),
%      words = ceil_div(problem.offsets, 32),
%      row_pitch = input_pitch_bytes(problem),
%      threads = config.groups * 128, span = 4 * channels_of_lane(problem),
%      image = image_bytes(problem), weight_bytes = packed_bytes(problem),
%      half = element_bytes(problem) < 4, sum = sum_type(problem),
%      factors_at = end_bytes(problem, config) > 0 and working_bytes(problem, config) or nil,
%      columns_of_block = columns(problem), consumers = config.groups * 128,
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = config.groups * 128, shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = config.blocks,
%      tile_rows = 64, order = config.order,
%      packed_bytes = packed_bytes(problem),
%      pack_threads = packed_bytes(problem) // 16, pdl = 1,
%      preference = problem.cin >= 16 and problem.cout >= 8 and 5 or 1,
%    }
%  end,
%  default = function(problem, target)
%    -- In a scan only a few planes of a large kernel have neighbours.
%    local order = problem.offsets > 8 and "planes" or "gray"
%    -- Four steps under way were the best, or within 4 % of the best, in seven
%    -- layers.
%    local config = {depth = 4, groups = 4, blocks = 1, order = order}
%    -- Integers need registers for their scales and for sums that become fp32, and more with
%    -- an exponential or erf. Fitted to NVRTC's reports for 24 such layers. Epilogues of
%    -- channels that lanes store one by one need the same.
%    local steep = problem.act and problem.act ~= "relu" and problem.act ~= "leaky"
%    local heavy = has_whole(problem)
%               or has_epilogue(problem) and problem.cout % channels_of_lane(problem) ~= 0
%    local spare = heavy and (steep and 30 or 18) or 2
%    while registers(problem, config) + spare > registers_allowed(config)
%          or shared_bytes(problem, config) > target.shared_block do
%      if config.depth > 2 then config.depth = config.depth - 1
%      elseif config.groups > 2 then config.groups = config.groups - 1
%      elseif config.depth > 1 then config.depth = 1
%      else break end
%    end
%    return config
%  end,
%}
#include "spc_stream.cuh"

% write_loading(not half)
% write_split()
/*
 * acc (+)= rows times the weights of the offset. An instruction moves loaded values
 * to the operands, which converts them to tf32, or to zero if nothing was loaded.
 * The compiler would execute a plain copy at once and wait for the load.
 */
SPC_DEVICE void multiply($(sum) *acc, const spc_u32 *data, const int *row,
                         int offset, int fresh)
{
    spc_u64 b = spc_wgmma_descriptor(spc_shared() + offset * $(image),
                                     $(n * 16), 128);
% local terms = problem.dtype == "f32" and
%   {{"small", 0}, {"large", 1}, {"large", 0}} or {{"large", 0}}
    spc_u32 large[$(#steps * 4)]$(problem.dtype == "f32" and ", small[" .. #steps * 4 .. "]" or "");
% if half and lanes_differ(problem) then
    int q = spc_lane() & 3;
% end
    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        const spc_u32 *from = data + h * $(row_registers);
% if half then
        /* All ones if the row exists. The registers of an absent row hold an
         * older row, which may be infinite, so it is masked and not multiplied
         * by 0. */
        spc_u32 present = ~(spc_u32)(row[h] >> 31);
% end
% for i, step in ipairs(steps) do
%   for r = 0, 1 do
%     local v = "from[" .. step.register + r .. "]"
%     local to = "[" .. 4 * i - 4 + 2 * r .. " + h]"
%     if r == 1 and not step.pair then
        large$(to) = 0;
%       if problem.dtype == "f32" then
        small$(to) = 0;
%       end
%     elseif half then
        large$(to) = $(v) & $(step.lanes < 4 and "(q < " .. step.lanes .. " ? present : 0u)" or "present");
%     else
%       write_operand("        ", "large" .. to, "small" .. to, v)
%     end
%   end
% end
    }
    spc_wgmma_fence();
% local first = true
% for _, term in ipairs(terms) do
%   for i, step in ipairs(steps) do
    /* The first product of a tile overwrites the sums. */
    spc_wgmma_$(n)_$(half and problem.dtype or "tf32")(acc, $(term[1]) + $(4 * i - 4), b + $((i - 1 + term[2] * #steps) * n * 2), $(first and "!fresh" or 1));
%     first = false
%   end
% end
    spc_wgmma_commit();
}

% write_activation("SPC_DEVICE")
% write_fetches()
SPC_DEVICE void finish(const $(sum) *acc, const int *row,
                       const spc_conv_args *args)
{
    int q = spc_lane() & 3;
    spc_u8 *out = (spc_u8 *)args->out;
%-- The residual is loaded before anything is stored: for both rows if there are enough
%-- registers, else for one row at a time.
% local all, ready, taken = runs_of(n, span), {}, 0
% for i, run in ipairs(all) do
%   ready[i] = added_batch(run.lane, 1, 0) and taken
%   taken = taken + run.lane * out_bytes(problem) // 4
% end
% local loads_first = #ready == #all and ready[1] and
%   taken <= ((config.groups < 4 or factors_at) and 8 or 4)
% local both = loads_first and taken <= ((config.groups == 2 or factors_at) and 8 or 4)
% local function write_added(to)
%   for i, run in ipairs(all) do
        {
            int co = $(run.first) + q * $(run.lane);
%     write_lane_added(run.lane, to .. " + " .. ready[i], "co", "row[h] >= 0" .. (run.first + run.span > problem.cout and " && co < " .. problem.cout or ""))
        }
%   end
% end
% if both then
    spc_u32 added[2][$(taken)];

    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
%   write_added("added[h]")
    }
% end

    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        spc_u8 *to = out + (long long)row[h] * $(out_pitch(problem) * out_bytes(problem));
% if loads_first and not both then
        spc_u32 added[$(taken)];

%   write_added("added")
% end
% for i, run in ipairs(all) do
        {
            int co = $(run.first) + q * $(run.lane);
            int store = row[h] >= 0$(run.first + run.span > problem.cout and " && co < " .. problem.cout or "");
            float v[$(run.lane)];
%   write_factors(run.lane, "co")
%   write_lane_values(run.lane, "acc[" .. sum_of_channel(run.first // 2, "h") .. "]", loads_first and (both and "added[h] + " or "added + ") .. ready[i], factors_at)
%   write_lane_store(run.lane, "to + co * " .. out_bytes(problem))
        }
% end
    }
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(config.blocks))
{
    const spc_map_view *map = &args->map;
%-- If the registers are not zeroed first, the compiler branches around several loads
%-- from one opaque base.
% write_lane_base(not half or row_registers <= 4)
% write_lane_index("(spc_warp() & 3) * 16 + (spc_lane() >> 2)")
    spc_u64 *loaded = (spc_u64 *)(spc_shared() + $(weight_bytes));
    $(sum) acc[$(n // 2)];
% write_step_registers()
    int place = $(2 * config.depth), fresh = 1;
    spc_stream stream;

    if (spc_thread() == 0) {
        spc_mbar_init(loaded, 1);
        spc_mbar_fence();
        spc_mbar_expect(loaded, $(weight_bytes));
        /* One phase of the barrier covers all copies, which arrive while the
         * first rows are requested. */
        for (int at = 0; at < $(weight_bytes); at += 32768)
            spc_bulk_copy(spc_shared() + at, (const spc_u8 *)args->weights + at,
                          $(weight_bytes) - at < 32768 ? $(weight_bytes) - at
                                                       : 32768,
                          loaded);
    }
    spc_sync_block();
    spc_stream_start_shared(&stream,
                            spc_shared() + $(weight_bytes + 16) +
                                spc_warp() * SPC_STREAM_BYTES,
                            spc_warp() >> 2, $(config.groups));
% write_first_loads(64, not half)
    spc_mbar_wait(loaded, 0);
% if factors_at then
    fetch_factors(args);
% end
    for (int done = 0; done < stream.filled; done += $(config.depth)) {
        spc_stream_fill(&stream, map, done + $(3 * config.depth), 64, $(words),
                        $(problem.centre));
        SPC_UNROLL
        for (int i = 0; i < $(config.depth); i++) {
            int last = code[i] & SPC_STEP_LAST;
            int out_row[2];

            /* The loads below overwrite the step's rows before its sums are
             * stored. */
            out_row[0] = $(ending_rows())[2 * i];
            out_row[1] = $(ending_rows())[2 * i + 1];
            multiply(acc, data + i * $(2 * row_registers), row + 2 * i,
                     code[i] & SPC_STEP_OFFSET, fresh);
% write_next_loads()
            /* The next step's loads were started while the products run. */
            spc_wgmma_wait(0);
            fresh = 0;
            if (last) {
                finish(acc, out_row, args);
                fresh = 1;
            }
        }
        place += $(config.depth);
        if (place == SPC_STREAM_STEPS)
            place = 0;
    }
}

% write_weight_word(true)
/*
 * The packed image of an offset: [core along k][n columns][16 bytes]. For f32 there
 * are two images: the weights rounded to tf32, and the remainders. A k-step has two
 * cores. Element e of core c belongs to lane q = e * element / 4 ... of the
 * gathering quad, register c of the k-step.
 */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    int item = spc_block_x() * 256 + spc_thread();
    int column = item % $(n), core = item / $(n) % $(#steps * 2);
    int offset = item / $(image // 16);
    int at = 0, stride = 0, pair = 0;
    spc_u32 v[4];

    if (offset >= $(problem.offsets))
        return;
% write_step_choice("core / 2")
% write_channel_of_column("    ", n, span, 0)
    for (int q = 0; q < 4; q++) {
        int byte = at + q * stride + (core % 2) * 4;
        v[q] = core % 2 == 0 || pair
                   ? weight_word(args, offset, byte, co$(images(problem) == 2 and ", item % " .. image // 16 .. " / " .. image // 32 or ""))
                   : 0u;
    }
% write_packed("(long long)item")
}
