%-- Output-stationary implicit GEMM with mma.sync; each block has a tile. Runs on all
%-- supported GPUs.
%--
%-- A block of `warps` warps computes one tile. Each warp has 16 * m rows by n output
%-- channels. A step is (tile, offset present in the tile, block of input channels). One
%-- pipeline of `stages` asynchronous copies continues across steps, offsets and tiles.
%-- The block copies a step's weights together, and each lane copies its own parts of its
%-- own rows. A lane copies 16 contiguous bytes of a row, which are exactly its part of
%-- two first operands, because the packed weights permute the channels. Weights are
%-- packed in the order of second operands. All accesses to shared memory are therefore
%-- 16 bytes wide without bank conflicts, and no ldmatrix is needed.
%--
%-- Rows may have any length. If it is not a multiple of 16 bytes, a lane copies its part
%-- in pieces of 8 or 4 bytes, with zeroes past the end of the row, and stores likewise.
%-- Rows of an odd number of halves may begin in the middle of a word. A lane then copies
%-- the five words that contain its part, notes in which half of a word it begins, and
%-- shifts it before the product. The same applies to rows of bytes (i8) whose length is
%-- not a multiple of 4 bytes.
%
%-- Groups are processed in parts (operands.lua). A block has output channels of one
%-- part.
%
%include "os_blocks.lua"
%include "os_split.lua"
%
%local widths, several = {32, 64, 96, 128}, 96
%function tile_rows(config) return config.warps * config.m * 16 end
%function weight_stage(config) return config.pieces * config.n * 64 end
%-- If rows begin inside words: the fifth word and the start position, in addition to
%-- the 16 bytes.
%function between_words(problem) return input_alignment(problem) < 4 end
%function gather_stage(problem, config)
%  return config.warps * config.m * config.pieces * (between_words(problem) and 1536 or 1024)
%end
%function shared_bytes(problem, config)
%  return config.stages * (weight_stage(config) + gather_stage(problem, config))
%       + config.warps * 384
%end
%-- True if products are summed in fp16, two sums in a word.
%function sums_in_halves(problem, config)
%  return problem.accumulator == "f16" and config.sum == "f16"
%end
%-- Number of words of a warp's sums in each lane.
%function sum_words(problem, config)
%  return config.m * config.n // (sums_in_halves(problem, config) and 4 or 2)
%end
%function registers(problem, config)
%  return sum_words(problem, config) + config.m * 8 * images(problem) + 56
%end
%
%template = {
%  summary = "output-stationary implicit GEMM, a block a tile, cp.async and mma.sync",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"warps", {4, 8}, "warps of a block"},
%    {"m", {1, 2}, "16-row tiles of a warp"},
%    {"n", widths, "output channels of a block"},
%    {"pieces", {1, 2}, "64-byte pieces of input rows in a step"},
%    {"stages", {2, 3}, "steps in flight"},
%    {"order", {"gray", "gray_x", "gray_y", "planes", "dense", "morton"}, "row order of the map"},
%    {"split", split_values, "how blocks share the sum of a tile"},
%    {"sum", function(problem)
%      return problem.accumulator == "f16" and {"f32", "f16"}
%    end, "what products are summed in"},
%  },
%  accepts = function(problem, target)
%    if problem.groups and group_in(problem) == 1 and problem.cin > 32 then
%      return false, "groups need several inputs, or there are 32 at most"
%    end
%    if target.sm < 75 or problem.dtype ~= "f16" and problem.dtype ~= "i8" and target.sm < 80 then
%      return false, "needs tensor cores for " .. problem.dtype
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
%    {"8 warps with 16 rows each, or 4", function(problem, config)
%      return config.warps == 4 or config.m == 1
%    end},
%    {"shared memory", function(problem, config, target)
%      return shared_bytes(problem, config) <= target.shared_block
%    end},
%    {"accumulators fit the registers", function(problem, config)
%      return registers(problem, config) <= 255
%    end},
%    {"sums in f16 stay in one block", function(problem, config)
%      return not sums_in_halves(problem, config) or config.split == "none"
%    end},
%    {"tiles that can be divided", function(problem, config, target)
%      return can_divide(problem, config, target)
%         and (cluster_of(config) == 1 or tile_bytes(config, tile_rows(config)) <= shared_bytes(problem, config))
%    end},
%  },
%  derive = function(problem, config, target)
%    local element = element_bytes(problem)
%    return {
%      k_blocks = row_pieces(problem) // config.pieces,
%      n_blocks = out_blocks(problem, config),
%      words = ceil_div(problem.offsets, 32), rows = tile_rows(config),
%      threads = config.warps * 32, element = element,
%      sum = sums_in_halves(problem, config) and "spc_u32" or sum_type(problem),
%      zero = sums_in_halves(problem, config) and "0" or sum_zero(problem), lane_channels = channels_of_lane(problem), row_bytes = input_row_bytes(problem),
%      row_pitch = input_pitch_bytes(problem),
%      weight_size = weight_stage(config),
%      stage_size = weight_stage(config) + gather_stage(problem, config),
%      ring_at = config.stages * (weight_stage(config) + gather_stage(problem, config)),
%      align = math.min(input_alignment(problem), alignment_of(part_in_bytes(problem))),
%      part_blocks = ceil_div(part_cout(problem), config.n),
%      divided = is_divided(config), parts = span_parts(config),
%      centre = ending_centre(problem, config),
%    }
%  end,
%  launch = function(problem, config, target)
%    local blocks = (target.shared_sm or 102400) // (shared_bytes(problem, config) + 1024)
%    local by_registers = 65536 // (math.max(registers(problem, config), 64) * config.warps * 32)
%    local packed = packed_image(problem, config)
%    return divide_launch({
%      block = config.warps * 32, shared = shared_bytes(problem, config),
%      grid = "persistent", blocks_per_sm = math.max(1, math.min(blocks, by_registers, 8)),
%      grid_y = out_blocks(problem, config),
%      tile_rows = tile_rows(config), order = config.order,
%      packed_bytes = packed, pack_threads = packed // 16,
%      pdl = target.sm >= 90 and 1 or 0, preference = 2,
%    }, problem, config, config.warps * 32)
%  end,
%  default = function(problem, target)
%    -- In a scan only a few planes of a large kernel have neighbours.
%    local order = problem.offsets > 8 and "planes" or "gray"
%    local config = {warps = 4, m = 1, n = least_wasting(problem, widths, several),
%                    pieces = 1, stages = 3, order = order, split = "none",
%                    sum = problem.accumulator == "f16" and "f32" or nil}
%    if config.n <= 64 then config.m = 2 end
%    if row_pieces(problem) % 2 == 0 then config.pieces = 2 end
%    while shared_bytes(problem, config) > target.shared_block do
%      if config.stages > 2 then config.stages = 2
%      elseif config.pieces > 1 then config.pieces = config.pieces // 2
%      else config.m = 1 break end
%    end
%    return config
%  end,
%}

