%-- Ceilings of a GPU: copying, gathering out of cache, the matrix units.
%template = {
%  summary = "measures copy, gather and matrix rates of a GPU",
%  role = "measure",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "measure" then return false, "measures the device only" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target)
%    return {wgmma = target.target == "sm_90a", mma_tf32 = target.sm >= 80}
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_device.cuh"
#include "spc_measure.h"

SPC_KERNEL(spc_empty, spc_measure_args, 256, 1)
{
    (void)args;
}

SPC_KERNEL(spc_copy, spc_measure_args, 256, 1)
{
    const spc_b16 *from = (const spc_b16 *)args->from;
    spc_b16 *to = (spc_b16 *)args->to;
    long long step = (long long)args->blocks * 256;
    long long i = (long long)spc_block_x() * 256 + spc_thread();

    for (; i + 7 * step < args->items; i += 8 * step) {
        spc_b16 v[8];
        SPC_UNROLL
        for (int j = 0; j < 8; j++)
            v[j] = spc_load16(from + i + j * step);
        SPC_UNROLL
        for (int j = 0; j < 8; j++)
            spc_store16(to + i + j * step, v[j]);
    }
    for (; i < args->items; i += step)
        spc_store16(to + i, spc_load16(from + i));
}

/* Each pass begins elsewhere in the list, so that no block finds in its own
 * first-level cache what it read before. */
SPC_KERNEL(spc_gather, spc_measure_args, 256, 1)
{
    const spc_b16 *from = (const spc_b16 *)args->from;
    long long thread = (long long)spc_block_x() * 256 + spc_thread();
    long long slots = (long long)args->blocks * 256 >> args->row_shift;
    long long slot = thread >> args->row_shift, mask = args->items - 1;
    int part = (int)(thread & ((1 << args->row_shift) - 1));
    long long bytes = (args->items + 8 * slots - 1) / (8 * slots) * 8 * 256 * 16;
    spc_u32 sum = 0;

    for (int pass = 0; pass < args->repeat; pass++) {
        long long first = slot + (long long)pass * 40503 * 64;
        for (long long i = 0; i < args->items; i += 8 * slots) {
            int row[8];
            spc_b16 v[8];
            for (int j = 0; j < 8; j++)
                row[j] = spc_load_int(args->rows +
                                      ((first + i + j * slots) & mask));
            for (int j = 0; j < 8; j++)
                v[j] = spc_load16(from +
                                  ((long long)row[j] << args->row_shift) +
                                  part);
            for (int j = 0; j < 8; j++)
                sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
        }
    }
    if (sum == 0x5bc0ffeeu)
        ((spc_u32 *)args->to)[0] = sum;
    if (spc_thread() == 0)
        args->work[spc_block_x()] = bytes * args->repeat;
}

/* Operands of random signs and digits near 1/16: zeros would cost less power
 * than real work does, and so run at a higher clock. */
SPC_DEVICE spc_u32 noise(int seed, spc_u32 fixed, spc_u32 free)
{
    spc_u32 v = ((spc_u32)seed + 1u) * 2654435761u;
    v ^= v >> 15;
    return fixed | ((v * 2246822519u) & free);
}

%for _, kind in ipairs({"f16", "tf32"}) do
% local bits = kind == "f16" and "0x2c002c00u, 0x83ff83ffu" or "0x3d000000u, 0x807fe000u"
% local k = kind == "f16" and 16 or 8
% if wgmma then
/* One warpgroup a block; the second operand stays where it is. */
SPC_KERNEL(spc_rate_$(kind), spc_measure_args, 128, 1)
{
    spc_u8 *shared = spc_shared();
    spc_u32 a[4];
    float d[128], sum = 0;

    for (int i = spc_thread(); i < 8192 / 4; i += 128)
        ((spc_u32 *)shared)[i] = noise(i, $(bits));
    for (int i = 0; i < 4; i++)
        a[i] = noise(spc_thread() * 4 + i, $(bits));
    for (int i = 0; i < 128; i++)
        d[i] = 0;
    spc_fence_async();
    spc_sync_block();
    spc_u64 b = spc_wgmma_descriptor(shared, 128, 256);
    for (int pass = 0; pass < args->repeat; pass++) {
        spc_wgmma_fence();
%   for i = 1, 4 do
        spc_wgmma_256_$(kind)(d, a, b, 1);
%   end
        spc_wgmma_commit();
        spc_wgmma_wait(0);
    }
    for (int i = 0; i < 128; i++)
        sum += d[i];
    if (sum == 1.5f)
        ((float *)args->to)[0] = sum;
    if (spc_thread() == 0)
        args->work[spc_block_x()] =
            (long long)args->repeat * $(4 * 2 * 64 * 256 * k);
}
% elseif kind == "f16" or mma_tf32 then
/* Eight independent products a warp hide the latency of each. */
SPC_KERNEL(spc_rate_$(kind), spc_measure_args, 128, 1)
{
    spc_u32 a[4], b[2];
    float d[8][4], sum = 0;

    for (int i = 0; i < 4; i++)
        a[i] = noise(spc_thread() * 4 + i, $(bits));
    for (int i = 0; i < 2; i++)
        b[i] = noise(spc_thread() * 2 - i, $(bits));
    for (int i = 0; i < 32; i++)
        d[i / 4][i % 4] = 0;
    for (int pass = 0; pass < args->repeat; pass++) {
%   for i = 0, 31 do
        spc_mma_$(kind)(d[$(i % 8)], a, b);
%   end
    }
    for (int i = 0; i < 32; i++)
        sum += d[i / 4][i % 4];
    if (sum == 1.5f)
        ((float *)args->to)[0] = sum;
    if (spc_thread() == 0)
        args->work[spc_block_x()] =
            (long long)args->repeat * $(32 * 4 * 2 * 16 * 8 * k);
}
% end

%end
SPC_KERNEL(spc_rate_f32, spc_measure_args, 128, 1)
{
    float d[16], sum = 0;
    float a = (float)args->row_shift, b = a + 0.5f;

    for (int i = 0; i < 16; i++)
        d[i] = (float)i;
    for (int pass = 0; pass < args->repeat; pass++) {
%for i = 0, 127 do
        d[$(i % 16)] = spc_fma(d[$(i % 16)], a, b);
%end
    }
    for (int i = 0; i < 16; i++)
        sum += d[i];
    if (sum == 1.5f)
        ((float *)args->to)[0] = sum;
    if (spc_thread() == 0)
        args->work[spc_block_x()] =
            (long long)args->repeat * $(128 * 2 * 128);
}
