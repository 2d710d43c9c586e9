%-- Convolution of native points with wgmma. Matrix units add up the inputs of a cell, and the
%-- sums are multiplied by weights that stream through shared memory.
%--
%-- A block has one warpgroup that multiplies, and one that loads. Each warp of the first has
%-- 16 consecutive outputs in the order of cells. `copiers` warps of the second load the
%-- triplets of these outputs, one tile ahead. The map has these triplets grouped by offset.
%-- The weights of successive offsets come into a ring of `stages`. The remaining warp starts
%-- their copies; if four warps load triplets, a lane of the multiplying warpgroup does. The
%-- weights of an offset are therefore read once for 64 outputs.
%--
%-- At an offset an output may have several inputs or none. A warp has the rows of all of
%-- them, 16 in a step, in its own ring, and adds up those of each output by a product:
%--
%--     sums[16 outputs][channels] = who[16 outputs][16 triplets] x rows[16 triplets][channels]
%--
%-- where `who` is 1 if a triplet belongs to the output. No lane has to wait for the output
%-- with the most inputs. A sum has more bits than the type of the inputs. It is therefore
%-- multiplied as two numbers of that type, or three of bf16; the part that these cannot hold
%-- is below 2^-22 of the sum. While products run, the inputs of the next offset are added up.
%--
%-- If 16 outputs have more than `held` triplets, the triplets come in several windows, one
%-- range of offsets after the other.
%--
%-- A sum out of the range of f16 makes its row infinite or NaN. An input that is not finite
%-- also affects neighbouring outputs, through products by zero. The warp that has such rows
%-- computes them again, product by product.
%
%include "os_blocks.lua"
%include "points_windows.lua"
%include "points_anew.lua"
%
%local widths, several = {32, 64, 96, 128}, 96
%-- Numbers of the input type that represent a sum of inputs.
%local terms_of = {f16 = 2, bf16 = 3}
%-- Registers of warps that do not multiply.
%local helper_registers = 32
%
%local function stage_bytes(config) return config.pieces * config.n * 64 end
%-- Bytes for all warps of a block, with 16 rows in a step.
%local function rows_bytes(config) return 4 * config.ring * 16 * config.pieces * 64 end
%local function shared_with(problem, config, held)
%  return config.stages * (stage_bytes(config) + 16) + rows_bytes(config)
%       + 2 * window_bytes(problem, config, held) + runs_bytes(problem, config, config.copiers) + 48
%end
%-- True if there is space for windows of this many triplets of a warp. As many as fit
%-- are held, so that there are fewer windows.
%local function has_room(problem, config, target, held)
%  local bytes = shared_with(problem, config, held)
%  return bytes <= target.shared_block and config.blocks * (bytes + 1024) <= target.shared_sm
%end
%local function held_of(problem, config, target)
%  for _, held in ipairs {2048, 1536, 1024, 960, 768} do
%    if has_room(problem, config, target, held) then return held end
%  end
%  return 512
%end
%-- The registers that setmaxnreg may give a consumer if the other warps keep theirs.
%local function consumer_registers(config)
%  local launch = 65536 // (256 * config.blocks) // 8 * 8
%  return math.min(240, math.min(launch, 248) * 2 - helper_registers)
%end
%-- Registers for the sums of products, sums of inputs, these sums as operands, and
%-- the temporaries of a step.
%local function registers_needed(problem, config)
%  return config.n // 2 + config.pieces * (16 + 8 * terms_of[problem.dtype]) + 58
%end
%
%template = {
%  summary = "points: inputs added up and multiplied by matrix units, weights streamed to wgmma",
%  role = "conv",
%  device = "cuda",
%  triplets = true,
%  params = {
%    {"blocks", {1, 2, 3}, "of a multiprocessor"},
%    {"n", widths, "output channels of a block"},
%    {"pieces", {1, 2}, "64-byte pieces of input rows in a step"},
%    {"stages", {2, 4}, "ring of weights"},
%    {"ring", {3, 4}, "steps whose rows are under way, and one more"},
%    {"copiers", {3, 4}, "warps that bring triplets"},
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
%      return has_room(problem, config, target, held_of(problem, config, target))
%    end},
%    {"registers", function(problem, config)
%      return registers_needed(problem, config) <= consumer_registers(config)
%    end},
%  },
%  derive = function(problem, config, target)
%    local rows_at = config.stages * stage_bytes(config)
%    local windows_at = rows_at + rows_bytes(config)
%    local held = held_of(problem, config, target)
%    local runs_at = windows_at + 2 * window_bytes(problem, config, held)
%    return {
%      k_blocks = row_pieces(problem) // config.pieces,
%      n_blocks = out_blocks(problem, config),
%      pieces = config.pieces, terms = terms_of[problem.dtype],
%      rows = 64, threads = 256,
%      warps = 4, copiers = config.copiers, brings = config.copiers == 4, ahead = config.ring - 1,
%      stage_size = stage_bytes(config), rows_at = rows_at,
%      step_pitch = config.pieces * 64, step_size = 16 * config.pieces * 64,
%      held = held, windows_at = windows_at, window_size = window_bytes(problem, config, held),
%      runs_at = runs_at, barrier_at = runs_at + runs_bytes(problem, config, config.copiers),
%      consumer_limit = consumer_registers(config), helper_limit = helper_registers,
%      per_sm = config.blocks, lane_channels = channels_of_lane(problem),
%      one = problem.dtype == "f16" and "0x3c00u" or "0x3f80u",
%      row_bytes = input_row_bytes(problem), row_pitch = input_pitch_bytes(problem),
%    }
%  end,
%  launch = function(problem, config, target)
%    local packed = packed_image(problem, config)
%    return {
%      block = 256,
%      shared = shared_with(problem, config, held_of(problem, config, target)),
%      grid = "persistent", blocks_per_sm = config.blocks,
%      grid_y = out_blocks(problem, config), tile_rows = 64,
%      layout = "bundles", order = "none", preference = 3,
%      packed_bytes = packed, pack_threads = packed // 16, pdl = 1,
%    }
%  end,
%  default = function(problem, target)
%    local config = {blocks = 3, n = least_wasting(problem, widths, several),
%                    pieces = row_pieces(problem) % 2 == 0 and 2 or 1, stages = 2, ring = 4, copiers = 3}
%    -- 32->64 on a room of 100000 points with 16, 32 and 65 neighbours each (NVIDIA H200):
%    -- 77, 114 and 197 us with three blocks, 89, 123 and 224 us with two.
%    if config.n ~= 64 or registers_needed(problem, config) > consumer_registers(config)
%      or not has_room(problem, config, target, 1024) then
%      config.blocks = 2
%    end
%    -- 64->128 on the same room: 161, 200 and 295 us with four copiers, 156, 204 and 330 us
%    -- with three. 32->64: 80, 107 and 170 us, and 72, 107 and 184 us. If rows take two
%    -- steps, four copiers are slower.
%    if config.n > 64 and row_pieces(problem) == config.pieces then config.copiers = 4 end
%    for _, less in ipairs {{"ring", 3}, {"pieces", 1}, {"blocks", 1}} do
%      if not has_room(problem, config, target, 512) then config[less[1]] = less[2] end
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"