% if divided then
#include "spc_span.cuh"
% else
#include "spc_stream.cuh"
% end

/* The lane's own place `i` of a stage: piece i / (2 m), row g + 8 * (i % (2 m)). */
SPC_DEVICE spc_u8 *place_of(int stage, int i)
{
    return spc_shared() + stage * $(stage_size) + $(weight_size) +
           i * $(threads * 16) + spc_thread() * 16;
}

% if align < 4 then
/* Next to it: the fifth word, and whether the row begins inside a word. */
SPC_DEVICE spc_u8 *side_of(int stage, int i)
{
    return spc_shared() + stage * $(stage_size) +
           $(weight_size + threads * 32 * config.m * config.pieces) +
           (i * $(threads) + spc_thread()) * 8;
}

% end
% if align < 16 then
/* Copies 16 bytes of a row, from `byte` on, to place `i`; fewer where the row
 * ends. */
SPC_DEVICE void copy_part(int stage, int i, const spc_u8 *in, int row, int byte)
{
    spc_u8 *to = place_of(stage, i);
%   if align == 1 then
    spc_u8 *side = side_of(stage, i);
    /* Only the lowest bits of the row's address matter here, and the small
     * factor keeps the product within 32 bits. */
    int between = $(row_pitch % 4) * row & 3, at = byte - between;
    const spc_u8 *from = in + (long long)row * $(row_pitch) + at;
    SPC_UNROLL
    for (int j = 0; j < 5; j++) {
        int left = $(row_bytes) - at - 4 * j;
        /* The fifth word is needed only by a row that begins inside a word.
         * Past the end of the row nothing may be read. */
        int valid = row < 0 || left <= 0 || (j == 4 && !between) ? 0 : left < 4 ? left : 4;
        spc_copy_async4(j < 4 ? to + 4 * j : side, valid ? from + 4 * j : in, valid);
    }
    /* An ordinary store is enough: the same lane reads it, after a barrier. */
    *(int *)(side + 4) = 8 * between;
%   elseif align == 2 then
    spc_u8 *side = side_of(stage, i);
    int between = row & $(row_pitch // 2 % 2), at = byte - 2 * between;
    const spc_u8 *from = in + (long long)row * $(row_pitch) + at;
    SPC_UNROLL
    for (int j = 0; j < 5; j++) {
        int left = $(row_bytes) - at - 4 * j;
        int valid = row < 0 || left <= 0 || (j == 4 && !between) ? 0 : left < 4 ? 2 : 4;
        spc_copy_async4(j < 4 ? to + 4 * j : side, valid ? from + 4 * j : in, valid);
    }
    *(int *)(side + 4) = 16 * between;
%   else
    const spc_u8 *from = in + (long long)row * $(row_pitch) + byte;
    SPC_UNROLL
    for (int j = 0; j < 16; j += $(align)) {
        int valid = row >= 0 && byte + j < $(part_in_bytes(problem)) ? $(align) : 0;
        spc_copy_async$(align)(to + j, valid ? from + j : in, valid);
    }
%   end
}

% end
/* The loading side, which runs stages - 1 steps ahead of the products. */
typedef struct loader {
    $(divided and "spc_span" or "spc_stream") stream;
    const int *index; /* index of this lane's row g in the first tile */
    int taken, place; /* steps whose indices have been requested */
    int block;        /* block of input channels of the step being loaded */
    int offset, next_offset;
    int row[$(2 * config.m)], next_row[$(2 * config.m)];
% if divided and k_blocks > 1 then
    int end, next_first, next_end; /* blocks of the current and the next step */
% end
% if parts > 1 then
    int last, next_last; /* true if this or the next step ends its part */
    int held;            /* the part is complete: no copies until it is joined */
% end
} loader;

SPC_DEVICE void look_ahead(loader *l, const spc_map_view *map)
{
    spc_b8 step;

% if divided then
    spc_span_fill(&l->stream, map, l->taken + 1, $(rows), $(words), $(k_blocks),
                  $(parts));
    step = spc_shared_load8(l->stream.ring + l->place * 8);
% else
    spc_stream_fill(&l->stream, map, l->taken + 1, $(rows), $(words),
                    $(centre));
    step = spc_stream_step(&l->stream, l->place);
% end
    l->next_offset = (int)step.y & SPC_STEP_OFFSET;
    SPC_UNROLL
    for (int h = 0; h < $(2 * config.m); h++)
        /* Requested one step early, so that the copies of a step do not wait
         * for their row numbers. */
        l->next_row[h] = $(parts > 1 and "step.y & SPC_STEP_VOID ? -1 : " or "")spc_load_int(l->index + step.x + 8 * h);
% if divided and k_blocks > 1 then
    l->next_first = SPC_STEP_FIRST(step.y);
    l->next_end = SPC_STEP_FINAL(step.y) + 1;
% end
% if parts > 1 then
    l->next_last = step.y & SPC_STEP_LAST;
% end
    l->taken++;
    if (++l->place == SPC_STREAM_STEPS)
        l->place = 0;
}

/* Starts the copies of the next step into `stage`. Always commits one group.
 * Copies past the end are not used. */
SPC_DEVICE void load_next(loader *l, int stage, const spc_conv_args *args)
{
    const spc_u8 *in = (const spc_u8 *)args->in;
    const spc_u8 *weights = (const spc_u8 *)args->weights;
    int q = spc_lane() & 3;
% if problem.groups then
    in += spc_block_y() / $(part_blocks) * $(part_in_bytes(problem));
% end

% if parts > 1 then
    /* The join uses the memory of the ring, so nothing may arrive there until
     * then. The empty group keeps the count of spc_copy_wait right. */
    if (l->held) {
        spc_copy_commit();
        return;
    }
% end
% if divided and k_blocks > 1 then
    if (++l->block == l->end) {
        l->block = l->next_first;
        l->end = l->next_end;
% else
    if (++l->block == $(k_blocks)) {
        l->block = 0;
% end
        l->offset = l->next_offset;
% if parts > 1 then
        l->last = l->next_last;
% end
        SPC_UNROLL
        for (int h = 0; h < $(2 * config.m); h++)
            l->row[h] = l->next_row[h];
        look_ahead(l, &args->map);
    }
    weights += ((long long)(l->offset * $(k_blocks) + l->block) * $(n_blocks) +
                spc_block_y()) * $(weight_size);
    /* Weights are packed in the order in which they are read, so each thread
     * copies 16 bytes and reads are free of bank conflicts. */
    for (int at = spc_thread() * 16; at < $(weight_size); at += $(threads * 16))
        spc_copy_async16(spc_shared() + stage * $(stage_size) + at,
                         weights + at, 16);
    SPC_UNROLL
    for (int p = 0; p < $(config.pieces); p++) {
        int byte = (l->block * $(config.pieces) + p) * 64 + q * 16;
        SPC_UNROLL
        for (int h = 0; h < $(2 * config.m); h++) {
% if align == 16 then
            int valid = l->row[h] >= 0$(byte_guard("byte")) ? 16 : 0;
            const spc_u8 *from = in + (long long)l->row[h] * $(row_pitch) + byte;
            spc_copy_async16(place_of(stage, p * $(2 * config.m) + h),
                             valid ? from : in, valid);
% else
            copy_part(stage, p * $(2 * config.m) + h, in, l->row[h], byte);
% end
        }
    }
% if parts > 1 then
    l->held = l->last && l->block == $(k_blocks > 1 and "l->end" or k_blocks) - 1;
% end
    spc_copy_commit();
}

% if align < 4 then
/* The 16 bytes that begin `by` bits after the start of `v`, where `next` is the
 * word after `v`. */
SPC_DEVICE spc_b16 shifted(spc_b16 v, spc_u32 next, int by)
{
    v.x = (spc_u32)(((spc_u64)v.y << 32 | v.x) >> by);
    v.y = (spc_u32)(((spc_u64)v.z << 32 | v.y) >> by);
    v.z = (spc_u32)(((spc_u64)v.w << 32 | v.z) >> by);
    v.w = (spc_u32)(((spc_u64)next << 32 | v.w) >> by);
    return v;
}

% end
% write_split()
/* acc[m][n / 8][4] += the step in `stage`. */
SPC_DEVICE void multiply($(sum) *acc, int stage)
{
    const spc_u8 *weights = spc_shared() + stage * $(stage_size) + spc_lane() * 16;

% if element < 4 then
    SPC_UNROLL
% else
#pragma unroll 1
% end
    for (int p = 0; p < $(config.pieces); p++) {
        spc_u32 a[$(config.m)][2][4];
        SPC_UNROLL
        for (int h = 0; h < $(2 * config.m); h++) {
            spc_b16 v = spc_shared_load16(place_of(stage, p * $(2 * config.m) + h));
% if align < 4 then
            spc_b8 side = spc_shared_load8(side_of(stage, p * $(2 * config.m) + h));
            v = shifted(v, side.x, (int)side.y);
% end
            a[h / 2][0][h % 2] = v.x;
            a[h / 2][0][h % 2 + 2] = v.y;
            a[h / 2][1][h % 2] = v.z;
            a[h / 2][1][h % 2 + 2] = v.w;
        }
% write_tile_products(sums_in_halves(problem, config))
    }
}

%-- A lane's sum number `i`, as a number. With fp16 sums, odd numbers belong to odd
%-- channels.
%local function sum_at(i)
%  if not sums_in_halves(problem, config) then return "d[" .. i .. "]" end
%  return "spc_f16_to_f32((spc_u16)(d[(" .. i .. ") / 2] >> i % 2 * 16))"
%end
% write_activation("SPC_DEVICE")
/* Finishes and stores this lane's pieces$(divided and "" or ", clears acc"). */
SPC_DEVICE void finish($(sum) *acc, const int *row, const spc_conv_args *args)
{
% if problem.groups then
    int part = spc_block_y() / $(part_blocks) * $(part_cout(problem));
    int first = spc_block_y() % $(part_blocks) * $(config.n) + (spc_lane() & 3) * $(lane_channels);
% else
    int first = spc_block_y() * $(config.n) + (spc_lane() & 3) * $(lane_channels);
% end
    spc_u8 *out = (spc_u8 *)args->out;

    SPC_UNROLL
    for (int j = 0; j < $(config.n // (4 * lane_channels)); j++) {
        int co = first + j * $(4 * lane_channels);
% if problem.groups then
        int within = co < $(part_cout(problem));
        co += part;
% end
        SPC_UNROLL
        for (int h = 0; h < $(2 * config.m); h++) {
            const $(sum) *d = acc + h / 2 * $(sum_words(problem, config) // config.m);
            int store = row[h] >= 0 && $(problem.groups and "within" or "co < " .. problem.cout);
            float v[$(lane_channels)];
% write_lane_result(lane_channels, sum_at(sum_of_channel("j * " .. 2 * lane_channels, "h % 2")), "out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem))
        }
    }
% if not divided then
    SPC_UNROLL
    for (int i = 0; i < $(sum_words(problem, config)); i++)
        acc[i] = $(zero);
% end
}

% if divided then
SPC_DEVICE void clear($(sum) *acc)
{
    SPC_UNROLL
    for (int i = 0; i < $(sum_words(problem, config)); i++)
        acc[i] = $(zero);
}

% end
% write_division(config.m, threads)
%local first_row = "spc_warp() * " .. config.m * 16 .. " + (spc_lane() >> 2)"
%local last_rows = (divided or is_masked(config)) and part_rows or ending_rows
SPC_KERNEL(spc_conv, spc_conv_args, $(threads), 1)
{
    const spc_map_view *map = &args->map;
    $(sum) acc[$(sum_words(problem, config))];
    loader l;
    int stage = 0, place = 0;
% if is_stream(config) then
    int later = 0; /* tiles after the block's first use another place */
% end

% if divided then
    spc_span_start(&l.stream, spc_shared() + $(ring_at) + spc_warp() * SPC_STREAM_BYTES);
% write_span_start("&l.stream", "map")
% else
    /* Each warp unrolls the stream separately, so no warp waits for the steps
     * of another warp. */
    spc_stream_start(&l.stream,
                     spc_shared() + $(ring_at) + spc_warp() * SPC_STREAM_BYTES,
                     spc_block_x(), spc_grid_x());
% end
    l.index = map->index + $(first_row);
    l.taken = 0;
    l.place = 0;
    /* The first call of load_next steps over the end and takes the first
     * step. */
    l.block = $(k_blocks - 1);
% if divided and k_blocks > 1 then
    l.end = $(k_blocks);
% end
% if parts > 1 then
    l.held = 0;
% end
    SPC_UNROLL
    for (int i = 0; i < $(sum_words(problem, config)); i++)
        acc[i] = $(zero);
    look_ahead(&l, map);
% write_depend_start()
    SPC_ROLLED
    for (int i = 0; i < $(config.stages - 1); i++)
        load_next(&l, i, args);
    for (int number = 0; number < l.stream.filled; number++) {
        spc_b8 step = $(divided and "spc_shared_load8(l.stream.ring + place * 8)" or "spc_stream_step(&l.stream, place)");
        int last = step.y & SPC_STEP_LAST;
% if parts < 2 then
        int row[$(2 * config.m)];
% end

        if (++place == SPC_STREAM_STEPS)
            place = 0;
% if parts < 2 then
        const int *rows = $(last_rows("l.index", "map", first_row));
        SPC_UNROLL
        for (int h = 0; h < $(2 * config.m); h++)
            row[h] = last ? spc_load_int(rows + 8 * h) : -1;
% end
        for ($(blocks_of("step.y")); block++) {
            /* After the barrier the step has arrived for the whole block, and
             * all warps have finished with the stage that is loaded next. */
            spc_copy_wait($(config.stages - 2));
            spc_sync_block();
            load_next(&l, stage == 0 ? $(config.stages - 1) : stage - 1, args);
            multiply(acc, stage);
            if (++stage == $(config.stages))
                stage = 0;
        }
% if parts == 0 then
        if (last) {
%   write_part_end()
            clear(acc);
        }
% elseif parts > 1 then
        if (last) {
            spc_sync_block(); /* all threads have finished with the ring */
            join_cluster(acc, step, args);
            clear(acc);
            l.held = 0;
            SPC_ROLLED
            for (int i = 0; i < $(config.stages - 1); i++)
                /* The join has emptied the ring: fill it again. */
                load_next(&l, (stage + i) % $(config.stages), args);
        }
% elseif not divided then
        if (last)
            finish(acc, row, args);
% end
    }
    spc_copy_wait(0);
% write_depend_end()
}

% write_sum_kernel(config.m, threads)

% if problem.groups then
/* The weight, in the form that products take, of input channel ci and output channel co
 * of a part. It is 0 if they are in different groups or in no group. */
SPC_DEVICE spc_u32 weight_of(const spc_pack_args *args, int offset, int part, int ci, int co)
{
    const $(format_of(problem).device) *weights =
        (const $(format_of(problem).device) *)args->weights;
    long long at = offset * args->stride_k + ci % $(group_in(problem)) * args->stride_in +
                   (part * $(part_cout(problem)) + co) * args->stride_out$(group_stride("part * " .. part_cout(problem) .. " + co"));

    if (co >= $(part_cout(problem)) || ci / $(group_in(problem)) != co / $(group_out(problem)))
        return 0;
%   if element < 4 then
    return weights[at];
%   elseif problem.dtype == "tf32" then
    return spc_f32_to_tf32(weights[at]);
%   else
    return spc_f32_bits(weights[at]);
%   end
}

% else
%   write_weight_word()
% end
/*
 * Packed: [offset][k-block][n-block] stages, each [k-step][pair of 8 columns][lane]
 * [second operands of both]. K-step s of piece p takes bytes p * 64 + q * 16 + s %
 * 2 * 8 .. + 7 of the rows for lane q of a quad.
 */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    spc_u32 item = (spc_u32)spc_block_x() * 256 + (spc_u32)spc_thread();
    int lane = (int)(item % 32), g = lane >> 2, q = lane & 3;
    int pair = (int)(item / 32 % $(config.n // 16));
    int step = (int)(item / $(config.n * 2) % $(config.pieces * 2));
% write_image_of_item(weight_size)
    spc_u32 v[4];

    if (offset >= $(problem.offsets))
        return;
    for (int r = 0; r < 4; r++) {
        int column = pair * 16 + r / 2 * 8 + g;
        int byte = (block * $(config.pieces) + step / 2) * 64 + q * 16 +
                   step % 2 * 8 + r % 2 * 4;
% if problem.groups then
%   write_channel_of_column("        ", config.n, 4 * lane_channels, "n_block % " .. part_blocks .. " * " .. config.n)
        int part = n_block / $(part_blocks), ci = byte / $(element);
        v[r] = weight_of(args, offset, part, ci, co);
%   for i = 1, 4 // element - 1 do
        v[r] |= weight_of(args, offset, part, ci + $(i), co) << $(8 * element * i);
%   end
% else
%   write_channel_of_column("        ", config.n, 4 * lane_channels, "n_block * " .. config.n)
        v[r] = weight_word(args, offset, byte, co);
% end
    }
% write_packed("(long long)item")
}
