%-- Depthwise convolution in which every output row walks over its own offsets, so that no row
%-- waits for offsets that only its neighbours have.
%--
%-- `lanes` lanes read a row, or a part of one, 16 bytes each. The other rows of a warp are
%-- processed by the remaining lanes, each at its own offset. In coordinate order the inputs
%-- of a tile are near each other, and some are read from the multiprocessor's cache. Runs of
%-- 32 neighbouring rows are sorted by their number of offsets, so that the rows of a warp end
%-- together. This is done while the previous tile is computed.
%--
%--     tile: index, copied while the tile before is computed   weights [offset][channel]
%--           masks, order: sorted by the number of offsets       |  shared memory
%--     row:  index[its next offset]; data = in[index]            |
%--           sums += data * weights[its next offset] ------------+
%--
%-- In shared memory an extra row before the first index is -1, and an extra row before the
%-- first weight is zero. They belong to offset -1, which finished rows have.
%--
%-- The work of tiles of one size varies by a factor, and a table sorted by unions of masks
%-- does not show it. With 64 rows of a scan, the busiest of 132 multiprocessors has a fifth
%-- more work than the mean. Additional blocks that start when others end (`waves`, rows of
%-- the grid) even this out.
%
%include "operands.lua"
%
%function lane_channels(problem) return 16 // element_bytes(problem) end
%function part_bytes(config) return config.lanes * 16 end
%function parts(problem, config) return ceil_div(input_row_bytes(problem), part_bytes(config)) end
%function weight_size(config) return config.weights == "f32" and 4 or 2 end
%-- Bytes of the weights of one offset for a part, and of the weights of all offsets
%-- including -1.
%function image_bytes(problem, config)
%  return config.lanes * lane_channels(problem) * weight_size(config)
%end
%function weight_bytes(problem, config) return (problem.offsets + 1) * image_bytes(problem, config) end
%-- Bytes of a tile's indices, including those of offset -1; then of its rows' outputs, places
%-- and masks.
%function index_bytes(problem, config) return (problem.offsets + 1) * config.rows * 4 end
%function stage_bytes(problem, config)
%  return index_bytes(problem, config) + (ceil_div(problem.offsets, 32) + 2) * config.rows * 4
%end
%function raw_bytes(problem, config) return (ceil_div(problem.offsets, 32) + 1) * config.rows * 4 end
%function shared_bytes(problem, config)
%  return weight_bytes(problem, config)
%       + 2 * (stage_bytes(problem, config) + raw_bytes(problem, config))
%end
%-- The configuration with the least shared memory.
%function least(problem)
%  return {rows = 32, lanes = 4, weights = element_bytes(problem) == 2 and problem.dtype or "f32"}
%end
%function registers_allowed(config)
%  return math.min(65536 // (config.threads * config.blocks) // 8 * 8, 255)
%end
%function registers(problem, config)
%  local channels = lane_channels(problem)
%  return 2 * channels + config.unroll * 4 + 24
%       + (problem.centre >= 0 and channels * weight_size(config) // 4 or 0)
%       + (problem.bias == 1 and channels or 0) + (problem.scale and channels or 0)
%       + (has_epilogue(problem) and 8 or 0)
%end
%
%-- This template was the fastest for kernels of 27 offsets if 16 or 32 lanes read a whole
%-- row, or 32 lanes a part. With 8 lanes os_diagonal was faster.
%function preference_of(problem)
%  local bytes = input_row_bytes(problem)
%  return problem.offsets <= 32 and (bytes == 256 or bytes % 512 == 0) and 8 or 5
%end
%
%template = {
%  summary = "depthwise, every row walks its own offsets, no tensor cores",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"rows", {32, 64, 128}, "output rows of a tile"},
%    {"lanes", {4, 8, 16, 32}, "lanes of a row, or of a part of it, 16 bytes each"},
%    {"unroll", {2, 3, 4}, "offsets of a row under way"},
%    {"threads", {128, 256}, "threads of a block"},
%    {"blocks", {1, 2, 3, 4, 5, 6}, "blocks of a multiprocessor"},
%    {"waves", {1, 2, 4, 8}, "blocks that follow each of them, when it ends"},
%    {"weights", function(problem)
%      return element_bytes(problem) == 2 and {problem.dtype, "f32"} or {"f32"}
%    end, "the type of weights in shared memory"},
%    {"order", {"none", "gray", "morton"}, "row order of the map"},
%  },
%  accepts = function(problem, target)
%    if groups_of(problem) ~= problem.cin or problem.cout ~= problem.cin then
%      return false, "needs a depthwise layer: groups = cin = cout"
%    end
%    if has_whole(problem) then return false, "no whole numbers: os_depthwise takes them" end
%    if input_alignment(problem) < 16 then
%      return false, "rows in must be multiples of 16 bytes: os_depthwise takes any"
%    end
%    local bytes = shared_bytes(problem, least(problem))
%    if bytes > target.shared_block or bytes + 1024 > target.shared_sm then
%      return false, "indices of so many offsets do not fit shared memory"
%    end
%    return true
%  end,
%  constraints = {
%    {"lanes divide the row, or are the fewest, or hold all of it", function(problem, config)
%      local bytes = input_row_bytes(problem)
%      return bytes % part_bytes(config) == 0 or config.lanes == 4
%         or part_bytes(config) > bytes and part_bytes(config) // 2 < bytes
%    end},
%    {"every warp has rows", function(problem, config)
%      return config.rows * config.lanes >= config.threads
%    end},
%    {"at most 40 warps on a multiprocessor", function(problem, config)
%      return config.threads * config.blocks <= 40 * 32
%    end},
%    {"24 warps, or all for which there is shared memory", function(problem, config, target)
%      local more = config.blocks + 1
%      return config.threads * config.blocks >= 24 * 32
%         or more * (shared_bytes(problem, config) + 1024) > target.shared_sm
%    end},
%    {"the rows under way fit the registers", function(problem, config)
%      return registers(problem, config) <= registers_allowed(config)
%    end},
%    {"shared memory", function(problem, config, target)
%      local bytes = shared_bytes(problem, config)
%      return bytes <= target.shared_block and config.blocks * (bytes + 1024) <= target.shared_sm
%    end},
%  },
%  derive = function(problem, config, target)
%    local row_bytes, count_bits = input_row_bytes(problem), 1
%    while 1 << count_bits <= problem.offsets do count_bits = count_bits + 1 end
%    return {
%      words = ceil_div(problem.offsets, 32), channels = lane_channels(problem),
%      half = element_bytes(problem) == 2, short = format_of(problem).short,
%      warps = config.threads // 32, abreast = 32 // config.lanes,
%      groups = config.rows * config.lanes // 32,
%      row_pitch = input_pitch_bytes(problem), row_bytes = row_bytes,
%      part = part_bytes(config), several = parts(problem, config) > 1,
%      parts_each = parts(problem, config), ragged = row_bytes % part_bytes(config) ~= 0,
%      weight = weight_size(config), image = image_bytes(problem, config),
%      chunks = lane_channels(problem) * weight_size(config) // 16, -- of 16 bytes of a lane's weights
%      weights_bytes = weight_bytes(problem, config),
%      index_at = weight_bytes(problem, config), stage = stage_bytes(problem, config),
%      raw = raw_bytes(problem, config),
%      raw_at = weight_bytes(problem, config) + 2 * stage_bytes(problem, config),
%      index_size = index_bytes(problem, config),
%      count_bits = count_bits, row_words = config.rows * 4, quads = config.rows // 4,
%      ahead = config.threads * 4 // config.rows, -- offsets whose indices are copied at once
%      others = string.format("~0x%xu", problem.centre < 0 and 0 or 1 << problem.centre % 32),
%    }
%  end,
%  launch = function(problem, config, target)
%    local packed = problem.offsets * image_bytes(problem, config) * parts(problem, config)
%    return {
%      block = config.threads, shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = math.max(1, config.blocks // parts(problem, config)),
%      grid_y = parts(problem, config) * config.waves,
%      tile_rows = config.rows, order = config.order,
%      packed_bytes = packed, pack_threads = packed // weight_size(config),
%      pdl = target.sm >= 90 and 1 or 0, preference = preference_of(problem),
%    }
%  end,
%  default = function(problem, target)
%    local bytes = input_row_bytes(problem)
%    local config = least(problem)
%    config.rows, config.lanes, config.unroll, config.order = 64, 32, 4, "none"
%    config.threads, config.blocks = 256, 4
%    config.waves = bytes >= 512 and 4 or bytes >= 256 and 2 or 1
%    while config.lanes > 4 and bytes % part_bytes(config) ~= 0 do
%      config.lanes = config.lanes // 2
%    end
%    local function room() return config.blocks * (shared_bytes(problem, config) + 1024) end
%    while room() > target.shared_sm and config.blocks > 3 do config.blocks = config.blocks - 1 end
%    if room() > target.shared_sm then config.rows = 32 end
%    while room() > target.shared_sm and config.blocks > 1 do config.blocks = config.blocks - 1 end
%    while shared_bytes(problem, config) > target.shared_block or room() > target.shared_sm do
%      config.lanes = config.lanes // 2
%    end
%    if config.rows * config.lanes < config.threads then
%      config.threads = 128
%      local each = shared_bytes(problem, config) + 1024
%      while config.blocks < 6 and (config.blocks + 1) * each <= target.shared_sm do
%        config.blocks = config.blocks + 1
%      end
%    end
%    while registers(problem, config) > registers_allowed(config) and config.unroll > 2 do
%      config.unroll = config.unroll - 1
%    end
%    while registers(problem, config) > registers_allowed(config) and config.blocks > 1 do
%      config.blocks = config.blocks - 1
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"

/* ---- a tile -------------------------------------------------------------- */

SPC_DEVICE int tile_of(const spc_map_view *map, int rank)
{
    return rank < map->tiles ? spc_load_int(map->tile_order + rank) : -1;
}

SPC_DEVICE spc_u8 *stage_of(int buffer)
{
    return spc_shared() + $(index_at) + buffer * $(stage);
}

/* Masks and output rows of the tile after the next. */
SPC_DEVICE spc_u32 *raw_of(int buffer)
{
    return (spc_u32 *)(spc_shared() + $(raw_at) + buffer * $(raw));
}

/* Starts copying the masks and output rows of a tile. */
SPC_DEVICE void fetch_rows(spc_u32 *raw, int tile, const spc_map_view *map)
{
    for (int i = spc_thread(); i < $((words + 1) * quads) && tile >= 0; i += $(config.threads)) {
        int word = i / $(quads);
        long long at = tile * $(config.rows) + i % $(quads) * 4;
        spc_copy_async16(raw + i * 4, word < $(words)
                             ? (const void *)(map->mask + (long long)word * map->rows_padded + at)
                             : (const void *)(map->order + at), 16);
    }
}

/*
 * Starts copying the indices of a tile: for four rows at a time, those of an offset that at
 * least one of them has. `index` and `stage` point to this thread's first indices, of offset
 * `bit`.
 */
SPC_DEVICE void fetch_indices(spc_u8 *stage, const int *index, const spc_u32 *raw, int bit,
                              int tile, long long step)
{
    index += (long long)tile * $(config.rows);
    raw += spc_thread() % $(quads) * 4;
    SPC_UNROLL
    for (int word = 0; word < $(words); word++) {
        spc_b16 v = spc_shared_load16(raw + word * $(config.rows));
        spc_u32 mask = v.x | v.y | v.z | v.w;
% if problem.centre >= 0 then
        if (word == $(problem.centre // 32))
            /* The centre's row is the output row itself, which each lane reads
             * without an index. */
            mask &= $(others);
% end
        mask >>= bit;
        SPC_UNROLL
        for (int i = 0; i < $(32 // ahead); i++, index += step)
            if (word * 32 + i * $(ahead) < $(problem.offsets) && mask >> i * $(ahead) & 1)
                /* Skipped offsets leave old indices in the stage. No row has
                 * them in its mask. */
                spc_copy_async16(stage + (word * 32 + i * $(ahead)) * $(row_words), index, 16);
    }
}

/* The rank of a lane among the lanes of its warp, by falling `key` <=
 * $(problem.offsets). */
SPC_DEVICE int rank_in_warp(int key)
{
    spc_u32 above = 0, same = 0xffffffffu;

    /* Radix comparison from the highest bit: `same` are the lanes whose bits
     * agree so far. */
    SPC_UNROLL
    for (int bit = $(count_bits - 1); bit >= 0; bit--) {
        spc_u32 set = spc_ballot(key >> bit & 1);
        if (key >> bit & 1) {
            same &= set;
        } else {
            above |= same & set;
            same &= ~set;
        }
    }
    return spc_popc(above) + spc_popc(same & ((1u << spc_lane()) - 1u));
}

/*
 * Moves rows to their places, sorted by number of offsets in runs of 32. The number falls and
 * rises in alternate runs. Warps take every $(warps)th group of rows, so they get similar
 * amounts of work.
 */
SPC_DEVICE void sort_rows(spc_u8 *stage, const spc_u32 *raw, int warp)
{
    spc_u32 mask[$(words)];
    int count = 0;

    if (warp >= $(config.rows // 32))
        return;
    raw += spc_thread();
    SPC_UNROLL
    for (int word = 0; word < $(words); word++) {
        mask[word] = raw[word * $(config.rows)];
% if problem.centre >= 0 then
        if (word == $(problem.centre // 32))
            mask[word] &= $(others);
% end
        count += spc_popc(mask[word]);
    }
    int rank = rank_in_warp(count);
    int *to = (int *)(stage + $(index_size)) + warp * 32 + (warp & 1 ? 31 - rank : rank);
    to[0] = (int)raw[$(words * config.rows)];
    to[$(config.rows)] = spc_thread() * 4;
    SPC_UNROLL
    for (int word = 0; word < $(words); word++)
        to[(2 + word) * $(config.rows)] = (int)mask[word];
}

/* ---- a row --------------------------------------------------------------- */

/* sums += data * weights, channel by channel. */
SPC_DEVICE void multiply(float *sums, const spc_u32 *data, const float *w)
{
    SPC_UNROLL
    for (int i = 0; i < 4; i++) {
% if half then
        sums[2 * i] = spc_fma(spc_$(short)_to_f32((spc_u16)data[i]), w[2 * i], sums[2 * i]);
        sums[2 * i + 1] = spc_fma(spc_$(short)_to_f32((spc_u16)(data[i] >> 16)), w[2 * i + 1], sums[2 * i + 1]);
% else
        sums[i] = spc_fma(spc_bits_f32(data[i]), w[i], sums[i]);
% end
    }
}

/* This lane's weights of an offset. */
SPC_DEVICE void load_weights(float *w, const spc_u8 *from)
{
% for i = 0, chunks - 1 do
    spc_b16 v$(i) = spc_shared_load16(from + $(i * part));
%   for j, name in ipairs {"x", "y", "z", "w"} do
%     if weight == 4 then
    w[$(4 * i + j - 1)] = spc_bits_f32(v$(i).$(name));
%     else
    w[$(2 * j - 2)] = spc_$(short)_to_f32((spc_u16)v$(i).$(name));
    w[$(2 * j - 1)] = spc_$(short)_to_f32((spc_u16)(v$(i).$(name) >> 16));
%     end
%   end
% end
}

/* Loads this lane's part of a row, or zero if there is no row. `sure`: there is
 * a row. */
SPC_DEVICE void load_part(spc_u32 *data, const spc_u8 *in, int row, int sure)
{
    if (!sure)
        SPC_UNROLL
        for (int i = 0; i < 4; i++)
            data[i] = 0;
    spc_load16_into(data, in + (long long)row * $(row_pitch), sure ? 0 : row);
}

/* Adds the next `count` offsets of a row, from the rest of a word of its mask whose
 * first offset is `first`. */
SPC_DEVICE spc_u32 add_offsets(float *sums, spc_u32 rest, int count, int first,
                               const spc_u8 *index, const spc_u8 *in,
                               const spc_u8 *weights$(ragged and ", int outside" or ""))
{
    spc_u32 data[$(4 * config.unroll)];
    const spc_u8 *at[$(config.unroll)];

    SPC_UNROLL
    for (int u = 0; u < count; u++) {
        /* 31 - 32 is -1 for an empty mask: offset -1, whose index is -1 and
         * whose weights are 0. A finished row needs no branch. */
        int k = 31 - spc_clz(rest);
% if words > 1 then
        k = rest != 0 ? k + first : k;
% end
        /* spc_bit gives 0 for offset -1. */
        rest &= ~spc_bit((spc_u32)k$(words > 1 and " - first" or ""));
        at[u] = weights + k * $(image);
        int row = *(const int *)(index + k * $(row_words))$(ragged and " | outside" or "");
        load_part(data + 4 * u, in, row, $(abreast == 1 and not ragged and 1 or 0));
    }
    SPC_UNROLL
    for (int u = 0; u < count; u++) {
        float w[$(channels)];
        load_weights(w, at[u]);
        multiply(sums, data + 4 * u, w);
    }
    return rest;
}

% write_activation("SPC_DEVICE")
/*
 * Applies the epilogue to this lane's channels of an output row, from `co` on.
 */
SPC_DEVICE void finish(const float *sums, int where, int co, spc_u8 *out, const float *scale,
                       const float *bias, const spc_conv_args *args)
{
    int row[1] = {where};
    SPC_UNROLL
    for (int h = 0; h < 1; h++) {
        int store = row[h] >= 0$(ragged and " && co < " .. problem.cout or "");
            float v[$(channels)];
% write_lane_values(channels, "sums[i]", nil, true)
% write_lane_store(channels, "out + (long long)row[h] * " .. out_pitch(problem) * out_bytes(problem))
    }
}

SPC_KERNEL(spc_conv, spc_conv_args, $(config.threads), $(config.blocks))
{
    const spc_map_view *map = &args->map;
% if several then
    int part = spc_block_y() % $(parts_each);
% end
    int lane = spc_lane() % $(config.lanes), slot = spc_lane() / $(config.lanes);
    int co = $(several and "part * " .. config.lanes * channels .. " + " or "")lane * $(channels);
    const spc_u8 *in = (const spc_u8 *)spc_base((const spc_u8 *)args->in + co * $(element_bytes(problem)));
    spc_u8 *out = (spc_u8 *)spc_base((const spc_u8 *)args->out + co * $(out_bytes(problem)));
    const spc_u8 *weights = spc_shared() + $(image) + lane * 16;
    int step = spc_grid_x() * $(config.waves);
    int rank = spc_block_x() + spc_block_y() / $(parts_each) * spc_grid_x();
    int tile = tile_of(map, rank), buffer = 0;
    int next = tile_of(map, rank + step), after = tile_of(map, rank + 2 * step);
% if ragged then
    int outside = co < $(problem.cin) ? 0 : -1;
% end
    int warp = spc_warp();
    /* The indices that this thread copies: those of four rows, for offsets from `bit` on. */
    int bit = spc_thread() / $(quads), quad = spc_thread() % $(quads);
    int index_to = (bit + 1) * $(row_words) + quad * 16;
    long long index_step = (long long)map->rows_padded * $(ahead);
    const int *index_from = (const int *)spc_base(map->index + (long long)bit * map->rows_padded +
                                                  quad * 4);
    float scale[$(channels)], bias[$(channels)];

    for (int i = spc_thread() * 16; i < $(weights_bytes - image); i += $(config.threads * 16))
        spc_copy_async16(spc_shared() + $(image) + i,
                         (const spc_u8 *)args->weights$(several and " + (long long)part * " .. weights_bytes - image or "") + i, 16);
    /* Weights and indices of offset -1. */
    for (int i = spc_thread(); i < $(image // 4); i += $(config.threads))
        ((int *)spc_shared())[i] = 0;
    for (int i = spc_thread(); i < $(config.rows); i += $(config.threads)) {
        ((int *)stage_of(0))[i] = -1;
        ((int *)stage_of(1))[i] = -1;
    }
    /* Two tiles ahead: the masks decide which indices are copied. */
    fetch_rows(raw_of(0), tile, map);
    fetch_rows(raw_of(1), next, map);
    spc_copy_commit();
    SPC_UNROLL
    for (int i = 0; i < $(channels); i++) {
        int there = $(ragged and "co + i < " .. problem.cout or "1");
        scale[i] = $(problem.scale and "there ? spc_load_f32(args->scale + co + i) : 0.0f" or "0.0f");
        bias[i] = $(problem.bias == 1 and "there ? spc_load_f32(args->bias + co + i) : 0.0f" or "0.0f");
        (void)there;
    }
    spc_copy_wait(0);
    spc_sync_block();
    if (tile >= 0)
        fetch_indices(stage_of(0) + index_to, index_from, raw_of(0), bit, tile, index_step);
    spc_copy_commit();
    sort_rows(stage_of(0), raw_of(0), warp);
    spc_copy_wait(0);
    spc_sync_block();
% if problem.centre >= 0 then
    float centre[$(channels)];
    load_weights(centre, weights + $(problem.centre * image));
% end
    /* All reads above are of the map and the weights, which were complete
     * earlier. */
    spc_depend_wait();
    spc_depend_launch();
    int mine_at = $(index_size) + (warp * $(abreast) + slot) * 4;
    spc_u8 *stage = stage_of(0), *other = stage_of(1);
    SPC_ROLLED
    while (tile >= 0) {
        if (next >= 0)
            /* The next tile's indices arrive while this tile is computed. */
            fetch_indices(other + index_to, index_from, raw_of(buffer ^ 1), bit, next, index_step);
        fetch_rows(raw_of(buffer), after, map);
        spc_copy_commit();
        const int *mine = (const int *)(stage + mine_at);
        SPC_ROLLED
        for (int turn = 0; turn < $(groups // warps); turn++, mine += $(warps * abreast)) {
            const spc_u8 *index = stage + $(row_words) + mine[$(config.rows)];
            int order = mine[0];
            float sums[$(channels)];

            SPC_UNROLL
            for (int i = 0; i < $(channels); i++)
                sums[i] = 0.0f;
% if problem.centre >= 0 then
            spc_u32 self[4];
            load_part(self, in, order$(ragged and " | outside" or ""), 0);
% end
            for (int word = 0; word < $(words); word++) {
                spc_u32 rest = (spc_u32)mine[(2 + word) * $(config.rows)];
                /* The warp takes as many steps as its longest row needs. */
                int steps = 32 - (int)spc_warp_min((spc_u32)(32 - spc_popc(rest)));
% local arguments = "word * 32, index, in, weights" .. (ragged and ", outside" or "")
                SPC_ROLLED
                while (steps >= $(config.unroll)) {
                    rest = add_offsets(sums, rest, $(config.unroll), $(arguments));
                    steps -= $(config.unroll);
                }
% for n = config.unroll - 1, 1, -1 do
                if (steps == $(n))
                    add_offsets(sums, rest, $(n), $(arguments));
% end
            }
% if problem.centre >= 0 then
            multiply(sums, self, centre);
% end
            finish(sums, order, co, out, scale, bias, args);
        }
        sort_rows(other, raw_of(buffer ^ 1), warp);
        spc_copy_wait(0);
        spc_sync_block(); /* the next tile has arrived, and this one has been read */
        rank += step;
        tile = next;
        next = after;
        after = tile_of(map, rank + 2 * step);
        buffer ^= 1;
        spc_u8 *was = stage;
        stage = other;
        other = was;
    }
}

/* Packed: for each part of the channels [offset][16 bytes of a lane's weights][lane], zero
 * past the last channel. */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    const $(format_of(problem).device) *weights =
        (const $(format_of(problem).device) *)args->weights;
% local each, chunk = config.lanes * channels, 16 // weight
    int item = spc_block_x() * 256 + spc_thread(), k = item / $(each) % $(problem.offsets);
    int place = item % $(each), lane = place / $(chunk) % $(config.lanes);
    int channel = item / $(each * problem.offsets) * $(each) + lane * $(channels) +
                  place / $(chunk * config.lanes) * $(chunk) + item % $(chunk);

    if (item >= $(launch.pack_threads))
        return;
% local value = "weights[k * args->stride_k + channel * args->stride_out" .. group_stride("channel") .. "]"
% if weight == 2 then
    ((spc_u16 *)args->packed)[item] = channel < $(problem.cout) ? $(value) : 0;
% else
    ((float *)args->packed)[item] =
        channel < $(problem.cout) ? $(half and "spc_" .. short .. "_to_f32(" .. value .. ")" or value) : 0.0f;
% end
    spc_fence_global();
}
