%-- Depthwise convolution on tensor cores. A warp has a tile of 16 or 32 output rows and a
%-- block of their channels.
%--
%-- A channel is multiplied only by its own weight, so 8 channels of an offset form an 8 x 8
%-- matrix with weights on the diagonal. A lane loads 16 contiguous bytes of a gathered row.
%-- These are its operands in four such products, and their sums belong to the same channels.
%-- Nothing is converted or exchanged. 1024 products by zero cost less than converting 128
%-- numbers and multiplying them one by one.
%--
%--     rows of 16 voxels        channels c, c + 1 of lane q = 0 .. 3
%--     [g][8q + 2j, + 1]   x    diagonal of w[offset][8q + 2j, + 1]  -->  sums, product j
%--
%-- In the second operand, lane (g, q) has a channel's weight if g / 2 = q, else zero. All
%-- lanes read 16 bytes of weights, those of their own channels, and keep their own weight.
%--
%-- Steps, bundles and loads are as in os_warp. Each warp of a block that shares
%-- a tile has its own block of channels. A number that is not finite turns the
%-- results of its row in the same 8 channels into NaN.
%
%include "os_rows.lua"
%
%-- Bytes of a row that a warp has, and the number of warps that a row needs.
%function part_bytes(config) return config.channels * 2 end
%function parts(problem, config) return ceil_div(problem.cin, config.channels) end
%-- Parts of a row in one block: as many as divide both the parts and the warps of a
%-- block. The rest is the second dimension of the grid.
%function parts_abreast(problem, config)
%  local all = parts(problem, config)
%  for n = math.min(all, config.warps), 1, -1 do
%    if all % n == 0 and config.warps % n == 0 then return n end
%  end
%end
%function grid_rows_of(problem, config)
%  return parts(problem, config) // parts_abreast(problem, config)
%end
%function packed_row_bytes(problem, config)
%  return problem.offsets * parts_abreast(problem, config) * part_bytes(config)
%end
%function shared_bytes(problem, config)
%  return (config.weights == "shared" and packed_row_bytes(problem, config) or 0)
%       + config.warps * 384
%end
%-- Registers for sums, for rows under way with their indices, and the
%-- additional registers that the compiler was observed to use.
%function registers(problem, config)
%  local width, pieces = config.rows // 8, config.channels // 32
%  return width * pieces * 8 + config.depth * (width * (pieces * 4 + 2) + 2)
%       + (problem.centre < 0 and config.depth * (width + 1) or 0) + 40
%end
%function registers_allowed(config)
%  return math.min(65536 // (config.warps * config.blocks * 32) // 8 * 8, 255)
%end
%
%template = {
%  summary = "depthwise, weights as diagonals of matrices, a warp a tile",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"rows", {16, 32}, "output rows of a tile"},
%    {"channels", {32, 64, 96, 128}, "channels of a warp"},
%    {"depth", {2, 3, 4, 6}, "steps whose rows are under way"},
%    {"warps", {8, 12, 16}, "warps of a block"},
%    {"blocks", {1, 2, 3}, "blocks of a multiprocessor"},
%    {"weights", {"shared", "global"}, "where the weights are read"},
%    {"order", {"gray", "gray_x", "gray_y", "planes"}, "row order of the map"},
%  },
%  accepts = function(problem, target)
%    if groups_of(problem) ~= problem.cin or problem.cout ~= problem.cin then
%      return false, "needs a depthwise layer: groups = cin = cout"
%    end
%    if problem.dtype ~= "f16" and problem.dtype ~= "bf16" or whole_out(problem) then
%      return false, "needs f16 or bf16, and no whole numbers"
%    end
%    if target.sm < 75 or problem.dtype == "bf16" and target.sm < 80 then
%      return false, "needs tensor cores for " .. problem.dtype
%    end
%    if input_alignment(problem) < 16 then
%      return false, "rows in must be multiples of 16 bytes: os_depthwise takes any"
%    end
%    return true
%  end,
%  constraints = {
%    {"channels divide the row, or are all of it", function(problem, config)
%      return problem.cin % config.channels == 0
%         or config.channels == 32
%         or config.channels == ceil_div(problem.cin, 32) * 32
%    end},
%    {"resident weights fit shared memory", function(problem, config, target)
%      if config.weights == "global" then return true end
%      local bytes = shared_bytes(problem, config)
%      return config.blocks * (bytes + 1024) <= target.shared_sm
%         and bytes <= target.shared_block
%    end},
%    {"weights are resident where they fit", function(problem, config, target)
%      return config.weights == "shared"
%         or shared_bytes(problem, {channels = config.channels, warps = 8, weights = "shared"})
%            > target.shared_block
%    end},
%    {"8, 12, 16 or 24 warps on a multiprocessor", function(problem, config)
%      return config.blocks == 1 or config.warps == 8
%    end},
%    {"the rows fit the registers", function(problem, config)
%      return registers(problem, config) <= registers_allowed(config)
%    end},
%  },
%  derive = function(problem, config, target)
%    local pieces = config.channels // 32
%    return {
%      width = config.rows // 8, pieces = pieces, row_registers = pieces * 4,
%      words = ceil_div(problem.offsets, 32), threads = config.warps * 32,
%      row_pitch = input_pitch_bytes(problem), row_bytes = input_row_bytes(problem),
%      part = part_bytes(config), abreast = parts_abreast(problem, config),
%      several = parts(problem, config) > 1, grid_rows = grid_rows_of(problem, config),
%      ragged = input_row_bytes(problem) % part_bytes(config) ~= 0,
%      image = parts_abreast(problem, config) * part_bytes(config),
%      workers = config.warps // parts_abreast(problem, config),
%      weight_bytes = packed_row_bytes(problem, config),
%      sums = config.rows // 8 * pieces * 8,
%    }
%  end,
%  launch = function(problem, config, target)
%    local bytes = packed_row_bytes(problem, config) * grid_rows_of(problem, config)
%    return {
%      block = config.warps * 32, shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = config.blocks,
%      grid_y = grid_rows_of(problem, config),
%      tile_rows = config.rows, order = config.order,
%      packed_bytes = bytes, pack_threads = bytes // 2,
%      pdl = target.sm >= 90 and 1 or 0, preference = 7,
%    }
%  end,
%  default = function(problem, target)
%    -- In a scan only a few planes of a large kernel have neighbours.
%    local order = problem.offsets > 8 and "planes" or "gray"
%    local config = {rows = 16, channels = 32, depth = 2, warps = 8, blocks = 2,
%                    weights = "shared", order = order}
%    -- Additional registers of the epilogue, fitted to NVRTC's reports for 12 layers.
%    local spare = has_epilogue(problem) and 24 or 8
%    local function fits()
%      return registers(problem, config) + spare <= registers_allowed(config)
%    end
%    -- Whole cache lines for each row of a warp, if registers allow it.
%    config.channels = problem.cin % 64 == 0 and 64 or 32
%    if not fits() then config.channels = 32 end
%    for depth = 3, 4 do
%      config.depth = depth
%      if not fits() then config.depth = depth - 1; break end
%    end
%    if shared_bytes(problem, config) > target.shared_block then config.weights = "global" end
%    if config.blocks * (shared_bytes(problem, config) + 1024) > target.shared_sm then
%      config.blocks = 1
%    end
%    return config
%  end,
%}
#include "spc_stream.cuh"

