%-- Convolution of native points on wgmma: inputs of a cell are added up, and the sums
%-- multiplied by weights that stream through shared memory.
%--
%-- A block has `groups` consuming warpgroups, each with 64 outputs that follow each other in
%-- the order of cells, and a warpgroup that serves them: one of its warps lists which
%-- offsets a tile has, a tile ahead; another brings the weights of one after the other into
%-- a ring of `stages`. So the weights of an offset are read once for 64 * groups outputs.
%--
%-- At an offset an output may have several inputs, or none. A warp takes as many steps as
%-- that of its 16 outputs which has most, and adds up rows in fp32, in registers, where
%-- lanes have them as first operands want them. Neighbours read the same rows, which the
%-- first cache holds. A sum has more bits than the type of the inputs: it is multiplied as
%-- two numbers of that type, or three of bf16; what is not in these is below 2^-22 of it.
%-- While products run, the next offset's inputs are added up.
%--
%-- A sum that no f16 holds makes its row infinite or no number. Such rows are computed anew,
%-- product by product, by the warp that has them.
%
%include "os_blocks.lua"
%
%local widths, several = {32, 64, 96, 128}, 96
%-- Numbers of the type that a sum of inputs becomes.
%local terms_of = {f16 = 2, bf16 = 3}
%
%local function stage_bytes(config) return config.pieces * config.n * 64 end
%-- Offsets of a tile, and an end.
%local function list_bytes(problem) return ceil_div(problem.offsets + 1, 4) * 16 end
%local function shared_bytes(problem, config)
%  return config.stages * (stage_bytes(config) + 16) + 2 * list_bytes(problem) + 32
%end
%-- Two blocks of one warpgroup share a multiprocessor.
%local function blocks_per_sm(config) return config.groups == 1 and 2 or 1 end
%-- What setmaxnreg may give a consumer when the others keep 32 registers.
%local function consumer_registers(config)
%  local launch = 65536 // ((config.groups + 1) * 128 * blocks_per_sm(config)) // 8 * 8
%  return math.min(240, (math.min(launch, 248) * (config.groups + 1) - 32) // config.groups // 8 * 8)
%end
%-- Sums of products, sums of inputs, both as operands, rows of two steps.
%local function registers_needed(problem, config)
%  return config.n // 2 + config.pieces * (32 + 8 * terms_of[problem.dtype]) + 42
%end
%
%template = {
%  summary = "points: sums of inputs from registers, weights streamed to wgmma",
%  role = "conv",
%  device = "cuda",
%  triplets = true,
%  params = {
%    {"groups", {1, 2, 3}, "consuming warpgroups, 64 rows each"},
%    {"n", widths, "output channels of a block"},
%    {"pieces", {1, 2}, "64-byte pieces of input rows in a step"},
%    {"stages", {2, 3, 4, 6}, "ring of weights"},
%  },
%  accepts = function(problem, target)
%    if not problem.triplets then return false, "needs a layer of points" end
%    if not terms_of[problem.dtype] then return false, "needs f16 or bf16" end
%    if problem.groups then return false, "one group alone" end
%    if target.target ~= "sm_90a" then return false, "needs wgmma (sm_90a)" end
%    if input_alignment(problem) < 16 then
%      return false, "rows in must be multiples of 16 bytes: points_mma takes any"
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
%      return bytes <= target.shared_block
%         and blocks_per_sm(config) * (bytes + 1024) <= target.shared_sm
%    end},
%    {"registers", function(problem, config)
%      return registers_needed(problem, config) <= consumer_registers(config)
%    end},
%  },
%  derive = function(problem, config, target)
%    local stages = config.stages * stage_bytes(config)
%    return {
%      k_blocks = row_pieces(problem) // config.pieces,
%      n_blocks = out_blocks(problem, config),
%      pieces = config.pieces, terms = terms_of[problem.dtype],
%      words = ceil_div(problem.offsets, 32), rows = config.groups * 64,
%      threads = (config.groups + 1) * 128, warps = config.groups * 4,
%      stage_size = stage_bytes(config), list_size = list_bytes(problem),
%      list_at = stages, barrier_at = stages + 2 * list_bytes(problem),
%      consumer_limit = consumer_registers(config), per_sm = blocks_per_sm(config),
%      lane_channels = channels_of_lane(problem), lane_sums = config.pieces * 16,
%      row_bytes = input_row_bytes(problem), row_pitch = input_pitch_bytes(problem),
%    }
%  end,
%  launch = function(problem, config, target)
%    local packed = packed_image(problem, config)
%    return {
%      block = (config.groups + 1) * 128, shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = blocks_per_sm(config),
%      grid_y = out_blocks(problem, config), tile_rows = config.groups * 64,
%      layout = "triplets", order = "none", preference = 1,
%      packed_bytes = packed, pack_threads = packed // 16, pdl = 1,
%    }
%  end,
%  default = function(problem, target)
%    -- NVIDIA H200, a room of 100000 points, 64->128: 344 us with 29 neighbours, 351 with
%    -- groups=2; points_mma 365. With 53 it takes 573 and points_mma 475, so that one is
%    -- preferred where nothing was measured.
%    return {groups = 1, n = least_wasting(problem, widths, several),
%            pieces = row_pieces(problem) % 2 == 0 and 2 or 1, stages = 2}
%  end,
%}
#include "spc_device.cuh"

