%-- Convolution of native points with mma.sync: input-stationary over triplets grouped by
%-- inputs.
%--
%-- The inputs of a tile are neighbours. A warp has 16 * m of them, keeps their rows in shared
%-- memory, and processes the offsets in ascending order. It computes the product of these
%-- inputs with an offset's weights once, however many outputs have one of the inputs at that
%-- offset, and adds it to each of these outputs by atomics. A row is therefore read once, and
%-- there is one product for an input and an offset. Kernels by outputs compute one product
%-- for each triplet, or add up inputs first. The disadvantage is one write to an output row
%-- for each triplet.
%--
%-- Sums are added to the output if it is fp32 and has no epilogue. Otherwise they are added
%-- to a row of the workspace, which spc_sum finishes. The last bits of a result depend on the
%-- order of arrival.
%
%include "ring_mma.lua"
%include "points_counts.lua"
%
%-- All rows within the capacity of the outputs' set are cleared. For a submanifold layer
%-- these are its rows; for other layers they are often more than the caller has.
%local function adds_out(problem)
%  return problem.op == "subm" and is_plain(problem) and out_bytes(problem) == 4 and problem.bias == 0
%end
%-- Floats from row to row of the array that is added to.
%local function sum_pitch(problem)
%  return adds_out(problem) and problem.cout
%    or ceil_div(problem.cout, 16 // element_bytes(problem)) * (16 // element_bytes(problem))
%end
%-- Shared memory for the rows of a tile, the weights of two steps, and counts.
%local function rows_bytes(problem, config) return k_blocks_of(problem, config) * rows_stage(config) end
%local function shared_bytes(problem, config)
%  return rows_bytes(problem, config) + 2 * image_bytes(config) + counts_bytes(problem)
%end
%
%template = {
%  summary = "points: input-stationary over triplets by inputs, mma.sync and atomics",
%  role = "conv",
%  device = "cuda",
%  triplets = true,
%  params = {ring_params[1], ring_params[2], ring_params[3]},
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
%  },
%  derive = function(problem, config, target)
%    local all = ring_derive(problem, config, true)
%    all.weights_at = rows_bytes(problem, config)
%    all.counts_at = all.weights_at + 2 * image_bytes(config)
%    all.lane_rows = 2 * config.m
%    all.direct, all.pitch = adds_out(problem), sum_pitch(problem)
%    all.chunks = ceil_div(problem.cout, all.lane_channels)
%    return all
%  end,
%  launch = function(problem, config, target)
%    local packed, shared = packed_image(problem, config), shared_bytes(problem, config)
%    local out = {
%      block = ring_warps * 32, grid = "steps", grid_y = out_blocks(problem, config),
%      shared = shared, blocks_per_sm = ring_blocks(problem, config, target, shared),
%      layout = "inputs", order = "none", tile_rows = 32, preference = -1, atomics = 1,
%      packed_bytes = packed, pack_threads = packed // 16,
%      pdl = target.sm >= 90 and 1 or 0,
%    }
%    if adds_out(problem) then
%      out.clear = 1
%    else
%      out.clear_workspace = 1
%      out.workspace_row_bytes = sum_pitch(problem) * 4
%      out.sum_block = 256
%    end
%    return out
%  end,
%  default = function(problem, target)
%    local config = ring_default(problem)
%    config.stages = nil
%    if shared_bytes(problem, config) > target.shared_block then config.m = 1 end
%    while shared_bytes(problem, config) > target.shared_block and config.n > 32 do
%      config.n = config.n - 32
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"

% write_ring()
% write_multiply()
% write_counts()
/* ---- a tile of inputs ---------------------------------------------------------- */

/* A lane's inputs: the next triplet of each, with its output and offset. */
typedef struct reader {
    int at[$(lane_rows)], end[$(lane_rows)];
    int out[$(lane_rows)], offset[$(lane_rows)];
} reader;

SPC_DEVICE void look_ahead(reader *r, int h, const spc_triplets_view *all)
{
    spc_b8 entry = {0, 0xffffffffu};

    if (r->at[h] < r->end[h])
        entry = spc_load8(all->list + 2ll * r->at[h]);
    r->out[h] = (int)entry.x;
    r->offset[h] = (int)entry.y;
}

SPC_DEVICE void open_lists(reader *r, const spc_triplets_view *all, int p)
{
    SPC_UNROLL
    for (int h = 0; h < $(lane_rows); h++) {
        r->at[h] = spc_load_int(all->first + p + 8 * h);
        r->end[h] = spc_load_int(all->first + p + 8 * h + 1);
        look_ahead(r, h, all);
    }
}

/* Adds the products of the lane's inputs at offset k to the outputs that have the inputs at
 * that offset. */
SPC_DEVICE void add_products(const float *acc, reader *r, int k, int steps, const spc_conv_args *args)
{
    SPC_ROLLED
    for (; steps > 0; steps--) {
        int to[$(lane_rows)];
        SPC_UNROLL
        for (int h = 0; h < $(lane_rows); h++) {
            to[h] = r->offset[h] == k ? r->out[h] : -1;
            if (to[h] >= 0) {
                r->at[h]++;
                look_ahead(r, h, &args->triplets);
            }
        }
% write_lane_loop(function()
            float *at = (float *)args->$(direct and "out" or "workspace") + (long long)to[h] * $(pitch) + co;
            if (to[h] < 0)
                continue;
            SPC_UNROLL
            for (int i = 0; i < $(lane_channels); i++)
                if (co + i < $(problem.cout))
                    spc_atomic_add_f32(at + i, $(sum_at()));
% end)
    }
}

SPC_DEVICE spc_u8 *weights_of(int slot)
{
    return spc_shared() + $(weights_at) + slot * $(weight_size);
}

/* Processes the inputs at positions `first` to first + $(rows - 1). */
SPC_DEVICE void run_tile(int first, const spc_conv_args *args)
{
    int p = first + $(lane_row()), row[$(lane_rows)], slot = 0;
    float acc[$(config.m * config.n // 2)];
    reader r;

    SPC_UNROLL
    for (int h = 0; h < $(lane_rows); h++)
        row[h] = spc_load_int(args->pairs.in + p + 8 * h);
    open_lists(&r, &args->triplets, p);
    spc_sync_block(); /* rows, weights and counts of the previous tile have been read */
    SPC_ROLLED
    for (int block = 0; block < $(k_blocks); block++)
        load_rows(block, (const spc_u8 *)args->in, row, block * $(config.pieces * 64));
    count_steps(&args->triplets, first + spc_warp() * $(16 * config.m));
    clear(acc);
    int k = next_of_block(-1);
    if (k < $(problem.offsets))
        load_image(weights_of(0), args, k * $(k_blocks));
    spc_copy_commit();
    while (k < $(problem.offsets)) {
        int next = next_of_block(k), steps = counts_of(spc_warp())[k];
        SPC_ROLLED
        for (int block = 0; block < $(k_blocks); block++) {
            int more = block + 1 < $(k_blocks) ? k * $(k_blocks) + block + 1 : next * $(k_blocks);
            /* After the barrier the weights have arrived for the whole block, and
             * all warps have finished with those that the next ones overwrite. */
            spc_copy_wait(0);
            spc_sync_block();
            if (more < $(problem.offsets * k_blocks))
                load_image(weights_of(slot ^ 1), args, more);
            spc_copy_commit();
            if (steps > 0)
                multiply(acc, block, weights_of(slot));
            slot ^= 1;
        }
        if (steps > 0) {
            add_products(acc, &r, k, steps, args);
            clear(acc);
        }
        k = next;
    }
    spc_copy_wait(0);
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), 1)
{
    spc_depend_wait();
    spc_depend_launch();
    for (int first = spc_block_x() * $(rows); first < args->pairs.capacity; first += spc_grid_x() * $(rows)) {
        if (spc_load_int(args->pairs.in + first) < 0)
            break; /* no later input exists, either */
        run_tile(first, args);
    }
}

% if not direct then
% write_activation("SPC_DEVICE")
/* A thread has 16 bytes of an output row at a time, in the type of the inputs. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    const spc_map_view *map = &args->map;

    spc_depend_wait();
    spc_depend_launch();
    for (int item = spc_thread(); item < $(32 * chunks); item += 256) {
        int p = spc_block_x() * 32 + item / $(chunks), h = 0;
        int co = item % $(chunks) * $(lane_channels), row[1];
        spc_u32 u[$(lane_channels)];
        row[0] = spc_load_int(map->order + p);
        const float *sums = (const float *)args->workspace + (long long)row[0] * $(pitch) + co;
        SPC_UNROLL
        for (int i = 0; i < $(lane_channels); i++)
            u[i] = 0;
        SPC_UNROLL
        for (int i = 0; i < $(lane_channels); i += 4)
            spc_load16_into(u + i, sums + i, row[0]);
        {
% write_finish("spc_bits_f32(u[i])")
        }
    }
}

% end
% write_ring_pack()
