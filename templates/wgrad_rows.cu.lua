%-- The gradient of weights of few channels, by tiles of output rows: dy is read once, and
%-- not once a pair.
%--
%-- A block has the sums of all offsets in the registers of its warps, `slots` neighbouring
%-- offsets each. Its tiles are dealt in a snake; a step is a tile and an offset that the tile
%-- has. A loading warp brings all steps of a tile: the rows of dy with the first, which stay
%-- until the tile is done, and for each step the rows of x, zeroes where a row has none. The
%-- warp that has the offset multiplies. All meet at mbarriers: a loading warp has a ring of its
%-- own, as of a barrier only one phase after the last may be waited for.
%--
%-- Every block leaves a sum of every offset, and `spc_sum` adds them, in their order. The
%-- gradient of a bias is one offset more, which all tiles have, with an input of 1 in
%-- channel 0.
%
%include "wgrad_pairs.lua"
%
%local sizes, tiles = {16, 32, 64}, 8 -- of dy at a time
%
%-- Bytes from row to row, so that those that ldmatrix reads are in different banks.
%local function row_pitch(channels) return channels * 2 + 16 end
%function slots_of(problem, config) return ceil_div(offsets_of(problem), config.warps) end
%function threads_of(config) return (config.warps + config.loaders) * 32 end
%function shared_bytes(problem, config)
%  return config.rows * (config.loaders * config.stages * row_pitch(config.m) + tiles * row_pitch(config.n))
%    + config.loaders * config.stages * 16 + tiles * 8
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
%    {"loaders", {4, 8}, "warps that load"},
%    {"stages", {4, 8, 12}, "steps of a loading warp in flight"},
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
%      threads = threads_of(config), consumers = config.warps, rows = config.rows, pages = config.rows // 32, ahead = config.stages - 1,
%      stages = config.loaders * config.stages,
%      element = 2, align = 16, x_pitch = row_pitch(config.m), y_pitch = row_pitch(config.n),
%      x_pieces = config.m // 8, y_pieces = config.n // 8, x_size = x, y_size = y,
%      y_at = config.loaders * config.stages * x,
%      barriers_at = config.loaders * config.stages * x + tiles * y, tiles = tiles,
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
%      sum_grid_y = config.m * config.n // 64, preference = 5,
%    }
%  end,
%  default = function(problem, target)
%    local config = {m = least_size(problem.cin), n = least_size(problem.cout), rows = 64,
%                    warps = 9, loaders = 4, stages = 12, blocks = 1, order = "gray"}
%    if config.warps > offsets_of(problem) then config.warps = 7 end
%    if config.m * config.n >= 1024 then config.stages = 8 end
%    if config.m * config.n >= 1024 and slots_of(problem, config) > 3 then config.warps = 14 end
%    return config
%  end,
%}
#include "spc_balance.cuh"

% write_store_sum()
% write_copy_piece()
/* ---- the tiles ----------------------------------------------------------------- */

/* A tile of the block's, and its offsets; `lane_*` are those of 32 turns. */
typedef struct walk {
    int turn, tile;
    spc_u32 mask;
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
    if (w->lane_tile >= 0)
        w->lane_mask |= $(string.format("0x%xu", 1 << problem.offsets));
% end
}

/* The next tile; past the last, tile is -1. */
SPC_DEVICE void next_tile(walk *w, const spc_conv_args *args)
{
    w->turn++;
    if (w->turn % 32 == 0)
        look_at_turns(w, args);
    w->tile = spc_shfl(w->lane_tile, w->turn % 32);
    w->mask = (spc_u32)spc_shfl((int)w->lane_mask, w->turn % 32);
}

/* ---- the rings ------------------------------------------------------------------ */

/* Barriers of a stage of x: its step is there, is multiplied; of a stage of dy: its tile is
 * done. */