typedef struct barriers {
    spc_u64 full[$(config.stages)], empty[$(config.stages)]; /* of weights */
    spc_u64 listed[2], read[2];                              /* of lists */
} barriers;

SPC_DEVICE barriers *all_barriers(void)
{
    return (barriers *)(spc_shared() + $(barrier_at));
}

/* The offsets of a tile, ascending, and -1; of no tile at all -2. */
SPC_DEVICE int *list_of(int slot)
{
    return (int *)(spc_shared() + $(list_at) + slot * $(list_size));
}

/* ---- what a tile has ----------------------------------------------------------- */

/* Which offsets some output of the tile has, whose first position is p: triplets of
 * neighbours follow each other. */
SPC_DEVICE void find_offsets(spc_u32 *seen, const spc_triplets_view *all, int p)
{
    int end = spc_load_int(all->first + p + $(rows));

    for (int t = spc_load_int(all->first + p) + spc_lane(); t < end; t += 32) {
        int k = spc_load_int(all->list + 2ll * t + 1);
        SPC_UNROLL
        for (int w = 0; w < $(words); w++)
            seen[w] |= k / 32 == w ? 1u << k % 32 : 0u;
    }
    SPC_UNROLL
    for (int w = 0; w < $(words); w++)
        SPC_UNROLL
        for (int by = 1; by < 32; by *= 2)
            seen[w] |= (spc_u32)spc_shfl_xor((int)seen[w], by);
}

SPC_DEVICE void write_list(int *list, const spc_u32 *seen)
{
    int count = 0;

    SPC_UNROLL
    for (int w = 0; w < $(words); w++) {
        if (seen[w] >> spc_lane() & 1u)
            list[count + spc_popc(seen[w] & ((1u << spc_lane()) - 1u))] = w * 32 + spc_lane();
        count += spc_popc(seen[w]);
    }
    if (spc_lane() == 0)
        list[count] = -1;
}

/* One warp lists the offsets of all tiles of the block, up to two ahead. */
SPC_DEVICE void list_tiles(const spc_conv_args *args)
{
    const spc_map_view *map = &args->map;
    barriers *b = all_barriers();
    int slot = 0, parity = 1;

    for (int tile = spc_block_x();; tile += spc_grid_x()) {
        int there = tile < map->tiles && spc_load_int(map->order + tile * $(rows)) >= 0;
        spc_u32 seen[$(words)];

        SPC_UNROLL
        for (int w = 0; w < $(words); w++)
            seen[w] = 0;
        if (there)
            find_offsets(seen, &args->triplets, tile * $(rows));
        spc_mbar_wait(b->read + slot, parity);
        if (there)
            write_list(list_of(slot), seen);
        else if (spc_lane() == 0)
            list_of(slot)[0] = -2;
        spc_sync_warp();
        if (spc_lane() == 0)
            spc_mbar_arrive(b->listed + slot);
        if (!there)
            return;
        if (++slot == 2) {
            slot = 0;
            parity ^= 1;
        }
    }
}

/* ---- weights --------------------------------------------------------------------- */

/* A place in the ring, and in which round it is there. */
typedef struct turn {
    int at, parity;
} turn;

SPC_DEVICE void next_turn(turn *t, int places)
{
    if (++t->at == places) {
        t->at = 0;
        t->parity ^= 1;
    }
}

