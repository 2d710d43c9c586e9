%-- The gradient of weights of few channels, by tiles of output rows: dy is read once, and
%-- not once a pair.
%--
%-- A block has the sums of all offsets in the registers of its warps, `slots` neighbouring
%-- offsets each. Its tiles are dealt in a snake; a step is a tile and an offset that the tile
%-- has. Loading warps bring the step's rows of x, zeroes where a row has none, and with a
%-- tile's first step the rows of dy, which stay until the tile is done; the warp that has the
%-- offset multiplies. All meet at mbarriers. A step is announced when `ahead` later ones are
%-- under way; the row numbers of a loading warp come through a ring of its own, with the
%-- copies of an earlier step.
%--
%-- Every block leaves a sum of every offset, and `spc_sum` adds them, in their order. The
%-- gradient of a bias is one offset more, which all tiles have, with an input of 1 in
%-- channel 0.
%
%include "wgrad_pairs.lua"
%
%local sizes, loaders = {16, 32, 64}, 4
%
%-- Bytes from row to row, so that those that ldmatrix reads are in different banks.
%local function row_pitch(channels) return channels * 2 + 16 end
%local function stage_size_of(config)
%  return config.rows * (row_pitch(config.m) + row_pitch(config.n))
%end
%function slots_of(problem, config) return ceil_div(offsets_of(problem), config.warps) end
%function threads_of(config) return (config.warps + loaders) * 32 end
%function shared_bytes(problem, config)
%  return config.stages * (stage_size_of(config) + 32 + config.rows * 8)
%end
%function registers_of(problem, config)
%  return slots_of(problem, config) * config.m * config.n // 32 + config.m // 4 + 36
%end
%function sum_bytes(problem, config) return offsets_of(problem) * config.m * config.n * 4 end
%
%template = {
%  summary = "tiles of rows, the sums of all offsets in registers",
%  role = "wgrad",
%  device = "cuda",
%  params = {
%    {"m", sizes, "input channels"},
%    {"n", sizes, "output channels"},
%    {"rows", {32, 64}, "output rows of a tile"},
%    {"warps", {7, 9, 14}, "warps that multiply"},
%    {"stages", {8, 12, 16}, "steps in flight"},
%    {"blocks", {1, 2}, "blocks of a multiprocessor"},
%    {"order", {"gray", "dense"}, "row order of the map"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "needs a layer without groups" end
%    if target.sm < 90 then return false, "needs mbarriers (sm_90)" end
%    if element_bytes(problem) ~= 2 then return false, "needs numbers of 16 bits" end
%    if row_alignment(problem) < 16 then return false, "needs rows of 16 bytes: wgrad_mma takes any" end
%    if offsets_of(problem) > 32 then return false, "needs at most 32 offsets" end
%    if problem.cin > 64 or problem.cout > 64 then return false, "needs few channels" end
%    return true
%  end,
%  constraints = {
%    {"a block has all channels, and no others", function(problem, config)
%      return config.m == least_size(problem.cin) and config.n == least_size(problem.cout)
%    end},
%    {"sums fit the registers", function(problem, config)
%      return registers_of(problem, config) <= 65536 // (threads_of(config) * config.blocks) // 8 * 8
%        and registers_of(problem, config) <= 240
%    end},
%    {"every warp has offsets", function(problem, config)
%      return config.warps <= offsets_of(problem)
%    end},
%    {"blocks fit a multiprocessor", function(problem, config, target)
%      local shared = shared_bytes(problem, config)
%      return shared <= target.shared_block and (shared + 1024) * config.blocks <= target.shared_sm
%    end},
%  },
%  derive = function(problem, config, target)
%    local x, y = config.rows * row_pitch(config.m), config.rows * row_pitch(config.n)
%    return {
%      slots = slots_of(problem, config), tm = config.m // 16, tn = config.n // 8,
%      threads = threads_of(config), consumers = config.warps, loaders = loaders,
%      rows = config.rows // loaders, ahead = config.stages - 2,
%      element = 2, align = 16, x_pitch = row_pitch(config.m), y_pitch = row_pitch(config.n),
%      x_pieces = config.m // 8, y_pieces = config.n // 8, x_size = x, y_size = y,
%      y_at = config.stages * x, barriers_at = config.stages * (x + y),
%      rows_at = config.stages * (x + y + 32),
%      all = offsets_of(problem), header = 256, quads = config.m * config.n // 4,
%      results = (taps_of(problem) + problem.bias) * problem.cout,
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = threads_of(config), shared = shared_bytes(problem, config), grid = "steps", gradient = 1,
%      tile_rows = config.rows, order = config.order, pdl = 1, blocks_per_sm = config.blocks,
%      workspace_block_bytes = sum_bytes(problem, config), workspace_bytes = 256,
%      sum_block = 256, sum_grid_x = offsets_of(problem), sum_shared = 4096,
%      sum_grid_y = config.m * config.n // 64, preference = 14,
%    }
%  end,
%  default = function(problem, target)
%    local config = {m = least_size(problem.cin), n = least_size(problem.cout), rows = 64,
%                    warps = 9, stages = 12, blocks = 1, order = "gray"}
%    if config.warps > offsets_of(problem) then config.warps = 7 end
%    if config.m * config.n >= 1024 and slots_of(problem, config) > 3 then config.warps = 14 end
%    return config
%  end,
%}
#include "spc_balance.cuh"

% write_store_sum()
% write_copy_piece()
/* ---- the steps ----------------------------------------------------------------- */

/* A step, of the steps of a block one after another: a tile, of which `left` are the
 * offsets to come, and in `lane_*` the tiles of 32 turns. */
typedef struct walk {
    int turn, tile, first; /* first: no step of the tile was before */
    spc_u32 left;
    int lane_tile;
    spc_u32 lane_mask;
} walk;

SPC_DEVICE void look_at_turns(walk *w, const spc_conv_args *args)
{
    int rank = spc_snake_rank(w->turn + spc_lane(), spc_block_x(), spc_grid_x());

    w->lane_tile = -1;
    w->lane_mask = 0;
    if (rank < args->map.tiles) {
        w->lane_tile = spc_load_int(args->map.tile_order + rank);
        w->lane_mask = spc_load4(args->map.tile_mask + rank);
    }
% if problem.bias == 1 then
    w->lane_mask |= $(string.format("0x%xu", 1 << problem.offsets));
% end
}

/* Goes on to the next tile that has an offset; past the last, tile is -1. */
SPC_DEVICE void next_tile(walk *w, const spc_conv_args *args)
{
    do {
        w->turn++;
        if (w->turn % 32 == 0)
            look_at_turns(w, args);
        w->tile = spc_shfl(w->lane_tile, w->turn % 32);
        w->left = (spc_u32)spc_shfl((int)w->lane_mask, w->turn % 32);
    } while (w->tile >= 0 && w->left == 0);
    w->first = 1;
}

SPC_DEVICE void begin(walk *w, const spc_conv_args *args)
{
    w->turn = -1;
    next_tile(w, args);
}

SPC_DEVICE int offset_of(const walk *w) { return spc_ffs(w->left) - 1; }

SPC_DEVICE void next_step(walk *w, const spc_conv_args *args)
{
    w->left &= w->left - 1;
    w->first = 0;
    if (w->left == 0)
        next_tile(w, args);
}

/* ---- the rings ------------------------------------------------------------------ */

/* A stage's barriers: its step is there, its x is left, its dy is left. */
SPC_DEVICE spc_u64 *full_barrier(int stage)
{
    return (spc_u64 *)(spc_shared() + $(barriers_at)) + stage;
}
SPC_DEVICE spc_u64 *empty_barrier(int stage) { return full_barrier(stage) + $(config.stages); }
SPC_DEVICE spc_u64 *done_barrier(int stage) { return full_barrier(stage) + $(2 * config.stages); }

SPC_DEVICE spc_u8 *x_at(int stage) { return spc_shared() + stage * $(x_size); }
SPC_DEVICE spc_u8 *y_at(int stage) { return spc_shared() + $(y_at) + stage * $(y_size); }

/* A place in a ring, and the phase of its barrier. */
typedef struct place {
    int stage, parity;
} place;

SPC_DEVICE void move_on(place *p)
{
    if (++p->stage == $(config.stages)) {
        p->stage = 0;
        p->parity ^= 1;
    }
}

/* ---- loading ------------------------------------------------------------------ */

/* A warp that loads has $(rows) rows of a tile. */
typedef struct loader {
    walk rows, numbers; /* the steps that either is next copied of */
    place x, y, full;   /* where rows go next; what is announced next */
    int slot, slot_ahead;
} loader;

SPC_DEVICE int loading_warp(void) { return spc_warp() - $(consumers); }
SPC_DEVICE int first_row(void) { return loading_warp() * $(rows); }

/* Row numbers of the warp's rows of a step: of x, then of dy. */
SPC_DEVICE int *numbers_at(int slot)
{
    return (int *)(spc_shared() + $(rows_at)) + (loading_warp() * $(config.stages) + slot) * $(2 * rows);
}
SPC_DEVICE int after(int slot) { return slot == $(config.stages - 1) ? 0 : slot + 1; }

/* Starts copying the row numbers of one more step, if there is one. */
SPC_DEVICE void load_numbers(loader *l, const spc_conv_args *args)
{
    const walk *w = &l->numbers;
    int k = offset_of(w), row, *to;

    if (w->tile < 0)
        return;
    row = w->tile * $(config.rows) + first_row() + spc_lane() % $(rows);
    to = numbers_at(l->slot_ahead) + spc_lane();
    if (spc_lane() < $(rows)) {
        if (k < $(problem.offsets))
            spc_copy_async4(to, args->map.index + (long long)k * args->map.rows_padded + row, 4);
    } else if (w->first$(rows < 16 and " && spc_lane() < " .. 2 * rows or "")) {
        spc_copy_async4(to, args->map.order + row, 4);
    }
    next_step(&l->numbers, args);
    l->slot_ahead = after(l->slot_ahead);
}

%-- The copies of the warp's rows of a side.
%function write_side(side, name, to)
%  local x = side == "x"
%  local pieces, channels = x and x_pieces or y_pieces, x and problem.cin or problem.cout
%  local pitch = (x and (problem.in_pitch or problem.cin) or add_pitch(problem)) * 2
        SPC_UNROLL
        for (int i = 0; i < $(ceil_div(rows * pieces, 32)); i++) {
            int item = spc_lane() + i * 32, r = item / $(pieces), piece = item % $(pieces);
%   if rows * pieces % 32 ~= 0 then
            if (item >= $(rows * pieces))
                break;
%   end
            copy_piece($(to) + (first + r) * $(x and x_pitch or y_pitch) + piece * 16,
                       (const spc_u8 *)args->$(name), numbers[$(x and "" or rows .. " + ")r], $(pitch),
                       piece * 16, $(channels * 2));
        }
%end
%
/* Starts the copies of the next step; one group. */
SPC_DEVICE void load_next(loader *l, const spc_conv_args *args)
{
    const int *numbers = numbers_at(l->slot);
    int first = first_row();

    spc_mbar_wait(empty_barrier(l->x.stage), l->x.parity);
    if (l->rows.first) {
        spc_mbar_wait(done_barrier(l->y.stage), l->y.parity);
% write_side("y", "residual", "y_at(l->y.stage)")
        move_on(&l->y);
    }
% if problem.bias == 1 then
    if (offset_of(&l->rows) < $(problem.offsets)) {
% else
    {
% end
% write_side("x", "in", "x_at(l->x.stage)")
    }
    next_step(&l->rows, args);
    l->slot = after(l->slot);
    move_on(&l->x);
    load_numbers(l, args);
    spc_copy_commit();
}

/* Says that the lanes' copies of a step have arrived, after they waited for them. */
SPC_DEVICE void announce(loader *l)
{
    spc_sync_warp();
    if (spc_lane() == 0)
        spc_mbar_arrive(full_barrier(l->full.stage));
    move_on(&l->full);
}

SPC_DEVICE void load(const spc_conv_args *args)
{
    loader l;
    int begun = 0;

    l.x.stage = l.y.stage = l.full.stage = 0;
    l.x.parity = l.y.parity = l.full.parity = 1;
    l.slot = l.slot_ahead = 0;
    begin(&l.rows, args);
    l.numbers = l.rows;
    SPC_ROLLED
    for (int i = 0; i < $(ahead + 1); i++)
        load_numbers(&l, args);
    spc_copy_commit();
    spc_copy_wait(0);
    spc_sync_warp();
    spc_depend_wait(); /* the map was there before */
    spc_depend_launch();
    SPC_ROLLED
    while (l.rows.tile >= 0) {
        load_next(&l, args);
        if (begun < $(ahead)) {
            begun++;
            spc_sync_warp(); /* all have read their row numbers */
            continue;
        }
        spc_copy_wait($(ahead));
        announce(&l);
    }
    spc_copy_wait(0);
    SPC_ROLLED
    for (; begun > 0; begun--)
        announce(&l);
}

/* ---- products ------------------------------------------------------------------- */

% if problem.bias == 1 then
/* The inputs of the bias, as a first operand: 1 in channel 0. */
SPC_DEVICE void set_ones(spc_u32 *a, int is_first)
{
    a[0] = a[2] = is_first && spc_lane() < 4 ? $(problem.dtype == "f16" and "0x3c003c00u" or "0x3f803f80u") : 0u;
    a[1] = a[3] = 0u;
}

% end
/* acc[tm][tn][4] += the tile's products with a step's rows of x. */
SPC_DEVICE void multiply(float *acc, const spc_u8 *x, const spc_u8 *y$(problem.bias == 1 and ", int is_bias" or ""))
{
    int lane = spc_lane(), r = lane & 7, low = lane >> 3 & 1, high = lane >> 4;

    x += (high * 8 + r) * $(x_pitch) + low * 16;
    y += (low * 8 + r) * $(y_pitch) + high * 16;
    SPC_UNROLL
    for (int row = 0; row < $(config.rows); row += 16) {
        spc_u32 a[$(tm)][4];
        SPC_UNROLL
        for (int i = 0; i < $(tm); i++)
% if problem.bias == 1 then
            if (is_bias)
                set_ones(a[i], i == 0);
            else
% end
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
           ((long long)block * $(all) + k) * $(config.m * config.n);
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

/* The steps of a tile; the warp multiplies those of its offsets. */
SPC_DEVICE void multiply_tile(float *acc, place *x, const spc_u8 *y, spc_u32 left)
{
    for (; left != 0; left &= left - 1) {
        int slot = spc_ffs(left) - 1 - spc_warp() * $(slots);
        spc_mbar_wait(full_barrier(x->stage), x->parity);
        SPC_UNROLL
        for (int i = 0; i < $(slots); i++)
            if (slot == i)
                multiply(acc + i * $(tm * tn * 4), x_at(x->stage), y$(problem.bias == 1 and ", spc_warp() * " .. slots .. " + i == " .. problem.offsets or ""));
        spc_sync_warp();
        if (spc_lane() == 0)
            spc_mbar_arrive(empty_barrier(x->stage));
        move_on(x);
    }
}

SPC_DEVICE void consume(const spc_conv_args *args)
{
    float acc[$(slots * tm * tn * 4)];
    place x = {0, 0};
    walk w;
    int y = 0;

    SPC_UNROLL
    for (int i = 0; i < $(slots * tm * tn * 4); i++)
        acc[i] = 0.0f;
    begin(&w, args);
    spc_depend_wait();
    spc_depend_launch();
    if (spc_block_x() == 0 && spc_thread() == 0)
        *(int *)args->workspace = spc_grid_x();
    SPC_ROLLED
    while (w.tile >= 0) {
        multiply_tile(acc, &x, y_at(y), w.left);
        if (spc_lane() == 0)
            spc_mbar_arrive(done_barrier(y));
        y = y == $(config.stages - 1) ? 0 : y + 1;
        next_tile(&w, args);
    }
    SPC_UNROLL
    for (int i = 0; i < $(slots); i++)
        if (spc_warp() * $(slots) + i < $(all))
            leave(acc + i * $(tm * tn * 4), sum_at(args, spc_block_x(), spc_warp() * $(slots) + i));
}

/* ---- the kernels ------------------------------------------------------------- */

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(config.blocks))
{
    if (spc_thread() == 0) {
        for (int i = 0; i < $(config.stages); i++) {
            spc_mbar_init(full_barrier(i), $(loaders));
            spc_mbar_init(empty_barrier(i), $(consumers));
            spc_mbar_init(done_barrier(i), $(consumers));
        }
        spc_mbar_fence();
    }
    spc_sync_block();
    if (spc_warp() < $(consumers))
        consume(args);
    else
        load(args);
}

/* Adds the blocks' sums of offset block_x: those of 16 times four neighbours, of which 16
 * threads have every 16th block each. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    float *parts = (float *)spc_shared();
    int k = spc_block_x(), quad = spc_block_y() * 16 + spc_thread() % 16;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    spc_depend_wait();
    spc_depend_launch();
    int blocks = *(const int *)args->workspace;
    SPC_ROLLED
    for (int block = spc_thread() / 16; block < blocks; block += 128) { /* eight under way */
        spc_b16 four[8];
        SPC_UNROLL
        for (int i = 0; i < 8; i++) {
            four[i].x = four[i].y = four[i].z = four[i].w = 0u;
            if (block + i * 16 < blocks)
                four[i] = *(const spc_b16 *)(sum_at(args, block + i * 16, k) + quad * 4);
        }
        SPC_UNROLL
        for (int i = 0; i < 8; i++) {
            sum[0] += spc_bits_f32(four[i].x);
            sum[1] += spc_bits_f32(four[i].y);
            sum[2] += spc_bits_f32(four[i].z);
            sum[3] += spc_bits_f32(four[i].w);
        }
    }
    SPC_UNROLL
    for (int i = 0; i < 4; i++)
        parts[spc_thread() * 4 + i] = sum[i];
    spc_sync_block();
    if (spc_thread() >= 64)
        return;
    /* A thread has one of the numbers. */
    quad = spc_block_y() * 16 + spc_thread() / 4;
    int ci = quad * 4 / $(config.n);
    int co = quad * 4 % $(config.n) + spc_thread() % 4;
    if (ci >= (k == $(problem.offsets) ? 1 : $(problem.cin)) || co >= $(problem.cout))
        return;
    float whole = 0.0f;
    for (int way = 0; way < 16; way++)
        whole += parts[way * 64 + spc_thread()];
    store_sum(args, ((long long)k * $(problem.cin) + ci) * $(problem.cout) + co, whole);
}