typedef struct barriers {
    spc_u64 full[$(config.stages)], empty[$(config.stages)]; /* of weights */
    spc_u64 sorted[2], read[2];                              /* of windows */
} barriers;

SPC_DEVICE barriers *all_barriers(void)
{
    return (barriers *)(spc_shared() + $(barrier_at));
}

% write_windows()
/* ---- weights --------------------------------------------------------------------- */

/* Called by one lane. Starts the copy of a window's i-th weights, if it has that many, which
 * products of `ring` will read. */
SPC_DEVICE void bring_weights(const spc_conv_args *args, const int *list, int i, turn ring)
{
    barriers *b = all_barriers();
    int k = list[i / $(k_blocks)], at = place_of_turn(ring, $(config.stages));
    long long image = ((long long)k * $(k_blocks) + i % $(k_blocks)) * $(n_blocks) + spc_block_y();

    if (k < 0)
        return;
    /* The first pass waits for parity 1, which a new barrier counts as
     * complete: all stages are empty. */
    spc_mbar_wait(b->empty + at, parity_of_turn(ring, $(config.stages)) ^ 1);
    spc_mbar_expect(b->full + at, $(stage_size));
    spc_bulk_copy(spc_shared() + at * $(stage_size),
                  (const spc_u8 *)args->weights + image * $(stage_size), $(stage_size),
                  b->full + at);
}