% local load_weight = config.weights == "shared" and "spc_shared_load16" or "spc_load16"
% if several then
/* The number of this warp's block of channels, among all blocks. */
SPC_DEVICE int part_of_warp(void)
{
    return (int)spc_block_y() * $(abreast) + spc_warp() % $(abreast);
}

% end
/* Loads this lane's parts of the rows of a step, 16 bytes of each 64. */
SPC_DEVICE void gather(spc_u32 *data, const int *row, const spc_u8 *in)
{
% if ragged then
    int left = $(row_bytes) - (spc_lane() & 3) * 16$(several and " - part_of_warp() * " .. part or "");
% end
    SPC_UNROLL
    for (int n = 0; n < $(width); n++) {
        const spc_u8 *from = in + (long long)row[n] * $(row_pitch);
        SPC_UNROLL
        for (int p = 0; p < $(pieces); p++) {
            spc_u32 *to = data + n * $(row_registers) + p * 4;
            SPC_UNROLL
            for (int i = 0; i < 4; i++)
                /* A load of an absent row leaves its registers as they are. */
                to[i] = 0;
            spc_load16_into(to, from + p * 64, $(ragged and "left > p * 64 ? row[n] : -1" or "row[n]"));
        }
    }
}

% write_look_ahead()
/* acc[16 rows][piece][product][4] += rows times their channels' weights, which are at
 * `weights`. `diagonal` masks this lane's part of a word of them. */
