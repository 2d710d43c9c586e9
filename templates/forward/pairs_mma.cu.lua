%-- Weight-stationary convolution on pairs by offset. An offset's weights are multiplied by
%-- the rows that it pairs, and the results of several offsets for one row are added up.
%--
%-- A block has a run of tiles, each with `rows` pairs of one offset. Inputs of a tile come
%-- through a ring of asynchronous copies. The weights of the offset are loaded once and stay
%-- (`weights = "stay"`), or come through the ring with the rows. `join` selects what happens
%-- to a tile's sums:
%--
%--   places  gather, multiply, scatter without atomics: each pair writes a row of fp32 to
%--           its place in the workspace. The kernel spc_sum adds the rows of an output row,
%--           which are contiguous, in the order of offsets. The same in every run.
%--   atomic  each pair adds its row to the output's: to the fp32 output itself if it has
%--           no epilogue, else to a row of the workspace, which spc_sum finishes.
%--
%-- Hybrid: offsets less than `near` steps from the middle of the kernel (L1) are summed by
%-- spc_sum tile by tile in registers, output-stationary, and the results of the other
%-- offsets' pairs are added there. 0: all offsets are processed by pairs. One more than the
%-- farthest distance: no offset is, and there is no second kernel.
%
%include "ring_mma.lua"
%
%-- The distance of offset k from the middle, in steps of the kernel.
%local function distance(problem, k)
%  local sum = 0
%  for _, size in ipairs {problem.kz, problem.ky, problem.kx} do
%    sum = sum + math.abs(k % size - (size - 1) // 2)
%    k = k // size
%  end
%  return sum
%end
%-- One more than the farthest distance.
%local function all_near(problem)
%  local most = 0
%  for k = 0, problem.offsets - 1 do most = math.max(most, distance(problem, k)) end
%  return most + 1
%end
%function is_near(problem, config, k)
%  return config.near > 0 and distance(problem, k) < config.near
%end
%function has_pairs(problem, config)
%  return config.near == 0 or config.near < all_near(problem)
%end
%function adds_out(problem, config)
%  return config.join == "atomic" and config.near == 0 and is_plain(problem)
%     -- Every row has one pair at the centre, with itself: there the bias is
%     -- added.
%     and element_bytes(problem) == 4 and problem.centre >= 0
%end
%function stays(problem, config) return config.weights == "stay" and has_pairs(problem, config) end
%-- Floats from row to row of the workspace.
%local function sum_pitch(problem)
%  return ceil_div(problem.cout, 16 // element_bytes(problem)) * (16 // element_bytes(problem))
%end
%-- Shared memory of the kernel of pairs: the ring, the weights that stay, and the
%-- tiles of each offset.
%local function weights_bytes(problem, config)
%  return stays(problem, config) and k_blocks_of(problem, config) * image_bytes(config) or 0
%end
%local function shared_bytes(problem, config)
%  return ring_bytes(config, stays(problem, config)) + weights_bytes(problem, config)
%       + (problem.offsets + 1) * 4
%end
%
%template = {
%  summary = "weight-stationary by offset, places or atomics; hybrids; cp.async and mma.sync",
%  role = "conv",
%  device = "cuda",
%  triplets = true,
%  params = {
%    ring_params[1], ring_params[2], ring_params[3], ring_params[4],
%    {"weights", {"stay", "stream"}, "weights of an offset in shared memory"},
%    {"join", {"places", "atomic"}, "how rows of several offsets are added"},
%    {"near", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "offsets nearer than so many steps by tiles"},
%  },
%  accepts = function(problem, target)
%    local ok, why = ring_accepts(problem, target)
%    if not ok then return false, why end
%    -- A single offset needs no joining, and its layer may have no map.
%    if problem.offsets == 1 then return false, "needs several offsets" end
%    if input_alignment(problem) == 2 then
%      return false, "rows must be multiples of 4 bytes"
%    end
%    return true
%  end,
%  constraints = ring_constraints {
%    {"shared memory", function(problem, config, target)
%      return shared_bytes(problem, config) <= target.shared_block
%         and (config.near == 0 or ring_bytes(config) <= target.shared_block)
%    end},
%    {"there are offsets so far away", function(problem, config)
%      return config.near == 0
%         or not problem.list and not problem.triplets and config.near <= all_near(problem)
%    end},
%    {"without pairs nothing stays and nothing is joined", function(problem, config)
%      return has_pairs(problem, config)
%         or config.weights == "stream" and config.join == "places"
%    end},
%  },
%  derive = function(problem, config, target)
%    local all = ring_derive(problem, config, stays(problem, config))
%    all.pitch = sum_pitch(problem)
%    all.chunks = ceil_div(problem.cout, all.lane_channels)
%    all.weights_at = ring_bytes(config, all.stay)
%    all.tiles_at = all.weights_at + weights_bytes(problem, config)
%    all.by_pairs = has_pairs(problem, config)
%    all.by_tiles = config.near > 0
%    all.places = config.join == "places"
%    all.direct = adds_out(problem, config)
%    return all
%  end,
%  launch = function(problem, config, target)
%    local packed, pairs = packed_image(problem, config), has_pairs(problem, config)
%    local out = {
%      block = ring_warps * 32, grid_y = out_blocks(problem, config),
%      packed_bytes = packed, pack_threads = packed // 16,
%      pdl = target.sm >= 90 and 1 or 0, preference = -1,
%      layout = config.near == 0 and "pairs" or pairs and "both" or "table",
%      order = config.near > 0 and "gray" or "none",
%      tile_rows = config.near > 0 and ring_rows(config) or 32,
%    }
%    if not pairs then
%      out.grid = "tiles"
%      out.shared = ring_bytes(config)
%      return out
%    end
%    out.grid = "steps"
%    out.shared = shared_bytes(problem, config)
%    out.blocks_per_sm = ring_blocks(problem, config, target, out.shared)
%    if config.join == "atomic" then out.atomics = 1 end
%    if adds_out(problem, config) then
%      out.clear = 1
%      return out
%    end
%    if config.join == "atomic" then
%      out.clear_workspace = 1
%      out.workspace_row_bytes = sum_pitch(problem) * 4
%    else
%      out.workspace_pair_bytes = sum_pitch(problem) * 4
%    end
%    out.sum_block = config.near > 0 and ring_warps * 32 or 256
%    out.sum_grid_y = config.near > 0 and out.grid_y or 1
%    out.sum_shared = config.near > 0 and ring_bytes(config) or 0
%    return out
%  end,
%  default = function(problem, target)
%    local config = ring_default(problem)
%    config.weights, config.join, config.near = "stay", "places", 0
%    if shared_bytes(problem, config) > target.shared_block then config.weights = "stream" end
%    while shared_bytes(problem, config) > target.shared_block do
%      if config.stages > 2 then config.stages = 2
%      elseif config.pieces > 1 then config.pieces = 1
%      else config.m = 1 break end
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"

% write_ring()
% write_multiply()
% if by_tiles and by_pairs then
/* The bits of a mask word whose offsets are processed by pairs. */
SPC_DEVICE spc_u32 far_bits(int word)
{
    spc_u32 bits = 0;

%   for w = 0, words - 1 do
%     local bits = 0
%     for k = 32 * w, math.min(32 * w + 31, problem.offsets - 1) do
%       if not is_near(problem, config, k) then bits = bits | 1 << k % 32 end
%     end
    if (word == $(w))
        bits = $(string.format("0x%08xu", bits));
%   end
    return bits;
}

% end
%local function far_of(word, mask)
%  return by_tiles and by_pairs and mask .. " & far_bits(" .. word .. ")" or mask
%end
% if by_pairs then
/* ---- pairs ---------------------------------------------------------------- */

/* The first tile of each offset, followed by the number of all tiles. */
SPC_DEVICE void number_tiles(int *tiles, const spc_pairs_view *pairs)
{
    int sum = 0;

    if (spc_warp() == 0) {
        for (int first = 0; first < $(problem.offsets); first += 32) {
            int k = first + spc_lane(), count = 0;
            if (k < $(problem.offsets)$(by_tiles and " && far_bits(first / 32) >> spc_lane() & 1u" or ""))
                count = (spc_load_int(pairs->begin + k + 1) - spc_load_int(pairs->begin + k) +
                         $(rows - 1)) / $(rows);
            /* A scan by Hillis and Steele: after five steps `upto` is the sum
             * of the lanes up to this one. */
            int upto = count;
            for (int by = 1; by < 32; by *= 2) {
                int below = spc_shfl_up(upto, by);
                if (spc_lane() >= by)
                    upto += below;
            }
            if (k < $(problem.offsets))
                tiles[k] = sum + upto - count;
            sum += spc_shfl(upto, 31);
        }
        if (spc_lane() == 0)
            tiles[$(problem.offsets)] = sum;
    }
    spc_sync_block();
}

/* The loading side of a run of tiles of one offset, stages - 1 steps ahead. */
typedef struct loader {
    const int *in; /* the input rows of this offset's pairs */
    int left;      /* remaining steps */
    int block;     /* block of input channels of the previous step */
    int pair, end; /* of the lane's next tile, and of the offset's pairs */
    int row[$(2 * config.m)], next_row[$(2 * config.m)];
} loader;

SPC_DEVICE void look_ahead(loader *l)
{
    SPC_UNROLL
    for (int h = 0; h < $(2 * config.m); h++)
        /* A tile's last rows may be past the offset's last pair. */
        l->next_row[h] = l->pair + 8 * h < l->end ? spc_load_int(l->in + l->pair + 8 * h) : -1;
    l->pair += $(rows);
}

/* Starts the copies of the next step. Always commits one group. */
SPC_DEVICE void load_next(loader *l, int stage, int k, const spc_conv_args *args)
{
    if (++l->block == $(k_blocks)) {
        l->block = 0;
        SPC_UNROLL
        for (int h = 0; h < $(2 * config.m); h++)
            l->row[h] = l->next_row[h];
        look_ahead(l);
    }
    if (l->left-- > 0) {
        load_rows(stage, (const spc_u8 *)args->in, l->row, l->block * $(config.pieces * 64));
%   if not stay then
        load_image(spc_shared() + stage * $(stage_size), args, k * $(k_blocks) + l->block);
%   end
    }
    /* Without copies as well: waits count groups, and each step must be one. */
    spc_copy_commit();
}

/* Reads the targets of the lane's rows of a tile of pairs; -1 past the offset's
 * last pair. */
SPC_DEVICE void load_targets(int *to, int pair, int end, const spc_pairs_view *pairs)
{
    SPC_UNROLL
    for (int h = 0; h < $(2 * config.m); h++)
        to[h] = pair + 8 * h < end ? spc_load_int(pairs->$(places and "place" or "out") + pair + 8 * h) : -1;
}

/* Stores or adds the sums of a tile of offset k. */
SPC_DEVICE void join(const float *acc, const int *to, int k, const spc_conv_args *args)
{
    float *sums = (float *)args->$(direct and "out" or "workspace");

    (void)k;
%   write_lane_loop(function()
            float *at = sums + (long long)to[h] * $(direct and problem.cout or pitch) + co;
            if (to[h] < 0 || co >= $(problem.cout))
                continue;
%     if places then
            SPC_UNROLL
            for (int i = 0; i < $(lane_channels); i += 4) {
                spc_b16 w;
%       for c, name in ipairs {"x", "y", "z", "w"} do
                w.$(name) = spc_f32_bits(d[$(sum_of_channel("j * " .. 2 * lane_channels, "h % 2"):gsub("%f[%w]i%f[%W]", "(i + " .. c - 1 .. ")"))]);
%       end
                spc_store16(at + i, w);
            }
%     else
            SPC_UNROLL
            for (int i = 0; i < $(lane_channels); i++)
                if (co + i < $(problem.cout))
                    spc_atomic_add_f32(at + i, $(sum_at())$(direct and problem.bias == 1 and " + (k == " .. problem.centre .. " ? spc_load_f32(args->bias + co + i) : 0.0f)" or ""));
%     end
%   end)
}

/* Processes `count` tiles of offset k, from its tile `first` on. */
SPC_DEVICE void run_offset(int k, int first, int count, const spc_conv_args *args)
{
    const spc_pairs_view *pairs = &args->pairs;
    int begin = spc_load_int(pairs->begin + k), end = spc_load_int(pairs->begin + k + 1);
    int pair = begin + first * $(rows) + $(lane_row());
    float acc[$(config.m * config.n // 2)];
    int to[$(2 * config.m)], block = 0, stage = 0;
    loader l;

    l.in = pairs->in;
    l.left = count * $(k_blocks);
    /* The first load_next() therefore takes the rows that look_ahead() reads
     * here. */
    l.block = $(k_blocks - 1);
    l.pair = pair;
    l.end = end;
    look_ahead(&l);
    clear(acc);
    spc_sync_block(); /* all have finished with the ring and the weights */
%   if stay then
    for (int image = 0; image < $(k_blocks); image++) /* in the same group as the first step */
        load_image(spc_shared() + $(weights_at) + image * $(weight_size), args,
                   k * $(k_blocks) + image);
%   end
    SPC_ROLLED
    for (int i = 0; i < $(config.stages - 1); i++)
        load_next(&l, i, k, args);
    for (int steps = count * $(k_blocks); steps > 0; steps--) {
        if (block == 0)
            load_targets(to, pair, end, pairs);
        /* After the barrier the step has arrived for the whole block, and all
         * warps have finished with the stage that is loaded next. */
        spc_copy_wait($(config.stages - 2));
        spc_sync_block();
        load_next(&l, stage == 0 ? $(config.stages - 1) : stage - 1, k, args);
        multiply(acc, stage, spc_shared() + $(stay and weights_at .. " + block * " .. weight_size or "stage * " .. stage_size));
        if (++stage == $(config.stages))
            stage = 0;
        if (++block == $(k_blocks)) {
            block = 0;
            pair += $(rows);
            join(acc, to, k, args);
            clear(acc);
        }
    }
    spc_copy_wait(0);
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), 1)
{
    int *tiles = (int *)(spc_shared() + $(tiles_at));
    int k = 0;

    spc_depend_wait();
    spc_depend_launch();
    number_tiles(tiles, &args->pairs);
    /* Every block has the same number of tiles, of as few offsets as possible.
     * In 64 bits, for the products below. */
    long long all = tiles[$(problem.offsets)];
    int tile = (int)(all * spc_block_x() / spc_grid_x());
    int end = (int)(all * (spc_block_x() + 1) / spc_grid_x());
    while (tile < end) {
        /* Offsets without pairs have no tiles. */
        while (tiles[k + 1] <= tile)
            k++;
        int stop = tiles[k + 1] < end ? tiles[k + 1] : end;
        run_offset(k, tile - tiles[k], stop - tile, args);
        tile = stop;
    }
}

%   if not direct then
/* u[0 .. $(lane_channels - 1)] += the results of pairs for output row `row`, at position p of
 * the map, from channel co on. */
SPC_DEVICE void add_pairs(float *u, const spc_conv_args *args, int p, int row, int co)
{
    const float *sums = (const float *)args->workspace + co;
    spc_u32 v[$(lane_channels)];

%     if places and problem.triplets then
    int end = row < 0 ? 0 : spc_load_int(args->triplets.first + p + 1);
    for (int at = row < 0 ? 0 : spc_load_int(args->triplets.first + p); at < end; at++) {
        SPC_UNROLL
        for (int i = 0; i < $(lane_channels); i += 4)
            spc_load16_into(v + i, sums + (long long)at * $(pitch) + i, 0);
        SPC_UNROLL
        for (int i = 0; i < $(lane_channels); i++)
            u[i] += spc_bits_f32(v[i]);
    }
%     elseif places then
    int place = row < 0 ? 0 : spc_load_int(args->pairs.first + row);
    for (int word = 0; word < $(words); word++) {
        spc_u32 mask = row < 0 ? 0u : spc_load4(args->map.mask + (long long)word * args->map.rows_padded + p);
        for (spc_u32 left = $(far_of("word", "mask")); left; left &= left - 1) {
            /* A row's places are in the order of its offsets: the place of one
             * is the number of offsets below it in the mask. */
            int at = place + spc_popc(mask & ((left & (0u - left)) - 1u));
            SPC_UNROLL
            for (int i = 0; i < $(lane_channels); i += 4)
                spc_load16_into(v + i, sums + (long long)at * $(pitch) + i, 0);
            SPC_UNROLL
            for (int i = 0; i < $(lane_channels); i++)
                u[i] += spc_bits_f32(v[i]);
        }
        place += spc_popc(mask);
    }
%     else
    SPC_UNROLL
    for (int i = 0; i < $(lane_channels); i++)
        v[i] = 0;
    SPC_UNROLL
    for (int i = 0; i < $(lane_channels); i += 4)
        spc_load16_into(v + i, sums + (long long)row * $(pitch) + i, row);
    SPC_UNROLL
    for (int i = 0; i < $(lane_channels); i++)
        u[i] += spc_bits_f32(v[i]);
%     end
}

%   end
% end
% write_activation("SPC_DEVICE")
% if by_tiles then
/* ---- tiles ---------------------------------------------------------------- */

/* The loading side of a tile: its near offsets, one after the other. */
typedef struct loader_of_tile {
    const int *index; /* of the lane's first row */
    int rank, word;   /* of the tile; of the mask word of `rest` */
    spc_u32 rest;     /* remaining offsets */
    int left, block;  /* remaining steps; of input channels, of the previous step */
    int offset, next_offset;
    int row[$(2 * config.m)], next_row[$(2 * config.m)];
} loader_of_tile;

SPC_DEVICE spc_u32 near_of_tile(const spc_map_view *map, int word, int rank)
{
    return spc_load4(map->tile_mask + word * map->tiles + rank)$(by_pairs and " & ~far_bits(word)" or "");
}

SPC_DEVICE void look_ahead_in_tile(loader_of_tile *l, const spc_map_view *map)
{
    while (l->rest == 0 && ++l->word < $(words))
        l->rest = near_of_tile(map, l->word, l->rank);
    if (l->rest == 0)
        return;
    l->next_offset = l->word * 32 + spc_ffs(l->rest) - 1;
    l->rest &= l->rest - 1;
    SPC_UNROLL
    for (int h = 0; h < $(2 * config.m); h++)
        l->next_row[h] =
            spc_load_int(l->index + (long long)l->next_offset * map->rows_padded + 8 * h);
}

/* Starts the copies of the next step. Always commits one group. */
SPC_DEVICE void load_next_of_tile(loader_of_tile *l, int stage, const spc_conv_args *args)
{
    if (++l->block == $(k_blocks)) {
        l->block = 0;
        l->offset = l->next_offset;
        SPC_UNROLL
        for (int h = 0; h < $(2 * config.m); h++)
            l->row[h] = l->next_row[h];
        look_ahead_in_tile(l, &args->map);
    }
    if (l->left-- > 0) {
% local image_at = stay and rows * config.pieces * 64 * config.stages .. " + stage * " .. weight_size or "stage * " .. stage_size
        load_rows(stage, (const spc_u8 *)args->in, l->row, l->block * $(config.pieces * 64));
        load_image(spc_shared() + $(image_at), args, l->offset * $(k_blocks) + l->block);
    }
    /* As above, each step must be one group. */
    spc_copy_commit();
}

SPC_KERNEL($(by_pairs and "spc_sum" or "spc_conv"), spc_conv_args, $(threads), 1)
{
    const spc_map_view *map = &args->map;
    int tile = spc_load_int(map->tile_order + spc_block_x());
    int p = tile * $(rows) + $(lane_row());
    float acc[$(config.m * config.n // 2)];
    int row[$(2 * config.m)], stage = 0;
    loader_of_tile l;

    /* The rest of the grid covers the map's capacity. Its blocks wait like the
     * others, so that this kernel ends after the previous one. */
    if (tile < 0) {
        spc_depend_wait();
        return;
    }
    l.index = map->index + p;
    /* Masks of tiles are in the order of tile_order: the rank finds one, not
     * the tile. */
    l.rank = spc_block_x();
    /* look_ahead_in_tile() goes on to the first word. */
    l.word = -1;
    l.rest = 0;
    l.left = 0;
    l.block = $(k_blocks - 1);
    l.next_offset = 0;
    for (int word = 0; word < $(words); word++)
        l.left += spc_popc(near_of_tile(map, word, l.rank)) * $(k_blocks);
    int steps = l.left;
    look_ahead_in_tile(&l, map);
    SPC_UNROLL
    for (int h = 0; h < $(2 * config.m); h++)
        row[h] = spc_load_int(map->order + p + 8 * h);
    clear(acc);
% if not by_pairs then
    spc_depend_wait();
    spc_depend_launch();
% end
    SPC_ROLLED
    for (int i = 0; i < $(config.stages - 1); i++)
        load_next_of_tile(&l, i, args);
    for (; steps > 0; steps--) {
        /* After the barrier the step has arrived for the whole block, and the
         * stage that is loaded next is free. */
        spc_copy_wait($(config.stages - 2));
        spc_sync_block();
        load_next_of_tile(&l, stage == 0 ? $(config.stages - 1) : stage - 1, args);
        multiply(acc, stage, spc_shared() + $(image_at));
        if (++stage == $(config.stages))
            stage = 0;
    }
    spc_copy_wait(0);
% if by_pairs then
    /* The inputs were complete before the kernel of pairs began; its sums are
     * complete now. */
    spc_depend_wait();
    spc_depend_launch();
% end
% write_lane_loop(function()
%   if by_pairs then
            float u[$(lane_channels)];
            SPC_UNROLL
            for (int i = 0; i < $(lane_channels); i++)
                u[i] = $(sum_at());
            add_pairs(u, args, p + 8 * h, co < $(problem.cout) ? row[h] : -1, co);
%     write_finish("u[i]")
%   else
%     write_finish(sum_at())
%   end
% end)
}

% elseif not direct then
/* A thread has 16 bytes of an output row at a time, in the type of the inputs. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    const spc_map_view *map = &args->map;

    spc_depend_wait();
    spc_depend_launch();
    for (int item = spc_thread(); item < $(32 * chunks); item += 256) {
        int p = spc_block_x() * 32 + item / $(chunks), h = 0;
        int co = item % $(chunks) * $(lane_channels), row[1];
        float u[$(lane_channels)];
        SPC_UNROLL
        for (int i = 0; i < $(lane_channels); i++)
            u[i] = 0.0f;
        row[0] = spc_load_int(map->order + p);
        add_pairs(u, args, p, row[0], co);
        {
% write_finish("u[i]")
        }
    }
}

% end
% write_ring_pack()
