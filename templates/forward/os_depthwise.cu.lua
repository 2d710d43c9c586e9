%-- Depthwise convolution: each channel separately, no tensor cores, in one launch.
%--
%-- There are few multiplications, so loads determine the time. A thread owns `bytes` of
%-- the channels of `rows_a_thread` rows. Neighbouring threads read neighbouring channels
%-- of a row. Each input is read once from memory if the rows that see it are near each
%-- other.
%--
%--     shared:  indices of the tile, two tiles deep   weights as fp32 [offset][channel]
%--                  |  (copied while the tile before      |  (once a block, or read
%--                  |   is computed)                      |   through the cache)
%--     offsets of a warp's rows, `unroll` at a time:
%--         row = index[offset][place]; data = in[row]; sum += data * weights[offset]
%--
%-- A channel may have 2, 4 or 8 outputs (cout = 2 * groups, ...), each with its own
%-- weights, which are consecutive.
%--
%-- Integers (i8) are summed as fp32 as well. Up to 1024 of their products stay below 2^24,
%-- so the sum is exact.
%--
%-- The gathers of `unroll` offsets and `rows_a_thread` rows are independent and under way
%-- together. Offsets that none of a warp's rows has are skipped.
%
%include "operands.lua"
%
%function pieces_of(problem, config) return input_row_bytes(problem) // config.bytes end
%function index_bytes(problem, config) return problem.offsets * config.rows * 4 end
%function packed_bytes(problem) return problem.offsets * problem.cout * 4 end
%-- Number of output channels per input channel.
%function outputs_each(problem) return problem.cout // problem.cin end
%function lane_outputs(problem, config)
%  return config.bytes // element_bytes(problem) * outputs_each(problem)
%end
%-- True if the epilogue is at most a bias, and outputs have the type of the inputs.
%function stores_pieces(problem) return is_plain(problem) and problem.cin == problem.cout end
%function shared_bytes(problem, config)
%  return 2 * index_bytes(problem, config)
%       + (config.weights == "shared" and packed_bytes(problem) or 0)
%end
%-- The items that the threads of a block divide among themselves.
%function items_of(problem, config)
%  return config.rows // config.rows_a_thread * pieces_of(problem, config)
%end
%-- Registers for sums, loads under way, weights, and 30 more: within 10 of NVRTC's
%-- reports for 24 kernels on sm_90a. Integers must be unpacked, and their epilogues are
%-- long, most of all with an exponential or erf.
%function registers(problem, config)
%  local steep = problem.act and problem.act ~= "relu" and problem.act ~= "leaky"
%  local outputs = lane_outputs(problem, config)
%  return config.rows_a_thread * (outputs + config.unroll * config.bytes // 4)
%       + outputs + 30 + (has_whole(problem) and (steep and 65 or 40) or 0)
%end
%function blocks_of(problem, config, target)
%  local by_shared = (target.shared_sm or 65536) // (shared_bytes(problem, config) + 1024)
%  local by_registers = 65536 // (registers(problem, config) * config.threads)
%  return math.max(1, math.min(by_shared, by_registers, 1024 // config.threads))
%end
%
%template = {
%  summary = "depthwise, rows of channels times rows of weights, no tensor cores",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"rows", {16, 32, 64, 128, 256}, "output rows of a tile"},
%    {"rows_a_thread", {1, 2, 4}, "rows for which a weight is read once"},
%    {"bytes", {16, 8, 4}, "bytes of a row that a thread reads"},
%    {"unroll", {2, 4, 8}, "offsets under way"},
%    {"threads", {128, 256}, "threads of a block"},
%    {"weights", {"shared", "global"}, "where the weights are read"},
%    {"order", {"gray", "none", "dense", "morton"}, "row order of the map"},
%  },
%  accepts = function(problem, target)
%    local each = problem.cout / problem.cin
%    if groups_of(problem) ~= problem.cin or each ~= 1 and each ~= 2 and each ~= 4 and each ~= 8
%    then
%      return false, "needs a depthwise layer: groups = cin, and 1, 2, 4 or 8 times as many outputs"
%    end
%    if input_alignment(problem) < 4 then
%      return false, "rows in must be multiples of 4 bytes"
%    end
%    if whole_in(problem) and problem.offsets > 1024 then
%      return false, "whole numbers of more than 1024 offsets"
%    end
%    return true
%  end,
%  constraints = {
%    {"parts divide the row", function(problem, config)
%      return config.bytes <= input_alignment(problem)
%    end},
%    {"parts of 16 or 8 bytes where rows have them", function(problem, config)
%      return config.bytes > 4 or input_alignment(problem) < 8 or outputs_each(problem) > 1
%    end},
%    {"a thread has 16 outputs of a row at most", function(problem, config)
%      return outputs_each(problem) == 1 or lane_outputs(problem, config) <= 16
%    end},
%    {"every thread has a part, or blocks are small", function(problem, config)
%      return items_of(problem, config) >= config.threads
%         or config.threads == 128 and config.rows_a_thread == 1
%    end},
%    {"at most 8 gathers of a thread under way", function(problem, config)
%      return config.unroll * config.rows_a_thread <= 8
%    end},
%    {"shared memory", function(problem, config, target)
%      return shared_bytes(problem, config) <= target.shared_block
%    end},
%  },
%  derive = function(problem, config, target)
%    return {
%      words = ceil_div(problem.offsets, 32), pieces = pieces_of(problem, config),
%      items = items_of(problem, config), half = element_bytes(problem) == 2,
%      lane_words = config.bytes // 4,
%      channels = config.bytes // element_bytes(problem),
%      outputs = lane_outputs(problem, config), each = outputs_each(problem),
%      pieced = stores_pieces(problem), short = format_of(problem).short,
%      step = config.rows // config.rows_a_thread, -- between the rows of a thread
%      row_pitch = input_pitch_bytes(problem), stage = index_bytes(problem, config),
%      weights_at = 2 * index_bytes(problem, config),
%      gathers = config.unroll * config.rows_a_thread,
%      blocks = blocks_of(problem, config, target),
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = config.threads, shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = blocks_of(problem, config, target),
%      tile_rows = config.rows, order = config.order,
%      packed_bytes = packed_bytes(problem), pack_threads = problem.offsets * problem.cout,
%      pdl = target.sm >= 90 and 1 or 0, preference = 6,
%    }
%  end,
%  default = function(problem, target)
%    local config = {rows = 64, rows_a_thread = 2, bytes = 16, unroll = 4, threads = 128,
%                    weights = "shared", order = "gray"}
%    while config.bytes > 4 and (config.bytes > input_alignment(problem)
%       or outputs_each(problem) > 1 and lane_outputs(problem, config) > 16) do
%      config.bytes = config.bytes // 2
%    end
%    while items_of(problem, config) < config.threads and config.rows < 256
%          and 4 * index_bytes(problem, config) <= target.shared_block // 2 do
%      config.rows = config.rows * 2
%    end
%    -- Weights are kept in shared memory if they leave space for three blocks.
%    if 3 * shared_bytes(problem, config) > target.shared_block then config.weights = "global" end
%    while shared_bytes(problem, config) > target.shared_block and config.rows > 16 do
%      config.rows = config.rows // 2
%    end
%    if items_of(problem, config) < config.threads then config.rows_a_thread = 1 end
%    return config
%  end,
%}
#include "spc_device.cuh"

% local weight_source = config.weights == "shared" and "spc_shared() + " .. weights_at
%   or "(const spc_u8 *)args->weights"
/* Starts copying the indices of those offsets that the tile of a rank has. Always
 * commits one group. */
SPC_DEVICE void fetch_indices(int buffer, int rank, int tile, const spc_map_view *map)
{
    for (int word = 0; word < $(words) && tile >= 0; word++) {
        spc_u32 mask = spc_load4(map->tile_mask + word * map->tiles + rank);
        for (int i = spc_thread(); i < $(32 * config.rows // 4); i += $(config.threads)) {
            int k = word * 32 + i / $(config.rows // 4), at = i % $(config.rows // 4) * 4;
            if (mask >> (k & 31) & 1)
                spc_copy_async16(spc_shared() + buffer * $(stage) +
                                     (k * $(config.rows) + at) * 4,
                                 map->index + (long long)k * map->rows_padded +
                                     tile * $(config.rows) + at, 16);
        }
    }
    spc_copy_commit();
}

SPC_DEVICE int tile_of(const spc_map_view *map, int rank)
{
    return rank < map->tiles ? spc_load_int(map->tile_order + rank) : -1;
}

/* sums += data * weights, channel by channel; w points to the weights. */
SPC_DEVICE void multiply(float *sums, const spc_u32 *data, const float *w)
{
    SPC_UNROLL
    for (int r = 0; r < $(config.rows_a_thread); r++)
        SPC_UNROLL
        for (int i = 0; i < $(lane_words); i++) {
            spc_u32 v = data[r * $(lane_words) + i];
% if whole_in(problem) then
            float *to = sums + r * $(outputs) + $(4 * each) * i;
%   for j = 0, 4 * each - 1 do
            to[$(j)] = spc_fma(spc_i8_to_f32(v, $(j // each)), w[$(4 * each) * i$(j > 0 and " + " .. j or "")], to[$(j)]);
%   end
% elseif half then
            float *to = sums + r * $(outputs) + $(2 * each) * i;
%   for j = 0, 2 * each - 1 do
            to[$(j)] = spc_fma(spc_$(short)_to_f32((spc_u16)$(j < each and "v" or "(v >> 16)")), w[$(2 * each) * i$(j > 0 and " + " .. j or "")], to[$(j)]);
%   end
% else
            float *to = sums + r * $(outputs) + $(each > 1 and each .. " * " or "")i;
%   for j = 0, each - 1 do
            to[$(j)] = spc_fma(spc_bits_f32(v), w[$(each > 1 and each .. " * " or "")i$(j > 0 and " + " .. j or "")], to[$(j)]);
%   end
% end
        }
}

/* The weights of an offset for this thread's channels. */
SPC_DEVICE void load_weights(float *w, const spc_u8 *from)
{
% local load = config.weights == "shared" and "spc_shared_load" or "spc_load"
% for i = 0, outputs - 1, 4 do
%   if outputs - i >= 4 then
    spc_b16 v$(i) = $(load)16(from + $(4 * i));
    w[$(i)] = spc_bits_f32(v$(i).x);
    w[$(i + 1)] = spc_bits_f32(v$(i).y);
    w[$(i + 2)] = spc_bits_f32(v$(i).z);
    w[$(i + 3)] = spc_bits_f32(v$(i).w);
%   elseif outputs - i == 2 then
    spc_b8 v$(i) = $(load)8(from + $(4 * i));
    w[$(i)] = spc_bits_f32(v$(i).x);
    w[$(i + 1)] = spc_bits_f32(v$(i).y);
%   else
    w[$(i)] = *(const float *)(from + $(4 * i));
%   end
% end
}

/* Adds all offsets of one mask word that some row of the warp has. `index` points to
 * this thread's first row in the tile's indices, for the word's first offset. */
SPC_DEVICE void add_offsets(float *sums, spc_u32 rest, const int *index,
                            const spc_u8 *in, const spc_u8 *weights)
{
    SPC_ROLLED
    while (rest != 0) {
        spc_u32 data[$(gathers * lane_words)];
        int k[$(config.unroll)];
        SPC_UNROLL
        for (int u = 0; u < $(config.unroll); u++) {
            int present = rest != 0;
            k[u] = present ? spc_ffs(rest) - 1 : 0;
            rest &= rest - 1;
            SPC_UNROLL
            for (int r = 0; r < $(config.rows_a_thread); r++) {
                int row = present ? index[k[u] * $(config.rows) + r * $(step)] : -1;
                spc_u32 *to = data + (u * $(config.rows_a_thread) + r) * $(lane_words);
                SPC_UNROLL
                for (int i = 0; i < $(lane_words); i++)
                    /* A load of an absent row leaves its registers as they
                     * are. */
                    to[i] = 0;
                spc_load$(config.bytes)_into(to, in + (long long)row * $(row_pitch), row);
            }
        }
        SPC_UNROLL
        for (int u = 0; u < $(config.unroll); u++) {
            float w[$(outputs)];
            load_weights(w, weights + k[u] * $(problem.cout * 4));
            multiply(sums, data + u * $(config.rows_a_thread * lane_words), w);
        }
    }
}

% write_activation("SPC_DEVICE")
% if pieced then
SPC_DEVICE void store(const float *sums, int row, spc_u8 *to)
{
% local function word(i)
%   if half then return "spc_pack_f16(sums[" .. 2 * i .. "], sums[" .. 2 * i + 1 .. "])" end
%   return "spc_f32_bits(sums[" .. i .. "])"
% end
    if (row < 0)
        return;
    to += (long long)row * $(row_pitch);
% if config.bytes == 4 then
    spc_store4(to, $(word(0)));
% else
    spc_b$(config.bytes) v;
%   for i, name in ipairs {"x", "y", "z", "w"} do
%     if i <= lane_words then
    v.$(name) = $(word(i - 1));
%     end
%   end
    spc_store$(config.bytes)(to, v);
% end
}
% else
/*
 * Applies the epilogue to this thread's outputs of a row, from channel co on.
 */
SPC_DEVICE void finish(const float *sums, int where, int co, const spc_conv_args *args)
{
    int row[1] = {where};
    SPC_UNROLL
    for (int h = 0; h < 1; h++) {
        int store = row[h] >= 0;
            float v[$(outputs)];
% write_lane_values(outputs, whole_in(problem) and "(int)sums[i]" or "sums[i]")
% write_lane_store(outputs, "(spc_u8 *)args->out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem))
    }
}
% end

/* Computes part `item` of the tile: a piece of this thread's rows, the first of which
 * is `at`. All lanes of a warp take part; lanes without a part have no row. */
SPC_DEVICE void compute(int item, int tile, const int *index, const spc_conv_args *args)
{
    const spc_map_view *map = &args->map;
    int piece = item % $(pieces), at = item / $(pieces), row[$(config.rows_a_thread)];
    int some = item < $(items), first = tile * $(config.rows) + (some ? at : 0);
    const spc_u8 *in = (const spc_u8 *)args->in + piece * $(config.bytes);
    const spc_u8 *weights = $(weight_source) + piece * $(outputs * 4);
    float sums[$(config.rows_a_thread * outputs)];

    SPC_UNROLL
    for (int r = 0; r < $(config.rows_a_thread); r++)
        row[r] = some ? spc_load_int(map->order + first + r * $(step)) : -1;
    SPC_UNROLL
    for (int i = 0; i < $(config.rows_a_thread * outputs); i++)
        sums[i] = $(pieced and problem.bias == 1 and "spc_load_f32(args->bias + piece * " .. channels .. " + i % " .. channels .. ")" or "0.0f");
    for (int word = 0; word < $(words); word++) {
        spc_u32 mask = 0;
        SPC_UNROLL
        for (int r = 0; r < $(config.rows_a_thread); r++)
            mask |= spc_load4(map->mask + (long long)word * map->rows_padded + first + r * $(step));
        /* The whole warp takes the same offsets, so that it does not diverge.
         * Rows without one read nothing. */
        add_offsets(sums, spc_warp_or(some ? mask : 0u),
                    index + word * $(32 * config.rows) + (some ? at : 0), in,
                    weights + word * $(32 * problem.cout * 4));
    }
    SPC_UNROLL
    for (int r = 0; r < $(config.rows_a_thread); r++)
% if pieced then
        store(sums + r * $(channels), row[r],
              (spc_u8 *)args->out + piece * $(config.bytes));
% else
        finish(sums + r * $(outputs), row[r], piece * $(outputs), args);
% end
}

SPC_KERNEL(spc_conv, spc_conv_args, $(config.threads), $(blocks))
{
    const spc_map_view *map = &args->map;
    int rank = spc_block_x(), tile = tile_of(map, rank), buffer = 0;

% if config.weights == "shared" then
    for (int i = spc_thread(); i < $(problem.offsets * problem.cout); i += $(config.threads))
        spc_copy_async4(spc_shared() + $(weights_at) + i * 4,
                        (const spc_u8 *)args->weights + i * 4, 4);
% end
    fetch_indices(0, rank, tile, map);
    spc_depend_wait();
    spc_depend_launch();
    SPC_ROLLED
    while (tile >= 0) {
        int next = tile_of(map, rank + spc_grid_x());
        /* The next tile's indices arrive while this tile is computed. */
        fetch_indices(buffer ^ 1, rank + spc_grid_x(), next, map);
        spc_copy_wait(1);
        spc_sync_block(); /* this tile's indices are visible to all */
        SPC_ROLLED
        for (int item = spc_thread(); item < $(ceil_div(items, config.threads) * config.threads);
             item += $(config.threads))
            compute(item, tile, (const int *)(spc_shared() + buffer * $(stage)), args);
        spc_sync_block(); /* all threads have read the indices */
        rank += spc_grid_x();
        tile = next;
        buffer ^= 1;
    }
    spc_copy_wait(0);
}

% if whole_in(problem) then
SPC_DEVICE float byte_to_f32(spc_u8 v) { return spc_i8_to_f32(v, 0); }

% end
/* Packed: fp32 [offset][channel]. */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    const $(format_of(problem).device) *weights =
        (const $(format_of(problem).device) *)args->weights;
    int item = spc_block_x() * 256 + spc_thread();
    int channel = item % $(problem.cout), k = item / $(problem.cout);

    if (k >= $(problem.offsets))
        return;
    ((float *)args->packed)[item] = $(half and "spc_" .. short .. "_to_f32" or whole_in(problem) and "byte_to_f32" or "")(
        weights[k * args->stride_k + channel * args->stride_out$(group_stride("channel"))]);
    spc_fence_global();
}
