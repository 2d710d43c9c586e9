%-- The gradient of weights of few channels, by tiles of output rows whose rows several
%-- offsets read:
%--
%--     dw[k]  =  sum over the rows i of all tiles of  x[index[k][i]]^T dy[i]
%--
%-- A block has the sums of all offsets in the registers of its warps. Its tiles are dealt in
%-- a snake. Each warp has its own offsets, at most `slots`, and walks over the tiles of the
%-- block independently. It copies the rows that its steps need (a step is a tile and an
%-- offset of the warp that the tile has) into its own ring, so no warp waits for another. All
%-- warps are in the same few tiles at a time. Most rows of dy, and rows of x that several
%-- outputs read, therefore come from the multiprocessor's own cache. Kernels by pairs
%-- (wgrad_mma, wgrad_wgmma) load both rows of each pair from the last-level cache. This
%-- kernel pays off if rows have many inputs, because every block stores a sum of every
%-- offset, which spc_sum adds in their order.
%--
%-- Row numbers are loaded into registers `ahead` steps before their rows.
%
%include "wgrad_pairs.lua"
%
%local sizes = {16, 32, 64}
%
%-- Distance of rows in bytes, padded so that the rows that ldmatrix reads are
%-- in different banks.
%local function row_pitch(channels) return channels * 2 + 16 end
%-- The centre is in all tiles, so it has its own warp if there are enough warps.
%local function has_own_warp(problem, config) return problem.centre >= 0 and config.warps > 2 end
%function slots_of(problem, config)
%  if has_own_warp(problem, config) then return ceil_div(problem.offsets - 1, config.warps - 1) end
%  return ceil_div(problem.offsets, config.warps)
%end
%local function stage_bytes(config)
%  return config.rows * (row_pitch(config.m) + row_pitch(config.n))
%end
%function shared_bytes(problem, config) return config.warps * config.stages * stage_bytes(config) end
%-- Registers for sums, row numbers of four steps, operands and the temporaries of a
%-- step.
%function registers_of(problem, config)
%  return slots_of(problem, config) * config.m * config.n // 32 + config.rows // 4 + config.m // 4 + 44
%end
%function sum_bytes(problem, config) return problem.offsets * config.m * config.n * 4 end
%
%-- As many warps as fit, and whether any fit. The code for newer GPUs takes more registers
%-- (32->32).
%local function usual(problem, target)
%  local config = {m = math.min(64, least_size(problem.cin)), n = math.min(64, least_size(problem.cout)),
%                  rows = 32, stages = 4, blocks = 1, order = "gray"}
%  local function fits(warps, stages)
%    config.warps, config.stages = warps, stages
%    return warps <= problem.offsets and slots_of(problem, config) <= 7
%       and registers_of(problem, config) + (target.sm >= 100 and 24 or 0)
%           <= math.min(240, 65536 // (warps * 32) // 8 * 8)
%       and shared_bytes(problem, config) <= target.shared_block
%  end
%  for _, warps in ipairs {14, 10, 8} do
%    if fits(warps, 4) or fits(warps, 3) then return config, true end
%  end
%  return config, false
%end
%
%template = {
%  summary = "tiles of rows, the sums of all offsets in the registers of a block",
%  role = "wgrad",
%  device = "cuda",
%  params = {
%    {"m", sizes, "input channels"},
%    {"n", sizes, "output channels"},
%    {"rows", {32, 64}, "output rows of a tile"},
%    {"warps", {8, 10, 14, 16}, "warps of a block"},
%    {"stages", {3, 4, 6}, "steps of a warp in flight"},
%    {"blocks", {1, 2}, "blocks of a multiprocessor"},
%    {"order", {"gray", "gray_x"}, "row order of the map"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "needs a layer without groups" end
%    if problem.bias == 1 then return false, "has no gradient of a bias" end
%    if target.sm < 80 then return false, "needs asynchronous copies (sm_80)" end
%    if element_bytes(problem) ~= 2 then return false, "needs numbers of 16 bits" end
%    if row_alignment(problem) < 16 then return false, "needs rows of 16 bytes: wgrad_mma takes any" end
%    if problem.offsets < 8 or problem.offsets > 32 then return false, "needs 8 to 32 offsets" end
%    if problem.cin > 64 or problem.cout > 64 or least_size(problem.cin) * least_size(problem.cout) > 1024 then
%      return false, "needs few channels: 16 and 64, or 32 and 32"
%    end
%    local _, fits = usual(problem, target)
%    if not fits then return false, "rows and sums of so many channels do not fit: wgrad_mma takes any" end
%    return true
%  end,
%  constraints = {
%    {"a block has all channels, and no others", function(problem, config)
%      return config.m == least_size(problem.cin) and config.n == least_size(problem.cout)
%    end},
%    {"every warp has offsets", function(problem, config)
%      return config.warps <= problem.offsets
%    end},
%    {"a slot has three bits", function(problem, config) return slots_of(problem, config) <= 7 end},
%    {"sums fit the registers", function(problem, config)
%      return registers_of(problem, config) <= math.min(240, 65536 // (config.warps * 32 * config.blocks) // 8 * 8)
%    end},
%    {"blocks fit a multiprocessor", function(problem, config, target)
%      local shared = shared_bytes(problem, config)
%      return shared <= target.shared_block and (shared + 1024) * config.blocks <= (target.shared_sm or 102400)
%    end},
%  },
%  derive = function(problem, config, target)
%    return {
%      slots = slots_of(problem, config), own_warp = has_own_warp(problem, config),
%      tm = config.m // 16, tn = config.n // 8, threads = config.warps * 32, rows = config.rows,
%      pages = config.rows // 32, ahead = 2,
%      x_pitch = row_pitch(config.m), y_pitch = row_pitch(config.n),
%      x_pieces = config.m // 8, y_pieces = config.n // 8,
%      y_at = config.rows * row_pitch(config.m), stage_size = stage_bytes(config),
%      header = 256,
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = config.warps * 32, shared = shared_bytes(problem, config), grid = "steps", gradient = 1,
%      tile_rows = config.rows, order = config.order, pdl = target.sm >= 90 and 1 or 0,
%      blocks_per_sm = config.blocks,
%      workspace_block_bytes = sum_bytes(problem, config), workspace_bytes = 256,
%      sum_block = 256, sum_grid_x = problem.offsets, sum_shared = 4096,
%      sum_grid_y = config.m * config.n // 64, preference = 5,
%    }
%  end,
%  default = usual,
%}
#include "spc_balance.cuh"

% write_store_sum()
/* ---- steps ---------------------------------------------------------------------- */

/* The warp's offset of a slot, or -1 if the slot is empty. */
SPC_DEVICE int offset_of(int warp, int slot)
{
% if own_warp then
    int other = warp - 1 + slot * $(config.warps - 1);

    if (warp == 0)
        return slot == 0 ? $(problem.centre) : -1;
    return other < $(problem.offsets - 1) ? other + (other >= $(problem.centre)) : -1;
% else
    int k = warp + slot * $(config.warps);
    return k < $(problem.offsets) ? k : -1;
% end
}

/* The warp's position: tiles of 32 turns, one per lane, with the slots whose offsets each
 * tile has; and the remaining slots of the current tile. */
typedef struct walk {
    int warp;
    int turn, tile;
    int lane_tile, lane_slots;
    int left;
} walk;

SPC_DEVICE void look_at_turns(walk *w, const spc_conv_args *args)
{
    int rank = spc_snake_rank(w->turn + spc_lane(), spc_block_x(), spc_grid_x());

    w->lane_tile = -1;
    w->lane_slots = 0;
    if (rank < args->map.tiles) {
        spc_u32 mask = spc_load4(args->map.tile_mask + rank);
        w->lane_tile = spc_load_int(args->map.tile_order + rank);
        SPC_UNROLL
        for (int i = 0; i < $(slots); i++)
            if (offset_of(w->warp, i) >= 0 && w->lane_tile >= 0)
                w->lane_slots |= (int)(mask >> offset_of(w->warp, i) & 1) << i;
    }
}

/* Moves to the next tile that has an offset of the warp. Past the last tile `left`
 * is 0. */
SPC_DEVICE void next_tile(walk *w, const spc_conv_args *args)
{
    for (;;) {
        spc_u32 have = spc_ballot(w->lane_slots != 0) >> (w->turn & 31);
        if (have != 0) {
            w->turn += spc_ffs(have) - 1;
            w->tile = spc_shfl(w->lane_tile, w->turn & 31);
            w->left = spc_shfl(w->lane_slots, w->turn & 31);
            return;
        }
        w->turn = (w->turn & ~31) + 32;
        look_at_turns(w, args);
        if (spc_ballot(w->lane_tile >= 0) == 0)
            return;
    }
}

/* A step whose rows are known: rows of x for lane and lane + 32, and rows of dy alike.
 * slot < 0: no step. */
typedef struct step {
    int x[$(pages)], y[$(pages)], slot;
} step;

SPC_DEVICE void find_step(step *s, walk *w, const spc_conv_args *args)
{
    s->slot = -1;
    SPC_UNROLL
    for (int page = 0; page < $(pages); page++)
        s->x[page] = s->y[page] = -1;
    if (w->left == 0)
        return;
    s->slot = spc_ffs((spc_u32)w->left) - 1;
    int at = w->tile * $(rows) + spc_lane();
    const int *index = args->map.index + (long long)offset_of(w->warp, s->slot) * args->map.rows_padded + at;
    SPC_UNROLL
    for (int page = 0; page < $(pages); page++) {
        s->x[page] = spc_load_int(index + page * 32);
        s->y[page] = spc_load_int(args->map.order + at + page * 32);
    }
    w->left &= w->left - 1;
    if (w->left == 0) {
        w->turn++;
        if ((w->turn & 31) == 0)
            look_at_turns(w, args);
        next_tile(w, args);
    }
}

%-- Writes the copies of the rows of one side. A row without an input gives zeroes.
%function write_side(side, name, row)
%  local x = side == "x"
%  local pieces, channels = x and x_pieces or y_pieces, x and problem.cin or problem.cout
%  local pitch = (x and (problem.in_pitch or problem.cin) or add_pitch(problem)) * 2
    SPC_UNROLL
    for (int i = 0; i < $(rows * pieces // 32); i++) {
        int r = spc_lane() / $(pieces) + i * $(32 // pieces), piece = spc_lane() % $(pieces);
        int row = spc_shfl($(row)[i / $(pieces)], r % 32);
        int valid = row >= 0$(channels < pieces * 8 and " && piece < " .. channels // 8 or "") ? 16 : 0;
        const spc_u8 *from = (const spc_u8 *)args->$(name);
        spc_copy_near16(to + $(x and 0 or y_at) + r * $(x and x_pitch or y_pitch) + piece * 16,
                        valid ? from + (long long)row * $(pitch) + piece * 16 : from, valid);
    }
%end
%
SPC_DEVICE void copy_step(spc_u8 *to, step *s, const spc_conv_args *args)
{
    SPC_UNROLL
    for (int page = 0; page < $(pages); page++)
        if (s->x[page] < 0)
            s->y[page] = -1; /* a NaN in dy would give NaN times 0 */
% write_side("x", "in", "s->x")
% write_side("y", "residual", "s->y")
}

/* ---- products ------------------------------------------------------------------- */

/* Without this the compiler merges the products of all slots into one piece of code, and
 * their sums become an array in memory. */
#ifdef __CUDACC__
#define MARK(text) asm volatile(text)
#else
#define MARK(text) ((void)0)
#endif

/* acc[tm][tn][4] += the products of a stage. */
SPC_DEVICE void multiply(float *acc, const spc_u8 *x)
{
    int lane = spc_lane(), r = lane & 7, low = lane >> 3 & 1, high = lane >> 4;
    const spc_u8 *y = x + $(y_at) + (low * 8 + r) * $(y_pitch) + high * 16;

    x += (high * 8 + r) * $(x_pitch) + low * 16;
    SPC_UNROLL
    for (int row = 0; row < $(rows); row += 16) {
        spc_u32 a[$(tm)][4];
        SPC_UNROLL
        for (int i = 0; i < $(tm); i++)
            spc_ldmatrix4_trans(a[i], x + row * $(x_pitch) + i * 32);
        SPC_UNROLL
        for (int j = 0; j < $(tn); j += 2) {
            spc_u32 b[4];
            spc_ldmatrix4_trans(b, y + row * $(y_pitch) + j * 16);
            SPC_UNROLL
            for (int i = 0; i < $(tm); i++) {
                spc_mma_$(problem.dtype)(acc + (i * $(tn) + j) * 4, a[i], b);
                spc_mma_$(problem.dtype)(acc + (i * $(tn) + j + 1) * 4, a[i], b + 2);
            }
        }
    }
}

/* A block's sum of an offset: [m][n]. */
SPC_DEVICE float *sum_at(const spc_conv_args *args, int block, int k)
{
    return (float *)((spc_u8 *)args->workspace + $(header)) +
           ((long long)block * $(problem.offsets) + k) * $(config.m * config.n);
}

SPC_DEVICE void leave(const float *acc, float *to)
{
    to += (spc_lane() >> 2) * $(config.n) + (spc_lane() & 3) * 2;
    SPC_UNROLL
    for (int i = 0; i < $(tm * tn * 2); i++) { /* 16 rows, 8 columns, half */
        spc_b8 two;
        two.x = spc_f32_bits(acc[i * 2]);
        two.y = spc_f32_bits(acc[i * 2 + 1]);
        spc_store8(to + (i / $(tn * 2) * 16 + i % 2 * 8) * $(config.n) + i / 2 % $(tn) * 8, two);
    }
}

/* ---- the kernels ------------------------------------------------------------- */

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(config.blocks))
{
    spc_u8 *ring = spc_shared() + spc_warp() * $(config.stages * stage_size);
% for k = 0, slots - 1 do
    float acc$(k)[$(tm * tn * 4)];
% end
    walk w;
% for i = 0, ahead - 1 do
    step step$(i);
% end
    int stage = 0;
    spc_u32 slots = 0; /* of steps in the ring: 3 bits each, 7: no step; oldest lowest */

    SPC_UNROLL
    for (int i = 0; i < $(tm * tn * 4); i++) {
% for k = 0, slots - 1 do
        acc$(k)[i] = 0.0f;
% end
    }
    w.warp = spc_warp();
    w.turn = 0;
    w.left = 0;
    look_at_turns(&w, args);
    next_tile(&w, args);
% for i = 0, ahead - 1 do
    find_step(&step$(i), &w, args);
% end
    spc_depend_wait(); /* the map was complete earlier */
    spc_depend_launch();
    if (spc_block_x() == 0 && spc_thread() == 0)
        *(int *)args->workspace = spc_grid_x();
    for (int i = 0; i < $(config.stages - 1); i++)
        /* The ring begins with steps that do not exist. */
        slots |= 7u << 3 * i;
    SPC_ROLLED
    for (;;) {
% for i = 0, ahead - 1 do
        /* The step is copied into the stage that was multiplied last. Then the oldest step
         * of the ring is multiplied. */
        slots |= (spc_u32)(step$(i).slot & 7) << $(3 * (config.stages - 1));
        if (slots == $(string.format("0x%xu", (1 << 3 * config.stages) - 1)))
            break;
        if (step$(i).slot >= 0)
            copy_step(ring + stage * $(stage_size), &step$(i), args);
        find_step(&step$(i), &w, args);
        spc_copy_commit();
        spc_copy_wait($(config.stages - 1));
        stage = stage == $(config.stages - 1) ? 0 : stage + 1;
        spc_sync_warp();
        /* Each case has its own sums, because registers cannot be indexed. */
        switch (slots & 7) {
% for k = 0, slots - 1 do
        case $(k):
            MARK("// slot $(k)");
            multiply(acc$(k), ring + stage * $(stage_size));
            break;
% end
        }
        slots >>= 3;
        spc_sync_warp(); /* all have finished with the stage */
% end
    }
% for k = 0, slots - 1 do
    if (offset_of(w.warp, $(k)) >= 0)
        leave(acc$(k), sum_at(args, spc_block_x(), offset_of(w.warp, $(k))));
% end
}

/* Adds the blocks' sums of offset block_x, 16 times four neighbours. Each of 16 threads
 * adds every 16th block. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    float *parts = (float *)spc_shared();
    int k = spc_block_x(), quad = spc_block_y() * 16 + spc_thread() % 16;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    spc_depend_wait();
    spc_depend_launch();
    int blocks = *(const int *)args->workspace;
% write_add_shares("spc_thread() / 16", "blocks", 16, 8, "sum_at(args, other, k) + quad * 4")
    SPC_UNROLL
    for (int i = 0; i < 4; i++)
        parts[spc_thread() * 4 + i] = sum[i];
    spc_sync_block();
    if (spc_thread() >= 64)
        return;
    /* Each thread has one of the numbers. */
    quad = spc_block_y() * 16 + spc_thread() / 4;
    int ci = quad * 4 / $(config.n);
    int co = quad * 4 % $(config.n) + spc_thread() % 4;
    if (ci >= $(problem.cin) || co >= $(problem.cout))
        return;
    float whole = 0.0f;
    for (int way = 0; way < 16; way++)
        whole += parts[way * 64 + spc_thread()];
    store_sum(args, ((long long)k * $(problem.cin) + ci) * $(problem.cout) + co, whole);
}
