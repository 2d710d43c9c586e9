%-- The gradient of weights of depthwise layers, and of groups of few channels, without tensor
%-- cores:
%--
%--     dw[k][c][co]  =  sum over the pairs (i, o) of offset k of  x[i][c of co's group] * dy[o][co]
%--
%-- There are few multiplications, so loads determine the time. A lane owns `bytes` of a row
%-- of dy, which are whole groups, and the part of a row of x that these groups use.
%-- Neighbouring lanes read the parts of one row, and a warp reads several pairs at once. A
%-- lane has its sums in registers, one for each channel of dy and each input of its group.
%--
%-- A block has the same part of the pairs of every offset. Pairs are in the order of the
%-- outputs' keys, so these are pairs of neighbouring outputs and inputs. Some of their rows
%-- are read from the multiprocessor's own cache, because other warps have read them for other
%-- offsets. The pairs of the block, offset after offset, form one list, and every warp has an
%-- equal share of it. The warp with the first pairs of an offset adds the sums of later warps
%-- for this offset, in their order, and stores the block's sum. `spc_sum` adds the sums of
%-- blocks. The gradient of a bias is treated as one more offset, with every row as a pair and
%-- inputs of 1.
%
%include "wgrad.lua"
%
%function pitches_of(problem)
%  local element = element_bytes(problem)
%  return (problem.in_pitch or problem.cin) * element, add_pitch(problem) * element
%end
%-- Bytes of a row of x that `bytes` of a row of dy are multiplied by.
%function x_bytes_of(problem, bytes) return bytes * group_in(problem) // group_out(problem) end
%function sums_of(problem, bytes) return bytes // element_bytes(problem) * group_in(problem) end
%-- True if a lane can own this many bytes.
%function is_lane(problem, bytes)
%  local element, x = element_bytes(problem), x_bytes_of(problem, bytes)
%  local x_pitch, y_pitch = pitches_of(problem)
%  return bytes % (group_out(problem) * element) == 0 and problem.cout * element % bytes == 0
%     and y_pitch % bytes == 0 and x_pitch % math.min(x, 16) == 0 and x <= 32 and x & x - 1 == 0
%     and sums_of(problem, bytes) <= 64
%end
%-- The most bytes that a lane can own, or nil.
%function lane_bytes(problem)
%  for _, bytes in ipairs {16, 8, 4, 2} do
%    if is_lane(problem, bytes) then return bytes end
%  end
%end
%function lanes_of_row(problem, config) return problem.cout * element_bytes(problem) // config.bytes end
%function lanes_of(problem, config) return math.min(32, lanes_of_row(problem, config)) end
%-- Blocks that share the channels of a row.
%function columns_of(problem, config) return ceil_div(lanes_of_row(problem, config), 32) end
%function offsets_of(problem) return problem.offsets + problem.bias end
%function results_of(problem) return (taps_of(problem) + problem.bias) * problem.cout end
%-- The distance between the sums of two blocks. Lanes store four sums at a time.
%function stride_of(problem) return ceil_div(results_of(problem), 4) * 4 end
%function slot_bytes(problem, config)
%  return lanes_of(problem, config) * sums_of(problem, config.bytes) * 4
%end
%-- Shared memory for sums that warps pass on, for the first pair of each offset, and for
%-- the number of earlier pairs.
%function shared_bytes(problem, config)
%  return config.warps * slot_bytes(problem, config)
%    + (2 * offsets_of(problem) + 1) * 4
%end
%-- Registers for sums, for rows, for the numbers of the next rows, and for the
%-- current operands.
%function registers_of(problem, config)
%  local words = ceil_div(config.bytes, 4) + ceil_div(x_bytes_of(problem, config.bytes), 4)
%  return sums_of(problem, config.bytes) + config.unroll * (words + 2) + words * 2 + 30
%end
%function fits(problem, config, target)
%  local shared = shared_bytes(problem, config)
%  return shared <= target.shared_block
%     and (config.blocks == 1 or (shared + 1024) * config.blocks <= (target.shared_sm or 65536))
%     and registers_of(problem, config) <= math.min(240, 65536 // (config.warps * 32 * config.blocks))
%end
%
%template = {
%  summary = "depthwise and small groups, lanes own channels, no tensor cores",
%  role = "wgrad",
%  triplets = true,
%  device = "cuda",
%  params = {
%    {"bytes", {16, 8, 4, 2}, "bytes of a row of dy that a lane owns"},
%    {"unroll", {2, 4, 8}, "pairs of a lane under way"},
%    {"warps", {8, 16}, "warps of a block"},
%    {"blocks", {1, 2, 4}, "blocks of a multiprocessor"},
%  },
%  accepts = function(problem, target)
%    if not problem.groups then return false, "needs a layer of groups" end
%    if not lane_bytes(problem) then
%      return false, "needs groups of few channels, that 16 bytes of a row or a power of two less are whole ones of"
%    end
%    if shared_bytes(problem, {bytes = lane_bytes(problem), warps = 8}) > target.shared_block then
%      return false, "too many offsets"
%    end
%    return true
%  end,
%  constraints = {
%    {"lanes own whole groups", function(problem, config) return is_lane(problem, config.bytes) end},
%    {"lanes own no less than half of what they can", function(problem, config)
%      return config.bytes * 2 >= lane_bytes(problem)
%    end},
%    {"blocks fit a multiprocessor", fits},
%  },
%  derive = function(problem, config, target)
%    local x_pitch, y_pitch = pitches_of(problem)
%    local lanes, x_bytes = lanes_of(problem, config), x_bytes_of(problem, config.bytes)
%    return {
%      threads = config.warps * 32, all = offsets_of(problem), results = results_of(problem),
%      stride = stride_of(problem), header = 256, x_pitch = x_pitch, y_pitch = y_pitch,
%      row_lanes = lanes_of_row(problem, config), lanes = lanes, columns = columns_of(problem, config),
%      at_once = 32 // lanes, x_bytes = x_bytes,
%      x_words = ceil_div(x_bytes, 4), y_words = ceil_div(config.bytes, 4),
%      channels = config.bytes // element_bytes(problem), inputs = group_in(problem),
%      sums = sums_of(problem, config.bytes), ways = 8,
%      tables_at = config.warps * slot_bytes(problem, config),
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = config.warps * 32, shared = shared_bytes(problem, config), grid = "steps", gradient = 1,
%      layout = "pairs", tile_rows = 32, pdl = target.sm >= 90 and 1 or 0,
%      blocks_per_sm = config.blocks,
%      workspace_block_bytes = ceil_div(stride_of(problem) * 4, columns_of(problem, config)),
%      workspace_bytes = 256 + stride_of(problem) * 4,
%      sum_block = 256, sum_grid_x = ceil_div(results_of(problem), 32), sum_shared = 1024,
%      preference = 12,
%    }
%  end,
%  default = function(problem, target)
%    local config = {bytes = lane_bytes(problem)}
%    for _, try in ipairs {{4, 16, 1}, {2, 16, 1}, {2, 8, 1}} do
%      config.unroll, config.warps, config.blocks = try[1], try[2], try[3]
%      if fits(problem, config, target) then break end
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"

% write_store_sum()
/* ---- the block's pairs --------------------------------------------------------- */

/* The block's first pair of each offset. Then the number of its pairs of all earlier
 * offsets and, as a last entry, of all offsets. */
SPC_DEVICE int *firsts(void) { return (int *)(spc_shared() + $(tables_at)); }
SPC_DEVICE int *befores(void) { return firsts() + $(all); }

/* Where part `part` of `count` pairs begins. */
SPC_DEVICE int part_begin(int count, int part, int parts)
{
    /* The product can exceed 32 bits. */
    return (int)((long long)count * part / parts);
}

/* Numbers the block's pairs, offset after offset. */
SPC_DEVICE void number_pairs(int part, int parts, const spc_conv_args *args)
{
    int sum = 0;

    if (spc_warp() > 0)
        return;
    for (int first = 0; first < $(all); first += 32) {
        int k = first + spc_lane(), pair = 0, count = 0;
        if (k < $(problem.offsets)) {
            int begin = spc_load_int(args->pairs.begin + k);
            int of_offset = spc_load_int(args->pairs.begin + k + 1) - begin;
            pair = begin + part_begin(of_offset, part, parts);
            count = begin + part_begin(of_offset, part + 1, parts) - pair;
        }
% if problem.bias == 1 then
        /* The number of rows is a capacity. The order is -1 past the last row, which
         * adds nothing. */
        if (k == $(problem.offsets)) {
            pair = part_begin(args->map.rows, part, parts);
            count = part_begin(args->map.rows, part + 1, parts) - pair;
        }
% end
        int upto = count;
        for (int by = 1; by < 32; by *= 2) {
            int below = spc_shfl_up(upto, by);
            if (spc_lane() >= by)
                upto += below;
        }
        if (k < $(all)) {
            firsts()[k] = pair;
            befores()[k] = sum + upto - count;
        }
        sum += spc_shfl(upto, 31);
    }
    if (spc_lane() == 0)
        befores()[$(all)] = sum;
}

/* The first pair of a warp's share of the block's. */
SPC_DEVICE int share_begin(int warp)
{
    return part_begin(befores()[$(all)], warp, $(config.warps));
}

/* ---- sums of a lane ------------------------------------------------------------- */

/* The pair that belongs to the lane, of the pairs that a warp reads at once, or -1. Also
 * the lane's piece of the row. */
SPC_DEVICE int lane_pair(void)
{
% if 32 % lanes ~= 0 then
    return spc_lane() < $(at_once * lanes) ? spc_lane() / $(lanes) : -1;
% else
    return spc_lane() / $(lanes);
% end
}
SPC_DEVICE int lane_piece(void) { return spc_lane() % $(lanes); }

/* Rows of x and of dy for `unroll` pairs; -1: no row. */
typedef struct rows {
    int x[$(config.unroll)], y[$(config.unroll)];
} rows;

/* Reads the lane's row numbers from pair `at` on. */
SPC_DEVICE void find_rows(rows *r, const int *in, const int *out, int at, int end)
{
    SPC_UNROLL
    for (int u = 0; u < $(config.unroll); u++, at += $(at_once)) {
        r->x[u] = at < end ? spc_load_int(in + at) : -1;
        r->y[u] = at < end ? spc_load_int(out + at) : -1;
    }
}

%-- Writes a load of bytes of a row into words that are already 0.
%local function write_load(to, from, row, bytes)
%  if bytes == 2 then
        if ($(row) >= 0)
            *($(to)) = spc_load2($(from));
%  else
%    for at = 0, bytes - 1, 16 do
        spc_load$(math.min(bytes, 16))_into($(to)$(at > 0 and " + " .. at // 4 or ""), $(from)$(at > 0 and " + " .. at or ""), $(row));
%    end
%  end
%end
SPC_DEVICE void load_rows(spc_u32 *x, spc_u32 *y, const rows *r, const spc_u8 *in, const spc_u8 *out)
{
    SPC_UNROLL
    for (int u = 0; u < $(config.unroll); u++) {
        SPC_UNROLL
        for (int i = 0; i < $(x_words); i++)
            x[u * $(x_words) + i] = 0;
        SPC_UNROLL
        for (int i = 0; i < $(y_words); i++)
            y[u * $(y_words) + i] = 0;
% write_load("x + u * " .. x_words, "in + (long long)r->x[u] * " .. x_pitch, "r->x[u]", x_bytes)
% write_load("y + u * " .. y_words, "out + (long long)r->y[u] * " .. y_pitch, "r->y[u]", config.bytes)
    }
}

/* Number i in the words of a row. */
SPC_DEVICE float value_of(const spc_u32 *words, int i)
{
% if element_bytes(problem) == 2 then
    return $(number_of(format_of(problem), "(spc_u16)(words[i / 2] >> i % 2 * 16)"));
% else
    return spc_bits_f32(words[i]);
% end
}

/* sums[channel of dy][input of its group] += the products of a pair. */
SPC_DEVICE void multiply(float *sums, const spc_u32 *x, const spc_u32 *y)
{
    SPC_UNROLL
    for (int j = 0; j < $(channels); j++)
        SPC_UNROLL
        for (int c = 0; c < $(inputs); c++)
            sums[j * $(inputs) + c] = spc_fma(value_of(x, j / $(group_out(problem)) * $(inputs) + c), value_of(y, j),
                                  sums[j * $(inputs) + c]);
}

/* Adds `count` pairs of offset k, from `first` on, to the lane's sums for one piece
 * of a row. */
SPC_DEVICE void add_pairs(float *sums, int k, int first, int count, int piece,
                          const spc_conv_args *args)
{
    const spc_u8 *x = (const spc_u8 *)args->in + piece * $(x_bytes);
    const spc_u8 *y = (const spc_u8 *)args->residual + piece * $(config.bytes);
    const int *in = args->pairs.in, *out = args->pairs.out;
    int at = first + lane_pair(), end = first + count;
    rows next;

% if problem.bias == 1 then
    if (k == $(problem.offsets))
        in = out = args->map.order;
% end
% if 32 % lanes ~= 0 or row_lanes % lanes ~= 0 then
    if (lane_pair() < 0 || piece >= $(row_lanes))
        end = at;
% end
    SPC_UNROLL
    for (int i = 0; i < $(sums); i++)
        sums[i] = 0.0f;
    find_rows(&next, in, out, at, end);
    SPC_ROLLED
    for (; count > 0; count -= $(config.unroll * at_once)) {
        spc_u32 xs[$(config.unroll * x_words)], ys[$(config.unroll * y_words)];
% if problem.bias == 1 then
        if (k == $(problem.offsets)) {
            SPC_UNROLL
            for (int u = 0; u < $(config.unroll); u++)
                next.x[u] = -1;
        }
% end
        load_rows(xs, ys, &next, x, y);
        at += $(config.unroll * at_once);
        find_rows(&next, in, out, at, end);
% if problem.bias == 1 then
        if (k == $(problem.offsets)) {
            SPC_UNROLL
            for (int i = 0; i < $(config.unroll * x_words); i++)
                xs[i] = $(({f16 = "0x3c003c00u", bf16 = "0x3f803f80u"})[problem.dtype] or "0x3f800000u");
        }
% end
        SPC_UNROLL
        for (int u = 0; u < $(config.unroll); u++)
            multiply(sums, xs + u * $(x_words), ys + u * $(y_words));
    }
}

/* Adds the sums of all lanes that have the same piece. The first of these lanes receives
 * the result. */
SPC_DEVICE void join_lanes(float *sums)
{
% local by = 1
% while by * 2 < at_once do by = by * 2 end
% if at_once == 1 then by = 0 end
% while by > 0 do
    SPC_UNROLL
    for (int i = 0; i < $(sums); i++) {
        float other = spc_bits_f32(spc_shfl((int)spc_f32_bits(sums[i]), (spc_lane() + $(by * lanes)) & 31));
        if (lane_pair() + $(by) < $(at_once))
            sums[i] += other;
    }
%   by = by // 2
% end
}

/* ---- sums of a block --------------------------------------------------------------- */

/* Shared memory for a warp's sums of an offset that an earlier warp began. */
SPC_DEVICE float *slot_of(int warp)
{
    return (float *)spc_shared() + warp * $(lanes * sums) + lane_piece();
}

/* Stores a block's sum of offset k. */
SPC_DEVICE void leave(const float *sums, int part, int k, int piece, const spc_conv_args *args)
{
    float *to = (float *)((spc_u8 *)args->workspace + $(header)) + (long long)part * $(stride) +
                (long long)k * $(inputs * problem.cout) + piece * $(channels);

    if (lane_pair() != 0$(row_lanes % lanes ~= 0 and " || piece >= " .. row_lanes or ""))
        return;
    SPC_UNROLL
    for (int c = 0; c < $(inputs); c++) {
% if problem.bias == 1 and inputs > 1 then
        if (k == $(problem.offsets) && c > 0)
            break;
% end
% local width = channels % 4 == 0 and 4 or channels % 2 == 0 and 2 or 1
        SPC_UNROLL
        for (int j = 0; j < $(channels); j += $(width)) {
% if width == 1 then
            to[c * $(problem.cout) + j] = sums[j * $(inputs) + c];
% else
            spc_b$(width * 4) v;
%   for i, name in ipairs {"x", "y", "z", "w"} do
%     if i <= width then
            v.$(name) = spc_f32_bits(sums[(j + $(i - 1)) * $(inputs) + c]);
%     end
%   end
            spc_store$(width * 4)(to + c * $(problem.cout) + j, v);
% end
        }
    }
}

/* Adds the sums of later warps for offset k, in their order. */
SPC_DEVICE void join_warps(float *sums, int k)
{
    for (int warp = spc_warp() + 1; warp < $(config.warps) && share_begin(warp) < befores()[k + 1]; warp++) {
        /* A warp without pairs has stored nothing. */
        if (share_begin(warp) == share_begin(warp + 1))
            continue;
        SPC_UNROLL
        for (int i = 0; i < $(sums); i++)
            sums[i] += slot_of(warp)[i * $(lanes)];
    }
}

/* Computes the sums over a part of the pairs of every offset, for a column of
 * channels. */
SPC_DEVICE void run_part(int part, int column, const spc_conv_args *args)
{
    const int *before = befores();
    int warp = spc_warp(), at = share_begin(warp), end = share_begin(warp + 1);
    int k = 0, begun = -1, piece = column * $(lanes) + lane_piece();
    float sums[$(sums)];

    SPC_ROLLED
    while (at < end) {
        while (before[k + 1] <= at)
            k++;
        int until = before[k + 1] < end ? before[k + 1] : end;
        add_pairs(sums, k, firsts()[k] + at - before[k], until - at, piece, args);
        join_lanes(sums);
        /* An earlier warp has the first pairs of this offset and adds these
         * sums. */
        if (at > before[k]) {
            if (lane_pair() == 0)
                for (int i = 0; i < $(sums); i++)
                    slot_of(warp)[i * $(lanes)] = sums[i];
        } else if (until == before[k + 1])
            leave(sums, part, k, piece, args);
        else
            begun = k; /* and `at` is the end */
        at = until;
    }
    spc_sync_block(); /* later warps have stored their sums */
    if (begun >= 0) {
        join_warps(sums, begun);
        leave(sums, part, begun, piece, args);
    }
    SPC_UNROLL
    for (int i = 0; i < $(sums); i++)
        sums[i] = 0.0f;
    for (k = warp; k < $(all); k += $(config.warps))
        /* spc_sum reads every offset of every block, so those without pairs get
         * zeroes. */
        if (before[k] == before[k + 1])
            leave(sums, part, k, piece, args);
}

/* ---- the kernels ------------------------------------------------------------- */

SPC_DEVICE int parts_of_grid(int grid) { return grid > $(columns) ? grid / $(columns) : 1; }

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(config.blocks))
{
    int parts = parts_of_grid(spc_grid_x());

    for (int item = spc_block_x(); item < parts * $(columns); item += spc_grid_x()) {
        spc_sync_block(); /* all warps have finished with the tables */
        number_pairs(item / $(columns), parts, args);
        spc_sync_block(); /* the tables are complete */
        spc_depend_wait(); /* the map was complete earlier */
        spc_depend_launch();
        run_part(item / $(columns), item % $(columns), args);
    }
    spc_depend_wait();
    if (spc_block_x() == 0 && spc_thread() == 0)
        *(int *)args->workspace = parts;
}

/* Adds the blocks' sums of 32 results; each of $(ways) warps adds every $(ways)th block. */
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    float *shares = (float *)spc_shared();
    int at = spc_block_x() * 32 + spc_lane();
    const float *from = (const float *)((const spc_u8 *)args->workspace + $(header)) + at;
    float sum = 0.0f;

    spc_depend_wait();
    spc_depend_launch();
    int parts = at < $(results) ? *(const int *)args->workspace : 0;
    SPC_ROLLED
    for (int first = spc_warp(); first < parts; first += $(8 * ways)) {
        float some[8];
        SPC_UNROLL
        for (int i = 0; i < 8; i++) {
            int part = first + i * $(ways);
            some[i] = part < parts ? from[(long long)part * $(stride)] : 0.0f;
        }
        SPC_UNROLL
        for (int i = 0; i < 8; i++)
            sum += some[i];
    }
    shares[spc_thread()] = sum;
    spc_sync_block();
    if (spc_warp() > 0 || at >= $(results))
        return;
    for (int way = 1; way < $(ways); way++)
        sum += shares[way * 32 + spc_lane()];
    store_sum(args, at, sum);
}
