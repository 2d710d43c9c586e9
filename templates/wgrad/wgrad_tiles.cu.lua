%-- The gradient of weights of few channels on warpgroups, by tiles of output rows. The rows
%-- of a tile are the inner dimension of products, and the sums of all offsets are in
%-- registers.
%--
%--     dw[k][ci][co]  =  sum over the rows p of all tiles of  x[index[k][p]][ci] * dy[order[p]][co]
%--
%-- A block of the first operand has 64 input channels, of one offset or of several
%-- consecutive ones. It consists of rows of 128 bytes in shared memory, which wgmma reads
%-- transposed. A row that an offset does not have is zero. The rows of dy of a tile are
%-- loaded once for all its blocks. Blocks without an offset of the tile are skipped.
%--
%-- Some warps only load. A step is the rows of dy of a tile, or one of its blocks. Each step
%-- goes to one loading warp, so that the copies of several steps are under way. Row numbers
%-- are copied to shared memory some steps ahead. In registers, a wait for the numbers of this
%-- step would also wait for those of the next. Copies signal the barrier of their stage
%-- themselves. The warpgroups that multiply divide the blocks of a tile.
%--
%-- `shares` thread blocks have the same tiles and a part of the offsets each. This means
%-- fewer sums in registers and fewer sums for spc_sum to add, but more rows of dy to load.
%--
%-- If a row of dy contains a NaN or infinity, its product with the zero of an absent input is
%-- NaN. Such sums are computed again.
%
%include "wgrad_pairs.lua"
%include "wgrad_groups.lua"
%
%-- Input channels of an offset in a block, and the number of its offsets.
%function slot_of(problem) return problem.cin <= 8 and 8 or least_size(problem.cin) end
%function per_block(problem) return 64 // slot_of(problem) end
%-- With a centre, opposite offsets are made neighbours, because the row order keeps them
%-- together: first the centre, then an empty slot, then the pairs.
%function has_pairs(problem) return problem.centre >= 0 and problem.centre * 2 + 1 == problem.offsets and per_block(problem) > 1 end
%function slots_of(problem) return problem.offsets + (has_pairs(problem) and 1 or 0) end
%function all_blocks_of(problem) return ceil_div(slots_of(problem), per_block(problem)) end
%-- Blocks of a share, and of a warpgroup.
%function share_blocks(problem, config) return ceil_div(all_blocks_of(problem), config.shares) end
%function group_blocks(problem, config) return ceil_div(share_blocks(problem, config), config.groups) end
%function stage_bytes(config) return config.rows * 128 end
%-- Row numbers of a step. The numbers of each offset begin four banks after those of the
%-- previous one.
%local known = 4
%function numbers_bytes(problem, config) return per_block(problem) * (config.rows * 4 + 16) end
%function shared_bytes(problem, config)
%  return (config.groups * config.stages + config.ahead) * (stage_bytes(config) + 16)
%    + config.loaders * known * numbers_bytes(problem, config)
%end
%function width_of(problem) return math.min(64, least_size(problem.cout)) end
%function registers_of(problem, config)
%  return group_blocks(problem, config) * width_of(problem) // 2 + 48
%end
%-- Registers of a loading warp: rows of two steps, and the temporaries for finding
%-- and copying them.
%function loader_registers_of(config) return config.rows // 4 + 56 end
%-- Registers of a multiplying thread if loading warps, which are whole warpgroups, give some
%-- away.
%function raised_registers(config)
%  local given = config.loaders * 32 * (loader_registers_of(config) // 8 * 8)
%  return math.min(240, (equal_registers(config) * threads_of(config) - given) // (config.groups * 128) // 8 * 8)
%end
%function sums_fit(problem, config)
%  local need = registers_of(problem, config)
%  return share_blocks(problem, config) <= 31
%    and (need <= equal_registers(config) or need <= raised_registers(config))
%end
%
%-- True if the map has enough pairs for tiles to be faster than lists of pairs. Both take the
%-- same time between 15,000 and 35,000 rows and, with 64 channels on both sides, between
%-- 64,000 and 252,000 (shells, H200). Two fifths of all pairs is between scans (less than a
%-- quarter), where lists win, and shells (47 %).
%function is_best(problem, config, target)
%  if target.pairs == nil or problem.centre < 0 then return false end
%  local least, most = math.min(problem.cin, problem.cout), math.max(problem.cin, problem.cout)
%  if least < 16 or config.shares > 2 and least < 64 then return false end
%  return target.pairs * 5 >= target.rows * problem.offsets * (config.shares > 1 and 2 or 1)
%    and target.rows >= (config.shares > 2 and 150000 or 30000)
%end
%
%template = {
%  summary = "tiles of rows on warpgroups, the sums of all offsets in registers",
%  role = "wgrad",
%  device = "cuda",
%  params = {
%    {"rows", {64, 128}, "output rows of a tile"},
%    {"groups", {1, 2, 3}, "warpgroups that multiply"},
%    {"loaders", {4, 8}, "warps that load"},
%    {"shares", {1, 2, 3, 4, 6, 9}, "thread blocks that divide the offsets"},
%    {"stages", {4, 8}, "steps of a warpgroup in flight"},
%    {"ahead", {2, 4, 8}, "tiles whose rows of dy are there"},
%    {"blocks", {1, 2}, "blocks of a multiprocessor"},
%    {"cache", {"near", "far"}, "through which rows come"},
%    {"order", {"gray", "gray_x"}, "row order of the map"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "needs a layer without groups" end
%    if problem.bias == 1 then return false, "has no gradient of a bias" end
%    if target.target ~= "sm_90a" then return false, "needs wgmma (sm_90a)" end
%    if element_bytes(problem) ~= 2 then return false, "needs numbers of 16 bits" end
%    if row_alignment(problem) < 16 then return false, "needs rows of 16 bytes: wgrad_mma takes any" end
%    if problem.cin > 64 or problem.cout > 64 then return false, "needs at most 64 channels: wgrad_wgmma takes any" end
%    if group_blocks(problem, {shares = 9, groups = 2}) * width_of(problem) > 256
%       or share_blocks(problem, {shares = 9}) > 31 then
%      return false, "needs fewer sums: these are more than nine shares have registers for"
%    end
%    return true
%  end,
%  constraints = {
%    {"every share and warpgroup has offsets", function(problem, config)
%      return config.shares * config.groups <= all_blocks_of(problem)
%    end},
%    {"sums fit the registers", sums_fit},
%    {"every loading warp has stages", function(problem, config)
%      return config.loaders <= config.groups * config.stages
%    end},
%    {"rows fit the registers", function(problem, config)
%      return loader_registers_of(config) <= equal_registers(config)
%    end},
%    {"blocks fit a multiprocessor", function(problem, config, target)
%      local shared = shared_bytes(problem, config)
%      return shared <= target.shared_block and (shared + 1024) * config.blocks <= target.shared_sm
%    end},
%  },
%  derive = function(problem, config, target)
%    local slot, n = slot_of(problem), width_of(problem)
%    return {
%      slot = slot, per = per_block(problem), n = n, all = all_blocks_of(problem),
%      own = share_blocks(problem, config), group_own = group_blocks(problem, config),
%      consumers = config.groups * 4, block = threads_of(config), rows = config.rows,
%      gives = registers_of(problem, config) > equal_registers(config),
%      lane_rows = config.rows // 4, x_there = problem.cin // 8, y_there = problem.cout // 8,
%      words = ceil_div(problem.offsets, 32), stage_size = stage_bytes(config),
%      x_stages = config.groups * config.stages, all_stages = config.groups * config.stages + config.ahead,
%      barriers_at = (config.groups * config.stages + config.ahead) * stage_bytes(config),
%      header = 256, known = known, numbers_size = numbers_bytes(problem, config), number_pitch = config.rows * 4 + 16,
%      numbers_at = (config.groups * config.stages + config.ahead) * (stage_bytes(config) + 16), copy = config.cache == "near" and "spc_copy_near_row16" or "spc_copy_row16",
%    }
%  end,
%  launch = function(problem, config, target)
%    local n, all = width_of(problem), all_blocks_of(problem)
%    return {
%      block = threads_of(config), shared = shared_bytes(problem, config), grid = "steps", gradient = 1,
%      tile_rows = config.rows, order = config.order, pdl = 1, blocks_per_sm = config.blocks,
%      workspace_block_bytes = all * 64 * n * 4, workspace_bytes = 256,
%      sum_block = 256, sum_grid_x = all, sum_shared = 4096 + 16, sum_grid_y = n,
%      preference = is_best(problem, config, target) and 13 or 4,
%    }
%  end,
%  default = function(problem, target)
%    local config = {rows = 64, groups = 2, loaders = 8, shares = 1, stages = 8, ahead = 4, blocks = 1,
%                    cache = "far", order = "gray"}
%    for _, shares in ipairs {1, 2, 3, 4, 6, 9} do
%      config.shares = shares
%      config.groups = math.min(shares > 1 and 3 or 2, all_blocks_of(problem) // shares)
%      if shares > 1 then config.loaders, config.stages = 4, 4 end
%      if sums_fit(problem, config) then break end
%    end
%    if shared_bytes(problem, config) > target.shared_block then config.loaders, config.stages = 4, 4 end
%    return config
%  end,
%}
#include "spc_balance.cuh"
#include "spc_tiles.cuh"
#include "spc_arrive.cuh"

% write_store_sum()
/* ---- tiles ------------------------------------------------------------------------ */

/*
 * The work of a thread block: a share of the offsets for a part of the tiles.
 */
typedef struct item {
    int share, part, parts;
} item;

SPC_DEVICE int parts_of(const spc_conv_args *args)
{
    int parts = spc_grid_x() / $(config.shares);

    /* A part without tiles would only add zeroes. */
    parts = parts < args->map.tiles ? parts : args->map.tiles;
    return parts > 0 ? parts : 1;
}

/* The offset of a slot, of which a block has $(per); -1 for an empty slot. */
SPC_DEVICE int offset_of(int slot)
{
% if has_pairs(problem) then
    int k = $(problem.centre) + (slot & 1 ? slot / 2 : -(slot / 2));
    return slot == 1 || k < 0 || k >= $(problem.offsets) ? -1 : k;
% else
    return slot < $(problem.offsets) ? slot : -1;
% end
}

/* The i-th block of a share. */
SPC_DEVICE int block_of(int i, int share) { return $(config.shares > 1 and "i * " .. config.shares .. " + share" or "i"); }

/* A warp's position: tiles of 32 turns, one per lane, with the blocks of the share that
 * each tile has; the tile of this turn, and the number of earlier tiles. */
typedef struct walk {
    item it;
    int turn, tile;
    int lane_tile;
    spc_u32 lane_have, have;
    int tiles;
} walk;

SPC_DEVICE void look_at_turns(walk *w, const spc_conv_args *args)
{
    int rank = spc_snake_rank(w->turn + spc_lane(), w->it.part, w->it.parts);

    w->lane_tile = -1;
    w->lane_have = 0;
    if (rank < args->map.tiles) {
        w->lane_tile = spc_load_int(args->map.tile_order + rank);
% if words == 1 then
        spc_u32 mask = spc_load4(args->map.tile_mask + rank);
% end
        $(words == 1 and "SPC_UNROLL" or "SPC_ROLLED")
        for (int i = 0; i < $(own); i++) {
            SPC_UNROLL
            for (int j = 0; j < $(per); j++) {
                int k = offset_of(block_of(i, w->it.share) * $(per) + j);
% if words > 1 then
                spc_u32 mask = k < 0 ? 0u : spc_load4(args->map.tile_mask + k / 32 * args->map.tiles + rank);
% end
                if (k >= 0 && (mask >> (k & 31) & 1))
                    w->lane_have |= 1u << i;
            }
        }
    }
}

/* Moves to the next tile that has a block of the share. `have` is 0 if there is
 * no next tile. */
SPC_DEVICE void next_tile(walk *w, const spc_conv_args *args)
{
    w->tiles++;
    w->turn++;
    for (;;) {
        if ((w->turn & 31) == 0) {
            look_at_turns(w, args);
            if (spc_ballot(w->lane_tile >= 0) == 0) {
                w->have = 0;
                return;
            }
        }
        /* Tiles without a block of this share are skipped by all warps alike,
         * so that loaders and multipliers count the same tiles. */
        spc_u32 left = spc_ballot(w->lane_have != 0) >> (w->turn & 31);
        if (left != 0) {
            w->turn += spc_ffs(left) - 1;
            break;
        }
        w->turn = (w->turn & ~31) + 32;
    }
    w->tile = spc_shfl(w->lane_tile, w->turn & 31);
    w->have = (spc_u32)spc_shfl((int)w->lane_have, w->turn & 31);
}

/* The first tile of an item. Stages continue from the previous item. */
SPC_DEVICE void first_tile(walk *w, int number, int parts, const spc_conv_args *args)
{
    w->it.share = number % $(config.shares);
    w->it.part = number / $(config.shares);
    w->it.parts = parts;
    w->turn = -1;
    /* At the end of the previous item next_tile counted one tile too many. */
    w->tiles--;
    w->have = 0;
    next_tile(w, args);
}

/* ---- stages ----------------------------------------------------------------------- */

/* The barriers of a stage, first those of the warpgroups and then those of dy: it is
 * full, it is empty. */
SPC_DEVICE spc_u64 *full_barrier(int stage)
{
    return (spc_u64 *)(spc_shared() + $(barriers_at)) + stage;
}
SPC_DEVICE spc_u64 *empty_barrier(int stage) { return full_barrier(stage) + $(all_stages); }
SPC_DEVICE spc_u8 *stage_at(int stage) { return spc_shared() + stage * $(stage_size); }

/* The share's blocks that belong to a warpgroup. */
SPC_DEVICE spc_u32 blocks_of_group(int group)
{
    spc_u32 first = 0;

    SPC_UNROLL
    for (int i = 0; i < 32; i += $(config.groups))
        first |= 1u << i;
    return first << group;
}

/* Stage and phase of a warpgroup's step, which has its own ring, and of a tile's dy. */
SPC_DEVICE int x_stage(int group, int step) { return group * $(config.stages) + step % $(config.stages); }
SPC_DEVICE int x_parity(int step) { return step / $(config.stages) & 1; }
SPC_DEVICE int y_stage(int tile) { return $(x_stages) + tile % $(config.ahead); }
SPC_DEVICE int y_parity(int tile) { return tile / $(config.ahead) & 1; }

SPC_DEVICE void open_stages(void)
{
    if (spc_thread() == 0) {
        for (int i = 0; i < $(all_stages); i++) {
            /* The lanes of one loading warp fill a stage. Those of x are read
             * by the four warps of a warpgroup, those of dy by all. */
            spc_mbar_init(full_barrier(i), 32);
            spc_mbar_init(empty_barrier(i), i < $(x_stages) ? 4 : $(consumers));
        }
        spc_mbar_fence();
    }
    spc_sync_block();
}

/* ---- loading ---------------------------------------------------------------------- */

typedef struct loader {
    walk w;
    int number; /* of the warp among those that load */
    spc_u32 mine; /* the warp's steps of this tile: dy, then blocks */
    /* Lane l, for step l: */
    int lane_steps; /* of its warpgroup, before this tile */
    int lane_stage, lane_parity;
} loader;

/* A step whose row numbers are being copied to shared memory. */
typedef struct step {
    int stage, parity; /* stage < 0: no step */
    int offset;        /* of the lane's piece; < 0: no offset */
} step;

/* Deals the steps of a tile. All steps of a stage go to one warp, because one warp
 * processes them in order. */
SPC_DEVICE void deal(loader *l)
{
    int is_dy = spc_lane() == 0, i = is_dy ? 0 : spc_lane() - 1, group = i % $(config.groups);
    spc_u32 have = is_dy ? 0u : l->w.have & blocks_of_group(group);
    int step = l->lane_steps + spc_popc(have & ((1u << i) - 1u)), mine = have >> i & 1;

    l->lane_steps += spc_popc(have);
    l->lane_stage = x_stage(group, step);
    l->lane_parity = x_parity(step);
    if (is_dy) {
        mine = l->w.have != 0;
        l->lane_stage = y_stage(l->w.tiles);
        l->lane_parity = y_parity(l->w.tiles);
    }
    l->mine = spc_ballot(mine && l->lane_stage % $(config.loaders) == l->number);
}

/* The row numbers of one of the warp's steps; $(known) of them are loaded or
 * being loaded. */
SPC_DEVICE spc_u8 *numbers_of(const loader *l, int which)
{
    return spc_shared() + $(numbers_at) + (l->number * $(known) + which) * $(numbers_size);
}

/* Finds the next step and starts copying its row numbers. Groups of copies are
 * counted, so an empty step commits a group as well. */
SPC_DEVICE void find_step(step *s, loader *l, int which, const spc_conv_args *args)
{
    s->stage = -1;
    while (l->mine == 0) {
        if (l->w.have == 0) {
            spc_copy_commit();
            return;
        }
        next_tile(&l->w, args);
        deal(l);
    }
    int i = spc_ffs(l->mine) - 1, at = l->w.tile * $(rows);
    l->mine &= l->mine - 1;
    s->stage = spc_shfl(l->lane_stage, i);
    s->parity = spc_shfl(l->lane_parity, i);
    s->offset = 0;
    if (i > 0)
        s->offset = offset_of(block_of(i - 1, l->w.it.share) * $(per) + (spc_lane() & 7) / $(slot // 8));
    SPC_UNROLL
    for (int item = spc_lane(); item < $(per * rows // 4); item += 32) {
        int j = item / $(rows // 4), piece = item % $(rows // 4);
        /* Step 0 is dy, whose rows are the outputs of the tile. */
        int k = i > 0 ? offset_of(block_of(i - 1, l->w.it.share) * $(per) + j) : j == 0 ? 0 : -1;
        const int *from = i > 0 ? args->map.index + (long long)k * args->map.rows_padded : args->map.order;
        if (k >= 0)
            spc_copy_async16(numbers_of(l, which) + j * $(number_pitch) + piece * 16, from + at + piece * 4, 16);
    }
    spc_copy_commit();
}

%-- Writes the lane's copies of a step's rows. 8 lanes copy one row, and a warp copies four
%-- neighbouring rows.
%function write_copies(pitch, offset)
        const int *numbers = (const int *)(numbers_of(l, which) + $(offset)) + (spc_lane() >> 3);
        int row[$(lane_rows)];
        SPC_UNROLL
        for (int j = 0; j < $(lane_rows); j++)
            row[j] = s->offset < 0 ? -1 : numbers[4 * j];
        from = (const spc_u8 *)spc_base(from);
        SPC_UNROLL
        for (int j = 0; j < $(lane_rows); j++)
            /* Row 4 * j changes the swizzle of 128-byte rows by 4 pieces, 64
             * bytes, for odd j. */
            $(copy)(spc_shared() + (at ^ (j & 1) * 64) + j * 512, from + (long long)row[j] * $(pitch), row[j]);
%end
%
SPC_DEVICE void copy_step(const step *s, const loader *l, int which, const spc_conv_args *args)
{
    int piece = spc_lane() & 7;
    int at = s->stage * $(stage_size) + (spc_lane() >> 3) * 128 + (piece ^ spc_lane() >> 3) * 16;

    /* The oldest group, the numbers of this step, has arrived. */
    spc_copy_wait($(known - 1));
    spc_sync_warp();
    spc_mbar_wait(empty_barrier(s->stage), s->parity ^ 1);
    if (s->stage >= $(x_stages)) {
        const spc_u8 *from = (const spc_u8 *)args->residual + piece * 16;
% if y_there < 8 then
        if (piece < $(y_there)) {
% end
% write_copies(add_pitch(problem) * 2, "0")
% if y_there < 8 then
        }
% end
    } else {
        piece %= $(slot // 8);
        const spc_u8 *from = (const spc_u8 *)args->in + piece * 16;
% if x_there < slot // 8 then
        if (piece < $(x_there)) {
% end
% write_copies((problem.in_pitch or problem.cin) * 2, "(spc_lane() & 7) / " .. slot // 8 .. " * " .. number_pitch)
% if x_there < slot // 8 then
        }
% end
    }
    spc_sync_warp(); /* all have read the numbers */
    spc_arrive_with_copies(full_barrier(s->stage));
}

SPC_DEVICE void load_items(int parts, const spc_conv_args *args)
{
    loader l;
% for i = 0, known - 1 do
    step step$(i);
% end

    l.w.have = 0;
    l.w.tiles = 0;
    l.lane_steps = 0;
    l.number = spc_warp() - $(consumers);
    for (int number = spc_block_x(); number < parts * $(config.shares); number += spc_grid_x()) {
        first_tile(&l.w, number, parts, args);
        deal(&l);
% for i = 0, known - 1 do
        find_step(&step$(i), &l, $(i), args);
% end
        if (number == spc_block_x()) {
            spc_depend_wait(); /* the map was complete earlier */
            spc_depend_launch();
        }
        SPC_ROLLED
        for (;;) {
% for i = 0, known - 1 do
            if (step$(i).stage < 0)
                break;
            copy_step(&step$(i), &l, $(i), args);
            find_step(&step$(i), &l, $(i), args);
% end
        }
    }
}

/* ---- products --------------------------------------------------------------------- */

/* Without this the compiler merges the products of all blocks into one piece of code, and
 * their sums become an array in memory. */
#ifdef __CUDACC__
#define MARK(text) asm volatile(text)
#else
#define MARK(text) ((void)0)
#endif

SPC_DEVICE void release(int stage)
{
    if (spc_lane() == 0)
        spc_mbar_arrive(empty_barrier(stage));
}

/* acc[64][$(n)] += the products of a step of x and the dy that `y` describes. */
SPC_DEVICE void multiply(float *acc, int group, int step, spc_u64 y, int *before)
{
    int stage = x_stage(group, step);
    spc_u64 x = spc_wgmma_swizzled(stage_at(stage), 1024, 1024);

    spc_mbar_wait(full_barrier(stage), x_parity(step));
    spc_fence_async(); /* wgmma does not see the copies otherwise */
    spc_wgmma_fence();
    SPC_UNROLL
    for (int k = 0; k < $(rows // 16); k++)
        spc_wgmma_both_$(n)_$(problem.dtype)(acc, x + k * 128, y + k * 128, 1);
    spc_wgmma_commit();
    spc_wgmma_wait(1); /* for the previous step */
    if (*before >= 0)
        release(*before);
    *before = stage;
}

/* A part's sum of a block: [64][n]. */
SPC_DEVICE float *sum_at(const spc_conv_args *args, int part, int block)
{
    return (float *)((spc_u8 *)args->workspace + $(header)) + ((long long)part * $(all) + block) * $(64 * n);
}

SPC_DEVICE void leave(const float *acc, float *to)
{
    to += (spc_warp() % 4 * 16 + (spc_lane() >> 2)) * $(n) + (spc_lane() & 3) * 2;
    SPC_UNROLL
    for (int i = 0; i < $(n // 4); i++) { /* 8 columns, half */
        spc_b8 two;
        two.x = spc_f32_bits(acc[i * 2]);
        two.y = spc_f32_bits(acc[i * 2 + 1]);
        spc_store8(to + i % 2 * $(8 * n) + i / 2 * 8, two);
    }
}

SPC_DEVICE void multiply_items(int parts, const spc_conv_args *args)
{
    int group = spc_warp() / 4, steps = 0;
    walk w;
% for j = 0, group_own - 1 do
    float acc$(j)[$(n // 2)];
% end

    w.have = 0;
    w.tiles = 0;
    for (int number = spc_block_x(); number < parts * $(config.shares); number += spc_grid_x()) {
        SPC_UNROLL
        for (int i = 0; i < $(n // 2); i++) {
% for j = 0, group_own - 1 do
            acc$(j)[i] = 0.0f;
% end
        }
        SPC_ROLLED
        for (first_tile(&w, number, parts, args); w.have != 0; next_tile(&w, args)) {
            int y_at = y_stage(w.tiles), before = -1;
            spc_u64 y = spc_wgmma_swizzled(stage_at(y_at), 1024, 1024);
            spc_mbar_wait(full_barrier(y_at), y_parity(w.tiles));
% for j = 0, group_own - 1 do
            if (w.have >> ($(j * config.groups) + group) & 1) {
                MARK("// block $(j)");
                multiply(acc$(j), group, steps++, y, &before);
            }
% end
            spc_wgmma_wait(0);
            if (before >= 0)
                release(before);
            release(y_at);
        }
% for j = 0, group_own - 1 do
        if ($(j * config.groups) + group < $(own) && block_of($(j * config.groups) + group, w.it.share) < $(all))
            leave(acc$(j), sum_at(args, w.it.part, block_of($(j * config.groups) + group, w.it.share)));
% end
    }
}

/* ---- the kernels ------------------------------------------------------------------ */

SPC_KERNEL(spc_conv, spc_conv_args, $(block), $(config.blocks))
{
    int parts = parts_of(args);

    open_stages();
    if (spc_warp() < $(consumers)) {
% if gives then
        spc_registers_raise($(raised_registers(config)));
% end
        spc_depend_wait();
        spc_depend_launch();
        if (spc_block_x() == 0 && spc_thread() == 0)
            *(int *)args->workspace = parts;
        multiply_items(parts, args);
    } else {
% if gives then
        spc_registers_lower($(loader_registers_of(config) // 8 * 8));
% end
        load_items(parts, args);
    }
}

/* ---- the sum ---------------------------------------------------------------------- */

/* The element of the result for an element of a block, or -1. */
SPC_DEVICE long long place_of(int block, int element)
{
    int row = element / $(n), co = element % $(n);
    int k = offset_of(block * $(per) + row / $(slot)), ci = row % $(slot);

    if (k < 0 || ci >= $(problem.cin) || co >= $(problem.cout))
        return -1;
    return ((long long)k * $(problem.cin) + ci) * $(problem.cout) + co;
}

/* An element of the result, computed by all threads directly from the rows. */
SPC_DEVICE float sum_anew(float *sums, long long place, const spc_conv_args *args)
{
    const int *index = args->map.index + place / $(problem.cin * problem.cout) * args->map.rows_padded;
    const spc_u16 *x = (const spc_u16 *)args->in + place / $(problem.cout) % $(problem.cin);
    const spc_u16 *y = (const spc_u16 *)args->residual + place % $(problem.cout);
    float sum = 0.0f;

    SPC_ROLLED
    for (int p = spc_thread(); p < args->map.rows_padded; p += 256) {
        int in = spc_load_int(index + p), out = spc_load_int(args->map.order + p);
        if (in >= 0)
            sum = spc_fma(spc_$(problem.dtype)_to_f32(spc_load2(x + (long long)in * $(problem.in_pitch or problem.cin))),
                          spc_$(problem.dtype)_to_f32(spc_load2(y + (long long)out * $(add_pitch(problem)))), sum);
    }
    spc_sync_block(); /* earlier sums have been read */
    sums[spc_thread()] = sum;
    for (int half = 128; half > 0; half /= 2) {
        spc_sync_block();
        if (spc_thread() < half)
            sums[spc_thread()] += sums[spc_thread() + half];
    }
    spc_sync_block();
    return sums[0];
}

/*
 * Adds the parts' sums of 64 elements of block block_x. Each of 16 threads adds every
 * 16th part of four neighbours. A large GPU has 132 parts, so these are at most nine
 * loads, all under way at once.
 */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    float *sums = (float *)spc_shared();
    int *anew = (int *)(spc_shared() + 4096); /* elements that are not finite */
    int first = spc_block_y() * 64, at = first + spc_thread() % 16 * 4;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    if (spc_thread() < 2)
        anew[spc_thread()] = 0;
    spc_depend_wait();
    spc_depend_launch();
    /* The grid of the previous kernel decided it. */
    int parts = *(const int *)args->workspace;
% write_add_shares("spc_thread() / 16", "parts", 16, 9, "sum_at(args, other, spc_block_x()) + at")
    SPC_UNROLL
    for (int i = 0; i < 4; i++)
        sums[spc_thread() * 4 + i] = sum[i];
    spc_sync_block();
    if (spc_thread() < 64) {
        long long place = place_of(spc_block_x(), first + spc_thread());
        float whole = 0.0f;
        for (int way = 0; way < 16; way++)
            whole += sums[way * 64 + spc_thread()];
        /* True for an infinity or NaN only. */
        if (place >= 0 && whole - whole != 0.0f)
            spc_atomic_or((spc_u32 *)anew + spc_thread() / 32, 1u << spc_lane());
        else if (place >= 0)
            store_sum(args, place, whole);
    }
    spc_sync_block();
    SPC_ROLLED
    for (int word = 0; word < 2; word++) {
        /* All threads walk the same list, because each sum takes the whole
         * block. */
        SPC_ROLLED
        for (spc_u32 left = (spc_u32)anew[word]; left != 0; left &= left - 1) {
            long long place = place_of(spc_block_x(), first + word * 32 + spc_ffs(left) - 1);
            float whole = sum_anew(sums, place, args);
            if (spc_thread() == 0)
                store_sum(args, place, whole);
        }
    }
}
