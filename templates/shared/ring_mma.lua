%-- Products of tiles of rows with mma.sync, for kernels that work pair by pair without a
%-- tile table (pairs_mma, explicit_mma). As in os_mma, a block of `warps` warps has a
%-- tile, and each warp has 16 * m rows by n output channels. A ring of `stages`
%-- asynchronous copies brings each lane its own 16 bytes of its own rows, which are its
%-- part of two first operands. Packed weights are in the order of second operands. The
%-- kernel decides which rows and weights are used and when a sum is complete.
%--
%-- A step is `pieces` times 64 bytes of the rows, with an image of weights: number offset
%-- * k_blocks + block, for all blocks of output channels.
%
%include "os_blocks.lua"
%
%ring_warps = 4
%ring_widths = {32, 64, 96, 128}
%local several = 96
%ring_params = {
%  {"m", {1, 2}, "16-row tiles of a warp"},
%  {"n", ring_widths, "output channels of a block"},
%  {"pieces", {1, 2}, "64-byte pieces of input rows in a step"},
%  {"stages", {2, 3}, "steps in flight"},
%}
%
%function ring_rows(config) return ring_warps * config.m * 16 end
%function image_bytes(config) return config.pieces * config.n * 64 end
%function rows_stage(config) return ring_rows(config) * config.pieces * 64 end
%function k_blocks_of(problem, config) return row_pieces(problem) // config.pieces end
%-- Bytes of a ring. Weights are part of the ring, or stay outside it (`stay`).
%function ring_bytes(config, stay)
%  return config.stages * (rows_stage(config) + (stay and 0 or image_bytes(config)))
%end
%-- Registers as in os_mma, which has the same products.
%function ring_registers(problem, config)
%  return config.m * config.n // 2 + config.m * 8 * images(problem) + 56
%end
%
%local known = {f16 = true, bf16 = true, tf32 = true, f32 = true}
%function ring_accepts(problem, target)
%  if not known[problem.dtype] then return false, "needs f16, bf16, tf32 or f32" end
%  if problem.groups then return false, "needs a layer without groups" end
%  if target.sm < 75 or problem.dtype ~= "f16" and target.sm < 80 then
%    return false, "needs tensor cores for " .. problem.dtype
%  end
%  return true
%end
%
%-- The constraints of the parameters above, followed by `more`.
%function ring_constraints(more)
%  local all = {
%    {"steps divide the row", function(problem, config)
%      return row_pieces(problem) % config.pieces == 0
%    end},
%    {"output channels fill their blocks", function(problem, config)
%      return fills_blocks(problem, config.n, ring_widths, several)
%    end},
%    {"accumulators fit the registers", function(problem, config)
%      return ring_registers(problem, config) <= 255
%    end},
%  }
%  for _, constraint in ipairs(more) do all[#all + 1] = constraint end
%  return all
%end
%
%function ring_default(problem)
%  local n = least_wasting(problem, ring_widths, several)
%  return {m = n <= 64 and 2 or 1, n = n, pieces = row_pieces(problem) % 2 == 0 and 2 or 1,
%          stages = 3}
%end
%
%-- Globals of the body. `stay`: weights are not in the ring. Rows are those of the inputs
%-- unless the kernel sets other values of row_bytes, row_pitch and align.
%function ring_derive(problem, config, stay)
%  local element = element_bytes(problem)
%  return {
%    k_blocks = k_blocks_of(problem, config), n_blocks = out_blocks(problem, config),
%    words = ceil_div(problem.offsets, 32), rows = ring_rows(config),
%    threads = ring_warps * 32, element = element, half = element == 2,
%    lane_channels = 16 // element, weight_size = image_bytes(config), stay = stay,
%    stage_size = rows_stage(config) + (stay and 0 or image_bytes(config)),
%    rows_at = stay and 0 or image_bytes(config),
%    row_bytes = input_row_bytes(problem), row_pitch = input_pitch_bytes(problem),
%    align = input_alignment(problem),
%  }
%end
%
%-- Blocks of a multiprocessor, given the shared memory of one block.
%function ring_blocks(problem, config, target, shared)
%  local by_shared = (target.shared_sm or 102400) // (shared + 1024)
%  local by_registers = 65536 // (math.max(ring_registers(problem, config), 64) * ring_warps * 32)
%  return math.max(1, math.min(by_shared, by_registers, 8))
%end
%
%-- The lane's first row of a tile; its other rows follow at distances of 8.
%function lane_row() return "spc_warp() * " .. config.m * 16 .. " + (spc_lane() >> 2)" end
%
%-- ---- the ring -------------------------------------------------------------------------
%
%-- Writes the functions place_of and load_step.
%function write_ring()
/* The lane's own place `i` of a stage: piece i / (2 m), row g + 8 * (i % (2 m)). */
SPC_DEVICE spc_u8 *place_of(int stage, int i)
{
    return spc_shared() + stage * $(stage_size) + $(rows_at) + i * $(threads * 16) +
           spc_thread() * 16;
}

/*
 * Copies `pieces` times 64 bytes from byte `at` of the rows; row -1 gives zeroes.
 */
SPC_DEVICE void load_rows(int stage, const spc_u8 *in, const int *row, int at)
{
    int lane_at = at + (spc_lane() & 3) * 16;

    SPC_UNROLL
    for (int i = 0; i < $(2 * config.m * config.pieces); i++) {
        int r = row[i % $(2 * config.m)], byte = lane_at + i / $(2 * config.m) * 64;
        const spc_u8 *from = in + (long long)r * $(row_pitch) + byte;
        spc_u8 *to = place_of(stage, i);
% if align == 16 then
        int valid = r >= 0$(row_bytes % 64 ~= 0 and " && byte < " .. row_bytes or "") ? 16 : 0;
        /* A copy of no bytes still needs a valid address. */
        spc_copy_async16(to, valid ? from : in, valid);
% else
        SPC_UNROLL
        for (int j = 0; j < 16; j += $(align)) {
            int valid = r >= 0 && byte + j < $(row_bytes) ? $(align) : 0;
            spc_copy_async$(align)(to + j, valid ? from + j : in, valid);
        }
% end
    }
}

/* Copies an image of weights; all threads of the block take part. */
SPC_DEVICE void load_image(spc_u8 *to, const spc_conv_args *args, int image)
{
    const spc_u8 *from = (const spc_u8 *)args->weights +
                         ((long long)image * $(n_blocks) + spc_block_y()) * $(weight_size);

    for (int at = spc_thread() * 16; at < $(weight_size); at += $(threads * 16))
        spc_copy_async16(to + at, from + at, 16);
}

%end
%-- Writes the function multiply.
%function write_multiply()
% write_split()
/* acc[m][n / 8][4] += the rows in `stage` times the image at `weights`. */
SPC_DEVICE void multiply(float *acc, int stage, const spc_u8 *weights)
{
    weights += spc_lane() * 16;
% if half then
    SPC_UNROLL
% else
    SPC_ROLLED
% end
    for (int p = 0; p < $(config.pieces); p++) {
        spc_u32 a[$(config.m)][2][4];
        SPC_UNROLL
        for (int h = 0; h < $(2 * config.m); h++) {
            spc_b16 v = spc_shared_load16(place_of(stage, p * $(2 * config.m) + h));
            a[h / 2][0][h % 2] = v.x;
            a[h / 2][0][h % 2 + 2] = v.y;
            a[h / 2][1][h % 2] = v.z;
            a[h / 2][1][h % 2 + 2] = v.w;
        }
% write_tile_products()
    }
}

SPC_DEVICE void clear(float *acc)
{
    SPC_UNROLL
    for (int i = 0; i < $(config.m * config.n // 2); i++)
        acc[i] = 0.0f;
}

%end
%-- ---- results ----------------------------------------------------------------------------
%
%-- Writes a loop over the results that a lane has of its rows, 16 bytes in the type of
%-- the inputs at a time. `body` writes the loop body for row h of the lane and channels
%-- co to co + lane_channels of the sums acc; sum_at() is the i-th of them.
%function write_lane_loop(body)
    int lane_first = spc_block_y() * $(config.n) + (spc_lane() & 3) * $(lane_channels);

    SPC_UNROLL
    for (int j = 0; j < $(config.n // (4 * lane_channels)); j++) {
        int co = lane_first + j * $(4 * lane_channels);
        SPC_UNROLL
        for (int h = 0; h < $(2 * config.m); h++) {
            const float *d = acc + h / 2 * $(config.n // 2);
% body()
        }
    }
%end
%function sum_at()
%  return "d[" .. sum_of_channel("j * " .. 2 * lane_channels, "h % 2") .. "]"
%end
%-- Writes the epilogue of `value` and the store of row[h].
%function write_finish(value)
            int store = row[h] >= 0 && co < $(problem.cout);
            float v[$(lane_channels)];
% write_lane_values(lane_channels, value)
% write_lane_store(lane_channels, "(spc_u8 *)args->out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem))
%end
%
%-- ---- packing ----------------------------------------------------------------------------
%
%function write_ring_pack()
% write_weight_word()
/*
 * Packed: [offset][k-block][n-block] images, each [k-step][pair of 8 columns][lane]
 * [second operands of both]. K-step s of piece p takes bytes p * 64 + q * 16 + s %
 * 2 * 8 .. + 7 of the rows for lane q of a quad.
 */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    spc_u32 item = (spc_u32)spc_block_x() * 256 + (spc_u32)spc_thread();
    int lane = (int)(item % 32), g = lane >> 2, q = lane & 3;
    int pair = (int)(item / 32 % $(config.n // 16));
    int step = (int)(item / $(config.n * 2) % $(config.pieces * 2));
% write_image_of_item(weight_size)
    spc_u32 v[4];

    if (offset >= $(problem.offsets))
        return;
    for (int r = 0; r < 4; r++) {
        int column = pair * 16 + r / 2 * 8 + g;
        int byte = (block * $(config.pieces) + step / 2) * 64 + q * 16 +
                   step % 2 * 8 + r % 2 * 4;
% write_channel_of_column("        ", config.n, 4 * lane_channels, "n_block * " .. config.n)
        v[r] = weight_word(args, offset, byte, co);
    }
% write_packed("(long long)item")
}
%end
