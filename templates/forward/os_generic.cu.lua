%-- Output-stationary convolution for problems that the other kernels refuse: any
%-- channel counts, any groups, any type, no tensor cores.
%--
%-- A warp computes `rows` output rows by 32 output channels. A lane owns one channel of
%-- all of them. Weights are read coalesced, inputs as broadcasts.
%
%include "operands.lua"
%
%function padded_cout(problem) return ceil_div(problem.cout, 32) * 32 end
%function packed_bytes(problem)
%  return problem.offsets * group_in(problem) * padded_cout(problem) * element_bytes(problem)
%end
%
%-- Converts a stored result to a number, and back.
%function number_of(stored)
%  local short = out_format(problem).short
%  if whole_out(problem) then return "spc_i8_to_f32(" .. stored .. ", 0)" end
%  return short and "spc_" .. short .. "_to_f32(" .. stored .. ")" or stored
%end
%function result_of(number)
%  local short = out_format(problem).short
%  if whole_out(problem) then return "(spc_u8)spc_f32_to_i8(" .. number .. ")" end
%  return short and "spc_f32_to_" .. short .. "(" .. number .. ")" or number
%end
%
%template = {
%  summary = "output-stationary for any channels and any target, no tensor cores",
%  role = "conv",
%  device = "cuda",
%  triplets = true,
%  params = {
%    {"rows", {8, 16}, "output rows of a warp"},
%  },
%  accepts = function(problem, target)
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target)
%    return {
%      words = ceil_div(problem.offsets, 32), co_padded = padded_cout(problem),
%      half = element_bytes(problem) == 2, cin = group_in(problem),
%      short = format_of(problem).short, sum = sum_type(problem),
%    }
%  end,
%  launch = function(problem, config, target)
%    return {
%      block = 128, shared = 0,
%      grid = "tiles", tile_rows = config.rows, tiles_per_block = 4,
%      -- The order puts rows of equal masks together; triplets have no masks.
%      grid_y = ceil_div(problem.cout, 32), order = problem.triplets and "none" or "gray",
%      layout = problem.triplets and "triplets" or nil,
%      packed_bytes = packed_bytes(problem),
%      pack_threads = problem.offsets * group_in(problem) * padded_cout(problem),
%      preference = 0,
%    }
%  end,
%  default = function(problem, target) return {rows = 8} end,
%}
#include "spc_device.cuh"

typedef $(format_of(problem).device) element;
typedef $(out_format(problem).device) result;
% if half then
#define TO_FLOAT(v) spc_$(short)_to_f32(v)
#define LOAD(p) spc_load2(p)
% elseif not whole_in(problem) then
#define TO_FLOAT(v) (v)
#define LOAD(p) spc_load_f32(p)
% end

% if problem.add then
#define LOAD_RESULT(p) $(({"spc_load1(p)", "spc_load2(p)", [4] = "spc_load_f32(p)"})[out_bytes(problem)])
% end
% write_activation("SPC_DEVICE")
% if problem.triplets then
/* The sum over input channels of in * w, for one triplet. */
SPC_DEVICE $(sum) product(const element *in, const element *w)
{
    $(sum) sum = $(sum_zero(problem));

    for (int c = 0; c < $(cin); c++)
%   if whole_in(problem) then
        sum += (signed char)spc_load1(in + c) * (signed char)spc_load1(w + c * $(co_padded));
%   else
        sum = spc_fma(TO_FLOAT(LOAD(in + c)), TO_FLOAT(LOAD(w + c * $(co_padded))), sum);
%   end
    return sum;
}

/* The sum of the triplets of the output at position p. */
SPC_DEVICE $(sum) add_triplets(const spc_triplets_view *all, int p, const element *in,
                     const element *weights)
{
    int end = spc_load_int(all->first + p + 1);
    $(sum) sum = $(sum_zero(problem));

    for (int t = spc_load_int(all->first + p); t < end; t++) {
        spc_b8 entry = spc_load8(all->list + 2ll * t);
        sum += product(in + (long long)entry.x * $(problem.in_pitch or problem.cin),
                       weights + (long long)entry.y * $(cin * co_padded));
    }
    return sum;
}
% else
/* acc[r] += sum over input channels of in[row[r]] * w, for one offset. */
SPC_DEVICE void multiply($(sum) *acc, const int *row, const element *in,
                         const element *w)
{
    for (int c = 0; c < $(cin); c++) {
% if whole_in(problem) then
        int weight = (signed char)spc_load1(w + c * $(co_padded));
        SPC_UNROLL
        for (int r = 0; r < $(config.rows); r++)
            if (row[r] >= 0)
                acc[r] += (signed char)spc_load1(in + (long long)row[r] * $(problem.in_pitch or problem.cin) + c) * weight;
% else
        float weight = TO_FLOAT(LOAD(w + c * $(co_padded)));
        SPC_UNROLL
        for (int r = 0; r < $(config.rows); r++)
            if (row[r] >= 0)
                acc[r] = spc_fma(TO_FLOAT(LOAD(in + (long long)row[r] * $(problem.in_pitch or problem.cin) + c)),
                                 weight, acc[r]);
% end
    }
}
% end

