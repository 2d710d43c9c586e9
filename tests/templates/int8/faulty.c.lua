%-- Plain loops over integers, correct or with one fault.
%include "operands.lua"
%
%-- The code in which each fault differs from the correct version.
%local faults = {
%  none = {},
%  inputs_unsigned = {input = "(unsigned char)in[from * CIN + ci]"},
%  weights_unsigned = {weight = "(unsigned char)w[(k * CIN + ci) * COUT + co]"},
%  sums_f16 = {term = "sum = (int)spc_float_of_half(spc_half_of_float((float)(sum + v)));"},
%  sums_short = {term = "sum = (short)(sum + v);"},
%  last_input_missing = {inputs = "CIN - 1"},
%  in_scale_dropped = {in_scale = "1"},
%  in_scale_of_outputs = {in_scale = "*args->out_scale"},
%  scale_dropped = {scale = "1"},
%  bias_in_units = {affine = "(sum + bias) * scale"},
%  bias_dropped = {bias = "0"},
%  residual_scale_dropped = {residual = "added[row * COUT + co]"},
%  residual_unsigned = {residual = "(unsigned char)added[row * COUT + co] * *args->residual_scale"},
%  residual_dropped = {residual = "0"},
%  out_scale_dropped = {units = "y"},
%  out_scale_multiplied = {units = "y * *args->out_scale"},
%  truncated = {whole = "(float)(int)y"},
%  rounded_up = {whole = "down(y + 0.5f)"},
%  ties_away = {whole = "y < 0 ? -down(0.5f - y) : down(y + 0.5f)"},
%  rounded_twice = {units = "whole_of((y - residual) / *args->out_scale) + residual / *args->out_scale"},
%  wrapped = {saturated = "whole_of(y)"},
%  symmetric = {saturated = "whole_of(y < -127 ? -127 : y > 127 ? 127 : y)"},
%  unsigned_range = {saturated = "whole_of(y < 0 ? 0 : y > 127 ? 127 : y)"},
%  scale_written = {after = "((float *)args->out_scale)[0] *= 2;"},
%}
%local names = {"none"}
%for name in pairs(faults) do
%  if name ~= "none" then names[#names + 1] = name end
%end
%function piece(name, right) return faults[config.fault][name] or right end
%
%template = {
%  summary = "whole numbers with a fault",
%  role = "conv",
%  device = "cpu",
%  params = {{"fault", names, "what is wrong"}},
%  accepts = function(problem)
%    if problem.dtype ~= "i8" then return false, "i8 only" end
%    return true
%  end,
%  launch = function(problem)
%    return {
%      block = 1, shared = 0, grid = "tiles", tile_rows = 64,
%      order = "none", pack_threads = problem.offsets * problem.cin,
%      packed_bytes = problem.offsets * problem.cin * problem.cout,
%    }
%  end,
%  default = function() return {fault = "none"} end,
%}
#define SPC_LANES 4
#include "spc_cpu.h"

enum {
    CIN = $(problem.cin),
    COUT = $(problem.cout),
    OFFSETS = $(problem.offsets)
};

/* Rounds a small number down to an integer. */
static float down(float y)
{
    float whole = (float)(int)y;
    return whole > y ? whole - 1 : whole;
}

static float whole_of(float y)
{
    return $(piece("whole", "y + 12582912.0f - 12582912.0f"));
}

static void convolve(const spc_conv_args *args, int p)
{
    const spc_map_view *map = &args->map;
    const signed char *w = (const signed char *)args->weights;
    const signed char *in = (const signed char *)args->in;
    const signed char *added = (const signed char *)args->residual;
    signed char *out = (signed char *)args->out;
    long row = map->order[p];

    for (int co = 0; row >= 0 && co < COUT; co++) {
        int sum = 0;
        float scale = $(piece("in_scale", "*args->in_scale")) * $(piece("scale", "args->scale[co]"));
        float bias = $(piece("bias", "args->bias[co]"));
        float residual = $(piece("residual", "added[row * COUT + co] * *args->residual_scale"));
        for (long k = 0; k < OFFSETS; k++) {
            long from = map->index[k * map->rows_padded + p];
            for (int ci = 0; from >= 0 && ci < $(piece("inputs", "CIN")); ci++) {
                int v = $(piece("input", "in[from * CIN + ci]")) *
                        $(piece("weight", "w[(k * CIN + ci) * COUT + co]"));
                $(piece("term", "sum += v;"))
            }
        }
        float y = $(piece("affine", "sum * scale + bias")) + residual;
        y = $(piece("units", "y / *args->out_scale"));
        out[row * COUT + co] = (signed char)(int)
            $(piece("saturated", "whole_of(y < -128 ? -128 : y > 127 ? 127 : y)"));
    }
    if (row >= 0) {
        $(piece("after", ""))
    }
}

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * 64;

    for (int p = first; first >= 0 && p < first + 64; p++)
        convolve(args, p);
}

void spc_pack(const spc_pack_args *args, unsigned x, unsigned y)
{
    const signed char *weights = (const signed char *)args->weights;
    long k = x / CIN, ci = x % CIN;

    if (k >= OFFSETS)
        return;
    weights += k * args->stride_k + ci * args->stride_in;
    for (int co = 0; co < COUT; co++)
        ((signed char *)args->packed)[(long)x * COUT + co] =
            weights[co * args->stride_out];
}