SPC_DEVICE void multiply(float *acc, const spc_u32 *data, const spc_u8 *weights,
                         spc_u32 diagonal)
{
    SPC_UNROLL
    for (int p = 0; p < $(pieces); p++) {
        spc_b16 v = $(load_weight)(weights + p * 64);
        spc_u32 b[4];
        b[0] = v.x & diagonal;
        b[1] = v.y & diagonal;
        b[2] = v.z & diagonal;
        b[3] = v.w & diagonal;
        SPC_UNROLL
        for (int m = 0; m < $(width // 2); m++)
            SPC_UNROLL
            for (int j = 0; j < 4; j++) {
                const spc_u32 *from = data + m * $(2 * row_registers) + p * 4 + j;
                spc_u32 a[2];
                a[0] = from[0];
                a[1] = from[$(row_registers)];
                spc_mma_k8_$(problem.dtype)(acc + ((m * $(pieces) + p) * 4 + j) * 4, a, b[j]);
            }
    }
}

% write_activation("SPC_DEVICE")
/* Stores the tile's rows, for channels from `first` on, and clears the sums. */
SPC_DEVICE void finish(float *acc, const int *row, int first,
                       const spc_conv_args *args)
{
    SPC_UNROLL
    for (int h = 0; h < $(width); h++)
        SPC_UNROLL
        for (int p = 0; p < $(pieces); p++) {
            const float *sum = acc + (h / 2 * $(pieces) + p) * 16 + h % 2 * 2;
            int co = first + p * 32;
            int store = row[h] >= 0$(ragged and " && co < " .. problem.cout or "");
            spc_u8 *to = (spc_u8 *)args->out +
                         ((long long)row[h] * $(out_pitch(problem)) + co) * $(out_bytes(problem));
            float v[8];
% write_lane_values(8, "sum[i / 2 * 4 + i % 2]")
% write_lane_store(8, "to")
        }
    SPC_UNROLL
    for (int i = 0; i < $(sums); i++)
        acc[i] = 0.0f;
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(config.blocks))
{
    const spc_map_view *map = &args->map;
    int g = spc_lane() >> 2, q = spc_lane() & 3;
    int first = q * 8$(several and " + part_of_warp() * " .. config.channels or "");
    const spc_u8 *in = (const spc_u8 *)spc_base((const spc_u8 *)args->in + first * 2);
    /* Lane (g, q) keeps the weight of channel g of each 8, in its half of a
     * word, if it belongs to the lane's two channels. */
    spc_u32 diagonal = g >> 1 != q ? 0u : g & 1 ? 0xffff0000u : 0xffffu;
% write_lane_index("g")
% local source = "(const spc_u8 *)args->weights" .. (grid_rows > 1 and " + (long long)spc_block_y() * " .. weight_bytes or "")
    const spc_u8 *weights = $(config.weights == "shared" and "spc_shared()" or source) + q * 16$(several and " + spc_warp() % " .. abreast .. " * " .. part or "");
    float acc[$(sums)];
% write_step_registers()
    int place = $(2 * config.depth);
    spc_stream stream;

% if config.weights == "shared" then
    for (int i = spc_thread() * 16; i < $(weight_bytes); i += $(threads * 16))
        spc_copy_async16(spc_shared() + i, $(source) + i, 16);
    spc_copy_commit();
% end
    spc_u8 *ring = spc_shared() + $(config.weights == "shared" and weight_bytes or 0) +
                   spc_warp() * SPC_STREAM_BYTES;
    spc_stream_start_shared(&stream, ring, spc_warp() / $(abreast), $(workers));
    SPC_UNROLL
    for (int i = 0; i < $(sums); i++)
        acc[i] = 0.0f;
% write_first_loads(config.rows, true)
% if config.weights == "shared" then
    spc_copy_wait(0);
    spc_sync_block();
% end
    for (int done = 0; done < stream.filled; done += $(config.depth)) {
        spc_stream_fill(&stream, map, done + $(3 * config.depth), $(config.rows),
                        $(words), $(problem.centre));
        SPC_UNROLL
        for (int i = 0; i < $(config.depth); i++) {
            multiply(acc, data + i * $(width * row_registers),
                     weights + (code[i] & SPC_STEP_OFFSET) * $(image), diagonal);
            if (code[i] & SPC_STEP_LAST)
                finish(acc, $(ending_rows()) + i * $(width), first, args);
% write_next_loads()
        }
        place += $(config.depth);
        if (place == SPC_STREAM_STEPS)
            place = 0;
    }
}

/* Packed: for each row of the grid [offset][channels of its warps], zero past the
 * last channel. */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    const spc_u16 *weights = (const spc_u16 *)args->weights;
    int item = spc_block_x() * 256 + spc_thread(), row = item / $(weight_bytes // 2);
    int k = item % $(weight_bytes // 2) / $(image // 2);
    int channel = row * $(image // 2) + item % $(image // 2);

    if (row >= $(grid_rows))
        return;
    spc_store2((spc_u16 *)args->packed + item,
               channel < $(problem.cout) ? weights[k * args->stride_k + channel * args->stride_out$(group_stride("channel"))] : 0);
    spc_fence_global();
}