SPC_DEVICE spc_u64 *full_barrier(int stage)
{
    return (spc_u64 *)(spc_shared() + $(barriers_at)) + stage;
}
SPC_DEVICE spc_u64 *empty_barrier(int stage) { return full_barrier(stage) + $(stages); }
SPC_DEVICE spc_u64 *done_barrier(int stage) { return full_barrier(stage) + $(2 * stages); }

SPC_DEVICE spc_u8 *x_at(int stage) { return spc_shared() + stage * $(x_size); }
SPC_DEVICE spc_u8 *y_at(int stage) { return spc_shared() + $(y_at) + stage * $(y_size); }

/* A place in the ring of a loading warp, and the phase of its barriers. */
typedef struct place {
    int stage, parity, last;
} place;

/* Where step `step` of loading warp `warp` lies. */
SPC_DEVICE place place_of(int warp, int step)
{
    place p;

    p.stage = warp * $(config.stages) + step % $(config.stages);
    p.parity = step / $(config.stages) & 1;
    p.last = (warp + 1) * $(config.stages) - 1;
    return p;
}

SPC_DEVICE void move_on(place *p)
{
    if (p->stage++ == p->last) {
        p->stage -= $(config.stages);
        p->parity ^= 1;
    }
}

/* ---- loading ------------------------------------------------------------------ */

typedef struct loader {
    walk w;
    place x, full; /* where the next step goes; which is announced next */
    int y;         /* tiles before */
    int under_way; /* steps that are not announced */
    int row[8][$(pages)]; /* of eight steps, rows lane, lane + 32.. of the tile */
} loader;

