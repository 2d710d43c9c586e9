%-- The gradient of weights on warpgroups. As in wgrad_mma, for each offset
%--
%--     dw[k]  =  sum over its pairs (i, o) of  x[i]^T dy[o]
%--
%-- Some warps only load. Each has its rows of every step, and copies them unchanged into rows
%-- of 64 channels with swizzle. wgmma reads both operands transposed from there, so nothing
%-- passes through registers. (If the pieces of a row go to different lines of shared memory,
%-- as in core matrices without swizzle, they arrive one by one, which is 3 times as slow.)
%-- The warpgroups that multiply divide a block's channels. They wait for a step only if it
%-- has not arrived. Loaders and multipliers synchronise through mbarriers, never through a
%-- barrier of the block.
%--
%-- A loading warp waits only for an empty stage. Copies signal the barrier of their stage
%-- themselves, and row numbers are loaded into registers `ahead` steps before their rows.
%--
%-- Shares, their sums and the gradient of a bias are those of wgrad_mma.
%
%include "wgrad_pairs.lua"
%include "wgrad_groups.lua"
%
%local sizes = {64, 128, 256}
%
%function stage_bytes(problem, config) return (config.m + config.n) * config.pairs * 2 end
%function shared_bytes(problem, config)
%  return config.stages * (stage_bytes(problem, config) + 16) + table_bytes(problem)
%end
%-- How warpgroups divide the channels of a block: along the side that has more.
%function parts_of_block(config)
%  if config.n > config.m then
%    local n = math.min(config.groups, config.n // 64)
%    return config.groups // n, n
%  end
%  local m = math.min(config.groups, config.m // 64)
%  return m, config.groups // m
%end
%function registers_of(problem, config)
%  local m, n = parts_of_block(config)
%  return config.m // m * config.n // n // 128 + 40
%end
%-- Two warpgroups that load can give away some registers.
%function gives_registers(config)
%  return config.groups == 2 and config.loaders == 8 and config.blocks == 1
%end
%consumer_registers, loader_registers = 192, 64
%
%template = {
%  summary = "products of gathered rows by warpgroups, which others load for",
%  role = "wgrad",
%  triplets = true,
%  device = "cuda",
%  params = {
%    {"m", sizes, "input channels of a block"},
%    {"n", sizes, "output channels of a block"},
%    {"groups", {1, 2}, "warpgroups that multiply"},
%    {"loaders", {4, 8}, "warps that load"},
%    {"pairs", {32, 64, 128}, "pairs of a step"},
%    {"stages", {4, 6, 8, 12}, "steps in flight"},
%    {"blocks", {1, 2, 3}, "blocks of a multiprocessor"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "needs a layer without groups" end
%    if target.target ~= "sm_90a" then return false, "needs wgmma (sm_90a)" end
%    if element_bytes(problem) ~= 2 then return false, "needs numbers of 16 bits" end
%    if row_alignment(problem) < 16 then return false, "needs rows of 16 bytes: wgrad_mma takes any" end
%    if problem.cin * ceil_div(problem.cout, 4) > 65535 * 64 then return false, "too many channels" end
%    return true
%  end,
%  constraints = {
%    {"no block is mostly padding", function(problem, config)
%      return config.m <= math.max(64, least_size(problem.cin))
%        and config.n <= math.max(64, least_size(problem.cout))
%    end},
%    {"every warpgroup has channels", function(problem, config)
%      local m, n = parts_of_block(config)
%      return config.m // m >= 64 and config.n // n >= 64
%    end},
%    {"a lane has one row number of a step", function(problem, config)
%      return config.pairs * 2 // config.loaders <= 32
%    end},
%    {"sums fit the registers", function(problem, config)
%      return registers_of(problem, config) <= equal_registers(config)
%        or gives_registers(config) and registers_of(problem, config) <= consumer_registers
%    end},
%    {"blocks fit a multiprocessor", function(problem, config, target)
%      local shared = shared_bytes(problem, config)
%      return shared <= target.shared_block and (shared + 1024) * config.blocks <= target.shared_sm
%    end},
%  },
%  derive = function(problem, config, target)
%    local gm, gn = parts_of_block(config)
%    return {
%      gm = gm, gn = gn, tm = config.m // gm // 64, tn = config.n // gn,
%      block = threads_of(config), consumers = config.groups * 4, threads = config.groups * 128,
%      gives = registers_of(problem, config) > equal_registers(config),
%      rows = config.pairs // config.loaders, ahead = 4,
%      element = 2, align = 16, line = config.pairs * 128, -- of 64 channels
%      x_pieces = config.m // 8, y_pieces = config.n // 8, -- and those that are there:
%      x_there = math.min(config.m, problem.cin) // 8, y_there = math.min(config.n, problem.cout) // 8,
%      stage_size = stage_bytes(problem, config),
%      barriers_at = config.stages * stage_bytes(problem, config),
%      tiles_at = shared_bytes(problem, config) - table_bytes(problem),
%      m_blocks = ceil_div(problem.cin, config.m), n_blocks = ceil_div(problem.cout, config.n),
%      blocks = blocks_of(problem, config), all = offsets_of(problem),
%      header = header_bytes(problem), quads = ceil_div(problem.cout, 4),
%      results = (taps_of(problem) + problem.bias) * problem.cout,
%    }
%  end,
%  launch = function(problem, config, target)
%    local blocks, sum = blocks_of(problem, config), config.m * config.n * 4
%    return {
%      block = threads_of(config), shared = shared_bytes(problem, config), grid = "steps", gradient = 1,
%      layout = "pairs", tile_rows = 32, pdl = 1, blocks_per_sm = config.blocks,
%      workspace_block_bytes = sum,
%      workspace_bytes = header_bytes(problem) + (offsets_of(problem) + 1) * blocks * sum,
%      sum_block = 256, sum_grid_x = offsets_of(problem), sum_shared = 4096,
%      sum_grid_y = ceil_div(problem.cin * ceil_div(problem.cout, 4), 64),
%      preference = problem.cin >= 48 and problem.cout >= 48 and 12 or 5,
%    }
%  end,
%  default = function(problem, target)
%    local m = math.max(64, math.min(128, least_size(problem.cin)))
%    local n = math.max(64, least_size(problem.cout))
%    local small = m * n <= 8192
%    local config = {m = m, n = n, groups = small and 1 or 2, loaders = small and 4 or 8,
%                    pairs = 64, stages = m * n > 4096 and m + n <= 256 and 6 or 4,
%                    blocks = m * n <= 4096 and 3 or small and 2 or 1}
%    while shared_bytes(problem, config) * config.blocks > target.shared_block do
%      if config.stages > 4 then config.stages = 4 else config.blocks = config.blocks - 1 end
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"
#include "spc_arrive.cuh"

% write_store_sum()
% write_shares()
% write_sum_place()
% write_cursor()
% write_copy_piece()
% if problem.bias == 1 then
% write_store_one()
% end
/* ---- loading ------------------------------------------------------------------ */

/* A warp that loads has $(rows) rows of a step. */
typedef struct loader {
    cursor rows, numbers;    /* the next tiles whose rows or numbers are read */
    int last;                /* end of the block's tiles */
    int stage, parity;       /* the next stage, and the phase in which it is empty */
    int first_in, first_out; /* channels */
} loader;

/* The barriers of a stage: it is full, it is empty. */
SPC_DEVICE spc_u64 *full_barrier(int stage)
{
    return (spc_u64 *)(spc_shared() + $(barriers_at)) + stage;
}
SPC_DEVICE spc_u64 *empty_barrier(int stage) { return full_barrier(stage) + $(config.stages); }

SPC_DEVICE int after(int stage)
{
    return stage == $(config.stages - 1) ? 0 : stage + 1;
}

SPC_DEVICE int loading_warp(void) { return spc_warp() - $(consumers); }
SPC_DEVICE int first_row(void) { return loading_warp() * $(rows); }

/* Loads the row number that the lane keeps, for one more tile, if there is one.
 * Lanes have the numbers of the warp's rows of x, then of dy. */
SPC_DEVICE int load_number(loader *l, const spc_conv_args *args)
{
    const int *in = args->pairs.in, *out = args->pairs.out;
    int number = 0;

    if (l->numbers.tile >= l->last)
        return number;
% if problem.bias == 1 then
    if (l->numbers.k == $(problem.offsets)) {
        in = 0;
        out = args->map.order;
    }
% end
    int pair = l->numbers.pair + first_row() + spc_lane() % $(rows);
    const int *from = spc_lane() < $(rows) ? in : out;
    if ($(rows < 16 and "spc_lane() < " .. 2 * rows .. " && " or "")pair < l->numbers.end$(problem.bias == 1 and " && from != 0" or ""))
        number = spc_load_int(from + pair);
    advance(&l->numbers, l->last, args);
    return number;
}

%-- The row of a lane's i-th piece, for rows with this many pieces.
%function row_of_item(pieces)
%  local row = "(spc_lane() + i * 32) / " .. pieces
%  return rows * pieces % 32 == 0 and row or "(" .. row .. ") % " .. rows
%end
%-- Writes the copies of one side of a tile, which has all of the warp's rows or `left`
%-- rows.
%function write_side(side, name, all)
%  local x = side == "x"
%  local pieces, channels = x and x_there or y_there, x and problem.cin or problem.cout
%  local block, blocks = x and config.m or config.n, x and m_blocks or n_blocks
%  local row_pitch = (x and (problem.in_pitch or problem.cin) or add_pitch(problem)) * 2
%  local first = (blocks > 1 and "l->first_" .. (x and "in" or "out") .. " * 2 + " or "") .. "piece * 16"
%  local row = side .. "_row[i]"
%  local lines = (x and "" or x_pieces // 8 * line .. " + ") .. (pieces > 8 and "piece / 8 * " .. line .. " + " or "")
%  local place = lines .. "(first + r) * 128 + ((piece ^ (first + r)) & 7) * 16"
        SPC_UNROLL
        for (int i = 0; i < $(ceil_div(rows * pieces, 32)); i++) {
            int item = spc_lane() + i * 32, r = item / $(pieces), piece = item % $(pieces);
%   if rows * pieces % 32 ~= 0 then
            if (item >= $(rows * pieces))
                break;
%   end
%   if x and problem.bias == 1 then
            if (l->rows.k == $(problem.offsets)) {
                store_one(to + $(place), l->first_in + piece == 0);
                continue;
            }
%   end
%   if all and (channels % block == 0 or blocks == 1) and (x or problem.bias == 0) then
            spc_copy_async16(to + $(place), $(name) + (long long)$(row) * $(row_pitch) + $(first), 16);
%   else
            copy_piece(to + $(place), $(name), $(all and row or "r < left ? " .. row .. " : -1"),
                       $(row_pitch), $(first), $(channels * 2));
%   end
        }
%end
%
/* Starts the copies of the next tile, for which the lane's row number is `number`.
 * Returns the number for the tile `ahead` tiles later. */
SPC_DEVICE int load_next(loader *l, int number, const spc_conv_args *args)
{
    spc_u8 *to = spc_shared() + l->stage * $(stage_size);
    const spc_u8 *in = (const spc_u8 *)args->in, *out = (const spc_u8 *)args->residual;
    int first = first_row(), left = l->rows.end - l->rows.pair - first;
    int x_row[$(ceil_div(rows * x_there, 32))], y_row[$(ceil_div(rows * y_there, 32))];

    SPC_UNROLL
    for (int i = 0; i < $(ceil_div(rows * x_there, 32)); i++)
        /* Lanes hand each other the row numbers before the next one is loaded
         * into the same register. */
        x_row[i] = spc_shfl(number, $(row_of_item(x_there)));
    SPC_UNROLL
    for (int i = 0; i < $(ceil_div(rows * y_there, 32)); i++)
        y_row[i] = spc_shfl(number, $(rows) + $(row_of_item(y_there)));
    number = load_number(l, args);
    /* The number above is under way meanwhile. */
    spc_mbar_wait(empty_barrier(l->stage), l->parity);
    if (left >= $(rows)) {
% write_side("x", "in", true)
% write_side("y", "out", true)
    } else {
% write_side("x", "in", false)
% write_side("y", "out", false)
    }
% if problem.bias == 1 then
    if (l->rows.k == $(problem.offsets)) { /* stores have arrived as well */
        spc_copy_commit();
        spc_copy_wait(0);
        spc_mbar_arrive(full_barrier(l->stage));
    } else {
        spc_arrive_with_copies(full_barrier(l->stage));
    }
% else
    spc_arrive_with_copies(full_barrier(l->stage));
% end
    advance(&l->rows, l->last, args);
    l->stage = after(l->stage);
    l->parity ^= l->stage == 0;
    return number;
}

SPC_DEVICE void open_share(loader *l, int tile, int last, int block, const spc_conv_args *args)
{
    l->rows.tile = tile;
    l->rows.k = offset_of(tile);
    find_offset(&l->rows, args);
    l->numbers = l->rows;
    l->last = last;
    l->first_in = block / $(n_blocks) * $(config.m);
    l->first_out = block % $(n_blocks) * $(config.n);
}

/* Loads the tiles of a share. */
SPC_DEVICE void load_share(loader *l, const spc_conv_args *args)
{
% for i = 1, ahead do
    int number$(i) = load_number(l, args);
% end

    spc_depend_wait(); /* the map was complete earlier */
    spc_depend_launch();
    SPC_ROLLED
    for (;;) {
% for i = 1, ahead do
        if (l->rows.tile >= l->last)
            return;
        number$(i) = load_next(l, number$(i), args);
% end
    }
}

SPC_DEVICE void load_shares(int tiles, int shares, const spc_conv_args *args)
{
    loader l;

    l.stage = 0;
    /* A new barrier counts as having completed a phase of parity 1: all stages
     * are empty. */
    l.parity = 1;
    for (int item = spc_block_x(); item < shares * $(blocks); item += spc_grid_x()) {
        int share = item / $(blocks);
        open_share(&l, share_begin(tiles, share, shares), share_begin(tiles, share + 1, shares),
                   item % $(blocks), args);
        load_share(&l, args);
    }
}

/* ---- products ------------------------------------------------------------------- */

/* The warpgroup's part: its channels of both sides. */
SPC_DEVICE int group_in(void) { return spc_warp() / 4 % $(gm) * $(tm * 64); }
SPC_DEVICE int group_out(void) { return spc_warp() / $(4 * gm) * $(tn); }

/* Starts the products of a stage. With `fresh` the first products overwrite the
 * sums. */
SPC_DEVICE void multiply(float *acc, int stage, int fresh)
{
    const spc_u8 *at = spc_shared() + stage * $(stage_size);
    spc_u64 x = spc_wgmma_swizzled(at + group_in() / 64 * $(line), $(line), 1024);
    spc_u64 y = spc_wgmma_swizzled(at + ($(x_pieces) + group_out() / 8) / 8 * $(line), $(line), 1024);

    spc_wgmma_fence();
    SPC_UNROLL
    for (int k = 0; k < $(config.pairs // 16); k++) {
        SPC_UNROLL
        for (int i = 0; i < $(tm); i++)
            spc_wgmma_both_$(tn)_$(problem.dtype)(acc + i * $(tn // 2), x + k * 128 + i * $(line // 16),
                                                  y + k * 128, k > 0 || !fresh);
    }
    spc_wgmma_commit();
}

/* Stores the sums of a share and an offset in [m][n]. Channels that do not exist are
 * left out. */
SPC_DEVICE void leave(const float *acc, float *to)
{
    int ci = group_in() + spc_warp() % 4 * 16 + (spc_lane() >> 2);
    int co = group_out() + (spc_lane() & 3) * 2;

    to += ci * $(config.n) + co;
    SPC_UNROLL
    for (int i = 0; i < $(tm * tn // 4); i++) { /* tile of 64, column of 8, half */
        int down = i / $(tn // 4) * 64 + i % 2 * 8, right = i / 2 % $(tn // 8) * 8;
        spc_b8 two;
        two.x = spc_f32_bits(acc[i * 2]);
        two.y = spc_f32_bits(acc[i * 2 + 1]);
%-- With several blocks of channels, those past the last are zeroes.
% local guards = {}
% if x_there < x_pieces then guards[#guards + 1] = "ci + down < " .. x_there * 8 end
% if y_there < y_pieces then guards[#guards + 1] = "co + right < " .. y_there * 8 end
% if #guards > 0 then
        if ($(table.concat(guards, " && ")))
% end
            spc_store8(to + down * $(config.n) + right, two);
    }
}

/* The multipliers' position in the ring. */
typedef struct reader {
    int stage, parity;
} reader;

SPC_DEVICE void release(int stage)
{
    if (spc_lane() == 0)
        spc_mbar_arrive(empty_barrier(stage));
}

/* Multiplies the tiles of a share. */
SPC_DEVICE void multiply_share(reader *r, int tile, int last, int share, int block,
                               const spc_conv_args *args)
{
    const int *tiles = first_tiles();
    float acc[$(tm * tn // 2)];
    int k = offset_of(tile), fresh = 1, before = 0;

    SPC_ROLLED
    while (tile < last) {
        spc_mbar_wait(full_barrier(r->stage), r->parity);
        spc_fence_async(); /* wgmma does not see the copies otherwise */
        multiply(acc, r->stage, fresh);
        spc_wgmma_wait(1); /* for the previous step */
        if (!fresh)
            release(before);
        fresh = 0;
        before = r->stage;
        r->stage = after(r->stage);
        r->parity ^= r->stage == 0;
        if (++tile == last || tile == tiles[k + 1]) {
            spc_wgmma_wait(0);
            release(before);
            leave(acc, sum_at(args, share + k, block));
            fresh = 1;
            while (tile < last && tiles[k + 1] <= tile)
                k++;
        }
    }
}

SPC_DEVICE void multiply_shares(int tiles, int shares, const spc_conv_args *args)
{
    reader r = {0, 0};

    for (int item = spc_block_x(); item < shares * $(blocks); item += spc_grid_x()) {
        int share = item / $(blocks);
        multiply_share(&r, share_begin(tiles, share, shares), share_begin(tiles, share + 1, shares),
                       share, item % $(blocks), args);
    }
}

/* ---- the kernels ------------------------------------------------------------- */

SPC_DEVICE void open_ring(void)
{
    if (spc_thread() == 0) {
        for (int i = 0; i < $(config.stages); i++) {
            /* Each loading lane arrives with its own copies, and each
             * multiplying warp hands a stage back once. */
            spc_mbar_init(full_barrier(i), $(config.loaders * 32));
            spc_mbar_init(empty_barrier(i), $(consumers));
        }
        spc_mbar_fence();
    }
}

SPC_KERNEL(spc_conv, spc_conv_args, $(block), $(config.blocks))
{
    int *tiles = (int *)(spc_shared() + $(tiles_at));

    open_ring();
    number_tiles(tiles, args);
    int shares = shares_of(spc_grid_x(), tiles[$(all)]);
    if (spc_warp() < $(consumers)) {
% if gives then
        spc_registers_raise($(consumer_registers));
% end
        spc_depend_wait();
        spc_depend_launch();
        /* The workspace may still be read by the previous kernel, so this comes
         * after the wait. */
        leave_header(tiles, shares, (int *)args->workspace);
        multiply_shares(tiles[$(all)], shares, args);
    } else {
% if gives then
        spc_registers_lower($(loader_registers));
% end
        load_shares(tiles[$(all)], shares, args);
    }
}

% write_sum_kernel()