% if not brings then
/* One warp loads the weights of all windows of the block. */
SPC_DEVICE void bring_all(const spc_conv_args *args)
{
    barriers *b = all_barriers();
    turn ring = 0;

    for (turn slot = 0;; slot++) {
        int window = place_of_turn(slot, 2);
        const int *list = list_of(window);
        spc_mbar_wait(b->sorted + window, parity_of_turn(slot, 2));
        if (*after(window) == NO_TILE)
            return;
        for (int i = 0; list[i / $(k_blocks)] >= 0; i++, ring++) {
            if (spc_lane() == 0)
                bring_weights(args, list, i, ring);
            spc_sync_warp();
        }
        if (spc_lane() == 0)
            spc_mbar_arrive(b->read + window);
    }
}

% end
/* ---- rows, and their sums -------------------------------------------------------- */

/* The steps of a warp in a window, in the order of loading: by offset, then by block of
 * channels. */
typedef struct loader {
    const spc_u8 *in; /* the lane's part of the first row */
    share of;
    const int *at, *end; /* remaining triplets, of all or of an offset: the lane's */
% if k_blocks > 1 then
    const int *list;
    int block;
% end
    int input[$(pieces * 2)]; /* of the lane's rows of the next step */
} loader;

/* The warp's ring of rows: the stage of the step that is added up next, and the stage of the
 * previous step. Also where the lane's copies go in a stage, and what it reads. */
typedef struct ring_of_rows {
    spc_u8 *first;
    int at, before;
    int copies, reads; /* the first of each */
} ring_of_rows;

/*
 * The position of 16 bytes in a step's row. Neighbours are in different banks.
 */
%local spread = pieces == 2 and "((piece) ^ ((row) & 7))" or "((piece) ^ ((row) >> 1 & 3))"
SPC_DEVICE int place_of(int row, int piece)
{
    return row * $(step_pitch) + $(spread) * 16;
}

SPC_DEVICE void next_stage(ring_of_rows *r)
{
    r->before = r->at;
    r->at += $(step_size);
    if (r->at == $(config.ring * step_size))
        r->at = 0;
}

%-- A lane copies consecutive rows, so that one read loads all of their numbers.
%local function row_of(i)
%  if pieces == 2 then return "spc_lane() / 8 * 4 + " .. i end
%  return "spc_lane() / 4 + " .. i .. " * 8"
%end
% if k_blocks > 1 then
SPC_DEVICE void begin_offset(loader *l)
{
    const int *first = l->of.input + $(row_of(0));
    l->at = first + l->of.begin[*l->list];
    l->end = first + l->of.begin[*l->list + 1];
}

/* Moves to the next offset of which the warp has triplets if the current one has no
 * more. */
SPC_DEVICE void turn_over(loader *l)
{
    while (l->at == l->end && *l->list >= 0) {
        if (++l->block == $(k_blocks)) {
            l->block = 0;
            l->list++;
        }
        if (*l->list >= 0)
            begin_offset(l);
    }
}

% end
/* Reads the row numbers of the next step, one step before they are needed. They
 * are undefined if there is no next step. */
