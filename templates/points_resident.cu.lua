%-- Convolution of native points on mma.sync: the weights of all offsets stay in shared memory,
%-- and warps have nothing to wait for but rows.
%--
%-- A warp has 8 * `octets` outputs that follow each other in the order of cells, whose sums stay
%-- in its registers, and goes through the offsets in ascending order. Weights are the first
%-- operand, so that outputs are the columns of a product, and eight of them, an *octet*, take
%-- steps of their own: one input of each that has another at the offset.
%--
%--     sums[n channels][8 outputs] += weights[n channels][cin] x rows[cin][8 outputs]
%--
%-- Four lanes have an output. They hold the row of its next input in registers, whatever its
%-- offset is, and know which one is behind it. A step takes the rows of those whose offset it is,
%-- zeroes for the others, and starts to load what comes next in their place. So rows and lists
%-- are read while other octets, and other warps, multiply; nothing is sorted, or written but the
%-- results.
%--
%-- A block has outputs that follow each other, about as much work as any other block; its warps
%-- take groups of them as they come.
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
%local function shared_bytes(problem, config) return weights_bytes(problem, config.n) + 16 end
%local function fits_shared(problem, config, target)
%  local bytes = shared_bytes(problem, config)
%  return bytes <= target.shared_block
%     and config.blocks * (bytes + 1024) <= (target.shared_sm or 102400)
%end
%-- Sums, an offset's weights, rows and what is known of them, and what a step takes.
%local function registers_needed(problem, config)
%  return config.octets * (config.n // 4 + words_of(problem) + 5)
%       + steps_of(problem) * config.n // 4 + words_of(problem) + 30
%end
%local function registers_of(config)
%  return math.min(255, 65536 // (config.warps * 32 * config.blocks) // 8 * 8)
%end
%-- The widest block whose weights there is room for.
%local function widest(problem, target)
%  local best
%  for _, n in ipairs(widths) do
%    local config = {n = n, blocks = 1, octets = 2}
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
%    {"octets", {1, 2, 3, 4}, "eights of outputs of a warp"},
%    {"n", widths, "output channels of a block"},
%    {"warps", {8, 12, 16}, "of a block"},
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
%    if not fits_shared(problem, {n = 16, blocks = 1}, target) then
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
%      rows = config.octets * 8, threads = config.warps * 32, tiles16 = config.n // 16,
%      words = words_of(problem), steps = steps_of(problem), lane_bytes = bytes_of_lane(problem),
%      pieces = pieces_of(problem), lane_channels = config.n // 8,
%      weights_size = weights_bytes(problem, config.n),
%      row_bytes = input_row_bytes(problem), row_pitch = input_pitch_bytes(problem),
%    }
%  end,
%  launch = function(problem, config, target)
%    local y = ceil_div(problem.cout, config.n)
%    local packed = weights_bytes(problem, config.n) * y
%    return {
%      block = config.warps * 32, shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = config.blocks, grid_y = y,
%      tile_rows = config.octets * 8, layout = "triplets", order = "none", preference = 4,
%      packed_bytes = packed, pack_threads = packed // 16, pdl = target.sm >= 90 and 1 or 0,
%    }
%  end,
%  default = function(problem, target)
%    local config = {octets = 4, n = widest(problem, target), warps = 12, blocks = 1}
%    while config.octets > 1 and registers_needed(problem, config) > registers_of(config) do
%      config.octets = config.octets - 1
%    end
%    if registers_needed(problem, config) > registers_of(config) then config.warps = 8 end
%    return config
%  end,
%}
#include "spc_device.cuh"

#define NONE 0xffffffffu
#define CHUNK 4

/* ---- groups of outputs ------------------------------------------------------------ */

/* How many groups of its own the block's warps have taken. */
SPC_DEVICE int *taken(void)
{
    return (int *)(spc_shared() + $(weights_size));
}

/* The warp's next group, or -1. Blocks have CHUNK that follow each other in turns. */
SPC_DEVICE int next_group(const spc_conv_args *args)
{
    int at = 0;

    if (spc_lane() == 0)
        at = spc_atomic_add(taken(), 1);
    at = spc_shfl(at, 0);
    long long group = ((long long)(at / CHUNK) * spc_grid_x() + spc_block_x()) * CHUNK + at % CHUNK;
    return group < args->map.rows_padded / $(rows) ? (int)group : -1;
}

/* ---- rows ------------------------------------------------------------------------ */

/* What a lane has of an octet: of the output of its four lanes the row of the next input, whose
 * offset is k, and of the one behind it what the list says, if there is one; `at` is what comes
 * then. */
typedef struct octet {
    spc_u32 row[$(words)];
    spc_u32 k;
    spc_u32 behind[2]; /* row, offset */
    const spc_u8 *at;
    int left;
} octet;

