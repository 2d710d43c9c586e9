%-- Output-stationary convolution of few input channels on tensor cores: the products of
%-- several offsets fill one k-step.
%--
%-- A row of a few channels is much shorter than the k of a product, so here k covers
%-- offsets and channels. Lane q of a quad has the offsets q, q + 4, q + 8 ... Their
%-- rows, one after the other, are its words, two for each k-step:
%--
%--     4 channels of f16           lane 0      lane 1      lane 2      lane 3
%--     k-step 0                    offset 0    offset 1    offset 2    offset 3
%--     k-step 1                    offset 4    offset 5    ...
%--
%-- 27 offsets of 4 channels take 7 k-steps, with rows loaded straight from memory into
%-- the registers of first operands. An absent row costs no access. Masks are not read,
%-- so rows keep coordinate order, in which neighbours are near each other. A warp has a
%-- tile. The rows of `chunk` offsets of a lane are under way while the indices of the
%-- next chunk, or of the next tile, are requested.
%
%include "os_blocks.lua"
%
%local widths, several = {16, 32, 64, 96, 128}, 64
%
%-- Words of a row; two rows of one half share a word.
%function halves_alone(problem) return input_row_bytes(problem) == 2 end
%function words_of(problem, offsets)
%  if halves_alone(problem) then return ceil_div(offsets, 2) end
%  return offsets * ceil_div(input_row_bytes(problem), 4)
%end
%-- Offsets of a lane: in total and per chunk; k-steps: per chunk and in total.
%function lane_offsets(problem) return ceil_div(problem.offsets, 4) end
%function chunk_offsets(problem, config) return math.min(config.chunk, lane_offsets(problem)) end
%function chunks_of(problem, config)
%  return ceil_div(lane_offsets(problem), chunk_offsets(problem, config))
%end
%function chunk_steps(problem, config)
%  return ceil_div(words_of(problem, chunk_offsets(problem, config)), 2)
%end
%
%-- The weights of a block of output channels.
%function block_bytes(problem, config)
%  return chunks_of(problem, config) * chunk_steps(problem, config) * config.n * 32
%end
%function shared_bytes(problem, config)
%  return config.weights == "shared" and block_bytes(problem, config) or 0
%end
%-- Registers for sums, words, indices and operands, and 28 more, or 68 if the compiler
%-- loads weights early. At most 30 above NVRTC's reports for 24 kernels on sm_90a.
%function registers(problem, config)
%  return config.m * (config.n // 2 + 4 * chunk_steps(problem, config)
%                     + 4 * chunk_offsets(problem, config) + 4 * images(problem))
%       + (config.weights == "shared" and 28 or 68)
%end
%function blocks_of(problem, config, target)
%  local by_shared = target.shared_sm // (shared_bytes(problem, config) + 1024)
%  local by_registers = 65536 // (registers(problem, config) * config.warps * 32)
%  return math.max(1, math.min(by_shared, by_registers, 32 // config.warps))
%end
%
%template = {
%  summary = "output-stationary for few input channels, several offsets in a k-step",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"m", {1, 2}, "16-row tiles of a warp"},
%    {"n", widths, "output channels of a block"},
%    {"chunk", {2, 4, 8}, "offsets of a lane under way"},
%    {"warps", {4, 8}, "warps of a block"},
%    {"weights", {"shared", "global"}, "where the packed weights are read"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "one group alone" end
%    if has_whole(problem) then return false, "no int8" end
%    if target.sm < 75 or problem.dtype ~= "f16" and target.sm < 80 then
%      return false, "needs tensor cores for " .. problem.dtype
%    end
%    if problem.cin > 8 then return false, "for 8 input channels at most" end
%    return true
%  end,
%  constraints = {
%    {"output channels fill their blocks", function(problem, config)
%      return fills_blocks(problem, config.n, widths, several)
%    end},
%    {"chunks are no longer than they need be", function(problem, config)
%      return config.chunk == 2 or config.chunk // 2 < lane_offsets(problem)
%    end},
%    {"chunks fill their k-steps", function(problem, config)
%      return chunks_of(problem, config) == 1
%         or words_of(problem, chunk_offsets(problem, config)) % 2 == 0
%    end},
%    {"resident weights fit shared memory", function(problem, config, target)
%      return shared_bytes(problem, config) <= target.shared_block
%    end},
%    {"weights are resident where they fit", function(problem, config, target)
%      return config.weights == "shared" or block_bytes(problem, config) > target.shared_block
%    end},
%    {"sums and rows fit the registers", function(problem, config)
%      return registers(problem, config) <= 255
%         and registers(problem, config) * config.warps * 32 <= 65536
%    end},
%  },
%  derive = function(problem, config, target)
%    local steps = chunk_steps(problem, config)
%    return {
%      offsets = chunk_offsets(problem, config), chunks = chunks_of(problem, config),
%      steps = steps, lane_words = 2 * steps, rows = 2 * config.m,
%      element = element_bytes(problem), half = element_bytes(problem) == 2,
%      row_bytes = input_row_bytes(problem), row_pitch = input_pitch_bytes(problem),
%      alone = halves_alone(problem), row_words = words_of(problem, 1), threads = config.warps * 32,
%      weight_bytes = block_bytes(problem, config), span = 64 // element_bytes(problem),
%      step_bytes = config.n * 32, blocks = blocks_of(problem, config, target),
%      align = input_alignment(problem),
%    }
%  end,
%  launch = function(problem, config, target)
%    local packed = block_bytes(problem, config) * out_blocks(problem, config)
%    return {
%      block = config.warps * 32, shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = blocks_of(problem, config, target),
%      grid_y = out_blocks(problem, config), tile_rows = 16 * config.m,
%      tiles_per_block = config.warps, order = "none",
%      packed_bytes = packed, pack_threads = packed // 16,
%      pdl = target.sm >= 90 and 1 or 0, preference = 6,
%    }
%  end,
%  default = function(problem, target)
%    local config = {m = 1, n = least_wasting(problem, widths, several), chunk = 8, warps = 8,
%                    weights = "shared"}
%    if block_bytes(problem, config) > target.shared_block then config.weights = "global" end
%    local most = config.weights == "shared" and 14 or 8
%    while config.chunk > 2 and (config.chunk // 2 >= lane_offsets(problem)
%                                or chunk_steps(problem, config) > most) do
%      config.chunk = config.chunk // 2
%    end
%    if registers(problem, config) * config.warps * 32 > 65536 then config.warps = 4 end
%    return config
%  end,
%}
#include "spc_device.cuh"

/*
 * Reads the indices of this lane's offsets in a chunk, for its rows of a tile.
 */
SPC_DEVICE void look_ahead(int *row, int tile, int chunk, const spc_map_view *map)
{
    int first = chunk * $(4 * offsets) + (spc_lane() & 3);
    const int *index = map->index + (long long)first * map->rows_padded +
                       tile * $(16 * config.m) + (spc_lane() >> 2);

    SPC_UNROLL
    for (int t = 0; t < $(offsets); t++)
        SPC_UNROLL
        for (int h = 0; h < $(rows); h++)
            row[h * $(offsets) + t] =
                /* The last chunk may have more places than offsets. */
                first + 4 * t < $(problem.offsets)
                    ? spc_load_int(index + (long long)(4 * t) * map->rows_padded + 8 * h)
                    : -1;
}

/*
 * Loads the words of this lane's offsets, one row of the tile after the other.
 */
SPC_DEVICE void gather(spc_u32 *data, const int *row, const spc_u8 *in)
{
    SPC_UNROLL
    for (int i = 0; i < $(rows * lane_words); i++)
        /* Rows are shorter than whole k-steps, and absent rows load nothing. */
        data[i] = 0;
    SPC_UNROLL
    for (int h = 0; h < $(rows); h++)
        SPC_UNROLL
        for (int t = 0; t < $(offsets); t++) {
            int from = row[h * $(offsets) + t];
            const spc_u8 *p = in + (long long)from * $(row_pitch);
% if alone then
            spc_u32 v = from >= 0 ? spc_load2(p) : 0u;
            data[h * $(lane_words) + t / 2] |= t % 2 ? v << 16 : v;
% else
            spc_u32 *to = data + h * $(lane_words) + t * $(row_words);
%   if align == 2 then
%     for c = 0, problem.cin - 1 do
            if (from >= 0)
                to[$(c // 2)] |= (spc_u32)spc_load2(p + $(2 * c))$(c % 2 == 1 and " << 16" or "");
%     end
%   else
%     for at = 0, row_bytes - 1, align do
            spc_load$(align)_into(to + $(at // 4), p + $(at), from);
%     end
%   end
% end
        }
}

% write_split()
/* acc[m][n / 8][4] += the products of a chunk. */
SPC_DEVICE void multiply(float *acc, const spc_u32 *data, const spc_u8 *weights)
{
    weights += spc_lane() * 16;
    SPC_UNROLL
    for (int s = 0; s < $(steps); s++) {
        spc_u32 a[$(config.m)][4];
% if problem.dtype == "f32" then
        spc_u32 c[$(config.m)][4];
% end
        SPC_UNROLL
        for (int i = 0; i < $(4 * config.m); i++) {
            spc_u32 v = data[(i / 4 * 2 + i % 2) * $(lane_words) + 2 * s + i % 4 / 2];
% if half then
            a[i / 4][i % 4] = v;
% else
%   write_operand("            ", "a[i / 4][i % 4]", "c[i / 4][i % 4]", "v")
% end
        }
% write_step_products(config.weights == "shared" and "spc_shared_load16" or "spc_load16", "s", "a[m]")
    }
}

% write_activation("SPC_DEVICE")
/* Applies the epilogue, stores this lane's channels of its rows, and clears
 * acc. */
SPC_DEVICE void finish(float *acc, const int *row, const spc_conv_args *args)
{
    int q = spc_lane() & 3;
    spc_u8 *out = (spc_u8 *)args->out;

    SPC_UNROLL
    for (int h = 0; h < $(rows); h++) {
        const float *sums = acc + h / 2 * $(config.n // 2);
% for _, run in ipairs(runs_of(config.n, span)) do
        {
            int co = spc_block_y() * $(config.n) + $(run.first) + q * $(run.lane);
            int store = row[h] >= 0 && co < $(problem.cout);
            float v[$(run.lane)];
%   write_lane_values(run.lane, "sums[" .. sum_of_channel(run.first // 2, "h % 2") .. "]")
%   write_lane_store(run.lane, "out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem))
        }
% end
    }
    SPC_UNROLL
    for (int i = 0; i < $(config.m * config.n // 2); i++)
        acc[i] = 0.0f;
}

/* Blocks take tiles by number. A tile exists if its number is below the length
 * of the tile table. */
SPC_DEVICE int is_there(const spc_map_view *map, int tile)
{
    return tile < map->tiles && spc_load_int(map->tile_order + tile) >= 0;
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(blocks))
{
    const spc_map_view *map = &args->map;
    const spc_u8 *in = (const spc_u8 *)args->in;
    const spc_u8 *weights = (const spc_u8 *)args->weights + (long long)spc_block_y() * $(weight_bytes);
    int tiles = spc_grid_x() * $(config.warps), chunk = 0;
    int tile = spc_block_x() * $(config.warps) + spc_warp(), row[$(rows * offsets)];
    int there = is_there(map, tile), next_there = is_there(map, tile + tiles);
    float acc[$(config.m * config.n // 2)];

% if config.weights == "shared" then
    for (int i = spc_thread() * 16; i < $(weight_bytes); i += $(threads * 16))
        spc_copy_async16(spc_shared() + i, weights + i, 16);
    spc_copy_commit();
    weights = spc_shared();
% end
    SPC_UNROLL
    for (int i = 0; i < $(config.m * config.n // 2); i++)
        acc[i] = 0.0f;
    if (there)
        look_ahead(row, tile, 0, map);
    spc_depend_wait();
    spc_depend_launch();
% if config.weights == "shared" then
    spc_copy_wait(0);
    spc_sync_block();
% end
    SPC_ROLLED
    while (there) {
        spc_u32 data[$(rows * lane_words)];
        int out_row[$(rows)], last = $(chunks == 1 and "1" or "chunk == " .. chunks - 1);
        const spc_u8 *from = weights + chunk * $(steps * step_bytes);
        const int *order = map->order + tile * $(16 * config.m) + (spc_lane() >> 2);

        gather(data, row, in);
        SPC_UNROLL
        for (int h = 0; h < $(rows); h++)
            out_row[h] = last ? spc_load_int(order + 8 * h) : -1;
        chunk++;
        if (last) {
            chunk = 0;
            tile += tiles;
            there = next_there;
            next_there = is_there(map, tile + tiles);
        }
        if (there)
            look_ahead(row, tile, chunk, map);
        multiply(acc, data, from);
        if (last)
            finish(acc, out_row, args);
    }
}

% write_weight_word()
/* Packed: [n-block][chunk][k-step][pair of 8 columns][lane][second operands of both]. */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    spc_u32 item = (spc_u32)spc_block_x() * 256 + (spc_u32)spc_thread();
    int lane = (int)(item % 32), g = lane >> 2, q = lane & 3;
    int pair = (int)(item / 32 % $(config.n // 16));
    int step = (int)(item / $(config.n * 2) % $(steps));
    int chunk = (int)(item / $(config.n * 2 * steps) % $(chunks));
    int n_block = (int)(item / $(config.n * 2 * steps * chunks));
    spc_u32 v[4];

    if (n_block >= $(out_blocks(problem, config)))
        return;
    for (int r = 0; r < 4; r++) {
        int column = pair * 16 + r / 2 * 8 + g, word = 2 * step + r % 2;
%   write_channel_of_column("        ", config.n, span, "n_block * " .. config.n)
% if alone then
        int t = chunk * $(offsets) + 2 * word, offset = 4 * t + q;
        v[r] = 0;
        if (2 * word < $(offsets) && offset < $(problem.offsets))
            v[r] = weight_word(args, offset, 0, co);
        if (2 * word + 1 < $(offsets) && offset + 4 < $(problem.offsets))
            v[r] |= weight_word(args, offset + 4, 0, co) << 16;
% else
        int t = word / $(row_words), offset = 4 * (chunk * $(offsets) + t) + q;
        v[r] = 0;
        if (t < $(offsets) && offset < $(problem.offsets))
            v[r] = weight_word(args, offset, word % $(row_words) * 4, co);
% end
    }
% write_packed("(long long)item")
}