SPC_DEVICE void look_ahead(loader *l)
{
% if k_blocks > 1 then
    turn_over(l);
% end
    if (l->at == l->end)
        return;
% if pieces == 2 then
    spc_b16 four = *(const spc_b16 *)l->at;
    l->input[0] = (int)four.x;
    l->input[1] = (int)four.y;
    l->input[2] = (int)four.z;
    l->input[3] = (int)four.w;
% else
    SPC_UNROLL
    for (int i = 0; i < 2; i++)
        l->input[i] = l->at[i * 8];
% end
}

/* Starts the copies of the next step, if there is one, into the stage of the previous step.
 * Always commits one group. */
SPC_DEVICE void load_next(loader *l, const ring_of_rows *r)
{
% local block_at = k_blocks > 1 and " + l->block * " .. pieces * 64 or ""
    if (l->at < l->end) {
% if row_bytes % 64 ~= 0 then
        int piece = spc_lane() & $(pieces * 4 - 1);
        int valid = piece * 16$(block_at) < $(row_bytes);
% end
        SPC_UNROLL
        for (int i = 0; i < $(pieces * 2); i++) {
            const spc_u8 *from = l->in + (long long)l->input[i] * $(row_pitch)$(block_at);
% if pieces == 2 then
            spc_u8 *to = r->first + r->before + i * $(step_pitch) + (r->copies ^ i * 16);
% else
            spc_u8 *to = r->first + r->before + i * $(8 * step_pitch) + r->copies;
% end
% if row_bytes % 64 ~= 0 then
            /* Past the end of the row it points to its start, which is valid
             * memory. */
            spc_copy_near16(to, valid ? from : from - piece * 16, valid ? 16 : 0);
% else
            spc_copy_near16(to, from, 16);
% end
        }
        l->at += 16;
        look_ahead(l);
    }
    spc_copy_commit();
}

SPC_DEVICE void begin_ring(ring_of_rows *r)
{
    r->first = spc_shared() + $(rows_at) + spc_warp() * $(config.ring * step_size);
    r->copies = place_of($(row_of(0)), spc_lane() & $(pieces * 4 - 1));
    r->reads = place_of(spc_lane() & 15, spc_lane() >> 4);
}

SPC_DEVICE void begin_loading(loader *l, ring_of_rows *r, const spc_conv_args *args, int slot)
{
    l->in = (const spc_u8 *)spc_base((const spc_u8 *)args->in +
                                     (spc_lane() & $(pieces * 4 - 1)) * 16);
    l->of = share_of(slot, spc_warp());
    l->at = l->end = l->of.input + $(row_of(0));
% if k_blocks > 1 then
    l->list = list_of(slot);
    l->block = 0;
    if (*l->list >= 0)
        begin_offset(l);
% else
    l->end += l->of.begin[$(problem.offsets)];
% end
    look_ahead(l);
    SPC_UNROLL
    for (int i = 0; i < $(ahead); i++) {
        r->before = i * $(step_size);
        load_next(l, r);
    }
    r->at = 0;
    r->before = $(ahead * step_size);
}

/* Reads the masks of the lane's columns 2 t and 2 t + 1 of a step, with t = lane % 4,
 * and of the columns 8 further on. */
SPC_DEVICE void read_masks(spc_u32 *two, const spc_u16 *own)
{
    two[0] = *(const spc_u32 *)own;
    two[1] = *(const spc_u32 *)(own + 8);
}

/* Converts the owners of a step's triplets to a first operand: a[r] of lane 4 g + t has
 * rows g and g + 8 of its columns. A shift leaves two bits in each half of a word. */