%-- The copies of the rows of a side.
%function write_side(side, name, row)
%  local x = side == "x"
%  local pieces, channels = x and x_pieces or y_pieces, x and problem.cin or problem.cout
%  local pitch = (x and (problem.in_pitch or problem.cin) or add_pitch(problem)) * 2
    SPC_UNROLL
    for (int i = 0; i < $(rows * pieces // 32); i++) {
        int r = spc_lane() / $(pieces) + i * $(32 // pieces), piece = spc_lane() % $(pieces);
        copy_piece(to + r * $(x and x_pitch or y_pitch) + piece * 16, (const spc_u8 *)args->$(name),
                   spc_shfl($(row)[i / $(pieces)], r % 32), $(pitch), piece * 16, $(channels * 2));
    }
%end
%
SPC_DEVICE void copy_x(spc_u8 *to, const int *row, const spc_conv_args *args)
{
% write_side("x", "in", "row")
}
SPC_DEVICE void copy_y(spc_u8 *to, const int *row, const spc_conv_args *args)
{
% write_side("y", "residual", "row")
}

/* Looks up the rows of the next eight steps, or fewer. */
SPC_DEVICE void find_rows(loader *l, spc_u32 left, const spc_conv_args *args)
{
    const int *index = args->map.index + l->w.tile * $(rows) + spc_lane();

    SPC_UNROLL
    for (int i = 0; i < 8; i++) {
        int k = spc_ffs(left) - 1;
        SPC_UNROLL
        for (int page = 0; page < $(pages); page++)
            if (left != 0$(problem.bias == 1 and " && k < " .. problem.offsets or ""))
                l->row[i][page] = spc_load_int(index + (long long)k * args->map.rows_padded + page * 32);
        left &= left - 1;
    }
}

/* Says that the lanes' copies of a step have arrived, after they waited for them. */
SPC_DEVICE void announce(loader *l)
{
    spc_sync_warp();
    if (spc_lane() == 0)
        spc_mbar_arrive(full_barrier(l->full.stage));
    move_on(&l->full);
    l->under_way--;
}

/* Starts the copies of a step; one group. */
SPC_DEVICE void load_step(loader *l, const int *row, int k, const spc_conv_args *args)
{
    spc_mbar_wait(empty_barrier(l->x.stage), l->x.parity ^ 1);
% if problem.bias == 1 then
    if (k < $(problem.offsets))
% end
        copy_x(x_at(l->x.stage), row, args);
    spc_copy_commit();
    move_on(&l->x);
    if (++l->under_way > $(ahead)) {
        spc_copy_wait($(ahead));
        announce(l);
    }
}

/* All steps of a tile; dy goes with the first. */
SPC_DEVICE void load_tile(loader *l, const spc_conv_args *args)
{
    spc_u32 left = l->w.mask;
    int row[$(pages)];

    SPC_UNROLL
    for (int page = 0; page < $(pages); page++)
        row[page] = spc_load_int(args->map.order + l->w.tile * $(rows) + page * 32 + spc_lane());
    find_rows(l, left, args);
    spc_depend_wait(); /* the map was there before */
    spc_depend_launch();
    spc_mbar_wait(done_barrier(l->y % $(tiles)), (l->y / $(tiles) & 1) ^ 1);
    copy_y(y_at(l->y % $(tiles)), row, args);
    while (left != 0) {
        SPC_UNROLL
        for (int i = 0; i < 8; i++)
            if (left != 0) {
                load_step(l, l->row[i], spc_ffs(left) - 1, args);
                left &= left - 1;
            }
        if (left != 0)
            find_rows(l, left, args);
    }
    spc_copy_wait(0);
    while (l->under_way > 0)
        announce(l);
}

/* Every $(config.loaders)th of the tiles that have an offset. */
SPC_DEVICE void load(const spc_conv_args *args)
{
    loader l;

    l.x = l.full = place_of(spc_warp() - $(consumers), 0);
    l.y = l.under_way = 0;
    l.w.turn = -1;
    next_tile(&l.w, args);
    SPC_ROLLED
    while (l.w.tile >= 0) {
        if (l.w.mask != 0) {
            if (l.y % $(config.loaders) == spc_warp() - $(consumers))
                load_tile(&l, args);
            l.y++;
        }
        next_tile(&l.w, args);
    }
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
SPC_DEVICE void multiply_tile(float *acc, place x, const spc_u8 *y, spc_u32 left)
{
    for (; left != 0; left &= left - 1) {
        int slot = spc_ffs(left) - 1 - spc_warp() * $(slots);
        spc_mbar_wait(full_barrier(x.stage), x.parity);
        SPC_UNROLL
        for (int i = 0; i < $(slots); i++)
            if (slot == i)
                multiply(acc + i * $(tm * tn * 4), x_at(x.stage), y$(problem.bias == 1 and ", spc_warp() * " .. slots .. " + i == " .. problem.offsets or ""));
        spc_sync_warp();
        if (spc_lane() == 0)
            spc_mbar_arrive(empty_barrier(x.stage));
        move_on(&x);
    }
}

SPC_DEVICE void consume(const spc_conv_args *args)
{
    float acc[$(slots * tm * tn * 4)];
    walk w;
    int y = 0, lane_steps = 0; /* lane l: of loading warp l */

    SPC_UNROLL
    for (int i = 0; i < $(slots * tm * tn * 4); i++)
        acc[i] = 0.0f;
    w.turn = -1;
    next_tile(&w, args);
    spc_depend_wait();
    spc_depend_launch();
    if (spc_block_x() == 0 && spc_thread() == 0)
        *(int *)args->workspace = spc_grid_x();
    SPC_ROLLED
    for (; w.tile >= 0; next_tile(&w, args)) {
        if (w.mask == 0)
            continue;
        int warp = y % $(config.loaders);
        multiply_tile(acc, place_of(warp, spc_shfl(lane_steps, warp)), y_at(y % $(tiles)), w.mask);
        if (spc_lane() == 0)
            spc_mbar_arrive(done_barrier(y % $(tiles)));
        if (spc_lane() == warp)
            lane_steps += spc_popc(w.mask);
        y++;
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
        for (int i = 0; i < $(stages); i++) {
            spc_mbar_init(full_barrier(i), 1);
            spc_mbar_init(empty_barrier(i), $(consumers));
        }
        for (int i = 0; i < $(tiles); i++)
            spc_mbar_init(done_barrier(i), $(consumers));
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