/* One warp brings the weights of all tiles of the block. */
SPC_DEVICE void bring_weights(const spc_conv_args *args)
{
    const spc_u8 *weights =
        (const spc_u8 *)args->weights + (long long)spc_block_y() * $(stage_size);
    barriers *b = all_barriers();
    turn ring = {0, 1}, tile = {0, 0};

    for (;;) {
        const int *list = list_of(tile.at);
        spc_mbar_wait(b->listed + tile.at, tile.parity);
        if (list[0] == -2)
            return;
        for (int i = 0; list[i] >= 0; i++) {
            for (int block = 0; block < $(k_blocks); block++) {
                long long image = list[i] * $(k_blocks) + block;
                if (spc_lane() == 0) {
                    spc_mbar_wait(b->empty + ring.at, ring.parity);
                    spc_mbar_expect(b->full + ring.at, $(stage_size));
                    spc_bulk_copy(spc_shared() + ring.at * $(stage_size),
                                  weights + image * $(stage_size * n_blocks),
                                  $(stage_size), b->full + ring.at);
                }
                spc_sync_warp();
                next_turn(&ring, $(config.stages));
            }
        }
        if (spc_lane() == 0)
            spc_mbar_arrive(b->read + tile.at);
        next_turn(&tile, 2);
    }
}

/* ---- sums of inputs -------------------------------------------------------------- */

/* The triplets of the lane's two rows, g and g + 8 of the warp's. */
typedef struct loader {
    const spc_triplets_view *all;
    const spc_u8 *in;            /* the lane's part of the first row */
    int at[2], end[2];           /* the next triplet */
    int row[2], offset[2];       /* which was loaded ahead */
% if k_blocks > 1 then
    int begin[2];                /* of the offset */
% end
} loader;

SPC_DEVICE void look_ahead(loader *l, int h)
{
    spc_u32 entry[2] = {0, 0xffffffffu};

    spc_load8_into(entry, l->all->list + 2ll * l->at[h], l->at[h] < l->end[h] ? 0 : -1);
    l->row[h] = (int)entry[0];
    l->offset[h] = (int)entry[1];
}

SPC_DEVICE void begin_tile(loader *l, int p)
{
    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        l->at[h] = spc_load_int(l->all->first + p + 8 * h);
        l->end[h] = spc_load_int(l->all->first + p + 8 * h + 1);
% if k_blocks > 1 then
        l->begin[h] = l->at[h];
% end
        look_ahead(l, h);
    }
}

/* Has some row of the warp another input at offset k? */
SPC_DEVICE int has_more(const loader *l, int k)
{
    return spc_ballot(l->offset[0] == k || l->offset[1] == k) != 0;
}

/* Starts loading the next input at offset k of each row that has one; zeroes of others. */
SPC_DEVICE void take(loader *l, spc_u32 *data, int k, int block)
{
% if row_bytes % 64 ~= 0 then
    int byte = block * $(pieces * 64) + (spc_lane() & 3) * 16;
% end

    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        int present = l->offset[h] == k;
        const spc_u8 *from =
            l->in + (long long)l->row[h] * $(row_pitch) + block * $(pieces * 64);
        SPC_UNROLL
        for (int i = 0; i < $(pieces); i++) {
            spc_u32 *to = data + (h * $(pieces) + i) * 4;
            SPC_UNROLL
            for (int r = 0; r < 4; r++)
                to[r] = 0;
            spc_load16_into(to, from + i * 64, present$(byte_guard("byte + i * 64")) ? 0 : -1);
        }
        if (present) {
            l->at[h]++;
            look_ahead(l, h);
        }
    }
}

% if k_blocks > 1 then
/* The same inputs again, other channels; or those of the next offset. */
SPC_DEVICE void turn_over(loader *l, int again)
{
    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        if (!again)
            l->begin[h] = l->at[h];
        else if (l->at[h] != l->begin[h]) {
            l->at[h] = l->begin[h];
            look_ahead(l, h);
        }
    }
}

% end
SPC_DEVICE void add(float *sums, const spc_u32 *data)
{
    SPC_UNROLL
    for (int i = 0; i < $(lane_sums); i++)
        sums[i] += spc_$(problem.dtype)_to_f32((spc_u16)(data[i / 2] >> i % 2 * 16));
}

/* The sums of the offset and block at hand. `data` has the first inputs of it, if `some`;
 * when it is done those of what comes next, offset k_next in its block: whether there are
 * some is what it returns. */
SPC_DEVICE int sum_inputs(float *sums, loader *l, spc_u32 *data, int some, int k, int block,
                          int k_next, int block_next)
{
    SPC_UNROLL
    for (int i = 0; i < $(lane_sums); i++)
        sums[i] = 0.0f;
    for (;;) {
        spc_u32 later[$(pieces * 8)];
        int again = some && has_more(l, k);
        int other = again;

% if k_blocks > 1 then
        if (!again)
            turn_over(l, k_next == k);
% end
        if (!again)
            other = k_next >= 0 && has_more(l, k_next); /* -1: the end */
        if (other)
            take(l, later, again ? k : k_next, again ? block : block_next);
        if (some)
            add(sums, data);
        SPC_UNROLL
        for (int i = 0; i < $(pieces * 8); i++)
            data[i] = later[i];
        some = other;
        if (!again)
            return some;
    }
}