SPC_DEVICE void find_owners(spc_u32 *a, const spc_u32 *two)
{
    SPC_UNROLL
    for (int i = 0; i < 2; i++) {
        spc_u32 bits = two[i] >> (spc_lane() >> 2);
        a[i * 2] = (bits & 0x10001u) * $(one);
% if problem.dtype == "f16" then
        a[i * 2 + 1] = (bits & 0x1000100u) * ($(one) >> 8); /* an integer */
% else
        a[i * 2 + 1] = (bits >> 8 & 0x10001u) * $(one);
% end
    }
}

/* sums[channels by 8][row g, row g + 8][2] += the rows of a step. */
SPC_DEVICE void add_step(float *sums, const spc_u32 *owners, const ring_of_rows *r)
{
    SPC_UNROLL
    for (int i = 0; i < $(pieces * 2); i++) {
        spc_u32 b[4];
        spc_ldmatrix4_trans(b, r->first + r->at + (r->reads ^ i * 32));
        spc_mma_$(problem.dtype)(sums + i * 8, owners, b);
        spc_mma_$(problem.dtype)(sums + i * 8 + 4, owners, b + 2);
    }
}

/* The sums of the warp's triplets of an offset, which are at `at` to `end`. */
SPC_DEVICE void sum_inputs(float *sums, loader *l, int at, int end, ring_of_rows *r)
{
    const spc_u16 *mask = l->of.mask + at + (spc_lane() & 3) * 2;
    spc_u32 masks[2];

    read_masks(masks, mask);
    SPC_UNROLL
    for (int i = 0; i < $(pieces * 16); i++)
        sums[i] = 0.0f;
    SPC_ROLLED
    for (; at < end; at += 16) {
        spc_u32 owners[4];
        find_owners(owners, masks);
        spc_copy_wait($(ahead - 1));
        spc_sync_warp(); /* rows have arrived, and the overwritten stage is no longer read */
        add_step(sums, owners, r);
        load_next(l, r);
        mask += 16;
        read_masks(masks, mask); /* undefined past the last step */
        next_stage(r);
    }
}

/* ---- products -------------------------------------------------------------------- */

/* Takes a number of the input type from each sum, in the order of first operands. The
 * sums keep the remainder. */