/* Goes on to the next input, if `own`; the lane's part of the first row is at `in`. */
SPC_DEVICE void turn_over(octet *o, const spc_u8 *in, int own)
{
    const spc_u8 *row = in + (long long)(int)o->behind[0] * $(row_pitch);
    int some = own && o->left >= 0 ? 0 : -1;

% for piece = 0, pieces - 1 do
%   local at = piece * 4 * lane_bytes
%   local left = row_bytes - at
%   local guard = left < 4 * lane_bytes and "(spc_lane() & 3) < " .. left // lane_bytes .. " ? some : -1" or "some"
    spc_load$(lane_bytes)_into(o->row + $(piece * lane_bytes // 4), row + $(at), $(guard));
% end
    spc_u32 k = o->left >= 0 ? o->behind[1] : NONE;
    o->k = own ? k : o->k;
    spc_load8_into(o->behind, o->at, own && o->left > 0 ? 0 : -1);
    o->at += own * 8;
    o->left -= own;
}

/* The octet's outputs have the triplets from `at` to `end`. */
SPC_DEVICE void open_octet(octet *o, const spc_conv_args *args, int at, int end)
{
    SPC_UNROLL
    for (int i = 0; i < $(words); i++)
        o->row[i] = 0;
    o->k = NONE;
    o->behind[0] = o->behind[1] = 0;
    o->at = (const spc_u8 *)(args->triplets.list + 2ll * at);
    o->left = end - at;
    spc_load8_into(o->behind, o->at, o->left > 0 ? 0 : -1);
    o->at += 8;
    o->left--;
}

/* Has the near cache hold the rows that the triplets from `begin` to `end` name, and these. */
SPC_DEVICE void touch(const spc_conv_args *args, int begin, int end)
{
    SPC_ROLLED
    for (int t = begin + spc_lane(); t < end; t += 96) {
        int row[3];
        SPC_UNROLL
        for (int i = 0; i < 3; i++)
            row[i] = t + i * 32 < end ? spc_load_int(args->triplets.list + 2ll * (t + i * 32)) : -1;
        SPC_UNROLL
        for (int i = 0; i < 3; i++)
            SPC_UNROLL
            for (int byte = 0; byte < $(row_bytes); byte += 32) {
                spc_u32 word = 0;
                spc_load4_into(&word, (const spc_u8 *)args->in + (long long)row[i] * $(row_pitch) + byte, row[i]);
            }
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

/* sums[n / 16][4] += the rows of the outputs whose next input is at offset k. */
SPC_DEVICE void add_step(float *sums, octet *o, const spc_u8 *in, const spc_u32 *a, spc_u32 k)
{
    int own = o->k == k;
    spc_u32 b[$(words)];

    SPC_UNROLL
    for (int i = 0; i < $(words); i++)
        b[i] = own ? o->row[i] : 0;
    turn_over(o, in, own);
    SPC_UNROLL
    for (int s = 0; s < $(steps); s++)
        SPC_UNROLL
        for (int i = 0; i < $(tiles16); i++)
            spc_mma_$(problem.dtype)(sums + i * 4, a + (s * $(tiles16) + i) * 4, b + 2 * s);
}

/* The next offset that some output of the warp has; past the last NONE. */
SPC_DEVICE spc_u32 next_offset(const octet *o)
{
    spc_u32 k = o[0].k;

    SPC_UNROLL
    for (int q = 1; q < $(config.octets); q++)
        k = o[q].k < k ? o[q].k : k;
    return spc_warp_min(k);
}

SPC_DEVICE void sum_group(float *acc, const spc_conv_args *args, int p)
{
    octet o[$(config.octets)];
    int lane = spc_lane() < $(rows) ? spc_lane() : $(rows - 1);
    int first = spc_load_int(args->triplets.first + p + lane);
    int last = spc_load_int(args->triplets.first + p + lane + 1);

    const spc_u8 *in =
        (const spc_u8 *)spc_base((const spc_u8 *)args->in + (spc_lane() & 3) * $(lane_bytes));

    touch(args, spc_shfl(first, 0), spc_shfl(last, $(rows - 1)));
    SPC_UNROLL
    for (int q = 0; q < $(config.octets); q++) {
        int at = q * 8 + (spc_lane() >> 2);
        open_octet(o + q, args, spc_shfl(first, at), spc_shfl(last, at));
    }
    SPC_UNROLL
    for (int q = 0; q < $(config.octets); q++)
        turn_over(o + q, in, 1);
    SPC_UNROLL
    for (int i = 0; i < $(config.octets * config.n // 4); i++)
        acc[i] = 0.0f;
    SPC_ROLLED
    for (spc_u32 k = next_offset(o); k != NONE; k = next_offset(o)) {
        spc_u32 a[$(steps * config.n // 4)], more;
        read_weights(a, (int)k);
        SPC_ROLLED
        do {
            spc_u32 some[$(config.octets)];
            more = 0;
            SPC_UNROLL
            for (int q = 0; q < $(config.octets); q++) {
                some[q] = spc_ballot(o[q].k == k);
                more |= some[q];
            }
            SPC_UNROLL
            for (int q = 0; q < $(config.octets); q++)
                if (some[q])
                    add_step(acc + q * $(config.n // 4), o + q, in, a, k);
        } while (more);
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
    for (int q = 0; q < $(config.octets); q++) {
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
        float acc[$(config.octets * config.n // 4)];
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