/* ---- products -------------------------------------------------------------------- */

/* A number of the type for each sum, in the order of first operands; the sums keep what
 * it leaves of them. */
SPC_DEVICE void take_term(spc_u32 *a, float *sums)
{
    SPC_UNROLL
    for (int i = 0; i < $(pieces * 8); i++) {
        int h = i / $(pieces * 4), r = i % $(pieces * 4);
        spc_u32 pair = spc_pack_$(problem.dtype)(sums[2 * i], sums[2 * i + 1]);
        a[r / 4 * 8 + r % 4 * 2 + h] = pair;
        sums[2 * i] -= spc_$(problem.dtype)_to_f32((spc_u16)pair);
        sums[2 * i + 1] -= spc_$(problem.dtype)_to_f32((spc_u16)(pair >> 16));
    }
}

SPC_DEVICE void multiply(float *acc, const spc_u32 *a, spc_u64 b)
{
    SPC_UNROLL
    for (int t = $(terms - 1); t >= 0; t--)
        SPC_UNROLL
        for (int k = 0; k < $(pieces * 2); k++)
            spc_wgmma_$(config.n)_$(problem.dtype)(acc, a + t * $(pieces * 8) + k * 4,
                                        b + k * $(config.n * 2), 1);
}

/* ---- rows that are no numbers ---------------------------------------------------- */

