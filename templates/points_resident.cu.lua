%-- Convolution of native points on mma.sync: the weights of all offsets stay in shared memory,
%-- and warps have nothing to wait for but rows.
%--
%-- A warp has 16 outputs that follow each other in the order of cells, whose sums stay in its
%-- registers, and goes through the offsets in ascending order. A step takes one input of each
%-- output that has another at the offset, and a zero row for the others:
%--
%--     sums[n channels][16 outputs] += weights[n channels][cin] x rows[cin][16 outputs]
%--
%-- Weights are the first operand, and outputs the columns of a product. Before its steps a warp
%-- lays them out in shared memory, `held` at a time: which row each output takes in each. So
%-- steps ask nothing; rows go from memory straight into the registers of operands, two steps
%-- ahead, and weights are read once for all steps of an offset. Nothing is written but the
%-- results.
%
%include "os_blocks.lua"
%
%local widths = {16, 32, 64, 128}
%local known = {f16 = true, bf16 = true}
%
%-- Bytes of a row that a lane loads at a time, its words of a row, and k-steps.
%local function bytes_of_lane(problem) return input_row_bytes(problem) > 32 and 16 or 8 end
%local function pieces_of(problem) return ceil_div(input_row_bytes(problem), 4 * bytes_of_lane(problem)) end
%local function words_of(problem) return pieces_of(problem) * bytes_of_lane(problem) // 4 end
%local function steps_of(problem) return words_of(problem) // 2 end
%-- Of a block; an operand of 16 channels and a k-step has 512 bytes.
%local function weights_bytes(problem, n)
%  return problem.offsets * steps_of(problem) * n // 16 * 512
%end
%-- Of a warp: where steps of each offset begin, and whose rows they take.
%local function begin_bytes(problem) return ceil_div(problem.offsets + 1, 4) * 16 end
%local function warp_bytes(problem, config) return begin_bytes(problem) + config.held * 64 end
%local function shared_bytes(problem, config)
%  return weights_bytes(problem, config.n) + config.warps * warp_bytes(problem, config) + 16
%end
%local function fits_shared(problem, config, target)
%  local bytes = shared_bytes(problem, config)
%  return bytes <= target.shared_block
%     and config.blocks * (bytes + 1024) <= (target.shared_sm or 102400)
%end
%-- Sums, an offset's weights, rows and what is known of them, and what a step takes.
%local function registers_needed(problem, config)
%  return config.n // 2 + steps_of(problem) * config.n // 4 + 4 * words_of(problem) + 30
%end
%local function registers_of(config)
%  return math.min(255, 65536 // (config.warps * 32 * config.blocks) // 8 * 8)
%end
%-- The widest block whose weights there is room for.
%local function widest(problem, target)
%  local best
%  for _, n in ipairs(widths) do
%    local config = {n = n, blocks = 1, warps = 8, held = 32}
%    if n <= math.max(16, 2 * problem.cout - 1) and fits_shared(problem, config, target)
%       and registers_needed(problem, config) <= 224 then best = n end
%  end
%  return best or 16
%end
%
%template = {
%  summary = "points: output-stationary by eights, weights resident in shared memory, mma.sync",
%  role = "conv",
%  device = "cuda",
%  triplets = true,
%  params = {
%    {"n", widths, "output channels of a block"},
%    {"warps", {8, 12, 16}, "of a block"},
%    {"held", {32, 64}, "steps that a warp has laid out"},
%    {"blocks", {1, 2}, "of a multiprocessor"},
%  },
%  accepts = function(problem, target)
%    if not problem.triplets then return false, "needs a layer of points" end
%    if not known[problem.dtype] then return false, "needs f16 or bf16" end
%    if problem.groups then return false, "one group alone" end
%    if target.sm < 75 or problem.dtype ~= "f16" and target.sm < 80 then
%      return false, "needs tensor cores for " .. problem.dtype
%    end
%    if input_alignment(problem) < bytes_of_lane(problem) then
%      return false, "rows in must be multiples of " .. bytes_of_lane(problem) .. " bytes: points_mma takes any"
%    end
%    if not fits_shared(problem, {n = 16, blocks = 1, warps = 8, held = 32}, target) then
%      return false, "weights of 16 output channels do not fit shared memory: points_mma takes any"
%    end
%    return true
%  end,
%  constraints = {
%    {"output channels fill their blocks", function(problem, config)
%      return config.n < 2 * problem.cout
%    end},
%    {"shared memory", fits_shared},
%    {"registers", function(problem, config)
%      return registers_needed(problem, config) <= registers_of(config)
%    end},
%  },
%  derive = function(problem, config, target)
%    return {
%      rows = 16, threads = config.warps * 32, tiles16 = config.n // 16,
%      words = words_of(problem), steps = steps_of(problem), lane_bytes = bytes_of_lane(problem),
%      pieces = pieces_of(problem), lane_channels = config.n // 8,
%      weights_size = weights_bytes(problem, config.n),
%      warp_size = warp_bytes(problem, config), begin_size = begin_bytes(problem),
%      taken_at = shared_bytes(problem, config) - 16,
%      row_bytes = input_row_bytes(problem), row_pitch = input_pitch_bytes(problem),
%    }
%  end,
%  launch = function(problem, config, target)
%    local y = ceil_div(problem.cout, config.n)
%    local packed = weights_bytes(problem, config.n) * y
%    return {
%      block = config.warps * 32, shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = config.blocks, grid_y = y,
%      tile_rows = 16, layout = "triplets", order = "none", preference = 4,
%      packed_bytes = packed, pack_threads = packed // 16, pdl = target.sm >= 90 and 1 or 0,
%    }
%  end,
%  default = function(problem, target)
%    local config = {n = widest(problem, target), warps = 16, held = 64, blocks = 1}
%    for _, less in ipairs {{"held", 32}, {"warps", 12}, {"warps", 8}} do
%      if not fits_shared(problem, config, target) or registers_needed(problem, config) > registers_of(config) then
%        config[less[1]] = less[2]
%      end
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"

/* ---- groups of outputs ------------------------------------------------------------ */

/* How many groups of its own the block's warps have taken. */
SPC_DEVICE int *taken(void)
{
    return (int *)(spc_shared() + $(taken_at));
}

/* The warp's next group, or -1. */
SPC_DEVICE int next_group(const spc_conv_args *args)
{
    int at = 0;

    if (spc_lane() == 0)
        at = spc_atomic_add(taken(), 1);
    at = spc_shfl(at, 0);
    long long group = (long long)at * spc_grid_x() + spc_block_x();
    return group < args->map.rows_padded / $(rows) ? (int)group : -1;
}

/* ---- steps ----------------------------------------------------------------------- */

/* Where steps of each offset begin, of the warp, and where the last end. */
SPC_DEVICE int *begins(void)
{
    return (int *)(spc_shared() + $(weights_size) + spc_warp() * $(warp_size));
}

/* The input row that each output takes in a step, or -1. */
SPC_DEVICE int *table(void)
{
    return (int *)(spc_shared() + $(weights_size + begin_size) + spc_warp() * $(warp_size));
}

/* Going through the triplets of a group, 32 at a time. */
typedef struct scan {
    int first; /* of each output, by lane */
    int at, end;
    int output, k, rank; /* of the last one */
} scan;

/* A triplet, and of how many of its output and offset it is behind; of none k is -1. */
typedef struct triplet {
    int row, k, output, rank;
} triplet;

SPC_DEVICE scan begin_scan(const spc_conv_args *args, int p)
{
    scan s;

    s.first = spc_load_int(args->triplets.first + p + (spc_lane() & 15));
    s.at = spc_shfl(s.first, 0);
    s.end = spc_load_int(args->triplets.first + p + 16);
    s.output = s.k = -1;
    s.rank = 0;
    return s;
}

SPC_DEVICE triplet next_triplet(scan *s, const spc_triplets_view *all)
{
    int t = s->at + spc_lane(), lane = spc_lane();
    spc_b8 entry = {0, 0xffffffffu};
    triplet out;

    if (t < s->end)
        entry = spc_load8(all->list + 2ll * t);
    out.row = (int)entry.x;
    out.k = (int)entry.y;
    out.output = 0;
    SPC_UNROLL
    for (int by = 8; by > 0; by /= 2)
        out.output += t >= spc_shfl(s->first, out.output + by) ? by : 0;
    int k = spc_shfl_up(out.k, 1), output = spc_shfl_up(out.output, 1);
    k = lane == 0 ? s->k : k;
    output = lane == 0 ? s->output : output;
    spc_u32 heads = spc_ballot(k != out.k || output != out.output) & (0xffffffffu >> (31 - lane));
    out.rank = heads ? lane - (31 - spc_clz(heads)) : lane + s->rank + 1;
    s->k = spc_shfl(out.k, 31);
    s->output = spc_shfl(out.output, 31);
    s->rank = spc_shfl(out.rank, 31);
    s->at += 32;
    return out;
}

/* How many steps each offset takes: as many as the output with most; and where they begin. */
SPC_DEVICE void count_steps(const spc_conv_args *args, scan s)
{
    int *begin = begins(), sum = 0;

    spc_sync_warp(); /* nobody reads those of the group before */
    for (int k = spc_lane(); k <= $(problem.offsets); k += 32)
        begin[k] = 0;
    spc_sync_warp();
    SPC_ROLLED
    while (s.at < s.end) {
        triplet t = next_triplet(&s, &args->triplets);
        if (t.k >= 0 && begin[t.k] <= t.rank)
            spc_atomic_max(begin + t.k, t.rank + 1);
    }
    spc_sync_warp();
    SPC_ROLLED
    for (int first = 0; first <= $(problem.offsets); first += 32) {
        int k = first + spc_lane(), own = k < $(problem.offsets) ? begin[k] : 0, upto = own;
        SPC_UNROLL
        for (int by = 1; by < 32; by *= 2) {
            int below = spc_shfl_up(upto, by);
            upto += spc_lane() >= by ? below : 0;
        }
        if (k <= $(problem.offsets))
            begin[k] = sum + upto - own;
        sum += spc_shfl(upto, 31);
    }
    spc_sync_warp();
}

/* Writes down whose rows the steps from `first` on take, as many as there is room for. */
SPC_DEVICE void lay_out(const spc_conv_args *args, scan s, int first)
{
    spc_b16 none = {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu};
    const int *begin = begins();
    int *to = table();

    spc_sync_warp();
    SPC_UNROLL
    for (int i = 0; i < $(config.held // 8); i++)
        spc_shared_store16(to + i * 128 + spc_lane() * 4, none);
    spc_sync_warp();
    SPC_ROLLED
    while (s.at < s.end) {
        triplet t = next_triplet(&s, &args->triplets);
        if (t.k >= 0) {
            int step = begin[t.k] + t.rank - first;
            if (step >= 0 && step < $(config.held))
                to[step * 16 + t.output] = t.row;
        }
    }
    spc_sync_warp();
}

/* The lane's words of the rows of a step's outputs, g and g + 8 of lanes 4 g to 4 g + 3, whose
 * numbers are at from[0] and from[8]. */
SPC_DEVICE void load_step(spc_u32 *rows, const spc_u8 *in, const int *from)
{
    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        int row = from[h * 8];
        const spc_u8 *at = in + (long long)row * $(row_pitch);
        SPC_UNROLL
        for (int i = 0; i < $(words); i++)
            rows[h * $(words) + i] = 0;
% for piece = 0, pieces - 1 do
%   local at = piece * 4 * lane_bytes
%   local left = row_bytes - at
%   local guard = left < 4 * lane_bytes and "(spc_lane() & 3) < " .. left // lane_bytes .. " ? row : -1" or "row"
        spc_load$(lane_bytes)_into(rows + h * $(words) + $(piece * lane_bytes // 4), at + $(at), $(guard));
% end
    }
}

/* ---- products -------------------------------------------------------------------- */

SPC_DEVICE void read_weights(spc_u32 *a, int k)
{
    const spc_u8 *from = spc_shared() + k * $(steps * tiles16 * 512) + spc_lane() * 16;

    SPC_UNROLL
    for (int i = 0; i < $(steps * tiles16); i++) {
        spc_b16 v = spc_shared_load16(from + i * 512);
        a[4 * i] = v.x;
        a[4 * i + 1] = v.y;
        a[4 * i + 2] = v.z;
        a[4 * i + 3] = v.w;
    }
}

/* sums[octet][n / 16][4] += the rows of a step. */
SPC_DEVICE void add_step(float *sums, const spc_u32 *rows, const spc_u32 *a)
{
    SPC_UNROLL
    for (int s = 0; s < $(steps); s++)
        SPC_UNROLL
        for (int h = 0; h < 2; h++)
            SPC_UNROLL
            for (int i = 0; i < $(tiles16); i++)
                spc_mma_$(problem.dtype)(sums + h * $(config.n // 4) + i * 4, a + (s * $(tiles16) + i) * 4,
                             rows + h * $(words) + 2 * s);
}

/* The steps from `first` to `last`, which are laid out; k is the offset of the step before. */
SPC_DEVICE int add_steps(float *acc, const spc_u8 *in, int k, int first, int last)
{
    spc_u32 rows[2][$(2 * words)], a[$(steps * config.n // 4)];
    const int *begin = begins();
    const int *from = table() + (spc_lane() >> 2);
    int end = first; /* of the offset whose weights are there */

    load_step(rows[0], in, from);
    if (first + 1 < last)
        load_step(rows[1], in, from + 16);
    SPC_ROLLED
    for (int step = first; step < last; step += 2) {
        SPC_UNROLL
        for (int i = 0; i < 2; i++) {
            if (step + i >= last)
                break;
            if (step + i == end) {
                while (begin[k + 1] <= step + i)
                    k++;
                end = begin[k + 1];
                read_weights(a, k);
            }
            add_step(acc, rows[i], a);
            if (step + i + 2 < last)
                load_step(rows[i], in, from + 32 + i * 16);
        }
        from += 32;
    }
    return k;
}

SPC_DEVICE void sum_group(float *acc, const spc_conv_args *args, int p)
{
    const spc_u8 *in =
        (const spc_u8 *)spc_base((const spc_u8 *)args->in + (spc_lane() & 3) * $(lane_bytes));
    scan s = begin_scan(args, p);
    int k = 0;

    SPC_UNROLL
    for (int i = 0; i < $(config.n // 2); i++)
        acc[i] = 0.0f;
    count_steps(args, s);
    int all = begins()[$(problem.offsets)];
    SPC_ROLLED
    for (int first = 0; first < all; first += $(config.held)) {
        lay_out(args, s, first);
        k = add_steps(acc, in, k, first, all < first + $(config.held) ? all : first + $(config.held));
    }
}

/* ---- results --------------------------------------------------------------------- */

% write_activation("SPC_DEVICE")
/* The epilogue; a lane has channels that follow each other of two outputs of an octet. */
SPC_DEVICE void finish(const float *acc, const spc_conv_args *args, int p)
{
    int co = spc_block_y() * $(config.n) + (spc_lane() >> 2) * $(lane_channels);
    int order = spc_lane() < $(rows) ? spc_load_int(args->map.order + p + spc_lane()) : -1;

    SPC_UNROLL
    for (int q = 0; q < 2; q++) {
        const float *d = acc + q * $(config.n // 4);
        int row[2];
        row[0] = spc_shfl(order, q * 8 + (spc_lane() & 3) * 2);
        row[1] = spc_shfl(order, q * 8 + (spc_lane() & 3) * 2 + 1);
        SPC_UNROLL
        for (int h = 0; h < 2; h++) {
            int store = row[h] >= 0 && co < $(problem.cout);
            float v[$(lane_channels)];
% write_lane_values(lane_channels, "d[i / 2 * 4 + i % 2 * 2 + h]")
% write_lane_store(lane_channels, "(spc_u8 *)args->out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem))
        }
    }
}

SPC_DEVICE void load_weights(const spc_conv_args *args)
{
    const spc_u8 *from = (const spc_u8 *)args->weights + (long long)spc_block_y() * $(weights_size);

    for (int at = spc_thread() * 16; at < $(weights_size); at += $(threads * 16))
        spc_copy_async16(spc_shared() + at, from + at, 16);
    spc_copy_commit();
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(config.blocks))
{
    spc_depend_wait();
    spc_depend_launch();
    load_weights(args);
    if (spc_thread() == 0)
        *taken() = 0;
    spc_copy_wait(0);
    spc_sync_block();
    for (int group = next_group(args); group >= 0; group = next_group(args)) {
        float acc[$(config.n // 2)];
        if (spc_load_int(args->map.order + group * $(rows)) < 0)
            break; /* nor is there an output behind it */
        sum_group(acc, args, group * $(rows));
        finish(acc, args, group * $(rows));
    }
}

% write_weight_word()
/*
 * Packed: [block of output channels][offset][k-step][16 of its channels][lane] first operands.
 * Lane 4 g + t has of k-step s the bytes of words 2 s and 2 s + 1 of lane t of a row, for
 * channels 2 i and 2 i + 1 of the i-th sixteen, from g * n / 8 on: so a lane ends with
 * channels that follow each other.
 */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    spc_u32 item = (spc_u32)spc_block_x() * 256 + (spc_u32)spc_thread();
    int lane = (int)(item % 32), tile = (int)(item / 32 % $(tiles16));
    int step = (int)(item / $(32 * tiles16) % $(steps));
    spc_u32 rest = item / $(32 * tiles16 * steps);
    int offset = (int)(rest % $(problem.offsets)), block = (int)(rest / $(problem.offsets));
    spc_u32 v[4];

    if (block >= $(launch.grid_y))
        return;
    for (int r = 0; r < 4; r++) {
        int word = step * 2 + r / 2;
        int byte = word / $(lane_bytes // 4) * $(4 * lane_bytes) + (lane & 3) * $(lane_bytes) +
                   word % $(lane_bytes // 4) * 4;
        int co = block * $(config.n) + (lane >> 2) * $(lane_channels) + tile * 2 + r % 2;
        v[r] = weight_word(args, offset, byte, co);
    }
% write_packed("(long long)item")
}
