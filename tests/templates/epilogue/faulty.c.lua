%-- Plain loops in fp32 with an epilogue, correct or with one fault.
%include "operands.lua"
%
%-- The code in which each fault differs from the correct version.
%local faults = {
%  none = {},
%  scale_of_the_next = {scale = "args->scale[(co + 1) % COUT]"},
%  scale_dropped = {scale = "1"},
%  bias_before_scale = {affine = "(sum + bias) * scale"},
%  bias_dropped = {bias = "0"},
%  activation_dropped = {act = "y"},
%  activation_of_another = {act = "y < 0 ? 0.01f * y : y"},
%  residual_dropped = {residual = "0"},
%  residual_of_the_next = {residual = "added[row * ADD_PITCH + (co + 1) % COUT]"},
%  residual_without_gaps = {residual = "added[row * COUT + co]"},
%  residual_too_early = {early = "residual", late = "0"},
%  output_without_gaps = {at = "row * COUT + co"},
%  gap_written = {after = "out[row * OUT_PITCH + COUT] = 0;"},
%  input_without_gaps = {from = "from * CIN + ci"},
%  residual_written = {after = "((float *)args->residual)[row * ADD_PITCH] += 1;"},
%  scale_written = {after = "((float *)args->scale)[0] = 2;"},
%}
%local names = {"none"}
%for name in pairs(faults) do
%  if name ~= "none" then names[#names + 1] = name end
%end
%function piece(name, right) return faults[config.fault][name] or right end
%
%template = {
%  summary = "an epilogue with a fault",
%  role = "conv",
%  device = "cpu",
%  params = {{"fault", names, "what is wrong"}},
%  accepts = function(problem)
%    if problem.dtype ~= "f32" then return false, "f32 only" end
%    return true
%  end,
%  launch = function(problem)
%    return {
%      block = 1, shared = 0, grid = "tiles", tile_rows = 64,
%      order = "none", pack_threads = problem.offsets * problem.cin,
%      packed_bytes = problem.offsets * problem.cin * problem.cout * 4,
%    }
%  end,
%  default = function() return {fault = "none"} end,
%}
#define SPC_LANES 4
#include "spc_cpu.h"

enum {
    CIN = $(problem.cin),
    COUT = $(problem.cout),
    IN_PITCH = $(problem.in_pitch or problem.cin),
    OUT_PITCH = $(out_pitch(problem)),
    ADD_PITCH = $(add_pitch(problem)),
    OFFSETS = $(problem.offsets)
};

% write_activation("static")
static void convolve(const spc_conv_args *args, int p)
{
    const spc_map_view *map = &args->map;
    const float *weights = (const float *)args->weights;
    const float *in = (const float *)args->in;
    const float *added = (const float *)args->residual;
    float *out = (float *)args->out;
    long row = map->order[p];

    for (int co = 0; row >= 0 && co < COUT; co++) {
        float sum = 0, scale = $(piece("scale", "args->scale[co]"));
        float bias = $(piece("bias", "args->bias[co]"));
        float residual = $(piece("residual", "added[row * ADD_PITCH + co]"));
        for (long k = 0; k < OFFSETS; k++) {
            long from = map->index[k * map->rows_padded + p];
            for (int ci = 0; from >= 0 && ci < CIN; ci++)
                sum += in[$(piece("from", "from * IN_PITCH + ci"))] *
                       weights[(k * CIN + ci) * COUT + co];
        }
        float y = $(piece("affine", "sum * scale + bias"));
        y += $(piece("early", "0"));
        out[$(piece("at", "row * OUT_PITCH + co"))] =
            $(piece("act", "activate(y)")) + $(piece("late", "residual"));
    }
    if (row >= 0 && row + 1 < map->rows) {
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
    const float *weights = (const float *)args->weights;
    long k = x / CIN, ci = x % CIN;

    if (k >= OFFSETS)
        return;
    weights += k * args->stride_k + ci * args->stride_in;
    for (int co = 0; co < COUT; co++)
        ((float *)args->packed)[(long)x * COUT + co] =
            weights[co * args->stride_out];
}