SPC_DEVICE int is_finite(const float *acc)
{
    int finite = 1;

    SPC_UNROLL
    for (int i = 0; i < $(config.n // 2); i++)
        finite &= acc[i] - acc[i] == 0.0f;
    return finite;
}

/* The lane's columns of row h, by a pair of channels of one input after the other. */
SPC_DEVICE void add_input(float *acc, int h, const spc_conv_args *args, int row, int k)
{
    const spc_u8 *in = (const spc_u8 *)args->in + (long long)row * $(row_pitch);

    SPC_ROLLED
    for (int byte = 0; byte < $(row_bytes); byte += 4) {
        long long image = (k * $(k_blocks) + byte / $(pieces * 64)) * $(n_blocks) + spc_block_y();
        int core = byte % $(pieces * 64) / 64 * 4 + byte % 16 / 4;
        const spc_u8 *weights = (const spc_u8 *)args->weights + image * $(stage_size) +
                                core * $(config.n * 16) + byte % 64 / 16 * 4 +
                                (spc_lane() & 3) * 32;
        spc_u32 x = spc_load4(in + byte);
        SPC_UNROLL
        for (int i = 0; i < $(config.n // 4); i++) {
            spc_u32 w = spc_load4(weights + i / 2 * 128 + i % 2 * 16);
            float *to = acc + i / 2 * 4 + h * 2 + i % 2;
            *to = spc_fma(spc_$(problem.dtype)_to_f32((spc_u16)x),
                          spc_$(problem.dtype)_to_f32((spc_u16)w), *to);
            *to = spc_fma(spc_$(problem.dtype)_to_f32((spc_u16)(x >> 16)),
                          spc_$(problem.dtype)_to_f32((spc_u16)(w >> 16)), *to);
        }
    }
}

/* The warp's rows anew; p is the lane's first position. */
SPC_DEVICE void sum_again(float *acc, const spc_conv_args *args, int p)
{
    SPC_UNROLL
    for (int i = 0; i < $(config.n // 2); i++)
        acc[i] = 0.0f;
    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        int end = spc_load_int(args->triplets.first + p + 8 * h + 1);
        SPC_ROLLED
        for (int t = spc_load_int(args->triplets.first + p + 8 * h); t < end; t++) {
            spc_b8 entry = spc_load8(args->triplets.list + 2ll * t);
            add_input(acc, h, args, (int)entry.x, (int)entry.y);
        }
    }
}

/* ---- the tile -------------------------------------------------------------------- */

% write_activation("SPC_DEVICE")
/* The epilogue; stores the lane's pieces of rows g and g + 8. */
SPC_DEVICE void finish(const float *acc, const spc_conv_args *args, int p)
{
    int first = spc_block_y() * $(config.n) + (spc_lane() & 3) * $(lane_channels);
    int row[2];

    row[0] = spc_load_int(args->map.order + p);
    row[1] = spc_load_int(args->map.order + p + 8);
    SPC_UNROLL
    for (int j = 0; j < $(config.n // (4 * lane_channels)); j++) {
        int co = first + j * $(4 * lane_channels);
        SPC_UNROLL
        for (int h = 0; h < 2; h++) {
            int store = row[h] >= 0 && co < $(problem.cout);
            float v[$(lane_channels)];
% write_lane_values(lane_channels, "acc[" .. sum_of_channel("j * " .. 2 * lane_channels, "h") .. "]")
% write_lane_store(lane_channels, "(spc_u8 *)args->out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem))
        }
    }
}

/* The products of one tile, whose offsets are listed; p is the lane's first position. */
SPC_DEVICE void sum_tile(float *acc, loader *l, turn *ring, const int *list, int p)
{
    barriers *b = all_barriers();
    spc_u32 data[$(pieces * 8)], a[$(terms * pieces * 8)];
    float sums[$(lane_sums)];
    int k = list[0], block = 0, busy = -1; /* the stage that products are reading */

    begin_tile(l, p);
    int some = has_more(l, k);
    if (some)
        take(l, data, k, 0);
    while (k >= 0) {
        int block_next = block + 1 < $(k_blocks) ? block + 1 : 0;
        int k_next = block_next > 0 ? k : *++list;

        some = sum_inputs(sums, l, data, some, k, block, k_next, block_next);
        spc_wgmma_wait(0);
        if (busy >= 0 && spc_lane() == 0)
            spc_mbar_arrive(b->empty + busy);
        SPC_UNROLL
        for (int t = 0; t < $(terms); t++)
            take_term(a + t * $(pieces * 8), sums);
        spc_mbar_wait(b->full + ring->at, ring->parity);
        spc_wgmma_fence();
        multiply(acc, a, spc_wgmma_descriptor(spc_shared() + ring->at * $(stage_size),
                                              $(config.n * 16), 128));
        spc_wgmma_commit();
        busy = ring->at;
        next_turn(ring, $(config.stages));
        k = k_next;
        block = block_next;
    }
    spc_wgmma_wait(0);
    if (busy >= 0 && spc_lane() == 0)
        spc_mbar_arrive(b->empty + busy);
}

SPC_DEVICE void consume(const spc_conv_args *args)
{
    int first = spc_warp() * 16 + (spc_lane() >> 2);
    barriers *b = all_barriers();
    turn ring = {0, 0}, listed = {0, 0};
    float acc[$(config.n // 2)];
    loader l;

    l.all = &args->triplets;
    l.in = (const spc_u8 *)spc_base((const spc_u8 *)args->in + (spc_lane() & 3) * 16);
    for (int tile = spc_block_x();; tile += spc_grid_x()) {
        int p = tile * $(rows) + first;

        spc_mbar_wait(b->listed + listed.at, listed.parity);
        if (list_of(listed.at)[0] == -2)
            return;
        SPC_UNROLL
        for (int i = 0; i < $(config.n // 2); i++)
            acc[i] = 0.0f;
        sum_tile(acc, &l, &ring, list_of(listed.at), p);
        spc_sync_warp();
        if (spc_lane() == 0)
            spc_mbar_arrive(b->read + listed.at);
        next_turn(&listed, 2);
        if (spc_ballot(!is_finite(acc)))
            sum_again(acc, args, p);
        finish(acc, args, p);
    }
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(per_sm))
{
    barriers *b = all_barriers();

    if (spc_thread() == 0) {
        for (int i = 0; i < $(config.stages); i++) {
            spc_mbar_init(b->full + i, 1);
            spc_mbar_init(b->empty + i, $(warps));
        }
        for (int i = 0; i < 2; i++) {
            spc_mbar_init(b->listed + i, 1);
            spc_mbar_init(b->read + i, $(warps + 1));
        }
        spc_mbar_fence();
    }
    spc_sync_block();
    spc_depend_wait();
    spc_depend_launch();
    if (spc_warp() < $(warps)) {
        spc_registers_raise($(consumer_limit));
        consume(args);
        return;
    }
    spc_registers_lower(32);
    if (spc_warp() == $(warps))
        list_tiles(args);
    else if (spc_warp() == $(warps + 1))
        bring_weights(args);
}

% write_weight_word()
/*
 * The packed image: [offset][k-block][n-block] stages, each in core matrices
 * [core along k][n columns][16 bytes]. Cores 4 p .. 4 p + 3 belong to piece p; of core c,
 * the 4 bytes number q are what lane q of a quad holds in register c of its 16 bytes.
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
        v[q] = weight_word(args, offset, byte, co);
    }
% write_packed("(long long)item")
}