SPC_DEVICE void take_term(spc_u32 *a, float *sums)
{
    SPC_UNROLL
    for (int i = 0; i < $(pieces * 8); i++) {
        a[i] = spc_pack_$(problem.dtype)(sums[2 * i], sums[2 * i + 1]);
        sums[2 * i] -= spc_$(problem.dtype)_to_f32((spc_u16)a[i]);
        sums[2 * i + 1] -= spc_$(problem.dtype)_to_f32((spc_u16)(a[i] >> 16));
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

% write_anew()
/* ---- the tile -------------------------------------------------------------------- */

% write_activation("SPC_DEVICE")
/* Applies the epilogue and stores the lane's pieces of rows g and g + 8. */
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

/* Releases the weights that products were reading. */
SPC_DEVICE void finish_products(int *busy)
{
    spc_wgmma_wait(0);
    if (*busy >= 0 && spc_lane() == 0)
        spc_mbar_arrive(all_barriers()->empty + *busy);
    *busy = -1;
}

/* acc += the products of one window. */
SPC_DEVICE void sum_window(float *acc, turn *ring, ring_of_rows *rows, const spc_conv_args *args,
                           int slot)
{
    barriers *b = all_barriers();
    spc_u64 weights = spc_wgmma_descriptor(spc_shared(), $(config.n * 16), 128);
    spc_u32 a[$(terms * pieces * 8)];
    float sums[$(pieces * 16)];
    int busy = -1; /* the stage that products are reading */
    const int *list = list_of(slot);
    loader l;

% if brings then
    int coming = $(config.stages - 1); /* which of the window's weights are loaded next */
    if (spc_thread() == 0)
        for (int i = 0; i < $(config.stages); i++)
            bring_weights(args, list, i, *ring + (turn)i);
    spc_sync_warp();
% end
    begin_loading(&l, rows, args, slot);
    /* Offsets that are not listed have no triplets: the triplets of one listed offset end
     * where those of the next begin. */
    int at = 0, end = *list >= 0 ? l.of.begin[*list + 1] : 0;
    SPC_ROLLED
    while (*list >= 0) {
        /* Read before it is needed; past the last offset it is undefined. */
        int next = *++list, next_end = l.of.begin[next + 1];
        SPC_ROLLED
        for (int block = 0; block < $(k_blocks); block++) {
            sum_inputs(sums, &l, at, end, rows);
            finish_products(&busy);
            SPC_UNROLL
            for (int t = 0; t < $(terms); t++)
                take_term(a + t * $(pieces * 8), sums);
            int stage = place_of_turn(*ring, $(config.stages));
            spc_mbar_wait(b->full + stage, parity_of_turn(*ring, $(config.stages)));
            spc_wgmma_fence();
            multiply(acc, a, weights + stage * $(stage_size // 16));
            spc_wgmma_commit();
% if brings then
            /* Loads into the stage of the previous products, which all warps
             * have released. */
            if (spc_thread() == 0 && coming >= $(config.stages))
                bring_weights(args, list_of(slot), coming, *ring + $(config.stages - 1));
            spc_sync_warp();
            coming++;
% end
            busy = stage;
            ++*ring;
        }
        at = end;
        end = next_end;
    }
    finish_products(&busy);
    spc_copy_wait(0);
    spc_sync_warp();
}

/* Processes all windows of the next tile. Returns its first position, or -1 if there
 * is no next tile. */
SPC_DEVICE int sum_tile(float *acc, turn *ring, ring_of_rows *rows, turn *slot,
                        const spc_conv_args *args)
{
    barriers *b = all_barriers();

    SPC_UNROLL
    for (int i = 0; i < $(config.n // 2); i++)
        acc[i] = 0.0f;
    for (;;) {
        int at = place_of_turn(*slot, 2);
        spc_mbar_wait(b->sorted + at, parity_of_turn(*slot, 2));
        if (after(at)[0] == NO_TILE)
            return -1;
        sum_window(acc, ring, rows, args, at);
        int end = after(at)[0], p = after(at)[1];
        spc_sync_warp(); /* all have read what the next window overwrites */
        if (spc_lane() == 0)
            spc_mbar_arrive(b->read + at);
        ++*slot;
        if (end == DONE)
            return p;
    }
}

SPC_DEVICE void consume(const spc_conv_args *args)
{
    turn ring = 0, slot = 0;
    float acc[$(config.n // 2)];
    ring_of_rows rows;

    begin_ring(&rows);
    for (;;) {
        int p = sum_tile(acc, &ring, &rows, &slot, args);
        if (p < 0)
            break;
        p += spc_warp() * 16 + (spc_lane() >> 2);
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
            spc_mbar_init(b->sorted + i, 1);
            /* The warp that brings weights also reads the list of a window. */
            spc_mbar_init(b->read + i, $(brings and warps or warps + 1));
        }
        spc_mbar_fence();
    }
    spc_depend_wait();
    spc_depend_launch();
    spc_sync_block();
    if (spc_warp() < $(warps)) {
        /* setmaxnreg applies to whole warpgroups, so it comes before the warps
         * part. */
        spc_registers_raise($(consumer_limit));
        consume(args);
        return;
    }
    spc_registers_lower($(helper_limit));
% if not brings then
    if (spc_warp() == $(warps + copiers)) {
        bring_all(args);
        return;
    }
% end
    copy_tiles(args, spc_warp() - $(warps));
}

% write_weight_word()
/*
 * The packed image: [offset][k-block][n-block] stages, each in core matrices [core along
 * k][n columns][16 bytes]. Core c of a block of input channels has 8 of the channels, in
 * their order.
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
        int byte = block * $(pieces * 64) + core * 16 + q * 4;
        v[q] = weight_word(args, offset, byte, co);
    }
% write_packed("(long long)item")
}