SPC_KERNEL(spc_conv, spc_conv_args, 128, 1)
{
    const spc_map_view *map = &args->map;
    const element *in = (const element *)args->in;
    result *out = (result *)args->out;
    int rank = spc_block_x() * 4 + spc_warp();
    int co = spc_block_y() * 32 + spc_lane();
    /* Packed rows are padded to whole warps, so lanes past the last channel
     * read zeros. */
    const element *weights = (const element *)args->weights + co;
    $(sum) acc[$(config.rows)];
    int $(problem.triplets and "" or "row[" .. config.rows .. "], ")tile;

% if problem.groups then
    /* Lanes past the last channel read the inputs of the first group, so that
     * every address is valid. */
    in += (co < $(problem.cout) ? co : 0) / $(group_out(problem)) * $(cin);
% end
    spc_depend_wait();
    /* A block has a tile for each of its four warps, the last block maybe
     * fewer. */
    if (rank >= map->tiles)
        return;
    tile = $(problem.triplets and "rank" or "spc_load_int(map->tile_order + rank)");
    SPC_UNROLL
    for (int r = 0; r < $(config.rows); r++)
        acc[r] = $(starts_with_bias(problem) and "co < " .. problem.cout .. " ? spc_load_f32(args->bias + co) : 0.0f" or sum_zero(problem));
% if problem.triplets then
    for (int r = 0; r < $(config.rows); r++) {
        $(sum) sum = add_triplets(&args->triplets, tile * $(config.rows) + r, in, weights);
        SPC_UNROLL
        for (int i = 0; i < $(config.rows); i++)
            /* A comparison for each row keeps `acc` in registers; an index
             * would not. */
            acc[i] += i == r ? sum : $(sum_zero(problem));
    }
% else
    for (int word = 0; word < $(words); word++) {
        spc_u32 rest = spc_load4(map->tile_mask + word * map->tiles + rank);
        for (; rest; rest &= rest - 1) {
            int k = word * 32 + spc_ffs(rest) - 1;
            const int *index = map->index + (long long)k * map->rows_padded +
                               tile * $(config.rows);
            SPC_UNROLL
            for (int r = 0; r < $(config.rows); r++)
                row[r] = spc_load_int(index + r);
            multiply(acc, row, in,
                     weights + (long long)k * $(cin * co_padded));
        }
    }
% end
    if (tile < 0) /* past the last tile, where masks are 0 */
        return;
% write_device_scales("    ")
    SPC_UNROLL
    for (int r = 0; r < $(config.rows); r++) {
        int to = spc_load_int(map->order + tile * $(config.rows) + r);
        if (to >= 0 && co < $(problem.cout)) {
% if has_epilogue(problem) then
            float y = $(whole_in(problem) and "spc_int_to_f32(acc[r])" or "acc[r]");
%   if is_scaled(problem) then
            y = $(affine(problem, "y", "spc_load_f32(args->scale + co)", "spc_load_f32(args->bias + co)"));
%   end
%   write_rest("            ", "y", number_of("LOAD_RESULT((const result *)args->residual + (long long)to * " .. add_pitch(problem) .. " + co)"))
% end
            out[(long long)to * $(out_pitch(problem)) + co] =
                $(result_of(has_epilogue(problem) and "y" or "acc[r]"));
        }
    }
}

/* Packed: [offset][cin][cout padded to a multiple of 32]. */
SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    long long item = (long long)spc_block_x() * 256 + spc_thread();
    int co = (int)(item % $(co_padded));
    int ci = (int)(item / $(co_padded) % $(cin));
    int k = (int)(item / $(co_padded * cin));

    if (k >= $(problem.offsets))
        return;
    ((element *)args->packed)[item] =
        co < $(problem.cout)
            ? ((const element *)args->weights)[k * args->stride_k +
                                               ci * args->stride_in +
                                               co * args->stride_out$(group_stride("co"))]
            : (element)0;
    spc_fence_global();
}
