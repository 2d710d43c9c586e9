%-- Convolution of native points with mma.sync: output-stationary over triplets.
%--
%-- The outputs of a tile are neighbours, in the order of their cells. A warp has 16 * m of
%-- them, keeps their sums in registers, and processes the offsets in ascending order. At an
%-- offset an output may have several inputs or none. The warp takes as many steps as the
%-- output with the most inputs. Each step takes the next input of every output that has
%-- another one. Useless products arise only where the outputs of a warp differ in their
%-- number of inputs at an offset. Only the results are written.
%--
%-- `adds` selects which values are summed first. `products`: every step
%-- multiplies its rows by the weights. `inputs`: steps add up rows in fp32, and
%-- at the end of an offset the sums are multiplied, once for all inputs of a
%-- cell. A sum has more bits than the type of the inputs. It is therefore
%-- multiplied as two numbers of that type, or as three of bf16; f32 is
%-- multiplied as usual. The part that these numbers cannot hold is below 2^-22
%-- of the sum, as with f32.
%--
%-- Rows come through a ring of asynchronous copies of each lane's own rows. It continues
%-- across offsets and needs no barrier. The whole block loads the weights of an offset, one
%-- offset ahead, and uses them in all steps of that offset. The warps synchronise only once
%-- for each offset (and block of input channels).
%
%include "ring_mma.lua"
%include "points_counts.lua"
%
%-- Numbers of the input type that represent a sum of inputs.
%local terms_of = {f16 = 2, bf16 = 3, tf32 = 2, f32 = 1}
%-- Registers for the sums of inputs of a lane, and for the numbers that they are
%-- converted to.
%local function sum_registers(problem, config)
%  return config.m * config.pieces * 2 * (16 // element_bytes(problem)) + config.m * 16
%end
%local function weights_bytes(config) return 2 * image_bytes(config) end
%local function shared_bytes(problem, config)
%  return ring_bytes(config, true) + weights_bytes(config) + counts_bytes(problem)
%end
%
%template = {
%  summary = "points: output-stationary over triplets, cp.async and mma.sync",
%  role = "conv",
%  device = "cuda",
%  triplets = true,
%  params = {
%    ring_params[1], ring_params[2], ring_params[3],
%    {"stages", {2, 3, 4}, "steps whose rows are under way, and one more"},
%    {"adds", {"inputs", "products"}, "what is added up first"},
%  },
%  accepts = function(problem, target)
%    if not problem.triplets then return false, "needs a layer of points" end
%    if input_alignment(problem) == 2 then
%      return false, "rows must be multiples of 4 bytes"
%    end
%    return ring_accepts(problem, target)
%  end,
%  constraints = ring_constraints {
%    {"shared memory", function(problem, config, target)
%      return shared_bytes(problem, config) <= target.shared_block
%    end},
%    {"sums fit the registers", function(problem, config)
%      return config.adds == "products"
%         or ring_registers(problem, config) + sum_registers(problem, config) <= 224
%    end},
%  },
%  derive = function(problem, config, target)
%    local all = ring_derive(problem, config, true)
%    all.weights_at = ring_bytes(config, true)
%    all.counts_at = all.weights_at + weights_bytes(config)
%    all.ahead = config.stages - 1
%    all.lane_rows = 2 * config.m
%    all.by_sums = config.adds == "inputs"
%    all.terms = terms_of[problem.dtype]
%    all.lane_sums = 2 * config.m * config.pieces * all.lane_channels
%    return all
%  end,
%  launch = function(problem, config, target)
%    local packed = packed_image(problem, config)
%    return {
%      block = ring_warps * 32, grid = "tiles", grid_y = out_blocks(problem, config),
%      shared = shared_bytes(problem, config), tile_rows = ring_rows(config),
%      layout = "triplets", order = "none", preference = 2,
%      packed_bytes = packed, pack_threads = packed // 16,
%      pdl = target.sm >= 90 and 1 or 0,
%    }
%  end,
%  default = function(problem, target)
%    local config = ring_default(problem)
%    config.m = 1
%    -- NVIDIA H200, a room of 100000 points, 29 neighbours each: 64->128 takes 365 us by
%    -- inputs and 499 us by products; 32->64 takes 277 us (before sums were halved) and
%    -- 212 us.
%    config.adds = problem.cout > 64 and "inputs" or "products"
%    while shared_bytes(problem, config) > target.shared_block do
%      if config.stages > 2 then config.stages = 2 else config.pieces = 1 break end
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"

% write_ring()
% if by_sums then
%   write_split()
SPC_DEVICE void clear(float *acc)
{
    SPC_UNROLL
    for (int i = 0; i < $(config.m * config.n // 2); i++)
        acc[i] = 0.0f;
}

% else
%   write_multiply()
% end
% write_counts()
/* ---- the loading side of a warp: `ahead` steps before the products ----------- */

typedef struct loader {
    const spc_triplets_view *all;
    const int *counts;
    int k, left;  /* offset, and its remaining steps */
% if k_blocks > 1 then
    int block;    /* of input channels */
    int begin[$(lane_rows)];
% end
    int at[$(lane_rows)], end[$(lane_rows)]; /* the next triplet of each of the lane's rows */
    int row[$(lane_rows)], offset[$(lane_rows)]; /* of that triplet, loaded ahead */
} loader;

SPC_DEVICE void look_ahead(loader *l, int h)
{
    spc_b8 entry = {0, 0xffffffffu};

    if (l->at[h] < l->end[h])
        entry = spc_load8(l->all->list + 2ll * l->at[h]);
    l->row[h] = (int)entry.x;
    l->offset[h] = (int)entry.y;
}

/* Moves to the warp's next offset if the current one has no more steps. */
SPC_DEVICE void turn_over(loader *l)
{
% if k_blocks > 1 then
    if (l->k >= 0 && l->block + 1 < $(k_blocks)) { /* the same inputs, other channels */
        l->block++;
        l->left = l->counts[l->k];
        SPC_UNROLL
        for (int h = 0; h < $(lane_rows); h++) {
            l->at[h] = l->begin[h];
            look_ahead(l, h);
        }
        return;
    }
    l->block = 0;
    SPC_UNROLL
    for (int h = 0; h < $(lane_rows); h++)
        l->begin[h] = l->at[h];
% end
    do
        l->k++;
    while (l->k < $(problem.offsets) && l->counts[l->k] == 0);
    l->left = l->k < $(problem.offsets) ? l->counts[l->k] : 0x7fffffff;
}

/* Starts the copies of the warp's next step, if there is one. Always commits one
 * group. */
SPC_DEVICE void load_next(loader *l, int stage, const spc_conv_args *args)
{
    int row[$(lane_rows)];

    if (l->left == 0)
        turn_over(l);
    if (l->k < $(problem.offsets)) {
        l->left--;
        SPC_UNROLL
        for (int h = 0; h < $(lane_rows); h++) {
            /* Lists are in ascending order of offsets, so an output without a
             * triplet of this offset waits with its next one. */
            row[h] = l->offset[h] == l->k ? l->row[h] : -1;
            if (row[h] >= 0) {
                l->at[h]++;
                look_ahead(l, h);
            }
        }
        load_rows(stage, (const spc_u8 *)args->in, row, $(k_blocks > 1 and "l->block * " .. config.pieces * 64 or "0"));
    }
    spc_copy_commit();
}

SPC_DEVICE void begin_loading(loader *l, const spc_conv_args *args, int p)
{
    l->all = &args->triplets;
    l->counts = counts_of(spc_warp());
    l->k = -1;
    l->left = 0;
% if k_blocks > 1 then
    l->block = 0;
% end
    SPC_UNROLL
    for (int h = 0; h < $(lane_rows); h++) {
        l->at[h] = spc_load_int(args->triplets.first + p + 8 * h);
        l->end[h] = spc_load_int(args->triplets.first + p + 8 * h + 1);
        look_ahead(l, h);
    }
}

/* ---- the tile --------------------------------------------------------------- */

/* The weights of step `slot` of the block; a step is an offset and a block of input
 * channels. */
SPC_DEVICE spc_u8 *weights_of(int slot)
{
    return spc_shared() + $(weights_at) + slot * $(weight_size);
}

% if by_sums then
/* ---- sums of inputs ---------------------------------------------------------- */

/* sums[piece][row][channel] += the rows in `stage`, 16 bytes of each piece. */
SPC_DEVICE void add_rows(float *sums, int stage)
{
    SPC_UNROLL
    for (int i = 0; i < $(lane_rows * config.pieces); i++) {
        spc_b16 v = spc_shared_load16(place_of(stage, i));
        spc_u32 w[4];
        w[0] = v.x;
        w[1] = v.y;
        w[2] = v.z;
        w[3] = v.w;
        SPC_UNROLL
        for (int c = 0; c < $(lane_channels); c++)
% if half then
            sums[i * 8 + c] += spc_$(problem.dtype)_to_f32((spc_u16)(w[c / 2] >> c % 2 * 16));
% else
            sums[i * 4 + c] += spc_bits_f32(w[c]);
% end
    }
}

SPC_DEVICE void clear_sums(float *sums)
{
    SPC_UNROLL
    for (int i = 0; i < $(lane_sums); i++)
        sums[i] = 0.0f;
}

% if half then
%   local most = problem.dtype == "f16" and "65504.0f" or "3.0e38f"
/*
 * Returns the part of *sum that the type holds, and leaves the remainder. If the sum
 * is out of range the result is the largest number. The remainder of a NaN or
 * infinity is 0.
 */
SPC_DEVICE float take_part(float *sum)
{
    float part = *sum, rest;

    if (part > $(most) && part < 3.0e38f)
        part = $(most);
    if (part < -$(most) && part > -3.0e38f)
        part = -$(most);
    part = spc_$(problem.dtype)_to_f32(spc_f32_to_$(problem.dtype)(part));
    rest = *sum - part;
    *sum = rest < 3.0e38f && rest > -3.0e38f ? rest : 0.0f;
    return part;
}

/*
 * acc += a part of the sums of piece p times the weights; leaves the remainder.
 */
SPC_DEVICE void multiply_part(float *acc, float *sums, int p, const spc_u8 *weights)
{
    spc_u32 a[$(config.m)][2][4];

    SPC_UNROLL
    for (int h = 0; h < $(lane_rows); h++) {
        float *from = sums + (p * $(lane_rows) + h) * $(lane_channels);
        SPC_UNROLL
        for (int i = 0; i < 4; i++) {
            float low = take_part(from + 2 * i), high = take_part(from + 2 * i + 1);
            a[h / 2][i / 2][h % 2 + i % 2 * 2] = spc_pack_$(problem.dtype)(low, high);
        }
    }
    SPC_UNROLL
    for (int s = 0; s < 2; s++) {
%   write_step_products("spc_shared_load16", "p * 2 + s", "a[m][s]")
    }
}

%   if problem.dtype == "f16" then
/* True if the remainder is still out of the type's range. */
SPC_DEVICE int is_beyond(const float *sums)
{
    int beyond = 0;

    SPC_UNROLL
    for (int i = 0; i < $(lane_sums); i++)
        beyond |= sums[i] > $(most) || sums[i] < -$(most);
    return beyond;
}

%   end
% end
% if terms == 2 then
/* The operand of two channels, and the remainder for a second operand. */
SPC_DEVICE void halve(spc_u32 *large, spc_u32 *small, const float *from)
{
%   if half then
    *large = spc_pack_f16(from[0], from[1]);
    *small = spc_pack_f16(from[0] - spc_f16_to_f32((spc_u16)*large),
                          from[1] - spc_f16_to_f32((spc_u16)(*large >> 16)));
%   else
    *large = spc_f32_to_tf32(from[0]);
    *small = spc_f32_to_tf32(from[0] - spc_bits_f32(*large));
%   end
}

/* acc += all of the sums of piece p times the weights, as two numbers each. Without
 * `both` the first number is the whole sum. */
SPC_DEVICE void multiply_halves(float *acc, const float *sums, int p, const spc_u8 *weights,
                                int both)
{
    spc_u32 a[$(config.m)][2][4], c[$(config.m)][2][4];

    SPC_UNROLL
    for (int h = 0; h < $(lane_rows); h++) {
        const float *from = sums + (p * $(lane_rows) + h) * $(lane_channels);
        SPC_UNROLL
        for (int i = 0; i < 4; i++)
            halve(&a[h / 2][i / 2][h % 2 + i % 2 * 2], &c[h / 2][i / 2][h % 2 + i % 2 * 2],
                  from + i * $(lane_channels // 4));
    }
    SPC_UNROLL
    for (int s = 0; s < 2; s++) {
        SPC_UNROLL
        for (int j = 0; j < $(config.n // 16); j++) {
            spc_b16 v = spc_shared_load16(weights + ((p * 2 + s) * $(config.n // 16) + j) * 512);
            spc_u32 b[2][2];
            b[0][0] = v.x;
            b[0][1] = v.y;
            b[1][0] = v.z;
            b[1][1] = v.w;
            if (both) {
                SPC_UNROLL
                for (int i = 0; i < $(2 * config.m); i++)
                    spc_mma_$(problem.dtype)(acc + i / 2 * $(config.n // 2) + (j * 2 + i % 2) * 4,
                                 c[i / 2][s], b[i % 2]);
            }
            SPC_UNROLL
            for (int i = 0; i < $(2 * config.m); i++)
                spc_mma_$(problem.dtype)(acc + i / 2 * $(config.n // 2) + (j * 2 + i % 2) * 4,
                             a[i / 2][s], b[i % 2]);
        }
    }
}

% end
/* acc += sums times the weights at `weights`. The sum of one input is one number. */
SPC_DEVICE void multiply_sums(float *acc, float *sums, const spc_u8 *weights, int steps)
{
    weights += spc_lane() * 16;
% if terms > 1 then
%   if problem.dtype == "f16" then
    spc_u32 beyond = spc_ballot(is_beyond(sums));
    while (beyond) {
        SPC_UNROLL
        for (int p = 0; p < $(config.pieces); p++)
            multiply_part(acc, sums, p, weights);
        beyond = spc_ballot(is_beyond(sums));
    }
%   end
%   if terms == 2 then
    SPC_UNROLL
    for (int p = 0; p < $(config.pieces); p++)
        multiply_halves(acc, sums, p, weights, steps > 1);
%   else
    SPC_ROLLED
    for (int term = steps > 1 ? $(terms) : 1; term > 0; term--) {
        SPC_UNROLL
        for (int p = 0; p < $(config.pieces); p++)
            multiply_part(acc, sums, p, weights);
    }
%   end
% else
    SPC_UNROLL
    for (int p = 0; p < $(config.pieces); p++) {
        spc_u32 a[$(config.m)][2][4];
        SPC_UNROLL
        for (int h = 0; h < $(lane_rows); h++)
            SPC_UNROLL
            for (int i = 0; i < 4; i++)
                a[h / 2][i / 2][h % 2 + i % 2 * 2] =
                    spc_f32_bits(sums[(p * $(lane_rows) + h) * 4 + i]);
%   write_tile_products()
    }
% end
    clear_sums(sums);
}

% end
% write_activation("SPC_DEVICE")
%-- Three blocks leave 168 registers for a thread, too few on sm_101.
SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(by_sums and config.m == 1 and half and target.sm >= 90 and target.sm ~= 101 and 3 or 1))
{
    const spc_map_view *map = &args->map;
    int first = spc_block_x() * $(rows), p = first + $(lane_row());
    float acc[$(config.m * config.n // 2)];
% if by_sums then
    float sums[$(lane_sums)];
% end
    int row[$(lane_rows)], stage = 0, slot = 0, since = $(ahead);
    loader l;

    spc_depend_wait();
    spc_depend_launch();
    count_steps(&args->triplets, first + spc_warp() * $(16 * config.m));
    begin_loading(&l, args, p);
    clear(acc);
% if by_sums then
    clear_sums(sums);
% end
    int k = next_of_block(-1);
    if (k < $(problem.offsets))
        load_image(weights_of(0), args, k * $(k_blocks));
    spc_copy_commit();
    SPC_ROLLED
    for (int i = 0; i < $(ahead); i++)
        load_next(&l, i, args);
    while (k < $(problem.offsets)) {
        int next = next_of_block(k);
        SPC_ROLLED
        for (int block = 0; block < $(k_blocks); block++) {
            int steps = counts_of(spc_warp())[k];
            int more = block + 1 < $(k_blocks) ? k * $(k_blocks) + block + 1
                                               : next * $(k_blocks);
            /*
             * After the barrier the weights have arrived for the whole block, and all
             * warps have finished with those that the next ones overwrite. Later copies
             * of rows may still be under way.
             */
            if (since < $(ahead)) /* fewer groups follow the weights */
                spc_copy_wait(0);
            else
                spc_copy_wait($(ahead));
            spc_sync_block();
            since = steps;
            if (more < $(problem.offsets * k_blocks))
                load_image(weights_of(slot ^ 1), args, more);
            spc_copy_commit();
            SPC_ROLLED
            for (; steps > 0; steps--) {
                load_next(&l, stage == 0 ? $(ahead) : stage - 1, args);
                spc_copy_wait($(ahead));
% if by_sums then
                add_rows(sums, stage);
% else
                multiply(acc, stage, weights_of(slot));
% end
                if (++stage == $(config.stages))
                    stage = 0;
            }
% if by_sums then
            if (since > 0)
                multiply_sums(acc, sums, weights_of(slot), since);
% end
            slot ^= 1;
        }
        k = next;
    }
    spc_copy_wait(0);
    SPC_UNROLL
    for (int h = 0; h < $(lane_rows); h++)
        row[h] = spc_load_int(map->order + p + 8 * h);
% write_lane_loop(function()
%   write_finish(sum_at())
% end)
}

% write_ring_pack()
