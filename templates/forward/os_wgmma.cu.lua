%-- Output-stationary convolution for many channels. Warpgroups multiply 64 rows each
%-- by weights that stream through shared memory.
%--
%-- A block has `groups` consuming warpgroups and three warps that serve them. The
%-- warpgroups together hold one tile of 64 * groups output rows by n output channels
%-- in registers. One warp balances the blocks. One unrolls tiles into steps (tile,
%-- offset, block of input channels). One, the producer, copies each step's weights
%-- with one bulk copy into a ring of `stages`, from an image that was packed in the
%-- layout that wgmma reads (core matrices, no swizzle). Each lane gathers its own
%-- parts of its rows. 16 contiguous bytes are exactly its first operands of two k16
%-- products, because the packed weights permute the channels. Until the next step
%-- they wait in registers or, with asynchronous copies, in two places of shared
%-- memory that only this lane reads. Output channels are permuted so that a lane ends
%-- with 8 neighbouring ones.
%
%include "os_blocks.lua"
%include "os_split.lua"
%include "epilogue_shared.lua"
%
%local widths, several = {32, 64, 96, 128, 192, 256}, 128
%
%-- Bytes of weights in a step.
%function step_weights(problem, config)
%  return config.pieces * config.n * 64 * images(problem)
%end
%-- The widest step that the layer allows.
%function natural_step(problem)
%  local step = {n = least_wasting(problem, widths, several), pieces = 1}
%  -- Two stages must fit the 128 KiB that the ring may have.
%  for p = 2, 5 // images(problem) do
%    local wide = {n = step.n, pieces = p}
%    if row_pieces(problem) % p == 0 and 2 * step_weights(problem, wide) <= 131072 then step = wide end
%  end
%  return step
%end
%-- With fewer channels the products of a step take less time than the code around
%-- them.
%function keeps_wgmma_busy(problem)
%  return problem.cout >= 32 and 8 * step_weights(problem, natural_step(problem)) >= 24576
%end
%
%-- Rows that do not begin and end at multiples of 16 bytes are copied to aligned rows
%-- of `copied_bytes`, if the workspace has a row for each, as for submanifold layers.
%-- With few channels the additional launch costs more than it saves.
%function copies_rows(problem)
%  return input_alignment(problem) < 16 and problem.centre >= 0 and input_row_bytes(problem) > 64
%end
%function copied_bytes(problem) return ceil_div(input_row_bytes(problem), 16) * 16 end
%copying_rows = 64 -- of a block
%-- 16-bit outputs that could only be stored 4 bytes at a time are stored to such rows as
%-- well, and copied by spc_sum.
%function copies_outputs(problem, config)
%  return output_alignment(problem) < 8 and problem.centre >= 0 and config.split == "none"
%     and out_bytes(problem) == 2 and problem.cout > 32
%end
%function copied_output_bytes(problem) return ceil_div(problem.cout, 8) * 16 end
%-- As byte_guard of os_blocks.lua, for the rows that are read.
%function byte_guard(byte)
%  return row_bytes % 64 ~= 0 and " && " .. byte .. " < " .. row_bytes or ""
%end
%
%schedule_bytes = 976 -- sizeof(spc_schedule)
%share_bytes = 128 -- sizeof(spc_share)
%function gather_bytes(config)
%  return config.gather == "shared" and config.groups * config.pieces * 8192 or 0
%end
%local function working_bytes(problem, config)
%  return config.stages * step_weights(problem, config)
%       + gather_bytes(config) + 16 * config.stages
%       + schedule_bytes + share_bytes
%end
%local function sent_bytes(problem, config)
%  return is_divided(config) and received_bytes(problem, config, config.groups * 128) or 0
%end
%-- If blocks have whole tiles, the rest of the 227 KiB holds the operands of their
%-- epilogues.
%local function end_bytes(problem, config)
%  local left = 232448 - working_bytes(problem, config)
%  local factors = factor_bytes(problem, config.n)
%  local residual = residual_bytes(problem, config, config.groups * 64)
%  if config.split ~= "none" or factors > left then return 0, 0 end
%  return factors, factors + residual <= left and residual or 0
%end
%function shared_bytes(problem, config)
%  local factors, residual = end_bytes(problem, config)
%  return working_bytes(problem, config) + factors + residual + sent_bytes(problem, config)
%end
%
%-- The registers that setmaxnreg may give a consumer if the producers keep 32.
%function consumer_registers(config)
%  -- A multiprocessor has 65536 registers. A thread starts with an even share
%  -- of them and setmaxnreg moves multiples of 8.
%  local launch = 65536 // ((config.groups + 1) * 128) // 8 * 8
%  local pool = math.min(launch, 255 // 8 * 8) * (config.groups + 1)
%  return math.min(240, (pool - 32) // config.groups // 8 * 8)
%end
%-- If rows are converted from registers, those of the next step are also in
%-- registers.
%function registers_needed(problem, config)
%  local row = config.pieces * 8
%  if config.gather == "registers" and element_bytes(problem) == 4 then
%    return config.n // 2 + row * (images(problem) + 1) + config.n // 8 + 20
%  end
%  return config.n // 2 + row * images(problem) + 42
%end
%
%-- The registers within the compiler's limit that sums and rows under way leave.
%local function registers_free(config)
%  return (config.groups == 2 and 168 or 128) - config.n // 2
%       - (config.gather == "registers" and 8 * config.pieces or 0)
%end
%
%-- Copied rows occupy the workspace.
%function divides(problem, config, target)
%  return can_divide(problem, config, target)
%     and not (copies_rows(problem) and (is_masked(config) or span_parts(config) == 0))
%end
%
%template = {
%  summary = "output-stationary, warpgroups of 64 rows, weights streamed to wgmma",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"groups", {2, 3, 4}, "consuming warpgroups, 64 rows each"},
%    {"n", widths, "output channels of a block"},
%    {"pieces", {1, 2, 3, 4, 5}, "64-byte pieces of input rows in a step"},
%    {"stages", {2, 3, 4, 8}, "ring of weights"},
%    {"gather", {"registers", "shared"}, "where gathered rows wait"},
%    {"order", {"gray", "gray_x", "gray_y", "planes", "dense", "morton"}, "row order of the map"},
%    {"split", split_values, "how blocks share the sum of a tile"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "one group alone" end
%    if target.target ~= "sm_90a" then return false, "needs wgmma (sm_90a)" end
%    if input_alignment(problem) < 4 and not copies_rows(problem) then
%      return false, "rows in must be multiples of 4 bytes: os_mma takes any"
%    end
%    return true
%  end,
%  constraints = {
%    {"steps divide the row", function(problem, config)
%      return row_pieces(problem) % config.pieces == 0
%    end},
%    {"output channels fill their blocks", function(problem, config)
%      return fills_blocks(problem, config.n, widths, several)
%    end},
%    {"shared memory", function(problem, config, target)
%      local bytes = shared_bytes(problem, config)
%      -- CUDA reserves 1024 bytes of shared memory for each block.
%      return bytes <= target.shared_block
%         and bytes + 1024 <= target.shared_sm
%    end},
%    {"registers", function(problem, config)
%      return registers_needed(problem, config) <= consumer_registers(config)
%    end},
%    {"the ring holds 48 to 128 KiB, or 8 stages of less", function(problem, config)
%      local weights = config.stages * step_weights(problem, config)
%      return weights <= 131072 and (weights >= 49152 or config.stages == 8)
%    end},
%    {"tiles that can be divided", function(problem, config, target)
%      return divides(problem, config, target)
%         and (not is_divided(config) or config.gather == "registers")
%    end},
%    {"rows wait in shared memory in parts of 16 bytes", function(problem, config)
%      return config.gather == "registers" or input_alignment(problem) == 16
%         or copies_rows(problem)
%    end},
%  },
%  derive = function(problem, config, target)
%    local working, factors, residual = working_bytes(problem, config), end_bytes(problem, config)
%    return {
%      factors_at = factors > 0 and working or nil, columns_of_block = config.n,
%      residual_at = residual > 0 and working + factors or nil,
%      k_blocks = row_pieces(problem) // config.pieces,
%      n_blocks = out_blocks(problem, config),
%      words = ceil_div(problem.offsets, 32),
%      consumers = config.groups * 128,
%      pieces = config.pieces, half = element_bytes(problem) < 4,
%      sum = sum_type(problem), lane_channels = channels_of_lane(problem),
%      image = config.pieces * config.n * 64,
%      stage_size = step_weights(problem, config),
%      place_size = gather_bytes(config) // 2,
%      gather_at = config.stages * step_weights(problem, config),
%      barrier_at = config.stages * step_weights(problem, config)
%                 + gather_bytes(config),
%      schedule_at = config.stages * (step_weights(problem, config) + 16)
%                  + gather_bytes(config),
%      share_at = working_bytes(problem, config) - share_bytes,
%      received_at = working_bytes(problem, config),
%      consumer_limit = consumer_registers(config),
%      outputs_at = copies_rows(problem) and copied_bytes(problem) or 0,
%      copied = copies_rows(problem), copied_out = copies_outputs(problem, config),
%      row_bytes = copies_rows(problem) and copied_bytes(problem) or input_row_bytes(problem),
%      row_pitch = copies_rows(problem) and copied_bytes(problem) or input_pitch_bytes(problem),
%      align = copies_rows(problem) and 16 or input_alignment(problem),
%      rows = config.groups * 64,
%      divided = is_divided(config), parts = span_parts(config),
%      centre = ending_centre(problem, config),
%      balances = problem.offsets > 1, -- else all tiles cost alike: a snake is as good
%    }
%  end,
%  launch = function(problem, config, target)
%    local packed = packed_image(problem, config) * images(problem)
%    local copied, stored = copies_rows(problem) or nil, copies_outputs(problem, config) or nil
%    return divide_launch({
%      first_block = copied and 256, first_rows = copied and copying_rows,
%      sum_block = stored and 256,
%      workspace_row_bytes = (copied or stored) and (copied and copied_bytes(problem) or 0)
%                          + (stored and copied_output_bytes(problem) or 0),
%      block = (config.groups + 1) * 128,
%      shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = 1,
%      grid_y = out_blocks(problem, config),
%      tile_rows = config.groups * 64, order = config.order,
%      packed_bytes = packed, pack_threads = packed // 16,
%      pdl = 1, preference = keeps_wgmma_busy(problem) and 3 or 1,
%    }, problem, config, config.groups * 128)
%  end,
%  default = function(problem, target)
%    -- In a scan only a few planes of a large kernel have neighbours.
%    local order = problem.offsets > 8 and "planes" or "gray"
%    local step = natural_step(problem)
%    local config = {groups = (step.n >= 192 or step.pieces == 5) and 2 or 3, n = step.n, pieces = step.pieces,
%                    stages = 4, gather = "registers", order = order, split = "none"}
%    local function fits()
%      local weights = step_weights(problem, config) * config.stages
%      return weights <= 131072 and shared_bytes(problem, config) <= target.shared_block
%    end
%    local function tight()
%      return registers_needed(problem, config) > consumer_registers(config)
%    end
%    if tight() then config.groups = 2 end
%    while tight() and config.pieces > 1 do
%      config.pieces = config.pieces == 5 and 1 or config.pieces // 2
%    end
%    if 4 * step_weights(problem, config) < 49152 then config.stages = 8 end
%    for _, fewer in ipairs {4, 3, 2} do
%      if not fits() then config.stages = fewer end
%    end
%    local function tiles(groups)
%      return ceil_div(target.rows or 1, groups * 64) * out_blocks(problem, config)
%    end
%    config.split = usual_split(problem, target, config.n, tiles(config.groups))
%    -- With 128 columns, tiles of 128 rows shared by two blocks are faster by 7 % than tiles
%    -- of 192 rows shared by the grid, and by 20 % with an epilogue (level 3 of kitti,
%    -- H200).
%    if config.split == "stream" and config.n >= 96 and problem.offsets > 8
%       and problem.offsets <= 32 and usual_cluster(target, tiles(2)) == "cluster2" then
%      config.groups, config.split = 2, "cluster2"
%    end
%    -- With 256 columns, tiles of 192 rows by 128 columns are faster than 128 by 256, by 4 %
%    -- (256 input channels) and 9 % (384), and exchange three quarters of the bytes (same
%    -- scene and GPU).
%    if config.split == "cluster2" and config.n == 256 and config.pieces == 4
%       and element_bytes(problem) == 2 then
%      config.groups, config.n, config.stages = 3, 128, 3
%    end
%    -- Blocks of 128 columns, with twice as many in a cluster of half the size, are faster if
%    -- a step is a whole row (by 14 to 29 %), and faster than clusters of 8 (by 21 to 28 %).
%    if config.n == 256
%       and (cluster_of(config) == 8 or cluster_of(config) > 1 and row_pieces(problem) <= config.pieces) then
%      config.n = 128
%      config.stages = 4 * step_weights(problem, config) < 49152 and 8 or config.pieces == 4 and 3 or 4
%      config.split = usual_cluster(target, tiles(config.groups))
%    end
%    if not divides(problem, config, target) then config.split = "none" end
%    -- The blocks of a cluster need space for the data that others send.
%    while cluster_of(config) > 1 and not fits() do
%      if config.pieces % 2 == 0 then config.pieces = config.pieces // 2 else config.split = "none" end
%      config.stages = 4
%      for _, fewer in ipairs {3, 2} do
%        if not fits() then config.stages = fewer end
%      end
%    end
%    return config
%  end,
%}
#include "spc_schedule.cuh"
#include "spc_here.cuh"
% if divided then
#include "spc_span.cuh"
% end
% if parts > 1 then
#include "spc_cluster.cuh"
% end

% write_split()
/* Lua adds up the shared memory and cannot ask for a size, so the compiler
 * checks the two that it assumed. */
typedef char schedule_fits[sizeof(spc_schedule) == $(schedule_bytes) ? 1 : -1];
typedef char share_fits[sizeof(spc_share) == $(share_bytes) ? 1 : -1];

% if config.gather == "shared" then
/* A 16-byte place of this lane: piece i / 2 (of row g for even i, of row g + 8
 * for odd i) in place `slot` of the gather ring. */
SPC_DEVICE spc_u8 *place_of(int slot, int i)
{
    return spc_shared() + $(gather_at) + slot * $(place_size) +
           i * $(consumers * 16) + spc_thread() * 16;
}

% end
%-- Rows that need no conversion are consumed one piece at a time, and each piece of the next
%-- step is requested into the same registers. The loads of a step thus have a whole step to
%-- arrive. Each product waits until the previous one has read its operands, so the code
%-- between them costs nothing.
%local takes_pieces = config.gather == "registers" and half
%-- If steps are short, words of steps are read one step before they are needed, because
%-- shared memory is busy with operands and answers late. Longer steps lose by the additional
%-- registers (1 % on an H200; short ones gain 3 %).
%local reads_ahead = config.pieces <= 2
%-- Gathered rows wait in a place of the ring or in registers.
%local waiting = config.gather == "shared" and "int slot" or "spc_u32 *data"
/* Loads this lane's parts of rows g and g + 8, pieces `first` to `end` - 1. `in` points to
 * its part of the first row. */
SPC_DEVICE void gather($(waiting), const spc_u8 *in, const int *row, int block, int first, int end)
{
    int at = block * $(pieces * 64);
% if row_bytes % 64 ~= 0 then
    int byte = at + (spc_lane() & 3) * 16;
% end

    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        /* The product can exceed 32 bits. For an absent row the address is
         * never used. */
        const spc_u8 *from = in + (long long)row[h] * $(row_pitch) + at;
        SPC_UNROLL
        for (int i = first; i < end; i++) {
% if config.gather == "shared" then
            int valid = row[h] >= 0$(byte_guard("byte + i * 64")) ? 16 : 0;
            spc_copy_async16(place_of(slot, i * 2 + h), valid ? from + i * 64 : in,
                             valid);
% else
            spc_u32 *to = data + (h * $(pieces) + i) * 4;
%   -- A load of an absent row leaves its registers as they are, and converted
%   -- rows are not masked later.
%   if not half then
            SPC_UNROLL
            for (int r = 0; r < 4; r++)
                to[r] = 0;
%   end
% for at = 0, 15, align do
%   local more = at > 0 and " + " .. at or ""
            spc_load$(align)_into(to$(at > 0 and " + " .. at // 4 or ""), from + i * 64$(more),
                            $(row_bytes % 64 ~= 0 and "byte + i * 64" .. more .. " < " .. row_bytes .. " ? row[h] : -1" or "row[h]"));
% end
% end
        }
    }
}

% if takes_pieces then
/* Piece i of the gathered rows g and g + 8, in the order of first operands. Parts of an
 * absent row were not loaded, and are masked here, after the previous products. */
SPC_DEVICE void take(spc_u32 *a, const spc_u32 *data, int there, int there_8, int block, int i)
{
%   if row_bytes % 64 ~= 0 then
    int byte = block * $(pieces * 64) + (spc_lane() & 3) * 16;
%   end
    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        int row = h ? there_8 : there;
%   if row_bytes % 16 == 0 then
        spc_u32 present = row >= 0$(byte_guard("byte + i * 64")) ? ~0u : 0u;
%   end
        SPC_UNROLL
        for (int r = 0; r < 4; r++) {
%   if row_bytes % 16 ~= 0 then
            spc_u32 present = row >= 0$(byte_guard("byte + i * 64 + r * 4")) ? ~0u : 0u;
%   end
            /* Registers of an absent row still hold the row of an earlier step,
             * which may be infinite, so they are masked and not multiplied by
             * 0. */
            a[r * 2 + h] = spc_and_here(data[(h * $(pieces) + i) * 4 + r], present);
        }
    }
}
% else
/* The gathered rows, in the order of first operands. */
SPC_DEVICE void arrange(spc_u32 *a, $(waiting))
{
    SPC_UNROLL
    for (int i = 0; i < $(pieces); i++) {
%   if config.gather == "shared" then
        spc_b16 low = spc_shared_load16(place_of(slot, i * 2));
        spc_b16 high = spc_shared_load16(place_of(slot, i * 2 + 1));
        a[i * 8] = low.x;
        a[i * 8 + 1] = high.x;
        a[i * 8 + 2] = low.y;
        a[i * 8 + 3] = high.y;
        a[i * 8 + 4] = low.z;
        a[i * 8 + 5] = high.z;
        a[i * 8 + 6] = low.w;
        a[i * 8 + 7] = high.w;
%   else
        SPC_UNROLL
        for (int r = 0; r < 8; r++)
            a[i * 8 + r] = data[(r % 2 * $(pieces) + i) * 4 + r / 2];
%   end
    }
}
% end

/* The gathering side of a consumer, which runs one or two steps ahead of the
 * products. */
typedef struct gatherer {
    spc_schedule *schedule;
    spc_reader reader;
    const int *index; /* index of this lane's row g in the first tile */
    int block;        /* block of input channels of the step being gathered */
    int row[2], next_row[2];
% if reads_ahead then
    spc_b8 ahead; /* the word of the step after the current one */
% end
% if divided and k_blocks > 1 then
    int end, next_first, next_end; /* blocks of the current and the next step */
% end
} gatherer;

SPC_DEVICE void look_ahead(gatherer *g)
{
    spc_b8 step = $(reads_ahead and "g->ahead" or "spc_read_step(&g->reader, g->schedule)");

% if parts > 1 then
    /* A step without rows loads no row numbers. */
    g->next_row[0] = g->next_row[1] = -1;
% end
%local present = parts > 1 and "spc_span_row(step.y)" or "0"
    /* These arrive while the rows of the current step are used. A gather that
     * requested its own row numbers would wait for two loads in a row. */
    spc_load4_into((spc_u32 *)g->next_row, g->index + step.x, $(present));
    spc_load4_into((spc_u32 *)g->next_row + 1, g->index + step.x + 8, $(present));
% if divided and k_blocks > 1 then
    g->next_first = SPC_STEP_FIRST(step.y);
    g->next_end = SPC_STEP_FINAL(step.y) + 1;
% end
% if reads_ahead then
    g->ahead = spc_read_step(&g->reader, g->schedule);
% end
}

/* Moves to the next step, or to the next block of its channels. */
SPC_DEVICE void advance(gatherer *g)
{
% if divided and k_blocks > 1 then
    if (++g->block == g->end) {
        g->block = g->next_first;
        g->end = g->next_end;
% else
    if (++g->block == $(k_blocks)) {
        g->block = 0;
% end
        g->row[0] = g->next_row[0];
        g->row[1] = g->next_row[1];
        look_ahead(g);
    }
}

SPC_DEVICE void produce(const spc_conv_args *args, spc_schedule *schedule,
                        spc_u64 *full, spc_u64 *empty)
{
    const spc_u8 *weights = (const spc_u8 *)args->weights +
                            (long long)spc_block_y() * $(stage_size);
    spc_reader reader = {0, 0};
    /* A new barrier counts as having completed a phase of parity 1, so the
     * first waits find all stages empty. */
    int stage = 0, parity = 1;

    for (;;) {
        int place = reader.place;
        int code = (int)spc_read_step(&reader, schedule).y;
        int offset = code & SPC_STEP_OFFSET;

        if (code & SPC_STEP_END)
            break;
        spc_step_done(schedule, place);
        for ($(blocks_of("code")); block++) {
            if (spc_lane() == 0) {
                /* One thread is enough, because the copy moves a whole stage.
                 * spc_mbar_expect is the one arrival of a phase, which then
                 * lasts until all its bytes are there. */
                long long image = offset * $(k_blocks) + block;
                spc_mbar_wait(empty + stage, parity);
                spc_mbar_expect(full + stage, $(stage_size));
                spc_bulk_copy(spc_shared() + stage * $(stage_size),
                              weights + image * $(stage_size * n_blocks),
                              $(stage_size), full + stage);
            }
            spc_sync_warp();
            if (++stage == $(config.stages)) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

% write_activation("SPC_DEVICE")
% write_fetches()
/* Applies the epilogue and stores this lane's pieces of rows g and g + 8. */
SPC_DEVICE void finish(const $(sum) *acc, const int *row,
                       const spc_conv_args *args)
{
    int first = spc_block_y() * $(config.n) + (spc_lane() & 3) * $(lane_channels);
    spc_u8 *out = (spc_u8 *)args->$(copied_out and "workspace + (long long)args->map.rows_padded * " .. outputs_at or "out");
% local turns = config.n // (4 * lane_channels)
% local free = registers_free(config)
% local batch = not is_masked(config) and not residual_at and free >= 40 and
%   added_batch(lane_channels, turns, free < 64 and 8 or 16) or nil
% local each = lane_channels * out_bytes(problem) // 4
% if batch then
    spc_u32 added[$(batch * 2 * each)];
% end

    SPC_UNROLL
    for (int j = 0; j < $(turns); j++) {
        int co = first + j * $(4 * lane_channels);
% if batch then
        SPC_UNROLL
        for (int i = 0; j % $(batch) == 0 && i < $(2 * batch); i++) {
            int h = i % 2, at = co + i / 2 * $(4 * lane_channels);
%   local inside = turns % batch == 0 and "" or " && j + i / 2 < " .. turns
%   write_lane_added(lane_channels, "added + i * " .. each, "at", "row[h] >= 0 && at < " .. problem.cout .. inside)
        }
% end
% if has_epilogue(problem) then
        spc_sync_warp(); /* else all loads are moved first, and spill */
% end
% write_factors(lane_channels, "j * " .. 4 * lane_channels .. " + (spc_lane() & 3) * " .. lane_channels)
        SPC_UNROLL
        for (int h = 0; h < 2; h++) {
            int store = row[h] >= 0 && co < $(problem.cout);
            float v[$(lane_channels)];
% write_turn_residual()
% local ready = residual_at and "added" or batch and "added + (j % " .. batch .. " * 2 + h) * " .. each
% write_lane_result(lane_channels, "acc[" .. sum_of_channel("j * " .. 2 * lane_channels, "h") .. "]", copied_out and "out + (long long)row[h] * " .. copied_output_bytes(problem) .. " + co * " .. out_bytes(problem)
%   or "out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem), ready, factors_at, copied_out and 16 or nil)
        }
    }
}

% write_division(1, consumers, true)
%local place = config.gather == "shared" and "slot" or "data"
%-- Converted operands are in other registers than those that rows are gathered into.
%local gathers_first = config.gather == "registers" and not half
%local function write_gather()
            /* Past the end it gathers rows that are not used. */
            advance(&g);
            gather($(place), in, g.row, g.block, 0, $(pieces));
%  if config.gather == "shared" then
            spc_copy_commit();
            if (++slot == 2)
                slot = 0;
%  end
%end
%-- Loads a step's residual. If the gathered rows are the output rows, which the gatherer
%-- still has, this is done before the step's products. Otherwise it is done after the next
%-- gather, when the row numbers have arrived.
%local rows_are_gathered = config.gather == "registers" and problem.centre >= 0
%local function write_fetch()
            if (last$(k_blocks > 1 and " && block == " .. (config.gather == "shared" and k_blocks - 1 or 0) or ""))
                fetch_residual($(rows_are_gathered and "g.row" or "row"), args);
%end
%local first_row = "spc_warp() * 16 + (spc_lane() >> 2)"
%local last_rows = (divided or is_masked(config)) and part_rows or ending_rows
SPC_DEVICE void consume(const spc_conv_args *args, spc_schedule *schedule,
                        spc_u64 *full, spc_u64 *empty$(parts > 1 and ", spc_u64 *joined" or ""))
{
    const spc_map_view *map = &args->map;
    const spc_u8 *in = (const spc_u8 *)spc_base(
        (const spc_u8 *)args->$(copied and "workspace" or "in") + (spc_lane() & 3) * 16);
    $(sum) acc[$(config.n // 2)];
    gatherer g;
    int stage = 0, parity = 0, place = 0, fresh = 1;
% if config.gather == "shared" then
    int slot = 0;
% end
% if is_stream(config) or parts > 1 then
    int later = 0; /* tiles after the block's first use another place, or wait for others */
% end

    g.schedule = schedule;
    g.reader.place = 0;
    g.reader.parity = 0;
    g.index = (const int *)spc_base(map->index + $(first_row));
    g.block = $(k_blocks - 1);
% if divided and k_blocks > 1 then
    g.end = $(k_blocks);
% end
% if reads_ahead then
    g.ahead = spc_read_step(&g.reader, schedule);
% end
    look_ahead(&g);
% write_depend_start()
% if factors_at then
    fetch_factors(args);
% end
% if config.gather == "shared" then
    for (int i = 0; i < 2; i++) {
        advance(&g);
        gather(i, in, g.row, g.block, 0, $(pieces));
        spc_copy_commit();
    }
% else
    spc_u32 data[$(pieces * 8)];
% if half then
    SPC_UNROLL
    for (int i = 0; i < $(pieces * 8); i++)
        /* An absent first row leaves its registers unset. They are masked
         * before use, but reading them would still be undefined. */
        data[i] = 0;
% end
    advance(&g);
    gather(data, in, g.row, g.block, 0, $(pieces));
% end

% if reads_ahead then
    spc_b8 next = spc_shared_load8(&schedule->step[0]);
% end
    for (;;) {
% if reads_ahead then
        spc_b8 step = next; /* the gatherers have read the next step */
        next = spc_shared_load8(&schedule->step[place + 1 < SPC_STREAM_STEPS ? place + 1 : 0]);
% else
        spc_b8 step = spc_shared_load8(&schedule->step[place]);
% end
        int last = step.y & SPC_STEP_LAST;
% if parts < 2 then
        int row[2];
% end

        if (step.y & SPC_STEP_END)
            break;
% if parts > 1 then
        if (fresh && later)
            have_read(joined);
% end
% if parts < 2 then
        if (last) {
            const int *rows = $(last_rows("g.index", "map", first_row));
            row[0] = spc_load_int(rows);
            row[1] = spc_load_int(rows + 8);
        }
% end
        for ($(blocks_of("step.y")); block++) {
            spc_u32 a[$(pieces * 8)]$(images(problem) == 2 and ", small[" .. pieces * 8 .. "]" or "");

% if config.gather == "shared" then
            spc_copy_wait(1);
% end
% if residual_at and rows_are_gathered then
%   write_fetch()
% end
% if takes_pieces then
            int there = g.row[0], there_8 = g.row[1]; /* the gatherer continues before all is used */
% else
            arrange(a, $(place));
% end
% if not half then
            SPC_UNROLL
            for (int i = 0; i < $(pieces * 8); i++) {
                spc_u32 v = a[i];
%   write_operand("                ", "a[i]", "small[i]", "v")
            }
% end
% if gathers_first then
%   write_gather()
% end
            /* Weights are waited for as late as possible, after the rows are in
             * place. */
            spc_mbar_wait(full + stage, parity);
            /* A core matrix is 8 columns by 16 bytes. The next one along k is n
             * columns away. Descriptors count in units of 16 bytes, so a step
             * of two cores adds n * 2. */
            spc_u64 b = spc_wgmma_descriptor(
                spc_shared() + stage * $(stage_size), $(config.n * 16), 128);
% if not takes_pieces then
            /* wgmma reads the registers of its operands later. The fence orders
             * the writes above before these reads. */
            spc_wgmma_fence();
% end
            SPC_UNROLL
            for (int k = 0; k < $(pieces * 2); k++) {
% if takes_pieces then
                if (k % 2 == 0) {
                    take(a + k * 4, data, there, there_8, block, k / 2);
                    spc_wgmma_fence();
                }
% end
% local product = "spc_wgmma_" .. config.n .. (half and "_" .. problem.dtype or "_tf32")
% if images(problem) == 2 then
                /* The first product of a tile overwrites the sums, which saves
                 * clearing them. */
                $(product)(acc, small + k * 4, b + k * $(config.n * 2), k > 0 || !fresh);
                $(product)(acc, a + k * 4, b + $(image // 16) + k * $(config.n * 2), 1);
                $(product)(acc, a + k * 4, b + k * $(config.n * 2), 1);
% else
                $(product)(acc, a + k * 4, b + k * $(config.n * 2), k > 0 || !fresh);
% end
% if takes_pieces then
                if (k == 1)
                    advance(&g); /* past the end: rows that are not used */
                if (k % 2 == 1)
                    gather(data, in, g.row, g.block, k / 2, k / 2 + 1);
% end
            }
            spc_wgmma_commit();
% if not gathers_first and not takes_pieces then
%   write_gather()
% end
% if residual_at and not rows_are_gathered then
%   write_fetch()
% end
            /* The products read the stage until here. One lane of each warp
             * then hands it back to the producer. */
            spc_wgmma_wait(0);
            if (spc_lane() == 0)
                spc_mbar_arrive(empty + stage);
            fresh = 0;
            if (++stage == $(config.stages)) {
                stage = 0;
                parity ^= 1;
            }
        }
        spc_step_done(schedule, place);
        if (++place == SPC_STREAM_STEPS)
            place = 0;
        if (last) {
% if parts > 1 then
            exchange(acc, step, joined, args);
            fresh = later = 1;
%   local more = has_epilogue(problem) or problem.bias == 1 or words > 1
%   if more and registers_free(config) < 40 then
            if (spc_shared_load8(&schedule->step[place]).y & SPC_STEP_END)
                break;
            /* The next product overwrites them, but the compiler does not know. It would keep
             * them in registers during the epilogue, which then spills. */
            SPC_UNROLL
            for (int i = 0; i < $(config.n // 2); i++)
                acc[i] = $(sum_zero(problem));
%   end
% elseif divided then
%   write_part_end()
            fresh = 1;
% else
% if residual_at then
            spc_copy_wait(0);
% end
            finish(acc, row, args);
            fresh = 1;
% end
        }
    }
% if config.gather == "shared" then
    spc_copy_wait(0);
% end
% write_depend_end()
}

SPC_KERNEL(spc_conv, spc_conv_args, $(consumers + 128), 1)
{
    spc_u64 *full = (spc_u64 *)(spc_shared() + $(barrier_at));
    spc_u64 *empty = full + $(config.stages);
    spc_schedule *schedule = (spc_schedule *)(spc_shared() + $(schedule_at));
% if parts > 1 then
    spc_u64 *joined = (spc_u64 *)(spc_shared() + $(share_at)); /* the space of the unused share */
% elseif balances then
    spc_share *share = (spc_share *)(spc_shared() + $(share_at));
% end

% if parts == 0 then
    /* Done while barriers are initialised, and before most registers are given
     * away. */
    spc_span span;
    if (spc_warp() == $(config.groups * 4)) {
        spc_span_start(&span, (spc_u8 *)schedule->step);
%   write_span_start("&span", "(&args->map)")
    }
% end
    if (spc_thread() == 0) {
        for (int i = 0; i < $(config.stages); i++) {
            /* `full` gets one arrival, with the bytes that the producer
             * expects. `empty` gets one from each consuming warp. */
            spc_mbar_init(full + i, 1);
            spc_mbar_init(empty + i, $(config.groups * 4));
        }
        /* The readers of steps: all consuming warps and the producer. */
        spc_schedule_init(schedule, $(config.groups * 4 + 1));
% if parts > 1 then
        spc_mbar_init(joined, 1);
        spc_mbar_init(joined + 1, $(reading_warps(config, config.groups * 4)));
% end
        /* The fence makes the barriers visible to bulk copies, and the barrier
         * below to the other threads. */
        spc_mbar_fence();
    }
% if parts > 1 then
    /* Other blocks arrive at this block's barriers, so all of them wait. */
    spc_cluster_start();
% else
    spc_sync_block();
% end
    if (spc_warp() < $(config.groups * 4)) {
        /* Sums need more registers than a launch gives to each thread.
         * setmaxnreg applies to whole warpgroups, so each warpgroup calls it
         * before its warps part. */
        spc_registers_raise($(consumer_limit));
        consume(args, schedule, full, empty$(parts > 1 and ", joined" or ""));
        return;
    }
    /* The fourth warp of this group only completes the warpgroup. */
    spc_registers_lower(32);
% if divided then
    if (spc_warp() == $(config.groups * 4)) {
% if parts > 1 then
        spc_span span;
        spc_span_start(&span, (spc_u8 *)schedule->step);
% end
        spc_schedule_span(schedule, &span, &args->map, $(rows), $(words),
                          $(k_blocks), $(parts));
    } else if (spc_warp() == $(config.groups * 4 + 1)) {
        produce(args, schedule, full, empty);
    }
% else
    if (spc_warp() == $(config.groups * 4)) {
        spc_schedule_steps(schedule, &args->map, $(rows), $(words),
                           $(centre), $(balances and "share" or "(const spc_share *)0"));
    } else if (spc_warp() == $(config.groups * 4 + 1)) {
        produce(args, schedule, full, empty);
    }$(balances and " else if (spc_warp() == " .. config.groups * 4 + 2 .. ") {" or "")
% if balances then
        spc_balance(share, &args->map, $(words));
        spc_mbar_arrive(&schedule->dealt);
    }
% end
% end
}

% write_sum_kernel(1, consumers)
% if copied or copied_out then
/* True if a tile of this number exists. Positions past the last tile are
 * undefined. */
SPC_DEVICE int has_tile(const spc_map_view *map, int tile)
{
    return tile < map->tiles && spc_load_int(map->tile_order + tile) >= 0;
}

% end
% if copied_out then
%-- The largest number of words of a row with any start position. Threads have several
%-- rows under way.
% local words, batch = problem.cout // 2 + 1, 4
/* Copies the rows of a tile from the workspace to the outputs, in words of the
 * outputs. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    const spc_u8 *in = (const spc_u8 *)args->workspace + (long long)args->map.rows_padded * $(outputs_at);

    spc_depend_wait();
    spc_depend_launch();
    if (!has_tile(&args->map, spc_block_x()))
        return;
    SPC_ROLLED
    for (int item = spc_thread(); item < $(rows * words); item += $(256 * batch)) {
        spc_u32 low[$(batch)], high[$(batch)];
        int row[$(batch)], first[$(batch)];

        SPC_UNROLL
        for (int b = 0; b < $(batch); b++) {
            int at = item + b * 256;
            row[b] = -1;
            if (at < $(rows * words))
                row[b] = spc_load_int(args->map.order + spc_block_x() * $(rows) + at / $(words));
            /* The words of an odd row may begin one channel earlier. */
            first[b] = at % $(words) * 2 - (row[b] & $(out_pitch(problem) % 2));
        }
        SPC_UNROLL
        for (int b = 0; b < $(batch); b++) {
            const spc_u8 *from = in + (long long)row[b] * $(copied_output_bytes(problem)) + first[b] * 2;
            low[b] = row[b] >= 0 && first[b] >= 0 && first[b] < $(problem.cout) ? (spc_u32)spc_load2(from) : 0u;
            high[b] = row[b] >= 0 && first[b] < $(problem.cout - 1) ? (spc_u32)spc_load2(from + 2) : 0u;
        }
        SPC_UNROLL
        for (int b = 0; b < $(batch); b++) {
            spc_u8 *to = (spc_u8 *)args->out + (long long)row[b] * $(out_pitch(problem) * 2) + first[b] * 2;
            int has_low = row[b] >= 0 && first[b] >= 0 && first[b] < $(problem.cout);
            int has_high = row[b] >= 0 && first[b] < $(problem.cout - 1);
            if (has_low && has_high)
                spc_store4(to, low[b] | high[b] << 16);
            else if (has_low)
                spc_store2(to, (spc_u16)low[b]);
            else if (has_high)
                spc_store2(to + 2, (spc_u16)high[b]);
        }
    }
}

% end
% if copied then
% local element, part, words = element_bytes(problem), input_alignment(problem), copied_bytes(problem) // 16
/* Copies the rows of $(copying_rows) positions into the workspace, padded with 0 after
 * their channels. */
SPC_KERNEL(spc_first, spc_conv_args, 256, 1)
{
    spc_depend_wait();
    spc_depend_launch();
    if (!has_tile(&args->map, spc_block_x() / $(rows // copying_rows)))
        return;
    SPC_ROLLED
    for (int item = spc_thread(); item < $(copying_rows * words); item += 256) {
        int place = spc_block_x() * $(copying_rows) + item / $(words);
        int row = spc_load_int(args->map.order + place), at = item % $(words) * 16;
        const spc_u8 *from = (const spc_u8 *)args->in + (long long)row * $(input_pitch_bytes(problem)) + at;
        spc_u32 word[4];
        spc_b16 w;

        if (row < 0)
            continue;
        SPC_UNROLL
        for (int i = 0; i < 4; i++)
            word[i] = 0;
        SPC_UNROLL
        for (int i = 0; i < 16; i += $(part)) {
            int there = at + i < $(input_row_bytes(problem));
%   if part >= 4 then
            spc_load$(part)_into(word + i / 4, from + i, there ? 0 : -1);
%   else
            if (there)
                word[i / 4] |= (spc_u32)spc_load$(part)(from + i) << i % 4 * 8;
%   end
        }
        w.x = word[0];
        w.y = word[1];
        w.z = word[2];
        w.w = word[3];
        spc_store16((spc_u8 *)args->workspace + (long long)row * $(row_pitch) + at, w);
    }
}
% end

% write_weight_word(true)
/*
 * The packed image: [offset][k-block][n-block] stages, each in core matrices
 * [core along k][n columns][16 bytes]. For f32 there are two images: the weights
 * rounded to tf32, and the remainders. Cores 4 p .. 4 p + 3 belong to piece p. In
 * core c, the 4 bytes number q are what lane q of a quad holds in register c of
 * its 16 bytes.
 */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    spc_u32 item = (spc_u32)spc_block_x() * 256 + (spc_u32)spc_thread();
    int column = (int)(item % $(config.n));
    int core = (int)(item / $(config.n) % $(pieces * 4));
% write_image_of_item(stage_size)
% write_channel_of_column("    ", config.n, 4 * lane_channels, "n_block * " .. config.n)
    spc_u32 v[4];

    if (offset >= $(problem.offsets))
        return;
    for (int q = 0; q < 4; q++) {
        int byte = (block * $(pieces) + core / 4) * 64 + q * 16 + core % 4 * 4;
        v[q] = weight_word(args, offset, byte, co$(images(problem) == 2 and ", item % " .. stage_size // 16 .. " / " .. image // 16 or ""));
    }
% write_packed("(long long)item")
}
